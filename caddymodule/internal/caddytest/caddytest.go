// Package caddytest helps tests that run Caddy in their own process.
package caddytest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// Settle waits until only the current configuration listens on a loopback address or a Unix
// socket. Caddy closes the previous listeners in the background. Until then they accept connections,
// which get the previous answers or a reset. Caddy lowers its own count before it closes a
// listener. So Settle then asks the kernel, which reports listeners on Linux only.
func Settle(t *testing.T, address string) {
	t.Helper()
	if path, ok := strings.CutPrefix(address, "unix/"); ok {
		wait.Until(t, "an old listener is still open", func() bool { return caddy.ListenerUsage("unix", path) <= 1 && descriptors(path) <= 1 })
		return
	}
	pause := time.Millisecond
	for deadline := time.Now().Add(wait.Limit); caddy.ListenerUsage("tcp", address) > 1 || listeners(t, address) > 1; time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("an old listener is still open on %s: Caddy counts %d, the kernel %d", address, caddy.ListenerUsage("tcp", address), listeners(t, address))
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// SettleAdmin does what Settle does for the address of the admin endpoint, and waits until the
// endpoint answers.
func SettleAdmin(t *testing.T, address string) {
	t.Helper()
	Settle(t, address)
	awaitAdmin(t, "tcp", address)
}

// awaitAdmin waits until the admin endpoint answers. Caddy decides late which server accepts the
// connections of a listener. If the next configuration came earlier, its server would keep this
// listener, too.
func awaitAdmin(t *testing.T, network, address string) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		return // no configuration was loaded
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	// No handler gets a request without a version, so nothing is logged.
	if _, err := conn.Write([]byte("settle\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal("the admin endpoint does not answer:", err)
	}
}

// listeners returns how many sockets listen on an address, and 0 where the system does not
// report them.
func listeners(t *testing.T, address string) (count int) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	number, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		t.Fatal(address, err, err2)
	}
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return 0
	}
	defer table.Close()
	wanted := fmt.Sprintf("0100007F:%04X", number)
	// Listening sockets come first. The thousands of others are not read: the kernel takes
	// long to list them. One read of the table gives few lines.
	lines := bufio.NewReaderSize(table, 1024)
	_, _ = lines.ReadString('\n') // the title
	for {
		line, err := lines.ReadString('\n')
		// number, local address, remote address, state
		fields := strings.Fields(line)
		if err != nil || len(fields) < 4 || fields[3] != "0A" { // it does not listen
			return count
		}
		if fields[1] == wanted {
			count++
		}
	}
}

// Stop replaces the configuration by an empty one, which releases stores and listeners.
func Stop(t *testing.T) {
	t.Helper()
	if err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}}}`), true); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
