//go:build unix

package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

func TestReadLayout(t *testing.T) {
	dir := t.TempDir()
	set := read(t, dir)
	if len(set.Workspaces) != 0 {
		t.Errorf("got %s of an empty folder", show(set))
	}
	if _, err := files.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of a missing folder", err)
	}
	const preset = "responses: {}\n"
	for name, text := range map[string]string{
		"README.md": "a", ".git/config.yaml": "a: [", ".hidden.yaml": "a: [", "script.sh": "a",
		"b/z.yaml": preset, "b/a.yaml": preset, "b/README.md": "a", "b/.draft.yaml": "a: [", "b/.workspace.yaml": "# nothing yet\n",
		"b/prompts/a.md": "a", "b/.old/a.yaml": "a: [", "b/Mail.v2~x.yaml": preset, "a-1/.workspace.yaml": "{}", "Docs/README.md": "a", "empty/.keep": "",
	} {
		put(t, filepath.Join(dir, name), []byte(text))
	}
	set = read(t, dir)
	if len(set.Workspaces) != 2 || set.Workspaces[0].Slug != "a-1" || string(set.Workspaces[0].Defaults) != "{}" || string(set.Workspaces[1].Defaults) != "{}" {
		t.Errorf("got %s", show(set))
	}
	var names []string
	for _, p := range set.Workspaces[1].Presets {
		names = append(names, p.File+"="+p.Workspace+"/"+p.Slug)
	}
	if got, want := strings.Join(names, " "), "b/Mail.v2~x.yaml=b/Mail.v2~x b/a.yaml=b/a b/z.yaml=b/z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	for name, text := range map[string]string{
		"loose.yaml": preset, "loose.yml": preset, "Team/a.yaml": preset, "0b9fb1d4-9c7e-4a3a-8d0b-3c1f0f3b6c11/a.yaml": preset,
		"b/c.yml": preset, "b/d.YAML": preset, "b/-e.yaml": preset, "b/.workspace.yml": "", "b/large.yaml": "# " + strings.Repeat("a", files.MaxFileSize), "b/folder.yaml/a": "", "b/prompts/old/a.yaml": "a: [", "c/sub/a.yml": preset,
		"b/utf16.yaml": "\xff\xfea\x00", "v/.workspace.yaml": "budgets: {weekly: {limit_usd: 5}, daily: {limit_usd: 5.0}}", "w/.workspace.yaml": "slug: x\nname: 1\ncolour: red\ndefault_provider_sort: best\nlimits: {requests_per_hour: 1}\nbudgets: {hourly: {limit_usd: 1}, daily: {limit_usd: 1, id: a, limit: 1}}\n", "b/esc\x1b[31m.yaml": preset,
	} {
		put(t, filepath.Join(dir, name), []byte(text))
	}
	outside := t.TempDir()
	put(t, filepath.Join(outside, "a.yaml"), []byte(preset))
	for name, target := range map[string]string{"linked": outside, "b/linked.yaml": filepath.Join(outside, "a.yaml"), "b/nowhere.yaml": "nothing", "b/inside.yaml": "a.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "b", "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := files.Read(dir)
	const slug = "the name of a file is the slug of a preset: it must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit"
	want := []string{
		"0b9fb1d4-9c7e-4a3a-8d0b-3c1f0f3b6c11: the name of a folder is the slug of a workspace: it must not be a UUID",
		"Team: the name of a folder is the slug of a workspace: it must be lowercase letters and digits, in groups joined by single hyphens",
		"b/-e.yaml: " + slug,
		"b/.workspace.yml: the name must be .workspace.yaml",
		"b/c.yml: the name of a YAML file must end in .yaml",
		"b/d.YAML: the name of a YAML file must end in .yaml",
		`b/esc\x1b[31m.yaml: ` + slug,
		"b/folder.yaml: must be a regular file",
		"b/large.yaml: the file has more than 1048576 bytes",
		"b/linked.yaml: cannot be read: path escapes from parent",
		"b/nowhere.yaml: is not there, or is a link to nothing",
		"b/pipe.yaml: must be a regular file",
		"b/prompts/old/a.yaml: must be in the folder b itself, because folders below it describe nothing",
		"b/utf16.yaml:1:1: is not UTF-8",
		"c/sub/a.yml: must be in the folder c itself, because folders below it describe nothing",
		"linked: cannot be read: path escapes from parent",
		"loose.yaml: belongs into the folder of a workspace, such as default/",
		"loose.yml: belongs into the folder of a workspace, such as default/",
		"v/.workspace.yaml:1:54: /budgets/daily/limit_usd: must be less than the weekly budget of $5",
		"w/.workspace.yaml:1:1: /slug: is not allowed: the name of the folder is the slug",
		"w/.workspace.yaml:2:7: /name: must be a string",
		"w/.workspace.yaml:3:1: /colour: is unknown: a workspace has no such default",
		"w/.workspace.yaml:4:24: /default_provider_sort: must be one of price, throughput, latency, exacto or null",
		"w/.workspace.yaml:5:29: /limits/requests_per_hour: unknown field",
		"w/.workspace.yaml:6:19: /budgets/hourly: unknown field",
		"w/.workspace.yaml:6:57: /budgets/daily/id: is not allowed: a budget has limit_usd alone",
		"w/.workspace.yaml:6:71: /budgets/daily/limit: unknown field",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

// TestReadMany checks the bound of the mistakes that are shown.
func TestReadMany(t *testing.T) {
	dir := t.TempDir()
	for i := range 150 {
		put(t, filepath.Join(dir, "default", fmt.Sprintf("p%03d.yaml", i)), []byte("a: 1\nresponses: {}\n"))
	}
	_, err := files.Read(dir)
	list, ok := errors.AsType[files.Errors](err)
	if !ok || len(list) != 150 || list[0].File != "default/p000.yaml" || strings.Count(err.Error(), "\n") != files.MaxErrors || !strings.HasSuffix(err.Error(), "\nand 50 more mistakes") {
		t.Errorf("got %d mistakes: %v", len(list), err)
	}
}

// TestReadValues checks what a good file means.
func TestReadValues(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", "p.md"), []byte("You are kind.\r\n"))
	put(t, filepath.Join(dir, "default", "p.yaml"), []byte(`
policy: {lock: [tools]}
labels: {a: latest, b: 2, c: {split: [{version: latest, weight: 0}, {version: 12, weight: 3}]}}
responses:
  temperature: 0.70
  top_p: 1E+2
  model: m
  models: [m, yes, 2024-01-01, "1", !!str 2, ~x, no, 1.2.3, 12:30, "", 'it''s']
  parallel_tool_calls: True
  top_k: 123456789012345678901234567890
  max_tool_calls: null
  tools:
  - type: custom
    name: a
    description: !file p.md
  instructions: >
    folded
    text
`))
	p := read(t, dir).Workspaces[0].Presets[0]
	want := `{"temperature":0.70,"top_p":1E+2,"model":"m","models":["m","yes","2024-01-01","1","2","~x","no","1.2.3","12:30","","it's"],"parallel_tool_calls":true,` +
		`"top_k":123456789012345678901234567890,"max_tool_calls":null,"tools":[{"type":"custom","name":"a","description":"You are kind."}],"instructions":"folded text\n"}`
	if got := string(p.Version.Request); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := p.Version.Capture; c.Dialect != domain.Responses || c.SystemPrompt == nil || *c.SystemPrompt != "folded text\n" || c.Template != nil || strings.Contains(string(c.Config), "null") {
		t.Errorf("got %s", show(c))
	}
	labels := map[string]files.Label{"a": {}, "b": {Version: 2}, "c": {Split: []files.Share{{Weight: 0}, {Version: 12, Weight: 3}}}}
	if show(p.Labels) != show(labels) || p.Policy.Violation != domain.OverrideViolation || p.Status != domain.PresetActive || p.Name != nil || p.Description != nil {
		t.Errorf("got %s", show(p))
	}
}

// TestNoSecrets checks texts that only look like keys.
func TestNoSecrets(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", "p.yaml"), []byte(`
# task-1234567890abcdefghijkl, risk-0123456789abcdefghij, sk-abc, sk-learn-feature-extraction, XAKIAABCDEFGHIJKLMNOP, AKIAABCDEFGHIJKLMNOPQ, ghp_short, caddypresets_mgmt_
# Keys begin with sk-…, sk-ant-… or caddypresets_inf_. -----BEGIN PUBLIC KEY-----
responses: {model: m}
`))
	read(t, dir)
}
