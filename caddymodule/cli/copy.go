package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

type copier struct {
	target
	toServer, toKeyFile, toWorkspace string
	newVersion                       bool
}

func copyCommand() *cobra.Command {
	var c copier
	copying := &cobra.Command{
		Use:   "copy <slug> --to-workspace <workspace> | --to-server <origin> --to-key-file <file> [--new-version] [--json]",
		Short: "Copies a preset to another workspace or server",
		Long: `
Copies a preset with its name, description, status, policy, and the designated version, which is
version 1 there, with its labels. The copy has no owner and no protection.

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
	flags.BoolVar(&c.newVersion, "new-version", false, "Add the designated version to a preset that exists there")
	copying.MarkFlagsOneRequired("to-workspace", "to-server")
	copying.MarkFlagsRequiredTogether("to-server", "to-key-file")
	_ = copying.MarkFlagFilename("to-key-file") // fails for an unknown flag only
	return takesReference(copying, nowhere)
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
	switch {
	case err == nil && c.newVersion:
		return c.addVersion(cmd, to, source, existing, found)
	case err == nil:
		return fmt.Errorf("preset %s exists there already: --new-version adds a version to it", slug)
	case c.newVersion || !client.IsStatus(err, http.StatusNotFound):
		return err
	}
	number, err := to.addCopy(ctx, source, cmd.ErrOrStderr())
	if err != nil {
		if number > 0 {
			err = fmt.Errorf("the copy is incomplete and active: %w", err)
		}
		return err
	}
	var response *client.Response
	if c.asJSON {
		if _, response, err = to.preset(ctx, slug); err != nil {
			return err
		}
	}
	return c.report(cmd, response, fmt.Sprintf("Preset %s is copied: version %d is now version %d there.", slug, source.DesignatedVersion, number))
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

// addCopy makes a copy of a preset, and returns the number of its version, 0 if that was not made. Only the
// first request has a condition, because nobody else uses a preset that is just made. Messages name labels
// that are left out.
func (a api) addCopy(ctx context.Context, source client.Preset, messages io.Writer) (number int, err error) {
	made, _, err := a.add(ctx, source.Slug, source.Designated, false, http.Header{"If-None-Match": {"*"}})
	if client.IsStatus(err, http.StatusPreconditionFailed) || client.IsStatus(err, http.StatusConflict) {
		return 0, fmt.Errorf("preset %s exists there already, and may be archived", source.Slug)
	}
	if err != nil {
		return made.Version, err
	}
	for _, name := range slices.Sorted(maps.Keys(source.Labels)) {
		label := source.Labels[name]
		if err := domain.CheckLabel(name); err != nil {
			return made.Version, err
		}
		if label.Version != source.DesignatedVersion {
			fmt.Fprintf(messages, "Label %s is left out: it stands for %s.\n", terminal.Escape(name), targetText(label))
			continue
		}
		put := client.Request{Method: http.MethodPut, Path: client.PresetPath(source.Slug, "labels", name)}
		if _, err := a.change(ctx, put, domain.Target{Version: made.Version}); err != nil {
			return made.Version, fmt.Errorf("label %s: %w", name, err)
		}
	}
	patch := make(map[string]any)
	if source.Name != source.Slug {
		patch["name"] = source.Name
	}
	if source.Description != nil {
		patch["description"] = source.Description
	}
	if len(source.Tags) > 0 {
		patch["tags"] = source.Tags
	}
	if isSet(source.Policy) {
		patch["policy"] = source.Policy
	}
	if isSet(source.Limits) {
		patch["limits"] = source.Limits
	}
	if source.Status == domain.PresetDisabled {
		patch["status"] = source.Status
	}
	if len(patch) > 0 { // last, since a disabled preset takes no versions
		_, err = a.change(ctx, client.Request{Method: http.MethodPatch, Path: client.PresetPath(source.Slug)}, patch)
	}
	return made.Version, err
}
