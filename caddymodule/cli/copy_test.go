package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// second adds a server with another store and more lines of configuration. It has the same
// keys with "other" for "secret". It returns its address and its origin.
func (s *server) second(t *testing.T, lines ...string) (address, origin string) {
	t.Helper()
	address = caddytest.Address(t)
	sites := s.Site(caddytest.Standard+"\ninference\n") +
		s.SiteAt(address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", caddytest.Folder(t), strings.Join(append(lines, strings.ReplaceAll(caddytest.Standard, "secret", "other")), "\n")))
	if err := s.Load(sites); err != nil {
		t.Fatal(err)
	}
	return address, s.front(t, address)
}

// TestCopyToServer copies presets to another server, and compares what a copy has.
func TestCopyToServer(t *testing.T) {
	s := start(t, nil)
	s.fill()
	s.Manage("PATCH", "/v1/presets/tour-guide", `{"name":"The Guide","protected":true,"limits":{"requests_per_minute":100,"cost_per_day":20}}`).Want(t, 200)
	address, origin := s.second(t)
	other := strings.ReplaceAll(caddytest.ManagementSecret, "secret", "other")
	key := storagetest.KeyFile(t, other+"\n")
	for _, slug := range []string{"summary", "tour-guide"} {
		if out := mustRun(t, "copy", slug, "--to-server", origin, "--to-key-file", key); out != "Preset "+slug+" is copied: version 1 is now version 1 there.\n" {
			t.Errorf("got %q", out)
		}
		there := func(path string) object {
			t.Helper()
			response := caddytest.Send(t, address, "GET", path, "", caddytest.Bearer(other))
			response.Want(t, 200)
			return data[map[string]object](t, response.Body)["data"]
		}
		here := func(path string) object { return data[map[string]object](t, s.Manage("GET", path, "").Body)["data"] }
		path := "/v1/presets/" + slug
		same(t, slug, here(path), there(path), "name", "slug", "description", "status", "policy", "limits", "labels", "designated_version_number")
		if copied := there(path); copied["managed_by"] != nil || copied["protected"] != false {
			t.Errorf("%s: the copy has an owner or is protected: %v", slug, copied)
		}
		same(t, slug, here(path+"/versions/1"), there(path+"/versions/1"), "version", "dialect", "message", "system_prompt", "template", "config", "designated", "labels")
	}
	wantError(t, "preset summary exists there already", "copy", "summary", "--to-server", origin, "--to-key-file", key)
	wantError(t, "status", "copy", "old", "--status", "x", "--to-server", origin, "--to-key-file", key)
}

type object = map[string]any

// same compares members of two objects.
func same(t *testing.T, name string, a, b object, members ...string) {
	t.Helper()
	for _, member := range members {
		if x, y := fmt.Sprint(a[member]), fmt.Sprint(b[member]); x != y {
			t.Errorf("%s: %s is %s, and its copy %s", name, member, x, y)
		}
	}
}

// TestCopyDesignatedVersion copies a disabled preset, and adds versions to a copy.
func TestCopyDesignatedVersion(t *testing.T) {
	s := start(t, nil)
	s.fill()
	mustRun(t, words("copy old --to-workspace team")...)
	if got := s.Manage("GET", "/v1/presets/old?workspace_id=team", "").Field(t, "status"); got != "disabled" {
		t.Errorf("the copy of a disabled preset is %s", got)
	}
	mustRun(t, words("copy email-copywriter --to-workspace team")...)
	s.Manage("POST", "/v1/presets/email-copywriter/responses", `{"model":"acme/new"}`).Want(t, 200)
	s.Manage("PATCH", "/v1/presets/email-copywriter?workspace_id=team", `{"description":"Theirs"}`).Want(t, 200)
	out := mustRun(t, words("copy email-copywriter --to-workspace team --new-version")...)
	if out != "Version 4 of email-copywriter is now version 2 there.\n" {
		t.Errorf("got %q", out)
	}
	copied := s.Manage("GET", "/v1/presets/email-copywriter?workspace_id=team", "")
	copied.Want(t, 200, `"description":"Theirs"`, `"model":"acme/new"`)
	if n := s.count("/v1/presets/email-copywriter/versions?workspace_id=team"); n != 2 {
		t.Errorf("the copy has %d versions, want 2", n)
	}
	// An archived preset keeps its slug.
	s.Manage("DELETE", "/v1/presets/email-copywriter?workspace_id=team", "").Want(t, 200)
	wantError(t, "exists there already", words("copy email-copywriter --to-workspace team")...)
}

// TestCopyEndsInTheMiddle checks that the error of an incomplete copy says that it serves.
func TestCopyEndsInTheMiddle(t *testing.T) {
	s := start(t, nil)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.Manage("POST", "/v1/presets/mail/responses", `{"model":"m1"}`).Want(t, 200)
	s.Manage("PUT", "/v1/presets/mail/labels/live", `{"version":1}`).Want(t, 200)
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "PUT" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":{"message":"No more"}}`)
		return true
	})
	wantError(t, "is incomplete and active: label live: the key in PRESETS_KEY may not do that: No more", words("copy mail --to-workspace team")...)
}
