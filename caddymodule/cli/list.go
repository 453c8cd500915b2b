package cli

import (
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/domain"
)

func listCommand() *cobra.Command {
	var to target
	var text, status, sort, order string
	list := &cobra.Command{
		Use:   "list [--query <text>] [--status <status>] [--sort <field>] [--order asc|desc] [--json]",
		Short: "Lists the presets of a workspace",
		Long: `
Lists the presets of a workspace, with the version that requests get, the labels and the
owner. Without --status it leaves out archived presets. It reads all pages.`,
		Args: cobra.NoArgs,
		RunE: to.explained(func(cmd *cobra.Command, _ []string) error {
			a, err := to.api(cmd)
			if err != nil {
				return err
			}
			presets := a.Elements(cmd.Context(), "/presets", a.query("q", text, "status", status, "sort", sort, "order", order))
			if to.asJSON {
				return printElements(cmd, presets)
			}
			rows := newTable(cmd.OutOrStdout(), "SLUG", "STATUS", "VERSION", "LABELS", "OWNER", "UPDATED", "NAME")
			for element, err := range presets {
				var p preset
				if err == nil {
					err = decode(element, &p)
				}
				if err == nil {
					name := p.Name
					if name == p.Slug {
						name = ""
					}
					err = rows.row(p.Slug, string(p.Status), numberText(p.Number), labelsText(p.Labels), domain.TextOrEmpty(p.ManagedBy), timeText(p.UpdatedAt), name)
				}
				if err != nil {
					return keepRows(rows, err)
				}
			}
			return rows.end()
		}),
	}
	to.flags(list)
	to.workspaceFlag(list)
	flags := list.Flags()
	flags.StringVarP(&text, "query", "q", "", "Only presets whose slug, name or description has this text")
	flags.StringVar(&status, "status", "", "Only active, disabled or archived presets, or all; default: all but archived")
	flags.StringVar(&sort, "sort", "", "updated, name or slug; default: updated")
	flags.StringVar(&order, "order", "", "asc or desc; default: desc")
	completeFlag(list, "status", "active", "disabled", "archived", "all")
	completeFlag(list, "sort", "updated", "name", "slug")
	completeFlag(list, "order", "asc", "desc")
	return list
}

func versionsCommand() *cobra.Command {
	var to target
	versions := &cobra.Command{
		Use:   "versions <slug> [--json]",
		Short: "Lists the versions of a preset",
		Long: `
Lists the versions of a preset, oldest first, without their settings and prompts. The version
that requests get is marked with *. SIZE is that of settings, prompt and messages, in bytes.`,
		Args: cobra.ExactArgs(1),
		RunE: to.explained(func(cmd *cobra.Command, args []string) error {
			a, err := to.api(cmd)
			if err != nil {
				return err
			}
			versions, err := a.summaries(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if to.asJSON {
				return printElements(cmd, versions)
			}
			rows := newTable(cmd.OutOrStdout(), "VERSION", "DESIGNATED", "LABELS", "API", "SIZE", "CREATED", "BY", "MESSAGE")
			for element, err := range versions {
				var v version
				if err == nil {
					err = decode(element, &v)
				}
				if err == nil {
					err = rows.row(v.row()...)
				}
				if err != nil {
					return keepRows(rows, err)
				}
			}
			return rows.end()
		}),
		ValidArgsFunction: to.completeArgs(slugs),
	}
	to.flags(versions)
	to.workspaceFlag(versions)
	return versions
}
