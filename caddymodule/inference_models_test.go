package caddymodule

import (
	"io"
	"net/http"
	"slices"
	"testing"
)

// TestModelsVaryByKey checks that every answer forbids caches to give it to another key.
func TestModelsVaryByKey(t *testing.T) {
	s := start(t, inferring("list_models on"))
	ask := func(what string, status int, headers ...string) {
		t.Helper()
		for _, path := range []string{"/v1/models", "/v1/models/@preset%2Fabsent"} {
			r := s.do("GET", path, "", headers...)
			want := status
			if path != "/v1/models" && status == 200 {
				want = 404 // our handler answers such a list
			}
			if r.status != want || !slices.Contains(r.header["Vary"], "Authorization, X-Api-Key") {
				t.Errorf("%s, %s: got status %d and Vary %q, want %d", path, what, r.status, r.header["Vary"], want)
			}
		}
	}
	ask("no key", 401)
	ask("a wrong key", 401, bearer("a-guess"))
	for status, body := range map[int]string{200: `{"object":"list","data":[]}`, 203: `{"object":"list","data":[]}`, 304: "", 404: "{}"} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Vary", "Origin")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		ask("the gateway", status, bearer(inferenceSecret))
	}
	s.upstream.Close()
	ask("no gateway", 502, bearer(inferenceSecret))
}
