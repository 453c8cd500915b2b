package badger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// memTableSize bounds a transaction to 15 % of it, which are several records of
// the largest size. Under a steady load of 2 KB records half of it took more than
// twice as long at the 99th percentile: there are more tables to compact. An
// idle store does not touch most of it.
const memTableSize = 16 << 20

// valueThreshold is the length from which on Badger keeps a value in its value log, where
// it does not report failed flushes. No record is that long.
const valueThreshold = records.MaxRecord + 1

func settings(folder string, o Options) badgerdb.Options {
	s := badgerdb.DefaultOptions(folder).
		WithSyncWrites(true). // off by default, and then a power cut loses what was acknowledged
		WithDetectConflicts(true).
		WithNumVersionsToKeep(1).
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumCompactors(2).
		// Each compaction of level 0 writes all of the level below anew. With twice
		// as many tables in the one and ten times as much in the other as Badger has
		// by default, a quarter less is written and writers wait less for it.
		WithNumLevelZeroTables(10).
		WithNumLevelZeroTablesStall(20).
		WithBaseLevelSize(128 << 20).
		// Without compression blocks and indexes are read where they are mapped
		// into memory, and a cache would only keep copies. An encrypted store
		// has one.
		WithBlockCacheSize(0).
		WithBlockSize(16 << 10).
		WithIndexCacheSize(8 << 20). // in use in an encrypted store alone
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(16 << 20). // nothing is ever in it
		WithMetricsEnabled(false).
		WithCompactL0OnClose(true).
		// Badger takes a block that cannot be decompressed for one without
		// the keys looked for, and the next compaction drops it. In one that
		// is not compressed the checksum of the record finds the damage.
		WithCompression(options.None).
		WithLogger(nil)
	if len(o.EncryptionKey) > 0 {
		s = encrypted(s, o.EncryptionKey)
	}
	return s
}

func openFolder(folder string, o Options, free func(folder string) (uint64, error)) (s *Store, err error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	m, err := enter(folder, o)
	if err != nil {
		return nil, err
	}
	locked, err := lockStore(folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if locked != nil { // it is not the store's to give up
			err = errors.Join(err, locked.Close())
		}
	}()
	removeLeftovers(folder, trialName)
	g := newGuard(folder, free, o.Logger)
	if err := prepare(folder, m, g, o); err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", folder, err)
	}
	db, err := openEngine(settings(folder, o).WithLogger(engineLog{o.Logger.Sugar(), g.hold, g.beginStep}))
	if err != nil {
		return nil, err
	}
	if err := checkEncrypts(folder, o.EncryptionKey); err != nil {
		return nil, errors.Join(err, guarded(db.Close))
	}
	c := &committer{db: db, logger: o.Logger, guard: g, reserve: reserver(folder)}
	if err := c.resume(folder); err != nil {
		return nil, errors.Join(err, guarded(db.Close))
	}
	if g.opened, err = os.Stat(folder); err != nil {
		return nil, errors.Join(err, guarded(db.Close))
	}
	s = newStore(db, m.ID, c, g)
	s.locked, locked = locked, nil
	if err := complete(folder, m); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if m.State == stateNew {
		o.Logger.Info("a new store was made", zap.String("folder", folder))
	}
	g.watch(db)
	// What verifying and what came before it left behind may be more than what the
	// store takes from now on, and an idle process would keep it. It takes a few
	// milliseconds, also from a server that a reload gives one more store.
	debug.FreeOSMemory()
	return s, nil
}

// prepare finds out whether the store in folder, whose marker is m, can be opened, and
// makes a new one of a folder that is empty.
func prepare(folder string, m marker, g *guard, o Options) error {
	if err := g.withBallast(); err != nil {
		return err
	}
	if m.State != stateReady {
		// Earlier versions may have left a mark that is empty, of nothing yet.
		err := os.Remove(filepath.Join(folder, markName))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return cmp.Or(err, m.write(folder), fillEmptyLogs(folder))
	}
	if err := o.probe(folder); err != nil {
		return err
	}
	if err := fillEmptyLogs(folder); err != nil {
		return err
	}
	// Others may have filled the disk meanwhile, and a log that was copied here may
	// lack blocks.
	reserveLogs(folder)
	return g.withBallast()
}

// probe finds out whether the store in folder is as it was left.
func (o Options) probe(folder string) error {
	if o.Probe == nil {
		return Probe(folder, o)
	}
	return o.Probe(folder, o)
}

