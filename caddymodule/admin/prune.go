package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

type pruneRequest struct {
	// Keep is nil for keep_versions of the configuration.
	Keep *int `json:"keep,omitzero"`
	// UnusedFor is a duration as in a Caddyfile, such as 90d, or empty.
	UnusedFor string `json:"unused_for,omitzero"`
	Workspace string `json:"workspace,omitzero"`
	Preset    string `json:"preset,omitzero"`
	Versions  []int  `json:"versions,omitempty"`
	Erase     bool   `json:"erase,omitzero"`
	DryRun    bool   `json:"dry_run,omitzero"`
}

// pruneResult is the answer, with the versions that were removed or would be.
type pruneResult struct {
	Keep    int             `json:"keep"`
	DryRun  bool            `json:"dry_run"`
	Presets []domain.Pruned `json:"presets"`
	Total   int             `json:"total_count"` // of versions
	// Disk says when the disk space of removed versions is free again.
	Disk string `json:"disk,omitzero"`
}

func pruneVersions(r request) (any, error) {
	var in pruneRequest
	if err := r.read(&in); err != nil {
		return nil, err
	}
	on := domain.Pruning{Workspace: in.Workspace, Preset: in.Preset, Versions: in.Versions, Erase: in.Erase, DryRun: in.DryRun}
	switch isChosen := in.Erase || in.Versions != nil; {
	case isChosen && (in.Keep != nil || in.UnusedFor != "" || in.Erase && in.Versions != nil):
		return nil, badRequest("keep and unused_for choose versions, and versions and erase do that, too: give one of them")
	case isChosen:
	case in.Keep != nil:
		on.Keep = *in.Keep
	default:
		var err error
		if on.Keep, err = keepVersions(r.live); err != nil {
			return nil, err
		}
		if on.Keep == 0 && in.UnusedFor == "" {
			return nil, badRequest("keep: must be given, since the configuration has no keep_versions")
		}
		on.Keep = max(on.Keep, 1)
	}
	if in.UnusedFor != "" {
		var err error
		if on.UnusedSince, err = unusedSince(r, in.UnusedFor); err != nil {
			return nil, err
		}
	}
	pruned, err := r.Service.PruneVersions(r.Context(), operator, on)
	result := pruneResult{Keep: on.Keep, DryRun: on.DryRun, Presets: pruned}
	for _, p := range pruned {
		result.Total += p.Count
	}
	if err != nil {
		if result.Total > 0 {
			err = fmt.Errorf("%v, and then: %w", result, err)
		}
		return nil, err
	}
	if adviser, ok := r.Store.(engine.RemovalAdviser); ok && result.Total > 0 && !on.DryRun {
		result.Disk = adviser.AfterRemoval()
	}
	return result, nil
}

// unusedSince returns since when a version must be unused, once the store has the latest usage.
func unusedSince(r request, age string) (time.Time, error) {
	unused, err := caddy.ParseDuration(age)
	if err != nil || unused < time.Hour {
		return time.Time{}, badRequest("unused_for: must be a duration of at least an hour, such as 90d")
	}
	uses := r.live.Uses()
	measures := func(u *registry.Use) bool { return u.StoreUsage != nil }
	last := slices.IndexFunc(uses, measures)
	if last < 0 || slices.ContainsFunc(uses, func(u *registry.Use) bool { return u.Inference && !measures(u) }) {
		return time.Time{}, badRequest("unused_for: every site of this store with inference must have usage, which tells what was served")
	}
	if err := uses[last].StoreUsage(r.Context()); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-unused), nil
}

