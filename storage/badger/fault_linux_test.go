package badger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestFault reads a mapped file that was cut short, as Badger does when a table was. The
// change fails, and the process lives on.
func TestFault(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	file, err := os.Create(filepath.Join(t.TempDir(), "mapped"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(1 << 16); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	if err := file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx domain.Tx) error {
		return tx.PutWorkspace(newWorkspace(string(mapped[:1])))
	})
	if err == nil || !strings.Contains(err.Error(), "fault") {
		t.Errorf("got error %v, want that of a fault", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("after"))); err != nil {
		t.Errorf("after it: %v", err)
	}
}
