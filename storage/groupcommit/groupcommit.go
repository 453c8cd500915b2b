// Package groupcommit is the write path of all engines. One goroutine, the committer, takes
// the waiting operations and runs them in order on top of the last known state. The engine
// commits their writes as one group. So many writers share one flush or one request, and a
// lone writer waits for nobody.
//
// While a group is in flight, the next one is gathered on top of its writes. They are not
// durable yet. If they fail, the operations of the next group run again. No operation is
// answered before its group is committed.
package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// MaxTries is the number of tries of an operation before it fails with
	// domain.ErrConflict.
	MaxTries = 64
	// maxMisses is the number of times that an operation lets others go first while its
	// records are fetched. After that they wait for it.
	maxMisses = 16
)

// operation is one call of Update.
type operation struct {
	ctx     context.Context
	fn      func(*records.Tx) error
	answer  chan error  // with room for the one answer
	claimed atomic.Bool // by the committer, or by a caller that gives up

	// The rest is the committer's own.
	begun  bool
	tries  int
	misses int
	err    error // of fn
	// dependsOnGroup is set if the operation wrote something or has seen writes of its
	// group. Then err is only valid once the group is committed.
	dependsOnGroup bool
}

// claim returns true to its first caller. Only that caller may settle the operation.
func (op *operation) claim() bool { return !op.claimed.Swap(true) }

// Committer runs operations and commits them in groups.
type Committer[S any] struct {
	engine    Engine[S]
	exclusive Exclusive[S] // the engine, or nil
	limits    Limits
	wake      chan struct{}  // holds a token when queue or closed has changed
	done      chan struct{}  // closed when run has ended
	commits   sync.WaitGroup // calls of Commit, also abandoned ones

	mu     sync.Mutex
	queue  []*operation
	closed bool

	// The rest belongs to the goroutine of run.
	stage    records.Stage
	waiting  []*operation // for a group
	next     *Group[S]    // being gathered; nil for none
	inFlight *Group[S]    // being committed; nil for none
	outcomes chan outcome[S]
}

// outcome is the result of a group's commit.
type outcome[S any] struct {
	state S
	err   error
}

// New returns a Committer, which runs until Close.
func New[S any](e Engine[S], l Limits) *Committer[S] {
	c := &Committer[S]{
		engine: e, limits: l, wake: make(chan struct{}, 1), done: make(chan struct{}), outcomes: make(chan outcome[S], 1),
	}
	c.exclusive, _ = e.(Exclusive[S])
	go c.run()
	return c
}

// Update runs fn and makes its writes durable, like that of domain.Store. fn may run several
// times, on another goroutine. Once fn has begun, Update waits for the outcome, even if ctx
// ends. So the caller may use the variables that fn captured when Update returns. After Close
// it returns domain.ErrClosed.
func (c *Committer[S]) Update(ctx context.Context, fn func(*records.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{ctx: ctx, fn: fn, answer: make(chan error, 1)}
	if !c.push(op) {
		return domain.ErrClosed
	}
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

// push queues an operation, unless the committer is closed.
func (c *Committer[S]) push(op *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, op)
	Signal(c.wake)
	return true
}

// Close refuses later operations. The committer ends after the queued ones. Close does not
// wait for that: see Wait.
func (c *Committer[S]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	Signal(c.wake)
}

// Wait waits, after Close, for the queued operations and for all calls of Commit.
func (c *Committer[S]) Wait() {
	<-c.done
	c.commits.Wait()
}

// Signal puts a token into a channel with room for one, unless there is one already.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run runs operations until the committer is closed.
func (c *Committer[S]) run() {
	for {
		closed := c.take()
		c.gather()
		switch {
		case c.inFlight == nil && c.next != nil:
			c.launch()
		case c.inFlight == nil && closed:
			close(c.done)
			return
		case c.inFlight != nil && len(c.waiting) > 0: // the next group is full
			c.finish(<-c.outcomes)
		default:
			select {
			case <-c.wake:
			case o := <-c.outcomes:
				c.finish(o)
			}
		}
	}
}

// take moves the queued operations to the end of the waiting ones. It reports whether the
// committer is closed.
func (c *Committer[S]) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, c.queue...)
	clear(c.queue)
	c.queue = c.queue[:0]
	return c.closed
}

// launch commits the next group.
func (c *Committer[S]) launch() {
	g := c.next
	c.next, c.inFlight = nil, g
	g.layer.Below = nil // the group below is committed
	if c.exclusive != nil && len(g.Writes) == 0 {
		c.finish(outcome[S]{state: g.Base})
		return
	}
	c.commits.Go(func() { c.commit(g) })
}

// commit lets the engine commit a group, and reports the outcome. If an exclusive engine takes too
// long, the outcome is that of abandoning the group.
func (c *Committer[S]) commit(g *Group[S]) {
	if c.exclusive == nil {
		state, err := c.engine.Commit(g)
		c.outcomes <- outcome[S]{state, err}
		return
	}
	c.exclusive.Admit(g)
	var settled atomic.Bool
	watchdog := time.AfterFunc(c.exclusive.Patience(), func() {
		if !settled.Swap(true) {
			c.outcomes <- outcome[S]{err: c.exclusive.Abandon(g)}
		}
	})
	state, err := c.engine.Commit(g)
	watchdog.Stop()
	if !settled.Swap(true) {
		c.outcomes <- outcome[S]{state, err}
	}
}

// finish answers the operations of the group in flight, or puts them back. If the group was
// committed, the next one stays as it is. Otherwise the next one is gathered again, because
// its operations have seen writes that were not made.
func (c *Committer[S]) finish(o outcome[S]) {
	g := c.inFlight
	c.inFlight = nil
	switch {
	case o.err == nil:
		if c.next != nil {
			c.next.Base = o.state
		}
		for _, op := range g.ops {
			op.answer <- op.err
		}
	case errors.Is(o.err, ErrOvertaken):
		again := g.ops[:0]
		for _, op := range g.ops {
			if op.tries++; op.tries < MaxTries {
				again = append(again, op)
			} else {
				op.answer <- domain.ErrConflict
			}
		}
		c.putBack(again)
	default:
		for _, op := range g.ops {
			if c.exclusive != nil && !op.dependsOnGroup {
				op.answer <- op.err
			} else {
				op.answer <- o.err
			}
		}
		c.putBack(nil)
	}
}

// putBack puts operations back at the head of the queue. Those of the next group follow
// them, before all that wait.
func (c *Committer[S]) putBack(ops []*operation) {
	ops = slices.Clip(ops)
	if c.next != nil {
		ops = append(ops, c.next.ops...)
		c.next = nil
	}
	c.waiting = append(ops, c.waiting...)
}
