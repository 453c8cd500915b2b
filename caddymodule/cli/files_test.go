package cli_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// wantChanges runs a command that ends with the status of changes, silently.
func wantChanges(t *testing.T, args ...string) (out string) {
	t.Helper()
	out, errOut, err := run(args...)
	if err == nil || err.Error() != "exiting with status 2" || errOut != "" {
		t.Errorf("%v: got %q, %q, %v, want exit status 2", args, out, errOut, err)
	}
	return out
}

// TestFilesSession is a session with all commands for files, as people see it.
func TestFilesSession(t *testing.T) {
	s := start(t, nil)
	var text string
	t.Run("commands", func(t *testing.T) { // in a folder of its own
		t.Chdir(t.TempDir())
		text = s.sessionOfFiles(t)
	})
	golden(t, "files", text)
}

func (s *server) sessionOfFiles(t *testing.T) string {
	s.Manage("POST", "/v1/presets/found/chat/completions", `{"model":"acme/small"}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/foreign/chat/completions", `{"model":"acme/small"}`, "X-Preset-Owner: others").Want(t, 200)
	caddytest.WriteFiles(t, "presets", map[string]string{
		"default/mail.yaml": "description: Used by the newsletter\nlabels: {staging: latest}\npolicy: {lock: [model]}\nresponses:\n  model: openai/gpt-5-mini\n  temperature: 0.70\n  instructions: !file mail.md\n",
		"default/mail.md":   "Write emails.\n\n- Be brief.\n", "default/found.yaml": "chat: {model: acme/small}\n",
		"team/chat.yaml": "earlier:\n  - chat: {model: m1}\nchat: {model: m2}\n", "team/.workspace.yaml": "default_text_model: m\n",
	})
	text := s.session(words("plan"), words("apply"), words("apply --yes --message first"), words("plan"))
	s.Manage("POST", "/v1/presets/mail/responses", `{"model":"openai/gpt-5-mini","instructions":"Write letters."}`, "X-Preset-Override: files").Want(t, 200)
	caddytest.WriteFiles(t, "presets", map[string]string{
		"default/mail.yaml": "labels: {prod: {split: [{version: 1, weight: 90}, {version: latest, weight: 10}]}}\nresponses:\n  model: openai/gpt-5\n  instructions: !file mail.md\n",
		"default/mail.md":   "Write emails.\n\n- Be kind.\n", "team/chat.yaml": "", "team/.workspace.yaml": "default_text_model: m2\n",
	})
	text += s.session(words("plan --prune"), words("apply --yes --prune"))
	caddytest.WriteFiles(t, "presets", map[string]string{"team/chat.yaml": "chat: {model: m3}\n", "default/foreign.yaml": "chat: {}\n"})
	text += s.session(words("plan"), words("apply --yes"), words("release foreign"), words("release foreign --owner others"), words("plan"), words("apply --yes"))
	caddytest.WriteFiles(t, "presets", map[string]string{"default/mail.yaml": "responses: {modell: x}\ntemplate: maybe\n", "default/x.yaml": "nothing: 1\n"})
	text += s.session(words("plan"), words("apply --yes"))
	text += s.session(words("dump other"), words("dump other"), words("dump other --workspace team --json"))
	return text
}

func TestPlanJSON(t *testing.T) {
	start(t, nil)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/mail.yaml": "labels: {l: latest}\nchat: {model: m, temperature: 0.70}\n"})
	const want = `{"changes":[{"workspace":"default","slug":"mail","action":"create","drift":false,"preset":[],"dialect":null,` +
		`"settings":[{"op":"add","path":"/model","value":"m"},{"op":"add","path":"/temperature","value":0.70}],"prompt":null,"template":[],` +
		`"designate":0,"earlier":0,"labels":[{"label":"l","from":null,"to":{"version":"latest"}}],"policy":[],"inputs":[]}],` +
		`"workspaces":[],"adopt":[],"notes":[],"errors":[]}`
	if got := wantChanges(t, "plan", dir, "--json"); got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := mustRun(t, "apply", dir, "--json", "--yes"), `{"plan":`+want+`,"done":1,"failed":[]}`; got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	const empty = `{"changes":[],"workspaces":[],"adopt":[],"notes":[],"errors":[]}`
	if got := mustRun(t, "plan", dir, "--json"); got != empty+"\n" {
		t.Errorf("got %s, want an empty plan", got)
	}
	if got, want := mustRun(t, "apply", dir, "--json"), `{"plan":`+empty+`,"done":0,"failed":[]}`; got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	caddytest.WriteFiles(t, dir, map[string]string{"default/mail.yaml": "chat: {model: 1}\n"})
	t.Setenv("PRESETS_KEY", "") // mistakes are found without a server
	out, _, err := run("plan", dir, "--json")
	if err == nil || err.Error() != "mistakes in the files: 1" {
		t.Errorf("got %v, want the number of mistakes", err)
	}
	found := data[struct {
		Changes, Workspaces, Adopt, Notes []any
		Errors                            []struct {
			File          string
			Line, Column  int
			Path, Message string
		}
	}](t, out)
	if len(found.Errors) != 1 || found.Errors[0].File != "default/mail.yaml" || found.Errors[0].Line != 1 || found.Errors[0].Path != "/chat/model" || found.Changes == nil || found.Adopt == nil {
		t.Errorf("got %s", out)
	}
	wantError(t, "there is no key: set PRESETS_KEY", "dump", dir)
}

// TestApplyConflict changes a preset after the plan and before its application.
func TestApplyConflict(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/p.yaml": "chat: {model: m}\n", "default/q.yaml": "chat: {model: m}\n"})
	mustRun(t, "apply", dir, "--yes")
	caddytest.WriteFiles(t, dir, map[string]string{"default/p.yaml": "chat: {model: mine}\n", "default/q.yaml": "chat: {model: mine}\n"})
	var changed atomic.Bool // apply changes several presets at a time
	s.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.Contains(r.URL.Path, "/presets/p/") && changed.CompareAndSwap(false, true) {
			s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"theirs"}`, "X-Preset-Override: files").Want(t, 200)
		}
		return false
	})
	out, errOut, err := run("apply", dir, "--yes")
	if err == nil || err.Error() != "not applied: 1; run it again" || !strings.Contains(errOut, "default/p was changed by somebody else after the plan") || !strings.Contains(out, "applied: 1\n") {
		t.Errorf("got %q, %q, %v, want a conflict of p", out, errOut, err)
	}
	s.Manage("GET", "/v1/presets/p", "").Want(t, 200, `"model":"theirs"`)
	s.Manage("GET", "/v1/presets/q", "").Want(t, 200, `"model":"mine"`)
	if out := wantChanges(t, "plan", dir); !strings.Contains(out, "drift: ") {
		t.Errorf("got %q, want drift", out)
	}
}

