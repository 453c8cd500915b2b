package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

func showCommand() *cobra.Command {
	var to target
	var ref string
	show := &cobra.Command{
		Use:   "show <slug> [--version <number or label>] [--json]",
		Short: "Shows a preset with the settings and the prompt of a version",
		Long: `
Shows a preset with the settings and the prompt of the version that requests get, or of another
one. --json prints the preset, or with --version the version, as the API has it.`,
		Args: cobra.ExactArgs(1),
		RunE: to.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			p, response, err := a.preset(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			shown := p.Designated
			if ref != "" {
				number, err := numberOf(p, ref)
				if err != nil {
					return err
				}
				if shown, response, err = a.version(cmd.Context(), p.Slug, number); err != nil {
					return err
				}
			}
			if to.asJSON {
				return printJSON(cmd, response)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), presetText(p, shown))
			return err
		}),
		ValidArgsFunction: to.completeArgs(slugs),
	}
	to.flags(show)
	show.Flags().StringVar(&ref, "version", "", "The number of a version, or a label; default: the designated version")
	completeFlag(show, "version", to.complete(labels))
	return show
}

func presetText(p client.Preset, v client.Version) string {
	var text strings.Builder
	fields := terminal.NewTable(&text)
	line := func(name, value string) {
		if value != "" {
			fields.Row(name+":", value)
		}
	}
	line("Preset", p.Slug)
	if p.Name != p.Slug {
		line("Name", p.Name)
	}
	line("Description", domain.ValueOr(p.Description, ""))
	line("Status", string(p.Status))
	line("Designated", "version "+numberText(p.DesignatedVersion))
	line("Labels", labelsText(p.Labels))
	line("Owner", domain.ValueOr(p.ManagedBy, ""))
	if p.Protected {
		line("Protected", "yes")
	}
	line("Updated", timeText(p.UpdatedAt)+" by "+p.UpdatedBy)
	line("Version", numberText(v.Version)+", made from a request to "+string(v.Dialect))
	line("Created", timeText(v.CreatedAt)+" by "+v.CreatorID)
	line("Message", domain.ValueOr(v.Message, ""))
	if v.Template != nil {
		line("Variables", strings.Join(v.Template.Variables, ", "))
	}
	_ = fields.Flush() // into memory
	block := func(name string, value json.RawMessage) {
		if isSet(value) {
			fmt.Fprintf(&text, "\n%s:\n%s\n", name, terminal.IndentJSON(value))
		}
	}
	block("Policy", p.Policy)
	block("Limits", p.Limits)
	block("Settings", v.Config)
	if v.SystemPrompt != nil {
		fmt.Fprintf(&text, "\nPrompt:\n%s\n", terminal.EscapeText(strings.TrimSuffix(*v.SystemPrompt, "\n")))
	}
	if v.Template != nil {
		block("Messages", v.Template.Messages)
	}
	return text.String()
}
