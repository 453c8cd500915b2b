package plan_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// startKeeping starts a server that keeps some versions of each preset.
func startKeeping(t *testing.T, count int) *server {
	t.Helper()
	return &server{caddytest.Start(t, fmt.Sprintf("%s\nkeep_versions %d", caddytest.Standard, count)), t.TempDir()}
}

// TestLabelledVersionsStay applies labels of versions that the new version would remove.
func TestLabelledVersionsStay(t *testing.T) {
	const on = "X-Preset-Owner: files"
	for _, tc := range []struct {
		name   string
		before []string // requests beside four versions, of which 2 to 4 are there
		labels string   // of the file
		want   string   // the labels afterwards
	}{
		{"a new label", nil, "{l: 2}", `{"l":{"version":2}}`},
		{"a version that was designated", []string{"POST designate {\"version\":2}"}, "{l: 2}", `{"l":{"version":2}}`},
		{"a label that moves", []string{"PUT labels/l {\"version\":3}"}, "{l: 2}", `{"l":{"version":2}}`},
		{"a label that moves on", []string{"PUT labels/a {\"version\":2}"}, "{a: latest, l: 2}", `{"a":{"version":5},"l":{"version":2}}`},
		{"another name", []string{"PUT labels/a {\"version\":2}"}, "{l: 2}", `{"l":{"version":2}}`},
		{"a split of old versions", nil, "{l: {split: [{version: 2, weight: 9}, {version: 4, weight: 1}]}}", `{"l":{"split":[{"version":2,"weight":9},{"version":4,"weight":1}]}}`},
		{"several labels", []string{"PUT labels/gone {\"version\":4}"}, "{a: 2, b: 3, c: latest}", `{"a":{"version":2},"b":{"version":3},"c":{"version":5}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startKeeping(t, 3)
			for n := range 4 {
				s.Manage("POST", "/v1/presets/p/chat/completions", fmt.Sprintf(`{"model":"m%d"}`, n+1), on).Want(t, 200)
			}
			for _, request := range tc.before {
				method, rest, _ := strings.Cut(request, " ")
				path, body, _ := strings.Cut(rest, " ")
				s.Manage(method, "/v1/presets/p/"+path, body, on).Want(t, 200)
			}
			s.write(map[string]string{"default/p.yaml": "labels: " + tc.labels + "\nchat: {model: new}\n"})
			s.apply(plan.Options{})
			s.Manage("GET", "/v1/presets/p/versions/2", "").Want(t, 200)
			s.Manage("GET", "/v1/presets/p", "").Want(t, 200, `"labels":`+tc.want, `"designated_version_number":5`)
		})
	}
}

// TestLabelledSeriesStays makes a series whose first versions have labels, where only the last
// version would stay.
func TestLabelledSeriesStays(t *testing.T) {
	s := startKeeping(t, 1)
	s.write(map[string]string{"default/p.yaml": `
labels: {one: 1, two: 2, both: {split: [{version: 1, weight: 1}, {version: 2, weight: 1}]}}
earlier: [{chat: {model: m1}}, {chat: {model: m2}}, {chat: {model: m3}}]
chat: {model: m4}
`})
	s.apply(plan.Options{})
	s.Manage("GET", "/v1/presets/p", "").Want(t, 200, `"designated_version_number":4`)
}

// TestCutOffSeriesGoesOn cuts off a series at each of its versions, where old versions are
// removed. The next run makes the others.
func TestCutOffSeriesGoesOn(t *testing.T) {
	for at := 2; at <= 6; at++ {
		t.Run(fmt.Sprintf("at version %d", at), func(t *testing.T) {
			s := startKeeping(t, 2)
			s.write(map[string]string{"default/p.yaml": `
labels: {old: 5}
earlier: [{chat: {model: m1}}, {chat: {model: m2}}, {chat: {model: m3}}, {chat: {model: m4}}, {chat: {model: m5}}]
chat: {model: m6}
`})
			posts := 0
			s.applyWithFailure(s.planThrough(func(through http.RoundTripper, r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					posts++
				}
				if posts >= at {
					return forbidden()
				}
				return through.RoundTrip(r)
			}))
			s.apply(plan.Options{})
			s.Manage("GET", "/v1/presets/p", "").Want(t, 200, `"designated_version_number":6`, `"labels":{"old":{"version":5}}`, `"config":{"model":"m6"}`)
			s.Manage("GET", "/v1/presets/p/versions/5", "").Want(t, 200, `"config":{"model":"m5"}`)
		})
	}
}

// TestAllLabelsReplaced replaces labels of a preset that has as many as it can.
func TestAllLabelsReplaced(t *testing.T) {
	s := startKeeping(t, 3)
	labels := func(prefix string) string {
		var all []string
		for n := range 64 {
			all = append(all, fmt.Sprintf("%s%d: 1", prefix, n))
		}
		return "labels: {" + strings.Join(all, ", ") + "}\n"
	}
	s.write(map[string]string{"default/p.yaml": labels("a") + "chat: {model: m1}\n"})
	s.apply(plan.Options{})
	s.write(map[string]string{"default/p.yaml": labels("b") + "chat: {model: m2}\n"})
	s.apply(plan.Options{})
}

// TestLabelsBeforeVersionConflict changes a preset before and after its first label is set. The
// change stays, and no version is made.
func TestLabelsBeforeVersionConflict(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, body string
		after              bool // after the label
		labels             string
	}{
		"a description, before":  {"PATCH", "", `{"description":"theirs"}`, false, `{}`},
		"a draft, before":        {"POST", "/chat/completions?designate=false", `{"model":"theirs"}`, false, `{}`},
		"a description, after":   {"PATCH", "", `{"description":"theirs"}`, true, `{"a":{"version":1}}`},
		"a draft, after":         {"POST", "/chat/completions?designate=false", `{"model":"theirs"}`, true, `{"a":{"version":1}}`},
		"the label, after":       {"PUT", "/labels/a", `{"split":[{"version":1,"weight":7}]}`, true, `{"a":{"split":[{"version":1,"weight":7}]}}`},
		"another label, after":   {"PUT", "/labels/b", `{"version":1}`, true, `{"a":{"version":1},"b":{"version":1}}`},
		"the label goes, after":  {"DELETE", "/labels/a", "", true, `{}`},
		"the version is another": {"POST", "/chat/completions", `{"model":"theirs"}`, true, `{"a":{"version":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.write(map[string]string{"default/p.yaml": "chat: {model: m}\n"})
			s.apply(plan.Options{})
			s.write(map[string]string{"default/p.yaml": "labels: {a: 1, c: latest}\nchat: {model: mine}\n"})
			theirs := func() { s.Manage(tc.method, "/v1/presets/p"+tc.path, tc.body, "X-Preset-Override: files").Want(t, 200) }
			p := s.planThrough(func(through http.RoundTripper, r *http.Request) (*http.Response, error) {
				response, err := through.RoundTrip(r)
				if tc.after && r.Method == http.MethodPut {
					theirs()
				}
				return response, err
			})
			if !tc.after {
				theirs()
			}
			if failed := s.applyWithFailure(p); !failed.Conflict {
				t.Errorf("got %+v, want a conflict", failed)
			}
			r := s.Manage("GET", "/v1/presets/p", "")
			if r.Want(t, 200, `"labels":`+tc.labels); strings.Contains(r.Body, "mine") {
				t.Errorf("got %s, want no new version", r.Body)
			}
		})
	}
}
