package admin

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints the version of the presets module",
		Long: `
Prints the version of the Go module ` + version.Path + ` in this
program. It is (devel) if the program was built from a folder of unknown revision. The
command needs no server. caddy version prints Caddy's own version.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Module())
			return err
		},
	}
}
