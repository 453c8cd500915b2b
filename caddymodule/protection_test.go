package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// guardedOperations are changes of a protected preset with the protected label one, and
// whether they take the right. {p} and {n} are as in a cell. An unprotected preset permits
// all to every management key.
var guardedOperations = []struct {
	method, path, body string
	guarded, archived  bool
}{
	{"PATCH", "presets/{p}", `{"name":"n"}`, true, false},
	{"PATCH", "presets/{p}", `{"status":"disabled"}`, true, false},
	{"PATCH", "presets/{p}", `{"description":"d","protected":true}`, false, false},
	{"PATCH", "presets/{p}", `{"description":"d","protected":false}`, true, false},
	{"PATCH", "presets/{p}", `{}`, false, false},
	{"DELETE", "presets/{p}", ``, true, false},
	{"POST", "presets/{p}/restore", ``, true, true},
	{"POST", "presets/{p}/responses", `{"top_k":{n}}`, true, false},
	{"POST", "presets/{p}/chat/completions", `{"top_k":{n}}`, true, false},
	{"POST", "presets/{p}/messages", `{"top_k":{n}}`, true, false},
	{"POST", "presets/{p}/responses?designate=false", `{"top_k":{n}}`, false, false},
	{"POST", "presets/{p}/messages?designate=false&label=both", `{"top_k":{n}}`, false, false},
	{"POST", "presets/{p}/messages?designate=false&label=one", `{"top_k":{n}}`, true, false},
	{"POST", "presets/{p}/designate", `{"version":1}`, true, false},
	{"POST", "presets/{p}/designate", `{"label":"one"}`, true, false},
	{"POST", "presets/{p}/designate", `{"version":2}`, false, false},
	{"PUT", "presets/{p}/labels/one", `{"version":2}`, true, false},
	{"PUT", "presets/{p}/labels/one", `{"split":[{"version":1,"weight":1},{"version":2,"weight":1}]}`, true, false},
	{"PUT", "presets/{p}/labels/one", `{"version":1}`, false, false},
	{"PUT", "presets/{p}/labels/one", `{"version":1,"protected":true}`, false, false},
	{"PUT", "presets/{p}/labels/one", `{"version":1,"protected":false}`, true, false},
	{"PUT", "presets/{p}/labels/both", `{"version":1}`, false, false},
	{"PUT", "presets/{p}/labels/new", `{"version":1}`, false, false},
	{"PUT", "presets/{p}/labels/new", `{"version":1,"protected":true}`, true, false},
	{"DELETE", "presets/{p}/labels/one", ``, true, false},
	{"DELETE", "presets/{p}/labels/both", ``, false, false},
	{"PATCH", "presets/{p}/inputs/{i}", `{"notes":"n"}`, false, false},
	{"PATCH", "presets/{p}/inputs/{i}", `{}`, false, false},
	{"DELETE", "presets/{p}/inputs/{i}", ``, false, false},
}

// TestProtectionMatrix sends every change of a protected preset and label with a key that has the right,
// and with some that have not.
func TestProtectionMatrix(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard+"\npreset_creators any")
	f := &fixtures{s: s}
	issued := bearer(s.issue(`{"kind":"management"}`).secret)
	for _, who := range []struct {
		key                 string
		right, isManagement bool
	}{
		{issued, false, true},
		{bearer(s.issue(`{"kind":"management","may":["protected-labels"]}`).secret), true, true},
		{bearer(inferenceSecret), false, false},
	} {
		for _, op := range guardedOperations {
			if !who.isManagement && (!strings.Contains(op.body, "top_k") || strings.Contains(op.path, "label=")) {
				continue // the other matrix has these
			}
			t.Run(fmt.Sprintf("%s %s %s with %t", op.method, op.path, op.body, who.right), func(t *testing.T) {
				slug := f.guarded(op.archived)
				before := s.changesRecorded()
				got := s.do(op.method, "/v1/"+f.fill(op.path, slug, ""), f.fill(op.body, slug, ""), who.key)
				if !op.guarded || who.right {
					got.want(t, 200)
					return
				}
				what := "Preset is protected"
				if strings.Contains(op.path, "label") {
					what = "Label is protected"
				}
				got.wantError(t, 403, what+": this needs a key with the right protected-labels")
				if after := s.changesRecorded(); after != before {
					t.Errorf("a refused change left %d records", after-before)
				}
			})
		}
	}
	// Setting the protection takes the right, too.
	slug := f.preset(false)
	s.do("PATCH", "/v1/presets/"+slug, `{"protected":true}`, issued).wantError(t, 403, "Preset is protected: this needs a key with the right protected-labels")
	s.do("PATCH", "/v1/presets/"+slug, `{"protected":false}`, issued).want(t, 200, `"protected":false`)
}

// guarded makes a protected preset with the protected label one and returns its slug.
func (f *fixtures) guarded(archived bool) string {
	f.s.t.Helper()
	slug := f.preset(false)
	path := "/v1/presets/" + slug
	f.s.manage("PUT", path+"/labels/one", `{"version":1,"protected":true}`).want(f.s.t, 200, `"protected":true`)
	f.s.manage("PATCH", path, `{"protected":true}`).want(f.s.t, 200, `"protected":true`)
	if archived {
		f.s.manage("DELETE", path, "").want(f.s.t, 200)
	}
	return slug
}

