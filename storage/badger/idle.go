package badger

import "time"

// idleDelay is the time without a write after which Badger's compactors are stopped.
const idleDelay = busyFor

// stopIdleCompactors stops Badger's compactors while nothing is written and nothing is to be
// compacted, until the store is closed. Each compactor wakes up 20 times a second to look for work.
// Two of them took 6 ms of processor time a second.
func (s *Store) stopIdleCompactors(delay time.Duration) {
	for wait := delay; ; {
		select {
		case <-s.closing.Done():
			return
		case <-time.After(wait):
		}
		select {
		case <-s.guard.written: // a write from now on ends the pause
		default:
		}
		if wait = delay - s.guard.sinceWrite(); wait > 0 {
			continue
		}
		s.pauseCompactors()
		wait = delay
	}
}

// pauseCompactors stops Badger's compactors until the next write, Reclaim or Close. Without
// writes there is no work for them: a table that is flushed meanwhile can wait. It does nothing
// while they have work.
//
// Badger stops them only in Flatten, before Flatten's first message. See flatten.
func (s *Store) pauseCompactors() {
	if s.hasCompactions() || !s.flattening.TryLock() {
		return
	}
	defer s.flattening.Unlock()
	_ = s.runFlatten(func() {
		select {
		case <-s.closing.Done():
		case <-s.guard.written:
		}
		panic(flattenEnded{})
	})
}

// hasCompactions reports whether a level is large enough to be compacted.
func (s *Store) hasCompactions() bool {
	for _, level := range s.db.Levels() {
		if level.Score >= 1 {
			return true
		}
	}
	return false
}
