package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// ofSize returns a model list of size bytes.
func ofSize(size int) string {
	return `{"object":"list","data":[{"id":"m"}]` + strings.Repeat(" ", size-len(`{"object":"list","data":[{"id":"m"}]}`)) + "}"
}

// answersList makes the gateway answer with a model list. It returns how often it did.
func (u *upstream) answersList(list string, headers ...string) *atomic.Int64 {
	answered := new(atomic.Int64)
	u.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(list)))
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, list)
		answered.Add(1)
	})
	return answered
}

// askWithoutReading sends a GET of a path, and reads nothing until the end of the test.
func (s *server) askWithoutReading(path, key string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: gateway.test\r\n"+key+"\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

const bodiesRefused = "caddy_presets_inference_bodies_refused_total"

// TestModelsOfClientsThatNeverRead has many clients that ask for a long list, and read nothing.
// Their lists take at most half of max_memory. Others get 503, and small requests pass.
func TestModelsOfClientsThatNeverRead(t *testing.T) {
	tier.Race(t)
	const size, fit = 6 << 20, 4
	s := start(t, inferring("list_models on", "max_body_size 8MiB", "max_memory 50MiB"))
	s.preset("p", `{"model":"m"}`)
	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	s.wantNothingHeld()
	for name, tc := range map[string]struct {
		setting, key string
		clients      int
	}{
		"presets are added":  {"list_models on", bearer(inferenceSecret), 60},
		"models are limited": {"list_models off", limited, 12},
	} {
		t.Run(name, func(t *testing.T) {
			s.reload(inferring(tc.setting, "max_body_size 8MiB", "max_memory 50MiB"))
			answered := s.upstream.answersList(ofSize(size))
			refused, _ := strconv.Atoi(s.metric(bodiesRefused))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var conns []net.Conn
			for range tc.clients {
				conns = append(conns, s.askWithoutReading("/v1/models", tc.key))
			}
			most := int64(0)
			settled := s.eventually(func() bool {
				most = max(most, held())
				now, _ := strconv.Atoi(s.metric(bodiesRefused))
				waiting := int(held() / size)
				return int(answered.Load()) == tc.clients && waiting > 0 && now-refused+waiting == tc.clients
			})
			if !settled || most > 25<<20 || held() > fit*(size+4<<10) {
				t.Errorf("%d lists were sent, %s were refused, and %d bytes are held, %d at most", answered.Load(), s.metric(bodiesRefused), held(), most)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 50<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
			s.ask(chatPath, `{"model":"m"}`).want(t, 200, "{}")
			for _, conn := range conns {
				_ = conn.Close()
			}
			s.wantNothingHeld()
		})
	}
}

// TestModelsWriteDeadline checks that a client that does not read is cut off: its memory is free
// while its connection is open.
func TestModelsWriteDeadline(t *testing.T) {
	tier.Race(t)
	s := start(t, inferring("list_models on"))
	s.preset("p", `{"model":"m"}`)
	required := bearer(s.issue(`{"kind":"inference","preset_required":true}`).secret)
	s.handler().deadlines.Body = 200 * time.Millisecond
	for name, list := range map[string]string{"edited": ofSize(8 << 20), "unchanged": strings.Repeat("x", 8<<20)} {
		answered := s.upstream.answersList(list)
		for _, key := range []string{bearer(inferenceSecret), required} {
			s.askWithoutReading("/v1/models", key)
		}
		if !s.eventually(func() bool { return answered.Load() == 2 && held() == 0 }) {
			t.Fatalf("%s: clients that do not read hold %d bytes", name, held())
		}
	}
}

// TestModelsWithoutMemory takes the memory before the gateway answers. Refusals have none of the
// gateway's headers.
func TestModelsWithoutMemory(t *testing.T) {
	s := start(t, inferring("list_models on", "max_body_size 1MiB", "max_memory 8MiB"))
	s.preset("p", `{"model":"m"}`)
	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	s.wantNothingHeld()
	s.upstream.answersList(ofSize(1<<20), "Cache-Control: public, max-age=600", `ETag: "x"`, "Set-Cookie: a=b")
	for _, path := range []string{"/v1/models", "/v1/models/@preset%2Fp"} {
		for _, key := range []string{bearer(inferenceSecret), limited} {
			// No room for the list, for its entries, and for a copy.
			for _, free := range []int64{100, 1 << 20, 1<<20 + 300} {
				if free > 1<<20 && (key != limited || path != "/v1/models") {
					continue
				}
				taken := 4<<20 - free
				others := &heldbody.Reservation{Limit: 1 << 40}
				_ = others.Add(taken)
				r := s.do("GET", path, "", key)
				others.ReleaseAll()
				r.wantError(t, 503, heldbody.ErrNoMemory.Message)
				if r.header.Get("Retry-After") != "5" || r.header.Get("Cache-Control")+r.header.Get("ETag")+r.header.Get("Set-Cookie") != "" {
					t.Errorf("%s with %d bytes: got headers %v", path, free, r.header)
				}
				if vary := r.header.Values("Vary"); len(vary) != 1 || vary[0] != "Authorization, X-Api-Key" {
					t.Errorf("%s with %d bytes: got Vary %q", path, free, vary)
				}
			}
			s.do("GET", path, "", key).want(t, 200)
			s.wantNothingHeld()
		}
	}
	// A list that never fits passes as it is.
	huge := ofSize(5 << 20)
	s.upstream.answersList(huge)
	if r := s.do("GET", "/v1/models", "", limited); r.status != 200 || r.body != huge {
		t.Errorf("got %d with %d bytes, want the list of %d", r.status, len(r.body), len(huge))
	}
	s.wantNothingHeld()
}

// TestModelsThatBreakOff checks that no memory is held after a gateway's answer broke off.
func TestModelsThatBreakOff(t *testing.T) {
	s := start(t, inferring("list_models on"))
	s.wantNothingHeld()
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000000")
		_, _ = io.WriteString(w, `{"object":"list","data":[`)
		panic(http.ErrAbortHandler)
	})
	for range 3 {
		r, err := http.NewRequest("GET", s.url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+inferenceSecret)
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	s.wantNothingHeld()
}
