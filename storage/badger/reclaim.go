package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Badger does not free the space of removed records by itself. A deletion is a tombstone in the
// memtable. It frees space when compactions have moved it down to the level of the record.
// Without more writes no compaction begins. The memtable is flushed when it is full, and level
// 0 is compacted when it has NumLevelZeroTables tables (see settings).
const (
	// A Reclaim is due when 1/reclaimShare of the tables' size was removed.
	reclaimShare = 10
	// minReclaim is the number of bytes that must have been removed at least.
	minReclaim = 1 << 20
	// reclaimQuiet is the time without a removal before a Reclaim: a prune makes many
	// changes. A Reclaim waits for that no longer than reclaimLatest.
	reclaimQuiet  = time.Minute
	reclaimLatest = 10 * time.Minute
	// reclaimInterval is the least time between the beginnings of two Reclaims.
	reclaimInterval = 45 * time.Minute
	// A Reclaim rests after each step, reclaimPause times as long as the step took.
	reclaimPause = 3

	// paddingSize is the size of a record that fills the memtable, and paddingCount
	// how many of them are one transaction.
	paddingSize  = 128 << 10
	paddingCount = 8
)

// removals counts the bytes that were removed since the last Reclaim.
type removals struct {
	mu        sync.Mutex
	bytes     int64
	first     time.Time // when the first of them were removed
	last      time.Time
	reclaimed time.Time // when Reclaim last began
}

func (r *removals) add(bytes int64, now time.Time) {
	if bytes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes == 0 {
		r.first = now
	}
	r.bytes += bytes
	r.last = now
}

// take returns the count and resets it.
func (r *removals) take(now time.Time) (bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes, r.bytes, r.reclaimed = r.bytes, 0, now
	return bytes
}

// due reports whether enough was removed, given the size of the tables.
func (r *removals) due(now time.Time, size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.bytes < max(minReclaim, size/reclaimShare), now.Sub(r.reclaimed) < reclaimInterval:
		return false
	default:
		return now.Sub(r.last) >= reclaimQuiet || now.Sub(r.first) >= reclaimLatest
	}
}

// removedSize returns the size of the records that writes remove, as far as txn can read
// them. The writes need none of them, so damage here is no reason to refuse a write.
func removedSize(txn *badgerdb.Txn, writes map[string]records.Write) (size int64) {
	for _, w := range writes {
		if w.Record != nil {
			continue
		}
		_ = guarded(func() error {
			item, err := txn.Get(w.Key)
			if err == nil {
				size += item.EstimatedSize()
			}
			return err
		})
	}
	return size
}

// ShouldReclaim reports whether Reclaim is worth its I/O. That is so if a tenth of the store
// was removed, and nothing in the last minute. It is true at most once in 45 minutes.
func (s *Store) ShouldReclaim(now time.Time) bool {
	return s.guard != nil && s.committer.removed.due(now, s.tablesSize())
}

// tablesSize returns the size of all tables, in bytes.
func (s *Store) tablesSize() (size int64) {
	for _, level := range s.db.Levels() {
		size += level.Size
	}
	return size
}

// Reclaim frees the disk space of removed records. It makes Badger flush its memtable and
// compact all levels into one, which may rewrite all tables. It works in steps of at most
// some 300 MiB and rests between them. Writes and reads go on meanwhile. It keeps records
// that a running backup or check still sees. When the store is closed or ctx ends, Reclaim
// ends after the current step. It fails without disk space for a compaction.
func (s *Store) Reclaim(ctx context.Context) error {
	if s.guard == nil {
		return nil // in memory
	}
	if !s.readers.Enter() {
		return domain.ErrClosed
	}
	defer s.readers.Leave()
	ctx, cancel := s.untilClosed(ctx)
	defer cancel()
	began := time.Now()
	removed, before := s.committer.removed.take(began), s.tablesSize()
	err := s.roomToReclaim()
	if err == nil {
		// In an encrypted store, the index of a table may be read anew.
		err = guarded(func() error { return s.flushToTables(ctx) })
	}
	if err == nil {
		err = s.flatten(ctx)
	}
	if err != nil {
		s.committer.removed.add(removed, began) // for the next Reclaim
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return context.Cause(ctx)
		}
		return err
	}
	s.committer.logger.Info("the disk space of removed records was given back", zap.String("folder", s.guard.folder),
		zap.Int64("removed_bytes", removed), zap.Int64("tables_bytes_before", before), zap.Int64("tables_bytes", s.tablesSize()),
		zap.Duration("took", time.Since(began)))
	return nil
}

