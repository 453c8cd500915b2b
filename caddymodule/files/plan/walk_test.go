package plan_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

// TestListChangesMeanwhile changes presets while a list of them is read. A changed preset moves
// to the front of the list, so that a page repeats one and misses another.
func TestListChangesMeanwhile(t *testing.T) {
	s := start(t)
	const presets = 150
	for n := range presets {
		s.Manage("POST", fmt.Sprintf("/v1/presets/p%03d/chat/completions", n), `{}`, "X-Preset-Owner: files").Want(t, 200)
	}
	s.write(map[string]string{"default/p000.yaml": "chat: {}\n"})
	through := s.transport()
	for _, tc := range []struct {
		name    string
		first   int32 // the first preset to change
		changes int32 // after so many pages
	}{{"once", 1, 1}, {"always", 5, 1 << 20}} {
		t.Run(tc.name, func(t *testing.T) {
			var pages atomic.Int32
			c := s.client(roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := through.RoundTrip(r)
				if n := pages.Load(); err == nil && r.URL.Path == "/v1/presets" && r.URL.Query().Get("offset") == "0" && n < tc.changes {
					pages.Add(1)
					// One of the first 50, which are on the second page until they are changed.
					path := fmt.Sprintf("/v1/presets/p%03d", tc.first+n)
					s.Manage("PATCH", path, fmt.Sprintf(`{"description":"%s %d"}`, tc.name, n), "X-Preset-Owner: files").Want(t, 200)
				}
				return response, err
			}))
			p, err := plan.New(t.Context(), c, s.read(), plan.Options{Owner: "files", Prune: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Changes) != presets-1 {
				t.Errorf("the plan archives %d presets, want %d", len(p.Changes), presets-1)
			}
		})
	}
}
