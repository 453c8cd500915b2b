package caddymodule

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// exitDamaged is the exit code of the verify command for a store that is damaged.
// Caddy itself uses those below.
const exitDamaged = 10

// isCommand tells that this program has our commands, as those have that are made
// of Caddy's own main.
var isCommand atomic.Bool

// verdict is what the verify command prints as JSON.
type verdict struct {
	badger.Report
	Damaged bool   `json:"damaged"`
	Error   string `json:"error"` // empty for none
}

func newVerdict(report badger.Report, err error) verdict {
	v := verdict{Report: report, Damaged: errors.Is(err, badger.ErrDamaged) || len(report.Problems) > 0}
	if err != nil {
		v.Error = err.Error()
	}
	return v
}

// lockedFlag is for the server's own use: it holds the lock of the folder meanwhile.
const lockedFlag = "locked"

func verifyCommand() *cobra.Command {
	var (
		target                adminTarget
		keyFile               string
		quick, locked, asJSON bool
	)
	verify := &cobra.Command{
		Use:   "verify [--json] [--quick] [--encryption-key-file <file>] [<folder>]",
		Short: "Looks for damage in a store",
		Long: `
Reads all that is in a store and finds out whether any of it is damaged or missing.
With a folder it looks there; no server may have that open. Without one it asks the
running server to look at the store that it has open, of whichever engine. In etcd it
looks at the records, as one member after another has them; whether all members have the
same, and their files are sound, is for etcd's own checks to say.

--quick looks at a folder as a start of the server does: at the checksums of all
tables and at the end of the log, but not at each record. A folder that is encrypted
needs the file of its key; - is standard input.

The exit code is 10 if there is damage, and 1 if it could not be found out.`,
		Args: cobra.MaximumNArgs(1),
	}
	target.flags(verify)
	flags := verify.Flags()
	flags.BoolVar(&quick, "quick", false, "Look at a folder as a start of the server does")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key that the folder is encrypted with")
	flags.BoolVar(&asJSON, "json", false, "Print JSON")
	flags.BoolVar(&locked, lockedFlag, false, "Look quickly, for the process that has the lock of the folder")
	_ = flags.MarkHidden(lockedFlag) // fails for an unknown flag only
	verify.RunE = func(cmd *cobra.Command, args []string) error {
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) {
			v, err := look(cmd, &target, args, quick, locked, keyFile)
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
				return exitDamaged, errors.New("the store is damaged: restore a backup")
			case v.Error != "":
				return 1, errors.New(v.Error)
			}
			return 0, nil
		})(cmd, args)
	}
	return verify
}

func look(cmd *cobra.Command, target *adminTarget, args []string, quick, locked bool, keyFile string) (v verdict, err error) {
	var o badger.Options
	switch {
	case len(args) == 0 && (quick || locked || keyFile != ""):
		return v, errors.New("--quick and --encryption-key-file want a folder")
	case len(args) == 0:
		err = target.call(http.MethodPost, adminPath+"verify", nil, &v)
		return v, err
	case keyFile == "-":
		o.EncryptionKey, err = readKey(cmd.InOrStdin(), "standard input")
	case keyFile != "":
		o.EncryptionKey, err = readKeyFile(keyFile, caddy.Log())
	}
	switch {
	case err != nil:
		return v, fmt.Errorf("--encryption-key-file: %w", err)
	case locked:
		return newVerdict(badger.Report{}, badger.Probe(args[0], o)), nil
	}
	var report badger.Report
	if quick {
		err = badger.VerifyQuickly(args[0], o)
	} else {
		report, err = badger.Verify(cmd.Context(), args[0], o)
	}
	if errors.Is(err, badger.ErrInUse) {
		err = fmt.Errorf("%w; without the folder this asks the server that has it open", err)
	}
	return newVerdict(report, err), nil
}

