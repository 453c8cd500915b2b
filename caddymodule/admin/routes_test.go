package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/schema"
)

// routes returns all routes of the admin endpoint.
func routes(t *testing.T) []admin.Route {
	t.Helper()
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	return admin.Routes(schemas)
}

// TestHead checks that a HEAD gets the answer to a GET without its body, and that one for a
// download reads nothing: no backup counts as made.
func TestHead(t *testing.T) {
	s := start(t, caddytest.Standard)
	id := s.Issue(`{"kind":"inference"}`).ID
	for _, rt := range routes(t) {
		if rt.Method != "GET" {
			continue
		}
		for _, param := range []string{id, "absent"} {
			path := admin.Path + strings.Replace(rt.Path, "{key_id}", param, 1)
			head := s.Admin("HEAD", path, "")
			if made := strings.Contains(s.Admin("GET", "/metrics", "").Body, "last_backup_timestamp_seconds{"); made && rt.Name == "backup_get" && param == id {
				t.Error("a HEAD counts as a backup")
			}
			get := s.Admin("GET", path, "")
			if head.Status != get.Status || head.Body != "" || get.Body == "" || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
				t.Errorf("HEAD %s: got %d %s %q, want %d %s", path, head.Status, head.Header.Get("Content-Type"), head.Body, get.Status, get.Header.Get("Content-Type"))
			}
		}
	}
}

// TestMethods checks that a 405 says which methods the path has.
func TestMethods(t *testing.T) {
	s := start(t, caddytest.Standard)
	offered := make(map[string][]string)
	for _, rt := range routes(t) {
		offered[rt.Path] = append(offered[rt.Path], rt.Method)
		if rt.Method == "GET" {
			offered[rt.Path] = append(offered[rt.Path], "HEAD")
		}
	}
	for path, allowed := range offered {
		if path == "keys/prune" {
			allowed = append(allowed, offered["keys/{key_id}"]...) // prune may be an id
		}
		slices.Sort(allowed)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
			if slices.Contains(allowed, method) {
				continue
			}
			r := s.Admin(method, admin.Path+strings.Replace(path, "{key_id}", "x", 1), "")
			if r.Status != 405 || r.Header.Get("Allow") != strings.Join(allowed, ", ") {
				t.Errorf("%s %s: got %d with Allow %q, want 405 with %q", method, path, r.Status, r.Header.Get("Allow"), allowed)
			}
		}
	}
}

// TestQueries checks that every route refuses what it does not know in its query, and
// parameters that are empty or given twice.
func TestQueries(t *testing.T) {
	s := start(t, caddytest.Standard)
	before := s.trail("").Total
	for _, rt := range routes(t) {
		ask := func(query, want string) {
			t.Helper()
			r := s.Admin(rt.Method, admin.Path+strings.Replace(rt.Path, "{key_id}", "x", 1)+"?"+query, "{}")
			if r.Status != 400 || !strings.Contains(r.Body, want) {
				t.Errorf("%s %s?%s: got %d %s, want 400 and %q", rt.Method, rt.Path, query, r.Status, r.Body, want)
			}
		}
		ask("dry_rnu=true", `dry_rnu\": is no parameter of this request`)
		for name := range strings.FieldsSeq(rt.Query) {
			ask(name+"=1&"+name+"=1", name+": given more than once")
			ask(name+"=", name+": must not be empty")
			if name != "store" {
				for _, number := range []string{"01", "1.0", "+1", "%2B1", "-1", "1e0", " 1"} {
					ask(fmt.Sprintf("%s=%s", name, strings.ReplaceAll(number, " ", "%20")), name+": must be a number")
				}
			}
		}
	}
	if after := s.trail("").Total; after != before {
		t.Errorf("refused requests made %d changes", after-before)
	}
}
