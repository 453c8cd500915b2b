package caddymodule

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// bundleIn writes files into a folder and returns the directive with it.
func bundleIn(t *testing.T, dir string, texts map[string]string) string {
	t.Helper()
	caddytest.WriteFiles(t, dir, texts)
	return standard + "\nbundle " + filepath.ToSlash(dir)
}

// applied waits until as many bundles were applied since the start.
func (s *server) applied(count int) {
	s.t.Helper()
	if !s.eventually(func() bool { return strings.Count(s.logs(), `"bundle applied"`) >= count }) {
		s.t.Fatalf("the bundle was not applied %d times:\n%s", count, s.logs())
	}
}

// TestBundle starts a server with a bundle, and reloads it with changed files.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	s := start(t, bundleIn(t, dir, map[string]string{
		"default/mail.yaml": "labels: {prod: latest}\nresponses: {model: m1, instructions: Write mails.}\n", "team/chat.yaml": "chat: {model: m}\n",
	}))
	s.applied(1)
	s.manage("GET", "/v1/presets/mail", "").want(t, 200, `"managed_by":"caddyfile"`, `"creator_user_id":"caddyfile"`, `"prod":{"version":1}`)
	s.manage("GET", "/v1/presets/chat?workspace_id=team", "").want(t, 200)
	s.manage("GET", "/v1/presets/mail/history", "").want(t, 200, `"key_id":"bundle"`, `"user_id":"caddyfile"`)
	s.manage("PATCH", "/v1/presets/mail", `{"description":"d"}`).wantError(t, 409, "Preset mail is managed by caddyfile")
	s.manage("POST", "/v1/presets/other/responses", `{}`).want(t, 200)

	s.manage("PATCH", "/v1/presets/mail", `{"protected":true}`, "X-Preset-Override: caddyfile").want(t, 200)
	s.reload(bundleIn(t, dir, map[string]string{
		"default/mail.yaml": "labels: {prod: latest}\nresponses: {model: m2, instructions: Write mails.}\n", "team/chat.yaml": "", "default/new.yaml": "chat: {}\n",
	}) + "\nkeep_versions 9")
	s.applied(2)
	s.manage("GET", "/v1/presets/mail", "").want(t, 200, `"model":"m2"`, `"prod":{"version":2}`)
	s.manage("GET", "/v1/presets/new", "").want(t, 200)
	s.manage("GET", "/v1/presets/other", "").want(t, 200, `"managed_by":null`)
	s.manage("GET", "/v1/presets/chat?workspace_id=team", "").want(t, 404)
	s.awaitMetric("caddy_presets_bundles_waiting", "0")

	s.reload(bundleIn(t, dir, nil) + "\nkeep_versions 8")
	s.applied(3)
	s.manage("GET", "/v1/presets/mail/versions?fields=summary", "").want(t, 200, `"total_count":2`)
	if logs := s.logs(); strings.Contains(logs, "Write mails.") {
		t.Error("the log has a prompt")
	}
}

// TestBundleRefused loads configurations with bundles that cannot be used. The running
// configuration stays, and nothing is applied.
func TestBundleRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, bundleIn(t, dir, map[string]string{"default/p.yaml": "chat: {model: m1}\n"}))
	s.applied(1)
	other := t.TempDir()
	bundleIn(t, other, map[string]string{"default/q.yaml": "chat: {model: m1}\n"})
	second := func(dir string) string {
		return s.siteAt(freeAddress(t), fmt.Sprintf("presets {\nstorage badger %s\n%s\nbundle %s\n}", s.folder, standard, filepath.ToSlash(dir)))
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := bundleIn(t, dir, map[string]string{"default/p.yaml": "chat: {model: m2}\n", "default/x.yaml": "nothing: 1\n", "default/y.yaml": "a: [\n"})
	for name, tc := range map[string]struct {
		sites string
		wants []string
	}{
		"mistakes":          {s.site(broken), []string{"bundle: default/x.yaml:1:1: ", "\ndefault/y.yaml:"}},
		"no folder":         {s.site(standard + "\nbundle " + filepath.ToSlash(filepath.Join(dir, "missing"))), []string{"bundle: ", "missing"}},
		"no preset":         {s.site(standard + "\nbundle " + filepath.ToSlash(t.TempDir())), []string{"bundle: there is no preset in "}},
		"unset placeholder": {s.site(standard + "\nbundle {env.PRESETS_NOT_SET}"), []string{"bundle: ", "env.PRESETS_NOT_SET"}},
		"a later app fails": {s.site(standard+"\nbundle "+filepath.ToSlash(other)) + s.siteAt(taken.Addr().String(), ""), []string{taken.Addr().String()}},
		"two for one store": {s.site(standard+"\nbundle "+filepath.ToSlash(other)) + second(bundleFolder(t)), []string{"another presets directive of the same store has the folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.load(tc.sites)
			for _, want := range tc.wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
			s.manage("GET", "/v1/presets/p", "").want(t, 200, `"model":"m1"`)
			s.manage("GET", "/v1/presets/q", "").want(t, 404)
		})
	}
	if count := strings.Count(s.logs(), `"bundle applied"`); count != 1 {
		t.Errorf("bundles were applied %d times, want once", count)
	}
	bundleIn(t, dir, map[string]string{"default/x.yaml": "", "default/y.yaml": ""})
	s.t.Setenv("PRESETS_BUNDLE", dir)
	s.reload(standard + "\nbundle {env.PRESETS_BUNDLE}")
	s.applied(2)
	s.manage("GET", "/v1/presets/p", "").want(t, 200, `"model":"m2"`)
	same := second(dir)
	if err := s.load(s.site(standard+"\nbundle "+filepath.ToSlash(dir)) + same); err != nil { // two sites with one folder
		t.Error(err)
	}
	s.applied(4)
}

