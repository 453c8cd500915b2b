package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

// copier copies a preset to another workspace, or to another server.
type copier struct {
	target
	toServer, toKeyFile, toWorkspace string
	all, newVersion                  bool
}

func copyCommand() *cobra.Command {
	var c copier
	copying := &cobra.Command{
		Use:   "copy <slug> --to-workspace <workspace> | --to-server <origin> --to-key-file <file> [--all-versions | --new-version] [--json]",
		Short: "Copies a preset to another workspace or server",
		Long: `
Copies a preset with its name, description, status, policy, labels and designated version.
--all-versions copies all versions; they are numbered from 1 again. Labels of versions that are
not copied are left out. The copy has no owner and no protection.

A preset that exists there is never overwritten. --new-version adds the designated version to it
and designates it, and leaves all else there as it is.`,
		Example: `  $ caddy presets copy email-copywriter --to-workspace team
  $ caddy presets copy email-copywriter --to-server https://staging.example.com --to-key-file staging.key`,
		Args: cobra.ExactArgs(1),
		RunE: c.explained(func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args[0])
		}),
		ValidArgsFunction: c.completeArgs(slugs),
	}
	c.flags(copying)
	flags := copying.Flags()
	flags.StringVar(&c.toWorkspace, "to-workspace", "", "The slug or id of the other workspace")
	flags.StringVar(&c.toServer, "to-server", "", "The origin of the other server")
	flags.StringVar(&c.toKeyFile, "to-key-file", "", "File with the management key of the other server")
	flags.BoolVar(&c.all, "all-versions", false, "Copy all versions, oldest first")
	flags.BoolVar(&c.newVersion, "new-version", false, "Add the designated version to a preset that exists there")
	copying.MarkFlagsOneRequired("to-workspace", "to-server")
	copying.MarkFlagsRequiredTogether("to-server", "to-key-file")
	copying.MarkFlagsMutuallyExclusive("all-versions", "new-version")
	_ = copying.MarkFlagFilename("to-key-file") // fails for an unknown flag only
	return copying
}

func (c *copier) destination(cmd *cobra.Command, from api) (to api, err error) {
	to = from
	if to.workspace = c.toWorkspace; c.toServer == "" {
		return to, nil
	}
	there := *from.Client
	there.Origin = c.toServer
	there.Key, err = readKey(cmd, "to-key-file", c.toKeyFile, "")
	return api{&there, place{c.toServer, c.toWorkspace, c.toKeyFile}}, err
}

func (c *copier) run(cmd *cobra.Command, slug string) error {
	if c.keyFile == "-" && c.toKeyFile == "-" {
		return errors.New("--key-file and --to-key-file cannot both be standard input")
	}
	from, err := c.api(cmd)
	if err != nil {
		return err
	}
	to, err := c.destination(cmd, from)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	source, _, err := from.preset(ctx, slug)
	if err != nil {
		return err
	}
	source.Slug = slug // not what a hostile server calls it
	existing, found, err := to.preset(ctx, slug)
	exists := err == nil
	switch {
	case err != nil && !client.IsStatus(err, http.StatusNotFound), err != nil && c.newVersion:
		return err
	case exists && !c.newVersion:
		return fmt.Errorf("preset %s exists there already: --new-version adds a version to it", slug)
	}
	if c.newVersion {
		return c.addVersion(cmd, to, source, existing, found)
	}
	made := copied{to: to, source: source, from: from, numbers: make(map[int]int), messages: cmd.ErrOrStderr()}
	switch err := made.run(ctx, c.all); {
	case err != nil && len(made.numbers) > 0:
		return fmt.Errorf("the copy is incomplete and active (versions copied: %d): %w", len(made.numbers), err)
	case err != nil:
		return err
	}
	sentence := fmt.Sprintf("Preset %s is copied: version %d is now version %d there.", slug, source.DesignatedVersion, made.numbers[source.DesignatedVersion])
	if c.all {
		sentence += fmt.Sprintf(" Versions copied: %d.", len(made.numbers))
	}
	var response *client.Response
	if c.asJSON {
		if _, response, err = to.preset(ctx, slug); err != nil {
			return err
		}
	}
	return c.report(cmd, response, sentence)
}

// addVersion adds the designated version of a preset to another one, unless that has it.
func (c *copier) addVersion(cmd *cobra.Command, to api, source, existing client.Preset, found *client.Response) error {
	response := found
	sentence := fmt.Sprintf("Preset %s has the same designated version there already.", source.Slug)
	if !files.SameCapture(source.Designated.Capture(), existing.Designated.Capture()) {
		var made client.Version
		var err error
		if made, response, err = to.add(cmd.Context(), source.Slug, source.Designated, false, http.Header{"If-Match": {found.Tag()}}); err != nil {
			return err
		}
		sentence = fmt.Sprintf("Version %d of %s is now version %d there.", source.DesignatedVersion, source.Slug, made.Version)
	}
	return c.report(cmd, response, sentence)
}

// add makes a version of a preset if a condition holds. A nil condition is none. The version that was
// made is there, too, if the server stored another one.
func (a api) add(ctx context.Context, slug string, v client.Version, isDraft bool, condition http.Header) (made client.Version, response *client.Response, err error) {
	if !v.Dialect.Valid() {
		return made, nil, fmt.Errorf("version %d is for the API %q, which this program does not know", v.Version, v.Dialect)
	}
	if v.Template != nil {
		if err := v.Template.Check(); err != nil {
			return made, nil, err
		}
	}
	version := files.NewVersion(v.Dialect, v.Config, v.SystemPrompt, v.Template)
	r := plan.VersionRequest(slug, &version, domain.ValueOr(v.Message, ""), isDraft)
	maps.Copy(r.Query, a.query())
	r.Header = condition
	if response, err = a.change(ctx, r, nil); err == nil {
		made, err = plan.MadeVersion(response, &version)
	}
	return made, response, err
}

