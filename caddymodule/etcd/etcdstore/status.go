package etcdstore

import "time"

// Status is how a store is doing.
type Status struct {
	// Staleness is how long ago what is in memory was known to be current.
	Staleness time.Duration
	// Commits is the number of the last commit that is known.
	Commits uint64
	// Changes, Restarts and Resets are how many records changed, how often the watch
	// was interrupted, and how often so much was missed meanwhile that all was forgotten.
	Changes, Restarts, Resets int64
	// Overtaken is how often another node's commit came before one of this node's.
	Overtaken int64
	// Memory is what the records in memory take, in bytes.
	Memory int
	// Watching reports whether a member tells what others commit, and the cluster has
	// answered within half of MaxStaleness.
	Watching bool
	// Writable reports whether etcd took the last change that it was asked for.
	Writable bool
}

// Status returns how the store is doing. It asks nobody.
func (s *Store) Status() Status {
	w := s.watcher
	last, size := s.model.Stats()
	return Status{
		Staleness: w.Staleness(), Commits: last.Number, Changes: w.events.Load(), Restarts: w.restarts.Load(), Resets: w.resets.Load(),
		Overtaken: s.committer.overtaken.Load(), Memory: size, Watching: w.told(), Writable: !s.committer.refused.Load(),
	}
}
