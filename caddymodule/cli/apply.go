package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

// applied is the JSON of an apply.
type applied struct {
	Plan   *plan.Plan `json:"plan"`
	Done   int        `json:"done"`
	Failed []failure  `json:"failed"`
}

// refusedApply is the JSON of an apply of files that have mistakes.
type refusedApply struct {
	Plan   mistakes  `json:"plan"`
	Done   int       `json:"done"`
	Failed []failure `json:"failed"`
}

// failure is a preset or a workspace that could not be changed.
type failure struct {
	plan.Problem
	Conflict bool `json:"conflict"`
}

func applyCommand() *cobra.Command {
	var p planning
	var yes bool
	var message string
	cmd := &cobra.Command{
		Use:   "apply [<dir>] [--owner <name>] [--prune] [--yes] [--message <text>] [--json]",
		Short: "Brings a server to what files say",
		Long: `
Plans as "caddy presets plan" does, asks, and makes the changes. A preset that somebody
else changes after the plan is a conflict. It keeps that change, the others go on, and the
exit status is 1.

It may be interrupted and run again: nothing is done twice. New versions get --message, or
else the Git revision of the folder.`,
		RunE: p.explained(func(cmd *cobra.Command, args []string) error {
			if err := plan.CheckMessage(message); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			found, err := p.make(ctx, cmd, args)
			if mistakes, ok := errors.AsType[files.Errors](err); ok && p.asJSON {
				if err := writeJSON(cmd.OutOrStdout(), refusedApply{Plan: newMistakes(mistakes), Failed: []failure{}}); err != nil {
					return err
				}
				return mistakesError(mistakes)
			}
			if err != nil {
				return err
			}
			if !p.asJSON {
				if err := writePlan(cmd.OutOrStdout(), found); err != nil {
					return err
				}
			}
			result := applied{Plan: found, Failed: []failure{}}
			switch {
			case len(found.Errors) > 0:
				if p.asJSON {
					err = writeJSON(cmd.OutOrStdout(), result)
				}
				return errors.Join(err, fmt.Errorf("nothing was applied: presets that cannot be brought to what their files say: %d", len(found.Errors)))
			case found.Empty() && len(found.Adopt) == 0:
				if p.asJSON {
					return writeJSON(cmd.OutOrStdout(), result)
				}
				return nil
			case !yes:
				if p.asJSON { // the question is about the plan, and the JSON comes afterwards
					if err := writePlan(cmd.ErrOrStderr(), found); err != nil {
						return err
					}
				}
				if err := confirm(ctx, cmd); err != nil {
					return err
				}
			}
			if message == "" {
				message = revision(ctx, p.folder)
			}
			shown := newProgress(cmd.ErrOrStderr(), "applied")
			done, stopped := found.Apply(ctx, plan.ApplyOptions{Message: message, Progress: shown.show})
			shown.end()
			for _, f := range done.Failed {
				fmt.Fprintln(cmd.ErrOrStderr(), problemText(f.Problem))
				result.Failed = append(result.Failed, failure{f.Problem, f.Conflict})
			}
			result.Done = done.Done
			if p.asJSON {
				if err := writeJSON(cmd.OutOrStdout(), result); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "applied: %d\n", done.Done)
			}
			switch {
			case len(done.Failed) > 0:
				hint := ""
				if slices.ContainsFunc(done.Failed, func(f plan.Failure) bool { return f.Conflict }) {
					hint = "; run it again"
				}
				return fmt.Errorf("not applied: %d%s", len(done.Failed), hint)
			case stopped != nil:
				return errors.New("stopped before all was applied; run it again")
			}
			return nil
		}),
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "Apply without a question")
	cmd.Flags().StringVar(&message, "message", "", "The reason of new versions; default: the Git revision of the folder")
	return cmd
}

// confirm asks on the terminal whether to go on, until ctx ends.
func confirm(ctx context.Context, cmd *cobra.Command) error {
	if !isTerminal(cmd.InOrStdin()) {
		return errors.New("nothing was applied: there is no terminal to ask on; say --yes")
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Apply these changes? [y/N] ")
	var answer string
	answered := make(chan error, 1)
	go func() { // nothing ends a read from a terminal
		var err error
		answer, err = bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		answered <- err
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(cmd.ErrOrStderr())
	case err := <-answered:
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	}
	return errors.New("nothing was applied")
}
