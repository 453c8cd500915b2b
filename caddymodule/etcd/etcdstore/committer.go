package etcdstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// maxWrites is how many records a commit writes at most. A transaction of etcd's takes
	// 128 operations, unless it was configured otherwise; some of them can be
	// transactions, which take what the number of those leaves.
	maxWrites = maxParts * maxParts
	maxParts  = 63
	// maxGuesses is how many keys a commit requires to have no record. Conditions leave
	// less for the transactions inside, too.
	maxGuesses = maxParts
	// maxRequest is what etcd accepts in one request, in bytes, unless it was
	// configured otherwise, and maxGroup what is sent at once if it is more than one
	// operation.
	maxRequest = 3 << 19
	maxGroup   = 1 << 20
	// writeCost is what a write takes besides its key and its record, and spareSize
	// what a request takes besides its writes.
	writeCost, spareSize = 32, 4 << 10

	// maxTries is how often an operation is tried before it is in conflict, and
	// modestTries before other nodes are asked to let this one go first, which they do
	// for as long as two tries of its take, within courtesy. Otherwise one that is nearer
	// to the leader always would be.
	maxTries    = 64
	modestTries = 3
	courtesy    = time.Second

	// maxMisses is how often an operation gives way to others while what it reads is
	// fetched, before they wait for that.
	maxMisses = 16
)

// operation is one call of Update.
type operation struct {
	ctx     context.Context
	fn      func(*records.Tx) error
	answer  chan error  // with room for the one answer
	claimed atomic.Bool // by whoever was first, the committer or a caller that gives up

	// The rest is the committer's own.
	begun  bool
	tries  int
	misses int  // of records in memory
	sure   bool // neither it nor what it shares a transaction with may guess
	err    error
}

// claim decides who settles the operation: it returns true once.
func (op *operation) claim() bool { return !op.claimed.Swap(true) }

// committer is the one goroutine of a node that writes. It takes the operations that
// wait, applies them in order to what was stored at the last commit that is known, and
// sends what they wrote as one transaction, on the condition that this commit still
// is the last. When it is not, another node was first, and all of it is done again.
// An operation that reads what is not in memory is put back until that has been fetched.
type committer struct {
	store *Store
	wake  chan struct{} // holds a token when there is news in queue or closed
	done  chan struct{}

	// These are the goroutine's own.
	stage   records.Stage
	waiting []*operation  // for a group
	next    *group        // is being gathered, on top of flying if that is there; nil for none
	flying  *group        // was sent; nil for none
	landed  chan landing  // has what became of flying
	alone   int           // how many operations are to go into a transaction of their own
	took    time.Duration // how long the last try took that was overtaken

	id        uuid.UUID                 // of this node
	proposed  atomic.Pointer[uuid.UUID] // the commit that was, last
	asked     atomic.Int64              // by another node, to let it go first: for how long, 0 for not
	overtaken atomic.Int64
	refused   atomic.Bool // the last change

	mu     sync.Mutex
	queue  []*operation
	closed bool
}

func newCommitter(s *Store) *committer {
	return &committer{store: s, id: uuid.New(), wake: make(chan struct{}, 1), done: make(chan struct{}), landed: make(chan landing, 1)}
}

// update queues an operation and waits for its outcome.
func (c *committer) update(ctx context.Context, fn func(*records.Tx) error) error {
	if err := c.store.watcher.away(); err != nil {
		return err
	}
	op := &operation{ctx: ctx, fn: fn, answer: make(chan error, 1)}
	c.push(op)
	select {
	case err := <-op.answer:
		return err
	case <-ctx.Done():
		if op.claim() {
			return ctx.Err() // it had not begun, and never will
		}
		return <-op.answer
	}
}

func (c *committer) push(op *operation) {
	c.mu.Lock()
	c.queue = append(c.queue, op)
	c.mu.Unlock()
	signal(c.wake)
}

// fetch reads into memory what an operation missed there, so that others need not wait
// for it, and queues the operation again.
func (c *committer) fetch(op *operation, key string) {
	last := c.store.model.latest()
	on := &snapshot{ctx: op.ctx, store: c.store, last: last, revision: last.revision}
	if _, err := on.fetch(key); err != nil {
		op.answer <- err
		return
	}
	c.push(op)
}

// signal puts a token into a channel that holds one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // the last one has not been taken yet
	}
}

// close ends the goroutine when all that is queued is done.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	signal(c.wake)
	<-c.done
}

