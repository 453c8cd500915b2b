package plan_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestConflicts changes each kind of object between a plan and its application. Only that
// object is a conflict, and it keeps the other's change.
func TestConflicts(t *testing.T) {
	const override = "X-Preset-Override: files"
	for _, tc := range []struct {
		name    string
		before  string // the file that is applied first, empty for none
		file    string
		between []string // the request of somebody else
		keeps   string   // a part of the preset afterwards
	}{
		{"a new preset", "", "chat: {model: mine}\n", []string{"POST", "/v1/presets/p/chat/completions", `{"model":"theirs"}`}, `"model":"theirs"`},
		{"a new version", "chat: {model: m}\n", "chat: {model: mine}\n", []string{"POST", "/v1/presets/p/chat/completions", `{"model":"theirs"}`, override}, `"model":"theirs"`},
		{"a draft", "chat: {model: m}\n", "chat: {model: mine}\n", []string{"POST", "/v1/presets/p/chat/completions?designate=false", `{"model":"theirs"}`, override}, `"model":"m"`},
		{"a description", "chat: {model: m}\n", "description: mine\nchat: {model: m}\n", []string{"PATCH", "/v1/presets/p", `{"description":"theirs"}`, override}, `"description":"theirs"`},
		{"a label", "labels: {l: latest}\nchat: {model: m}\n", "labels: {l: {split: [{version: 1, weight: 1}]}}\nchat: {model: m}\n", []string{"PUT", "/v1/presets/p/labels/l", `{"split":[{"version":1,"weight":7}]}`, override}, `"weight":7`},
		{"a new label", "chat: {model: m}\n", "labels: {l: 1}\nchat: {model: m}\n", []string{"PUT", "/v1/presets/p/labels/l", `{"split":[{"version":1,"weight":7}]}`, override}, `"weight":7`},
		{"a removed label", "labels: {l: latest}\nchat: {model: m}\n", "chat: {model: m}\n", []string{"PUT", "/v1/presets/p/labels/l", `{"split":[{"version":1,"weight":7}]}`, override}, `"weight":7`},
		{"archived", "chat: {model: m}\n", "chat: {model: mine}\n", []string{"DELETE", "/v1/presets/p", "", override}, `Preset not found`},
		{"another owner", "", "chat: {model: mine}\n", []string{"POST", "/v1/presets/p/chat/completions", `{"model":"theirs"}`, "X-Preset-Owner: others"}, `"managed_by":"others"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t)
			if tc.before != "" {
				s.write(map[string]string{"default/p.yaml": tc.before})
				s.apply(plan.Options{})
			}
			s.write(map[string]string{"default/p.yaml": tc.file, "default/q.yaml": "chat: {model: q}\n"})
			p := s.plan(plan.Options{})
			s.Manage(tc.between[0], tc.between[1], tc.between[2], tc.between[3:]...).Want(t, 200)
			result, err := p.Apply(t.Context(), "")
			if err != nil || result.Done != 1 || len(result.Failed) != 1 || !result.Failed[0].Conflict || result.Failed[0].Slug != "p" {
				t.Errorf("got %+v, %v, want one conflict", result, err)
			}
			if r := s.Manage("GET", "/v1/presets/p", ""); !strings.Contains(r.Body, tc.keeps) || strings.Contains(r.Body, `"mine"`) {
				t.Errorf("the preset is %s, want it to have %s", r.Body, tc.keeps)
			}
			s.Manage("GET", "/v1/presets/q", "").Want(t, 200)
		})
	}
}

// planAfter plans the folder. It calls change after the first GET of the preset p.
func (s *server) planAfter(change func()) *plan.Plan {
	s.T.Helper()
	p, err := s.tryPlanAfter(change)
	if err != nil {
		s.T.Fatal(err)
	}
	return p
}

func (s *server) tryPlanAfter(change func()) (*plan.Plan, error) {
	var once sync.Once
	return s.tryPlanThrough(func(through http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := through.RoundTrip(r)
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/presets/p") {
			once.Do(change)
		}
		return response, err
	})
}

// threeVersions is a file that makes three versions.
const threeVersions = "labels: {l: 1}\nearlier: [{chat: {model: m1}}, {chat: {model: m2}}]\nchat: {model: m}\n"

// TestLabelMovedInPlan changes a label between two reads of a plan, which is not made then.
func TestLabelMovedInPlan(t *testing.T) {
	const moved, none = "labels: {l: 2}\nchat: {model: m}\n", "chat: {model: m}\n"
	for _, tc := range []struct{ name, file, method, body string }{
		{"moved and removed", moved, "DELETE", ""}, {"moved twice", moved, "PUT", `{"version":3}`},
		{"removed and moved", none, "PUT", `{"version":3}`}, {"removed twice", none, "DELETE", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t)
			s.write(map[string]string{"default/p.yaml": threeVersions})
			s.apply(plan.Options{})
			s.write(map[string]string{"default/p.yaml": tc.file})
			_, err := s.tryPlanAfter(func() {
				s.Manage(tc.method, "/v1/presets/p/labels/l", tc.body, "X-Preset-Override: files").Want(t, 200)
			})
			if err == nil || !strings.Contains(err.Error(), "preset p in workspace default: label l changes while it is read: plan again") {
				t.Errorf("got %v", err)
			}
			s.apply(plan.Options{})
		})
	}
}

// TestArchivedInPlan archives a preset between two reads of a plan, which then restores it.
func TestArchivedInPlan(t *testing.T) {
	for name, file := range map[string]string{
		"a label": "labels: {l: 2}\nchat: {model: m}\n", "a removed label": "chat: {model: m}\n", "a version": "labels: {l: 1}\nchat: {model: m4}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.write(map[string]string{"default/p.yaml": threeVersions})
			s.apply(plan.Options{})
			s.write(map[string]string{"default/p.yaml": file})
			p := s.planAfter(func() { s.Manage("DELETE", "/v1/presets/p", "", "X-Preset-Override: files").Want(t, 200) })
			if got := actions(p); got != "restore default/p drift" {
				t.Errorf("got plan %q", got)
			}
			if result, err := p.Apply(t.Context(), ""); err != nil || result.Done != 1 {
				t.Errorf("got %+v, %v", result, err)
			}
			s.apply(plan.Options{})
		})
	}
}

// archive makes an archived preset p of two versions, of which the label l names one.
func (s *server) archive(version int) {
	s.T.Helper()
	const on = "X-Preset-Owner: files"
	s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"m1"}`, on).Want(s.T, 200)
	s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"m2"}`, on).Want(s.T, 200)
	s.Manage("PUT", "/v1/presets/p/labels/l", fmt.Sprintf(`{"version":%d}`, version), on).Want(s.T, 200)
	s.Manage("DELETE", "/v1/presets/p", "", on).Want(s.T, 200)
}

// TestLabelsOfRestore plans labels of an archived preset.
func TestLabelsOfRestore(t *testing.T) {
	for _, tc := range []struct{ name, labels, want string }{
		{"the same", "{l: 1}", `"labels":[]`},
		{"moved", "{l: 2}", `"labels":[{"label":"l","from":{"version":1},"to":{"version":2}}]`},
		{"another", "{new: latest}", `"labels":[{"label":"l","from":{"version":1},"to":null},{"label":"new","from":null,"to":{"version":"latest"}}]`},
		{"the next version", "{l: 1, new: 3}", `"labels":[{"label":"new","from":null,"to":{"version":3}}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t)
			s.archive(1)
			s.write(map[string]string{"default/p.yaml": "labels: " + tc.labels + "\nchat: {model: m3}\n"})
			p := s.plan(plan.Options{})
			if text := describe(p); !strings.Contains(text, tc.want) {
				t.Errorf("got %s, want a part %s", text, tc.want)
			}
			s.apply(plan.Options{})
		})
	}
}

