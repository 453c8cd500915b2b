// Package badger keeps workspaces, presets, issued keys and the audit trail in a
// folder, in an embedded Badger database. It needs no other process and no network, and
// belongs to one process at a time.
//
// All writes pass one goroutine, the committer, which makes the changes that
// wait for it durable with a single flush. What Badger itself does not notice
// is guarded here: records carry checksums, a marker file tells a new folder
// from one that lost its data, a mark beside the data tells a store that came
// back older than it was, and writing pauses before the disk is full.
package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

var (
	// ErrDamaged is in the chain of every error about stored data that is
	// there but wrong, or missing though other data says that it exists.
	ErrDamaged = storage.ErrDamaged
	// ErrDiskFull is in the chain of what Update returns, without having
	// changed anything, while the file system has too little space left.
	// Reads go on, and writes resume by themselves.
	ErrDiskFull = fmt.Errorf("%w: too little disk space left", errUnavailable)
	// ErrStopped is in the chain of what Update returns after a failed write
	// left the state of the disk unknown. Reads go on; opening the folder
	// again finds out. That write's own outcome is unknown; those that come later
	// have domain.ErrUnavailable in their chain too.
	ErrStopped = errors.New("writing has stopped until the store is reopened, as a restart of the server does")

	// ErrMisused is in the chain of what Open returns when it is the folder or the key
	// that is wrong, and not what is on the disk: nothing that happens to the files makes
	// the store open with them.
	ErrMisused = errors.New("not a store that can be opened so")
	// ErrInUse is in the chain, beside ErrMisused, when another process has the folder open.
	ErrInUse = errors.New("another process has the folder open")

	errUnavailable = domain.ErrUnavailable
)

// misused is an error that has ErrMisused in its chain, and not in its text.
type misused struct{ error }

func (m misused) Unwrap() error { return m.error }

func (misused) Is(target error) bool { return target == ErrMisused }

// closeLimit bounds Close: on a failing disk Badger retries its last flush for
// ever.
const closeLimit = 10 * time.Second

// Store is a domain.Store in a folder.
type Store struct {
	db        *badgerdb.DB
	id        string // of the store, in its marker
	readers   gate
	committer *committer
	purger    purger
	guard     *guard   // nil in memory
	locked    *os.File // as is the lock of the folder
	stamps    *domain.Stamps
	limit     time.Duration // of Close
	close     func() error

	damage  atomic.Int64 // see Status
	checked atomic.Int64 // Unix nanoseconds, 0 for never
}

// Options are how a store is opened. The zero value will do.
type Options struct {
	// Logger gets what the store has to say, and Badger's own messages, its
	// informational ones at debug level. Nil discards them.
	Logger *zap.Logger
	// Probe is what Open calls to find out whether a store that is not new is as it
	// was left, before it opens it. Nil stands for the function Probe. One that
	// calls that in another process keeps what Badger does on damaged files, which
	// may be to end the process, away from this one.
	Probe func(folder string, o Options) error
	// Existing lets Open fail, with domain.ErrUnavailable, where it would make a new store.
	Existing bool
	// EncryptionKey encrypts all that is written to the folder: KeySize bytes,
	// or none for a store that is not encrypted. It must be the same each time
	// that a folder is opened. The store keeps the slice, which nobody may change.
	EncryptionKey []byte
}

// Open opens the store in folder, which it creates with mode 0700 when it is
// missing. The error tells in plain words when the folder is in use (ErrInUse), is not a
// store, was written by a newer version, needs another key or none (ErrMisused, all of
// them), is damaged (ErrDamaged) or older than it was (ErrDamaged, too), or when the disk
// is nearly full (ErrDiskFull); nothing has been changed then. Any other error is of the
// system, and may be gone the next time.
func Open(folder string, o Options) (*Store, error) {
	return openFolder(folder, o, freeSpace)
}

// OpenInMemory opens an empty store that lives in memory and is gone after
// Close.
func OpenInMemory() (*Store, error) {
	db, err := badgerdb.Open(settings("", Options{}).WithInMemory(true))
	if err != nil {
		return nil, err
	}
	return newStore(db, uuid.NewString(), &committer{db: db, logger: zap.NewNop()}, nil), nil
}

func newStore(db *badgerdb.DB, id string, c *committer, g *guard) *Store {
	s := &Store{db: db, id: id, committer: c, guard: g, stamps: domain.NewStamps(), limit: closeLimit}
	s.close = sync.OnceValue(s.closeOnce)
	c.stamps = s.stamps
	c.start()
	s.startPurger()
	return s
}

