package replica

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// Model is the part of the store that a node keeps in memory. It has the records that were
// read or written last, within a bound. Apply keeps it current, with all commits in order.
//
// The store's state changes only with commits. So the model is current if it knows the last
// commit. A Model is safe for concurrent use.
type Model struct {
	mu    sync.Mutex
	limit int // of size, in bytes
	size  int
	held  map[string]*list.Element // of *held
	used  *list.List               // the last used first
	// fetching are the reads of the store that are under way, by key.
	fetching map[string][]*Fetch

	last    Commit // the latest that is known
	applied int64  // the revision of the latest known change
	// recent are the last known commits, by number. There are enough of them to find out
	// later whether a commit was made.
	recent  map[uint64]Commit
	changed chan struct{} // is closed when last changes
}

// held is the record under a key, or that there is none, since a revision.
type held struct {
	key    string
	record []byte // nil for none
	since  int64
}

func (h *held) cost() int { return len(h.key) + len(h.record) + heldCost }

const (
	// heldCost is the memory for a record besides its key and content, in bytes.
	heldCost = 192
	// recentCommits is how many commits are kept.
	recentCommits = 16384
)

// Fetch is a read of the store that is under way.
type Fetch struct {
	key string
	// last is the latest known revision at which the record may have changed. An answer
	// from before it is not kept: the member that answered may lag behind.
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

// Reset forgets everything except a commit, which was the last one at a revision. Nodes reset
// their model when they have missed changes. After a restore of the cluster the commit may be
// older than the known ones.
func (m *Model) Reset(last Commit, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.applied = at
	m.setLast(last)
}

// advance records a commit if it follows the last known one. Its changes are known already. A
// later commit must wait until the commits before it are known. After a reset, that can be
// one of this node.
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

// Stats returns the last known commit and the size of the model, in bytes.
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

// Place reports whether a commit is known, and whether it follows the last known one. Both
// answers are from one moment: commits of this node become known at any time.
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

// Get returns the record under a key at a revision, nil for none, and whether it is known.
// last is the revision of the last commit until then. After a reset the model may not know
// that commit.
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

// Begin records that a record is about to be read.
func (m *Model) Begin(key string) *Fetch {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &Fetch{key: key, last: m.applied}
	m.fetching[key] = append(m.fetching[key], f)
	return f
}

// Found is the result of a read of the store.
type Found struct {
	Record []byte // nil for none
	// Since is a revision since which the record has not changed. At is the revision at
	// which it was read. Last is the revision of the last commit until then.
	Since, At, Last int64
}

// End ends a read. It keeps the result, unless the read failed or the record has changed
// since.
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
	m.shrink()
}

// SetLimit changes the bound of the model, in bytes.
func (m *Model) SetLimit(limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
	m.shrink()
}

// shrink drops the records that were not used for longest, until the limit is kept.
func (m *Model) shrink() {
	for m.size > m.limit {
		m.drop(m.used.Back())
	}
}

func (m *Model) drop(e *list.Element) {
	h := m.used.Remove(e).(*held)
	delete(m.held, h.key)
	m.size -= h.cost()
}

// Change is a record that was written, or removed, at a revision.
type Change struct {
	Key    string
	Record []byte // nil for one that was removed
	// Unread says that the record is not read soon, so the model does not hold it.
	Unread bool
}

// Apply applies the changes that were made at a revision, and records their commit, nil for
// none. own is set for a commit of this node. Its records are kept, because they will soon
// be read. If the watch was faster, they are not: it may have reported later changes. The
// changes of other nodes update only records that the model holds. Changes that are Unread
// remove them from it.
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
		e, ok := m.held[c.Key]
		switch {
		case c.Unread && ok:
			m.drop(e)
		case !c.Unread && (ok || own):
			m.hold(c.Key, c.Record, revision)
		}
	}
}
