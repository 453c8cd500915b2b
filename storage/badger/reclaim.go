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

// Badger does not give back the space of removed records by itself. A deletion is a
// tombstone in the memtable. It takes effect on the disk when compactions have carried
// it down to the level of the record. Without more writes none begins: the memtable is
// flushed when it is full, and level 0 is compacted when it has ten tables.
const (
	// reclaimShare is the part of the tables that makes up for rewriting them.
	reclaimShare = 10
	// minReclaim is what must have been removed at least, in bytes.
	minReclaim = 1 << 20
	// reclaimQuiet is how long nothing may have been removed before: a prune makes
	// many changes. After reclaimLatest that is not waited for.
	reclaimQuiet  = time.Minute
	reclaimLatest = 10 * time.Minute
	// reclaimInterval is the time between the beginnings of two.
	reclaimInterval = 45 * time.Minute
	// reclaimPause is how many times longer than its work each step is rested from.
	reclaimPause = 3

	// paddingSize is the size of a record that fills the memtable, and paddingCount
	// how many of them are one transaction.
	paddingSize  = 128 << 10
	paddingCount = 16
)

// removals is what was removed since the last Reclaim.
type removals struct {
	mu        sync.Mutex
	bytes     int64
	first     time.Time // of them
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

// take returns how much was removed and begins anew.
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

// removedSize returns how many bytes writes remove, as far as they are
// visible in txn.
func removedSize(txn *badgerdb.Txn, writes map[string]records.Write) (size int64) {
	for _, w := range writes {
		if w.Record != nil {
			continue
		}
		if item, err := txn.Get(w.Key); err == nil {
			size += item.EstimatedSize()
		}
	}
	return size
}

// ShouldReclaim reports whether so much was removed that Reclaim is worth its I/O: a
// tenth of what is stored, and nothing in the last minute. It is never twice within 45
// minutes.
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

// Reclaim gives the disk space of removed records back, by having Badger flush its
// memtable and compact all levels into one. That rewrites the tables with removed records,
// which may be all, in steps of some 300 MiB at most, and rests between them. It is
// meant for the background. Writes and reads go on meanwhile; records that a running
// backup or check still sees stay. It counts as a read: Close waits for the step that
// is under way, and no longer. It ends with ctx likewise. Without disk space for a
// compaction it fails.
func (s *Store) Reclaim(ctx context.Context) error {
	if s.guard == nil {
		return nil // in memory
	}
	if !s.readers.Enter() {
		return domain.ErrClosed
	}
	defer s.readers.Leave()
	began := time.Now()
	removed, before := s.committer.removed.take(began), s.tablesSize()
	err := s.roomToReclaim()
	if err == nil {
		err = s.flushToTables(ctx)
	}
	if err == nil {
		err = s.flatten(ctx)
	}
	if err != nil {
		s.committer.removed.add(removed, began) // for the next time
		return err
	}
	s.committer.logger.Info("the disk space of removed records was given back", zap.String("folder", s.guard.folder),
		zap.Int64("removed_bytes", removed), zap.Int64("tables_bytes_before", before), zap.Int64("tables_bytes", s.tablesSize()),
		zap.Duration("took", time.Since(began)))
	return nil
}

// roomToReclaim returns an error where there is too little disk space for padding,
// besides what is needed for writing.
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

// sink has all that was committed so far written to tables, and some of them below level
// 0. Badger flushes a memtable when it is full, compacts a store that has only level 0
// when that has enough tables, and offers no other way for either but closing it. So
// this fills it with records that have expired: nobody sees them, and the next compaction
// drops them.
func (s *Store) flushToTables(ctx context.Context) error {
	last, log := s.db.MaxVersion(), s.currentLog()
	for {
		there, deep := s.inTables(last), s.hasLowerLevels()
		if there && deep {
			return nil
		}
		if err := s.checkReclaim(ctx); err != nil {
			return err
		}
		// Badger may be about to do it: more padding would be in its way.
		flushing := !there && s.currentLog() != log
		levels, most := s.db.Levels(), s.db.Opts().NumLevelZeroTables
		if flushing || levels[0].NumTables >= most {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err := s.update(ctx, func(t *records.Tx) error { return t.Pad(paddingCount, paddingSize) }); err != nil {
			return err
		}
	}
}

// currentLog returns the name of the write-ahead log that Badger writes to, which
// begins another with each memtable. Those that are reserved for later are empty.
func (s *Store) currentLog() (name string) {
	logs, _ := filepath.Glob(filepath.Join(s.guard.folder, "*.mem")) // sorted
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 && len(log) >= len(name) {
			name = log
		}
	}
	return name
}

// hasLevels reports whether there are tables below level 0.
func (s *Store) hasLowerLevels() bool { return s.tablesSize() > s.db.Levels()[0].Size }

// inTables reports whether what was committed at a version of Badger's, and before, is
// in tables.
func (s *Store) inTables(version uint64) bool {
	for _, t := range s.db.Tables() {
		if t.MaxVersion >= version {
			return true
		}
	}
	return false
}

// mayReclaim returns why Reclaim has to end.
func (s *Store) checkReclaim(ctx context.Context) error {
	if s.readers.IsClosed() {
		return domain.ErrClosed
	}
	return ctx.Err()
}

// flatten calls Badger's Flatten, rests between its compactions and ends it early with
// ctx or the store. Flatten logs between its compactions, on the caller's goroutine, so
// the logger can rest there, or panic to end it. Flatten starts Badger's ordinary
// compactions again however it returns.
func (s *Store) flatten(ctx context.Context) error {
	stepped := time.Now()
	step := func() {
		err := s.checkReclaim(ctx)
		if rest := reclaimPause * time.Since(stepped); err == nil {
			err = s.rest(ctx, rest)
		}
		if err != nil {
			panic(ended{err})
		}
		stepped = time.Now()
	}
	s.guard.step.Store(&step)
	defer s.guard.step.Store(nil)
	err := guarded(func() error { return s.db.Flatten(1) })
	if p, ok := errors.AsType[*panicError](err); ok {
		if e, ok := p.value.(ended); ok {
			return e.error
		}
	}
	return err
}

// ended is what a step panics with.
type ended struct{ error }

// rest waits, unless ctx ends or the store is being closed.
func (s *Store) rest(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		select {
		case <-ctx.Done():
		case <-time.After(min(50*time.Millisecond, time.Until(end))):
		}
		if err := s.checkReclaim(ctx); err != nil {
			return err
		}
	}
	return nil
}

// beginStep calls the function that paces a Reclaim, if Flatten is the caller's caller.
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