// purger is the goroutine that removes what was in workspaces that were deleted.
type purger struct {
	stop context.CancelFunc
	done chan struct{}
}

func (s *Store) startPurger() {
	ctx, stop := context.WithCancel(context.Background())
	s.purger = purger{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.purger.done)
		records.Purge(ctx, engine{s}, records.PurgeOptions{
			Deleted: s.committer.deleted,
			Final:   func(err error) bool { return errors.Is(err, ErrStopped) },
			Logger:  s.committer.logger,
		})
	}()
}

// View implements domain.Store. A ctx that has already ended returns its error
// without running fn.
func (s *Store) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.view(ctx, func(_ *badgerdb.Txn, r *records.Reader) error { return fn(r) })
}

func (s *Store) view(ctx context.Context, fn func(*badgerdb.Txn, *records.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.readers.enter() {
		return domain.ErrClosed
	}
	defer s.readers.leave()
	txn := s.db.NewTransaction(false)
	defer discard(txn)
	r := records.NewReader(snapshot{txn})
	defer r.End()
	err := fn(txn, r)
	if errors.Is(err, ErrDamaged) && s.committer.halted.Load() {
		// Badger itself cannot be trusted after a failed write.
		return fmt.Errorf("%w: reading after a failed write: %w", errUnavailable, err)
	}
	s.noteDamage(err)
	return err
}

// Update implements domain.Store. It never returns ErrConflict: changes take
// effect in the order in which they came. A change of more than one
// transaction can hold fails, as does one whose fn panics, and one of whose
// writes failed even if fn returns nil; they change nothing.
//
// Once fn has begun to run Update waits for the outcome, whatever becomes of
// ctx, so what fn captured is the caller's again when Update returns.
func (s *Store) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return s.update(ctx, func(t *records.Tx) error { return fn(t) })
}

func (s *Store) update(ctx context.Context, fn func(*records.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{ctx: ctx, fn: fn, answer: make(chan error, 1)}
	if !s.committer.push(op) {
		return domain.ErrClosed
	}
	select {
	case err := <-op.answer:
		s.noteDamage(err)
		return err
	case <-ctx.Done():
		if op.claim() {
			return ctx.Err() // it had not begun, and never will
		}
		return <-op.answer
	}
}

// Stamps implements domain.Store. They are of this Store: one that is opened
// later in the same folder has its own.
func (s *Store) Stamps() *domain.Stamps { return s.stamps }

// Sync implements domain.Store. Nobody else changes what is stored, so there is
// nothing to wait for.
func (s *Store) Sync(context.Context) error { return nil }

// Close finishes the updates and views that are under way and closes the
// store; all that come later get domain.ErrClosed. It takes at most ten
// seconds: then it returns an error and leaves the folder locked for as long
// as the process lives or the rest takes. Further calls return what the first
// one did. It does not wait until all that was in deleted workspaces is removed:
// that goes on when the folder is opened again.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeOnce() error {
	s.readers.close()
	s.committer.close()
	s.purger.stop()
	done := make(chan error, 1)
	go func() {
		s.committer.wait()
		s.readers.wait()
		<-s.purger.done
		done <- errors.Join(s.closeEngine(), s.committer.mark.close())
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

// closeEngine closes Badger and gives up the folder. On a full disk it goes on trying
// to for as long as the process lives, and returns an error.
func (s *Store) closeEngine() error {
	if s.guard == nil {
		return guarded(s.db.Close)
	}
	if err := s.guard.forClosing(s.db); err != nil {
		go func() {
			for s.guard.forClosing(s.db) != nil {
				time.Sleep(closeRetry)
			}
			_ = s.finish()
		}()
		return err
	}
	return s.finish()
}

// closeRetry is how often it is looked whether a store can be closed.
const closeRetry = time.Second

func (s *Store) finish() error {
	s.guard.closing.Store(true)
	err := guarded(s.db.Close)
	s.guard.stop()
	return errors.Join(err, removeUnusedLogs(s.guard.folder), s.locked.Close())
}

// gate lets readers in until it is closed, and then waits for those inside.
// Unlike a read lock held meanwhile it turns latecomers away at once.
type gate struct {
	mu     sync.RWMutex
	closed bool
	inside sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

func (g *gate) leave() { g.inside.Done() }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) isClosed() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed
}

func (g *gate) wait() { g.inside.Wait() }

// panicked is a panic as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// guarded runs f and turns a panic into a *panicked, on a goroutine where
// nobody else would recover it and around a library that panics on damaged
// files, or is ended by the system when a file was cut short under its map of it.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return f()
}

var _ domain.Store = (*Store)(nil)
