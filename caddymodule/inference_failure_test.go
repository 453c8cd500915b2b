package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// serving loads a site of ours with other directives behind it, and further sites.
func (s *server) serving(subdirectives, directives, others string) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.address)
	site := fmt.Sprintf("http://localhost:%s {\nbind 127.0.0.1\nlog\npresets {\nstorage badger %s\n%s\n}\n%s\n}\n%s", port, s.folder, subdirectives, directives, others)
	if err := s.load(strings.ReplaceAll(site, "PORT", port)); err != nil {
		s.t.Fatal(err)
	}
}

// askHere is ask by the name of the site that serving loads.
func (s *server) askHere(path, body string, headers ...string) reply {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.address)
	return send(s.t, "POST", "http://localhost:"+port+path, body, append([]string{bearer(inferenceSecret)}, headers...)...)
}

// wantGatewayError checks a failure of the gateway in the form of each route's clients.
func wantGatewayError(t *testing.T, path string, r reply, status int, message string) {
	t.Helper()
	want := map[string]string{
		chatPath:      fmt.Sprintf(`{"error":{"code":%d,"message":%q},"user_id":"bob"}`, status, message),
		responsesPath: fmt.Sprintf(`{"error":{"code":%d,"type":"server_error","message":%q},"metadata":null}`, status, message),
		messagesPath:  fmt.Sprintf(`{"type":"error","error":{"type":"api_error","message":%q}}`, message),
	}[path]
	if status == http.StatusGatewayTimeout {
		want = strings.Replace(want, "api_error", "timeout_error", 1)
	}
	if r.status != status || r.body != want || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: got %d %s %s, want %d %s", path, r.status, r.header.Get("Content-Type"), r.body, status, want)
	}
}

// TestGatewayFailures checks that a gateway which cannot answer leaves a body in the route's
// form, with the id of the access log. Caddy still logs the cause, which no client sees.
func TestGatewayFailures(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	gone := freeAddress(t)
	s.upstream.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, tc := range []struct {
		name, directives string
		status           int
		message, cause   string
	}{
		{"nobody listens", "reverse_proxy " + gone, 502, "The gateway cannot be reached", "connection refused"},
		{"too slow", fmt.Sprintf("reverse_proxy %s {\ntransport http {\nresponse_header_timeout 50ms\n}\n}", s.upstream.Listener.Addr()), 504, "The gateway did not answer in time", "awaiting response headers"},
		{"known to be down", "reverse_proxy " + gone + " {\nmax_fails 1\nfail_duration 10m\n}", 503, "The gateway is not available", "no upstreams available"},
		{"another failure", `error "secret words" 418`, 418, "I'm a teapot", "secret words"},
	} {
		for _, usage := range []string{"", "usage"} {
			s.serving(inferring(usage), tc.directives, "")
			if tc.status == 503 {
				wantGatewayError(t, chatPath, s.askHere(chatPath, `{"model":"m"}`), 502, "The gateway cannot be reached")
			}
			for _, path := range inferencePaths {
				for _, model := range []string{"m", "@preset/writer@1"} {
					var r reply
					before := len(s.logs())
					logged := s.logged(func() { r = s.askHere(path, `{"model":"`+model+`","stream":true}`) })
					if tc.status < 500 {
						if r.status != tc.status || !strings.Contains(r.body, tc.message) {
							t.Errorf("%s, %s: got %d %s", tc.name, path, r.status, r.body)
						}
					} else {
						wantGatewayError(t, path, r, tc.status, tc.message)
					}
					id := r.header.Get("X-Request-Id")
					if uuids.FindString(id) != id || id == "" || logged["uuid"] != id || logged["status"] != float64(tc.status) {
						t.Errorf("%s, %s: got X-Request-Id %q, the access log has %v", tc.name, path, id, logged)
					}
					if got := r.header.Get("Request-Id"); (got == id) != (path == messagesPath) {
						t.Errorf("%s, %s: got Request-Id %q", tc.name, path, got)
					}
					if got := r.header.Get("X-Preset"); (got == "writer@1") != (model != "m") {
						t.Errorf("%s, %s: got X-Preset %q", tc.name, path, got)
					}
					logs := s.logs()[before:]
					if strings.Count(logs, `"logger":"http.log.error`) != 1 || !strings.Contains(logs, tc.cause) {
						t.Errorf("%s, %s: want the cause %q in one line of Caddy's: %s", tc.name, path, tc.cause, logs)
					}
					if strings.Contains(logs, "request failed") || strings.Contains(r.body, tc.cause) && tc.cause != "" {
						t.Errorf("%s, %s: the cause is in %s or in our log: %s", tc.name, path, r.body, logs)
					}
				}
			}
		}
	}

	// On routes where no preset is resolved, Caddy answers as ever.
	s.serving(inferring(), "reverse_proxy "+gone, "")
	if r := s.askHere("/v1/embeddings", `{"model":"m"}`); r.status != 502 || r.body != "" {
		t.Errorf("got %d %q, want Caddy's 502", r.status, r.body)
	}
}

