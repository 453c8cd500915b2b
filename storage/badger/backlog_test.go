package badger

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestBacklog checks that a write waits for those before it while level 0 has many tables.
func TestBacklog(t *testing.T) {
	const ample = 1 << 40
	space := uint64(ample)
	s, err := openFolder(t.TempDir(), testOptions, func(string) (uint64, error) { return space, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.guard.stop() // it would count the tables
	c := s.committer
	ended, end := context.WithCancel(t.Context()) // nothing waits for long while a store is being closed
	end()
	c.closing = ended
	write := func(slug string) error { return s.Update(t.Context(), put(newWorkspace(slug))) }
	defer func() { space = ample }()
	for _, test := range []struct {
		name   string
		tables int64
		due    time.Time
		free   uint64
		isHeld bool
	}{
		{"few-tables", slowTables - 1, time.Now().Add(time.Hour), ample, false},
		{"nothing-before", stallTables, time.Time{}, ample, false},
		{"much-before", stallTables, time.Now().Add(time.Hour), ample, true},
		{"full-disk", stallTables, time.Now().Add(time.Hour), 0, false},
		{"slow", slowTables, time.Now().Add(time.Hour), ample, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.backlog.due, space = test.due, test.free
			before := c.backlog.held.Load()
			s.guard.levelZero.Store(test.tables)
			if err := write(test.name); errors.Is(err, ErrDiskFull) != (test.free == 0) || err != nil && test.free > 0 {
				t.Fatal(err)
			}
			if isHeld := c.backlog.held.Load() > before; isHeld != test.isHeld {
				t.Errorf("it was held back: %t, want %t", isHeld, test.isHeld)
			}
			if test.tables < slowTables && !c.backlog.due.IsZero() || test.isHeld && !c.backlog.due.After(test.due) {
				t.Errorf("the next write waits until %v, and this one until %v", c.backlog.due, test.due)
			}
		})
	}
}

// TestCloseEndsBacklog closes a store while a write is held back. The write is made.
func TestCloseEndsBacklog(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	s, err := openFolder(t.TempDir(), Options{Logger: zap.New(core)}, ample)
	if err != nil {
		t.Fatal(err)
	}
	s.guard.stop() // it would count the tables
	s.guard.levelZero.Store(stallTables)
	s.committer.backlog.due = time.Now().Add(time.Hour)
	written := make(chan error, 1)
	go func() { written <- s.Update(t.Context(), put(newWorkspace("held"))) }()
	wait.Until(t, "it is held back", func() bool { return logs.FilterMessageSnippet("held back").Len() > 0 })
	if err := errors.Join(s.Close(), <-written); err != nil {
		t.Error(err)
	}
	if s.Status().Slowed == 0 {
		t.Error("the status does not tell that a write was held back")
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
