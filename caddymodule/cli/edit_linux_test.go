package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// editWith makes the editor a shell script, whose $1 is the file.
func editWith(t *testing.T, script string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nset -e\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "sh "+file)
}

func TestEdit(t *testing.T) {
	s := start(t, nil)
	s.fill()
	t.Setenv("TMPDIR", t.TempDir())
	left := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(os.TempDir(), "caddy-presets-edit-*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	editWith(t, `test "$(stat -c %a "$(dirname "$(dirname "$1")")")" = 700 || exit 9
grep -q "Be friendly." "$1"; sed -i 's/0.70/0.20/; s/Be friendly/Be kind/' "$1"`)
	if out := mustRun(t, words("edit email-copywriter --message kinder")...); out != "Requests for email-copywriter get version 4, before it was 2.\n" {
		t.Errorf("got %q", out)
	}
	s.Manage("GET", "/v1/presets/email-copywriter/versions/4", "").Want(t, 200, `"temperature":0.20`, "Be kind.", `"message":"kinder"`)
	editWith(t, `sed -i 's/Be very friendly/Be brief/' "$1"`)
	if out := mustRun(t, words("edit @preset/email-copywriter@staging --draft")...); !strings.HasPrefix(out, "Version 5 of email-copywriter is a draft.") {
		t.Errorf("got %q", out)
	}
	s.Manage("GET", "/v1/presets/email-copywriter", "").Want(t, 200, `"designated_version_number":4`)
	editWith(t, `sed -i 's/sights/towers/' "$1"`)
	mustRun(t, "edit", "tour-guide")
	s.Manage("GET", "/v1/presets/tour-guide/versions/2", "").Want(t, 200, "Name three towers in {{city}}.", `"variables":["city"]`)
	editWith(t, "true")
	if out, errOut, err := run("edit", "summary", "--override", "files"); out != "" || err != nil || errOut != "Nothing is changed, so no version is made.\n" {
		t.Errorf("got %q, %q, %v", out, errOut, err)
	}
	wantError(t, "preset summary is managed by files: change it there, or pass --override files", "edit", "summary")
	wantError(t, "Preset not found", "edit", "absent")
	wantError(t, "message: ", "edit", "tour-guide", "--message", strings.Repeat("x", 501))
	wantError(t, "the version is named twice: in tour-guide@1 and with --version", "edit", "tour-guide@1", "--version", "2")
	if names := left(); len(names) > 0 {
		t.Errorf("%v are left", names)
	}

	// What somebody wrote stays after an error.
	for script, want := range map[string]string{
		`echo "name: x" >>"$1"`:                             "no parts of a version",
		`sed -i 's/max_tokens: 100/max_tokens: many/' "$1"`: "tour-guide.yaml:",
		`rm "$1"`: "the file is gone",
		`exit 3`:  "the editor sh failed: exit status 3",
	} {
		editWith(t, script)
		wantError(t, want, "edit", "tour-guide")
		for _, name := range left() {
			os.RemoveAll(name)
		}
	}
	editWith(t, `sed -i 's/towers/hills/' "$1"
curl -sf -X PATCH "$PRESETS_SERVER/v1/presets/tour-guide" -H "Authorization: Bearer $PRESETS_KEY" -H "Content-Type: application/json" -d '{"description":"x"}' >/dev/null`)
	_, errOut, err := run("edit", "tour-guide")
	if err == nil || !strings.Contains(err.Error(), "someone else changed the preset at the same time") {
		t.Errorf("got %v", err)
	}
	file := strings.TrimSuffix(strings.TrimPrefix(errOut, "The file stays at "), "\n")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "hills") {
		t.Errorf("%s: got %q, %v", file, text, err)
	}
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "")
	wantError(t, "there is no editor: set VISUAL or EDITOR, such as EDITOR=vi", "edit", "tour-guide")
	t.Setenv("EDITOR", "absent-editor")
	wantError(t, "the editor absent-editor failed", "edit", "tour-guide")
	t.Setenv("PRESETS_KEY", caddytest.InferenceSecret)
	editWith(t, `sed -i 's/towers/hills/' "$1"`)
	wantError(t, "the key in PRESETS_KEY may not do that", "edit", "tour-guide")
}
