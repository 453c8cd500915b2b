package admin_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestBackupKeepOtherStore makes backups of a store, and then of an empty one in its place. So
// it is if a file system is not mounted. No backup is removed, also once the store is back.
func TestBackupKeepOtherStore(t *testing.T) {
	s := start(t, caddytest.Standard)
	dir := t.TempDir()
	keep := func() (path, note string, err error) {
		out, note, err := run("backup", "--address", s.AdminAddress, "--keep", "2", dir)
		return strings.TrimSpace(out), note, err
	}
	load := func(folder string) {
		t.Helper()
		s.load(folder, "")
	}
	var made []string
	for range 2 {
		s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
		path, _, err := keep()
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
	}
	wantRefused := func(what string) {
		t.Helper()
		path, note, err := keep()
		if err == nil || !strings.Contains(err.Error(), "no backup was removed") || !strings.Contains(err.Error(), filepath.Base(made[1])) {
			t.Errorf("%s: got error %v, want one that says why nothing was removed", what, err)
		}
		if path == "" || !strings.Contains(note, "Verified it") {
			t.Errorf("%s: got %q and %q, want a backup nevertheless", what, path, note)
		}
		made = append(made, path)
	}
	load(caddytest.Folder(t))
	wantRefused("the empty store")
	wantRefused("the empty store again")
	for range 9 { // it overtakes
		s.Manage("POST", "/v1/presets/q/responses", `{"model":"m"}`).Want(t, 200)
	}
	wantRefused("more commits")
	load(s.Folder)
	wantRefused("the store is back")
	var left []string
	for _, file := range filesOf(t, dir) {
		left = append(left, filepath.Join(dir, file.Name()))
	}
	if !slices.Equal(left, made) {
		t.Errorf("got %q, want all of %q", left, made)
	}
	s.Stop()
}