// TestRestoreThatFails restores a preset, and finds only then that a version was removed. The
// preset is archived again.
func TestRestoreThatFails(t *testing.T) {
	s := startKeeping(t, 1)
	s.archive(2) // version 1 is gone
	s.write(map[string]string{"default/p.yaml": "labels: {l: 1}\nchat: {model: m3}\n"})
	if failed := s.applyWithFailure(s.plan(plan.Options{})); failed.Message != "label l: the preset has no version 1: the preset stays archived" {
		t.Errorf("got %+v", failed)
	}
	s.Manage("GET", "/v1/presets/p", "").Want(t, 404)
}

// TestConflictOfRestore restores an archived preset between a plan and its application.
func TestConflictOfRestore(t *testing.T) {
	s := start(t)
	s.write(map[string]string{"default/p.yaml": "chat: {model: m}\n"})
	s.apply(plan.Options{})
	s.Manage("DELETE", "/v1/presets/p", "", "X-Preset-Override: files").Want(t, 200)
	s.write(map[string]string{"default/p.yaml": "chat: {model: mine}\n"})
	p := s.plan(plan.Options{})
	s.Manage("POST", "/v1/presets/p/restore", "", "X-Preset-Override: files").Want(t, 200)
	if failed := s.applyWithFailure(p); !failed.Conflict || s.versions("default", "p") != 1 {
		t.Errorf("got %+v and %d versions, want a conflict and 1", failed, s.versions("default", "p"))
	}
	s.apply(plan.Options{})
}