// bundleFolder returns a folder with a preset.
func bundleFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bundleIn(t, dir, map[string]string{"default/r.yaml": "chat: {}\n"})
	return dir
}

// TestBundleLater starts a server whose store becomes available later.
func TestBundleLater(t *testing.T) {
	s := start(t, standard)
	s.folder = caddytest.Folder(t)
	store, err := badger.Open(s.folder, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := domain.NewService(store).IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.ManagementKey}); err != nil { // a table needs something in it
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	undo := caddytest.Damage(t, s.folder)
	s.reload(bundleIn(t, t.TempDir(), map[string]string{"default/p.yaml": "chat: {model: m}\n", "new/q.yaml": "chat: {model: m}\n"}))
	if !s.eventually(func() bool { return strings.Contains(s.logs(), "bundle not applied yet") }) {
		t.Error("the log does not tell that the bundle waits")
	}
	s.awaitMetric("caddy_presets_bundles_waiting", "1")
	undo()
	s.applied(1)
	s.manage("GET", "/v1/presets/p", "").want(t, 200)
	s.stop() // before the folder goes
}

// TestBundleOfForeignPreset cannot be applied. The server runs all the same, and the next
// reload tries again.
func TestBundleOfForeignPreset(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{"model":"theirs"}`, "X-Preset-Owner: files").want(t, 200)
	directive := bundleIn(t, t.TempDir(), map[string]string{"default/p.yaml": "chat: {model: m}\n", "default/q.yaml": "chat: {model: m}\n"})
	s.reload(directive)
	if !s.eventually(func() bool {
		return strings.Contains(s.logs(), "bundle not applied: the next start or reload tries again")
	}) {
		t.Fatal("the log does not tell that the bundle is not applied")
	}
	if logs := s.logs(); !strings.Contains(logs, "default/p is managed by files and not by caddyfile") {
		t.Errorf("the log does not name the owner:\n%s", logs)
	}
	s.manage("GET", "/v1/presets/q", "").want(t, 404)
	s.awaitMetric("caddy_presets_bundles_waiting", "1")
	s.manage("PATCH", "/v1/presets/p", `{"managed_by":null}`, "X-Preset-Owner: files").want(t, 200)
	s.reload(directive + "\nkeep_versions 9")
	s.applied(1)
	s.manage("GET", "/v1/presets/p", "").want(t, 200, `"managed_by":"caddyfile"`)
}

// TestBundleKeyIsNoKey sends what a bundle sends, from outside.
func TestBundleKeyIsNoKey(t *testing.T) {
	s := start(t, bundleIn(t, t.TempDir(), map[string]string{"default/p.yaml": "chat: {}\n"}))
	s.applied(1)
	for _, header := range []string{"Authorization: Bearer ", "Authorization: Bearer bundle", "X-Preset-Owner: caddyfile"} {
		s.do("GET", "/v1/presets", "", header).want(t, 401)
	}
}

// TestBundleBelowBasePath applies a bundle through an API at another path.
func TestBundleBelowBasePath(t *testing.T) {
	for _, base := range []string{"/", "/api/presets"} {
		t.Run(base, func(t *testing.T) {
			s := start(t, bundleIn(t, t.TempDir(), map[string]string{"default/p.yaml": "labels: {a~b: latest}\nchat: {}\n"})+"\nbase_path "+base)
			s.applied(1)
			s.manage("GET", strings.TrimSuffix(base, "/")+"/presets/p", "").want(t, 200, `"a~b"`)
		})
	}
}
