package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequire loads configurations whose placeholders have a value or none. One that has none is
// refused, also as JSON, and the running configuration stays.
func TestRequire(t *testing.T) {
	s := start(t, standard)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := "{file." + filepath.ToSlash(key) + "}"
	t.Setenv("PRESETS_SET", "sk-secret")
	t.Setenv("PRESETS_EMPTY", "")
	for _, tc := range []struct{ require, want string }{
		{"{env.PRESETS_SET}", ""},
		{"{env.PRESETS_SET} {env.PRESETS_NOT_SET}", "{env.PRESETS_NOT_SET}"},
		{"{env.PRESETS_EMPTY}", "{env.PRESETS_EMPTY}"},
		{file, file},
		{"{file./nowhere/key}", "{file./nowhere/key}"},
		{"{nothing.known}", "{nothing.known}"},
	} {
		err := s.load(s.site(standard + "\nrequire " + tc.require))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.require, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), "require: ") || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want an error that names %s", tc.require, err, tc.want)
		}
		s.manage("GET", "/v1/presets", "").want(t, 200)
	}

	if err := os.WriteFile(key, []byte("sk-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.load(s.site(standard + "\nrequire " + file)); err != nil {
		t.Errorf("a file with a key: %v", err)
	}
	h := Handler{Require: []string{"sk-secret"}}
	if err := h.provisionRequire(nil); err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("a value: got %v, want an error without it", err)
	}
}
