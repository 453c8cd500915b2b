package etcdstore

import "time"

// Status is how a store is doing.
type Status struct {
	// Staleness is how long ago the copies in memory were known to be current.
	Staleness time.Duration
	// Stale reports whether that is longer than MaxStaleness. Presets and issued keys are
	// refused then.
	Stale bool
	// Commits is the number of the last known commit.
	Commits uint64
	// Changes counts changed records that the watch reported, Restarts its
	// interruptions, and Resets those after which all copies were dropped.
	Changes, Restarts, Resets int64
	// Overtaken counts commits of other nodes that came before one of this node's.
	Overtaken int64
	// Memory is the size of the records in memory, in bytes.
	Memory int
	// Watching reports whether the watch works and the cluster has answered within
	// half of MaxStaleness.
	Watching bool
	// Writable reports whether etcd accepted the last change.
	Writable bool
}

// Status returns how the store is doing. It makes no request.
func (s *Store) Status() Status {
	w := s.watcher
	last, size := s.model.Stats()
	return Status{
		Staleness: w.Staleness(), Stale: w.IsStale(), Commits: last.Number, Changes: w.events.Load(), Restarts: w.restarts.Load(), Resets: w.resets.Load(),
		Overtaken: s.committer.overtaken.Load(), Memory: size, Watching: w.isWatching(), Writable: !s.committer.refused.Load(),
	}
}
