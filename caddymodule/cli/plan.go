package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

const (
	// defaultFolder has the files if no other folder is named.
	defaultFolder = "presets"
	// defaultOwner manages presets that come from files.
	defaultOwner = "files"
	// statusChanges is the exit status of a plan with changes.
	statusChanges = 2
)

// planning is what plan and apply have in common.
type planning struct {
	target
	plan.Options
}

func (p *planning) flags(cmd *cobra.Command) {
	p.managementFlags(cmd)
	cmd.Flags().StringVar(&p.Owner, "owner", defaultOwner, "The owner that manages the presets of the files")
	cmd.Flags().BoolVar(&p.Prune, "prune", false, "Archive presets of the owner that have no file, in all workspaces")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.ValidArgsFunction = completeFolder
}

var completeFolder = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

func folderIn(args []string) string {
	if len(args) == 0 {
		return defaultFolder
	}
	return args[0]
}

// make reads the files and compares them with the server. Mistakes in files are found first,
// without a server.
func (p *planning) make(cmd *cobra.Command, args []string) (found *plan.Plan, mistakes files.Errors, err error) {
	set, err := files.Read(folderIn(args))
	if mistakes, ok := errors.AsType[files.Errors](err); ok {
		return nil, mistakes, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := p.client(cmd)
	if err != nil {
		return nil, nil, err
	}
	found, err = plan.New(cmd.Context(), c, set, p.Options)
	return found, nil, err
}

func planCommand() *cobra.Command {
	var p planning
	var markdown bool
	cmd := &cobra.Command{
		Use:   "plan [<dir>] [--owner <name>] [--prune] [--json|--markdown]",
		Short: "Shows what apply would change on a server",
		Long: `
Compares presets as files with a server. It reads the folder "presets", or <dir>, and
prints what apply would create, change, restore and archive. It changes nothing.

The exit status is 0 if there is nothing to do, 2 if there are changes, and 1 after an
error. Mistakes in files are found without a server.`,
		RunE: p.explained(func(cmd *cobra.Command, args []string) error {
			found, mistakes, err := p.make(cmd, args)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case p.asJSON:
				err = writeJSON(w, planJSON(found, mistakes), "")
			case markdown:
				err = writeMarkdown(w, found, mistakes)
			case mistakes != nil:
				return mistakes
			default:
				err = writePlan(w, found)
			}
			switch {
			case err != nil:
				return err
			case mistakes != nil:
				return mistakesError(mistakes)
			case len(found.Errors) > 0:
				return planError(found)
			case !found.IsEmpty():
				return ExitWith(cmd, statusChanges, nil)
			}
			return nil
		}),
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&markdown, "markdown", false, "Print Markdown, for a comment on a pull request")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	return cmd
}

func planError(found *plan.Plan) error {
	return fmt.Errorf("presets that cannot be brought to what their files say: %d", len(found.Errors))
}

// mistakesError is the error of a command that has printed the mistakes.
func mistakesError(found files.Errors) error {
	return fmt.Errorf("mistakes in the files: %d", len(found))
}

// planJSON returns what has the JSON of a plan, or of one of files that have mistakes.
func planJSON(found *plan.Plan, mistakes files.Errors) any {
	if found != nil {
		return found
	}
	return struct {
		*plan.Plan
		Errors files.Errors `json:"errors"`
	}{plan.Empty(), mistakes}
}

// encode returns the JSON of a value in lines, with texts and numbers as they are.
func encode(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

func writeJSON(w io.Writer, value any, indent string) error {
	text, err := encode(value, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(safeJSON(w, text))
	return err
}

func summary(p *plan.Plan) string {
	counts := make(map[plan.Action]int)
	for _, c := range p.Changes {
		counts[c.Action]++
	}
	var text strings.Builder
	for _, part := range []struct {
		say   string
		count int
	}{
		{"workspaces", len(p.Workspaces)},
		{"to create", counts[plan.Create]},
		{"to change", counts[plan.Update]},
		{"to restore", counts[plan.Restore]},
		{"to archive", counts[plan.Archive]},
		{"to adopt", len(p.Adopt)},
		{"with errors", len(p.Errors)},
	} {
		if part.count > 0 {
			fmt.Fprintf(&text, "%s: %d, ", part.say, part.count)
		}
	}
	if text.Len() == 0 {
		text.WriteString("nothing to do, ")
	}
	return fmt.Sprintf("%sunchanged: %d", text.String(), p.Unchanged)
}
