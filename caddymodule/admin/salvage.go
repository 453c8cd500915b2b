package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
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
Reads the files of a damaged store in a folder, and makes a new store of all that is whole
there. It names what it does not copy. The damaged folder stays as it is. No server may
use it. The new folder must be missing or empty. It may be a mount point. Restore a backup
instead, if there is a recent one.

A preset keeps its whole versions, with their numbers. If its designated version is lost,
the newest whole one is designated. Labels of lost versions are removed. The audit trail
is copied up to the first record that is lost. One more record says that. Whole records
behind the gap are in the file SALVAGED-AUDIT.jsonl of the new folder, unless the store is
encrypted. Only the damaged folder has them then.

If whole files, the last commits or a part that may have held a change of a key are lost,
the revocation of a key may be among them. So all issued keys are revoked then. --keep-keys
keeps them. Compare them with your own notes in that case. An archived preset may be
active again: compare the presets, too.

An encrypted folder needs the file of its key; - is standard input. The new store is
encrypted with the same key. The command needs memory for all that is stored.

The exit code is 10 if something is lost or may be lost, and 1 if no store was made.`,
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
		case asJSON:
			err = jsonv2.MarshalWrite(cmd.OutOrStdout(), report)
		default:
			err = printSalvage(cmd.OutOrStdout(), args[1], report)
		}
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
