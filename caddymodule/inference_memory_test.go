package caddymodule

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// held returns the bytes of inference bodies in this process.
func held() int64 { return heldbody.InUse() }

// newHolder returns a bare handler that forwards inference requests, once no other test's body is held.
func newHolder(t *testing.T, i *Inference) *Handler {
	t.Helper()
	wait.Until(t, "bodies of other tests are held", func() bool { return held() == 0 })
	return newInferringHandler(t, openInMemory(t), i)
}

// wantNothingHeld waits until all memory for bodies is released.
func (s *server) wantNothingHeld() {
	s.t.Helper()
	if !s.eventually(func() bool { return held() == 0 }) {
		s.t.Errorf("%d bytes are still held", held())
	}
}

// proxying is site with other directives behind presets.
func (s *server) proxying(subdirectives, directives string) string {
	_, port, _ := net.SplitHostPort(s.address)
	return fmt.Sprintf("http://:%s {\nbind 127.0.0.1\npresets {\nstorage badger %s\n%s\n}\n%s\n}\n", port, s.folder, subdirectives, directives)
}

// gateway is an upstream that calls serve for each POST.
func gateway(t *testing.T, serve http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // but not for the GETs of settle
			serve(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// stalls is a gateway that reads no body until it is released.
type stalls struct {
	address string
	began   chan struct{} // one value for each stalled request
	proceed chan struct{} // closed to release all
	goOn    func()        // closes it once
}

func newStalls(t *testing.T) *stalls {
	t.Helper()
	g := &stalls{began: make(chan struct{}, 100), proceed: make(chan struct{})}
	g.goOn = sync.OnceFunc(func() { close(g.proceed) })
	g.address = gateway(t, func(w http.ResponseWriter, r *http.Request) {
		g.began <- struct{}{}
		select {
		case <-g.proceed:
		case <-r.Context().Done():
			return
		}
		if n, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(w, n)
		}
	})
	t.Cleanup(g.goOn) // before the server waits for its requests
	return g
}

// wait waits until n more requests have reached the gateway.
func (g *stalls) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-g.began:
		case <-time.After(patience):
			t.Fatal("the gateway gets no request")
		}
	}
}

