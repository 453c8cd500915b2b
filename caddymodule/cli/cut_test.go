package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// cutAt lets the server answer request n, counted from 1. It then cuts the connection instead
// of passing the answer on. It returns the count of requests.
func (s *server) cutAt(n int64) (requests *atomic.Int64) {
	requests = new(atomic.Int64)
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if requests.Add(1) != n {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.T.Error(err)
		}
		forwarded, err := http.NewRequestWithContext(r.Context(), r.Method, "http://presets"+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			s.T.Error(err)
			return false
		}
		forwarded.Header = r.Header
		response, err := caddytest.Client(s.Address).Do(forwarded)
		if err != nil {
			s.T.Error(err)
			return false
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			s.T.Error(err)
			return false
		}
		conn.Close()
		return true
	})
	return requests
}

// TestCutConnections cuts the connection after each request of each command, whose answer is
// lost. The command succeeds, and makes each change once.
func TestCutConnections(t *testing.T) {
	s := start(t, nil)
	s.fill()
	for _, tc := range []struct {
		command string
		reset   []string // what makes the command possible again
		changes int
	}{
		{"list", nil, 0},
		{"designate email-copywriter 1", []string{"POST", "/v1/presets/email-copywriter/designate", `{"version":2}`}, 1},
		{"label email-copywriter live 1", []string{"DELETE", "/v1/presets/email-copywriter/labels/live", ""}, 1},
		{"copy email-copywriter --to-workspace $", nil, 4},
	} {
		for n := int64(1); ; n++ {
			if tc.reset != nil {
				s.Manage(tc.reset[0], tc.reset[1], tc.reset[2])
			}
			// A copy needs a workspace that does not have it.
			workspace := fmt.Sprintf("cut-%d", n)
			s.Manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"Cut","slug":%q}`, workspace))
			trail := "/v1/presets/email-copywriter/history?limit=1"
			if strings.Contains(tc.command, "$") {
				trail += "&workspace_id=" + workspace
			}
			before := s.count(trail)
			requests := s.cutAt(n)
			out, errOut, err := run(words(strings.ReplaceAll(tc.command, "$", workspace))...)
			if err != nil {
				t.Fatalf("%s, cut at request %d: %v\n%s%s", tc.command, n, err, out, errOut)
			}
			if made := s.count(trail) - before; made != tc.changes {
				t.Errorf("%s, cut at request %d: %d changes were made, want %d", tc.command, n, made, tc.changes)
			}
			if requests.Load() < n {
				break // the request was not reached
			}
		}
	}
}

// count returns the total_count of a page, 0 if it cannot be read.
func (s *server) count(path string) int {
	s.T.Helper()
	return data[struct {
		Count int `json:"total_count"`
	}](s.T, s.Manage("GET", path, "").Body).Count
}
