package e2e

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// repository is a folder of presets in Git, and the server that it is applied to.
type repository struct {
	*server
	folder string // of the Git work tree
	origin string // where commands find the server
}

// newRepository starts a server, and makes an empty Git work tree.
func newRepository(t *testing.T) *repository {
	t.Helper()
	servertest.Tool(t, "git", "git")
	s := startWith(t, "", "respond 404")
	r := &repository{server: s, folder: t.TempDir(), origin: s.site}
	r.git(t, "init", "-q", "-b", "main")
	return r
}

// git runs Git in the work tree, without the settings of this machine.
func (r *repository) git(t *testing.T, args ...string) string {
	t.Helper()
	env := []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com", "GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com",
	}
	return run(t, r.folder, env, "git", args...)
}

// commit commits everything in the work tree, and returns the revision.
func (r *repository) commit(t *testing.T) string {
	t.Helper()
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "--allow-empty", "-m", "change")
	return strings.TrimSpace(r.git(t, "rev-parse", "--short=12", "HEAD"))
}

// write writes a file below presets/. It removes the file if text is empty.
func (r *repository) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(r.folder, "presets", filepath.FromSlash(name))
	if text == "" {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// edit replaces a part of a file below presets/.
func (r *repository) edit(t *testing.T, name, from, to string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, "presets", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), from) != 1 {
		t.Fatalf("%s: want %q once:\n%s", name, from, text)
	}
	r.write(t, name, strings.Replace(string(text), from, to, 1))
}

// command returns caddy presets with a key in the environment.
func (r *repository) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(wait.Command(t), r.binary, append([]string{"presets"}, args...)...)
	cmd.Dir = r.folder
	cmd.Env = append(append(os.Environ(), r.env...), "PRESETS_KEY="+managementKey)
	return cmd
}

