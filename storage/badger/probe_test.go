package badger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyFile(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "from"), filepath.Join(folder, "to")
	// Zeros at the beginning, in the middle and at the end.
	want := bytes.Join([][]byte{nil, []byte("log"), []byte("log"), nil}, make([]byte, 200_000))
	if err := os.WriteFile(from, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(from, to); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, to); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes that differ from the %d of the original", len(got), len(want))
	}
	if err := copyFile(from, to); err == nil {
		t.Error("a file is overwritten")
	}
	if err := copyFile(filepath.Join(folder, "missing"), filepath.Join(folder, "other")); err == nil {
		t.Error("a missing file is copied")
	}
}

func TestCheckSpace(t *testing.T) {
	for free, full := range map[uint64]bool{0: true, flushSpace - 1: true, flushSpace: false} {
		err := checkSpace(t.TempDir(), func(string) (uint64, error) { return free, nil })
		if errors.Is(err, ErrDiskFull) != full {
			t.Errorf("%d bytes are free: got %v, want a full disk: %t", free, err, full)
		}
	}
}
