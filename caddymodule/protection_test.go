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
}

// TestProtectionMatrix sends every change of a protected preset and label with every kind of
// key that may change presets.
func TestProtectionMatrix(t *testing.T) {
	s := start(t, standard+"\npreset_creators any")
	f := &fixtures{s: s}
	for _, who := range []struct {
		name, key           string
		right, isManagement bool
	}{
		{"configured", managementSecret, true, true},
		{"issued", s.issue(`{"kind":"management"}`).secret, false, true},
		{"issued with the right", s.issue(`{"kind":"management","may":["protected-labels"]}`).secret, true, true},
		{"of one workspace", s.issue(`{"kind":"management","only_workspace":true}`).secret, false, true},
		{"of one workspace with the right", s.issue(`{"kind":"management","only_workspace":true,"may":["protected-labels"]}`).secret, true, true},
		{"inference", s.issue(`{"kind":"inference"}`).secret, false, false},
		{"configured inference", inferenceSecret, false, false},
	} {
		if strings.HasPrefix(who.name, "of one workspace") && !tier.EveryCase() {
			continue
		}
		for _, op := range guardedOperations {
			creates := strings.Contains(op.body, "top_k") && !strings.Contains(op.path, "label=")
			if !who.isManagement && !creates {
				continue // the other matrix has these
			}
			t.Run(fmt.Sprintf("%s %s %s by %s", op.method, op.path, op.body, who.name), func(t *testing.T) {
				slug := f.preset(false)
				s.manage("PUT", "/v1/presets/"+slug+"/labels/one", `{"version":1,"protected":true}`).want(t, 200, `"protected":true`)
				s.manage("PATCH", "/v1/presets/"+slug, `{"protected":true}`).want(t, 200, `"protected":true`)
				if op.archived {
					s.manage("DELETE", "/v1/presets/"+slug, "").want(t, 200)
				}
				before := s.changesRecorded()
				got := s.do(op.method, "/v1/"+f.fill(op.path, slug, ""), f.fill(op.body, slug, ""), bearer(who.key))
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
	issued := bearer(s.issue(`{"kind":"management"}`).secret)
	s.do("PATCH", "/v1/presets/"+slug, `{"protected":true}`, issued).wantError(t, 403, "Preset is protected: this needs a key with the right protected-labels")
	s.do("PATCH", "/v1/presets/"+slug, `{"protected":false}`, issued).want(t, 200, `"protected":false`)
	s.do("PATCH", "/v1/presets/"+slug, `{"protected":null}`, issued).wantError(t, 400, "")
	s.do("PUT", "/v1/presets/"+slug+"/labels/one", `{"version":1,"protected":1}`, issued).wantError(t, 400, "")
}

// TestRightsAreTold compares X-Preset-Rights with what the keys may do.
func TestRightsAreTold(t *testing.T) {
	s := start(t, standard)
	for _, test := range []struct{ name, key, want string }{
		{"configured", managementSecret, "protected-labels, workspaces"},
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
