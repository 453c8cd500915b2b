package badger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// probeCommand is a hidden command, by which a server probes a folder in another process.
const probeCommand = "presets-probe"

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  probeCommand,
		Short: "Checks a folder whose lock the calling server holds",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Hidden = true
			cmd.Args = cobra.ExactArgs(1)
			cmd.RunE = runProbe
			isCommand.Store(true)
		},
	})
}

// isCommand is true in programs with Caddy's commands, which include probeCommand.
var isCommand atomic.Bool

// probeResult is the JSON output of probeCommand.
type probeResult struct {
	Damaged bool   `json:"damaged"`
	Error   string `json:"error"` // empty for none
}

// runProbe probes the folder that is the argument. The encryption key comes on standard
// input, as it is, which is empty if there is none.
func runProbe(cmd *cobra.Command, args []string) error {
	key, err := io.ReadAll(cmd.InOrStdin())
	if err != nil {
		return err
	}
	var v probeResult
	if err := badgerstore.Probe(args[0], badgerstore.Options{EncryptionKey: key}); err != nil {
		v = probeResult{Damaged: errors.Is(err, badgerstore.ErrDamaged), Error: err.Error()}
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
}

// probeApart is badgerstore.Probe in another process, which ends with ctx. Badger exits on
// some kinds of damage, and that must not end the server. If no process can be started,
// probeApart probes in this one and ignores ctx.
//
// Only a report of damage counts as damage. A process that ended without a report may
// have lacked memory or time.
func probeApart(ctx context.Context, folder string, o badgerstore.Options) error {
	if !isCommand.Load() {
		return badgerstore.Probe(folder, o) // in another program, or a test
	}
	program, err := ownProgram()
	if err != nil {
		return badgerstore.Probe(folder, o)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, probeCommand, folder) //nolint:gosec // it is this program, and the folder is the operator's
	cmd.Env = childEnvironment(os.Environ())
	cmd.Stdin = bytes.NewReader(o.EncryptionKey) // not an argument, which everyone can see
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	endWithServer(cmd)
	runtime.LockOSThread() // the process ends with the thread that started it
	defer runtime.UnlockOSThread()
	switch err := cmd.Start(); {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: checking it: %w", domain.ErrUnavailable, ctx.Err())
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: checking it: %w", domain.ErrUnavailable, err) // Badger would lack the same
	case err != nil:
		o.Logger.Warn("the store is checked in the server's own process: another one cannot be started", zap.Error(err))
		return badgerstore.Probe(folder, o)
	}
	err = cmd.Wait()
	var v probeResult
	reported := json.Unmarshal(stdout.Bytes(), &v) == nil
	switch {
	case reported && v.Damaged:
		return fmt.Errorf("%w%s", badgerstore.ErrDamaged, strings.TrimPrefix(v.Error, badgerstore.ErrDamaged.Error()))
	case reported && v.Error != "":
		return fmt.Errorf("%w: checking it: %s", domain.ErrUnavailable, strings.TrimPrefix(v.Error, domain.ErrUnavailable.Error()+": "))
	case reported && err == nil:
		return nil
	case err == nil:
		err = errors.New("it ended without an error")
	}
	return fmt.Errorf("%w: the process that checks it reported nothing: %w: %s", domain.ErrUnavailable, err, firstLine(stderr.String()))
}

// childEnvironment returns the variables that probeCommand needs. The others may hold
// keys.
func childEnvironment(all []string) (some []string) {
	for _, variable := range all {
		name, _, _ := strings.Cut(variable, "=")
		switch name := strings.ToUpper(name); { // Windows ignores case
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
