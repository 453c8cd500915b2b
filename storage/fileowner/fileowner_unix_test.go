//go:build unix

package fileowner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExplain names the nearest existing folder of a missing file, whether the error has a path, and
// once only. The module faults has the files of another user.
func TestExplain(t *testing.T) {
	folder := t.TempDir()
	missing := filepath.Join(folder, "a", "b")
	owner := fmt.Sprintf("%s has mode %04o and is owned by uid %d", folder, mode(t, folder), os.Geteuid())
	for _, err := range []error{
		&fs.PathError{Op: "open", Path: missing, Err: fs.ErrPermission},
		fmt.Errorf("opening it: %w", fs.ErrPermission),
		errors.New("while opening: open 000001.sst: permission denied"), // as Badger has them
	} {
		got := Explain(fmt.Errorf("again: %w", Explain(err, missing)), folder)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), owner) || strings.Count(got.Error(), "is owned by") != 1 {
			t.Errorf("%v: got %v, want %s, once", err, got, owner)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist, errors.New("permission to speak")} {
		if got := Explain(err, missing); !errors.Is(got, err) || err != nil && got.Error() != err.Error() {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// TestMkdirAll makes what os.MkdirAll makes.
func TestMkdirAll(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := MkdirAll(folder, 0o700); err != nil || mode(t, folder) != 0o700 {
			t.Errorf("got error %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(folder, "file", "c"), 0o700); err == nil {
		t.Error("a folder below a file: got no error")
	}
}

func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}
