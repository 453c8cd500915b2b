// Package cli has the commands of "caddy presets" that speak the public API of a server.
// They work from any machine that reaches it, such as a CI runner.
package cli

import (
	"fmt"
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

// The ids of the groups of commands: those for people, and those for presets as files.
const (
	groupPresets = "presets"
	groupFiles   = "files"
)

// Groups returns the groups of the commands, in the order of the help. The parent of the
// commands must have them.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: groupPresets, Title: "Presets, over the public API:"},
		{ID: groupFiles, Title: "Presets as files, over the public API:"},
	}
}

// Commands returns the commands, to be added to "caddy presets". Each call makes new ones.
func Commands() []*cobra.Command {
	people := []*cobra.Command{
		listCommand(), showCommand(), versionsCommand(), diffCommand(), designateCommand(), labelCommand(), tryCommand(), editCommand(), copyCommand(), mcpCommand(),
		presetCommand(), workspaceCommand(),
	}
	people = append(people, stateCommands()...)
	for _, command := range people {
		command.GroupID = groupPresets
	}
	fromFiles := []*cobra.Command{planCommand(), applyCommand(), dumpCommand(), releaseCommand(), convertCommand()}
	for _, command := range fromFiles {
		command.GroupID = groupFiles
	}
	return append(people, fromFiles...)
}

// RefuseUnknown makes a command fail for an unknown subcommand. Otherwise Cobra prints the
// help and succeeds, even for a misspelt backup command.
func RefuseUnknown(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q; --help lists the commands", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
}

// ExitWith returns an error that ends the program with a status. Caddy's log shows err, unless nil.
func ExitWith(cmd *cobra.Command, status int, err error) error {
	cmd.SilenceErrors = true
	// Caddy's error with a status is not exported, and this function makes one.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, err })(cmd, nil)
}

// painter returns text in a colour, which may be none.
type painter func(color, text string) string

// painterOf returns the painter of an output, which paints on a terminal only (https://no-color.org).
func painterOf(w any) painter {
	hasColor := terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return func(color, text string) string {
		if !hasColor || color == "" {
			return text
		}
		return color + text + plain
	}
}

// The colours of text, as escape sequences. plain ends them.
const (
	red, green, yellow, cyan, bold, plain = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[1m", "\x1b[m"
)
