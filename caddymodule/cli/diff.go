package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/diff"
)

func diffCommand() *cobra.Command {
	var to target
	command := &cobra.Command{
		Use:   "diff <slug> <version> <version> [--json]",
		Short: "Shows the differences of two versions",
		Long: `
Shows the differences of two versions, each by its number or a label: the prompt as a unified
diff, the settings and the messages as a JSON Patch.`,
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
			response, err := a.get(cmd.Context(), presetPath(args[0], "diff"), a.query("from", args[1], "to", args[2]))
			if err != nil {
				return err
			}
			return printData(cmd, to.asJSON, response, func(d domain.VersionDiff) string { return diffText(d, hasColor(cmd.OutOrStdout())) })
		}),
		ValidArgsFunction: to.completeArgs(slugs, references, references),
	}
	to.flags(command)
	return command
}

func diffText(d domain.VersionDiff, colored bool) string {
	if len(d.Config)+len(d.Template) == 0 && d.SystemPrompt == nil {
		return fmt.Sprintf("Versions %d and %d are equal.\n", d.From, d.To)
	}
	var text strings.Builder
	line := func(color, line string) {
		if colored && color != "" {
			line = color + line + plain
		}
		text.WriteString(line + "\n")
	}
	if d.SystemPrompt != nil {
		line("", fmt.Sprintf("Prompt, from version %d to %d:", d.From, d.To))
		for one := range strings.Lines(*d.SystemPrompt) {
			one = terminal.EscapeText(strings.TrimSuffix(one, "\n"))
			line(diffColor(one), one)
		}
	}
	for _, patch := range []struct {
		name       string
		operations []diff.Operation
	}{{"Settings", d.Config}, {"Messages", d.Template}} {
		if len(patch.operations) == 0 {
			continue
		}
		if text.Len() > 0 {
			line("", "")
		}
		line("", fmt.Sprintf("%s, from version %d to %d:", patch.name, d.From, d.To))
		for _, o := range patch.operations {
			color := map[string]string{"add": green, "remove": red, "replace": cyan}[o.Op]
			line(color, strings.TrimSpace(fmt.Sprintf("%s %s %s", terminal.Escape(o.Op), terminal.Escape(o.Path), terminal.EscapeJSON(o.Value))))
		}
	}
	return text.String()
}

func diffColor(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return ""
}
