package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/convert"
)

func convertCommand() *cobra.Command {
	var o convert.Options
	var reach connection
	var keyFile string
	var asJSON bool
	sources := convert.Sources()
	cmd := &cobra.Command{
		Use:   "convert <source> <input> <dir>",
		Short: "Writes the prompts of another system as files for review",
		Long: `
Reads the prompts of another system, and writes them as presets into the folder <dir>. It
changes no file that exists, and it speaks to no server of presets: review the files, and
then run caddy presets apply.

The source is one of ` + strings.Join(sources, ", ") + `.
The input is a file, a folder, - for standard input, or the URL of a live account of OpenRouter,
which has nothing else, Langfuse, LiteLLM (litellm), Portkey or Bifrost.

The report says what has no counterpart. It never shows a prompt, a setting or a
credential. The exit status is 1 if a prompt or a version is not written.`,
		Args:      cobra.ExactArgs(3),
		ValidArgs: sources,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, input, dir := convert.Source(args[0]), args[1], args[2]
			if input == "-" && keyFile == "-" {
				return errors.New("the standard input cannot be both the input and the key")
			}
			if keyFile != "" {
				var err error
				if o.Key, err = readKey(cmd, "key-file", keyFile, ""); err != nil {
					return err
				}
			}
			var err error
			if o.Transport, err = reach.transport(); err != nil {
				return err
			}
			o.Stdin, o.Timeout = cmd.InOrStdin(), reach.timeout
			set, report, err := convert.Convert(cmd.Context(), source, input, o)
			if err == nil {
				err = convert.Write(dir, set, report)
			}
			if err != nil {
				return safe(err) // it may name what a server or a folder has
			}
			if err := printReport(cmd.OutOrStdout(), report, asJSON); err != nil {
				return err
			}
			if missing := report.Count(convert.NotWritten); missing > 0 {
				return fmt.Errorf("not everything is written: the report has %d reasons", missing)
			}
			return nil
		},
	}
	reach.connectionFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&keyFile, "key-file", "", "File with the key of a live account, - for standard input; for Langfuse the public key, a colon and the secret key")
	flags.StringVar(&o.Workspace, "workspace", "default", "The slug of the workspace for the presets")
	flags.BoolVar(&o.AllVersions, "all-versions", false, "Write all versions, as a series that apply makes in a new preset")
	flags.BoolVar(&asJSON, "json", false, "Print the report as JSON")
	_ = cmd.MarkFlagFilename("key-file") // fails for an unknown flag only
	return cmd
}

func printReport(w io.Writer, report *convert.Report, asJSON bool) error {
	if asJSON {
		return writeJSON(w, report, "  ")
	}
	return report.Print(w)
}
