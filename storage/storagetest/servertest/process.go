package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// Process is a server that runs as a process. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	log   log
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// Start starts a command, and kills it when the test ends. If the test has failed, it then logs
// what the command wrote.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.WaitDelay = 10 * time.Second // for children that have its output
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &p.log, &p.log
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if text := p.Log(); t.Failed() && text != "" {
			t.Logf("%s wrote:\n%s", p.name(), text)
		}
	})
	return p
}

// Serve is Start of a command that listens on a TCP address. The test fails if it does not, or
// does not end cleanly after an interrupt when the test ends, unless a signal has killed it.
func Serve(t testing.TB, cmd *exec.Cmd, address string) *Process {
	t.Helper()
	p := Start(t, cmd)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil && cmd.ProcessState.ExitCode() != -1 {
			t.Error(err)
		}
	})
	if err := p.Listens(address); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// Listens waits until something listens on a TCP address. The error says that the process has ended
// before, or that it took too long.
func (p *Process) Listens(address string) error {
	late := time.After(wait.Limit)
	for inARow := 0; inARow < 2; { // one connection alone was once to something that went away
		inARow++
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
		} else {
			inARow = 0
		}
		select {
		case <-p.ended:
			return errors.Join(fmt.Errorf("%s has ended", p.name()), p.err)
		case <-late:
			return fmt.Errorf("%s does not listen on %s", p.name(), address)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Ended is closed once the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ID returns the number of the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill ends the process at once, without a cleanup of its own.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits until the process has ended, and returns nil if it ended cleanly. It kills a process
// that does not end.
func (p *Process) Wait() error {
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s did not end cleanly: %w", p.name(), p.err)
		}
		return nil
	case <-time.After(wait.Limit):
		p.Kill()
		return fmt.Errorf("%s did not end", p.name())
	}
}

// Stop interrupts the process and waits for its end. Windows has no interrupt, so it is killed there.
func (p *Process) Stop() error {
	if runtime.GOOS == "windows" {
		p.Kill()
		return nil
	}
	_ = p.Signal(os.Interrupt)
	return p.Wait()
}

// Log returns what the process has written, unless the command had a writer of its own.
func (p *Process) Log() string { return p.log.String() }

// log is a buffer to which a process still writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
