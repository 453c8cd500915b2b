package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func (s *server) prune(body string) caddytest.Response {
	s.T.Helper()
	return s.Admin("POST", "/presets/prune", body)
}

func TestPruneCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.versions("/v1/presets/email/responses", 1, 5)
	s.versions("/v1/presets/archived/responses?workspace_id=team", 1, 4)
	s.Manage("PUT", "/v1/presets/email/labels/live", `{"version":2}`).Want(t, 200)
	s.Manage("DELETE", "/v1/presets/archived?workspace_id=team", "").Want(t, 200)
	prune := func(want string, args ...string) {
		t.Helper()
		out, note, err := s.run(append([]string{"prune"}, args...)...)
		var rows []string
		for row := range strings.Lines(out) {
			rows = append(rows, strings.Join(strings.Fields(row), " "))
		}
		if got := strings.Join(rows, "; "); err != nil || note != "" || got != want {
			t.Errorf("%v: got %q, %q, %v, want %q", args, got, note, err, want)
		}
	}
	before := s.Manage("GET", "/v1/presets/email", "")
	const gone = "; disk: later writes free the space as Badger merges its tables; to free all of it now, restore a backup into another folder and reload"
	const heading, email, archived = "WORKSPACE PRESET COUNT VERSIONS; ", "default email 2 1,3; ", "team archived 2 1-2; "
	prune(heading+email+archived+"versions that would be removed: 4, of presets: 2", "--keep", "2", "--dry-run")
	prune(heading+archived+"versions that would be removed: 2, of presets: 1", "--keep", "2", "--dry-run", "--workspace", "team")
	s.Manage("GET", "/v1/presets/email/versions/1", "").Want(t, 200)
	prune(heading+archived+"versions removed: 2, of presets: 1"+gone, "--keep", "2", "--workspace", "team")
	prune(heading+email+"versions removed: 2, of presets: 1"+gone, "--keep", "2")
	prune("versions removed: 0, of presets: 0", "--keep", "2")
	s.Manage("GET", "/v1/presets/email/versions/1", "").WantError(t, 404, "Preset version not found")
	if after := s.Manage("GET", "/v1/presets/email", ""); after.Body != before.Body || after.Header.Get("ETag") != before.Header.Get("ETag") {
		t.Errorf("the preset changed from\n%s to\n%s", before.Body, after.Body)
	}
	s.Manage("POST", "/v1/presets/archived/restore?workspace_id=team", "").Want(t, 200, `"version":4`)
	s.Manage("GET", "/v1/presets/archived/versions?workspace_id=team", "").Want(t, 200, `"total_count":2`)

	out, _ := s.must("audit", "--limit", "3")
	for _, want := range []string{"preset.prune archived less 1-2 4 admin - -", "preset.prune email less 1,3 5 admin - -"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the trail does not say %q:\n%s", want, out)
		}
	}
	if out, _, err := s.run("audit", "--verify"); err != nil {
		t.Errorf("got %q, %v, want that the trail verifies", out, err)
	}

	s.refuses(map[string][]string{
		"keep: must be given, since the configuration has no keep_versions": {},
		"Workspace not found":     {"--keep", "1", "--workspace", "nowhere"},
		`invalid argument "all"`:  {"--keep", "all"},
		`unknown command "email"`: {"email"},
	}, "prune")
}

// TestPruneByConfiguration prunes without a number of versions to keep. The configuration's
// number applies if all sites of the store agree.
func TestPruneByConfiguration(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.versions("/v1/presets/p/responses", 1, 9)
	second := caddytest.Address(t)
	other := func(more string) string {
		return s.SiteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.Folder, more))
	}
	for _, tc := range []struct {
		sites  string
		status int
		says   string
	}{
		{s.Site(caddytest.Standard + "\nkeep_versions 7"), 200, `"keep":7,"dry_run":true`},
		{s.Site(caddytest.Standard+"\nkeep_versions 6") + other("keep_versions 6"), 200, `"versions":"1-3","count":3`},
		{s.Site(caddytest.Standard+"\nkeep_versions 6") + other("keep_versions 5"), 400, "do not have the same keep_versions: [5 6]"},
		{s.Site(caddytest.Standard+"\nkeep_versions 6") + other(""), 400, "do not have the same keep_versions: [0 6]"},
		{s.Site(caddytest.Standard) + other(""), 400, "has no keep_versions"},
	} {
		if err := s.Load(tc.sites); err != nil {
			t.Fatal(err)
		}
		// Caddy withdraws a replaced configuration later, in the background.
		var r caddytest.Response
		if !wait.Eventually(func() bool {
			r = s.prune(`{"dry_run":true}`)
			return r.Status == tc.status && strings.Contains(r.Body, tc.says)
		}) {
			t.Errorf("got %d %s, want %d and %q", r.Status, r.Body, tc.status, tc.says)
		}
	}
	s.prune(`{"keep":8}`).Want(t, 200, `"keep":8,"dry_run":false`, `"versions":"1"`, `"total_count":1`)
	if err := s.Load(s.Site(caddytest.Standard + "\nkeep_versions 7")); err != nil {
		t.Fatal(err)
	}
	s.prune(`{}`).Want(t, 200, `"keep":7,"dry_run":false`, `"versions":"2"`, `"total_count":1`)
}