// complete marks the store in folder, whose marker is m, as ready.
func complete(folder string, m marker) error {
	if m.State == stateReady {
		return nil
	}
	m.State = stateReady
	if err := m.write(folder); err != nil {
		return fmt.Errorf("preparing %s: %w", folder, err)
	}
	return nil
}

// logHeader is the length of what comes first in each of Badger's logs. Zeros stand
// for a log that is not encrypted: one that is empty may be that in any store, as
// Badger adds to none that it finds.
const logHeader = 20

// removeUnusedLogs removes the logs in folder that never had anything in them: those
// that a reserver made ahead of time.
func removeUnusedLogs(folder string) error {
	logs, err := filepath.Glob(filepath.Join(folder, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil && info.Size() == 0 {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillEmptyLogs adds a header to logs in folder that are empty. A kill leaves such
// files behind, when Badger has just made them or is about to remove them, and
// with them it does not open. Should another process have the folder open, what is
// added to the end of a log does it no harm.
func fillEmptyLogs(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".mem", ".vlog":
		default:
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > 0 {
			continue
		}
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(folder, entry.Name()), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = file.Write(make([]byte, logHeader))
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// resume finds where the last commit left the store, and fails when commits
// are missing that were acknowledged.
func (c *committer) resume(folder string) error {
	sequence, err := lastCommit(c.db)
	if err == nil {
		c.sequence = sequence
		c.mark, err = openMark(folder, sequence)
	}
	if err != nil {
		return fmt.Errorf("opening the store in %s: %w", folder, err)
	}
	return nil
}

// lastCommit returns the number of the last commit in db.
func lastCommit(db *badgerdb.DB) (uint64, error) {
	txn := db.NewTransaction(false)
	defer txn.Discard()
	return records.NewReader(snapshot{txn}).LastCommit()
}

// tryEngine opens Badger. What it panics on is an error.
func tryEngine(o badgerdb.Options) (db *badgerdb.DB, err error) {
	err = guarded(func() error {
		db, err = badgerdb.Open(o)
		return err
	})
	return db, err
}

func openEngine(o badgerdb.Options) (*badgerdb.DB, error) {
	db, err := tryEngine(o)
	switch {
	case err == nil:
		return db, nil
	case strings.Contains(err.Error(), "Another process is using"): // all that Badger offers
		return nil, inUse(o.Dir, err)
	default: // not what is damaged, which a probe has found
		return nil, fmt.Errorf("%w: the store in %s cannot be opened: %w", errUnavailable, o.Dir, err)
	}
}

// lockName is the file whose lock a process has while it uses a store, from before it
// looks at it: Badger's own comes later.
const lockName = MarkerName + "-LOCK"

var errLocked = errors.New("another process has its lock")

// lockStore takes the lock of the store in folder, until what it returns is closed.
func lockStore(folder string) (*os.File, error) {
	locked, err := lock(filepath.Join(folder, lockName))
	if errors.Is(err, errLocked) {
		return nil, inUse(folder, err)
	}
	if err != nil { // a file system that cannot be written, say
		return nil, fmt.Errorf("%w: locking the store in %s: %w", errUnavailable, folder, err)
	}
	return locked, nil
}

// inUse returns the error of a folder that another process has open.
func inUse(folder string, err error) error {
	return misused{fmt.Errorf("the store in %s is in use: only one process at a time can open it (%w: %w)", folder, ErrInUse, err)}
}

// engineLog is where Badger's messages go. Its debug messages, several for
// each write and some with keys, go nowhere, but for one that holds compactions. One of
// the informational ones paces and ends Flatten.
type engineLog struct {
	to   *zap.SugaredLogger
	hold func()
	step func()
}

func (l engineLog) Errorf(format string, args ...any) {
	l.to.Errorf(strings.TrimSpace(format), args...)
}

func (l engineLog) Warningf(format string, args ...any) {
	l.to.Warnf(strings.TrimSpace(format), args...)
}

func (l engineLog) Infof(format string, args ...any) {
	if steps(format, args) {
		l.step()
	}
	l.to.Debugf(strings.TrimSpace(format), args...)
}

func (l engineLog) Debugf(format string, _ ...any) {
	if holds(format) {
		l.hold()
	}
}

var _ badgerdb.Logger = engineLog{}
