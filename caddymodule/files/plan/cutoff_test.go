package plan_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// cutOff fails requests: from one on, or only that one. Each fails before it reaches the
// server, or after the server has answered.
type cutOff struct {
	to    http.RoundTripper
	at    int // the first request to fail, from 1
	once  bool
	after bool

	mu   sync.Mutex
	sent int
}

var errCutOff = errors.New("the connection is cut off")

func (c *cutOff) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.sent++
	fails := c.sent == c.at || c.sent > c.at && !c.once
	c.mu.Unlock()
	if fails && !c.after {
		return nil, errCutOff
	}
	response, err := c.to.RoundTrip(r)
	if err != nil || !fails {
		return response, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return nil, errCutOff
}

// life are files that need every kind of request. The workspace old has presets already.
func life(old, fresh string) map[string]string {
	return map[string]string{
		old + "/.workspace.yaml": "default_text_model: m\n",
		old + "/changed.yaml":    "description: New\nlabels: {moved: latest, fixed: 1, set: latest}\npolicy: {lock: [model]}\nchat: {model: m2}\n",
		old + "/back.yaml":       "labels: {prod: latest}\nchat: {model: m2}\n",
		old + "/equal.yaml":      "chat: {model: m1}\n",
		old + "/disabled.yaml":   "chat: {model: m2}\n",
		old + "/rolled.yaml":     "chat: {model: m2}\n",
		fresh + "/series.yaml":   "description: New\nlabels: {first: 1, prod: latest}\nearlier:\n  - {message: one, chat: {model: m1}}\n  - {chat: {model: m2}}\n  - {chat: {model: m1}}\nchat: {model: m1}\n",
	}
}

// lifeVersions are how many versions the presets of life have in the end.
var lifeVersions = map[string]int{"changed": 2, "back": 2, "equal": 1, "disabled": 2, "rolled": 2, "gone": 1}

// prepare makes the state of a server before life.
func (s *server) prepare(old, owner string) {
	s.T.Helper()
	s.Manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":%q}`, old)).Want(s.T, 201)
	on := "X-Preset-Owner: " + owner
	at := "?workspace_id=" + old
	for _, slug := range []string{"changed", "back", "disabled", "gone", "rolled"} {
		s.Manage("POST", "/v1/presets/"+slug+"/chat/completions"+at, `{"model":"m1"}`, on).Want(s.T, 200)
	}
	s.Manage("POST", "/v1/presets/equal/chat/completions"+at, `{"model":"m1"}`).Want(s.T, 200)
	for _, label := range []string{"moved", "removed"} {
		s.Manage("PUT", "/v1/presets/changed/labels/"+label+at, `{"version":1}`, on).Want(s.T, 200)
	}
	s.Manage("DELETE", "/v1/presets/back"+at, "", on).Want(s.T, 200)
	s.Manage("PATCH", "/v1/presets/disabled"+at, `{"status":"disabled"}`, on).Want(s.T, 200)
	s.Manage("POST", "/v1/presets/rolled/chat/completions"+at, `{"model":"m2"}`, on).Want(s.T, 200)
	s.Manage("POST", "/v1/presets/rolled/designate"+at, `{"version":1}`, "X-Preset-Override: "+owner).Want(s.T, 200)
}

// TestCutOff cuts off a run at each of its requests, and repeats the run. All is then as the
// files say, and no version was made twice.
func TestCutOff(t *testing.T) {
	tier.Slow(t)
	s := start(t)
	folder := s.dir
	step := tier.Sample(13)
	for i, mode := range []struct {
		name        string
		once, after bool
	}{
		{"before a request", false, false},
		{"after an answer", false, true},
		{"one request is lost", true, false},
		{"one answer is lost", true, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s.T = t
			// In a sample, the modes begin at different requests.
			for at, done := 1+3*i%step, false; !done; at += step {
				old, fresh := fmt.Sprintf("old-%d", at), fmt.Sprintf("new-%d", at)
				owner := "owner-" + old
				s.prepare(old, owner)
				s.dir = filepath.Join(folder, old)
				s.write(life(old, fresh))
				cut := &cutOff{to: s.transport(), at: at, once: mode.once, after: mode.after}
				c := s.client(cut)
				if !mode.once {
					c.Tries = 1 // no repetition would help
				}
				o := plan.Options{Owner: owner, Prune: true}
				p, err := plan.New(t.Context(), c, s.read(), o)
				var result plan.Result
				if err == nil {
					result, err = p.Apply(t.Context(), "first run")
				}
				done = cut.sent < at // no request failed
				if mode.once && (err != nil || len(result.Failed) > 0) {
					t.Fatalf("request %d: the client does not repeat it: %v, %+v", at, err, result.Failed)
				}
				if !mode.once && !done && err == nil && len(result.Failed) == 0 {
					t.Fatalf("request %d failed, and nothing is reported", at)
				}
				s.apply(o)
				for slug, want := range lifeVersions {
					if slug == "gone" {
						continue // archived
					}
					if got := s.versions(old, slug); got != want {
						t.Fatalf("request %d: preset %s has %d versions, want %d", at, slug, got, want)
					}
				}
				if got := s.versions(fresh, "series"); got != 4 {
					t.Fatalf("request %d: the series has %d versions, want 4", at, got)
				}
				s.Manage("GET", "/v1/presets/series/versions/1?workspace_id="+fresh, "").Want(t, 200, `"message":"one"`)
				s.Manage("GET", "/v1/presets/series?workspace_id="+fresh, "").Want(t, 200, `"designated_version_number":4`, `"labels":{"first":{"version":1},"prod":{"version":4}}`)
				s.Manage("GET", "/v1/presets/changed?workspace_id="+old, "").Want(t, 200, `"labels":{"fixed":{"version":1},"moved":{"version":2},"set":{"version":2}}`)
				s.Manage("GET", "/v1/presets/gone?workspace_id="+old, "").Want(t, 404)
				for _, workspace := range []string{old, fresh} { // else each run has more requests
					s.Manage("DELETE", "/v1/workspaces/"+workspace, "", "X-Preset-Override: "+owner).Want(t, 200)
				}
				if done && at < 30 {
					t.Errorf("only %d requests were cut off", at)
				}
			}
		})
	}
}
