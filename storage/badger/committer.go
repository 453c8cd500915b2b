package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// maxGroup bounds how many operations share one commit, and so how long
	// the first of them waits for the others to be applied: some 4 ms, at 30 µs
	// each. With 512 writers, groups of 32 had half the throughput and larger ones
	// no more.
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
	fn     func(*records.Tx) error
	answer chan error // with room for the one answer

	claimed atomic.Bool // by whoever was first, the committer or a caller that gives up

	// The rest is the committer's own.
	begun bool // fn is the committer's to run
	// tied tells that err came about by looking at, or adding to, writes of the
	// group.
	tied bool
	err  error
}

// claim decides who settles the operation: it returns true once.
func (op *operation) claim() bool { return !op.claimed.Swap(true) }

// committer is the one goroutine that writes. It takes all operations that
// wait, applies them in order as one group, commits that with a single flush and
// answers them all: a lone writer waits for nobody, and many share the flush that
// costs each of them most. Being the only writer it meets no conflicts.
//
// While a group of several is on its way to the disk the next one is made, on top
// of writes that are not durable yet: when they fail, so does all that was built
// on them.
type committer struct {
	db     *badgerdb.DB
	stamps *domain.Stamps
	logger *zap.Logger
	// mark and guard are nil for a store in memory; so is reserve, and where
	// the system has nothing of the kind.
	mark     *highWaterMark
	guard    *guard
	reserve  func() error
	versions *versions
	// commit calls a function that commits a transaction; tests let it fail.
	commit func(func() error) error
	// landed gets what became of the group that is on its way.
	landed chan error

	mu     sync.Mutex
	queue  []*operation
	closed bool
	halted atomic.Bool   // stopped is set
	wake   chan struct{} // holds a token when there is news in queue or closed
	done   chan struct{}
	// deleted holds a token when workspaces may have been deleted since it was
	// taken.
	deleted chan struct{}
	removed removals

	// The rest belongs to the goroutine.
	maxCount, maxSize int64
	sequence          uint64 // of the last commit
	stopped           error  // why nothing is written any more
	lastUpkeep        time.Time
	stage             records.Stage
	// flying is the group on its way to the disk, and next the one in the making.
	// Each may be nil.
	flying, next *group
}

