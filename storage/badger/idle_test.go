package badger

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// compactors returns the number of Badger's compactors that run, in all stores.
func compactors() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte(".(*levelsController).runCompactor("))
}

// TestIdleCompactors checks that compactors stop without writes. A write, a Reclaim and Close
// start them again, and work. Tests with t.Parallel run later, so no other store is open.
func TestIdleCompactors(t *testing.T) {
	tier.Race(t)
	s := mustOpen(t, t.TempDir())
	all := s.db.Opts().NumCompactors
	for _, test := range []struct {
		name string
		wake func() error
		left int
	}{
		{"a write", func() error { return s.Update(t.Context(), put(newWorkspace("w"))) }, all},
		{"a Reclaim", func() error { return s.Reclaim(t.Context()) }, all},
		{"Close", s.Close, 0},
	} {
		select {
		case <-s.guard.written:
		default:
		}
		paused := make(chan struct{})
		s.idling.Go(func() {
			defer close(paused)
			s.pauseCompactors()
		})
		eventually(t, "the compactors have stopped before "+test.name, func() bool { return compactors() == 0 })
		if err := test.wake(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		<-paused
		eventually(t, "the compactors are as they should be after "+test.name, func() bool { return compactors() == test.left })
	}
}

// TestReclaimDelaysPause checks that no pause can begin between the end of one, which Reclaim
// asks for, and Flatten. Reclaim would wait for that pause until the next write.
func TestReclaimDelaysPause(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	eventually(t, "nothing was written for a while", func() bool { return s.guard.sinceWrite() > 10*time.Millisecond })
	began := time.Now()
	if err := s.flatten(t.Context()); err != nil {
		t.Fatal(err)
	}
	if quiet := s.guard.sinceWrite(); quiet > time.Since(began) {
		t.Errorf("a pause may begin, since nothing was written for %v", quiet)
	}
}

// TestStopIdleCompactors checks that compactors stop by themselves, again after each write.
func TestStopIdleCompactors(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.idling.Go(func() { s.stopIdleCompactors(time.Millisecond) })
	for _, slug := range []string{"a", "b"} {
		if err := s.Update(t.Context(), put(newWorkspace(slug))); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the compactors have stopped", func() bool { return compactors() == 0 })
	}
}
