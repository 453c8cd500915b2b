package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/dump"
)

// exitDamaged is the exit code of damage and of lost data. Caddy uses the lower ones.
const exitDamaged = 10

// verdict is the JSON output of the verify command.
type verdict struct {
	storage.Report
	Damaged bool   `json:"damaged"`
	Error   string `json:"error"` // empty for none
	// Backup describes the backup that was verified, if its first lines can be read.
	Backup *backupSummary `json:"backup,omitzero"`

	isFile bool
}

// backupSummary describes a backup. Entries and Digest are empty if its end was not read.
type backupSummary struct {
	Commit    uint64    `json:"commit"`
	CreatedAt time.Time `json:"created_at"`
	Encrypted bool      `json:"encrypted"`
	Entries   int       `json:"entries"`
	Digest    string    `json:"digest"`
}

func newBackupSummary(info dump.Info, end dump.End) *backupSummary {
	return &backupSummary{info.Commit, info.CreatedAt, info.Encrypted(), end.Entries, end.Digest}
}

func newVerdict(report storage.Report, err error) verdict {
	v := verdict{Report: report, Damaged: errors.Is(err, storage.ErrDamaged) || len(report.Problems) > 0}
	if err != nil {
		v.Error = err.Error()
	}
	return v
}

func verifyCommand() *cobra.Command {
	var (
		target        client
		keyFile       string
		quick, asJSON bool
	)
	verify := &cobra.Command{
		Use:   "verify [--json] [--quick] [--encryption-key-file <file>] [<folder>|<backup>|s3://<bucket>/<prefix>]",
		Short: "Looks for damage in a store or a backup",
		Long: `
Reads a whole store and finds damaged and missing records: in a folder that no server has open,
or without a folder in the store of the running server, of any engine. In etcd it checks the
records of one member after another. etcd's own checks compare the members and their files.

With a file, or the s3://bucket/prefix of copies for the newest, it checks a backup, and restores
nothing. It finds what "restore" would refuse,
and records that are missing, or do not agree with each other.

--quick checks a folder as a start of the server does: the checksums of all tables and the end of
the log. An encrypted folder or backup needs the file of its key; - is standard input.

The exit code is 10 for damage, and 1 if the check failed.`,
		Args: cobra.MaximumNArgs(1),
	}
	target.flags(verify)
	flags := verify.Flags()
	flags.BoolVar(&quick, "quick", false, "Check a folder as a start of the server does")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key that the folder or the backup is encrypted with")
	flags.BoolVar(&asJSON, "json", false, "Print JSON")
	verify.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := findDamage(cmd, &target, args, quick, keyFile)
		if err != nil {
			return err
		}
		switch err := output(cmd, asJSON, v, v.print); {
		case err != nil:
			return err
		case v.Damaged && v.isFile:
			return cli.ExitWith(cmd, exitDamaged, errors.New("the file is damaged: use another, or make a new one"))
		case v.Damaged:
			return cli.ExitWith(cmd, exitDamaged, errors.New("the store is damaged: restore a backup"))
		case v.Error != "":
			return cli.ExitWith(cmd, 1, errors.New(v.Error))
		}
		return nil
	}
	return verify
}

// readKey reads the key in the file of a flag, nil for no file. - is standard input.
func readKey(cmd *cobra.Command, flag, file string) (key []byte, err error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		key, err = keyfile.Parse(cmd.InOrStdin(), "standard input")
	default:
		key, err = keyfile.Read(file, caddy.Log().Named("presets"))
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return key, nil
}

func findDamage(cmd *cobra.Command, target *client, args []string, quick bool, keyFile string) (v verdict, err error) {
	if len(args) == 0 {
		if quick || keyFile != "" {
			return v, errors.New("--quick and --encryption-key-file want a folder or a file")
		}
		return call[verdict](target, http.MethodPost, Path+"verify", nil)
	}
	var o badger.Options
	if o.EncryptionKey, err = readKey(cmd, "encryption-key-file", keyFile); err != nil {
		return v, err
	}
	info, err := os.Stat(args[0])
	if isFile := err == nil && info.Mode().IsRegular(); isFile || isInBucket(args[0]) {
		if quick {
			return v, errors.New("--quick is for a folder")
		}
		b, err := openBackup(cmd, args[0], "")
		if err != nil {
			return v, err
		}
		defer b.Close()
		return verifyBackup(cmd.Context(), cmd.ErrOrStderr(), b.file, o.EncryptionKey), nil
	}
	var report storage.Report
	if quick {
		err = badger.VerifyQuickly(args[0], o)
	} else {
		report, err = badger.Verify(cmd.Context(), args[0], o)
	}
	if errors.Is(err, badger.ErrInUse) {
		err = fmt.Errorf("%w; run the command without the folder to ask the server that has it open", err)
	}
	return newVerdict(report, err), nil
}

// verifyBackup verifies a backup. The verdict has its defects, and why it cannot be read.
func verifyBackup(ctx context.Context, messages io.Writer, file io.ReaderAt, key []byte) verdict {
	m := terminal.NewMeter(messages)
	defer m.Done()
	info, end, report, err := dump.Verify(ctx, file, key, func(doing string, done, about int) {
		m.Show(func() string { return fmt.Sprintf("%s %d of about %d records", doing, done, about) })
	})
	v := newVerdict(report, err)
	if v.isFile = true; !info.CreatedAt.IsZero() {
		v.Backup = newBackupSummary(info, end)
	}
	return v
}

func (v verdict) print(w io.Writer) error {
	var text strings.Builder
	if b := v.Backup; b != nil {
		encrypted, digest := "not encrypted", ""
		if b.Encrypted {
			encrypted = "encrypted"
		}
		if b.Digest != "" {
			digest = ", digest " + b.Digest
		}
		fmt.Fprintln(&text, terminal.Escape(fmt.Sprintf("A backup of commit %d, made at %s, %s%s.", b.Commit, b.CreatedAt.Format(time.RFC3339), encrypted, digest)))
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(&text, terminal.Escape(problem))
	}
	if v.More > 0 {
		fmt.Fprintf(&text, "and %d more\n", v.More)
	}
	switch {
	case v.Error != "":
		fmt.Fprintln(&text, terminal.Escape(v.Error))
	case !v.Damaged:
		text.WriteString("Nothing is damaged")
		if v.Records > 0 { // a quick check counts nothing
			fmt.Fprintf(&text, ": looked at %d records", v.Records)
		}
		if v.Tables > 0 {
			fmt.Fprintf(&text, " and %d tables", v.Tables)
		}
		text.WriteString(".\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func verifyStore(r request) (any, error) {
	live, ok := r.Store.(engine.Checker)
	if !ok {
		return nil, badRequest("this storage engine cannot check a whole store")
	}
	report, err := live.Check(r.Context())
	if err != nil && !errors.Is(err, storage.ErrDamaged) {
		return nil, err
	}
	return newVerdict(report, err), nil
}
