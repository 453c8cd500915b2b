package badger

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyFileIsWholeOrNothing(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "from"), filepath.Join(folder, "to")
	want := bytes.Repeat([]byte("table"), 100_000)
	if err := os.WriteFile(from, want, 0o600); err != nil {
		t.Fatal(err)
	}
	// What an earlier try left behind is not taken for the copy.
	if err := os.WriteFile(to+".partial", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(from, to); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, to); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want the %d of the original", len(got), len(want))
	}
	if err := copyFile(filepath.Join(folder, "missing"), filepath.Join(folder, "other")); err == nil {
		t.Error("a missing file is copied")
	}
	if _, err := os.Stat(filepath.Join(folder, "other")); err == nil {
		t.Error("a failed copy leaves a file under the name of the whole")
	}
}