// bodyOf is a chat request of about size bytes.
func bodyOf(model string, size int) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}]}`, model, strings.Repeat("x", size))
}

// TestInferenceMemory stalls the gateway until max_memory is in use. Then requests are
// refused at once until the gateway continues.
func TestInferenceMemory(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	s.wantNothingHeld()
	for name, headers := range map[string][]string{"as it is": nil, "gzip": {"Content-Encoding: gzip"}} {
		t.Run(name, func(t *testing.T) {
			g := newStalls(t)
			if err := s.load(s.proxying(inferring("max_body_size 16MiB", "max_memory 52MiB"), "reverse_proxy "+g.address)); err != nil {
				t.Fatal(err)
			}
			// Sockets buffer some MiB of a body that the gateway does not read.
			const size = 14 << 20
			large := bodyOf("@preset/writer", size)
			if headers != nil {
				large = caddytest.Gzip(large)
			}
			// A body takes twice its size while it is merged, and its size until the
			// gateway has read it.
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() { s.ask(chatPath, large, headers...).want(t, 200) })
				g.wait(t, 1)
			}
			if got := held(); got < 2*size || got > 2*size+4<<10 {
				t.Errorf("%d bytes are held, want those of two bodies of %d", got, size)
			}
			var refused []reply
			for _, path := range inferencePaths {
				r := s.ask(path, large, headers...)
				r.want(t, 503)
				if r.header.Get("Retry-After") != "5" {
					t.Errorf("got Retry-After %q, want 5", r.header.Get("Retry-After"))
				}
				refused = append(refused, r)
			}
			golden(t, "inference_memory", refused...)
			if got := s.metric("caddy_presets_inference_bodies_refused_total"); got != "3" {
				t.Errorf("the metric counts %q refused, want 3", got)
			}
			if got := s.metric("caddy_presets_inference_body_bytes"); got == "0" || got == "" {
				t.Errorf("the metric tells of %q bytes", got)
			}
			// A small request, and a request that is not inference, still pass.
			group.Go(func() { s.ask(chatPath, `{"model":"m"}`).want(t, 200, "13") })
			g.wait(t, 1)
			s.manage("GET", "/v1/presets/writer", "").want(t, 200)

			g.goOn()
			group.Wait()
			s.wantNothingHeld()
			s.ask(chatPath, large, headers...).want(t, 200)
			s.wantNothingHeld()
		})
	}
}

// TestInferenceMemoryOverReload counts the requests of the old configuration, and applies
// the new one's limit.
func TestInferenceMemoryOverReload(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring())
	g := newStalls(t)
	load := func(lines ...string) {
		t.Helper()
		if err := s.load(s.proxying(inferring(lines...), "reverse_proxy "+g.address)); err != nil {
			t.Fatal(err)
		}
	}
	load()
	large := bodyOf("m", 20<<20)
	var group sync.WaitGroup
	group.Go(func() { s.ask(chatPath, large).want(t, 200) })
	g.wait(t, 1)
	load("max_body_size 8MiB", "max_memory 18MiB")
	s.ask(chatPath, `{"model":"m"}`).want(t, 503)
	load("max_body_size 8MiB", "max_memory 40MiB")
	group.Go(func() { s.ask(chatPath, `{"model":"m"}`).want(t, 200) })
	g.wait(t, 1)
	g.goOn()
	group.Wait()
	s.wantNothingHeld()
}

// TestBodyIsDroppedOnceRead lets the gateway read a body and stream its answer. During the
// stream the body and its memory are released.
func TestBodyIsDroppedOnceRead(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	next := make(chan struct{})
	address := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		io.WriteString(w, "begin ")
		http.NewResponseController(w).Flush()
		<-next
		io.WriteString(w, "end")
	})
	t.Cleanup(func() { close(next) }) // the gateway waits for its handlers
	if err := s.load(s.proxying(inferring(), "reverse_proxy "+address)); err != nil {
		t.Fatal(err)
	}
	const size = 24 << 20
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc) - heldbody.Idle() // which are for other bodies
	}
	for name, body := range map[string]string{
		"preset": bodyOf("@preset/writer", size), "no preset": bodyOf("m", size),
		"long name": fmt.Sprintf(`{"model":"@preset/writer","%s":1}`, strings.Repeat("m", size)),
	} {
		for _, coding := range []string{"identity", "gzip"} {
			t.Run(name+", "+coding, func(t *testing.T) {
				sent := body
				if coding == "gzip" {
					sent = caddytest.Gzip(body)
				}
				client := &http.Client{Transport: new(http.Transport)}
				defer client.CloseIdleConnections()
				before := heap()
				response := s.open(client, chatPath, strings.NewReader(sent), "Content-Encoding: "+coding)
				if !s.eventually(func() bool { return held() == 0 && heap()-before < size/3 }) {
					t.Errorf("%d bytes are held, and the heap grew by %d, while the answer is streamed", held(), heap()-before)
				}
				next <- struct{}{}
				readResponse(t, response).want(t, 200, "begin end")
			})
		}
	}
}

// TestBodyReachesAnotherUpstream sends bodies again to another upstream after one failed,
// as Caddy can be configured.
func TestBodyReachesAnotherUpstream(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	echo := gateway(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	readsSome := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		panic(http.ErrAbortHandler)
	}
	breaks := gateway(t, readsSome)
	gone := httptest.NewServer(nil)
	nobody := gone.Listener.Addr().String()
	gone.Close()
	retry := "lb_policy first\nlb_try_duration 10s\nlb_try_interval 10ms\nfail_duration 10s\nlb_retry_match {\nmethod POST\n}"
	for name, tc := range map[string]struct {
		directives string
		status     int
	}{
		"nobody listens":         {"reverse_proxy " + nobody + " " + echo + " {\n" + retry + "\n}", 200},
		"buffered":               {"reverse_proxy " + breaks + " " + echo + " {\nrequest_buffers 10MiB\n" + retry + "\n}", 200},
		"on a route for errors":  {"reverse_proxy " + nobody + "\nhandle_errors {\nreverse_proxy " + echo + "\n}", 200},
		"buffered, nobody there": {"reverse_proxy " + nobody + " " + echo + " {\nrequest_buffers 10MiB\n" + retry + "\n}", 200},
	} {
		if err := s.load(s.proxying(inferring(), tc.directives)); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{10, 1 << 20} {
			for _, model := range []string{"m", "@preset/writer"} {
				body := bodyOf(model, size)
				want := body
				if model != "m" {
					want = strings.Repeat("x", size)
				}
				s.ask(chatPath, body).want(t, tc.status, want)
				s.ask(chatPath, caddytest.Gzip(body), "Content-Encoding: gzip").want(t, tc.status)
			}
		}
		if t.Failed() {
			t.Fatal(name)
		}
		s.wantNothingHeld()
	}
	// A partly read body cannot be sent again.
	briefly := strings.Replace(retry, "lb_try_duration 10s", "lb_try_duration 200ms", 1) // Caddy retries without success for this time
	if err := s.load(s.proxying(inferring(), "reverse_proxy "+gateway(t, readsSome)+" "+echo+" {\n"+briefly+"\n}")); err != nil {
		t.Fatal(err)
	}
	s.ask(chatPath, bodyOf("m", 1<<20)).want(t, 502)
	s.wantNothingHeld()
}

// TestNothingLeaks sends all kinds of requests at once. At the end no memory is held.
func TestNothingLeaks(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB", "max_memory 4MiB"))
	s.preset("writer", writer)
	s.handler().deadlines.Body = 200 * time.Millisecond
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Break") != "" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "{}")
	})
	bomb := caddytest.Gzip(strings.Repeat("x", 10<<20))
	lying := []byte(caddytest.Gzip(bodyOf("@preset/writer", 100<<10)))
	copy(lying[len(lying)-4:], "\xff\xff\xff\x7f")
	frames := caddytest.Encode(t, "zstd", bodyOf("@preset/writer", 300<<10))
	const encoded, zstd, dry = "Content-Encoding: gzip", "Content-Encoding: zstd", "X-Preset-Dry-Run: true"
	// try sends a request. The connection may close before the body is sent.
	try := func(ctx context.Context, path string, body io.Reader, headers ...string) {
		r := newRequest(t, "POST", s.url+path, body, headers...).WithContext(ctx)
		if r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+inferenceSecret)
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	ask := func(path, body string, headers ...string) {
		try(t.Context(), path, strings.NewReader(body), headers...)
	}
	kinds := []func(path string){
		func(path string) { ask(path, bodyOf("@preset/writer", 300<<10)) },
		func(path string) { ask(path, bodyOf("m", 700<<10)) },
		func(path string) { ask(path, caddytest.Gzip(bodyOf("@preset/writer", 700<<10)), encoded) },
		func(path string) { ask(path, caddytest.Gzip(bodyOf("m", 700<<10)), encoded) },
		func(path string) { ask(path, bodyOf("m", 2<<20)) },
		func(path string) { ask(path, bomb, encoded) },
		func(path string) { ask(path, frames, zstd) },
		func(path string) { ask(path, frames[:len(frames)/2], zstd) },
		func(path string) { ask(path, frames, "Content-Encoding: br") },
		func(path string) { ask(path, bomb[:len(bomb)-20], encoded) },
		func(path string) { ask(path, string(lying), encoded) },
		func(path string) { ask(path, bodyOf("@preset/nothing", 300<<10)) },
		func(path string) { ask(path, `{"model":"@preset/writer"`+strings.Repeat(" ", 300<<10)) },
		func(path string) { ask(path, bodyOf("@preset/writer", 300<<10), dry) },
		func(path string) { ask(path, bodyOf("m", 300<<10), dry) },
		func(path string) { ask(path, "\xff"+bodyOf("m", 300<<10), dry) },
		func(path string) { ask(path, bodyOf("@preset/writer", 300<<10), "X-Break: 1") },
		func(path string) { ask(path, bodyOf("m", 300<<10), "Authorization: Bearer x") },
		func(path string) { // leaves while its body is read, or while the gateway has the body
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			body := io.MultiReader(strings.NewReader(bodyOf("m", 300<<10)), iotest.ErrReader(errors.New("gone")))
			if len(path)%2 == 0 {
				body = strings.NewReader(bodyOf("m", 300<<10))
			}
			go leave()
			try(ctx, path, body)
		},
		func(path string) { // sends fewer bytes than announced
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 900000\r\n\r\n%s", path, bearer(inferenceSecret), strings.Repeat("x", 200<<10))
			_, _ = io.ReadAll(conn)
		},
	}
	var group sync.WaitGroup
	for range 3 {
		for _, kind := range kinds {
			for _, path := range inferencePaths {
				group.Go(func() { kind(path) })
			}
		}
	}
	group.Wait()
	s.wantNothingHeld()
	s.upstream.taken()
	s.ask(chatPath, bodyOf("@preset/writer", 900<<10)).want(t, 200)
}

// TestAnnouncedBodiesTakeNoRoom announces bodies and sends little of them. Other requests
// still pass. A body that does not fit is refused before it is sent.
func TestAnnouncedBodiesTakeNoRoom(t *testing.T) {
	s := start(t, inferring("max_body_size 4MiB", "max_memory 10MiB"))
	for range 20 {
		conn := s.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 4000000\r\n\r\n{", chatPath, bearer(inferenceSecret))
	}
	if !s.eventually(func() bool { return held() >= 20*heldbody.FirstRead }) {
		t.Errorf("%d bytes are held, want at least %d", held(), 20*heldbody.FirstRead)
	}
	if got := held(); got > 20*heldbody.FirstRead*2 {
		t.Errorf("%d bytes are held for 20 bytes that were sent", got)
	}
	s.ask(chatPath, bodyOf("m", 3<<20)).want(t, 202)

	others := &heldbody.Reservation{Limit: 10 << 20}
	if err := others.Add(7 << 20); err != nil {
		t.Fatal(err)
	}
	defer others.ReleaseAll()
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + bearer(inferenceSecret) + "\r\nExpect: 100-continue\r\nContent-Length: 4000000\r\n\r\n"
	s.raw(head, 1)[0].want(t, 503)
}

// TestMemoryDefaults checks the defaults that depend on Go's memory limit.
func TestMemoryDefaults(t *testing.T) {
	const mib = 1 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tc := range []struct {
		name                    string
		limit, maxBody          int64
		wantMemory, wantMaximum int64
		wantBody                int64
	}{
		{"no limit", math.MaxInt64, 0, 48 * mib, 128 * mib, 32 * mib},
		{"no limit, large bodies", math.MaxInt64, 64 * mib, 48 * mib, 256 * mib, 64 * mib},
		{"1 GiB", 1024 * mib, 0, 48 * mib, 128 * mib, 32 * mib},
		{"256 MiB", 256 * mib, 0, 48 * mib, 128 * mib, 16 * mib},
		{"116 MiB", 116 * mib, 0, 29 * mib, 58 * mib, 7 * mib},
		{"116 MiB, small bodies", 116 * mib, 8 * mib, 29 * mib, 58 * mib, 8 * mib},
		{"116 MiB, bodies that need more", 116 * mib, 32 * mib, 29 * mib, 66 * mib, 32 * mib},
		{"less than bodies need", 4 * mib, 0, 1 * mib, 4 * mib, 1 * mib},
	} {
		debug.SetMemoryLimit(tc.limit)
		memory, err := memoryFor(0)
		i := Inference{MaxBodySize: tc.maxBody}
		if err2 := i.provisionMemory(); err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", tc.name, err, err2)
		}
		if memory != tc.wantMemory || i.MaxMemory != tc.wantMaximum || i.MaxBodySize != tc.wantBody {
			t.Errorf("%s: got %d, %d and bodies of %d, want %d, %d and %d", tc.name, memory, i.MaxMemory, i.MaxBodySize, tc.wantMemory, tc.wantMaximum, tc.wantBody)
		}
	}
}

func TestMemoryBounds(t *testing.T) {
	for set, ok := range map[int64]bool{-1: false, 1: true, maxSize: true, maxSize + 1: false} {
		got, err := memoryFor(set)
		if (err == nil) != ok || ok && got != set {
			t.Errorf("%d: got %d, %v", set, got, err)
		}
		h := Handler{Memory: set}
		if err := h.provisionSettings(caddy.NewReplacer()); !ok && (err == nil || !strings.HasPrefix(err.Error(), "memory: ")) {
			t.Errorf("%d: got the error %v, want one that names the field", set, err)
		}
	}
}

// TestOneFormIsHeld gives requests memory for two forms of their body: packed and plain, or plain and
// merged, also where the body is searched for disabled tools. One form is held when the body goes
// upstream, and none afterwards.
func TestOneFormIsHeld(t *testing.T) {
	h := newHolder(t, &Inference{Keys: keysOff})
	secret := storePreset(t, h, "writer", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"m"}`), SystemPrompt: new("Be brief.")})
	const size, small = 1 << 20, 4 << 10
	h.Inference.MaxMemory = 2*size + small // two forms, never three
	ask := func(model string, packed, dryRun bool) {
		t.Helper()
		body := bodyOf(model, size)
		r := httptest.NewRequest("POST", "http://x"+chatPath, nil)
		r.Header.Set(dryRunHeader, fmt.Sprint(dryRun))
		r.Header.Set("Authorization", "Bearer "+secret)
		if packed {
			body = stored(body)
			r.Header.Set("Content-Encoding", "gzip")
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		served := false
		next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			served = true
			if got := held(); got < size || got > size+small {
				t.Errorf("%s, packed %t: %d bytes are held for the gateway, want those of one form", model, packed, got)
			}
			return nil
		})
		w := httptest.NewRecorder()
		if err := h.ServeHTTP(w, r, next); err != nil || served == dryRun || w.Code != http.StatusOK || held() != 0 {
			t.Errorf("%s, packed %t, dry run %t: got %v, %d %.200s, and %d bytes are held", model, packed, dryRun, err, w.Code, w.Body, held())
		}
	}
	disabled := domain.WorkspacePatch{DisabledServerTools: domain.Settable[[]string]{Given: true, Value: &[]string{"openrouter:bash"}}}
	for range 2 { // then where tools are disabled
		for _, packed := range []bool{false, true} {
			ask("m", packed, false)
			ask("@preset/writer", packed, false)
			ask("@preset/writer", packed, true)
		}
		if _, err := h.service.UpdateWorkspace(t.Context(), operator, "default", disabled, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusedBodyIsDropped refuses a request. Its body takes no memory while the answer is
// sent, which may take long.
func TestRefusedBodyIsDropped(t *testing.T) {
	h := newHolder(t, &Inference{Keys: keysOff})
	r := httptest.NewRequest("POST", "http://x"+chatPath, strings.NewReader(bodyOf("@preset/unknown", 1<<10)))
	c := &inferenceCall{path: "chat/completions", route: inferenceRouteOf("chat/completions")}
	w := &observedWriter{httptest.NewRecorder(), func() {
		if c.held.Sent != nil || held() != 0 {
			t.Errorf("%d bytes are held, and %d are referred to, while the answer is sent", held(), len(c.held.Sent))
		}
	}}
	c.call = h.newCall(w, r)
	c.held.Limit = h.Inference.MaxMemory
	if !c.prepare() || w.Code != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", w.Code, w.Body)
	}
}

// observedWriter calls observe before each write.
type observedWriter struct {
	*httptest.ResponseRecorder
	observe func()
}

func (w *observedWriter) Write(p []byte) (int, error) {
	w.observe()
	return w.ResponseRecorder.Write(p)
}

// stored returns uncompressed gzip, which is no smaller than text.
func stored(text string) string {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.NoCompression)
	io.WriteString(w, text)
	w.Close()
	return out.String()
}