func (c *committer) start() {
	c.commit = func(commit func() error) error { return commit() }
	c.wake = make(chan struct{}, 1)
	c.done = make(chan struct{})
	c.landed = make(chan error, 1)
	c.deleted = make(chan struct{}, 1)
	c.maxCount = c.db.MaxBatchCount() - spareCount
	c.maxSize = c.db.MaxBatchSize() - spareSize
	c.stage.Reset()
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
		waiting = slices.Delete(waiting, 0, c.fill(waiting))
		switch {
		case c.flying == nil && c.next != nil:
			c.launch(len(waiting) > 0)
		case c.flying != nil && len(waiting) > 0: // the next group is full
			c.land(<-c.landed)
		case c.flying != nil:
			select {
			case <-c.wake:
			case err := <-c.landed:
				c.land(err)
			}
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

// group is what goes into one transaction of Badger's.
type group struct {
	ops []*operation
	// snapshot is what was durable when the group was begun, and writes are those
	// of its operations, on top of those of the group before if that was not
	// durable then.
	snapshot *badgerdb.Txn
	at       *version
	writes   records.Layer
	change   *domain.Change // while it is flying
	removed  int64          // bytes, while it is flying
	// count and size are what Badger reckons against its limits.
	count, size int64
	// full says that there was no room for the operation that came next.
	full bool
	// err says that what the group was built on has failed.
	err error
}

// fail makes all of a group fail, which was built on what did.
func (g *group) fail(err error) {
	g.err = cmp.Or(g.err, untried(err))
	for _, op := range g.ops {
		op.tied = true
	}
}

// untried returns err, the failure of another operation, as that of one that was not
// tried for it.
func untried(err error) error { return fmt.Errorf("%w: %w", errUnavailable, err) }

// begin begins a group on top of one that is not on its way yet, if there is one.
// None may be: Badger would wait until it has landed.
func (c *committer) begin(below *records.Layer) *group {
	txn, at := c.versions.latest()
	return &group{
		snapshot: txn, at: at,
		writes: records.Layer{Writes: make(map[string]records.Write), Below: below},
	}
}

func (c *committer) release(g *group) {
	discard(g.snapshot)
	c.versions.release(g.at)
}

// fill applies operations from the front of ops to the next group, as many as go
// into it. It returns how many there were.
func (c *committer) fill(ops []*operation) (n int) {
	for n < len(ops) {
		if c.next == nil {
			c.next = c.begin(nil) // so nothing is flying
		}
		if len(c.next.ops) == maxGroup || c.next.full {
			break
		}
		if !c.apply(c.next, ops[n]) {
			c.next.full = true
			break
		}
		c.next.ops = append(c.next.ops, ops[n])
		n++
	}
	return n
}

// apply runs op on top of the group and adds its writes when fn succeeded. It
// returns false, with all as if op had never run, when there was no room.
func (c *committer) apply(g *group, op *operation) bool {
	if c.stopped != nil {
		op.err = untried(c.stopped)
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
	c.stage.Below = &g.writes
	defer c.stage.Reset()
	t := records.NewTx(snapshot{g.snapshot}, &c.stage)
	op.err = guarded(func() error { return t.Run(op.fn) })
	if op.err != nil {
		return true
	}
	count, size := reckon(&c.stage)
	switch {
	case count > c.maxCount || size > c.maxSize:
		op.err = fmt.Errorf("%w: a change of %d records and %d bytes is more than one transaction holds", domain.ErrTooLarge, count, size)
		return true
	case g.count+count > c.maxCount || g.size+size > c.maxSize:
		return false
	}
	op.tied = op.tied || count > 0
	g.count, g.size = g.count+count, g.size+size
	maps.Copy(g.writes.Writes, c.stage.Writes)
	return true
}

// launch commits the next group, and waits for that unless others may come
// meanwhile.
func (c *committer) launch(busy bool) {
	g := c.next
	c.flying, c.next = g, nil
	c.release(g)
	g.writes.Below = nil // durable, or the reason of g.err
	if c.stopped != nil {
		g.fail(c.stopped)
	}
	if g.err == nil && g.count > 0 {
		g.err = c.prepare()
	}
	if g.err != nil || g.count == 0 {
		c.answer(g.err)
		return
	}
	landed := c.versions.landed()
	txn, number := c.db.NewTransactionAt(landed, true), records.CommitWrite(c.sequence+1)
	g.removed = removedSize(txn, &g.writes)
	if err := cmp.Or(writeTo(txn, &g.writes), txn.Set(number.Key, number.Record)); err != nil {
		txn.Discard()
		c.answer(err) // nothing was written
		return
	}
	// From now on readers may see it, and whoever keeps what was read before has to
	// know.
	g.change = c.stamps.Change()
	for _, w := range g.writes.Writes {
		w.Key.Changes(g.change)
	}
	g.change.Begin()
	write := func() error {
		defer txn.Discard()
		return guarded(func() error {
			return c.commit(func() error { return txn.CommitAt(landed+1, nil) })
		})
	}
	if len(g.ops) == 1 && !busy {
		c.land(write())
		return
	}
	c.next = c.begin(&g.writes)
	go func() { c.landed <- write() }()
}

// land takes note of what became of the group on its way, ends its change and
// answers its operations. After an error that leaves it open whether it is durable
// nothing is written any more: Badger shows such writes to readers though they may be
// gone after a restart.
func (c *committer) land(err error) {
	if err == nil {
		c.versions.land(c.versions.landed() + 1)
	}
	c.flying.change.End() // before anyone is told of it
	if errors.Is(err, badgerdb.ErrTxnTooBig) {
		c.answer(fmt.Errorf("%w: %w", domain.ErrTooLarge, err)) // found before anything was written
		return
	}
	deleted := false
	for _, w := range c.flying.writes.Writes {
		deleted = deleted || w.Key.Kind() == records.KindDeleted
	}
	if err != nil {
		c.stop(err)
		c.answer(c.stopped)
		return
	}
	c.sequence++
	c.removed.add(c.flying.removed, time.Now())
	if deleted {
		signal(c.deleted)
	}
	if err := c.mark.set(c.sequence); err != nil {
		// The group is safe, but a disk that refuses this is not to be trusted.
		c.stop(err)
	}
	c.answer(nil)
}

// stop ends writing.
func (c *committer) stop(err error) {
	c.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
	c.halted.Store(true)
	c.logger.Error("a write failed and it is unknown whether it took effect: "+
		"writes are refused until the server is restarted; reads go on", zap.Error(err))
}

// answer answers the operations of the group on its way, which may have failed.
// Not before here: an operation may have failed because of what one before it
// wrote, which is only true once that is durable.
func (c *committer) answer(err error) {
	for _, op := range c.flying.ops {
		if err != nil && op.tied {
			op.err = err
		}
		op.answer <- op.err
	}
	c.flying = nil
	switch {
	case c.next == nil:
	case len(c.next.ops) == 0: // it shows what was before
		c.release(c.next)
		c.next = nil
	case err != nil:
		c.next.fail(err)
	}
}

// prepare sees to the space that a commit takes.
func (c *committer) prepare() error {
	if c.guard != nil {
		if err := c.guard.forWriting(); err != nil {
			return err
		}
	}
	if now := time.Now(); c.reserve != nil && now.Sub(c.lastUpkeep) >= upkeepInterval {
		if err := c.reserve(); err != nil {
			return fmt.Errorf("%w: a file cannot be created: %w", errUnavailable, err)
		}
		c.lastUpkeep = now
	}
	return nil
}

// writeTo adds the writes of a layer, and of none below it, to a transaction.
func writeTo(txn *badgerdb.Txn, l *records.Layer) error {
	for _, w := range l.Writes {
		var err error
		if w.Record == nil {
			err = txn.Delete(w.Key)
		} else {
			err = txn.SetEntry(&badgerdb.Entry{Key: w.Key, Value: w.Record, ExpiresAt: w.Expires})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reckon returns what Badger will count for the writes.
func reckon(s *records.Stage) (count, size int64) {
	for _, w := range s.Writes {
		count++
		size += int64(len(w.Key) + len(w.Record) + 2 + 10)
	}
	return count, size
}
