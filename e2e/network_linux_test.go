package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// network is a network with a loopback device alone, for programs that must reach nothing else.
type network struct {
	tasks chan func()
	env   []string // for the programs in it
}

// newNetwork returns a network that lasts as long as the test. Only root can make one. For others,
// all of the machine's addresses are in it, and the environment names a proxy that refuses.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("not root: the programs could reach other addresses")
		return &network{env: noProxy}
	}
	n := &network{tasks: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever, so the thread ends with the network
		made <- errors.Join(unix.Unshare(unix.CLONE_NEWNET), loopbackUp())
		for task := range n.tasks {
			task()
		}
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(n.tasks) })
	return n
}

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// do runs a function whose listeners and processes are in the network.
func (n *network) do(f func()) {
	if n.tasks == nil {
		f()
		return
	}
	done := make(chan struct{})
	n.tasks <- func() {
		defer close(done)
		f()
	}
	<-done
}

// endProcesses ends the processes with a variable in their environment, which a program left behind.
func endProcesses(variable string) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		environment, _ := os.ReadFile(file)
		if id, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.Contains(environment, append([]byte(variable), 0)) {
			_ = unix.Kill(id, unix.SIGKILL)
		}
	}
}
