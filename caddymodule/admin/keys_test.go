package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// key runs a subcommand of key.
func (s *server) key(args ...string) (out, note string, err error) {
	return s.run(append([]string{"key"}, args...)...)
}

// TestKeyShow shows keys of every kind, as a table and as JSON.
func TestKeyShow(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	for body, want := range map[string]string{
		`{"kind":"inference"}`: "may        reads presets, runs models\n",
		`{"kind":"inference","presets":["a","b","c","d"]}`: `may        reads presets, runs models
           presets a, b, c, d only
`,
		`{"kind":"inference","preset_required":true,"models":["openai/*"]}`: `may        reads presets, runs models
           every request names a preset
           names models openai/* only
`,
		`{"kind":"management"}`: `may        manages all workspaces
           cannot change what is protected
`,
		`{"kind":"management","workspace":"team","only_workspace":true,"may":["protected-labels"],"name":"ci"}`: `may        manages workspace team only
           changes what is protected
`,
	} {
		k := s.Issue(body)
		out, note, err := s.key("show", k.ID)
		if err != nil || note != "" || !strings.HasPrefix(out, "id         "+k.ID+"\nkind       ") || !strings.HasSuffix(out, want) {
			t.Errorf("%s: got %q and %q, %v, want it to end with %q", body, out, note, err, want)
		}
		if strings.Contains(out, k.Secret) {
			t.Error("it shows the secret")
		}
		var shown admin.IssuedKey
		if out, _, err := s.key("show", "--json", k.ID); err != nil || json.Unmarshal([]byte(out), &shown) != nil || shown.ID != k.ID || shown.Secret != "" {
			t.Errorf("%s: got %q, %v", body, out, err)
		}
		if _, _, err := s.key("revoke", k.ID); err != nil {
			t.Fatal(err)
		}
		if out, _, err := s.key("show", k.ID); err != nil || !strings.Contains(out, "\nstate              revoked\n") || !strings.Contains(out, "\ncould, while live  ") {
			t.Errorf("%s, revoked: got %q, %v", body, out, err)
		}
	}
	if out, _, err := s.key("list"); err != nil || !strings.Contains(out, "  reads presets, runs models; presets a, b, c and 1 more only\n") {
		t.Errorf("list gives %q, %v", out, err)
	}
	if _, _, err := s.key("show", "nothing"); err == nil || err.Error() != "Key not found" {
		t.Errorf("got error %v", err)
	}
}

// TestKeyRemoval removes keys one by one and all at once. The store is still whole.
func TestKeyRemoval(t *testing.T) {
	s := start(t, caddytest.Standard)
	revoked, live := s.Issue(`{"kind":"management","name":"ann's"}`), s.Issue(`{"kind":"inference"}`)
	s.Do("POST", "/v1/presets/p/responses", `{"model":"m"}`, caddytest.Bearer(revoked.Secret)).Want(t, 200)
	history := func(want string) {
		t.Helper()
		s.Manage("GET", "/v1/presets/p/history", "").Want(t, 200, `"key_id":"`+revoked.ID+`","key_name":`+want)
	}
	history(`"ann's"`)
	if _, _, err := s.key("remove", revoked.ID); err == nil || err.Error() != "The key is live: revoke it first" {
		t.Errorf("removing a live key: got error %v", err)
	}
	if _, _, err := s.key("revoke", revoked.ID); err != nil {
		t.Fatal(err)
	}
	out, note, err := s.key("remove", revoked.ID)
	if err != nil || out != "" || note != "Removed management key "+revoked.ID+", which was revoked.\n" {
		t.Errorf("got %q and %q, %v", out, note, err)
	}
	history("null")
	s.Do("GET", "/v1/presets/p", "", caddytest.Bearer(revoked.Secret)).WantError(t, 401, "Invalid credentials")
	if _, _, err := s.key("remove", revoked.ID); err == nil || err.Error() != "Key not found" {
		t.Errorf("removing it again: got error %v", err)
	}

	var ended []string
	for range 3 {
		k := s.Issue(`{"kind":"inference"}`)
		ended = append(ended, k.ID)
		if _, _, err := s.key("revoke", k.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"--older-than", "1h"}, "keys removed: 0\n"},
		{[]string{"--dry-run"}, "keys that would be removed: 3\n"},
		{nil, "keys removed: 3\n"},
		{nil, "keys removed: 0\n"},
	} {
		out, note, err := s.key(append([]string{"prune"}, step.args...)...)
		if err != nil || note != "" || !strings.HasSuffix(out, step.says) || strings.Contains(out, live.ID) {
			t.Fatalf("%v: got %q and %q, %v, want %q", step.args, out, note, err, step.says)
		}
		for _, id := range ended {
			if strings.Contains(out, id) != strings.Contains(step.says, "3") {
				t.Errorf("%v: key %s: got %q", step.args, id, out)
			}
		}
	}
	if _, _, err := s.key("prune", "--older-than", "soon"); err == nil || !strings.Contains(err.Error(), "older_than: must be a duration") {
		t.Errorf("got error %v", err)
	}
	s.Admin("GET", "/presets/keys", "").Want(t, 200, `{"keys":[{"id":"`+live.ID+`"`)
	s.Do("GET", "/v1/presets/p", "", caddytest.Bearer(live.Secret)).Want(t, 200)
	trail := s.Admin("GET", "/presets/audit", "").Body
	if n := strings.Count(trail, `"operation":"key.remove"`); n != 4 {
		t.Errorf("the audit trail has %d removals, want 4: %s", n, trail)
	}
	for _, args := range [][]string{{"audit", "--verify"}, {"verify"}} {
		if out, _, err := run(append(args, "--address", s.AdminAddress)...); err != nil {
			t.Errorf("%v: got %q, %v", args, out, err)
		}
	}
}