// roomToReclaim returns an error if the disk has too little space for padding in addition
// to what writes need.
func (s *Store) roomToReclaim() error {
	free, err := s.guard.room()
	if err != nil {
		return err
	}
	padding := uint64(2 * memTableSize)
	if !s.hasLowerLevels() {
		padding += uint64(s.db.Opts().NumLevelZeroTables * memTableSize)
	}
	if needed := 2*s.guard.needed.Load() + padding; free < needed {
		return fmt.Errorf("%w: %d MiB are free, %d are needed", ErrDiskFull, free>>20, needed>>20)
	}
	return nil
}

// flushToTables makes Badger write all commits so far to tables, and compact some of them
// below level 0. Badger flushes a memtable only when it is full or the store is closed. It
// compacts level 0 only when it has enough tables. So flushToTables fills the memtable with
// expired records. They are invisible, and the next compaction drops them.
func (s *Store) flushToTables(ctx context.Context) error {
	last, log := s.db.MaxVersion(), s.currentLog()
	for {
		there, deep := s.inTables(last), s.hasLowerLevels()
		if there && deep {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// More padding would delay a flush or a compaction that Badger has begun.
		flushing := !there && s.currentLog() != log
		levels, most := s.db.Levels(), s.db.Opts().NumLevelZeroTables
		if flushing || levels[0].NumTables >= most {
			s.guard.wake() // the compactors
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err := s.update(ctx, func(t *records.Tx) error { return t.Pad(paddingCount, paddingSize) }); err != nil {
			return err
		}
	}
}

// currentLog returns the name of the write-ahead log that Badger writes to. Each memtable
// has its own log. Reserved logs are empty.
func (s *Store) currentLog() (name string) {
	logs, _ := filepath.Glob(filepath.Join(s.guard.folder, "*.mem")) // sorted
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 && len(log) >= len(name) {
			name = log
		}
	}
	return name
}

// hasLowerLevels reports whether there are tables below level 0.
func (s *Store) hasLowerLevels() bool { return s.tablesSize() > s.db.Levels()[0].Size }

// inTables reports whether all commits up to a version of Badger's are in tables.
func (s *Store) inTables(version uint64) bool {
	for _, t := range s.db.Tables() {
		if t.MaxVersion >= version {
			return true
		}
	}
	return false
}

// flatten calls Badger's Flatten, rests between its compactions and ends it early with
// ctx or the store.
func (s *Store) flatten(ctx context.Context) error {
	s.guard.wake()
	s.flattening.Lock()
	defer s.flattening.Unlock()
	stepped := time.Now()
	err := s.runFlatten(func() {
		s.rest(ctx, reclaimPause*time.Since(stepped))
		s.guard.wake() // the guard looks more often at a disk that is written to
		stepped = time.Now()
	})
	if p, ok := errors.AsType[*panicError](err); ok && p.value == any(flattenEnded{}) {
		return ctx.Err()
	}
	return err
}

// rest waits, but not while the backlog of compactions slows writes down. It ends Flatten with ctx.
func (s *Store) rest(ctx context.Context, most time.Duration) {
	for end := time.Now().Add(most); ; {
		select {
		case <-ctx.Done():
			panic(flattenEnded{})
		case <-time.After(min(time.Until(end), levelsInterval)):
		}
		if s.guard.levelZero.Load() >= slowTables || !time.Now().Before(end) {
			return
		}
	}
}

// runFlatten calls Badger's Flatten, which stops Badger's ordinary compactions. It starts them
// again however it returns. Flatten logs between its steps, on the caller's goroutine. The logger
// calls step there, which may wait, or panic to end Flatten. The caller holds s.flattening.
func (s *Store) runFlatten(step func()) error {
	s.guard.step.Store(&step)
	defer s.guard.step.Store(nil)
	return guarded(func() error { return s.db.Flatten(1) })
}

// flattenEnded is the panic of a step that ends Flatten.
type flattenEnded struct{}

// paceFlatten calls the step of a running Flatten, if that is on the stack.
func (g *guard) paceFlatten() {
	if step := g.step.Load(); step != nil && inFlatten() {
		(*step)()
	}
}

var flattenName = runtime.FuncForPC(reflect.ValueOf((*badgerdb.DB).Flatten).Pointer()).Name()

// inFlatten reports whether Badger's Flatten is on the stack of this goroutine.
func inFlatten() bool {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		frame, more := frames.Next()
		if frame.Function == flattenName {
			return true
		}
		if !more {
			return false
		}
	}
}