// TestOwnershipMatrix sends every change of a preset that an owner manages. A change that would change
// nothing is permitted.
func TestOwnershipMatrix(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	f := &fixtures{s: s}
	for _, op := range guardedOperations {
		t.Run(op.method+" "+op.path+" "+op.body, func(t *testing.T) {
			ask := func(slug string, headers ...string) reply {
				return s.manage(op.method, "/v1/"+f.fill(op.path, slug, ""), f.fill(op.body, slug, ""), headers...)
			}
			free, owned := f.guarded(op.archived), f.guarded(false)
			s.manage("PATCH", "/v1/presets/"+owned, `{"managed_by":"files"}`).want(t, 200)
			if op.archived {
				s.manage("DELETE", "/v1/presets/"+owned, "", "X-Preset-Override: files").want(t, 200)
			}
			before := s.changesRecorded()
			ask(free).want(t, 200)
			changes := s.changesRecorded() > before
			before = s.changesRecorded()
			for _, header := range []string{"X-None: 1", "X-Preset-Owner: other", "X-Preset-Override: other"} {
				if got := ask(owned, header); changes {
					got.want(t, 409, "is managed by files: change it there, or send X-Preset-Override: files")
				} else {
					got.want(t, 200)
				}
			}
			if after := s.changesRecorded(); after != before {
				t.Errorf("a refused change left %d records", after-before)
			}
			ask(owned, "X-Preset-Override: files").want(t, 200)
		})
	}
}

// TestRightsAreTold compares X-Preset-Rights with what the keys may do.
func TestRightsAreTold(t *testing.T) {
	s := start(t, standard)
	for _, test := range []struct{ name, key, want string }{
		{"configured", managementSecret, "protected-labels, issue-keys, workspaces"},
		{"issued", s.issue(`{"kind":"management"}`).secret, "workspaces"},
		{"issued with the right", s.issue(`{"kind":"management","may":["protected-labels"]}`).secret, "protected-labels, workspaces"},
		{"of one workspace", s.issue(`{"kind":"management","only_workspace":true}`).secret, ""},
		{"of one workspace with the right", s.issue(`{"kind":"management","only_workspace":true,"may":["protected-labels"]}`).secret, "protected-labels"},
	} {
		got := s.do("GET", "/v1/workspaces", "", bearer(test.key))
		got.want(t, 200)
		if told := got.header.Values("X-Preset-Rights"); len(told) != 1 || told[0] != test.want {
			t.Errorf("%s: got %q, want %q", test.name, told, test.want)
		}
		slug := "of-" + strings.ReplaceAll(test.name, " ", "-")
		created := s.do("POST", "/v1/workspaces", `{"name":"New","slug":"`+slug+`"}`, bearer(test.key)).status == 201
		if want := strings.Contains(test.want, "workspaces"); created != want {
			t.Errorf("%s: got %t, want %t: creates a workspace", test.name, created, want)
		}
	}
}

// TestOwnershipHeaders sends headers that are wrong, and checks what is shown of right ones.
func TestOwnershipHeaders(t *testing.T) {
	s := start(t, standard+"\npreset_creators any")
	post := func(secret string, headers ...string) reply {
		return s.do("POST", "/v1/presets/mail/responses", `{"model":"m"}`, append(headers, bearer(secret))...)
	}
	owner := func(name string) string { return "X-Preset-Owner: " + name }
	post(managementSecret, owner("")).wantError(t, 400, "Invalid request parameters: x-preset-owner: must not be empty")
	post(managementSecret, "X-Preset-Override: ").wantError(t, 400, "Invalid request parameters: x-preset-override: must not be empty")
	post(managementSecret, owner("Files")).wantError(t, 400, "")
	post(inferenceSecret, owner("files")).want(t, 403)
	post(managementSecret, owner("files"), "Idempotency-Key: one").want(t, 200, `"managed_by":"files"`, `"version":1`)
	post(managementSecret, owner("files"), "Idempotency-Key: one").want(t, 200, `"version":1`)
	post(managementSecret, owner("other"), "Idempotency-Key: one").want(t, 422)
	post(managementSecret, owner("files"), "X-Preset-Override: files", "Idempotency-Key: one").want(t, 422)
	post(inferenceSecret).wantError(t, 409, "Preset mail is managed by files: change it there, or send X-Preset-Override: files")
	s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=true", "").want(t, 409)
	post(managementSecret, "X-Preset-Override: files").want(t, 200, `"version":2`)
	s.manage("GET", "/v1/presets/mail/history", "").want(t, 200, `"managed_by":"files","override":"files","request_id"`)
	s.manage("PATCH", "/v1/presets/mail", `{"managed_by":1}`).wantError(t, 400, "Invalid request parameters: /managed_by: must be a string or null")
	s.manage("PATCH", "/v1/presets/mail", `{"managed_by":"no one"}`).want(t, 400)
	s.do("PATCH", "/v1/presets/mail", `{"managed_by":null}`, bearer(managementSecret), owner("files")).want(t, 200, `"managed_by":null`)
	post(inferenceSecret).want(t, 200, `"version":3`)
}
