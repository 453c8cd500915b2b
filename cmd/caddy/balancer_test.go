package main_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestBalancer runs docs/cluster/balancer.Caddyfile in front of three nodes. It sends to the nodes that
// are ready. If none is, it sends to all that take a connection.
func TestBalancer(t *testing.T) {
	tier.Slow(t)
	const secret = "inference-key-of-the-tests"
	home := t.TempDir()
	var nodes []string // names in the document, and addresses
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, "caddy-"+name+":8080", freeAddress(t))
	}
	// A node answers with its own name in place of its gateway.
	node := func(n int) *process {
		t.Helper()
		name, at := nodes[2*n], place{home, nodes[2*n+1], freeAddress(t), "10s"}
		return at.start(t, at.write(t, at.storage("store-"+name[len("caddy-"):][:1])+"\nhealth /healthz\ninference_key "+secret+"\ninference", "respond "+name))
	}
	// breakStore removes a file, so that the node's next start finds damage and is not ready.
	breakStore := func(n int) {
		t.Helper()
		if err := os.Remove(filepath.Join(home, "store-"+string(rune('a'+n)), "MANIFEST")); err != nil {
			t.Fatal(err)
		}
	}
	var running [3]*process
	for n := range running {
		running[n] = node(n)
		if n > 0 {
			running[n].Kill()
			breakStore(n)
			running[n] = node(n)
			if status, body := running[n].do(t, http.MethodGet, "/healthz", "", ""); status != http.StatusServiceUnavailable {
				t.Fatalf("a node without a store is as ready as %d %s", status, body)
			}
		}
	}
	document, err := os.ReadFile("../../docs/cluster/balancer.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	front := place{home: home, address: freeAddress(t)}
	_, port, _ := net.SplitHostPort(front.address)
	text := strings.NewReplacer(append([]string{"http://:8080 {", "http://:" + port + " {\n\tbind 127.0.0.1"}, nodes...)...).Replace(string(document))
	balancer := front.start(t, front.file(t, "balancer.caddyfile", text))

	ask := func() string {
		t.Helper()
		began := time.Now()
		status, body := balancer.do(t, http.MethodPost, "/v1/chat/completions", secret, `{"model":"m","messages":[]}`)
		if took := time.Since(began); status != http.StatusOK || took > 30*time.Second {
			return fmt.Sprintf("%d %s after %v", status, body, took)
		}
		return body
	}
	// until asks until some nodes, and no others, have answered several times in turn.
	until := func(what string, want ...string) {
		t.Helper()
		var last map[string]int
		for late := time.Now().Add(wait.Limit); time.Now().Before(late); {
			last = make(map[string]int)
			for range 20 {
				last[ask()]++
			}
			matches := len(last) == len(want)
			for _, name := range want {
				matches = matches && last[name] > 0
			}
			if matches {
				return
			}
		}
		t.Fatalf("%s: got answers %v, want those of %v", what, last, want)
	}
	until("one node is ready", nodes[0])
	running[0].Kill()
	breakStore(0)
	running[0] = node(0)
	until("no node is ready", nodes[0], nodes[2], nodes[4])
	running[1].Kill()
	until("no node is ready, and one is gone", nodes[0], nodes[4])
	if status, body := balancer.do(t, http.MethodPost, "/v1/chat/completions", secret, `{"model":"@preset/p","messages":[]}`); status != http.StatusServiceUnavailable || !strings.Contains(body, "Service temporarily unavailable") {
		t.Errorf("a request with a preset gives %d %s, want the error of a node", status, body)
	}
}
