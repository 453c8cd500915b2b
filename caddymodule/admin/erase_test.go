package admin_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// filesWith returns the files of a folder that have a text, as somebody with the disk finds it.
func filesWith(t *testing.T, folder, text string) (found []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if bytes.Contains(content, []byte(text)) {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestErasedTextIsGone follows docs/erase.md: a removed text is in the folder of the store until a backup is
// restored into another one, where only the others are.
func TestErasedTextIsGone(t *testing.T) {
	s := start(t, caddytest.Standard)
	const erased, kept, pruned, other = "canary-of-an-erased-preset", "canary-in-a-kept-answer", "canary-of-a-removed-version", "canary-that-stays"
	post := func(slug, text string, header ...string) {
		t.Helper()
		s.Manage("POST", "/v1/presets/"+slug+"/responses", `{"model":"m","instructions":"`+text+`"}`, header...).Want(t, 200)
	}
	post("gone", erased)
	post("gone", kept, "Idempotency-Key: once")
	post("mail", pruned)
	post("mail", other)
	s.Manage("PUT", "/v1/presets/gone/labels/live", `{"version":1}`).Want(t, 200)
	for _, text := range []string{erased, kept, pruned, other} {
		if len(filesWith(t, s.Folder, text)) == 0 {
			t.Fatalf("%s is not in the folder, so that the test would find nothing", text)
		}
	}
	out, _, err := s.run("erase", "--preset", "@preset/gone")
	if err == nil || err.Error() != "nothing was erased: say --yes" || !strings.Contains(out, "versions that would be removed: 2, of presets: 1") {
		t.Errorf("without --yes: got %q, %v", out, err)
	}
	s.Manage("GET", "/v1/presets/gone", "").Want(t, 200)
	if out, _ := s.must("erase", "--preset", "@preset/gone", "--yes"); !strings.Contains(out, "versions removed: 2, of presets: 1\ndisk: ") {
		t.Errorf("got %q", out)
	}
	if out, _ := s.must("prune", "--preset", "@preset/mail@1"); !strings.Contains(out, "versions removed: 1, of presets: 1") {
		t.Errorf("got %q", out)
	}
	s.Manage("GET", "/v1/presets/gone", "").WantError(t, 404, "Preset not found")
	s.Manage("GET", "/v1/presets/mail/versions/1", "").WantError(t, 404, "Preset version not found")
	if out, _ := s.must("audit", "--preset", "gone", "--limit", "1"); !strings.Contains(strings.Join(strings.Fields(out), " "), "preset.erase gone less 1-2 2 -> 0 admin") {
		t.Errorf("the trail says %q", out)
	}

	for _, text := range []string{erased, kept, pruned} {
		if len(filesWith(t, s.Folder, text)) == 0 {
			t.Errorf("%s is gone from the disk at once: docs/erase.md says that it stays for a while", text)
		}
	}
	backups := t.TempDir()
	var restored string
	if !wait.Eventually(func() bool { // the answers that were kept go in the background
		restored = filepath.Join(t.TempDir(), "presets")
		backup := filepath.Join(backups, filepath.Base(filepath.Dir(restored))+".backup")
		s.must("backup", backup)
		must(t, "restore", "--folder", restored, backup)
		return len(filesWith(t, restored, kept)) == 0
	}) {
		t.Error("an answer that was kept still has the text")
	}
	for _, text := range []string{erased, pruned} {
		if found := filesWith(t, restored, text); len(found) > 0 {
			t.Errorf("%s is still in %v", text, found)
		}
	}
	if len(filesWith(t, restored, other)) == 0 {
		t.Error("the text of another version is not in the new folder")
	}
	s.load(restored, "")
	s.Manage("GET", "/v1/presets/mail", "").Want(t, 200, other)
	s.Manage("GET", "/v1/presets/gone", "").WantError(t, 404, "Preset not found")
	s.must("verify")
	post("gone", other)
	s.Manage("GET", "/v1/presets/gone", "").Want(t, 200, `"version":1`)
}

// TestEraseRefuses checks what the commands refuse, and that they remove nothing then.
func TestEraseRefuses(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.versions("/v1/presets/mail/responses", 1, 3)
	s.Manage("PUT", "/v1/presets/mail/labels/live", `{"version":2}`).Want(t, 200)
	s.refuses(map[string][]string{
		`required flag(s) "preset" not set`:                              {"erase"},
		"Preset not found":                                               {"erase", "--preset", "absent", "--yes"},
		"Workspace not found":                                            {"erase", "--preset", "mail", "--workspace", "absent", "--yes"},
		"--preset takes no version 2":                                    {"erase", "--preset", "mail@2", "--yes"},
		"--preset takes no version live":                                 {"prune", "--preset", "mail@live"},
		"Version 3 of preset mail is designated or has a label":          {"prune", "--preset", "mail", "--version", "1", "--version", "3"},
		"Version 2 of preset mail is designated or has a label":          {"prune", "--preset", "mail", "--version", "2"},
		"Preset mail has no version 9":                                   {"prune", "--preset", "mail@9"},
		"preset: must be given with versions and with erase":             {"prune", "--version", "1"},
		"keep and unused_for choose versions, and versions and erase do": {"prune", "--preset", "mail", "--version", "1", "--keep", "1"},
		`invalid argument ""`:                                            {"prune", "--preset", "mail", "--version", ""},
		`invalid argument "one"`:                                         {"prune", "--preset", "mail", "--version", "one"},
	})
	s.Manage("GET", "/v1/presets/mail/versions", "").Want(t, 200, `"total_count":3`)
	s.prune(`{"preset":"mail","versions":[]}`).Want(t, 400)
	s.prune(`{"preset":"mail","erase":true,"versions":[1]}`).Want(t, 400)
}