// TestMarkdown checks that hostile text cannot leave its code, and that a comment is not
// longer than GitHub takes.
func TestMarkdown(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	prompt := "fine\n```\n# Out\n<script>alert(1)</script>\n````` @everyone\n\u202eevil\x07\n~~~\n- item\n"
	s.Manage("POST", "/v1/presets/hostile/chat/completions", `{"model":"old"}`).Want(t, 200)
	caddytest.WriteFiles(t, dir, map[string]string{"default/hostile.yaml": "name: 'a `b` ``` c'\nchat: {model: '```\n# Out', messages: [{role: system, content: !file hostile.md}]}\n", "default/hostile.md": strings.ReplaceAll(prompt, "\x07", "")})
	out := wantChanges(t, "plan", dir, "--markdown")
	inside, fence := false, ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case !inside && strings.HasPrefix(line, "```"):
			inside, fence = true, strings.TrimRight(line, "abcdefghijklmnopqrstuvwxyz")
		case inside && strings.HasPrefix(strings.TrimLeft(line, " "), fence) && strings.Trim(line, "` ") == "":
			inside = false
		case !inside && (strings.Contains(line, "Out") || strings.Contains(line, "script") || strings.Contains(line, "everyone")):
			t.Errorf("line %q is not in a block", line)
		}
	}
	if inside || !strings.Contains(out, "script") || strings.ContainsAny(out, "\x07\u202e") {
		t.Errorf("got\n%s\nwant closed blocks without control characters", out)
	}

	texts := make(map[string]string)
	for n := range 40 {
		texts[fmt.Sprintf("default/p%02d.yaml", n)] = fmt.Sprintf("chat: {model: m, messages: [{role: system, content: !file p%02d.md}]}\n", n)
		texts[fmt.Sprintf("default/p%02d.md", n)] = strings.Repeat("Zeile für Zeile\n", 400)
	}
	caddytest.WriteFiles(t, dir, texts)
	out = wantChanges(t, "plan", dir, "--markdown")
	if len(out) > 65_536 || len(out) < 60_000 || !strings.HasSuffix(out, "The rest is cut. `caddy presets plan` prints all of it.\n") || strings.Count(out, "```")%2 != 0 {
		t.Errorf("got %d bytes that end with %q", len(out), out[max(0, len(out)-200):])
	}
	caddytest.WriteFiles(t, dir, map[string]string{"default/hostile.yaml": "\"`x`\": 1\n"})
	out, _, err := run("plan", dir, "--markdown")
	if err == nil || !strings.HasPrefix(out, "### Presets: mistakes in the files: ") || !strings.Contains(out, "default/hostile.yaml:1:1") {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestDiffInPrompt checks that lines of a prompt are no head of the diff.
func TestDiffInPrompt(t *testing.T) {
	s := start(t, nil)
	s.Manage("POST", "/v1/presets/mail/responses", `{"model":"m","instructions":"a\n-- old"}`).Want(t, 200)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/mail.yaml": "responses: {model: m, instructions: \"a\\n++ new\"}\n"})
	for _, args := range [][]string{{"plan", dir}, {"plan", dir, "--markdown"}} {
		out := wantChanges(t, args...)
		for _, want := range []string{"- -- old\n", "+ ++ new\n", "--- mail@1\n", "+++ default/mail.yaml\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: got\n%s\nwant %q", args, out, want)
			}
		}
	}
}

