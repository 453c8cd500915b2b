package groupcommit

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// gather runs waiting operations, as many as fit into the next group.
func (c *Committer[S]) gather() {
	done := 0
	for _, op := range c.waiting {
		if !c.gatherOne(op) {
			break
		}
		done++
	}
	c.waiting = slices.Delete(c.waiting, 0, done)
	if c.next != nil && len(c.next.ops) == 0 {
		c.next = nil // all that was run was abandoned
	}
}

// gatherOne runs an operation as part of the next group. It returns false if the operation
// has to wait for another group.
func (c *Committer[S]) gatherOne(op *operation) bool {
	if c.next != nil && c.next.full {
		return false
	}
	if !op.begun && !op.claim() {
		return true // its caller has gone, and nobody reads the answer
	}
	op.begun = true
	if err := op.ctx.Err(); err != nil {
		op.answer <- err
		return true
	}
	if c.next == nil {
		if err := c.begin(); err != nil {
			op.answer <- err
			return true
		}
	}
	g := c.next
	if fromReserve := domain.IsFromReserve(op.ctx); len(g.ops) == 0 {
		g.FromReserve = fromReserve
	} else if g.FromReserve != fromReserve { // the disk may have space for one of them only
		g.full = true
		return false
	}
	op.dependsOnGroup = len(g.Writes) > 0
	snapshot := c.engine.Snapshot(g.from, Run{Context: op.ctx, Wait: op.misses >= maxMisses})
	op.err = c.runOn(snapshot, g, op)
	if errors.Is(op.err, records.ErrAbandoned) {
		op.misses++
		go c.fetch(op, snapshot)
		return true
	}
	if op.err == nil && !c.add(g, op) {
		g.full = true
		return false
	}
	g.ops = append(g.ops, op)
	g.Tries = max(g.Tries, op.tries)
	g.full = g.full || len(g.ops) == c.limits.Operations
	return true
}

// begin begins the next group, on top of the one in flight or of the last state.
func (c *Committer[S]) begin() error {
	g := &Group[S]{layer: records.Layer{Writes: make(map[string]records.Write)}}
	if c.inFlight != nil {
		g.from, g.layer.Below = c.inFlight.Base, &c.inFlight.layer
	} else {
		state, err := c.engine.Begin()
		if err != nil {
			return err
		}
		g.Base, g.from = state, state
	}
	g.Writes = g.layer.Writes
	c.next = g
	return nil
}

// runOn runs the function of an operation on top of a group. Its writes are in the stage then. A panic
// in it is an error. So is the fault of a read from a mapped file that was cut short.
func (c *Committer[S]) runOn(on records.Snapshot, g *Group[S], op *operation) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
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
	c.stage.Below = &g.layer
	defer func() { c.stage.Below = nil }() // or the group, and what its functions captured, would stay in memory
	return records.NewTx(on, &c.stage).Run(op.fn)
}

// fetch reads into memory the record that an operation missed there, and queues the
// operation again. Other operations do not wait for the read.
func (c *Committer[S]) fetch(op *operation, from records.Snapshot) {
	err := from.(Fetcher).Fetch()
	if err == nil && !c.push(op) {
		err = domain.ErrClosed
	}
	if err != nil {
		op.answer <- err
	}
}

// add adds the writes in the stage to a group. It returns false if the group has no room. If
// no group has room for them, the operation has an error.
func (c *Committer[S]) add(g *Group[S], op *operation) bool {
	count, size := len(c.stage.Writes), c.limits.SizeOf(c.stage.Writes)
	switch {
	case count > c.limits.Writes || size > c.limits.OperationSize:
		op.err = fmt.Errorf("%w: a change of %d records and %d bytes is more than one transaction holds", domain.ErrTooLarge, count, size)
		return true
	case len(g.Writes)+count > c.limits.Writes || g.size > 0 && g.size+size > c.limits.GroupSize:
		return false
	}
	op.dependsOnGroup = op.dependsOnGroup || count > 0
	g.size += size
	maps.Copy(g.Writes, c.stage.Writes)
	return true
}
