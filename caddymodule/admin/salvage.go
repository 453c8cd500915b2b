package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

func salvageCommand() *cobra.Command {
	var (
		keyFile string
		asJSON  bool
	)
	salvage := &cobra.Command{
		Use:   "salvage [--json] [--encryption-key-file <file>] <folder> <new folder>",
		Short: "Copies what is whole of a damaged store into a new one",
		Long: `
Makes a new store of all that is whole in the files of a damaged one, and names what it does not
copy. The damaged folder stays as it is, and no server may use it. The new folder must be missing
or empty; it may be a mount point. Restore a backup instead, if there is a recent one.

A preset keeps its whole versions. The newest one is designated if the designated one is lost, and
labels of lost versions are removed. A preset whose newest record is lost is archived. The audit
trail ends before its first gap with a record that says so.

All issued keys are revoked, because the revocation of one may be among what is lost. Issue new ones.

The new store is encrypted with the key of the old one; - is standard input. The command needs
memory for all that is stored. The exit code is 10 if something is or may be lost, and 1 if no
store was made.`,
		Args: cobra.ExactArgs(2),
	}
	flags := salvage.Flags()
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key that the folder is encrypted with")
	flags.BoolVar(&asJSON, "json", false, "Print JSON")
	salvage.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := readKey(cmd, "encryption-key-file", keyFile)
		if err != nil {
			return err
		}
		o := badger.Options{Logger: caddy.Log().Named("presets"), EncryptionKey: key}
		report, err := badger.Salvage(cmd.Context(), args[0], args[1], o)
		if err != nil {
			return err
		}
		err = output(cmd, asJSON, report, func(w io.Writer) error { return printSalvage(w, args[1], report) })
		if err == nil && len(report.Lost) > 0 {
			err = cli.ExitWith(cmd, exitDamaged, errors.New("not everything was copied"))
		}
		return err
	}
	return salvage
}

func printSalvage(w io.Writer, folder string, r storage.Salvage) error {
	var text strings.Builder
	for _, l := range r.Lost {
		text.WriteString("lost: " + l.Kind)
		switch {
		case l.First > 0 && l.First == l.Last:
			fmt.Fprintf(&text, " %d", l.First)
		case l.First > 0:
			fmt.Fprintf(&text, " %d to %d", l.First, l.Last)
		}
		if name := cmp.Or(l.Name, l.ID); name != "" {
			text.WriteString(" " + terminal.Escape(name))
		}
		fmt.Fprintf(&text, ": %s\n", terminal.Escape(l.What))
	}
	fmt.Fprintf(&text, "Made the store %s in %s", r.StoreID, terminal.Escape(folder))
	for _, kind := range slices.Sorted(maps.Keys(r.Copied)) {
		fmt.Fprintf(&text, "; %s: %d", kind, r.Copied[kind])
	}
	text.WriteString(".\n")
	if len(r.Lost) == 0 {
		text.WriteString("Nothing is lost.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
