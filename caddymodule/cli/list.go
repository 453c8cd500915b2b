package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
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
		RunE: to.withAPI(func(cmd *cobra.Command, a api, _ []string) error {
			presets := a.Elements(cmd.Context(), "/presets", a.query("q", text, "status", status, "sort", sort, "order", order))
			columns := []string{"SLUG", "STATUS", "VERSION", "LABELS", "OWNER", "UPDATED", "NAME"}
			return printList(cmd, to.asJSON, presets, columns, presetRow)
		}),
	}
	to.flags(list)
	flags := list.Flags()
	flags.StringVarP(&text, "query", "q", "", "Only presets whose slug, name or description has this text")
	flags.StringVar(&status, "status", "", "Only active, disabled or archived presets, or all; default: all but archived")
	flags.StringVar(&sort, "sort", "", "updated, name or slug; default: updated")
	flags.StringVar(&order, "order", "", "asc or desc; default: desc")
	completeFlag(list, "status", oneOf("active", "disabled", "archived", "all"))
	completeFlag(list, "sort", oneOf("updated", "name", "slug"))
	completeFlag(list, "order", oneOf("asc", "desc"))
	return list
}

func presetRow(p client.Preset) []string {
	name := p.Name
	if name == p.Slug {
		name = ""
	}
	return []string{p.Slug, string(p.Status), numberText(p.DesignatedVersion), labelsText(p.Labels), domain.ValueOr(p.ManagedBy, ""), timeText(p.UpdatedAt), name}
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
		RunE: to.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			versions, err := a.summaries(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			columns := []string{"VERSION", "DESIGNATED", "LABELS", "API", "SIZE", "CREATED", "BY", "MESSAGE"}
			return printList(cmd, to.asJSON, versions, columns, versionRow)
		}),
		ValidArgsFunction: to.completeArgs(slugs),
	}
	to.flags(versions)
	return takesReference(versions, nowhere)
}

func versionRow(v client.Version) []string {
	mark := ""
	if v.IsDesignated {
		mark = "*"
	}
	dialect, _ := v.Dialect.MarshalText() // never fails
	return []string{
		numberText(v.Version), mark, strings.Join(v.Labels, " "), string(dialect), strconv.Itoa(v.ConfigBytes + v.PromptBytes + v.TemplateBytes),
		timeText(v.CreatedAt), v.CreatorID, domain.ValueOr(v.Message, ""),
	}
}
