package caddymodule

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestLargePages requests large pages from a client that does not read. Other large pages
// do not fit into memory until it leaves or times out.
func TestLargePages(t *testing.T) {
	tier.Slow(t)
	const room = 20 << 20
	if !versionPages.TryAcquire(maxVersionPages - room) {
		t.Fatal("pages of other tests are still being sent")
	}
	t.Cleanup(func() { versionPages.Release(maxVersionPages - room) })
	s := start(t, standard)
	prompt := strings.Repeat("x", 200<<10)
	for range 60 {
		s.manage("POST", "/v1/presets/p/responses", `{"model":"acme/large","instructions":"`+prompt+`"}`).want(t, 200)
	}
	const page = "/v1/presets/p/versions?limit=100"
	open := func() net.Conn {
		t.Helper()
		conn := s.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", page, inferenceSecret)
		return conn
	}
	held := func() bool { // the memory of the client that does not read
		free := versionPages.TryAcquire(room)
		if free {
			versionPages.Release(room)
		}
		return !free
	}
	slow := open()
	if !s.eventually(held) {
		t.Fatal("a page that is not read keeps no room")
	}
	s.manage("GET", page, "").want(t, 503, "Service temporarily unavailable")
	s.manage("GET", "/v1/presets/p/versions?limit=1", "").want(t, 200) // the memory is free
	slow.Close()
	if !s.eventually(func() bool { return !held() }) {
		t.Fatal("a client that left keeps its room")
	}
	s.manage("GET", page, "").want(t, 200, prompt)

	s.handler().deadlines.Body = 100 * time.Millisecond
	slow = open()
	defer slow.Close()
	if !s.eventually(func() bool { return !held() }) {
		t.Error("a client that takes too long keeps its room")
	}
}
