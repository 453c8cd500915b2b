package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if err != nil || len(names) != 2 {
		t.Fatalf("got files %v and error %v, want a log and the next", names, err)
	}
	for i, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Blocks * 512; got < reservedLog || info.Size() != int64((1-i)*2*memTableSize) {
			t.Errorf("%s has %d bytes, and %d are reserved, want %d", name, info.Size(), got, reservedLog)
		}
	}
	// Badger begins the next one and keeps its space.
	text := strings.Repeat("x", 200<<10)
	for i := 0; ; i++ {
		w := newWorkspace(fmt.Sprint("w-", i))
		w.Description = &text
		if err := s.Update(t.Context(), put(w)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(names[1])
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 0 {
			if got := info.Sys().(*syscall.Stat_t).Blocks * 512; got < reservedLog {
				t.Errorf("%s: %d bytes are reserved once it is in use, want %d", names[1], got, reservedLog)
			}
			break
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(folder, "*.mem")); err != nil || len(names) > 0 {
		t.Errorf("closed: got logs %v, %v, want none", names, err)
	}
}

// Badger begins a log before it writes a transaction to a log as long as a memtable. So the
// largest transaction must fit behind that length. Each of its entries has a header of up to
// 22 bytes and a checksum of 4.
func TestReservedLogHoldsTheLargestTransaction(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	largest := s.db.MaxBatchSize() + 26*s.db.MaxBatchCount()
	if end := int64(1 << 10); memTableSize+largest+end > reservedLog {
		t.Errorf("%d bytes are reserved, want at least %d", reservedLog, memTableSize+largest+end)
	}
}

// An error of fallocate that does not mean that the file system cannot reserve is the
// error of reserving.
func TestReserveFails(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "00001.mem")
	if err := os.Symlink("/dev/null", log); err != nil { // which has no space to reserve
		t.Fatal(err)
	}
	if err := reserveLogs(folder, true); !errors.Is(err, unix.ENODEV) {
		t.Errorf("a log whose space cannot be reserved: got error %v, want ENODEV", err)
	}
	if err := reserveLogs(folder, false); !errors.Is(err, unix.ENODEV) {
		t.Errorf("at a start: got error %v, want ENODEV", err)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := reserve(log, false); err != nil {
		t.Errorf("a log that is gone: got error %v", err)
	}
}
