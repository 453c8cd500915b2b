package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
		keyFile          string
		keepKeys, asJSON bool
	)
	salvage := &cobra.Command{
		Use:   "salvage [--json] [--keep-keys] [--encryption-key-file <file>] <folder> <new folder>",
		Short: "Copies what is whole of a damaged store into a new one",
		Long: `
Makes a new store of all that is whole in the files of a damaged one, and names what it does not
copy. The damaged folder stays as it is, and no server may use it. The new folder must be missing
or empty; it may be a mount point. Restore a backup instead, if there is a recent one.

A preset keeps its whole versions. The newest one is designated if the designated one is lost, and
labels of lost versions are removed. The audit trail ends before its first gap with a record that
says so; whole records behind it are in SALVAGED-AUDIT.jsonl, unless the store is encrypted.

The revocation of a key may be among what is lost. Then all issued keys are revoked, unless
--keep-keys keeps them, and archived presets may be active again.

The new store is encrypted with the key of the old one; - is standard input. The command needs
memory for all that is stored. The exit code is 10 if something is or may be lost, and 1 if no
store was made.`,
		Args: cobra.ExactArgs(2),
	}
	flags := salvage.Flags()
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key that the folder is encrypted with")
	flags.BoolVar(&keepKeys, "keep-keys", false, "Keep live keys even if their revocation may be lost")
	flags.BoolVar(&asJSON, "json", false, "Print JSON")
	salvage.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := terminal.Interruptible(cmd.Context())
		defer stop()
		key, err := readKey(cmd, "encryption-key-file", keyFile)
		if err != nil {
			return err
		}
		o := badger.Options{Logger: caddy.Log().Named("presets"), EncryptionKey: key}
		report, err := badger.Salvage(ctx, args[0], args[1], o, keepKeys)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
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
	for _, p := range r.Damaged {
		fmt.Fprintf(&text, "damaged: %s: %s\n", terminal.Escape(p.File), terminal.Escape(p.What))
	}
	for _, l := range r.Lost {
		fmt.Fprintf(&text, "lost: %s: %s\n", describeLoss(l), terminal.Escape(l.What))
	}
	n := r.Copied
	fmt.Fprintf(&text, "Made the store %s in %s: %d workspaces, %d presets, %d versions, %d changes of labels, %d keys, %d audit records, %d rows of usage and %d kept answers.\n",
		r.StoreID, terminal.Escape(folder), n.Workspaces, n.Presets, n.Versions, n.LabelChanges, n.Keys, n.Audit, n.Usage, n.Answers)
	if len(r.Lost) == 0 {
		text.WriteString("Nothing is lost.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// describeLoss names an object as operators call it.
func describeLoss(l storage.Loss) string {
	parts := []string{l.Kind}
	switch {
	case l.Kind == "version" && l.First == l.Last && l.First > 0:
		parts[0] = fmt.Sprintf("version %d", l.First)
	case (l.Kind == "audit" || l.Kind == "commits") && l.First > 0:
		parts[0] = fmt.Sprintf("%s %d to %d", l.Kind, l.First, l.Last)
	}
	for _, part := range []struct{ name, value string }{
		{"label", l.Label},
		{"preset", cmp.Or(l.Preset, l.PresetID)},
		{"workspace", cmp.Or(l.Workspace, l.WorkspaceID)},
		{"id", l.ID},
	} {
		switch {
		case part.value == "":
		case part.name == l.Kind:
			parts[0] = l.Kind + " " + terminal.Escape(part.value)
		default:
			parts = append(parts, part.name+" "+terminal.Escape(part.value))
		}
	}
	return strings.Join(parts, ", ")
}