// TestGatewayFailuresOfEachVersion checks that the body arrives with each version of HTTP, since
// Caddy writes the status once more.
func TestGatewayFailuresOfEachVersion(t *testing.T) {
	w := startWired(t, presetsDirective(t, inferring())+"reverse_proxy "+freeAddress(t))
	for _, version := range versions {
		for _, path := range inferencePaths {
			r := w.do(version, wireRequest{method: "POST", target: path, header: []string{bearer(inferenceSecret)}, body: `{"model":"m"}`})
			wantGatewayError(t, path, r, 502, "The gateway cannot be reached")
		}
	}
}

// TestErrorRoutesOfTheSite checks that error routes which match answer a failure of the
// gateway, and no others.
func TestErrorRoutesOfTheSite(t *testing.T) {
	s := start(t, inferring())
	const own = "The gateway cannot be reached"
	proxy := "reverse_proxy " + freeAddress(t)
	for _, tc := range []struct{ name, directives, others, want string }{
		{"all errors", "handle_errors {\nrespond \"of the site\" 502\n}", "", "of the site"},
		{"this error", "handle_errors 5xx {\nrespond \"of the site\" 502\n}", "", "of the site"},
		{"other errors", "handle_errors 404 410 {\nrespond \"of the site\" 404\n}", "", ""},
		{"two routes", "handle_errors 404 {\nrespond \"not this\" 404\n}\nhandle_errors 502 {\nrespond \"of the site\" 502\n}", "", "of the site"},
		{"other paths", "handle_errors {\n@other path /files/*\nrespond @other \"of the site\" 502\n}", "", ""},
		{"this path", "handle_errors {\n@this path /v1/*\nrespond @this \"of the site\" 502\n}", "", "of the site"},
		{"the path before a rewrite", "handle_errors {\n@this path /before" + chatPath + "\nrespond @this \"of the site\" 502\n}\n", "", ""},
		{"of another site", "", "http://elsewhere.test:PORT {\nbind 127.0.0.1\nhandle_errors {\nrespond \"of another site\" 502\n}\n}", ""},
		{"beside another site's", "handle_errors {\nrespond \"of the site\" 502\n}", "http://elsewhere.test:PORT {\nbind 127.0.0.1\nhandle_errors {\nrespond \"of another site\" 502\n}\n}", "of the site"},
	} {
		s.serving(inferring(), proxy+"\n"+tc.directives, tc.others)
		for _, path := range inferencePaths {
			r := s.askHere(path, `{"model":"m"}`)
			switch {
			case tc.want == "":
				wantGatewayError(t, path, r, 502, own)
			case r.status != 502 || r.body != tc.want:
				t.Errorf("%s, %s: got %d %q, want %q", tc.name, path, r.status, r.body, tc.want)
			}
		}
	}

	// Error routes match the request as it was sent, not as the site rewrote it.
	s.serving(inferring(), "uri strip_prefix /before\n"+proxy+"\nhandle_errors {\n@this path /before/*\nrespond @this \"of the site\" 502\n}", "")
	if r := s.askHere("/before"+chatPath, `{"model":"m"}`); r.body != "of the site" {
		t.Errorf("after a rewrite: got %d %q, want the site's answer", r.status, r.body)
	}
	wantGatewayError(t, chatPath, s.askHere(chatPath, `{"model":"m"}`), 502, own)
}

// TestFailureAfterAnAnswerBegan checks that nothing is added to an answer that began.
func TestFailureAfterAnAnswerBegan(t *testing.T) {
	store := openInMemory(t)
	h := newInferringHandler(t, store, &Inference{Keys: keysOff})
	failed := caddyhttp.Error(http.StatusBadGateway, errors.New("dial tcp"))
	for name, begin := range map[string]func(http.ResponseWriter){
		"nothing":           func(http.ResponseWriter) {},
		"an interim answer": func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
		"a header":          func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"a body":            func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
		"a copied body": func(w http.ResponseWriter) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", chatPath, strings.NewReader(`{"model":"m"}`))
		err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			begin(w)
			return failed
		}))
		if !errors.Is(err, failed) {
			t.Errorf("%s: got %v, want the gateway's error", name, err)
		}
		want := map[string]string{"a header": "", "a body": "x", "a copied body": "x"}
		if body, begun := want[name]; begun != (w.Body.String() == body) {
			t.Errorf("%s: got %d %q", name, w.Code, w.Body)
		}
	}
}
