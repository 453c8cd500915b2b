package badger

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestMovedFolder acknowledges nothing that would go to files which no start finds.
func TestMovedFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, folder)
	writes := func(slug string, want bool) {
		t.Helper()
		if err := s.Update(t.Context(), put(newWorkspace(slug))); (err == nil) != want || err != nil && domain.KindOf(err) != domain.Unavailable {
			t.Errorf("%s: got %v, want a write to pass: %v", slug, err, want)
		}
	}
	aside := folder + "-aside"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	writes("before", true)
	must(os.Rename(folder, aside))
	writes("moved", false)
	must(os.Mkdir(folder, 0o700))
	writes("replaced", false)
	if report, err := s.Check(t.Context()); err != nil || report.Err() == nil {
		t.Errorf("a check finds %+v, %v, want a problem", report, err)
	}
	must(os.Remove(folder))
	must(os.Rename(aside, folder))
	writes("back", true)
	marker := filepath.Join(folder, MarkerName)
	must(os.Rename(marker, marker+"-aside"))
	writes("unmarked", false)
	must(os.Rename(marker+"-aside", marker))
	writes("after", true)
}

// TestWithoutFiles refuses writes while no file can be created, and Badger would be at
// an end with its log.
func TestWithoutFiles(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	reserve := s.committer.reserve
	s.committer.reserve, s.committer.lastUpkeep = func() error { return errDeliberate }, s.committer.lastUpkeep.Add(-upkeepInterval)
	if err := s.Update(t.Context(), put(newWorkspace("without"))); domain.KindOf(err) != domain.Unavailable || !errors.Is(err, errDeliberate) {
		t.Errorf("got %v, want ErrUnavailable with the cause", err)
	}
	s.committer.reserve = reserve
	if err := s.Update(t.Context(), put(newWorkspace("after"))); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestCheckOfDamage flips a bit in an open store where Badger trusts the data, or removes a
// table. The check must find this damage and no other.
func TestCheckOfDamage(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	source := t.TempDir()
	furnish(t, source)
	damage := func(name string, change func(t *testing.T, table string)) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			copyFolder(t, source, folder)
			s, err := Open(folder, testOptions)
			if err != nil {
				t.Fatal(err)
			}
			tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatalf("got tables %v, %v, want some", tables, err)
			}
			change(t, tables[len(tables)-1])
			report, err := s.Check(t.Context())
			if err != nil || report.Err() == nil {
				t.Errorf("got %+v, %v, want a problem", report, err)
			}
			_ = s.View(t.Context(), func(r domain.Reader) error { // anything but the process's end
				_, err := r.Keys()
				return err
			})
			// Badger's own goroutines would compact the damaged table during Close.
			s.committer.groups.Close()
			s.stop()
			s.guard.stop()
		})
	}
	damage("table removed", func(t *testing.T, table string) {
		if err := os.Remove(table); err != nil {
			t.Fatal(err)
		}
	})
	for range 8 / tier.Sample(4) {
		damage("bit flipped", func(t *testing.T, table string) {
			content := readFile(t, table)
			at := rand.IntN(len(content)) // in a small table much of it are offsets
			patch(t, table, int64(at), []byte{content[at] ^ 1<<rand.IntN(8)})
		})
	}
	damage("cut short", func(t *testing.T, table string) { truncate(t, table, 0) })
}
