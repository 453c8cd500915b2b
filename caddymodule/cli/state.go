package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

// stateCommand returns a command that makes one change to a preset and says so. The request of the change
// lacks its path before the slug, and gets the arguments of the command.
func stateCommand(use, short, long string, change func(args []string) (method string, body any), said string) *cobra.Command {
	var c changer
	cmd := &cobra.Command{
		Use:   use + " [--override <owner>] [--json]",
		Short: short,
		Long:  long,
		Args:  cobra.ExactArgs(strings.Count(use, "<")),
		RunE: c.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			method, body := change(args)
			before, response, err := c.change(cmd, a, args[0], client.Request{Method: method, Path: client.PresetPath(args[0])}, body)
			if before.Status == domain.PresetDisabled && client.IsStatus(err, http.StatusConflict) {
				err = fmt.Errorf("%w, with: caddy presets enable %s", err, args[0])
			}
			if err != nil {
				return err
			}
			return c.report(cmd, response, strings.NewReplacer("<slug>", args[0], "<name>", args[len(args)-1], "<before>", before.Name).Replace(said))
		}),
		ValidArgsFunction: c.completeArgs(slugs),
	}
	c.flags(cmd)
	return takesReference(cmd, nowhere)
}

// patch returns the change that sets a member of a preset.
func patch(member string, value func(args []string) string) func([]string) (string, any) {
	return func(args []string) (string, any) { return http.MethodPatch, map[string]string{member: value(args)} }
}

func setStatus(to domain.PresetStatus) func([]string) (string, any) {
	return patch("status", func([]string) string { return string(to) })
}

func stateCommands() []*cobra.Command {
	return []*cobra.Command{
		stateCommand("rename <slug> <name>", "Changes the name of a preset", `
Changes the name of a preset, which lists show. Its slug, which requests name, stays.`,
			patch("name", func(args []string) string { return args[1] }), "Preset <slug> is named <name>, before it was <before>."),
		stateCommand("disable <slug>", "Stops a preset from serving requests", `
Stops a preset from serving requests: one that names it gets a 404. The preset takes no new
versions, and stays in lists. "caddy presets enable" ends that.`,
			setStatus(domain.PresetDisabled), "Preset <slug> is disabled: requests that name it get a 404."),
		stateCommand("enable <slug>", "Lets a disabled preset serve requests again", `
Lets a disabled preset serve requests and take versions again.`,
			setStatus(domain.PresetActive), "Preset <slug> is active."),
		stateCommand("archive <slug>", "Takes a preset out of use and of lists", `
Takes a preset out of use and of lists, and keeps all of it, with its slug. "caddy presets preset
restore" brings it back, and "caddy presets list --status archived" finds it.`,
			func([]string) (string, any) { return http.MethodDelete, nil }, "Preset <slug> is archived. This brings it back: caddy presets preset restore <slug>"),
	}
}

// presetCommand has restore, which means a backup without it.
func presetCommand() *cobra.Command {
	var c changer
	restore := &cobra.Command{
		Use:   "restore <slug> [--override <owner>] [--json]",
		Short: "Brings an archived preset back",
		Long: `
Brings an archived preset back as it was, with its versions and labels. A preset that is active
stays as it is. To restore a backup of the store, see "caddy presets restore".`,
		Args: cobra.ExactArgs(1),
		RunE: c.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			if err := domain.CheckPresetSlug(args[0]); err != nil {
				return err
			}
			header, err := c.header() // an archived preset cannot be read, so it has no condition
			if err != nil {
				return err
			}
			response, err := a.change(cmd.Context(), client.Request{Method: http.MethodPost, Path: client.PresetPath(args[0], "restore"), Header: header}, nil)
			if err != nil {
				return withOwner(err, args[0])
			}
			return c.report(cmd, response, fmt.Sprintf("Preset %s is active.", args[0]))
		}),
		ValidArgsFunction: c.completeArgs(archivedSlugs),
	}
	c.flags(restore)
	preset := &cobra.Command{Use: "preset <command>", Short: "Restores an archived preset", Long: "\nHas restore, because \"caddy presets restore\" is for backups of the store."}
	preset.AddCommand(takesReference(restore, nowhere))
	RefuseUnknown(preset)
	return preset
}
