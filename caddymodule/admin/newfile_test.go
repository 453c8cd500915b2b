package admin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublish checks that a new file is complete or absent. A file of another program is
// not replaced.
func TestPublish(t *testing.T) {
	synced := func(string) error { return nil }
	fails := func(string) error { return errors.New("not synced") }
	for what, tc := range map[string]struct {
		there, want string // empty for no file
		sync        func(string) error
		says        string
	}{
		"a new name":              {"", "whole", synced, ""},
		"a name taken meanwhile":  {"another's", "another's", synced, "exists already"},
		"a folder without a sync": {"", "", fails, "not synced"},
	} {
		dir := t.TempDir()
		partial, name := filepath.Join(dir, "b.partial"), filepath.Join(dir, "b")
		if err := os.WriteFile(partial, []byte("whole"), 0o600); err != nil {
			t.Fatal(err)
		}
		if tc.there != "" {
			if err := os.WriteFile(name, []byte(tc.there), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := publish(partial, name, tc.sync)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v, want %q", what, err, tc.says)
		}
		if got, _ := os.ReadFile(name); string(got) != tc.want {
			t.Errorf("%s: got a file with %q, want %q", what, got, tc.want)
		}
	}
}
