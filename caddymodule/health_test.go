package caddymodule

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestHealth asks as load balancers do, with a store that can be read and one that cannot.
func TestHealth(t *testing.T) {
	s := start(t, standard+"\nhealth /healthz")
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).want(t, 200)
	for _, tc := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/healthz?x=1", 200, "ok"},
		{"HEAD", "/healthz", 200, ""},
		{"POST", "/healthz", 405, "method not allowed"},
		{"OPTIONS", "/healthz", 405, "method not allowed"},
		{"GET", "/healthz/x", 202, ""}, // the gateway's
		{"GET", "/Healthz", 202, ""},
	} {
		got := s.do(tc.method, tc.path, "", bearer(inferenceSecret))
		if got.status != tc.status || tc.status != 202 && got.body != tc.body {
			t.Errorf("%s %s: got %d %q, want %d %q", tc.method, tc.path, got.status, got.body, tc.status, tc.body)
		}
		if allow := got.header.Get("Allow"); (allow == "GET, HEAD") != (tc.status == 405) {
			t.Errorf("%s %s: got Allow %q", tc.method, tc.path, allow)
		}
	}
	if got := s.do("TRACE", "/healthz", ""); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("TRACE: got %d and Allow %q, want 405 and what is allowed", got.status, got.header.Get("Allow"))
	}
	s.do("GET", "/healthz", "").want(t, 200, "ok") // without a key

	// The store is damaged while another is in use.
	damaged := s.folder
	s.folder = caddytest.Folder(t)
	s.reload(standard + "\nhealth /healthz")
	if !s.eventually(func() bool { return caddytest.IsReleased(damaged) }) {
		t.Fatal("the folder is in use")
	}
	undo := caddytest.Damage(t, damaged)
	s.folder = damaged
	s.reload(standard + "\nhealth /healthz")
	got := s.do("GET", "/healthz", "")
	if got.status != 503 || got.body != "unavailable" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %q %v", got.status, got.body, got.header)
	}
	undo()
	if !s.eventually(func() bool { return s.do("GET", "/healthz", "").status == 200 }) {
		t.Error("the repaired store is not healthy")
	}
	s.stop() // before the folder goes
}