func (c *committer) run() {
	defer close(c.done)
	for {
		c.mu.Lock()
		c.waiting = append(c.waiting, c.queue...)
		c.queue = nil
		closed := c.closed
		c.mu.Unlock()
		c.gather()
		switch {
		case c.flying == nil && c.next != nil:
			c.launch()
		case c.flying == nil && closed:
			return
		default:
			select {
			case <-c.wake:
			case l := <-c.landed:
				c.land(l)
			}
		}
	}
}

// landing is what became of a group: the commit that it was, or an error and the last
// commit that is known.
type landing struct {
	commit commit
	err    error
}

// launch sends the next group.
func (c *committer) launch() {
	g := c.next
	if err := c.store.watcher.reachable(); err != nil {
		c.next = nil
		answer(g.ops, err)
		return
	}
	if patience := time.Duration(c.asked.Swap(0)); patience > 0 && tries(g.ops) <= modestTries {
		_ = within(c.store.ctx, min(patience, courtesy), func(ctx context.Context) error {
			return c.store.model.wait(ctx, g.base.revision+1)
		})
		c.again(nil)
		return
	}
	c.next, c.flying = nil, g
	g.writes.Below, g.sent, g.took = nil, time.Now(), c.took
	go func() {
		made, err := c.send(g)
		c.landed <- landing{made, err}
	}()
}

// land answers the operations of the group that was flying, or puts them back. The next
// group, which is on top of it, is gathered again unless that has become a commit.
func (c *committer) land(l landing) {
	g := c.flying
	c.flying = nil
	switch {
	case l.err == nil:
		if c.next != nil {
			c.next.base = l.commit
		}
		for _, op := range g.ops {
			op.answer <- op.err
		}
	case errors.Is(l.err, domain.ErrTooLarge) && len(g.ops) > 1:
		c.alone = len(g.ops) // etcd was configured to take less at once
		c.again(g.ops)
	case errors.Is(l.err, errGuessed):
		for _, op := range g.ops {
			op.sure = true
		}
		c.again(g.ops)
	case errors.Is(l.err, errOvertaken):
		c.overtaken.Add(1)
		again := g.ops[:0]
		for _, op := range g.ops {
			if op.tries++; op.tries >= maxTries {
				op.answer <- domain.ErrConflict
				continue
			}
			again = append(again, op)
		}
		if err := c.catchUp(g.base, l.commit, again); err != nil {
			answer(again, err)
			again = nil
		}
		c.took = time.Since(g.sent)
		c.again(again)
	default:
		answer(g.ops, l.err)
		c.again(nil)
	}
}

// again puts operations back, and those of the next group behind them.
func (c *committer) again(ops []*operation) {
	ops = slices.Clip(ops)
	if c.next != nil {
		ops = append(ops, c.next.ops...)
		c.next = nil
	}
	c.waiting = append(ops, c.waiting...)
}

func answer(ops []*operation, err error) {
	for _, op := range ops {
		op.answer <- err
	}
}

// ask takes note of a node, which can be this one, that asks others to let it go first.
func (c *committer) ask(record []byte) {
	if len(record) == len(c.id)+8 && !bytes.HasPrefix(record, c.id[:]) {
		c.asked.Store(int64(binary.BigEndian.Uint64(record[len(c.id):])))
	}
}

// tries returns how often the operations were tried that were so most often.
func tries(ops []*operation) (most int) {
	for _, op := range ops {
		most = max(most, op.tries)
	}
	return most
}

// errOvertaken is returned when another node committed first.
var errOvertaken = errors.New("another commit came first")

// errGuessed is returned when a guess was wrong, or may have been: without it there might
// have been nothing to store.
var errGuessed = errors.New("something that was taken for granted is not so")

// send commits a group. When another commit came first, it returns the last one that is
// known.
func (c *committer) send(g *group) (latest commit, err error) {
	if len(g.writes.Writes) == 0 {
		return c.confirm(g)
	}
	latest, err = c.commit(g)
	// What etcd refuses it refuses before it looks at conditions.
	if len(g.guesses) > 0 && (errors.Is(err, domain.ErrUnavailable) || errors.Is(err, errOvertaken) && latest == g.base) {
		err = errGuessed
	}
	return latest, err
}

