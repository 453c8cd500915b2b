// Package badger stores workspaces, presets, issued keys and the audit trail in a folder,
// in an embedded Badger database. It needs no other process and no network. One process
// at a time can open the folder.
//
// All writes pass through one goroutine, the committer. It makes a group of changes
// durable with a single flush. The package also detects what Badger does not notice:
//
//   - Records carry checksums.
//   - A marker file, STORE, tells a new folder from one that has lost its data.
//   - A sequence file, SEQUENCE, tells whether the store has lost its last commits.
//   - Writes stop before the disk is full.
package badger

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

var (
	// ErrDamaged is in the chain of every error about stored data that is wrong. Data that
	// is missing although other data refers to it counts, too.
	ErrDamaged = storage.ErrDamaged
	// ErrDiskFull is in the chain of the errors of Update while the file system has
	// too little space. Nothing is changed then. Reads go on, and writes resume once
	// there is space.
	ErrDiskFull = fmt.Errorf("%w: too little disk space left", errUnavailable)
	// ErrStopped is in the chain of the errors of Update after a write has failed. The
	// outcome of that write is unknown until the folder is opened again. Reads go on. Later
	// writes change nothing, and their errors have domain.ErrUnavailable in their chain
	// too.
	ErrStopped = errors.New("writing has stopped until the store is reopened, as a restart of the server does")

	// ErrMisused is in the chain of the errors of Open when the folder or the key is the
	// wrong one. The store cannot be opened with them, whatever happens to the files.
	ErrMisused = errors.New("not a store that can be opened so")
	// ErrInUse is in the chain, with ErrMisused, when another process has the folder open.
	ErrInUse = errors.New("another process has the folder open")

	errUnavailable = domain.ErrUnavailable
)

// misuseError has ErrMisused in its chain but not in its text.
type misuseError struct{ error }

func (m misuseError) Unwrap() error { return m.error }

func (misuseError) Is(target error) bool { return target == ErrMisused }

// closeLimit bounds Close: on a failing disk Badger retries its last flush for ever.
const closeLimit = 10 * time.Second

// Store is a domain.Store in a folder.
type Store struct {
	db        *badgerdb.DB
	versions  *versions
	readers   groupcommit.Gate
	committer *committer
	guard     *guard    // nil in memory
	locked    storeLock // empty in memory
	stamps    *domain.Stamps
	limit     time.Duration // of Close
	close     func() error

	closing context.Context // ends when Close is called
	stop    context.CancelFunc
	purged  chan struct{} // closed when the purger has ended

	damage  atomic.Int64 // see Status
	checked atomic.Int64 // Unix nanoseconds, 0 for never
}

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Logger gets the store's messages and Badger's. Badger's informational messages
	// are logged at debug level. Nil discards all of them.
	Logger *zap.Logger
	// Existing makes Open fail with domain.ErrUnavailable instead of making a new store.
	Existing bool
	// EncryptionKey encrypts everything in the folder. It has KeySize bytes, or none
	// for a store that is not encrypted. Each Open of a folder needs the same key. The
	// store keeps the slice, so the caller must not change it.
	EncryptionKey []byte
	// CacheSize bounds what a store that is encrypted keeps decrypted in memory, in bytes. Zero
	// stands for DefaultCacheSize. SetCacheSize changes it. A store that is not encrypted needs
	// no cache, because it reads from memory maps.
	CacheSize int64

	isClaimed bool // the caller has claimed the folder
}

// DefaultCacheSize is the default of Options.CacheSize, in bytes.
const DefaultCacheSize = 24 << 20

// Open opens the store in folder. It creates a missing folder with mode 0700. If root opens it, all
// files in it get the owner of the folder.
//
// These errors change nothing in the folder:
//
//   - ErrMisused: the folder is not a store, has a newer format, or needs another key or none;
//     or the platform has 32 bits.
//   - ErrInUse, with ErrMisused: another process uses the folder.
//   - ErrDamaged: the store is damaged, or has lost its last commits.
//   - ErrDiskFull: the disk is nearly full.
//
// Any other error comes from the system, and a later Open may succeed. It names the owner of a file
// whose permissions are in the way.
func Open(folder string, o Options) (*Store, error) {
	s, err := openFolder(folder, o, freeSpace)
	return s, fileowner.Explain(err, folder)
}

// OpenInMemory opens an empty store in memory, for tests. Its content is gone after Close. On a
// 32-bit platform it must stay smaller than a memtable.
func OpenInMemory() (*Store, error) {
	db, err := badgerdb.OpenManaged(settings("", Options{}).WithInMemory(true))
	if err != nil {
		return nil, err
	}
	return newStore(db, &committer{db: db, logger: zap.NewNop()}, nil), nil
}

