// Package caddytest has what tests of modules need that run Caddy in their own process.
package caddytest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Settle waits until nobody listens on a loopback address but the configuration at work:
// Caddy closes the listeners of the one before in the background, and until then they
// take connections, which are served as before the change or reset. Caddy's own count is
// lowered before a listener is closed, so the kernel is asked where it tells, which is on
// Linux.
func Settle(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); caddy.ListenerUsage("tcp", address) > 1 || listeners(t, address) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an old listener is still open")
		}
	}
}

// listeners returns how many sockets listen on an address, 0 where the system does not
// tell.
func listeners(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	number, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil {
		t.Fatal(address, err, err2)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0
	}
	return strings.Count(string(table), fmt.Sprintf(" 0100007F:%04X 00000000:0000 0A ", number)) // 0A: listens
}

// Stop replaces the configuration by an empty one, which lets go of stores and listeners.
func Stop(t *testing.T) {
	t.Helper()
	if err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}}}`), true); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Eventually waits until ok returns true, for half a minute at most.
func Eventually(ok func() bool) bool {
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}