// commit is send for a group that writes something.
func (c *committer) commit(g *group) (latest commit, err error) {
	s := c.store
	// All that it takes to make the commit, or to find out whether it was made.
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	next := g.base.next()
	ops, changes, err := c.operations(ctx, g, &next)
	if err != nil {
		return latest, err
	}
	change := s.stamps.Change()
	for _, w := range g.writes.Writes {
		w.Key.Changes(change)
	}
	change.Begin()
	end := change.End
	defer func() { end() }()
	p := proposal{base: g.base, next: next, vacant: g.guesses, ops: ops}
	if tries(g.ops) >= modestTries {
		p.urgent = 2 * g.took
	}
	id := next.id // next changes below
	c.proposed.Store(&id)
	made, response, err := c.decide(ctx, p)
	switch {
	case err == nil && response.Succeeded && made.id == next.id:
		c.tell(nil)
		next.revision = response.Header.Revision
	case err == nil && response.Succeeded: // a fence
		made.revision = response.Header.Revision
		s.model.apply(nil, made.revision, &made, true)
		return made, errOvertaken
	case err == nil:
		if next, err = c.resolve(ctx, next, response); err != nil {
			return next, err
		}
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.leases.forget()
		return g.base, errOvertaken // all again, with another
	case errors.Is(err, rpctypes.ErrNoSpace):
		c.tell(err)
		if next, err = c.stored(ctx, g.base, next, err); err != nil {
			return next, err
		}
	case refused(err):
		end = change.Cancel
		reason := refusal(err)
		if errors.Is(reason, domain.ErrUnavailable) {
			c.tell(err)
		}
		return latest, fmt.Errorf("%w: etcd: %w", reason, err)
	default:
		return latest, err
	}
	s.model.apply(changes, next.revision, &next, true)
	for _, w := range g.writes.Writes {
		if w.Key.Kind() == records.KindDeleted {
			signal(s.deleted)
		}
	}
	return next, nil
}

// stored finds out whether etcd has made a commit of which it said that it has no space for
// it: the first such answers are to changes that it makes. The error is nil if it has.
func (c *committer) stored(ctx context.Context, base, refused commit, cause error) (commit, error) {
	latest, _, err := c.store.lastCommit(ctx)
	switch {
	case err != nil:
		return latest, fmt.Errorf("%w: %w: %s", errUnknown, cause, err) //nolint:errorlint // it is not unavailable
	case latest.id == refused.id:
		return latest, nil
	case latest.revision != base.revision:
		latest, err = c.lookUp(ctx, refused, latest)
		if !errors.Is(err, errOvertaken) {
			return latest, err
		}
	}
	return latest, fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, cause)
}

// tell tells the operator when etcd begins to refuse changes, and when it takes them
// again.
func (c *committer) tell(err error) {
	switch logger := c.store.logger; {
	case c.refused.Swap(err != nil) == (err != nil):
	case errors.Is(err, rpctypes.ErrNoSpace):
		logger.Error("writes are refused: etcd's database has reached its quota; reads go on. "+
			"Compact and defragment it, or raise the quota, and disarm the alarm", zap.Error(err))
	case err != nil:
		logger.Error("writes are refused by etcd", zap.Error(err)) // reads may be as well, as where a user has lost all rights
	default:
		logger.Warn("writes are accepted again")
	}
}

// refusal is what etcd's refusal of a change means to whoever made it.
func refusal(err error) error {
	// gRPC refuses what is even larger before etcd sees it.
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || errors.Is(err, rpctypes.ErrTooManyOps) || strings.Contains(err.Error(), "message larger than max") {
		return domain.ErrTooLarge
	}
	return domain.ErrUnavailable
}

// confirm makes sure that what the operations of a group saw, none of which wrote
// anything, is what they had to see.
func (c *committer) confirm(g *group) (commit, error) {
	latest, _, err := c.store.lastCommit(c.store.ctx)
	if err == nil && latest != g.base {
		err = errOvertaken
	}
	return latest, err
}

// catchUp waits until the commits of others are known that overtook operations. Those
// that were overtaken before wait a little longer, each for another while. It returns an
// error when those commits do not arrive.
func (c *committer) catchUp(base, latest commit, ops []*operation) error {
	if latest.contradicts(base) {
		return c.store.restored()
	}
	if err := c.store.await(c.store.ctx, latest.revision); err != nil {
		return err
	}
	switch n := tries(ops); {
	case n > modestTries:
		// Whoever was asked to let this one go first may have sent one more before.
		time.Sleep(min(c.took, courtesy) / 4)
	case n > 2:
		time.Sleep(rand.N(time.Duration(n) * time.Millisecond)) //nolint:gosec // no secret
	}
	return nil
}
