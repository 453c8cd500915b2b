package caddymodule

import (
	"slices"
	"strings"
	"testing"
)

// TestListByStatus lists objects by status, to find those that can be restored or enabled.
// Every key may do so.
func TestListByStatus(t *testing.T) {
	s := start(t, standard)
	for _, slug := range []string{"a", "b", "c", "d"} {
		s.manage("POST", "/v1/presets/"+slug+"/responses", `{"model":"m"}`).want(t, 200)
	}
	s.manage("PATCH", "/v1/presets/b", `{"status":"disabled"}`).want(t, 200)
	s.manage("DELETE", "/v1/presets/c", "").want(t, 200)
	s.manage("DELETE", "/v1/presets/a", "").want(t, 200)
	is := func(query string, total int, want ...string) {
		t.Helper()
		got := s.page("/v1/presets" + query)
		if got.Total != total || !slices.Equal(got.names(), append([]string{}, want...)) {
			t.Errorf("%s: got %v of %d, want %v of %d", query, got.names(), got.Total, want, total)
		}
	}
	sorted := func(query string, want ...string) { // these may have changed in the same millisecond
		t.Helper()
		names := s.page("/v1/presets" + query).names()
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s: got %v, want %v", query, names, want)
		}
	}
	sorted("", "b", "d")
	sorted("?status=archived", "a", "c")
	sorted("?status=all", "a", "b", "c", "d")
	is("?status=active", 1, "d")
	is("?status=disabled", 1, "b")
	is("?status=archived&limit=1&offset=2", 2)
	is("?status=disabled&workspace_id=default&offset=&limit=", 1, "b")

	caller := bearer(inferenceSecret)
	r := s.do("GET", "/v1/presets?status=archived", "", caller)
	r.want(t, 200, `"slug":"a"`, `"status":"archived"`, `"total_count":2}`)
	tag := r.tag(t)
	s.do("GET", "/v1/presets?status=archived", "", caller, "If-None-Match: "+tag).want(t, 304)
	s.manage("POST", "/v1/presets/a/restore", "").want(t, 200)
	is("?status=archived", 1, "c")
	if again := s.do("GET", "/v1/presets?status=archived", "", caller, "If-None-Match: "+tag); again.status != 200 {
		t.Errorf("got %d with the tag of before a preset was restored, want 200", again.status)
	}

	const rule = "Invalid request parameters: status: must be active, disabled, archived or all"
	for _, status := range []string{"deleted", "Archived", "active,disabled", "%20"} {
		r := s.do("GET", "/v1/presets?status="+status, "", caller)
		if r.wantError(t, 400, rule); !strings.Contains(r.body, `"path":"status"`) {
			t.Errorf("status=%s: got %s, want an issue of status", status, r.body)
		}
	}
	s.manage("GET", "/v1/presets?status=", "").wantError(t, 400, "Invalid request parameters: status: must not be empty")
	s.manage("GET", "/v1/presets?status=all&status=active", "").wantError(t, 400, "Invalid request parameters: status: given more than once")
	s.manage("GET", "/v1/presets?status=all&limit=0", "").wantError(t, 400, "Invalid request parameters: limit")
	s.manage("GET", "/v1/presets?status=all&workspace_id=absent", "").wantError(t, 404, "Workspace not found")
	s.do("GET", "/v1/presets?status=all&workspace_id=absent", "", caller).wantError(t, 403, "Only management keys")
}
