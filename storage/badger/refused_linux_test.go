package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// Whichever file it is that no descriptor is left for, a sound store is not damaged.
// Badger itself may end the process then: what opens a copy gets as many as it needs.
func TestNotDamagedWithoutDescriptors(t *testing.T) {
	tier.Race(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%t", encrypted), func(t *testing.T) {
			if encrypted {
				withKey(t, testKey)
			}
			folder := t.TempDir()
			furnish(t, folder)
			tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatal("there is no table", err)
			}
			orphan := filepath.Join(folder, "000999.sst")
			if err := os.WriteFile(orphan, readFile(t, tables[0]), 0o600); err != nil {
				t.Fatal(err)
			}
			with, err := dataKey(folder, testOptions.EncryptionKey)
			if err != nil {
				t.Fatal(err)
			}
			listed, _, err := listedTables(folder)
			if err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, t.TempDir()) // which lacks all of the table that is not listed
			other := mustOpen(t, t.TempDir())
			if err := other.Update(t.Context(), put(newWorkspace("w"))); err != nil {
				t.Fatal(err)
			}
			for name, look := range map[string]func() error{
				"probe": func() error {
					return probe(folder, testOptions, ignore)
				},
				"tables":  func() error { return readError(checkTables(folder, listed, with)) },
				"orphans": func() error { return checkOrphans(s.db, folder, listed, with) },
				"check": func() error {
					report, err := other.Check(t.Context())
					return errors.Join(err, report.Err())
				},
			} {
				undo := leaveDescriptors(t, 0)
				err := look()
				undo()
				if domain.KindOf(err) != domain.Unavailable || errors.Is(err, ErrDamaged) {
					t.Errorf("%s: got %v, want ErrUnavailable alone", name, err)
				}
			}
			if err := checkOrphans(s.db, folder, listed, with); !errors.Is(err, ErrDamaged) {
				t.Errorf("with descriptors: got %v of a table that is not listed, want ErrDamaged", err)
			}
			for spare := uint64(1); ; spare++ { // now one, now another file is refused
				undo := leaveDescriptors(t, spare)
				report, err := other.Check(t.Context())
				undo()
				if err == nil && report.Err() == nil {
					break
				}
				if domain.KindOf(err) != domain.Unavailable || report.Err() != nil || spare > 100 {
					t.Fatalf("a check with %d descriptors: got %v, %v, want ErrUnavailable and no problems", spare, err, report.Err())
				}
			}
		})
	}
}

// leaveDescriptors allows this process a number of further open files, until undo is
// called.
func leaveDescriptors(t *testing.T, spare uint64) (undo func()) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	highest := 0
	for _, name := range names {
		n, err := strconv.Atoi(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		highest = max(highest, n)
	}
	var taken []int // below the highest, where Badger has closed some
	for n := -1; n < highest; {
		if n, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, n)
	}
	old := limitDescriptors(t, uint64(taken[len(taken)-1])+1+spare)
	return func() {
		old()
		for _, n := range taken {
			if err := unix.Close(n); err != nil {
				t.Error(err)
			}
		}
	}
}
