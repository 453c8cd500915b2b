package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// second adds a server with another store and the same keys. It returns its address and its
// origin.
func (s *server) second(t *testing.T) (address, origin string) {
	t.Helper()
	address = caddytest.Address(t)
	sites := s.Site(caddytest.Standard+"\ninference\n") +
		s.SiteAt(address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", caddytest.Folder(t), strings.ReplaceAll(caddytest.Standard, "secret", "other")))
	if err := s.Load(sites); err != nil {
		t.Fatal(err)
	}
	return address, s.front(t, address)
}

// TestCopyAllVersions copies each preset to another server, and compares everything but ids
// and times.
func TestCopyAllVersions(t *testing.T) {
	s := start(t, nil)
	s.fill()
	s.Manage("PATCH", "/v1/presets/tour-guide", `{"name":"The Guide","protected":true}`).Want(t, 200)
	address, origin := s.second(t)
	key := storagetest.KeyFile(t, strings.ReplaceAll(caddytest.ManagementSecret, "secret", "other")+"\n")
	for _, slug := range []string{"email-copywriter", "summary", "tour-guide"} {
		out := mustRun(t, "copy", slug, "--all-versions", "--to-server", origin, "--to-key-file", key)
		if !strings.Contains(out, "Preset "+slug+" is copied: ") || !strings.Contains(out, " Versions copied: ") {
			t.Errorf("got %q", out)
		}
		there := func(path string) object {
			t.Helper()
			answer := caddytest.Send(t, address, "GET", path, "", caddytest.Bearer(strings.ReplaceAll(caddytest.ManagementSecret, "secret", "other")))
			answer.Want(t, 200)
			return data[map[string]object](t, answer.Body)["data"]
		}
		here := func(path string) object { return data[map[string]object](t, s.Manage("GET", path, "").Body)["data"] }
		path := "/v1/presets/" + slug
		same(t, slug, here(path), there(path), "name", "slug", "description", "status", "policy", "labels", "designated_version_number")
		if copied := there(path); copied["managed_by"] != nil || copied["protected"] != false {
			t.Errorf("%s: the copy has an owner or is protected: %v", slug, copied)
		}
		for n := 1; n <= s.count(path+"/versions"); n++ {
			one := fmt.Sprintf("%s/versions/%d", path, n)
			same(t, one, here(one), there(one), "version", "dialect", "message", "system_prompt", "template", "config", "designated", "labels")
		}
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

// TestCopyEndsInTheMiddle checks the error of a copy that is not finished.
func TestCopyEndsInTheMiddle(t *testing.T) {
	s := start(t, nil)
	s.fill()
	posts := 0
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" {
			posts++
		}
		if posts < 2 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":{"message":"No more"}}`)
		return true
	})
	wantError(t, "the copy is incomplete (versions copied: 1): the key in PRESETS_KEY may not do that: version 2: No more",
		words("copy email-copywriter --all-versions --to-workspace team")...)
}
