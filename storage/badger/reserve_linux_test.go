package badger

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReserve(t *testing.T) {
	folder := t.TempDir()
	probe, err := os.Create(filepath.Join(folder, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	err = unix.Fallocate(int(probe.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1)
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("this file system reserves nothing: %v", err)
	}
	s := mustOpen(t, folder)
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.mem"))
	if err != nil || len(names) == 0 {
		t.Fatalf("got files %v and error %v, want a log", names, err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Blocks * 512; got < info.Size() || info.Size() != 2*memTableSize {
			t.Errorf("%s: %d of %d bytes are reserved, want all of %d", name, got, info.Size(), 2*memTableSize)
		}
	}
}
