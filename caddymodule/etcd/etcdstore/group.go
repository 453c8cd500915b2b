package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// group is operations that go into one transaction, on top of one commit.
type group struct {
	base    commit // of a group on top of one that is flying, the commit below that
	on      *snapshot
	ops     []*operation
	writes  records.Layer
	guesses []string // keys that must not have a record yet
	sure    bool     // there may be no guesses
	size    int
	full    bool
	sent    time.Time
	took    time.Duration // as the committer's
}

// gather applies operations that wait, as many as go into one transaction.
func (c *committer) gather() {
	for i, op := range c.waiting {
		if c.next != nil && c.next.full {
			c.waiting = c.waiting[i:]
			return
		}
		if !op.begun && !op.claim() {
			continue // its caller has gone; nobody reads the answer
		}
		op.begun = true
		if c.next == nil {
			c.next = c.newGroup()
		}
		g := c.next
		if op.sure && len(g.guesses) > 0 {
			g.full = true
			c.waiting = c.waiting[i:]
			return
		}
		g.on.ctx, g.on.hasty, g.on.guesses, g.on.room = op.ctx, op.misses < maxMisses, nil, 0
		if g.sure = g.sure || op.sure; !g.sure {
			g.on.room = maxGuesses
		}
		if op.err = op.ctx.Err(); op.err == nil && !c.add(g, op) {
			g.full = true
			c.waiting = c.waiting[i:]
			return
		}
		if errors.Is(op.err, records.ErrAbandoned) {
			op.misses++
			go c.fetch(op, g.on.missed)
			continue
		}
		g.ops = append(g.ops, op)
		if c.alone > 0 {
			c.alone--
			g.full = true
		}
	}
	c.waiting = nil
	if c.next != nil && len(c.next.ops) == 0 {
		c.next = nil
	}
}

// newGroup returns an empty group on top of the one that is flying, or of the last commit.
func (c *committer) newGroup() *group {
	g := &group{writes: records.Layer{Writes: make(map[string]records.Write)}}
	if c.flying != nil {
		g.base, g.writes.Below = c.flying.base, &c.flying.writes
	} else {
		g.base = c.store.model.latest()
	}
	g.on = &snapshot{last: g.base, revision: g.base.revision, store: c.store}
	return g
}

// add runs an operation on top of a group and adds its writes when fn succeeded. It
// returns false, with all as if it had not run, when there was no room.
func (c *committer) add(g *group, op *operation) bool {
	op.err = c.try(g, op)
	if len(g.on.guesses) > 0 && (len(c.stage.Writes) == 0 || op.err != nil) && !errors.Is(op.err, records.ErrAbandoned) {
		// This may come of a guess, of which no commit would make sure.
		g.on.guesses, g.on.room = nil, 0
		op.err = c.try(g, op)
	}
	if op.err != nil {
		return true
	}
	count, size := len(c.stage.Writes), spareSize
	for _, w := range c.stage.Writes {
		size += len(c.store.prefix) + len(w.Key) + len(w.Record) + writeCost
	}
	switch {
	case count > maxWrites || size > maxRequest:
		op.err = fmt.Errorf("%w: a change of %d records and %d bytes is more than one transaction of etcd's holds", domain.ErrTooLarge, count, size)
		return true
	case len(g.guesses)+len(g.on.guesses) > maxGuesses || len(g.writes.Writes)+count > maxWrites || g.size+size > maxGroup && g.size > 0:
		return false
	}
	g.size += size
	g.guesses = append(g.guesses, g.on.guesses...)
	maps.Copy(g.writes.Writes, c.stage.Writes)
	return true
}

// try runs an operation on top of what was stored and of a group, and leaves what it
// writes in the stage. The error tells of a panic in it.
func (c *committer) try(g *group, op *operation) (err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case records.ErrAbandoned:
			err = records.ErrAbandoned
		default:
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	c.stage.Reset()
	c.stage.Below = &g.writes
	return records.NewTx(g.on, &c.stage).Run(op.fn)
}

// operations returns what a group asks of etcd for its commit, and what changes with it.
func (c *committer) operations(ctx context.Context, g *group, next *commit) (ops []clientv3.Op, changes []change, err error) {
	ops, changes = make([]clientv3.Op, 0, len(g.writes.Writes)), make([]change, 0, len(g.writes.Writes))
	for k, w := range g.writes.Writes {
		changes = append(changes, change{k, w.Record})
		var op clientv3.Op
		if w.Record == nil {
			op = clientv3.OpDelete("")
			// What was written within the group may never have been stored.
			if record, known := c.store.model.get(k, g.base.revision, g.base.revision); known && record != nil {
				next.removed++
			}
		} else {
			var options []clientv3.OpOption
			if w.Expires != 0 {
				lease, err := c.store.leases.until(ctx, w.Expires)
				if err != nil {
					if refused(err) {
						c.tell(err)
					}
					return nil, nil, err
				}
				options = append(options, clientv3.WithLease(lease))
			}
			op = clientv3.OpPut("", "", options...)
			op.WithValueBytes(w.Record) // which is not copied
		}
		op.WithKeyBytes(slices.Concat([]byte(c.store.prefix), w.Key))
		ops = append(ops, op)
	}
	return ops, changes, nil
}
