package admin_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestWrongBodies checks that bodies are checked against their schemas. Absent, null and empty
// are three things: what gives rights or removes something never takes one for another.
func TestWrongBodies(t *testing.T) {
	s := start(t, caddytest.Standard)
	before := s.trail("").Total
	for path, bodies := range map[string]map[string]string{
		"keys": {
			``:                                       "must not be empty",
			`null`:                                   "must be an object",
			`[]`:                                     "must be an object",
			`{"kind":`:                               "ends too early",
			`{}`:                                     "/kind: required",
			`{"kind":"inference","kind":"root"}`:     "/kind: duplicate name",
			`{"kind":"inference","x":1}`:             "/x: unknown field",
			`{"kind":"root"}`:                        "/kind: must be one of management or inference",
			`{"kind":null}`:                          "/kind: must be a string",
			`{"kind":"inference","expires_in":1}`:    "/expires_in: must be a string",
			`{"kind":"inference","expires_in":""}`:   "/expires_in: must be a duration",
			`{"kind":"inference","expires_in":null}`: "/expires_in: must be a string",
			`{"kind":"inference","expires_in":"0s"}`: "expires_in: must be a positive duration",
			`{"kind":"inference","expires_in":"999999999d"}`:             "expires_in: must be a positive duration",
			`{"kind":"inference","presets":null}`:                        "/presets: must be an array",
			`{"kind":"inference","presets":[]}`:                          "/presets: must have at least 1 item",
			`{"kind":"inference","presets":[null]}`:                      "/presets/0: must be a string",
			`{"kind":"inference","models":null}`:                         "/models: must be an array",
			`{"kind":"inference","models":[""]}`:                         "/models/0: must be at least 1 character",
			`{"kind":"inference","preset_required":null}`:                "/preset_required: must be a boolean",
			`{"kind":"management","only_workspace":null}`:                "/only_workspace: must be a boolean",
			`{"kind":"management","only_workspace":true,"workspace":""}`: "/workspace: must be at least 1 character",
			`{"kind":"management","workspace":null}`:                     "/workspace: must be a string",
			`{"kind":"management","may":[]}`:                             "/may: must have at least 1 item",
			`{"kind":"management","user_id":""}`:                         "/user_id: must be at least 1 character",
			`{"kind":"management","name":null}`:                          "/name: must be a string",
		},
		"prune": {
			``:                                "must not be empty",
			`null`:                            "must be an object",
			`{"keep":"x"}`:                    "/keep: must be an integer",
			`{"keep":1e400}`:                  "/keep: must be in the range of a double",
			`{"keep":1.5}`:                    "/keep: must be an integer",
			`{"keep":0}`:                      "/keep: must be at least 1",
			`{"keep":null}`:                   "/keep: must be an integer",
			`{"keep":1,"dry_run":null}`:       "/dry_run: must be a boolean",
			`{"keep":1,"dry_run":1}`:          "/dry_run: must be a boolean",
			`{"keep":1,"workspace":""}`:       "/workspace: must be at least 1 character",
			`{"keep":1,"workspace":null}`:     "/workspace: must be a string",
			`{"keep":1,"slug":"p"}`:           "/slug: unknown field",
			`{"keep":1,"preset":""}`:          "/preset: must be at least 1 character",
			`{"preset":"p","versions":[]}`:    "/versions: must have at least 1 item",
			`{"preset":"p","versions":["1"]}`: "/versions/0: must be a",
			`{"preset":"p","erase":1}`:        "/erase: must be a boolean",
			`{"unused_for":""}`:               "/unused_for: must be a duration",
			`{"unused_for":null}`:             "/unused_for: must be a string",
		},
		"keys/prune": {
			``:                      "must not be empty",
			`null`:                  "must be an object",
			`{"dry_run":null}`:      "/dry_run: must be a boolean",
			`{"owner":"x"}`:         "/owner: unknown field",
			`{"older_than":""}`:     "/older_than: must be a duration",
			`{"older_than":null}`:   "/older_than: must be a string",
			`{"older_than":"-30d"}`: "/older_than: must be a duration",
		},
	} {
		for body, want := range bodies {
			r := s.Admin("POST", "/presets/"+path, body)
			if r.Status != 400 || !strings.Contains(r.Body, want) {
				t.Errorf("%s %s: got %d %s, want 400 and %q", path, body, r.Status, r.Body, want)
			}
			if strings.Contains(r.Body, "newKeyRequest") || strings.Contains(r.Body, " Go ") {
				t.Errorf("%s: got %s, which names a type of the program", body, r.Body)
			}
		}
	}
	for path, body := range map[string]string{
		"prune?dry_run=true":      `{"keep":1}`,
		"prune?store=":            `{"keep":1}`,
		"keys/prune?dry_run=true": `{}`,
		"keys?expires_in=1h":      `{"kind":"inference"}`,
	} {
		s.Admin("POST", "/presets/"+path, body).Want(t, 400)
	}
	if after := s.trail("").Total; after != before {
		t.Errorf("refused requests made %d changes", after-before)
	}
	s.Admin("POST", "/presets/prune", `{"keep":1.0,"dry_run":true}`).Want(t, 200, `"keep":1,`)
	s.Admin("POST", "/presets/keys/prune", `{}`).Want(t, 200)
	s.Admin("POST", "/presets/keys", `{"kind":"inference","name":""}`).Want(t, 201)
}
