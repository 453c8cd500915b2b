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
			response := caddytest.Send(t, address, "GET", path, "", caddytest.Bearer(strings.ReplaceAll(caddytest.ManagementSecret, "secret", "other")))
			response.Want(t, 200)
			return data[map[string]object](t, response.Body)["data"]
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

// TestCopyToServerThatRemovesVersions copies all versions to a server that keeps one without a
// label. Versions with a label stay, and so does the designated one.
func TestCopyToServerThatRemovesVersions(t *testing.T) {
	s := start(t, nil)
	const mail = "/v1/presets/mail"
	for n := 1; n <= 6; n++ {
		s.Manage("POST", mail+"/responses", fmt.Sprintf(`{"model":"m%d"}`, n)).Want(t, 200)
	}
	for _, r := range [][3]string{
		{"PUT", mail + "/labels/first", `{"version":1}`},
		{"PUT", mail + "/labels/split", `{"split":[{"version":3,"weight":0},{"version":5,"weight":7}]}`},
		{"POST", mail + "/designate", `{"version":3}`},
		{"PATCH", mail, `{"status":"disabled"}`},
	} {
		s.Manage(r[0], r[1], r[2]).Want(t, 200)
	}
	address, origin := s.second(t, "keep_versions 1")
	key := strings.ReplaceAll(caddytest.ManagementSecret, "secret", "other")
	out, errOut, err := run("copy", "mail", "--all-versions", "--to-server", origin, "--to-key-file", storagetest.KeyFile(t, key+"\n"))
	if err != nil || out != "Preset mail is copied: version 3 is now version 3 there. Versions copied: 6.\n" || errOut != "The server there keeps 4 of 6 versions.\n" {
		t.Errorf("got %q, %q, %v", out, errOut, err)
	}
	copied := data[map[string]object](t, caddytest.Send(t, address, "GET", mail, "", caddytest.Bearer(key)).Body)["data"]
	same(t, "mail", data[map[string]object](t, s.Manage("GET", mail, "").Body)["data"], copied, "status", "labels", "designated_version_number")
}

// TestCopyBesideOtherChange changes the copy while its versions are copied.
func TestCopyBesideOtherChange(t *testing.T) {
	s := start(t, nil)
	s.fill()
	posts := 0
	s.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" {
			posts++
		}
		if r.Method == "POST" && posts == 2 {
			s.Manage("PUT", "/v1/presets/email-copywriter/labels/theirs?workspace_id=team", `{"version":1}`).Want(t, 200)
		}
		return false
	})
	mustRun(t, words("copy email-copywriter --all-versions --to-workspace team")...)
	s.Manage("GET", "/v1/presets/email-copywriter?workspace_id=team", "").Want(t, 200,
		`"designated_version_number":2`, `"staging":{"version":3}`, `"theirs":{"version":1}`)
}

// TestCopyEndsInTheMiddle checks that the error of an incomplete copy says that it serves.
func TestCopyEndsInTheMiddle(t *testing.T) {
	s := start(t, nil)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.Manage("POST", "/v1/presets/mail/responses", `{"model":"m1"}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/mail/responses", `{"model":"m2"}`).Want(t, 200)
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
	wantError(t, "is incomplete and active (versions copied: 1): version 2: the key in PRESETS_KEY may not do that: No more", words("copy mail --all-versions --to-workspace team")...)
}