// TestPruneConflict changes a preset between the plan to archive it and its application.
func TestPruneConflict(t *testing.T) {
	s := start(t)
	s.write(map[string]string{"default/p.yaml": "chat: {model: m}\n", "default/q.yaml": "chat: {model: m}\n"})
	s.apply(plan.Options{})
	s.write(map[string]string{"default/p.yaml": ""})
	p := s.plan(plan.Options{Prune: true})
	s.Manage("PATCH", "/v1/presets/p", `{"description":"needed"}`, "X-Preset-Override: files").Want(t, 200)
	if failed := s.applyWithFailure(p); !failed.Conflict {
		t.Errorf("got %+v, want a conflict", failed)
	}
	s.Manage("GET", "/v1/presets/p", "").Want(t, 200)
}

// TestWorkspaceConflict makes and changes workspaces between a plan and its application.
func TestWorkspaceConflict(t *testing.T) {
	s := start(t)
	s.write(map[string]string{
		"default/.workspace.yaml": "description: mine\n", "team/.workspace.yaml": "description: mine\n", "team/p.yaml": "chat: {model: m}\n",
	})
	p := s.plan(plan.Options{})
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.Manage("PATCH", "/v1/workspaces/default", `{"description":"theirs"}`).Want(t, 200)
	result, err := p.Apply(t.Context(), "")
	if err != nil || result.Done != 0 || len(result.Failed) != 3 {
		t.Errorf("got %+v, %v, want both workspaces and the preset to fail", result, err)
	}
	for _, f := range result.Failed {
		if !f.Conflict {
			t.Errorf("got %+v, want a conflict", f)
		}
	}
	s.Manage("GET", "/v1/workspaces/default", "").Want(t, 200, `"description":"theirs"`)
	s.apply(plan.Options{})
	s.Manage("GET", "/v1/presets/p?workspace_id=team", "").Want(t, 200)
}

