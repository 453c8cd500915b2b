package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// maxGroup is the maximum number of operations that share one commit. The first of them
	// waits until the others have run: some 4 ms, at 30 µs each. With 512 writers, groups
	// of 32 had half the throughput, and larger groups had no more.
	maxGroup = 128

	// upkeepInterval is how often at most the committer looks for files to reserve. A
	// write-ahead log lasts longer than that at any rate a disk was seen to sustain.
	upkeepInterval = 250 * time.Millisecond

	// diskPatience is how long a write waits for the disk.
	diskPatience = 5 * time.Second

	// spareCount and spareSize leave generous room in each transaction for an entry of
	// Badger's own and the commit's number. writeCost is the size of a write besides its key
	// and its value, as Badger counts it.
	spareCount, spareSize, writeCost = 8, 512, 12
)

// committer commits groups to Badger, one at a time: see groupcommit. It is the only
// writer, so it meets no conflicts.
type committer struct {
	db       *badgerdb.DB
	versions *versions
	stamps   *domain.Stamps
	logger   *zap.Logger
	groups   *groupcommit.Committer[*badgerdb.Txn]
	// sequenceFile, guard and reserve are nil for a store in memory.
	sequenceFile *sequenceFile
	guard        *guard
	reserve      func() error
	backlog      backlog

	halted atomic.Bool // stopped is set
	// deleted holds a token when workspaces may have been deleted since it was taken.
	deleted chan struct{}
	closing context.Context // of the store

	phase  atomic.Int32 // of Commit
	silent atomic.Bool  // Commit was abandoned, and has not returned

	// The rest belongs to Commit, and to Begin while there is none.
	sequence   uint64 // of the last commit
	stopped    error  // why nothing is written any more
	lastUpkeep time.Time
}

func (c *committer) start() {
	c.deleted = make(chan struct{}, 1)
	c.groups = groupcommit.New(c, limitsOf(c.db))
}

// limitsOf returns what goes into a transaction of a database.
func limitsOf(db *badgerdb.DB) groupcommit.Limits {
	size := db.MaxBatchSize() - spareSize
	return groupcommit.Limits{
		Operations: maxGroup, Writes: int(db.MaxBatchCount() - spareCount), GroupSize: size, OperationSize: size, WriteCost: writeCost,
	}
}

var errSilent = fmt.Errorf("%w: the disk does not answer", errUnavailable)

// Begin implements groupcommit.Engine. It fails while a write is under way that has taken
// too long.
func (c *committer) Begin() (*badgerdb.Txn, error) {
	if c.phase.Load() != idle {
		return nil, errSilent
	}
	if c.stopped != nil {
		return nil, notAttempted(c.stopped)
	}
	return c.versions.read(), nil
}

// notAttempted returns the error of a write that was not attempted because an earlier one
// had failed with err.
func notAttempted(err error) error { return fmt.Errorf("%w: %w", errUnavailable, err) }

// Snapshot implements groupcommit.Engine.
func (c *committer) Snapshot(of *badgerdb.Txn, _ groupcommit.Run) records.Snapshot {
	return snapshot{of}
}

// The phases of a call of Commit. They tell whether Badger may have written anything.
const (
	idle int32 = iota
	preparing
	committing
	abandoned // it took too long to prepare, and will not be committed
)

// Commit implements groupcommit.Engine.
func (c *committer) Commit(g *groupcommit.Group[*badgerdb.Txn]) (*badgerdb.Txn, error) {
	c.phase.Store(preparing)
	err := c.write(g)
	c.phase.Store(idle) // before silent, for Abandon
	c.setAnswering()
	return c.versions.read(), err
}

// Patience implements groupcommit.Exclusive.
func (c *committer) Patience() time.Duration { return diskPatience }

// Abandon implements groupcommit.Exclusive. If Badger does not have the group yet, it never
// gets it. Otherwise the outcome is unknown until Commit returns.
func (c *committer) Abandon(*groupcommit.Group[*badgerdb.Txn]) error {
	c.logger.Error("the disk does not answer: writes are refused until it does; reads go on")
	c.silent.Store(true)
	if c.phase.CompareAndSwap(preparing, abandoned) {
		return errSilent
	}
	if c.phase.Load() == idle { // Commit has ended meanwhile
		c.setAnswering()
	}
	return fmt.Errorf("%w: the disk has not answered for %v", domain.ErrUnknown, diskPatience)
}

// setAnswering records that the disk has answered.
func (c *committer) setAnswering() {
	if c.silent.Swap(false) {
		c.logger.Warn("the disk answers again")
	}
}

// write makes the writes of a group durable, and has readers see them then.
func (c *committer) write(g *groupcommit.Group[*badgerdb.Txn]) error {
	if c.stopped != nil { // since the group began
		return notAttempted(c.stopped)
	}
	if err := c.prepare(g.FromReserve); err != nil {
		return err
	}
	if !c.phase.CompareAndSwap(preparing, committing) {
		return errSilent
	}
	version := c.versions.landed() + 1
	txn, number := c.db.NewTransactionAt(version-1, true), records.CommitWrite(c.sequence+1)
	defer txn.Discard()
	if err := cmp.Or(writeTo(txn, g.Writes), txn.Set(number.Key, number.Record)); err != nil {
		return err // nothing was written
	}
	// From now on readers may see the change, so copies of earlier reads become invalid.
	change := c.stamps.Change()
	for _, w := range g.Writes {
		w.Key.Changes(change)
	}
	change.Begin()
	defer change.End() // before anyone is answered
	if err := guarded(func() error { return txn.CommitAt(version, nil) }); err != nil {
		c.stop(err)
		return fmt.Errorf("%w: %w", domain.ErrUnknown, c.stopped)
	}
	c.versions.land(version)
	c.sequence++
	for _, w := range g.Writes {
		if w.Key.Kind() == records.KindDeleted {
			groupcommit.Signal(c.deleted)
		}
	}
	if err := c.sequenceFile.set(c.sequence); err != nil {
		// The group is safe, but a disk that refuses this is not to be trusted.
		c.stop(err)
	}
	return nil
}

// stop ends writing, after an error that does not tell whether a group is durable.
func (c *committer) stop(err error) {
	c.stopped = fmt.Errorf("%w: %w", ErrStopped, err)
	c.halted.Store(true)
	c.logger.Error("a write failed and it is unknown whether it took effect: "+
		"writes are refused until the server is restarted; reads go on", zap.Error(err))
}

// prepare checks that a commit has the space that it needs. It also writes to the file system
// with a system call, which waits if the file system is frozen. Badger writes through a memory
// map. A thread that waits there stops the whole process at its next garbage collection.
func (c *committer) prepare(fromReserve bool) error {
	if c.guard != nil {
		err := c.guard.checkWritesAllowed()
		if fromReserve && (errors.Is(err, ErrDiskFull) || errors.Is(err, errHeld)) {
			err = c.guard.useReserve()
		}
		if err != nil {
			return err
		}
	}
	if now := time.Now(); c.reserve != nil && now.Sub(c.lastUpkeep) >= upkeepInterval {
		if err := c.reserve(); err != nil {
			return fmt.Errorf("%w: a file cannot be created: %w", errUnavailable, err)
		}
		c.lastUpkeep = now
	}
	if err := c.sequenceFile.write(c.sequence); err != nil {
		return notAttempted(err)
	}
	return nil
}

// writeTo adds writes to a transaction.
func writeTo(txn *badgerdb.Txn, writes map[string]records.Write) error {
	for _, w := range writes {
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