// preset runs a command against the server, and wants an exit status.
func (r *repository) preset(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := r.command(t, append(args, "--server", r.origin)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if got := exitCode(cmd.Run()); got != status {
		t.Fatalf("caddy presets %s: got exit status %d, want %d\n%s%s", strings.Join(args, " "), got, status, &out, &errs)
	}
	return out.String(), errs.String()
}

// planned is a change as plan --json prints it.
type planned struct {
	Workspace string           `json:"workspace"`
	Slug      string           `json:"slug"`
	Action    string           `json:"action"`
	Drift     bool             `json:"drift"`
	Settings  []map[string]any `json:"settings"`
	Prompt    *string          `json:"prompt"`
}

// plan returns the changes of plan --json, and fails the test unless the exit status fits.
func (r *repository) plan(t *testing.T, args ...string) []planned {
	t.Helper()
	cmd := r.command(t, append([]string{"plan", "--json", "--server", r.origin}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	status := exitCode(cmd.Run())
	var plan struct {
		Changes []planned `json:"changes"`
	}
	if err := json.Unmarshal([]byte(out.String()), &plan); err != nil {
		t.Fatalf("plan: status %d, %v\n%s%s", status, err, &out, &errs)
	}
	want := 0
	if len(plan.Changes) > 0 {
		want = 2
	}
	if status != want {
		t.Fatalf("plan: got exit status %d with %d changes\n%s%s", status, len(plan.Changes), &out, &errs)
	}
	return plan.Changes
}

// wantPlan fails the test unless a plan has these changes, each as "action slug" or "action
// slug drift".
func (r *repository) wantPlan(t *testing.T, want []string, args ...string) []planned {
	t.Helper()
	changes := r.plan(t, args...)
	var got []string
	for _, c := range changes {
		text := c.Action + " " + c.Slug
		if c.Drift {
			text += " drift"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("plan: got %q, want %q", got, want)
	}
	return changes
}

// get returns the data of a GET.
func (r *repository) get(t *testing.T, path string, data any) {
	t.Helper()
	status, text := r.send(t, http.MethodGet, path, managementKey, "")
	if status != http.StatusOK {
		t.Fatalf("GET %s: got %d %s", path, status, text)
	}
	envelope := struct {
		Data any `json:"data"`
	}{data}
	if err := json.Unmarshal([]byte(text), &envelope); err != nil {
		t.Fatal(err)
	}
}

// version is a version of a preset.
type version struct {
	Version      int            `json:"version"`
	Config       map[string]any `json:"config"`
	SystemPrompt string         `json:"system_prompt"`
	Message      string         `json:"message"`
	Designated   bool           `json:"designated"`
}

// versions returns the versions of a preset.
func (r *repository) versions(t *testing.T, workspace, slug string) (all []version) {
	t.Helper()
	r.get(t, "/v1/presets/"+slug+"/versions?workspace_id="+workspace, &all)
	return all
}

// shape is what files say of a preset.
type shape struct {
	Status      string `json:"status"`
	Description string `json:"description"`
	ManagedBy   string `json:"managed_by"`
	Designated  int    `json:"designated_version_number"`
	Labels      map[string]any
	Policy      map[string]any
}

// shape returns the state of a preset.
func (r *repository) shape(t *testing.T, workspace, slug string) (s shape) {
	t.Helper()
	r.get(t, "/v1/presets/"+slug+"?workspace_id="+workspace, &s)
	return s
}

// tree returns the files below a folder with their content.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(folder, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(folder, file)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestFiles plays the life of a repository of presets with the real commands. The steps are
// dump, edit, plan, apply, drift, override, prune, a rename, two owners and a concurrent edit.
func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	for path, body := range map[string]string{
		"/v1/presets/mail/responses":                `{"model":"acme/small","temperature":0.70,"instructions":"Write short mails.\nBe friendly.\n"}`,
		"/v1/presets/chat/chat/completions":         `{"model":"acme/large","max_tokens":100,"messages":[{"role":"system","content":"Be kind."}]}`,
		"/v1/presets/claude/messages?template=true": `{"model":"acme/claude","max_tokens":64,"system":"You know {{city}}.","messages":[{"role":"user","content":"Sights of {{city}}?"}]}`,
		"/v1/presets/bare/responses":                `{"model":"acme/small"}`,
		"/v1/presets/split/responses":               `{"model":"acme/one"}`,
	} {
		r.manage(t, http.MethodPost, path, body)
	}
	r.manage(t, http.MethodPost, "/v1/presets/split/responses", `{"model":"acme/two"}`)
	r.manage(t, http.MethodPut, "/v1/presets/split/labels/canary", `{"split":[{"version":1,"weight":90},{"version":2,"weight":10}]}`)
	r.manage(t, http.MethodPut, "/v1/presets/mail/labels/staging", `{"version":1}`)
	r.manage(t, http.MethodPatch, "/v1/presets/mail", `{"description":"Newsletter","policy":{"lock":["model"]}}`)
	before := r.versions(t, "default", "split")

	// dump, apply, dump
	r.preset(t, 0, "dump")
	dumped := tree(t, filepath.Join(r.folder, "presets"))
	for _, name := range []string{"default/mail.yaml", "default/mail.md", "default/chat.yaml", "default/claude.yaml", "default/bare.yaml", "default/split.yaml"} {
		if dumped[name] == "" {
			t.Errorf("dump: there is no %s", name)
		}
	}
	if !strings.Contains(dumped["default/mail.yaml"], "temperature: 0.70\n") || !strings.HasPrefix(dumped["default/mail.yaml"], "# yaml-language-server: $schema=") {
		t.Errorf("dump: got\n%s", dumped["default/mail.yaml"])
	}
	r.wantPlan(t, nil)
	r.commit(t)
	r.preset(t, 0, "apply", "--yes")
	r.preset(t, 0, "dump")
	if status := r.git(t, "status", "--porcelain"); status != "" {
		t.Errorf("dump, apply, dump changed files:\n%s", status)
	}
	if after := r.versions(t, "default", "split"); len(after) != len(before) {
		t.Errorf("apply of equal files: got %d versions, want %d", len(after), len(before))
	}
	if s := r.shape(t, "default", "mail"); s.ManagedBy != "files" {
		t.Errorf("apply did not adopt: %+v", s)
	}

	// edit, plan, apply
	r.write(t, "default/mail.md", "Write short mails.\nBe brief.\n\n")
	r.edit(t, "default/mail.yaml", "temperature: 0.70", "temperature: 0.2 # cooler")
	r.edit(t, "default/mail.yaml", "staging: 1", "staging: latest")
	r.write(t, "team/new.yaml", "description: New\nstatus: disabled\nresponses:\n  model: acme/new\n")
	changes := r.wantPlan(t, []string{"change mail", "create new"})
	for _, c := range changes {
		if c.Slug == "mail" && (len(c.Settings) != 1 || c.Settings[0]["path"] != "/temperature" || c.Prompt == nil || !strings.Contains(*c.Prompt, "+Be brief.")) {
			t.Errorf("plan: got %+v", c)
		}
	}
	revision := r.commit(t)
	r.preset(t, 0, "apply", "--yes", "--message", revision)
	r.wantPlan(t, nil)
	mail := r.versions(t, "default", "mail")
	if len(mail) != 2 || mail[1].SystemPrompt != "Write short mails.\nBe brief.\n" || !mail[1].Designated || !strings.HasPrefix(mail[1].Message, revision) {
		t.Errorf("apply: got versions %+v, want the second with revision %s", mail, revision)
	}
	if s := r.shape(t, "team", "new"); s.Status != "disabled" || s.Description != "New" || s.ManagedBy != "files" {
		t.Errorf("apply: got %+v", s)
	}
	r.preset(t, 0, "dump")
	if status := r.git(t, "status", "--porcelain"); status != "" {
		t.Errorf("a dump after apply changed files, or lost a comment:\n%s", status)
	}

	// drift: refused without an override, shown and undone after one
	if status, text := r.send(t, http.MethodPost, "/v1/presets/mail/responses", managementKey, `{"model":"acme/hacked"}`); status != http.StatusConflict || !strings.Contains(text, "files") {
		t.Errorf("a change by hand: got %d %s, want a 409 that names the owner", status, text)
	}
	if status, text := r.send(t, http.MethodPost, "/v1/presets/mail/responses", managementKey, `{"model":"acme/fixed","temperature":0.2}`, "X-Preset-Override", "files"); status != http.StatusOK {
		t.Fatalf("override: got %d %s", status, text)
	}
	r.wantPlan(t, []string{"change mail drift"})
	out, _ := r.preset(t, 2, "plan")
	if !strings.Contains(out, "mail") || !strings.Contains(strings.ToLower(out), "drift") {
		t.Errorf("plan does not show the drift:\n%s", out)
	}
	r.preset(t, 0, "apply", "--yes", "--message", "undo the override")
	if mail = r.versions(t, "default", "mail"); len(mail) != 4 || mail[3].Message != "undo the override" {
		t.Errorf("apply after drift: got %+v", mail)
	}
	r.wantPlan(t, nil)

	// a roll-back by hand is drift, and apply goes forward without another version
	if status, text := r.send(t, http.MethodPost, "/v1/presets/mail/designate", managementKey, `{"version":1}`, "X-Preset-Override", "files"); status != http.StatusOK {
		t.Fatalf("designate: got %d %s", status, text)
	}
	r.wantPlan(t, []string{"change mail drift"})
	r.preset(t, 0, "apply", "--yes")
	if again := r.versions(t, "default", "mail"); len(again) != 4 || r.shape(t, "default", "mail").Designated != 4 {
		t.Errorf("apply after a roll-back: got %+v, want version 4 designated", again)
	}

	// a rename is a new preset and, with --prune, an archived one
	r.write(t, "default/bare.yaml", "")
	r.write(t, "default/renamed.yaml", "responses:\n  model: acme/small\n")
	r.wantPlan(t, []string{"create renamed"})
	r.manage(t, http.MethodPost, "/v1/presets/by-hand/responses", `{"model":"acme/mine"}`)
	r.wantPlan(t, []string{"create renamed", "archive bare"}, "--prune")
	r.preset(t, 0, "apply", "--yes", "--prune")
	if status, _ := r.send(t, http.MethodGet, "/v1/presets/bare", managementKey, ""); status != http.StatusNotFound {
		t.Errorf("the pruned preset: got %d, want 404", status)
	}
	if s := r.shape(t, "default", "by-hand"); s.ManagedBy != "" || s.Status != "active" {
		t.Errorf("prune touched a preset that nobody owns: %+v", s)
	}
	r.git(t, "checkout", "-q", "--", ".") // the old file is back, the new one stays untracked
	r.wantPlan(t, []string{"restore bare"})
	r.preset(t, 0, "apply", "--yes")
	if bare := r.versions(t, "default", "bare"); len(bare) != 1 {
		t.Errorf("restored: got %d versions, want 1", len(bare))
	}

	// another owner
	r.preset(t, 1, "plan", "--owner", "others")
	_, errs := r.preset(t, 1, "apply", "--yes", "--owner", "others")
	if !strings.Contains(errs, "files") {
		t.Errorf("apply by another owner does not name the owner:\n%s", errs)
	}
	r.preset(t, 0, "release", "claude")
	if s := r.shape(t, "default", "claude"); s.ManagedBy != "" {
		t.Errorf("release: got %+v", s)
	}

	// an edit between plan and apply is a conflict
	r.write(t, "default/renamed.yaml", "responses:\n  model: acme/edited\n")
	edited := false
	proxy := r.proxy(t, func(request *http.Request) {
		if request.Method == http.MethodPost && !edited {
			edited = true
			if status, text := r.send(t, http.MethodPost, "/v1/presets/renamed/responses", managementKey, `{"model":"acme/concurrent"}`, "X-Preset-Override", "files"); status != http.StatusOK {
				t.Errorf("the concurrent edit: got %d %s", status, text)
			}
		}
	}, nil)
	direct := r.origin
	r.origin = proxy
	_, errs = r.preset(t, 1, "apply", "--yes")
	r.origin = direct
	if !strings.Contains(errs, "renamed") {
		t.Errorf("the conflict does not name the preset:\n%s", errs)
	}
	if renamed := r.versions(t, "default", "renamed"); len(renamed) != 2 || renamed[1].Config["model"] != "acme/concurrent" {
		t.Errorf("a concurrent edit was overwritten: %+v", renamed)
	}
	r.wantPlan(t, []string{"change renamed drift"})
	r.preset(t, 0, "apply", "--yes")
	r.wantPlan(t, nil)

	// a file that is broken, and one with a key
	r.write(t, "default/broken.yaml", "responses:\n  model: acme/small\n  temperature: hot\n")
	_, errs = r.preset(t, 1, "plan", "--server", "http://127.0.0.1:1")
	if !strings.Contains(errs, "default/broken.yaml:3:") || !strings.Contains(errs, "/responses/temperature") {
		t.Errorf("a broken file: got %s", errs)
	}
	r.write(t, "default/broken.yaml", "responses:\n  model: acme/small\n  instructions: sk-ant-api03-0123456789abcdefghijkl\n")
	if _, errs = r.preset(t, 1, "apply", "--yes"); strings.Contains(errs, "0123456789abcdef") || !strings.Contains(errs, "broken.yaml:3:") {
		t.Errorf("a key in a file: got %s", errs)
	}
}

// proxy returns the origin of a proxy in front of the server. It calls before with each
// request, and then after with the answer. A nil function is not called.
func (r *repository) proxy(t *testing.T, before func(*http.Request), after func(*http.Response) error) string {
	t.Helper()
	target, err := url.Parse(r.site)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: after,
		ErrorLog:       log.New(io.Discard, "", 0), // of clients that were killed
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if before != nil {
			before(request)
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // or an early answer ends the request's body
		forward.ServeHTTP(w, request)
	}))
	t.Cleanup(front.Close)
	return front.URL
}
