// Package cli has the commands of "caddy presets" that speak the public API of a server.
// They work from any machine that reaches it, such as a CI runner.
package cli

import (
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Commands returns the commands, to be added to "caddy presets". Each call makes new ones.
func Commands() []*cobra.Command {
	return []*cobra.Command{}
}

// exitWith returns an error that makes the program exit with a status above 1. It prints
// nothing.
func exitWith(cmd *cobra.Command, status int) error {
	cmd.SilenceErrors = true
	// Caddy's error with a status is not exported, and this function makes one.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, nil)
}

// isTerminal reports whether a reader or a writer is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// hasColor reports whether output to w may have colours: on a terminal without NO_COLOR
// (https://no-color.org).
func hasColor(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
