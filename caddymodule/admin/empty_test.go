package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand calls visit with the words of each command of caddy presets that can be run.
func eachCommand(visit func(words []string, cmd *cobra.Command)) {
	presets := new(cobra.Command)
	addCommands(presets)
	var walk func(words []string, cmd *cobra.Command)
	walk = func(words []string, cmd *cobra.Command) {
		if len(cmd.Commands()) == 0 {
			visit(words, cmd)
		}
		for _, sub := range cmd.Commands() {
			walk(append(slices.Clip(words), sub.Name()), sub)
		}
	}
	walk(nil, presets)
}

// argumentsOf returns as many arguments as a command takes at least, and whether it can take one.
func argumentsOf(cmd *cobra.Command) (args []string, takes bool) {
	for len(args) < 5 && cmd.Args != nil && cmd.Args(cmd, args) != nil {
		args = append(args, "x")
	}
	return args, len(args) > 0 || cmd.Args == nil || cmd.Args(cmd, []string{"x"}) == nil
}

// TestEmptyFlags gives an empty text to every flag and argument of every command, as the shell
// writes a variable that is not set. Each is an error that names the flag, before anything is done.
func TestEmptyFlags(t *testing.T) {
	tried := make(map[string]bool)
	eachCommand(func(words []string, cmd *cobra.Command) {
		refused := func(want string, more ...string) {
			t.Helper()
			args, _ := argumentsOf(cmd)
			line := append(append(slices.Clip(words), more...), args...)
			out, _, err := Run(line...)
			if err == nil || err.Error() != want || out != "" {
				t.Errorf("%q: got %q, %v, want the error %q", line, out, err, want)
			}
		}
		addFlag := func(flag *pflag.Flag) {
			switch flag.Value.Type() {
			case "string":
				refused("--"+flag.Name+": must not be empty", "--"+flag.Name, "")
				refused("--"+flag.Name+": must not be empty", "--"+flag.Name+"=")
			case "stringArray":
				refused("--"+flag.Name+": must not be empty", "--"+flag.Name, "a", "--"+flag.Name, "")
			case "bool", "int", "int64", "intSlice", "float64", "duration":
				return // an empty text is none of these
			default:
				t.Errorf("%q: the flag %s has the type %s, which this test does not know", words, flag.Name, flag.Value.Type())
			}
			tried[strings.Join(words, " ")+" --"+flag.Name] = true
		}
		cmd.LocalFlags().VisitAll(addFlag)
		cmd.InheritedFlags().VisitAll(addFlag)
		if _, takes := argumentsOf(cmd); takes {
			args, _ := argumentsOf(cmd)
			args = append(args[:max(len(args)-1, 0)], "")
			line := append(slices.Clip(words), args...)
			if out, _, err := Run(line...); err == nil || !strings.HasSuffix(err.Error(), ": must not be empty") || out != "" {
				t.Errorf("%q: got %q, %v, want an error", line, out, err)
			}
		}
	})
	for _, flag := range []string{
		"prune --workspace", "prune --unused-for", "prune --store", "key create --expires", "key create --workspace", "key create --preset", "key create --model",
		"key create --kind", "key create --user", "key prune --older-than", "key list --store", "apply --owner", "apply --message", "dump --workspace", "try --var", "backup --encryption-key-file",
	} {
		if !tried[flag] {
			t.Errorf("%s was not tried", flag)
		}
	}
}
