package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxGroup bounds how many operations share one commit, and so how long
	// the first of them waits for the others to be applied. With 512 writers,
	// groups of 32 had half the throughput and larger ones no more.
	maxGroup = 128

	// upkeepInterval is how often at most the committer looks for files to
	// reserve. A write-ahead log lasts longer than that at any rate a disk
	// was seen to sustain.
	upkeepInterval = 250 * time.Millisecond

	// These keep out of the reckoning, generously, what goes into each
	// transaction besides: an entry of Badger's own and the commit's number.
	spareCount, spareSize = 8, 512
)

// operation is one call of Update.
type operation struct {
	ctx    context.Context
	fn     func(*tx) error
	answer chan error // with room for the one answer

	claimed atomic.Bool // by whoever was first, the committer or a caller that gives up

	// The rest is the committer's own.
	begun bool // fn is the committer's to run
	tied  bool // err came about by looking at or adding to the group's writes
	err   error
}

// claim decides who settles the operation: it returns true once.
func (op *operation) claim() bool { return !op.claimed.Swap(true) }

// committer is the one goroutine that writes. It takes all operations that
// wait, applies them in order in one transaction, commits that with a single
// flush and answers them all: a lone writer waits for nobody, and many share
// the flush that costs each of them most. Being the only writer it meets no
// conflicts.
type committer struct {
	db     *badgerdb.DB
	stamps *domain.Stamps
	// mark and free are nil for a store in memory; so is reserve, and where
	// the system has nothing of the kind.
	mark    *highWaterMark
	free    func() (uint64, error)
	reserve func()
	// commit is (*badgerdb.Txn).Commit; tests let it fail.
	commit func(*badgerdb.Txn) error

	mu     sync.Mutex
	queue  []*operation
	closed bool
	wake   chan struct{} // holds a token when there is news in queue or closed
	done   chan struct{}
	// deleted holds a token when workspaces may have been deleted since it was
	// taken.
	deleted chan struct{}

	// The rest belongs to the goroutine.
	maxCount, maxSize int64
	sequence          uint64 // of the last commit
	stopped           error  // why nothing is written any more
	lastUpkeep        time.Time
	stage             stage
}

func (c *committer) start() {
	c.commit = (*badgerdb.Txn).Commit
	c.wake = make(chan struct{}, 1)
	c.done = make(chan struct{})
	c.deleted = make(chan struct{}, 1)
	c.maxCount = c.db.MaxBatchCount() - spareCount
	c.maxSize = c.db.MaxBatchSize() - spareSize
	c.stage.reset()
	go c.run()
}

// push queues op. It returns false, and op is never touched, after close.
func (c *committer) push(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, op)
	signal(c.wake)
	return true
}

// close lets the goroutine end after what is queued now.
func (c *committer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	signal(c.wake)
}

// signal puts a token into a channel that holds one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // the last one has not been taken yet
	}
}

func (c *committer) wait() { <-c.done }

func (c *committer) run() {
	defer close(c.done)
	var waiting []*operation
	for {
		var closed bool
		waiting, closed = c.take(waiting)
		switch {
		case len(waiting) > 0:
			waiting = slices.Delete(waiting, 0, c.settle(waiting))
		case closed:
			return
		default:
			<-c.wake
		}
	}
}

// take moves what is queued to the end of waiting.
func (c *committer) take(waiting []*operation) ([]*operation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting = append(waiting, c.queue...)
	clear(c.queue)
	c.queue = c.queue[:0]
	return waiting, c.closed
}

// settle applies as many operations from the front of ops as go into one
// transaction, commits it and answers them. It returns how many there were, at
// least one.
func (c *committer) settle(ops []*operation) int {
	g := &group{txn: c.db.NewTransaction(true)}
	defer g.txn.Discard()
	n := 0
	for n < min(len(ops), maxGroup) && g.err == nil && c.apply(g, ops[n]) {
		n++
	}
	err := g.err
	if err == nil && g.count > 0 {
		err = c.finish(g)
	}
	// Not before here: an operation may have failed because of what one
	// before it wrote, which is only true once that is durable.
	for _, op := range ops[:n] {
		if err != nil && op.tied {
			op.err = err
		}
		op.answer <- op.err
	}
	return n
}

// group is a transaction in the making.
type group struct {
	txn *badgerdb.Txn
	// count and size are what Badger reckons against its limits.
	count, size int64
	// changed are the keys of its writes, some of them several times.
	changed []key
	// err says that only a part of some operation's writes is in txn.
	err error
}

