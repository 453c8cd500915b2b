package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRequestID checks that every answer of ours has the request's id from the access log.
// An answer of the gateway keeps its own id.
func TestRequestID(t *testing.T) {
	s := start(t, standard+"\nmax_body_size 1KiB\ninference {\nlist_models on\nmax_body_size 1KiB\n}")
	s.manage("POST", "/v1/presets/p/responses", `{"model":"acme/small"}`).want(t, 200)
	tag := "If-None-Match: " + s.manage("GET", "/v1/presets/p", "").header.Get("ETag")
	boss, caller, wrong := bearer(managementSecret), bearer(inferenceSecret), bearer("sk-nobody-knows-this-one")
	large := `{"model":"` + strings.Repeat("x", 2<<10) + `"}`
	seen := make(map[string]bool)
	for _, tc := range []struct {
		method, path, body string
		headers            []string
		status             int
	}{
		{"GET", "/v1/presets/p", "", []string{caller}, 200},
		{"HEAD", "/v1/presets", "", []string{caller}, 200},
		{"GET", "/v1/presets/p", "", []string{caller, tag}, 304},
		{"POST", "/v1/workspaces", minimalWorkspace, []string{boss}, 201},
		{"POST", "/v1/presets/p/responses", `{"top_k":"x"}`, []string{boss}, 400},
		{"GET", "/v1/presets", "", nil, 401},
		{"GET", "/v1/workspaces", "", []string{caller}, 403},
		{"GET", "/v1/presets/nothing", "", []string{caller}, 404},
		{"GET", "/v1/presets/p/nothing", "", []string{caller}, 404},
		{"PUT", "/v1/presets", "", []string{boss}, 405},
		{"PATCH", "/v1/presets/p", `{}`, []string{boss, "If-Match: " + otherTag}, 412},
		{"POST", "/v1/presets/p/responses", large, []string{boss}, 413},
		{"POST", "/v1/presets/p/responses", "x", []string{boss, "Content-Type: text/plain"}, 415},

		{"POST", responsesPath, `{"model":"@preset/p"}`, []string{caller, "X-Preset-Dry-Run: true"}, 200},
		{"POST", responsesPath, `{"model":"@preset/"}`, []string{caller}, 400},
		{"POST", responsesPath, `{"model":"@preset/p"}`, []string{wrong}, 401},
		{"POST", chatPath, `{"model":"@preset/p"}`, []string{boss}, 403},
		{"POST", messagesPath, `{"model":"@preset/nothing"}`, []string{caller}, 404},
		{"POST", messagesPath, large, []string{caller}, 413},
		{"POST", messagesPath + "%3F", "", []string{caller}, 400},
		{"POST", messagesPath + "/count_tokens", "x", []string{caller, "Content-Encoding: x"}, 415},
		{"DELETE", messagesPath + "/batches/x", "", []string{wrong}, 401},
		{"TRACE", messagesPath, "", nil, 405},
		{"GET", "/v1/models", "", []string{wrong}, 401},
	} {
		name := fmt.Sprintf("%s %s: %d", tc.method, tc.path, tc.status)
		var r reply
		logged := s.logged(func() { r = s.do(tc.method, tc.path, tc.body, tc.headers...) })
		ids := r.header["X-Request-Id"]
		if r.status != tc.status || len(ids) != 1 || uuids.FindString(ids[0]) != ids[0] {
			t.Errorf("%s: got %d with X-Request-Id %q, want a UUID", name, r.status, ids)
			continue
		}
		if got := r.header.Get("Request-Id"); strings.HasPrefix(tc.path, messagesPath) && got != ids[0] || !strings.HasPrefix(tc.path, messagesPath) && got != "" {
			t.Errorf("%s: got Request-Id %q, want the same id on messages alone", name, got)
		}
		if logged["uuid"] != ids[0] || seen[ids[0]] {
			t.Errorf("%s: got X-Request-Id %s, want an id of its own, and the access log to have it: %v", name, ids[0], logged["uuid"])
		}
		seen[ids[0]] = true
	}

	for _, id := range []string{"", "req_of_the_gateway"} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			if id != "" {
				w.Header().Set("X-Request-Id", id)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[]}`)
		})
		for _, r := range []reply{
			s.do("POST", responsesPath, `{"model":"@preset/p"}`, caller),
			s.do("POST", responsesPath, `{"model":"acme/small"}`, caller),
			s.do("GET", "/v1/models", "", caller),
			s.do("GET", "/v1/other", "", caller),
		} {
			r.want(t, 200)
			if got := r.header.Get("X-Request-Id"); got != id {
				t.Errorf("got X-Request-Id %q, want the gateway's %q", got, id)
			}
		}
	}
}
