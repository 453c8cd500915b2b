package badger

import (
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestPauseOf checks that groups are slowed down early enough, and that the largest one leaves time
// for the disk.
func TestPauseOf(t *testing.T) {
	const large = memTableSize * 15 / 100
	before := time.Duration(0)
	for tables := range int64(2 * stallTables) {
		small, pause := pauseOf(1<<10, tables), pauseOf(large, tables)
		switch {
		case (pause > 0) != (tables >= slowTables):
			t.Errorf("%d tables: got a pause of %v, want one from %d on", tables, pause, slowTables)
		case pause < before || pause > longestPause:
			t.Errorf("%d tables: got a pause of %v after %v, and at most %v is allowed", tables, pause, before, longestPause)
		case small > pause/100:
			t.Errorf("%d tables: a group of 1 KiB waits %v, and one of %d KiB %v", tables, small, large>>10, pause)
		}
		before = pause
	}
	if pause := pauseOf(1<<20, stallTables); pause < time.Second {
		t.Errorf("got a pause of %v before level 0 is full, want writes to be slower than compactions", pause)
	}
}

// TestBacklog checks that a write waits while level 0 has many tables, and that the store
// tells for how long.
func TestBacklog(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.guard.stop() // it would count the tables
	var pause time.Duration
	s.committer.pauses.sleep = func(d time.Duration) { pause += d }
	write := func(slug string) {
		if err := s.Update(t.Context(), put(newWorkspace(slug))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"first", "second"} {
		s.guard.levelZero.Store(slowTables - 1)
		write(name + "-before")
		before := pause
		s.guard.levelZero.Store(stallTables)
		write(name)
		if pause == before || s.Status().Slowed != pause {
			t.Errorf("got pauses of %v and a status of %v, after %v", pause, s.Status().Slowed, before)
		}
	}
}

// TestTablesOfLevelZero checks that the guard sees how many tables wait for compactions.
func TestTablesOfLevelZero(t *testing.T) {
	folder := t.TempDir()
	db := withLevelZero(t, folder, 3)
	defer db.Close()
	g := newGuard(folder, freeSpace, zap.NewNop())
	g.measure(db)
	if got, want := g.levelZero.Load(), int64(db.Levels()[0].NumTables); got < 3 || got > want {
		t.Errorf("got %d tables in level 0, want 3 to %d", got, want)
	}
}
