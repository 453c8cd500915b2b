package admin

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// asCommand is the variable that makes this program caddy presets.
const asCommand = "CADDY_PRESETS_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		runAsCommand()
	}
	caddytest.Main(m)
}

func runAsCommand() {
	presets := &cobra.Command{Use: "presets", SilenceUsage: true, SilenceErrors: true}
	addCommands(presets)
	presets.AddCommand(&cobra.Command{Use: "deaf", Run: func(cmd *cobra.Command, _ []string) {
		ctx, stop := terminal.Interruptible(cmd.Context())
		defer stop()
		fmt.Fprintln(os.Stderr, "begun")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "interrupted")
		select {}
	}})
	if err := presets.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// command is a command in a process of its own.
type command struct {
	*exec.Cmd
	stderr *bufio.Reader
}

func startCommand(t *testing.T, args ...string) command {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no process can be interrupted")
	}
	ctx := wait.Context(t)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stdin, err := cmd.StdinPipe() // a pipe without data
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return command{cmd, bufio.NewReader(stderr)}
}

func (c command) interrupt(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptWaiting interrupts commands that wait for standard input or for the server.
// They end.
func TestInterruptWaiting(t *testing.T) {
	tier.Slow(t)
	for what, args := range map[string][]string{
		"backup": {"backup", filepath.Join(t.TempDir(), "b")},
		"stdout": {"backup", "-"},
	} {
		t.Run(what, func(t *testing.T) {
			asked, end := make(chan struct{}), make(chan struct{})
			deaf := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(asked)
				<-end
			}))
			defer deaf.Close()
			defer close(end)
			c := startCommand(t, append(args, "--address", deaf.Listener.Addr().String())...)
			<-asked
			c.interrupt(t)
			text, _ := io.ReadAll(c.stderr)
			if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(text), "interrupted") {
				t.Errorf("got %q, %v, want that it was interrupted", text, err)
			}
		})
	}
}

// TestInterruptTwice interrupts a command twice. The second interrupt ends it, whatever it
// waits for.
func TestInterruptTwice(t *testing.T) {
	if signal.Ignored(os.Interrupt) {
		t.Skip("this process was started to ignore the signal, and so is each that it starts")
	}
	c := startCommand(t, "deaf")
	for _, want := range []string{"begun\n", "interrupted\n"} {
		if got, err := c.stderr.ReadString('\n'); got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		c.interrupt(t)
	}
	// The second signal may arrive before its default effect is restored.
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	var err error
	for waits := true; waits; {
		select {
		case err = <-ended:
			waits = false
		case <-time.After(20 * time.Millisecond):
			_ = c.Process.Signal(os.Interrupt)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "signal: interrupt") {
		t.Errorf("got %v, want that the signal ended it", err)
	}
}
