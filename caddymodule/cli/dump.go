package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

func dumpCommand() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "dump [<dir>] [--workspace <workspace>] [--json]",
		Short: "Writes the presets of a server as files",
		Long: `
Writes the presets of all workspaces that the key sees into the folder "presets", or
<dir>. Archived presets are left out.

Files that mean the same already stay as they are. In others only what differs changes,
and comments stay. Files of presets that the server does not have stay, too.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeFolder,
		RunE: t.explained(func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd)
			if err != nil {
				return err
			}
			set, err := plan.Dump(cmd.Context(), c, t.workspace)
			if err != nil {
				return err
			}
			folder := folderIn(args)
			written, err := files.Write(folder, set)
			if t.asJSON {
				if written == nil {
					written = []string{}
				}
				if err := writeJSON(cmd.OutOrStdout(), written, ""); err != nil {
					return err
				}
			} else {
				for _, name := range written {
					fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(name))
				}
			}
			presets := 0
			for _, w := range set.Workspaces {
				presets += len(w.Presets)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "presets: %d, files that changed in %s: %d\n", presets, terminal.Escape(folder), len(written))
			return err
		}),
	}
	t.managementFlags(cmd)
	cmd.Flags().StringVar(&t.workspace, "workspace", "", "The slug or id of the only workspace to dump; default: all that the key sees")
	completeFlag(cmd, "workspace", t.complete(workspaces))
	return cmd
}
