package etcdstore

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// model is what a node keeps in memory of what is stored: records that were read or
// written, the latest used of them, within a bound. The watch keeps them current.
//
// The store's state changes only with commits, each of which changes the record
// of the last commit. So a revision of etcd's at which that record was last changed
// says which commits the model has to know to be current.
type model struct {
	mu    sync.Mutex
	limit int // of size, in bytes
	size  int
	held  map[string]*list.Element // of *held
	used  *list.List               // the last used first
	// fetching are the reads of etcd that are under way, by key.
	fetching map[string][]*fetch

	last    commit // the latest that is known
	applied int64  // the latest revision of which a change is known
	// recent are the commits that are known, by number: as many as may come while it
	// is found out what became of one.
	recent  map[uint64]commit
	changed chan struct{} // is closed when last changes
}

// held is a record, or that there is none under a key, as it has been since a
// revision.
type held struct {
	key    string
	record []byte // nil for none
	since  int64
}

func (h *held) cost() int { return len(h.key) + len(h.record) + heldCost }

const (
	// heldCost is what is kept besides a key and its record, in bytes.
	heldCost = 192
	// recentCommits is how many commits are kept.
	recentCommits = 16384
)

// fetch is a read of etcd that is under way.
type fetch struct {
	key string
	// last is the latest revision at which the record may have changed as far as is
	// known: a member that lags behind may answer what was before.
	last int64
}

func newModel(limit int) *model {
	m := &model{limit: limit, changed: make(chan struct{})}
	m.clear()
	return m
}

// clear forgets all records.
func (m *model) clear() {
	m.held, m.used, m.size = make(map[string]*list.Element), list.New(), 0
	m.recent = make(map[uint64]commit)
	for _, fetches := range m.fetching {
		for _, f := range fetches {
			f.last = unknown
		}
	}
	m.fetching = make(map[string][]*fetch)
}

// unknown is a revision after all others.
const unknown = 1<<63 - 1

// reset forgets all that is known, as when changes were missed, but for the commit that
// was the last at a revision. That can be one before those that were known, as when the
// cluster was restored from a backup.
func (m *model) reset(last commit, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.applied = at
	m.setLast(last)
}

// advance notes a commit if it is the one after the last that is known. What it changed is
// known already. A later one, as this node's own after a reset, has to wait until all that
// came before it is known.
func (m *model) advance(c commit) {
	if c.follows(m.last) {
		m.setLast(c)
	}
}

func (m *model) setLast(c commit) {
	m.last = c
	m.recent[c.number] = c
	delete(m.recent, c.number-recentCommits)
	close(m.changed)
	m.changed = make(chan struct{})
}

// latest returns the last commit that is known.
func (m *model) latest() commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// stats returns the last commit that is known and the size of what is held.
func (m *model) stats() (last commit, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.size
}

// find returns a commit by its number, and whether it is known.
func (m *model) find(number uint64) (commit, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.recent[number]
	return c, ok
}

// place returns whether a commit is known, and whether it is the one after the last that
// is. Both are told at one moment: this node's own become known at any.
func (m *model) place(c commit) (known, next bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.recent[c.number]
	return ok && k.id == c.id, !ok && c.follows(m.last)
}

// wait waits until a commit that was made at a revision is known, or ctx ends.
func (m *model) wait(ctx context.Context, revision int64) error {
	for {
		m.mu.Lock()
		known, changed := m.last.revision >= revision, m.changed
		m.mu.Unlock()
		if known {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// get returns the record under a key as it was at a revision, nil for none, and
// whether that is known. The last commit by then was made at another revision: after a
// reset the model may not know it.
func (m *model) get(key string, last, revision int64) (record []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.held[key]
	if !ok || last > m.last.revision || e.Value.(*held).since > revision {
		return nil, false
	}
	m.used.MoveToFront(e)
	return e.Value.(*held).record, true
}

// begin notes that a record is about to be read.
func (m *model) begin(key string) *fetch {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &fetch{key, m.applied}
	m.fetching[key] = append(m.fetching[key], f)
	return f
}

// found is what a read of etcd has found.
type found struct {
	record []byte // nil for none
	// since is a revision since which it has been so, and at that at which it was read.
	since, at int64
	last      int64 // at which the last commit had been made by then
}

// end takes note of what a read has found, unless it failed, and keeps that unless it
// has changed since.
func (m *model) end(f *fetch, result found, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches := slices.DeleteFunc(m.fetching[f.key], func(other *fetch) bool { return other == f })
	if len(fetches) == 0 {
		delete(m.fetching, f.key)
	} else {
		m.fetching[f.key] = fetches
	}
	if ok && f.last <= result.at {
		m.hold(f.key, result.record, result.since)
	}
}

// hold keeps a record, unless a later one is kept.
func (m *model) hold(key string, record []byte, since int64) {
	if e, ok := m.held[key]; ok {
		h := e.Value.(*held)
		if h.since >= since {
			return
		}
		m.size -= h.cost()
		h.record, h.since = record, since
		m.size += h.cost()
		m.used.MoveToFront(e)
	} else {
		h := &held{key, record, since}
		if h.cost() > m.limit/16 {
			return
		}
		m.held[key] = m.used.PushFront(h)
		m.size += h.cost()
	}
	for m.size > m.limit {
		oldest := m.used.Back()
		h := m.used.Remove(oldest).(*held)
		delete(m.held, h.key)
		m.size -= h.cost()
	}
}

// change is a record that was written, or removed, at a revision.
type change struct {
	key    string
	record []byte // nil for one that was removed
}

// apply takes note of changes that were made at a revision, and of the commit that they
// are, nil for none. Those that were written by this node are kept, as they will soon be
// read, unless the watch was faster, which may have told of later ones by now. Of others
// only what was kept before is.
func (m *model) apply(changes []change, revision int64, made *commit, own bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = own && revision > m.applied
	m.applied = max(m.applied, revision)
	if made != nil {
		defer m.advance(*made)
	}
	for _, c := range changes {
		for _, f := range m.fetching[c.key] {
			f.last = max(f.last, revision)
		}
		if _, ok := m.held[c.key]; ok || own {
			m.hold(c.key, c.record, revision)
		}
	}
}
