package groupcommit

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrOvertaken is what Engine.Commit returns when something was committed since a group's
// Base. The group's operations are then run again, on top of what Begin returns.
var ErrOvertaken = errors.New("another commit came first")

// ErrGuessed is what Engine.Commit returns when one of a group's Guesses was wrong. The
// group's operations are then run again, without guesses.
var ErrGuessed = errors.New("a key that was taken to have no record has one")

// Engine stores groups. S is a state of the store, between two commits. Begin and Snapshot
// are called by one goroutine at a time, and so is Commit. Snapshot is also called while
// Commit runs.
type Engine[S any] interface {
	// Begin returns the last state that is known. It is not called while a commit is in
	// flight. An error is the answer to the operation that wanted to begin; its function
	// does not run.
	Begin() (S, error)
	// Snapshot returns what is stored in a state, to be read by one run of a function.
	// It is asked for while the state is the last one, or the one before.
	Snapshot(of S, r Run) records.Snapshot
	// Commit makes the writes of a group durable, all or none, provided that the store
	// still is in state g.Base, and returns the state after it. If the group has no
	// writes it makes sure that g.Base is, or was, the last state since Begin returned it.
	//
	// ErrOvertaken, ErrGuessed and errors with domain.ErrUnavailable or domain.ErrTooLarge in their
	// chain say that nothing was or will be written. After any other error the outcome is
	// unknown, and Begin returns only states in which it is known. Commit returns in a
	// bounded time, whatever becomes of the disk or the network, unless the engine is
	// Exclusive.
	Commit(g *Group[S]) (S, error)
}

// Exclusive is an Engine of a store to which nobody else writes. The state that Begin returns
// stays the last one until the next Commit, so a group without writes is not committed. A
// lone operation is committed without a change of goroutines.
type Exclusive[S any] interface {
	Engine[S]
	// Patience is how long Commit may take.
	Patience() time.Duration
	// Abandon returns the answer to a group whose Commit takes longer. The errors mean the
	// same as those of Commit. Commit may return at any time, and its result is ignored.
	// Until it returns, Begin fails.
	Abandon(g *Group[S]) error
}

// Run is how a function is run.
type Run struct {
	// Context is that of the operation.
	Context context.Context
	// Wait is set when the Snapshot has to wait for what is not in memory. Otherwise one
	// that is also a Fetcher may abandon the run.
	Wait bool
	// Guesses is how many guesses a Snapshot may make that is also a Guesser.
	Guesses int
}

// Guesser is a Snapshot that takes it for granted that some keys have no record, which
// saves a read of each. Commit has to make sure of that: see ErrGuessed.
type Guesser interface {
	records.Guesser
	// Guesses returns the keys that the run took to have no record.
	Guesses() []string
}

// Fetcher is a Snapshot that keeps part of what is stored in memory.
type Fetcher interface {
	// Fetch reads into memory what the run lacked that ended with records.ErrAbandoned.
	Fetch() error
}

// Group is the writes of several operations, which are committed together.
type Group[S any] struct {
	// Base is the state on top of which the writes are made.
	Base S
	// Writes are the records to write, by key. They are not changed any more.
	Writes map[string]records.Write
	// Guesses are keys that must not have a record in Base.
	Guesses []string
	// Tries is how often the operation was tried that was tried most often.
	Tries int

	ops   []*operation
	from  S // the state that its operations read, with layer.Below on top
	layer records.Layer
	size  int64
	sure  bool // no operation may guess
	full  bool // there was no room for the next operation
}

// Limits bound what goes into a group.
type Limits struct {
	// Operations is how many go into a group, 0 for any number. It bounds how long the
	// first of them waits for the others.
	Operations int
	// Writes is how many records a group or an operation may write.
	Writes int
	// GroupSize and OperationSize are how many bytes they may write. A group of one
	// operation may be larger than GroupSize.
	GroupSize, OperationSize int64
	// Guesses is how many keys a group may require to have no record.
	Guesses int
	// WriteCost is what a write counts besides its key and its record, in bytes.
	WriteCost int64
}