// TestProblems checks what a plan cannot bring to what its files say. Such a plan is not
// applied.
func TestProblems(t *testing.T) {
	s := start(t)
	s.Manage("POST", "/v1/presets/foreign/chat/completions", `{"model":"m"}`, "X-Preset-Owner: others").Want(t, 200)
	s.Manage("POST", "/v1/presets/archived/chat/completions", `{"model":"m"}`, "X-Preset-Owner: others").Want(t, 200)
	s.Manage("DELETE", "/v1/presets/archived", "", "X-Preset-Owner: others").Want(t, 200)
	for _, slug := range []string{"disabled", "labelled", "split"} {
		s.Manage("POST", "/v1/presets/"+slug+"/chat/completions", `{"model":"m"}`).Want(t, 200)
	}
	s.Manage("PATCH", "/v1/presets/disabled", `{"status":"disabled"}`).Want(t, 200)
	s.write(map[string]string{
		"default/archived.yaml": "chat: {model: m}\n",
		"default/disabled.yaml": "status: disabled\nchat: {model: mine}\n",
		"default/foreign.yaml":  "chat: {model: m}\n",
		"default/labelled.yaml": "labels: {l: 7}\nchat: {model: m}\n",
		"default/new.yaml":      "labels: {l: 2}\nchat: {model: m}\n",
		"default/split.yaml":    "labels: {l: {split: [{version: 1, weight: 1}, {version: latest, weight: 1}]}}\nchat: {model: m}\n",
		"default/fine.yaml":     "chat: {model: m}\n",
	})
	p := s.plan(plan.Options{})
	if got, want := actions(p), "create default/fine, error default/archived, error default/disabled, error default/foreign, error default/labelled, error default/new, error default/split"; got != want {
		t.Errorf("got plan %q, want %q", got, want)
	}
	for i, want := range []string{
		"is managed by others and not by files", "is disabled, and only an active preset takes a new version", "is managed by others",
		"label l: the preset has no version 7", "label l: a new preset has no version 2: say latest", "label l: the split has version 1 twice",
	} {
		if got := p.Errors[i].Message; !strings.Contains(got, want) {
			t.Errorf("got problem %q, want %q", got, want)
		}
	}
	if _, err := p.Apply(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "the plan has errors") {
		t.Errorf("got error %v", err)
	}
	s.Manage("GET", "/v1/presets/fine", "").Want(t, 404)
}