func newStore(db *badgerdb.DB, c *committer, g *guard) *Store {
	s := &Store{db: db, versions: newVersions(db), committer: c, guard: g, stamps: domain.NewStamps(), limit: closeLimit}
	s.close = sync.OnceValue(s.closeOnce)
	s.closing, s.stop = context.WithCancel(context.Background())
	c.stamps, c.versions, c.closing = s.stamps, s.versions, s.closing
	c.start()
	s.purged = make(chan struct{})
	go func() {
		defer close(s.purged)
		records.Purger{
			View: s.viewRecords, Update: s.update, Deleted: c.deleted,
			Logger: c.logger,
		}.Run(s.closing)
	}()
	return s
}

// untilClosed returns a context that ends with ctx, or with domain.ErrClosed as its cause
// when Close is called.
func (s *Store) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { cancel(domain.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// View implements domain.Store. A ctx that has already ended returns its error
// without running fn.
func (s *Store) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.viewRecords(ctx, func(r *records.Reader) error { return fn(r) })
}

func (s *Store) viewRecords(ctx context.Context, fn func(*records.Reader) error) error {
	return s.view(ctx, func(_ *badgerdb.Txn, r *records.Reader) error { return fn(r) })
}

func (s *Store) view(ctx context.Context, fn func(*badgerdb.Txn, *records.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.readers.Enter() {
		return domain.ErrClosed
	}
	defer s.readers.Leave()
	txn, at := s.versions.latest()
	defer s.versions.release(at)
	defer discard(txn)
	r := records.NewReader(snapshot{txn})
	defer r.End()
	err := fn(txn, r)
	if errors.Is(err, ErrDamaged) && s.committer.halted.Load() {
		// Badger itself cannot be trusted after a failed write.
		return fmt.Errorf("%w: reading after a failed write: %w", errUnavailable, err)
	}
	s.countDamage(err)
	return err
}

// Update implements domain.Store. It never returns ErrConflict: changes take effect in the
// order in which they came. A change fails if it is larger than one transaction, if fn panics
// or if one of its writes failed. In the last case it fails even if fn returns nil. A failed
// change changes nothing.
//
// Once fn has begun, Update waits for the outcome, even if ctx ends. So the caller may use the
// variables that fn captured when Update returns.
func (s *Store) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return s.update(ctx, func(t *records.Tx) error { return fn(t) })
}

func (s *Store) update(ctx context.Context, fn func(*records.Tx) error) error {
	err := s.committer.groups.Update(ctx, fn)
	s.countDamage(err)
	return err
}

// Stamps implements domain.Store. A Store that is opened later in the same folder has
// stamps of its own.
func (s *Store) Stamps() *domain.Stamps { return s.stamps }

// Sync implements domain.Store. No other process changes the store, so it does not wait.
func (s *Store) Sync(context.Context) error { return nil }

// Node implements domain.Store. Only one process at a time has the folder.
func (s *Store) Node() string { return uuid.Nil.String() }

// Close finishes the running updates and views, and closes the store. Later ones get
// domain.ErrClosed. After ten seconds Close returns an error. The folder then stays locked
// until the rest is done or the process ends. Further calls return the first result. Close
// does not wait for the removal of deleted workspaces: the next Open goes on with it.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeOnce() error {
	s.readers.Close()
	s.committer.groups.Close()
	s.stop()
	done := make(chan error, 1)
	go func() {
		s.committer.groups.Wait()
		s.readers.Wait()
		<-s.purged
		done <- errors.Join(s.closeBadger(), s.committer.sequenceFile.close())
	}()
	timer := time.NewTimer(s.limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the store did not close within %v: a view or an update is still running, or the disk does not answer", s.limit)
	}
}

// closeBadger closes Badger and unlocks the folder. On a full disk it returns an error and
// keeps trying as long as the process lives.
func (s *Store) closeBadger() error {
	if s.guard == nil {
		return guarded(s.db.Close)
	}
	if err := s.guard.checkClosing(s.db); err != nil {
		go func() {
			for s.guard.checkClosing(s.db) != nil {
				time.Sleep(closeRetry)
			}
			_ = s.finish()
		}()
		return err
	}
	return s.finish()
}

// closeRetry is the time between two attempts to close a store on a full disk.
const closeRetry = time.Second

func (s *Store) finish() error {
	s.guard.stop()
	err := guarded(s.db.Close)
	s.locked.setHolder("")
	return errors.Join(err, removeEmptyLogs(s.guard.folder), s.locked.release())
}

// panicError is a panic as an error.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// guarded runs f and turns a panic into a *panicError. Badger panics on damaged files, and
// a memory access faults when a mapped file was cut short.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
	}()
	return f()
}

var _ domain.Store = (*Store)(nil)