// apply runs op on top of the group and adds its writes when fn succeeded. It
// returns false, with all as if op had never run, when there was no room.
func (c *committer) apply(g *group, op *operation) bool {
	if c.stopped != nil {
		op.err = c.stopped
		return true
	}
	if !op.begun {
		if !op.claim() {
			return true // its caller has gone; nobody reads the answer
		}
		op.begun = true
	}
	if op.err = op.ctx.Err(); op.err != nil {
		return true
	}
	op.tied = g.count > 0
	defer c.stage.reset()
	t := &tx{reader: reader{txn: g.txn, stage: &c.stage}}
	op.err = guarded(func() error {
		defer t.end()
		return op.fn(t)
	})
	if op.err == nil {
		op.err = t.failed
	}
	if op.err != nil {
		return true
	}
	count, size := c.stage.reckon()
	switch {
	case count > c.maxCount || size > c.maxSize:
		op.err = fmt.Errorf("a change of %d records and %d bytes is more than one transaction holds", count, size)
		return true
	case g.count+count > c.maxCount || g.size+size > c.maxSize:
		return false
	}
	op.tied = op.tied || count > 0
	g.count, g.size = g.count+count, g.size+size
	for _, w := range c.stage.writes {
		g.changed = append(g.changed, w.key)
	}
	g.err = c.stage.writeTo(g.txn)
	return true
}

// finish makes a group durable and advances the stamps of what it changed.
// After an error that leaves it open whether it is durable nothing is written
// any more: Badger shows such writes to readers though they may be gone after a
// restart.
func (c *committer) finish(g *group) error {
	if err := c.prepare(); err != nil {
		return err
	}
	next, at := c.sequence+1, sequenceKey()
	if err := g.txn.Set(at, encodeNumber(at, next)); err != nil {
		return err
	}
	err := guarded(func() error { return c.commit(g.txn) })
	if errors.Is(err, badgerdb.ErrTxnTooBig) {
		return err // found before anything was written
	}
	// The changes can be read now, or perhaps can be after an error: whoever
	// keeps what was read before has to know before anyone is told of them.
	for _, k := range g.changed {
		k.changed(c.stamps)
	}
	if err != nil {
		c.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
		return c.stopped
	}
	c.sequence = next
	if slices.ContainsFunc(g.changed, func(k key) bool { return k.kind() == kindDeleted }) {
		signal(c.deleted)
	}
	if err := c.mark.set(next); err != nil {
		// The group is safe, but a disk that refuses this is not to be trusted.
		c.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil
}

// prepare sees to the space that a commit takes.
func (c *committer) prepare() error {
	if c.free != nil {
		if err := checkSpace(c.free()); err != nil {
			return err
		}
	}
	if now := time.Now(); c.reserve != nil && now.Sub(c.lastUpkeep) >= upkeepInterval {
		c.lastUpkeep = now
		c.reserve()
	}
	return nil
}

// stage holds the writes of one operation apart from its group until it is
// known to succeed.
type stage struct {
	writes map[string]write
}

type write struct {
	key    key
	record []byte // nil deletes
	// expires is when the record goes by itself, in Unix seconds, 0 for never.
	expires uint64
}

// sorted returns the writes under keys that begin with prefix, in key order. A
// view, which has no stage, has none.
func (s *stage) sorted(prefix key) []write {
	if s == nil {
		return nil
	}
	var writes []write
	for _, w := range s.writes {
		if bytes.HasPrefix(w.key, prefix) {
			writes = append(writes, w)
		}
	}
	slices.SortFunc(writes, func(a, b write) int { return bytes.Compare(a.key, b.key) })
	return writes
}

func (s *stage) put(k key, record []byte) { s.writes[string(k)] = write{key: k, record: record} }

// expire lets a record that was put go at a time.
func (s *stage) expire(k key, at time.Time) {
	w := s.writes[string(k)]
	w.expires = uint64(at.Unix())
	s.writes[string(k)] = w
}

// reset empties the stage. It keeps a map of ordinary size: clearing one takes
// as long as it ever was large.
func (s *stage) reset() {
	if s.writes == nil || len(s.writes) > 64 {
		s.writes = make(map[string]write)
		return
	}
	clear(s.writes)
}

// reckon returns what Badger will count for the writes.
func (s *stage) reckon() (count, size int64) {
	for _, w := range s.writes {
		count++
		size += int64(len(w.key) + len(w.record) + 2 + 10)
	}
	return count, size
}

func (s *stage) writeTo(txn *badgerdb.Txn) error {
	for _, w := range s.writes {
		var err error
		if w.record == nil {
			err = txn.Delete(w.key)
		} else {
			err = txn.SetEntry(&badgerdb.Entry{Key: w.key, Value: w.record, ExpiresAt: w.expires})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
