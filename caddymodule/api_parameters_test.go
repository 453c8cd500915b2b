package caddymodule

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// operations returns the route table by method and path, as the matrix names them.
func operations(t *testing.T) map[string]operation {
	t.Helper()
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]operation)
	for _, op := range new(Handler).routes(schemas) {
		all[op.method+" "+op.path] = op
	}
	return all
}

// withQuery returns a path with another parameter.
func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// TestQueries sends unknown, repeated and malformed parameters to every route.
func TestQueries(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard+"\nkey_api")
	f := &fixtures{s: s}
	active, archived, workspace := f.preset(false), f.preset(true), f.workspace()
	f.hash = f.key()
	ops := operations(t)
	for _, route := range slices.Sorted(maps.Keys(matrix)) {
		op, row := ops[route], matrix[route]
		preset := active
		if row.archived {
			preset = archived
		}
		path := "/v1/" + f.fill(row.exists.path, preset, workspace)
		body := f.fill(row.exists.body, preset, workspace)
		before := s.changesRecorded()
		refused := func(query, issue string) {
			t.Helper()
			r := s.manage(op.method, withQuery(path, query), body)
			if r.status != 400 || !strings.Contains(r.body, `"path":"`+issue) {
				t.Errorf("%s?%s: got %d %s, want 400 and %q", route, query, r.status, r.body, issue)
			}
		}
		const unknown = "lable=canary&designated=false&a%0Ab=1"
		if op.is(changes) {
			refused(unknown, `a%0Ab","message":"is no parameter of this request"},{"path":"designated","message":"is no parameter of this request"},{"path":"lable",`)
		} else if r := s.manage(op.method, withQuery(path, unknown), body); r.status != row.exists.status ||
			r.status < 300 && r.header.Get("X-Preset-Ignored") != "a%0Ab, designated, lable" {
			t.Errorf("%s: got %d with X-Preset-Ignored %q, want %d and the unknown parameters", route, r.status, r.header.Get("X-Preset-Ignored"), row.exists.status)
		}
		refused("a=1;b=2", "query")
		for _, name := range op.parameters() {
			refused(name+"=1&"+name+"=1", name+`","message":"given more than once`)
			if name == "limit" || name == "offset" {
				for _, number := range []string{"01", "00", "%2B1", "1.0", "1e0", "-1", "%201", "0x1", "99999999999999999999"} {
					refused(name+"="+number, name)
				}
			}
		}
		if op.name == "preset_diff" {
			for _, number := range []string{"01", "00", "0", "%2B1", "-1", "%201"} {
				for name, query := range map[string]string{"from": "?from=" + number + "&to=1", "to": "?from=1&to=" + number} {
					r := s.manage(op.method, "/v1/presets/"+preset+"/diff"+query, "")
					if r.status != 400 || !strings.Contains(r.body, `"path":"`+name+`"`) {
						t.Errorf("%s: got %d %s, want 400 and the parameter", query, r.status, r.body)
					}
				}
			}
		}
		if strings.Contains(op.path, "{version}") {
			for _, number := range []string{"01", "0", "+1", "1.0", "1e0", "99999999999999999999"} {
				s.manage(op.method, strings.TrimSuffix(path, "1")+number, body).wantError(t, 400, "Version must be a positive integer")
			}
		}
		if after := s.changesRecorded(); after != before {
			t.Errorf("%s: refused requests made %d changes", route, after-before)
		}
	}
	s.manage("GET", "/v1/presets?limit=&offset=", "").want(t, 200) // as clients send them
	s.manage("GET", "/v1/presets/"+active, "", "If-None-Match: *").want(t, 304)
}

// TestUnknownParametersOfFeedback checks that parameters are named before members.
func TestUnknownParametersOfFeedback(t *testing.T) {
	s := start(t, inferring("usage"))
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).want(t, 200)
	s.ask(responsesPath, `{"model":"@preset/p","session_id":"s"}`).want(t, 202)
	const body = `{"session_id":"s","score":1,"unknwn":1}`
	if !s.eventually(func() bool { return s.manage("POST", "/v1/presets/p/feedback?by=me", body).status == 202 }) {
		t.Fatal("the session gets no feedback")
	}
	if got := s.manage("POST", "/v1/presets/p/feedback?by=me", body).header.Get("X-Preset-Ignored"); got != "by, unknwn" {
		t.Errorf("got X-Preset-Ignored %q, want the parameter and the member", got)
	}
}

// TestBodiesOfEveryRoute sends bodies that no route takes to every route that takes one.
func TestBodiesOfEveryRoute(t *testing.T) {
	s := start(t, standard+"\nkey_api")
	f := &fixtures{s: s}
	p, w, k := f.preset(false), f.workspace(), f.key()
	before := s.changesRecorded()
	for route, op := range operations(t) {
		if op.body.Schema == nil {
			continue
		}
		path := "/v1/" + strings.NewReplacer("{slug}", p, "{label}", "one", "{workspace}", w, "{hash}", k).Replace(op.path)
		for body, want := range map[string]string{
			"null":                       `"path":"","message":"must be an object"`,
			"[]":                         `"path":"","message":"must be an object"`,
			`""`:                         `"path":"","message":"must be an object"`,
			`{"x":{"y":[0,1e400]}}`:      `"path":"/x/y/1","message":"must be in the range of a double`,
			`{"x":-1E+309}`:              `"path":"/x","message":"must be in the range of a double`,
			`{"metadata":{"a":1e99999}}`: `"path":"/metadata/a","message":"must be in the range of a double`,
			`{"policy":{"bounds":{"temperature":{"max":1e400}}}}`: `"path":"/policy/bounds/temperature/max","message":"must be in the range of a double`,
			`{"split":[{"version":1,"weight":1e400}]}`:            `"path":"/split/0/weight","message":"must be in the range of a double`,
		} {
			if r := s.manage(op.method, path, body); r.status != 400 || !strings.Contains(r.body, want) {
				t.Errorf("%s %s: got %d %s, want 400 and %s", route, body, r.status, r.body, want)
			}
		}
	}
	if after := s.changesRecorded(); after != before {
		t.Errorf("refused requests made %d changes", after-before)
	}
}
