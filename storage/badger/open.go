package badger

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// memTableSize is the size of a memtable. A transaction may have 15 % of it, which holds the
// largest change. Up to numMemtables are flushed while one more is written to. Go's garbage
// collector lets as much again pile up.
const (
	memTableSize = 8 << 20
	numMemtables = 3
)

// valueThreshold is the length from which Badger puts a value into its value log. Badger
// does not report a failed flush of that log, so no record is that long.
const valueThreshold = records.MaxRecord + 1

func settings(folder string, o Options) badgerdb.Options {
	s := badgerdb.DefaultOptions(folder).
		WithSyncWrites(true).       // without it a power cut loses acknowledged commits
		WithDetectConflicts(false). // the committer is the only writer
		WithNumVersionsToKeep(1).
		WithMemTableSize(memTableSize).
		WithNumMemtables(numMemtables).
		WithNumCompactors(2).
		// A compaction of level 0 rewrites the level below. Twice the bytes of Badger's
		// default in level 0, and ten times its base level, write a quarter less.
		WithNumLevelZeroTables(compactTables).
		WithNumLevelZeroTablesStall(stallTables).
		WithBaseLevelSize(128 << 20).
		// A compaction writes a dozen tables at a time, each with a buffer of twice its
		// size. Half of Badger's default halves them.
		WithBaseTableSize(1 << 20).
		// Uncompressed blocks are read from the memory map. A cache would only hold
		// copies. An encrypted store has a cache.
		WithBlockCacheSize(0).
		WithBlockSize(16 << 10).
		WithIndexCacheSize(0). // indexes are read from the memory map, too
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(16 << 20). // nothing is ever in it
		WithMetricsEnabled(false).
		WithCompactL0OnClose(true).
		// Badger treats a block that it cannot decompress as one without the key, and
		// the next compaction drops it. Without compression the checksum of the record
		// finds the damage.
		WithCompression(options.None).
		WithLogger(nil)
	if len(o.EncryptionKey) > 0 {
		s = encrypted(s, o)
	}
	return s
}

// withoutCompactions returns settings of a database that writes its logs to tables and compacts
// none. Level 0 has no limit then: Badger would wait for a compaction for ever.
func withoutCompactions(s badgerdb.Options) badgerdb.Options {
	return s.WithNumCompactors(0).WithCompactL0OnClose(false).WithNumLevelZeroTablesStall(math.MaxInt)
}

// checkPlatform fails on a 32-bit platform. Badger makes its tables with ristretto's
// z.Allocator, which shifts an int by 32 bits. There it hands out the same memory twice, so
// the tables of a flush are damaged.
func checkPlatform() error {
	if strconv.IntSize < 64 {
		return misuseError{errors.New("the engine badger needs a 64-bit platform; the engine etcd runs on others, too")}
	}
	return nil
}

func openFolder(folder string, o Options, free func(folder string) (uint64, error)) (s *Store, err error) {
	if err := checkPlatform(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if err := prepareFolder(folder, o); err != nil {
		return nil, err
	}
	var locked storeLock
	if !o.isClaimed {
		if locked, err = lockStore(folder); err != nil {
			return nil, err
		}
	}
	opened, closeDB := false, func() error { return nil }
	defer func() {
		if !opened { // no Store has taken them over
			err = errors.Join(err, closeDB(), locked.release())
		}
	}()
	m, err := readMarker(folder, o) // again: a restore may have ended before the lock
	if err != nil {
		return nil, err
	}
	removeLeftovers(folder, tempPattern)
	g := newGuard(folder, free, o.Logger)
	if err := probeOrCreate(folder, m, g, o); err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", folder, err)
	}
	db, err := openBadger(settings(folder, o).WithBypassLockGuard(locks).WithLogger(engineLog{o.Logger.Sugar(), g.holdCompaction}))
	if err != nil {
		return nil, err
	}
	closeDB = func() error { return guarded(db.Close) }
	if err := checkEncrypts(folder, o.EncryptionKey); err != nil {
		return nil, err
	}
	if g.opened, err = os.Stat(folder); err != nil {
		return nil, err
	}
	c := &committer{db: db, logger: o.Logger, guard: g, reserve: func() error { return reserveLogs(folder, true) }}
	err = guarded(func() error {
		if err := c.resume(folder); err != nil {
			return err
		}
		s = newStore(db, c, g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.locked, opened = locked, true
	locked.setHolder(fmt.Sprintln(os.Getpid()))
	if m.State == stateNew {
		m.State = stateReady
		if err := m.write(folder); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing %s: %w", folder, err), s.Close())
		}
		o.Logger.Info("a new store was made", zap.String("folder", folder))
	}
	g.watch(db)
	return s, nil
}

// probeOrCreate checks the store in folder, whose marker is m. In an empty folder it makes
// a new store.
func probeOrCreate(folder string, m marker, g *guard, o Options) error {
	if err := g.checkOpening(); err != nil {
		return err
	}
	if m.State != stateReady {
		if err := m.write(folder); err != nil {
			return err
		}
		return removeEmptyLogs(folder)
	}
	if err := probe(folder, o, ignore); err != nil {
		return err
	}
	if err := removeEmptyLogs(folder); err != nil {
		return err
	}
	// A log that was copied here may lack blocks.
	if err := reserveLogs(folder, false); err != nil {
		return fmt.Errorf("%w: the disk space of a log cannot be reserved: %w", errUnavailable, err)
	}
	return g.checkOpening()
}

// resume reads the number of the last commit. It fails if acknowledged commits are missing.
func (c *committer) resume(folder string) error {
	sequence, err := lastCommit(c.db)
	if err == nil {
		c.sequence = sequence
		c.sequenceFile, err = openSequence(folder, sequence)
	}
	if err != nil {
		return fmt.Errorf("opening the store in %s: %w", folder, err)
	}
	return nil
}

// lastCommit returns the number of the last commit in db.
func lastCommit(db *badgerdb.DB) (uint64, error) {
	txn := newest(db)
	defer txn.Discard()
	return records.NewReader(snapshot{txn}).LastCommit()
}

// recoverOpen opens Badger, and turns a panic into an error.
func recoverOpen(o badgerdb.Options) (db *badgerdb.DB, err error) {
	err = guarded(func() error {
		db, err = badgerdb.OpenManaged(o)
		return err
	})
	return db, err
}

func openBadger(o badgerdb.Options) (*badgerdb.DB, error) {
	db, err := recoverOpen(o)
	switch {
	case err == nil:
		return db, nil
	case strings.Contains(err.Error(), "Another process is using"): // Badger exports no error for it
		return nil, inUse(o.Dir, err)
	default: // the probe has found no damage
		return nil, fmt.Errorf("%w: the store in %s cannot be opened: %w", errUnavailable, o.Dir, err)
	}
}
