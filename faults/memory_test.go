//go:build faults

package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestMemory sends small requests, which decompress to 30 MiB each, to a gateway that
// stalls. The server's memory grows by a bounded amount. The server refuses requests that
// do not fit, at once. It accepts requests again when the gateway continues.
func TestMemory(t *testing.T) {
	const requests, most = 20, 400 << 20
	for _, model := range []string{"@preset/p", "m"} {
		t.Run(model, func(t *testing.T) {
			begun := time.Now()
			gateway := newStalling(t)
			s := newServer(t, options{presets: "inference", gateway: "reverse_proxy " + gateway.address})
			s.mustStart()
			if a, err := s.send(http.MethodPost, "/v1/presets/p/chat/completions", `{"model":"m","messages":[{"role":"system","content":"Be brief."}]}`); err != nil || a.status != http.StatusOK {
				t.Fatal(a, err)
			}
			large := gzipped(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"`, model), 30<<20, `"}]}`)
			before := s.resident("VmRSS")
			gateway.stall()
			var group sync.WaitGroup
			var answered atomic.Int64
			answers := make(chan answer, 2*requests)
			sent := 0
			// send sends n requests and waits until each is answered or at the gateway.
			send := func(n int) {
				sent += n
				for range n {
					group.Go(func() {
						a, err := s.infer(t.Context(), large)
						if err != nil {
							t.Error(err)
						}
						answers <- a
						answered.Add(1)
					})
				}
				wait.Until(t, "all requests are refused or at the gateway", func() bool {
					return answered.Load()+gateway.waiting.Load() == int64(sent)
				})
			}
			send(requests)
			grown := s.resident("VmHWM") - before
			if grown > most {
				t.Errorf("the process grew by %.0f MiB, want at most %.0f", mib(grown), mib(most))
			}
			if model != "m" { // the gateway gets other requests compressed, which is small
				more, before := 0, answered.Load()
				for ; answered.Load() == before && more < requests; more++ {
					send(1) // while the others wait
				}
				if answered.Load() == before {
					t.Errorf("%d more requests wait, and none was refused", more)
				}
			}
			waiting := int(gateway.waiting.Load())
			gateway.continueReading()
			group.Wait()
			close(answers)
			passes := 0
			for a := range answers {
				switch {
				case a.status == http.StatusOK:
					passes++
				case a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "":
					t.Errorf("got %v, want 200, or 503 with Retry-After", a)
				}
			}
			if passes != waiting || passes == 0 {
				t.Errorf("%d requests were answered by the gateway, want the %d that waited", passes, waiting)
			}
			if a, err := s.infer(t.Context(), large); err != nil || a.status != http.StatusOK {
				t.Errorf("after the stall: got %v, %v", a, err)
			}

			// The server frees the memory of a client that leaves.
			gateway.stall()
			ctx, leave := context.WithCancel(t.Context())
			group.Go(func() { _, _ = s.infer(ctx, large) })
			wait.Until(t, "the request is at the gateway", func() bool { return gateway.waiting.Load() == 1 })
			leave()
			group.Wait()
			wait.Until(t, "nothing is held", func() bool { return s.bodyMemory(t) == 0 })
			gateway.continueReading()
			result(t, "memory", begun, "model", model, "requests", requests, "waited", waiting,
				"grown", fmt.Sprintf("%.0fMiB", mib(grown)), "packed", len(large))
		})
	}
}

// gzipped returns in gzip a text of size bytes between head and tail.
func gzipped(t *testing.T, head string, size int, tail string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for _, part := range []string{head, strings.Repeat("x", size), tail} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// infer sends a body in gzip with the inference key.
func (s *server) infer(ctx context.Context, body []byte) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.site+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+inferenceKey)
	r.Header.Set("Content-Encoding", "gzip")
	return s.do(r)
}

// resident returns a field of the process's status in bytes. VmRSS is the resident memory
// now, and VmHWM its maximum so far.
func (s *server) resident(field string) int64 {
	s.t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.process.ID()), "status"))
	if err != nil {
		servertest.Lack(s.t, "proc", "there is no /proc with the server's memory: %v", err)
	}
	found := regexp.MustCompile(`(?m)^` + field + `:\s+(\d+) kB$`).FindSubmatch(status)
	if found == nil {
		s.t.Fatalf("the status has no %s:\n%s", field, status)
	}
	kb, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return kb << 10
}

// bodyMemory returns the server's metric for the memory of inference bodies.
func (s *server) bodyMemory(t *testing.T) int64 {
	t.Helper()
	a, err := s.sendAdmin(http.MethodGet, "/metrics", "", "")
	if err != nil || a.status != http.StatusOK {
		t.Fatal(a.status, err)
	}
	found := regexp.MustCompile(`(?m)^caddy_presets_inference_body_bytes (\S+)$`).FindSubmatch(a.body)
	if found == nil {
		t.Fatal("there is no caddy_presets_inference_body_bytes")
	}
	held, _ := strconv.ParseFloat(string(found[1]), 64)
	return int64(held)
}

// stalling is a gateway that reads no body while it stalls.
type stalling struct {
	address string
	waiting atomic.Int64 // requests whose heads it has read

	mu sync.Mutex
	on chan struct{} // closed when it continues
}

func newStalling(t *testing.T) *stalling {
	t.Helper()
	g := &stalling{on: make(chan struct{})}
	close(g.on)
	server := httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(server.Close)
	t.Cleanup(g.continueReading) // before the server's stop waits for its requests
	g.address = server.Listener.Addr().String()
	return g
}

func (g *stalling) serve(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	on := g.on
	g.mu.Unlock()
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	<-on
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		_, _ = io.WriteString(w, "{}")
	}
}

func (g *stalling) stall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = make(chan struct{})
}

func (g *stalling) continueReading() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.on:
	default:
		close(g.on)
	}
}
