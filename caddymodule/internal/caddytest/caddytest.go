// Package caddytest helps tests that run Caddy in their own process.
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

// Settle waits until only the current configuration listens on a loopback address. Caddy
// closes the listeners of the previous configuration in the background. Until then they
// accept connections, and serve or reset them. Settle asks the kernel, because Caddy
// lowers its own count before it closes a listener. On systems other than Linux it does
// not wait.
func Settle(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); caddy.ListenerUsage("tcp", address) > 1 || listeners(t, address) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an old listener is still open")
		}
	}
}

// listeners returns the number of sockets that listen on an address, or 0 if the system
// does not tell.
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

// Stop replaces the configuration by an empty one, which releases stores and listeners.
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
