package replica

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// Model is what a node keeps in memory of what is stored: records that were read or
// written, the latest used of them, within a bound. It is kept current by Apply, with all
// commits in their order.
//
// The store's state changes only with commits. So the revision of the last one says which
// commits the model has to know to be current. A Model is safe for concurrent use.
type Model struct {
	mu    sync.Mutex
	limit int // of size, in bytes
	size  int
	held  map[string]*list.Element // of *held
	used  *list.List               // the last used first
	// fetching are the reads of the store that are under way, by key.
	fetching map[string][]*Fetch

	last    Commit // the latest that is known
	applied int64  // the latest revision of which a change is known
	// recent are the commits that are known, by number: as many as may come while it
	// is found out what became of one.
	recent  map[uint64]Commit
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

// Fetch is a read of the store that is under way.
type Fetch struct {
	key string
	// last is the latest revision at which the record may have changed as far as is
	// known: a member that lags behind may answer what was before.
	last int64
}

// NewModel returns a Model of so many bytes, which knows nothing until Reset.
func NewModel(limit int) *Model {
	m := &Model{limit: limit, changed: make(chan struct{})}
	m.clear()
	return m
}

// clear forgets all records.
func (m *Model) clear() {
	m.held, m.used, m.size = make(map[string]*list.Element), list.New(), 0
	m.recent = make(map[uint64]Commit)
	for _, fetches := range m.fetching {
		for _, f := range fetches {
			f.last = unknown
		}
	}
	m.fetching = make(map[string][]*Fetch)
}

// unknown is a revision after all others.
const unknown = 1<<63 - 1

// Reset forgets all that is known, as when changes were missed, but for the commit that
// was the last at a revision. That can be one before those that were known, as when the
// cluster was restored from a backup.
func (m *Model) Reset(last Commit, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.applied = at
	m.setLast(last)
}

// advance notes a commit if it is the one after the last that is known. What it changed is
// known already. A later one, as this node's own after a reset, has to wait until all that
// came before it is known.
func (m *Model) advance(c Commit) {
	if c.Follows(m.last) {
		m.setLast(c)
	}
}

func (m *Model) setLast(c Commit) {
	m.last = c
	m.recent[c.Number] = c
	delete(m.recent, c.Number-recentCommits)
	close(m.changed)
	m.changed = make(chan struct{})
}

// Latest returns the last commit that is known.
func (m *Model) Latest() Commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Stats returns the last commit that is known and the size of what is held.
func (m *Model) Stats() (last Commit, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.size
}

// Find returns a commit by its number, and whether it is known.
func (m *Model) Find(number uint64) (Commit, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.recent[number]
	return c, ok
}

// Place returns whether a commit is known, and whether it is the one after the last that
// is. Both are told at one moment: this node's own become known at any.
func (m *Model) Place(c Commit) (known, next bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.recent[c.Number]
	return ok && k.ID == c.ID, !ok && c.Follows(m.last)
}

// Wait waits until a commit that was made at a revision is known, or ctx ends.
func (m *Model) Wait(ctx context.Context, revision int64) error {
	for {
		m.mu.Lock()
		known, changed := m.last.Revision >= revision, m.changed
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

// Get returns the record under a key as it was at a revision, nil for none, and
// whether that is known. The last commit by then was made at another revision: after a
// reset the model may not know it.
func (m *Model) Get(key string, last, revision int64) (record []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.held[key]
	if !ok || last > m.last.Revision || e.Value.(*held).since > revision {
		return nil, false
	}
	m.used.MoveToFront(e)
	return e.Value.(*held).record, true
}

// Begin notes that a record is about to be read.
func (m *Model) Begin(key string) *Fetch {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &Fetch{key: key, last: m.applied}
	m.fetching[key] = append(m.fetching[key], f)
	return f
}

// Found is what a read of the store has found.
type Found struct {
	Record []byte // nil for none
	// since is a revision since which it has been so, and at that at which it was read.
	Since, At int64
	Last      int64 // at which the last commit had been made by then
}

// End takes note of what a read has found, unless it failed, and keeps that unless it
// has changed since.
func (m *Model) End(f *Fetch, result Found, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches := slices.DeleteFunc(m.fetching[f.key], func(other *Fetch) bool { return other == f })
	if len(fetches) == 0 {
		delete(m.fetching, f.key)
	} else {
		m.fetching[f.key] = fetches
	}
	if ok && f.last <= result.At {
		m.hold(f.key, result.Record, result.Since)
	}
}

// hold keeps a record, unless a later one is kept.
func (m *Model) hold(key string, record []byte, since int64) {
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
		h := &held{key: key, record: record, since: since}
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

// Change is a record that was written, or removed, at a revision.
type Change struct {
	Key    string
	Record []byte // nil for one that was removed
}

// Apply takes note of changes that were made at a revision, and of the commit that they
// are, nil for none. Those that were written by this node are kept, as they will soon be
// read, unless the watch was faster, which may have told of later ones by now. Of others
// only what was kept before is.
func (m *Model) Apply(changes []Change, revision int64, made *Commit, own bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = own && revision > m.applied
	m.applied = max(m.applied, revision)
	if made != nil {
		defer m.advance(*made)
	}
	for _, c := range changes {
		for _, f := range m.fetching[c.Key] {
			f.last = max(f.last, revision)
		}
		if _, ok := m.held[c.Key]; ok || own {
			m.hold(c.Key, c.Record, revision)
		}
	}
}
