package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

type applied struct {
	Plan   any            `json:"plan"`
	Done   int            `json:"done"`
	Failed []plan.Failure `json:"failed"`
}

type applying struct {
	planning
	yes     bool
	message string
}

func applyCommand() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "apply [<dir>] [--owner <name>] [--prune] [--yes] [--message <text>] [--json]",
		Short: "Brings a server to what files say",
		Long: `
Plans as "caddy presets plan" does, asks, and makes the changes. A preset that somebody
else changes after the plan is a conflict. It keeps that change, the others go on, and the
exit status is 1.

It may be interrupted and run again: nothing is done twice. New versions get --message, such
as "$(git describe --always --dirty)".`,
		RunE: a.explained(func(cmd *cobra.Command, args []string) error {
			result, err := a.run(cmd, args)
			if result != nil && a.asJSON {
				return cmp.Or(writeJSON(cmd.OutOrStdout(), result, ""), err)
			}
			return err
		}),
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&a.yes, "yes", false, "Apply without a question")
	cmd.Flags().StringVar(&a.message, "message", "", "The reason of new versions")
	return cmd
}

// run makes a plan and applies it. Unless the result is for JSON, it prints both. The result is
// nil if there is no plan, or nobody agrees to it.
func (a *applying) run(cmd *cobra.Command, args []string) (*applied, error) {
	if err := domain.CheckMessage(a.message); err != nil && a.message != "" {
		return nil, err
	}
	found, mistakes, err := a.make(cmd, args)
	result := &applied{Plan: planJSON(found, mistakes), Failed: []plan.Failure{}}
	switch {
	case err != nil:
		return nil, err
	case mistakes != nil && a.asJSON:
		return result, mistakesError(mistakes)
	case mistakes != nil:
		return nil, mistakes
	case !a.asJSON:
		if err := writePlan(cmd.OutOrStdout(), found); err != nil {
			return nil, err
		}
	}
	switch {
	case len(found.Errors) > 0:
		return result, fmt.Errorf("nothing was applied: %w", planError(found))
	case found.IsEmpty() && len(found.Adopt) == 0:
		return result, nil
	case !a.yes:
		if a.asJSON { // the question is about the plan, and the JSON comes afterwards
			if err := writePlan(cmd.ErrOrStderr(), found); err != nil {
				return nil, err
			}
		}
		if err := confirm(cmd); err != nil {
			return nil, err
		}
	}
	ctx, stop := terminal.Interruptible(cmd.Context())
	defer stop()
	done, stopped := found.Apply(ctx, a.message)
	result.Done = done.Done
	hint := ""
	for _, f := range done.Failed {
		fmt.Fprintln(cmd.ErrOrStderr(), problemText(f.Problem))
		result.Failed = append(result.Failed, f)
		if f.Conflict {
			hint = "; run it again"
		}
	}
	if !a.asJSON {
		fmt.Fprintf(cmd.OutOrStdout(), "applied: %d\n", done.Done)
	}
	switch {
	case len(done.Failed) > 0:
		return result, fmt.Errorf("not applied: %d%s", len(done.Failed), hint)
	case stopped != nil:
		return result, errors.New("stopped before all was applied; run it again")
	}
	return result, nil
}

func confirm(cmd *cobra.Command) error {
	if !terminal.Is(cmd.InOrStdin()) {
		return errors.New("nothing was applied: there is no terminal to ask on; say --yes")
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Apply these changes? [y/N] ")
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was applied")
}