// keepVersions returns the keep_versions of all sites of a store, 0 for all, if they agree.
func keepVersions(store *registry.Store) (int, error) {
	var all []int
	for _, u := range store.Uses() {
		all = append(all, u.KeepVersions)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 1 {
		return 0, badRequest("keep: must be given, since the sites of this store do not have the same keep_versions: %v, where 0 stands for all", all)
	}
	return all[0], nil
}

func (r pruneResult) String() string {
	removed := "versions removed"
	if r.DryRun {
		removed = "versions that would be removed"
	}
	return fmt.Sprintf("%s: %d, of presets: %d", removed, r.Total, len(r.Presets))
}

func pruneCommand() *cobra.Command {
	var (
		target client
		in     pruneRequest
		keep   int
	)
	prune := &cobra.Command{
		Use:   "prune [--keep <count>] [--unused-for <duration>] [--workspace <slug>] [--preset <slug> [--version <number>]] [--dry-run]",
		Short: "Removes old versions of presets, for good",
		Long: `
Removes old versions of presets, also of archived and disabled ones, and prints them. The newest
versions stay, and so do designated and labelled ones.

--keep is the number of the newest versions that stay, by default keep_versions of the
configuration. With --unused-for, versions stay that were served within that time, or made within
it and never served. The server needs the block usage for that.

With --version, which may be repeated, these versions of the preset are removed, and no others. A
designated or labelled one is refused. The text of a removed version stays in backups and logs, and
on the disk for a while: docs/erase.md says where, and what ends it.

Many versions of one preset are removed in several changes, between which others may write. The
last line says when the disk space is free again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("keep") {
				in.Keep = &keep
			}
			return removeVersions(cmd, &target, in)
		},
	}
	target.flags(prune)
	flags := prune.Flags()
	flags.IntVar(&keep, "keep", 0, "The number of the newest versions of each preset that stay; default: keep_versions of the configuration, or 1 with --unused-for")
	flags.StringVar(&in.UnusedFor, "unused-for", "", "The time for which a removed version was not served, such as 90d; default: any")
	flags.StringVar(&in.Workspace, "workspace", "", "The slug or id of the one workspace to look in; default: all, or the default one with --preset")
	flags.StringVar(&in.Preset, "preset", "", "The slug of the one preset to look at; default: all")
	flags.IntSliceVar(&in.Versions, "version", nil, "The number of a version of the preset to remove; may be repeated")
	flags.BoolVar(&in.DryRun, "dry-run", false, "Print what would be removed, and remove nothing")
	return prune
}

func eraseCommand() *cobra.Command {
	var target client
	var yes bool
	in := pruneRequest{Erase: true}
	erase := &cobra.Command{
		Use:   "erase --preset <slug> [--workspace <slug>] [--yes]",
		Short: "Removes a preset with all that it has, for good",
		Long: `
Removes a preset of any status with its versions, labels and policy, for good. Its slug is free
again. Without --yes it prints what would be removed. Requests that name the preset get a 404.

The audit trail keeps the slug, and the messages of versions. The text of the versions stays in
backups and logs, and on the disk for a while: docs/erase.md says where, and what ends it. To take
a preset out of use only, see "caddy presets archive".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in.DryRun = !yes
			if err := removeVersions(cmd, &target, in); err != nil || yes {
				return err
			}
			return errors.New("nothing was erased: say --yes")
		},
	}
	target.flags(erase)
	flags := erase.Flags()
	flags.StringVar(&in.Preset, "preset", "", "The slug of the preset")
	flags.StringVar(&in.Workspace, "workspace", "", "The slug or id of its workspace; default: default")
	flags.BoolVar(&yes, "yes", false, "Erase it")
	_ = erase.MarkFlagRequired("preset") // fails for an unknown flag only
	return erase
}

// removeVersions sends a request and prints its result. The preset may be named as in requests.
func removeVersions(cmd *cobra.Command, target *client, in pruneRequest) error {
	if in.Preset != "" {
		slug, version, err := cli.SplitReference(in.Preset)
		if err != nil {
			return err
		}
		if in.Preset = slug; version != "" {
			number, ok := domain.ParseNumber(version)
			if !ok || in.Erase {
				return fmt.Errorf("--preset takes no version %s: name the preset alone, as %s", version, slug)
			}
			in.Versions = append(in.Versions, number)
		}
	}
	result, err := call[pruneResult](target, http.MethodPost, Path+"prune", in)
	if err != nil {
		return err
	}
	return printPruned(cmd.OutOrStdout(), result)
}

func printPruned(w io.Writer, result pruneResult) error {
	if result.Total > 0 {
		table := terminal.NewTable(w)
		table.Row("WORKSPACE", "PRESET", "COUNT", "VERSIONS")
		for _, p := range result.Presets {
			table.Row(p.WorkspaceSlug, p.Slug, strconv.Itoa(p.Count), p.Versions)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w, result); err != nil || result.Disk == "" {
		return err
	}
	_, err := fmt.Fprintln(w, "disk:", result.Disk)
	return err
}
