package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// The folders of the other modules, relative to this module.
const (
	mainModule       = ".."
	etcdModule       = "../caddymodule/etcd"
	pocketBaseModule = "pocketbase"
)

// build builds a command of a module and returns the path of the binary.
func (b *bench) build(module, command, name string, flags ...string) (string, error) {
	file := filepath.Join(b.folder, name)
	args := append([]string{"build", "-C", module, "-o", file}, flags...)
	cmd := exec.CommandContext(b.ctx, "go", append(args, command)...) //nolint:gosec // named by constants
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return file, nil
}

// server is a server process.
type server struct {
	cmd   *exec.Cmd
	log   string        // the file with its output
	ended chan struct{} // closed once it has ended
	begun time.Time
	took  time.Duration // to start
}

// start starts a server and waits until it answers a request as expected.
func (b *bench) start(cmd *exec.Cmd, env []string, ready *request) (*server, error) {
	s, err := b.launch(cmd, env)
	if err == nil {
		err = s.await(ready)
	}
	return s, err
}

// launch starts a server. It ends with b's context at the latest.
func (b *bench) launch(cmd *exec.Cmd, env []string) (*server, error) {
	log, err := os.CreateTemp(b.folder, "log-*")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "HOME="+b.folder, "XDG_DATA_HOME="+b.folder, "XDG_CONFIG_HOME="+b.folder)
	cmd.Env = append(cmd.Env, env...)
	cmd.Cancel = s.interrupt
	cmd.WaitDelay = grace // then it is killed
	s.begun = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.servers = append(b.servers, s)
	go s.wait()
	return s, nil
}

// await waits until the server answers a request as expected.
func (s *server) await(ready *request) error {
	for {
		_, _, err := ready.ask()
		if s.took = time.Since(s.begun); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return s.failed(errors.New("it ended"))
		case <-time.After(time.Millisecond):
		}
		if s.took > grace {
			return s.failed(err)
		}
	}
}

func (s *server) wait() {
	_ = s.cmd.Wait() // its log tells the reason
	close(s.ended)
}

// hasEnded reports whether the process has ended. Another one may have its id then.
func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// failed returns an error with the end of the server's output.
func (s *server) failed(err error) error {
	said, _ := os.ReadFile(s.log)
	return fmt.Errorf("%s: %w\n%s", filepath.Base(s.cmd.Path), err, said[max(0, len(said)-4000):])
}

func (s *server) interrupt() error { return s.cmd.Process.Signal(os.Interrupt) }

// stop ends the server and waits for its end. Further calls do nothing.
func (s *server) stop() {
	_ = s.interrupt() // fails if it has ended
	select {
	case <-s.ended:
	case <-time.After(grace):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// memory returns a field of the server's status in /proc, in MiB. RssAnon is the
// process's own memory. VmRSS also includes mapped files.
func (s *server) memory(field string) (float64, error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", status.Name(), field)
}

// cpuTime returns the server's processor time so far, or 0 if the system does not tell.
// It is exact to a hundredth of a second.
func (s *server) cpuTime() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // after the command's name
	const user, system, tick = 11, 12, time.Second / 100
	fields := bytes.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	return time.Duration(leadingNumber(fields[user])+leadingNumber(fields[system])) * tick
}

// reserveAddresses returns loopback addresses for servers. The kernel gives their ports to
// no other process until this one ends.
func reserveAddresses(n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i], _ = servertest.ReserveAddress()
	}
	return addresses
}
