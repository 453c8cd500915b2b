package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// exitDamaged is the exit code of verify for damage, and of salvage for lost data. Caddy uses
// the lower ones.
const exitDamaged = 10

// verdict is the JSON output of the verify command.
type verdict struct {
	storage.Report
	Damaged bool   `json:"damaged"`
	Error   string `json:"error"` // empty for none
	// Backup or Export describes the file that was verified, if it was one.
	Backup *backupSummary    `json:"backup,omitzero"`
	Export *transfer.Summary `json:"export,omitzero"`

	isFile bool
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
		target           client
		keyFile, scratch string
		quick, asJSON    bool
	)
	verify := &cobra.Command{
		Use:   "verify [--json] [--quick] [--encryption-key-file <file>] [<folder>|<backup>|<export>]",
		Short: "Looks for damage in a store, a backup or an export",
		Long: `
Reads a whole store and finds damaged and missing records. With a folder it checks the
store there. No server may have it open. Without a folder it asks the running server to
check its store, of any engine. In etcd it checks the records of one member after
another. etcd's own checks compare the members and find damage in their files.

With a file it checks a backup or an export, and restores nothing. It finds what "restore"
or "import" would refuse. In a backup it also finds records that are missing, or do not
agree with each other. It holds the records of a small backup in memory. Those of a large
one take disk space for a while; it says how much beforehand. They are encrypted there.

--quick checks a folder as a start of the server does. It checks the checksums of all
tables and the end of the log, but not each record. An encrypted folder or backup needs
the file of its key; - is standard input.

The exit code is 10 for damage, and 1 if the check failed.`,
		Args: cobra.MaximumNArgs(1),
	}
	target.flags(verify)
	flags := verify.Flags()
	flags.BoolVar(&quick, "quick", false, "Check a folder as a start of the server does")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key that the folder or the backup is encrypted with")
	flags.StringVar(&scratch, "scratch", "", scratchUsage+"the system's for temporary files")
	flags.BoolVar(&asJSON, "json", false, "Print JSON")
	verify.RunE = func(cmd *cobra.Command, args []string) error {
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) {
			v, err := findDamage(cmd, &target, args, quick, keyFile, scratch)
			if err != nil {
				return 1, err
			}
			if asJSON {
				err = jsonv2.MarshalWrite(cmd.OutOrStdout(), v)
			} else {
				err = v.print(cmd.OutOrStdout())
			}
			switch {
			case err != nil:
				return 1, err
			case v.Damaged:
				return exitDamaged, errors.New(v.advice())
			case v.Error != "":
				return 1, errors.New(v.Error)
			}
			return 0, nil
		})(cmd, args)
	}
	return verify
}

// scratchUsage is the text on --scratch, without its default.
const scratchUsage = "The folder for the records of a large backup while it is verified; default: "

// advice returns what to do about damage.
func (v verdict) advice() string {
	if v.isFile {
		return "the file is damaged: use another, or make a new one"
	}
	return "the store is damaged: restore a backup"
}

// readKey reads the key of --encryption-key-file, nil for no file. - is standard input.
func readKey(cmd *cobra.Command, file string) (key []byte, err error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		key, err = keyfile.Parse(cmd.InOrStdin(), "standard input")
	default:
		key, err = keyfile.Read(file, caddy.Log().Named("presets"))
	}
	if err != nil {
		return nil, fmt.Errorf("--encryption-key-file: %w", err)
	}
	return key, nil
}

func findDamage(cmd *cobra.Command, target *client, args []string, quick bool, keyFile, scratch string) (v verdict, err error) {
	if len(args) == 0 {
		if quick || keyFile != "" || scratch != "" {
			return v, errors.New("--quick, --encryption-key-file and --scratch want a folder or a file")
		}
		err = target.call(http.MethodPost, Path+"verify", nil, &v)
		return v, err
	}
	var o badger.Options
	if o.EncryptionKey, err = readKey(cmd, keyFile); err != nil {
		return v, err
	}
	if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
		if quick {
			return v, errors.New("--quick is for a folder")
		}
		ctx, stop := interruptible(cmd)
		defer stop()
		v, err := verification{o.EncryptionKey, scratch, cmd.ErrOrStderr()}.file(ctx, args[0])
		v.isFile = true
		return v, err
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

func (v verdict) print(w io.Writer) error {
	var text strings.Builder
	if line := v.describe(); line != "" {
		fmt.Fprintln(&text, plain(line))
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(&text, plain(problem))
	}
	if v.More > 0 {
		fmt.Fprintf(&text, "and %d more\n", v.More)
	}
	switch {
	case v.Error != "":
		fmt.Fprintln(&text, plain(v.Error))
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

// verifyStore answers with the result of a check of the whole store.
func verifyStore(r request) error {
	live, ok := r.Store.(engine.Checker)
	if !ok {
		return badRequest(errors.New("this storage engine cannot check a whole store"))
	}
	report, err := live.Check(r.Context())
	if err != nil && !errors.Is(err, storage.ErrDamaged) {
		return withStatus(err)
	}
	return writeJSON(r.w, http.StatusOK, newVerdict(report, err))
}
