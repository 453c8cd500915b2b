package files_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPermissions checks that a file keeps its permissions, and that those of a new file are
// what the umask leaves.
func TestPermissions(t *testing.T) {
	before := syscall.Umask(0o027)
	t.Cleanup(func() { syscall.Umask(before) })
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", "p.yaml"), []byte("chat: {model: m}\n"))
	set := read(t, dir)
	file := filepath.Join(dir, "default", "p.yaml")
	for _, permissions := range []os.FileMode{0o600, 0o664} {
		put(t, file, []byte("chat: {model: old}\n"))
		if err := os.Chmod(file, permissions); err != nil {
			t.Fatal(err)
		}
		if written := write(t, dir, set); len(written) != 1 {
			t.Fatalf("got %v written", written)
		}
		wantMode(t, file, permissions)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, dir, set)
	wantMode(t, file, 0o640)
}

func wantMode(t *testing.T, file string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