// TestPrune archives presets of the owner in all workspaces, and no others.
func TestPrune(t *testing.T) {
	s := start(t)
	s.write(map[string]string{
		"default/kept.yaml": "chat: {model: m}\n", "default/gone.yaml": "chat: {model: m}\n",
		"default/off.yaml": "status: disabled\nchat: {model: m}\n", "team/gone.yaml": "chat: {model: m}\n",
	})
	s.apply(plan.Options{})
	s.Manage("POST", "/v1/presets/nobody/chat/completions", `{"model":"m"}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/foreign/chat/completions", `{"model":"m"}`, "X-Preset-Owner: others").Want(t, 200)
	s.write(map[string]string{"default/gone.yaml": "", "default/off.yaml": "", "team/gone.yaml": ""})
	if got := actions(s.plan(plan.Options{})); got != "note default/" {
		t.Errorf("without prune the plan is %q", got)
	}
	p := s.plan(plan.Options{Prune: true})
	if got, want := actions(p), "archive default/gone, archive team/gone, note default/off"; got != want {
		t.Errorf("got plan %q, want %q", got, want)
	}
	s.apply(plan.Options{Prune: true})
	s.write(map[string]string{"default/kept.yaml": ""})
	_, err := plan.New(t.Context(), s.client(s.transport()), s.read(), plan.Options{Owner: "files", Prune: true})
	if err == nil || !strings.Contains(err.Error(), "pruning would archive all") {
		t.Errorf("pruning without a file: got %v, want an error", err)
	}
}

// TestTwoOwners applies two folders to one server. Each leaves the other's presets alone.
// TestPruneHeld checks that the old presets stay if those in their place cannot be made.
func TestPruneHeld(t *testing.T) {
	s := start(t)
	const mail = "responses: {model: m}\n"
	s.write(map[string]string{"default/mail.yaml": mail, "default/note.yaml": mail})
	s.apply(plan.Options{})
	s.write(map[string]string{"default/mail.yaml": "", "default/note.yaml": "", "prod/mail.yaml": mail, "prod/note.yaml": mail})
	p := s.plan(plan.Options{Prune: true})
	if got, want := actions(p), "create prod, archive default/mail, archive default/note, create prod/mail, create prod/note"; got != want {
		t.Fatalf("plan: %s, want %s", got, want)
	}
	s.Manage("POST", "/v1/workspaces", `{"name": "Another", "slug": "prod"}`) // so that prod cannot be created
	result, err := p.Apply(t.Context(), "")
	if err != nil || result.Done != 0 || len(result.Failed) != 5 {
		t.Fatalf("apply: %v, done: %d, failed: %+v", err, result.Done, result.Failed)
	}
	for _, slug := range []string{"mail", "note"} {
		if r := s.Manage("GET", "/v1/presets/"+slug, ""); r.Status != 200 {
			t.Errorf("GET %s: %d %s, want a preset that is not archived", slug, r.Status, r.Body)
		}
	}
	if s.apply(plan.Options{Prune: true}); s.Manage("GET", "/v1/presets/mail", "").Status != 404 {
		t.Error("the old preset is not archived after the new one was made")
	}
}

func TestTwoOwners(t *testing.T) {
	s := start(t)
	mine, theirs := s.dir, t.TempDir()
	s.write(map[string]string{"default/a.yaml": "chat: {model: m}\n"})
	s.apply(plan.Options{Owner: "team-a", Prune: true})
	s.dir = theirs
	s.write(map[string]string{"default/b.yaml": "chat: {model: m}\n"})
	s.apply(plan.Options{Owner: "team/b", Prune: true})
	s.dir = mine
	if got := actions(s.plan(plan.Options{Owner: "team-a", Prune: true})); got != "" {
		t.Errorf("got plan %q, want nothing", got)
	}
	s.write(map[string]string{"default/b.yaml": "chat: {model: m}\n"})
	if got := actions(s.plan(plan.Options{Owner: "team-a"})); got != "error default/b" {
		t.Errorf("got plan %q, want an error", got)
	}
	if _, err := plan.New(t.Context(), s.client(s.transport()), s.read(), plan.Options{Owner: "Nobody!"}); err == nil {
		t.Error("a name that is no owner is accepted")
	}
}

// TestSeries makes versions of a series that others have used meanwhile.
func TestSeries(t *testing.T) {
	s := start(t)
	const file = "earlier:\n  - chat: {model: m1}\n  - chat: {model: m2}\nchat: {model: m3}\n"
	s.write(map[string]string{"default/used.yaml": file, "default/other.yaml": file, "default/new.yaml": file})
	for _, model := range []string{"m1", "mine"} {
		s.Manage("POST", "/v1/presets/used/chat/completions", fmt.Sprintf(`{"model":%q}`, model)).Want(t, 200)
	}
	s.Manage("POST", "/v1/presets/other/chat/completions", `{"model":"mine"}`).Want(t, 200)
	var mu sync.Mutex
	drafts := 0
	p := s.planThrough(func(through http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("designate") == "false" {
			mu.Lock()
			drafts++
			mu.Unlock()
		}
		return through.RoundTrip(r)
	})
	if result, err := p.Apply(t.Context(), ""); err != nil || result.Done != 3 {
		t.Fatalf("got %+v, %v", result, err)
	}
	for slug, want := range map[string]int{"used": 3, "other": 2, "new": 3} {
		if got := s.versions("default", slug); got != want {
			t.Errorf("preset %s has %d versions, want %d", slug, got, want)
		}
	}
	if drafts != 1 {
		t.Errorf("%d versions were drafts, want the second of the new preset alone", drafts)
	}
	s.apply(plan.Options{})
}

// TestStopped ends the context while a plan is applied. The request that runs is completed,
// and no other one is sent.
func TestStopped(t *testing.T) {
	s := start(t)
	texts := make(map[string]string)
	for n := range 20 {
		texts[fmt.Sprintf("default/p%d.yaml", n)] = "description: d\nchat: {model: m}\n"
	}
	s.write(texts)
	ctx, cancel := context.WithCancel(t.Context())
	through := s.transport()
	var mu sync.Mutex
	sent, answered := 0, 0
	c := s.client(roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return through.RoundTrip(r)
		}
		mu.Lock()
		sent++
		mu.Unlock()
		cancel()
		response, err := through.RoundTrip(r)
		if err == nil && response.StatusCode == 200 {
			mu.Lock()
			answered++
			mu.Unlock()
		}
		return response, err
	}))
	p, err := plan.New(ctx, c, s.read(), plan.Options{Owner: "files"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := p.Apply(ctx, "")
	if err == nil || result.Done != 0 || len(result.Failed) != 0 || sent == 0 || sent > 8 || answered != sent {
		t.Errorf("got %+v, %v with %d requests and %d answers, want at most 8 requests and as many answers", result, err, sent, answered)
	}
	s.apply(plan.Options{})
}
