package caddymodule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// once returns the Idempotency-Key header with a key.
func once(key string) string { return "Idempotency-Key: " + key }

// TestChangesAreReplayed repeats each change under one key. The change is made once and
// gets the same answer each time. This holds after a restart of the server and after later
// changes of the object.
func TestChangesAreReplayed(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	f := &fixtures{s: s}
	type request struct {
		name         string
		ask          func() reply
		first        reply
		preset, path string
	}
	var requests []*request
	for route, r := range matrix {
		method, path, _ := strings.Cut(route, " ")
		if method == "GET" || isOfKeys(path) {
			continue
		}
		cells := []cell{r.exists}
		for _, c := range r.missing {
			if c.status < 300 {
				cells = append(cells, c)
			}
		}
		for i, c := range cells {
			if c.status >= 300 {
				continue
			}
			preset, workspace := f.preset(r.archived), f.workspace()
			f.n++
			path, body := "/v1/"+f.fill(c.path, preset, workspace), f.fill(c.body, preset, workspace)
			if method == "DELETE" && strings.HasPrefix(c.path, "workspaces/default/budgets/") {
				s.manage("PUT", path, `{"limit_usd":0.5}`).want(t, 200)
			}
			key := fmt.Sprintf("%s %d", route, i)
			again := &request{name: key, preset: preset, path: path, ask: func() reply { return s.manage(method, path, body, once(key)) }}
			requests = append(requests, again)
		}
	}
	for _, r := range requests {
		before := s.changesRecorded()
		r.first = r.ask()
		if r.first.status >= 300 || r.first.header["Idempotency-Replayed"] != nil {
			t.Errorf("%s: got %d %s, replayed %q", r.name, r.first.status, r.first.body, r.first.header["Idempotency-Replayed"])
		}
		for range 2 {
			wantReplay(t, r.name, r.first, r.ask())
		}
		if got := s.changesRecorded() - before; got != 1 {
			t.Errorf("%s: made %d changes, want one", r.name, got)
		}
	}
	for _, r := range requests { // other requests change the objects
		s.manage("PATCH", "/v1/presets/"+r.preset, `{"description":"changed since"}`)
	}
	before := s.changesRecorded()
	s.reload(standard)
	for _, r := range requests {
		wantReplay(t, r.name+" after a reload", r.first, r.ask())
	}
	s.stop()
	s.reload(standard)
	for _, r := range requests {
		wantReplay(t, r.name+" after a restart", r.first, r.ask())
	}
	if got := s.changesRecorded() - before; got != 0 {
		t.Errorf("replays made %d changes", got)
	}
}

// wantReplay checks that again is a replay of the answer first.
func wantReplay(t *testing.T, what string, first, again reply) {
	t.Helper()
	wantSame(t, what, first, again)
	if got := again.header["Idempotency-Replayed"]; !slices.Equal(got, []string{"true"}) {
		t.Errorf("%s: got Idempotency-Replayed %q, want true", what, got)
	}
}

// TestIdempotencyKeyOfAnotherRequest uses one key for different requests. Every difference
// in a request is detected.
func TestIdempotencyKeyOfAnotherRequest(t *testing.T) {
	s := start(t, standard)
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("a")).want(t, 200, `"version":1`)
	before := s.changesRecorded()
	for name, r := range map[string]reply{
		"body":            s.manage("POST", "/v1/presets/p/responses", `{"top_k":2}`, once("a")),
		"bytes of a body": s.manage("POST", "/v1/presets/p/responses", `{"top_k": 1}`, once("a")),
		"slug":            s.manage("POST", "/v1/presets/q/responses", `{"top_k":1}`, once("a")),
		"operation":       s.manage("POST", "/v1/presets/p/messages", `{"top_k":1}`, once("a")),
		"query":           s.manage("POST", "/v1/presets/p/responses?workspace_id="+home, `{"top_k":1}`, once("a")),
		"no body":         s.manage("DELETE", "/v1/presets/p", ``, once("a")),
		"kind of object":  s.manage("POST", "/v1/workspaces", `{"name":"n","slug":"s"}`, once("a")),
	} {
		t.Run(name, func(t *testing.T) {
			r.wantError(t, 422, "Idempotency-Key was already used for another request")
			if got := r.header["Idempotency-Replayed"]; got != nil {
				t.Errorf("got Idempotency-Replayed %q, want none", got)
			}
		})
	}
	if got := s.changesRecorded() - before; got != 0 {
		t.Errorf("refused requests made %d changes", got)
	}
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("a")).want(t, 200, `"version":1`)
	// Conditions are not compared: a repeat with another condition gets the first answer.
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("a"), "If-None-Match: *").want(t, 200, `"version":1`)
	// The parts of a request are compared separately.
	s.manage("PUT", "/v1/presets/p/labels/ab", `{"version":1}`, once("b")).want(t, 200)
	s.manage("PUT", "/v1/presets/pa/labels/b", `{"version":1}`, once("b")).want(t, 422)
	// Another key id is another client, even for the same request.
	other := s.issue(`{"kind":"management"}`).secret
	s.do("POST", "/v1/presets/p/responses", `{"top_k":1}`, bearer(other), once("a")).want(t, 200, `"version":2`)
	s.do("POST", "/v1/presets/p/responses", `{"top_k":3}`, bearer(other), once("a")).want(t, 422)
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("a")).want(t, 200, `"version":1`)
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("A")).want(t, 200, `"version":3`)
}

