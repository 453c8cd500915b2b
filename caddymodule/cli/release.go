package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

func releaseCommand() *cobra.Command {
	var t target
	var owner string
	cmd := &cobra.Command{
		Use:   "release <slug> [--owner <name>] [--workspace <workspace>] [--json]",
		Short: "Ends the management of a preset by files",
		Long: `
Takes a preset from its owner, so that everybody may change it again. Remove its file, too:
the next apply would take it back.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeArgs(slugs),
		RunE: t.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			ctx := cmd.Context()
			p, response, err := a.preset(ctx, args[0])
			if err != nil {
				return err
			}
			said := "had no owner"
			if p.ManagedBy != nil {
				if *p.ManagedBy != owner {
					return fmt.Errorf("preset %s is managed by %s and not by %s: name that owner with --owner", p.Slug, *p.ManagedBy, owner)
				}
				said = "was released by " + *p.ManagedBy
				r := client.Request{Method: http.MethodPatch, Path: client.PresetPath(p.Slug), Header: http.Header{"X-Preset-Owner": {owner}, "If-Match": {response.Tag()}}}
				if response, err = a.change(ctx, r, map[string]any{"managed_by": nil}); err != nil {
					return err
				}
			}
			if t.asJSON {
				return printJSON(cmd, response)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Preset %s %s.\n", terminal.Escape(p.Slug), terminal.Escape(said))
			return nil
		}),
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&owner, "owner", defaultOwner, "The owner that releases it")
	return takesReference(cmd, nowhere)
}