func (v verdict) print(w io.Writer) error {
	var text strings.Builder
	for _, problem := range v.Problems {
		fmt.Fprintln(&text, problem)
	}
	if v.More > 0 {
		fmt.Fprintf(&text, "and %d more\n", v.More)
	}
	switch {
	case v.Error != "":
		fmt.Fprintln(&text, v.Error)
	case !v.Damaged:
		tables := ""
		if v.Tables > 0 {
			tables = fmt.Sprintf(" and %d tables", v.Tables)
		}
		fmt.Fprintf(&text, "Nothing is damaged: looked at %d records%s.\n", v.Records, tables)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// checker is what a storage engine offers that can look at all that it has stored
// while it is in use.
type checker interface {
	Check(ctx context.Context) (badger.Report, error)
}

// verifyStore answers what a look at the whole store finds.
func verifyStore(r adminRequest) error {
	live, ok := r.store.(checker)
	if !ok {
		return badRequest(errors.New("the engine of this store cannot look at all of it"))
	}
	report, err := live.Check(r.Context())
	if err != nil && !errors.Is(err, badger.ErrDamaged) {
		return adminError(err)
	}
	return writeJSON(r.w, http.StatusOK, newVerdict(report, err))
}

// probeApart does what badger.Probe does, in a process of its own, which ends with ctx:
// on damage that nobody has foreseen Badger ends the process, which must not be this
// one. Where no other can be started it is done here, and goes on to its end.
//
// Only what that process says is damage. One that ended without a word may have lacked
// memory, or time.
func probeApart(ctx context.Context, folder string, o badger.Options) error {
	if !isCommand.Load() {
		return badger.Probe(folder, o) // in a program of someone else's, or a test
	}
	program, err := ownProgram()
	if err != nil {
		return badger.Probe(folder, o)
	}
	var stdout, stderr bytes.Buffer
	//nolint:gosec // it is this program, and the folder is the operator's
	cmd := exec.CommandContext(ctx, program, "presets", "verify", "--"+lockedFlag, "--json", folder)
	cmd.Env = childEnvironment(os.Environ())
	if len(o.EncryptionKey) > 0 { // not among the arguments, which all can see
		cmd.Args = append(cmd.Args, "--encryption-key-file", "-")
		cmd.Stdin = strings.NewReader(hex.EncodeToString(o.EncryptionKey))
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	endWithServer(cmd)
	runtime.LockOSThread() // which is to live for as long as that process does
	defer runtime.UnlockOSThread()
	switch err := cmd.Start(); {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: checking it: %w", domain.ErrUnavailable, ctx.Err())
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: checking it: %w", domain.ErrUnavailable, err) // and Badger would lack the same
	case err != nil:
		o.Logger.Warn("the store is checked in the server's own process: another one cannot be started", zap.Error(err))
		return badger.Probe(folder, o)
	}
	err = cmd.Wait()
	var v verdict
	told := jsonv2.Unmarshal(stdout.Bytes(), &v) == nil
	switch {
	case told && v.Damaged:
		return fmt.Errorf("%w%s", badger.ErrDamaged, strings.TrimPrefix(v.Error, badger.ErrDamaged.Error()))
	case told && v.Error != "":
		return fmt.Errorf("%w: checking it: %s", domain.ErrUnavailable, strings.TrimPrefix(v.Error, domain.ErrUnavailable.Error()+": "))
	case told && err == nil:
		return nil
	case err == nil:
		err = errors.New("it ended as if all were well")
	}
	return fmt.Errorf("%w: the process that checks it told nothing: %w: %s", domain.ErrUnavailable, err, firstLine(stderr.String()))
}

// childEnvironment returns what of an environment the process that checks a store
// needs. The rest may hold keys, which are none of its business.
func childEnvironment(all []string) (some []string) {
	for _, variable := range all {
		name, _, _ := strings.Cut(variable, "=")
		switch name := strings.ToUpper(name); { // as Windows has it
		case strings.HasPrefix(name, "XDG_"),
			slices.Contains([]string{"PATH", "HOME", "SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "TEMP", "TMP"}, name):
			some = append(some, variable)
		}
	}
	return some
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