// copied is a copy in the making. Only its first request has a condition: nobody else uses a
// preset that is just made.
type copied struct {
	from, to api
	source   client.Preset
	// numbers has the number of each version's copy, by the number of the version.
	numbers  map[int]int
	messages io.Writer
}

func (c *copied) run(ctx context.Context, all bool) error {
	for name := range c.source.Labels {
		if err := domain.CheckLabel(name); err != nil {
			return err
		}
	}
	copyVersions := c.versions
	if !all {
		c.leaveOutLabels()
		copyVersions = func(ctx context.Context) error { return c.version(ctx, c.source.Designated) }
	}
	if err := copyVersions(ctx); err != nil {
		return err
	}
	return c.describe(ctx)
}

// leaveOutLabels leaves out the labels of other versions than the designated one.
func (c *copied) leaveOutLabels() {
	kept := make(map[string]domain.Target)
	for _, name := range slices.Sorted(maps.Keys(c.source.Labels)) {
		label := c.source.Labels[name]
		if slices.ContainsFunc(shares(label), func(share domain.Share) bool { return share.Version != c.source.DesignatedVersion }) {
			fmt.Fprintf(c.messages, "Label %s is left out: it stands for %s, and --all-versions copies all versions.\n", terminal.Escape(name), targetText(label))
		} else {
			kept[name] = label
		}
	}
	c.source.Labels = kept
}

// versions copies all versions, oldest first. It holds one at a time. It tells if the server there
// has removed copies again.
func (c *copied) versions(ctx context.Context) error {
	summaries, err := c.from.summaries(ctx, c.source.Slug)
	if err != nil {
		return err
	}
	for summary, err := range client.Decoded[client.Version](summaries) {
		if err != nil {
			return err
		}
		v, _, err := c.from.version(ctx, c.source.Slug, summary.Version)
		if err != nil {
			return err
		}
		if err := c.version(ctx, v); err != nil {
			return err
		}
	}
	wanted := []domain.Share{{Version: c.source.DesignatedVersion}}
	for _, label := range c.source.Labels {
		wanted = append(wanted, shares(label)...)
	}
	for _, share := range wanted {
		if c.numbers[share.Version] == 0 {
			return fmt.Errorf("version %d was removed meanwhile", share.Version)
		}
	}
	response, err := c.to.get(ctx, client.PresetPath(c.source.Slug, "versions"), c.to.query("fields", "summary", "limit", "1"))
	if err == nil && response.Total < len(c.numbers) {
		fmt.Fprintf(c.messages, "The server there keeps %d of %d versions.\n", response.Total, len(c.numbers))
	}
	return err
}

// version copies a version with its labels. The first one makes the preset. The others are
// drafts, but for the designated one.
func (c *copied) version(ctx context.Context, v client.Version) error {
	var condition http.Header
	isFirst := len(c.numbers) == 0
	if isFirst {
		condition = http.Header{"If-None-Match": {"*"}}
	}
	made, _, err := c.to.add(ctx, c.source.Slug, v, !isFirst && v.Version != c.source.DesignatedVersion, condition)
	if made.Version > 0 {
		c.numbers[v.Version] = made.Version
	}
	switch {
	case isFirst && (client.IsStatus(err, http.StatusPreconditionFailed) || client.IsStatus(err, http.StatusConflict)):
		return fmt.Errorf("preset %s exists there already, and may be archived", c.source.Slug)
	case err != nil:
		return fmt.Errorf("version %d: %w", v.Version, err)
	}
	return c.labels(ctx, v.Version)
}

// describe copies the name, the description, the policy and the status, as far as there are any. It is
// last, since a disabled preset takes no versions.
func (c *copied) describe(ctx context.Context) error {
	patch := make(map[string]any)
	if c.source.Name != c.source.Slug {
		patch["name"] = c.source.Name
	}
	if c.source.Description != nil {
		patch["description"] = c.source.Description
	}
	if isSet(c.source.Policy) {
		patch["policy"] = c.source.Policy
	}
	if c.source.Status == domain.PresetDisabled {
		patch["status"] = c.source.Status
	}
	if len(patch) == 0 {
		return nil
	}
	return c.change(ctx, client.Request{Method: http.MethodPatch, Path: client.PresetPath(c.source.Slug)}, patch)
}

// labels sets the labels whose versions are all copied now. The next version may remove a copy
// without a label.
func (c *copied) labels(ctx context.Context, number int) error {
	for _, name := range slices.Sorted(maps.Keys(c.source.Labels)) {
		label := c.source.Labels[name]
		newest := slices.MaxFunc(shares(label), func(a, b domain.Share) int { return cmp.Compare(a.Version, b.Version) }).Version
		if newest != number {
			continue
		}
		if err := c.change(ctx, client.Request{Method: http.MethodPut, Path: client.PresetPath(c.source.Slug, "labels", name)}, c.moved(label)); err != nil {
			return err
		}
	}
	return nil
}

// moved returns the target of a label's copy.
func (c *copied) moved(label domain.Target) domain.Target {
	moved := domain.Target{Version: c.numbers[label.Version]}
	for _, share := range label.Split {
		moved.Split = append(moved.Split, domain.Share{Version: c.numbers[share.Version], Weight: share.Weight})
	}
	return moved
}

func shares(of domain.Target) []domain.Share {
	if len(of.Split) > 0 {
		return of.Split
	}
	return []domain.Share{{Version: of.Version}}
}

func (c *copied) change(ctx context.Context, r client.Request, body any) error {
	if _, err := c.to.change(ctx, r, body); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(r.Path, "/presets/"), err)
	}
	return nil
}
