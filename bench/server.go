package main

import (
	"bytes"
	"cmp"
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
	// startGrace is how long it may take to start, 0 for grace.
	startGrace time.Duration
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
		if s.took > cmp.Or(s.startGrace, grace) {
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

// memory returns a field of the status in /proc, in MiB, of the server's processes together. RssAnon is the
// processes' own memory. VmRSS also includes mapped files.
func (s *server) memory(field string) (sum float64, err error) {
	for _, process := range s.processes() {
		status, err := os.ReadFile(filepath.Join(process, "status"))
		if err != nil {
			return 0, err
		}
		_, value, found := strings.Cut(string(status), "\n"+field+":")
		value, _, _ = strings.Cut(value, " kB")
		kilobytes, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !found || err != nil {
			return 0, fmt.Errorf("%s has no %s", process, field)
		}
		sum += kilobytes / 1024
	}
	return sum, nil
}

// cpuTime returns the processor time of the server's processes so far, or 0 if the system does not tell.
// It is exact to a hundredth of a second for each.
func (s *server) cpuTime() (sum time.Duration) {
	for _, process := range s.processes() {
		stat, _ := os.ReadFile(filepath.Join(process, "stat"))
		_, rest, _ := bytes.Cut(stat, []byte(") ")) // after the command's name
		const user, system, tick = 11, 12, time.Second / 100
		if fields := bytes.Fields(rest); len(fields) > system {
			sum += time.Duration(leadingNumber(fields[user])+leadingNumber(fields[system])) * tick
		}
	}
	return sum
}

// processes returns the folders in /proc of the server's process and of its workers.
func (s *server) processes() []string {
	all := []string{fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob(filepath.Join(all[i], "task", "*", "children"))
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for _, id := range strings.Fields(string(children)) {
				all = append(all, "/proc/"+id)
			}
		}
	}
	return all
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