// TestHostilePlan prints nothing of a hostile server that a terminal acts on.
func TestHostilePlan(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	const owner = "x\x1b]0;owned\x07\u202e"
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		preset := map[string]any{
			"slug": "mail\x1b[2J`", "name": "n\u009b2J", "description": "d\r\x1b[1A", "status": "active", "managed_by": nil, "policy": nil,
			"labels":             map[string]any{"l\x1b[0m": map[string]any{"version": 1}},
			"designated_version": map[string]any{"version": 1, "dialect": "chat", "config": map[string]any{"a\x1b[31m": "\u202e"}, "system_prompt": "p\x1b[2J\n\x07", "template": nil},
		}
		var data any = preset
		response := map[string]any{"total_count": 1}
		switch {
		case strings.HasSuffix(r.URL.Path, "/workspaces"):
			data = []any{map[string]any{"id": "1", "slug": "default", "name": "default"}}
		case strings.HasSuffix(r.URL.Path, "/presets"):
			preset["managed_by"] = "files"
			data = []any{preset}
		case strings.HasSuffix(r.URL.Path, "/presets/foreign"):
			preset["managed_by"] = owner
		case strings.HasSuffix(r.URL.Path, "/versions"):
			data = []any{preset["designated_version"]}
		case strings.HasSuffix(r.URL.Path, "/history"):
			data = []any{}
		case strings.Contains(r.URL.Path, "2J"):
			preset["managed_by"] = "files"
		}
		response["data"] = data
		w.Header().Set("ETag", `"1"`)
		_ = json.NewEncoder(w).Encode(response)
		return true
	})
	caddytest.WriteFiles(t, dir, map[string]string{"default/mail.yaml": "chat: {model: m}\n", "default/foreign.yaml": "chat: {}\n"})
	for _, args := range [][]string{{"plan", dir, "--prune"}, {"plan", dir, "--markdown", "--prune"}, {"apply", dir, "--yes"}} {
		out, errOut, err := run(args...)
		all := out + errOut + fmt.Sprint(err)
		if !strings.Contains(all, `\x1b`) || strings.ContainsAny(all, "\x1b\x07\u202e\u009b\r") {
			t.Errorf("%v: got %q, want escapes", args, all)
		}
	}
}

// TestWrongFiles runs commands that cannot work.
func TestWrongFiles(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/p.yaml": "chat: {model: m}\n"})
	missing := filepath.Join(dir, "missing")
	wantError(t, "no such file", "plan", missing)
	wantError(t, "owner: must be", "plan", dir, "--owner", "No!")
	wantError(t, "message: must", "apply", dir, "--yes", "--message", "a\nb")
	wantError(t, "none of the others can be", "plan", dir, "--json", "--markdown")
	wantError(t, "accepts at most 1 arg", "plan", dir, dir)
	wantError(t, "there is no terminal to ask on", "apply", dir)
	wantError(t, "sees no such workspace", "dump", missing, "--workspace", "nothing")
	wantError(t, "managed by others", "release", foreign(s))
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("a failed dump leaves a folder: %v", err)
	}
	t.Setenv("PRESETS_KEY", caddytest.InferenceSecret)
	wantError(t, "the key in PRESETS_KEY may not do that", "plan", dir)
	empty := t.TempDir()
	t.Setenv("PRESETS_KEY", caddytest.ManagementSecret)
	wantError(t, "pruning would archive all", "apply", empty, "--prune", "--yes")
	if entries, err := fs.ReadDir(os.DirFS(empty), "."); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v", entries, err)
	}
}

// foreign makes a preset of another owner, and returns its slug.
func foreign(s *server) string {
	s.T.Helper()
	s.Manage("POST", "/v1/presets/foreign/chat/completions", `{}`, "X-Preset-Owner: others").Want(s.T, 200)
	return "foreign"
}