func TestIdempotencyKeyForm(t *testing.T) {
	s := start(t, standard)
	const path = "/v1/presets/p/responses"
	long := strings.Repeat("é", 255)
	s.manage("POST", path, `{}`, once(long)).want(t, 200, `"version":1`)
	s.manage("POST", path, `{}`, once(long)).want(t, 200, `"version":1`)
	s.manage("POST", path, `{}`, once(long+"x")).wantError(t, 400, "Invalid request parameters: idempotency-key: must be at most 255 characters")
	s.manage("POST", path, `{}`, once("a"), once("a")).wantError(t, 400, "Invalid request parameters: idempotency-key: given more than once")
	s.manage("POST", path, `{}`, once("a"), once("b")).wantError(t, 400, "Invalid request parameters: idempotency-key")
	s.manage("POST", path, `{}`, once("")).wantError(t, 400, "Invalid request parameters: idempotency-key: must not be empty")
	s.manage("POST", path, `{}`, once(`"8e03978e, 40d5"; a=b`)).want(t, 200, `"version":2`)
	s.manage("POST", path, `{}`, once(`"8e03978e, 40d5"; a=b`)).want(t, 200, `"version":2`)
	s.manage("GET", "/v1/presets/p/versions", ``).want(t, 200, `"total_count":2`)
}

// TestReplaysStayWithWhomTheyWereFor checks that a configured key's id is its position. The
// next key in that position gets no answers of the former key.
func TestReplaysStayWithWhomTheyWereFor(t *testing.T) {
	const bob, carl = "inference_key " + inferenceSecret + " bob", "inference_key team-inference-secret carl team"
	const rest = "management_key " + managementSecret + "\npreset_creators any\n"
	s := start(t, rest+bob)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	create := func(secret string) reply {
		return s.do("POST", "/v1/presets/p/responses", `{}`, bearer(secret), once("a"))
	}
	first := create(inferenceSecret)
	first.want(t, 200, `"creator_id":"bob"`)
	s.reload(rest + carl + "\n" + bob)
	create("team-inference-secret").want(t, 200, `"creator_id":"carl"`, `"version":1`)
	s.reload(rest + bob + "\n" + carl)
	wantSame(t, "the same key", first, create(inferenceSecret))
	s.do("GET", "/v1/presets/p/versions", ``, bearer(inferenceSecret)).want(t, 200, `"total_count":1`)
}

// TestReadsIgnoreIdempotencyKeys checks that reads ignore an Idempotency-Key, now and
// later.
func TestReadsIgnoreIdempotencyKeys(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`, once("a")).want(t, 200)
	s.manage("GET", "/v1/presets/p", "", once("a")).want(t, 200, `"name":"p"`)
	s.manage("GET", "/v1/workspaces", "", once("a")).want(t, 200)
	s.manage("GET", "/v1/workspaces", "", once("a"), once(strings.Repeat("x", 256))).want(t, 200)
	s.manage("GET", "/v1/presets/p", "", once("b")).want(t, 200)
	s.manage("PATCH", "/v1/presets/p", `{"name":"P"}`, once("b")).want(t, 200)
	s.manage("GET", "/v1/presets/p", "", once("b")).want(t, 200, `"name":"P"`)
}

// TestFailuresAreNotReplayed checks that a failed request makes no change, so a repeat runs
// again.
func TestFailuresAreNotReplayed(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/designate", `{"version":1}`, once("a")).wantError(t, 404, "Preset not found")
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":"x"}`, once("b")).want(t, 400)
	s.manage("POST", "/v1/presets/p/responses", `{"top_k":1}`, once("b")).want(t, 200, `"version":1`)
	s.manage("POST", "/v1/presets/p/designate", `{"version":1}`, once("a")).want(t, 200)
	s.manage("PATCH", "/v1/presets/p", `{"name":"P"}`, once("c"), "If-Match: "+otherTag).want(t, 412)
	s.manage("PATCH", "/v1/presets/p", `{"name":"P"}`, once("c"), "If-Match: *").want(t, 200, `"name":"P"`)
	s.do("POST", "/v1/workspaces", minimalWorkspace, bearer(inferenceSecret), once("d")).want(t, 403)
	s.manage("POST", "/v1/workspaces", minimalWorkspace, once("d")).want(t, 201)
	s.manage("POST", "/v1/workspaces", minimalWorkspace, once("d")).want(t, 201)
	s.manage("POST", "/v1/workspaces", minimalWorkspace, once("e")).want(t, 400)
	// A request that changed nothing is replayed too. It does not undo later changes of
	// others.
	s.manage("PATCH", "/v1/presets/p", `{"name":"P"}`, once("f")).want(t, 200, `"name":"P"`)
	s.manage("PATCH", "/v1/presets/p", `{"name":"Q"}`).want(t, 200)
	s.manage("PATCH", "/v1/presets/p", `{"name":"P"}`, once("f")).want(t, 200, `"name":"P"`)
	s.manage("GET", "/v1/presets/p", "").want(t, 200, `"name":"Q"`)
}
