package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

func diffCommand() *cobra.Command {
	var to target
	command := &cobra.Command{
		Use:   "diff <slug> <version> <version> [--json]",
		Short: "Shows the differences of two versions",
		Long: `
Shows the differences of two versions, each by its number or a label: the prompt as a unified
diff, the settings and the messages by their paths, with their old and new values.`,
		Args: cobra.ExactArgs(3),
		RunE: to.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			if err := domain.CheckPresetSlug(args[0]); err != nil {
				return err
			}
			for _, ref := range args[1:] {
				if _, err := numberIn(ref); err != nil {
					return err
				}
			}
			response, err := a.get(cmd.Context(), client.PresetPath(args[0], "diff"), a.query("from", args[1], "to", args[2]))
			if err != nil {
				return err
			}
			return printData(cmd, to.asJSON, response, func(d domain.VersionDiff) string { return diffText(d, painterOf(cmd.OutOrStdout())) })
		}),
		ValidArgsFunction: to.completeArgs(slugs, labels, labels),
	}
	to.flags(command)
	return takesReference(command, 1)
}

func diffText(d domain.VersionDiff, paint painter) string {
	var all []detail
	if d.SystemPrompt != nil {
		all = append(append(all, detail{' ', "prompt:"}), diffLines(*d.SystemPrompt)...)
	}
	all = append(append(all, operations("settings", d.Config)...), operations("messages", d.Template)...)
	if len(all) == 0 {
		return fmt.Sprintf("Versions %d and %d are equal.\n", d.From, d.To)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "From version %d to %d:\n", d.From, d.To)
	for _, line := range all {
		text.WriteString(paint(colors[line.mark], line.String()) + "\n")
	}
	return text.String()
}
