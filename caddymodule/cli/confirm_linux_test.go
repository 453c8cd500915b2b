package cli_test

import (
	"io"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestConfirm answers the question of apply on a terminal.
func TestConfirm(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/p.yaml": "chat: {model: m}\n"})
	for _, tc := range []struct {
		typed   string
		applied bool
	}{{"n\n", false}, {"\n", false}, {"yes please\n", false}, {"y\n", true}} {
		tty, printed := terminalWith(t, tc.typed)
		err := runTo(io.Discard, tty, tty, "presets", "apply", dir)
		if text := printed(); !strings.Contains(text, "Apply these changes? [y/N] ") || (err == nil) != tc.applied {
			t.Errorf("%q: got %q, %v, want applied %t", tc.typed, text, err, tc.applied)
		}
		want := 404
		if tc.applied {
			want = 200
		}
		s.Manage("GET", "/v1/presets/p", "").Want(t, want)
	}
}

// TestConfirmJSON checks that apply shows the plan before its question, beside its JSON.
func TestConfirmJSON(t *testing.T) {
	s := start(t, nil)
	dir := t.TempDir()
	caddytest.WriteFiles(t, dir, map[string]string{"default/p.yaml": "chat: {model: m}\n"})
	for _, typed := range []string{"n\n", "y\n"} {
		tty, printed := terminalWith(t, typed)
		var out strings.Builder
		err := runTo(&out, tty, tty, "presets", "apply", "--json", dir)
		text := printed()
		if plan, _, asked := strings.Cut(text, "Apply these changes? [y/N] "); !asked || !strings.Contains(plan, "create default/p") {
			t.Errorf("%q: got %q, want the plan and the question", typed, text)
		}
		if applied := typed == "y\n"; (err == nil) != applied || strings.Contains(out.String(), `"done":1`) != applied {
			t.Errorf("%q: got %q, %v, want applied %t", typed, out.String(), err, applied)
		}
	}
	s.Manage("GET", "/v1/presets/p", "").Want(t, 200)
	caddytest.WriteFiles(t, dir, map[string]string{"default/q.yaml": "chat: {model: m}\n"})
	tty, printed := terminalWith(t, "")
	var out strings.Builder
	err := runTo(&out, tty, tty, "presets", "apply", "--json", "--yes", dir)
	if text := printed(); err != nil || strings.Contains(text, "create default/q") || !strings.Contains(out.String(), `"done":1`) {
		t.Errorf("with --yes: got %q, %q, %v", text, out.String(), err)
	}
}