// TestBodiesStayApart sends bodies at once, whose memory other requests use later. Some
// gateways read a body to its end, and some close it before. Some go on reading after the
// handler returned. None may read a byte of another request.
func TestBodiesStayApart(t *testing.T) {
	h := newHolder(t, new(Inference))
	secret := storePreset(t, h, "p", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"m","temperature":1}`)})
	serve := func(ctx context.Context, body string, next caddyhttp.HandlerFunc) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://x"+chatPath, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		_ = h.ServeHTTP(httptest.NewRecorder(), r, next)
	}
	var late, group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for round := range 60 {
				size := []int{10, 3000, 5000, 64 << 10, 70 << 10}[round%5]
				text := strings.Repeat(string(rune('a'+caller)), size+round)
				sent := `{"model":"` + []string{"m", "@preset/p"}[round/5%2] + `","messages":[{"role":"user","content":"` + text + `"}],"user":"` + text[:5] + `"}`
				want := strings.Replace(sent, "@preset/p", "m", 1)
				if want != sent {
					want = strings.TrimSuffix(want, "}") + `,"temperature":1}`
				}
				ctx, cancel := context.WithCancel(t.Context())
				serve(ctx, sent, func(_ http.ResponseWriter, r *http.Request) error {
					read := func(most int64) {
						got, err := io.ReadAll(io.LimitReader(r.Body, most))
						if !strings.HasPrefix(want, string(got)) || err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
							t.Errorf("got %.100q, %v, want a part of %.100q", got, err, want)
						}
						want = want[len(got):]
					}
					switch round / 10 % 4 {
					case 0:
						if read(1 << 20); want != "" {
							t.Errorf("got all but %.100q", want)
						}
					case 1:
						read(100)
						_ = r.Body.Close()
						read(1 << 20)
					case 2:
						late.Go(func() { read(100); read(1 << 20) })
					case 3: // an error route may go on reading until the request ends
						read(100)
						late.Go(func() { read(1 << 20) })
						return errors.New("broken")
					}
					return nil
				})
				cancel()
			}
		})
	}
	group.Wait()
	late.Wait()
	if held() != 0 {
		t.Errorf("%d bytes are held", held())
	}
}
