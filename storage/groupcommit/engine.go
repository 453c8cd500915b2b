package groupcommit

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrOvertaken is returned by Engine.Commit if another commit followed a group's Base. The
// group's operations are then run again, on top of the state that Begin returns.
var ErrOvertaken = errors.New("another commit came first")

// Engine stores groups. S is a state of the store, between two commits. Begin and Snapshot
// are called by one goroutine at a time, and so is Commit. Snapshot is also called while
// Commit runs.
type Engine[S any] interface {
	// Begin returns the last known state. It is not called while a commit is in flight. The
	// operation that wanted to begin gets the error, and its function does not run.
	Begin() (S, error)
	// Snapshot returns the content of a state, for one run of a function. The state is the
	// last one or the one before.
	Snapshot(of S, r Run) records.Snapshot
	// Commit makes the writes of a group durable, all or none, if the store is still in
	// state g.Base. It returns the state after it. Without writes, it checks that g.Base
	// was the last state at a moment after Begin returned it.
	//
	// After ErrOvertaken, and errors with domain.ErrUnavailable or
	// domain.ErrTooLarge in their chain, nothing was or will be written. After any other
	// error the outcome is unknown, and Begin returns only states in which it is known.
	// Commit returns in a bounded time even if the disk or the network fails, unless the
	// engine is Exclusive.
	Commit(g *Group[S]) (S, error)
}

// Exclusive is an Engine of a store without other writers. The state that Begin returns
// stays the last one until the next Commit. So a group without writes is not committed. A
// lone operation is committed without a change of goroutines.
type Exclusive[S any] interface {
	Engine[S]
	// Admit waits until the engine wants to take a group, which it does in any case. It is called
	// before each Commit, on the same goroutine. Patience does not bound it.
	Admit(g *Group[S])
	// Patience is the maximum duration of Commit.
	Patience() time.Duration
	// Abandon returns the answer to a group whose Commit takes longer. The errors mean the
	// same as those of Commit. When Commit returns later, its result is ignored. Until
	// then Begin fails.
	Abandon(g *Group[S]) error
}

// Run is how a function is run.
type Run struct {
	// Context is the operation's context.
	Context context.Context
	// Wait is set if the Snapshot must wait for records that are not in memory. Otherwise
	// a Snapshot that is also a Fetcher may abandon the run.
	Wait bool
}

// Fetcher is a Snapshot that keeps part of the store in memory.
type Fetcher interface {
	// Fetch reads the record into memory for which the run was abandoned.
	Fetch() error
}

// Group has the writes of several operations. They are committed together.
type Group[S any] struct {
	// Base is the state that the writes build on.
	Base S
	// Writes are the records to write, by key. They are not changed any more.
	Writes map[string]records.Write
	// Tries is the highest number of tries of any of its operations.
	Tries int
	// FromReserve is set if the contexts of all its operations are of domain.FromReserve.
	FromReserve bool

	ops   []*operation
	from  S // the state that its operations read, with layer.Below on top
	layer records.Layer
	size  int64
	full  bool // there was no room for the next operation
}

// Limits bound what goes into a group.
type Limits struct {
	// Operations is the maximum number of operations of a group, 0 for any number. It
	// bounds the time that the first of them waits for the others.
	Operations int
	// Writes is the maximum number of records that a group or an operation writes.
	Writes int
	// GroupSize and OperationSize are the maximum numbers of bytes that they write. A group
	// of one operation may be larger than GroupSize.
	GroupSize, OperationSize int64
	// WriteCost is the size of a write besides its key and its record, in bytes.
	WriteCost int64
}

// SizeOf returns the size of writes in bytes, as GroupSize and OperationSize count it.
func (l Limits) SizeOf(writes map[string]records.Write) (size int64) {
	for _, w := range writes {
		size += int64(len(w.Key)+len(w.Record)) + l.WriteCost
	}
	return size
}
