package badger

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/logof"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// folder opens the store in a folder, and maintains it.
type folder struct {
	name     string
	key      []byte           // nil without encryption
	existing bool             // no store may be created
	newest   func() *settings // of the configuration that came last
	now      func() time.Time // the time; tests set another

	retries retryState
	checks  checkState

	isDamaged bool // the open store was found damaged, which was logged
}

// maxRetryPause bounds the pause between attempts that read all tables. A damaged store is tried again,
// too: a disk that cannot read counts as damaged, and may be able to read later.
const maxRetryPause = time.Minute

// Open implements storepool.Opener.
func (f *folder) Open(context.Context) (*badgerstore.Store, error) {
	f.retries = retryState{pause: storepool.RetryInterval, mayBeNew: !f.existing && f.mayBeNew()}
	store, err := f.open()
	if err != nil && !f.IsFatal(err) {
		f.logger().Error("the store cannot be opened: presets and workspaces are unavailable until it can, "+
			"requests that do not need them are served", zap.String("folder", f.name), zap.Error(err))
	}
	return store, err
}

// IsFatal implements storepool.Opener.
func (*folder) IsFatal(err error) bool { return errors.Is(err, badgerstore.ErrMisused) }

// open opens the store, and creates it if retries say that it may be new.
func (f *folder) open() (*badgerstore.Store, error) {
	store, err := badgerstore.Open(f.name, badgerstore.Options{
		Logger: logof.New(f.logger), EncryptionKey: f.key, CacheSize: f.settings().cache, Existing: !f.retries.mayBeNew,
	})
	f.checks, f.isDamaged = checkState{last: time.Now()}, false
	// Returns what opening the store used to the system, some 17 MiB, which takes a few milliseconds.
	debug.FreeOSMemory()
	return store, err
}

// mayBeNew reports whether a store may be created in the folder. It must not be a store,
// nor be behind a dangling link, such as one to an unmounted file system.
func (f *folder) mayBeNew() bool {
	if f.isStore() {
		return false
	}
	for name := f.name; ; name = filepath.Dir(name) {
		if _, err := os.Lstat(name); err == nil || name == filepath.Dir(name) {
			_, err := os.Stat(name)
			return err == nil
		}
	}
}

// isStore reports whether the folder is a store, or may be an unreadable one.
func (f *folder) isStore() bool {
	_, err := os.Stat(filepath.Join(f.name, badgerstore.MarkerName))
	return !errors.Is(err, fs.ErrNotExist)
}

// retryState says when to try again to open a store, and how.
type retryState struct {
	pause    time.Duration // after the next attempt, if it fails
	next     time.Time     // no attempt before
	mayBeNew bool          // there never was a store, so it may be created
}

// Retry implements storepool.Opener. It opens the store if its time has come and that may
// succeed.
func (f *folder) Retry(ctx context.Context, why error) (*badgerstore.Store, error) {
	r, now := &f.retries, f.now()
	if now.Before(r.next) {
		return nil, why
	}
	// While a store is being replaced, no empty one must be created.
	r.mayBeNew = r.mayBeNew && !errors.Is(why, badgerstore.ErrDamaged) && f.mayBeNew()
	if !r.mayBeNew && !f.isStore() {
		return nil, why
	}
	began := time.Now()
	store, err := f.open()
	switch {
	case err == nil:
		f.logger().Info("the store is open: presets and workspaces are available", zap.String("folder", f.name))
		return store, nil
	case ctx.Err() != nil:
		return nil, why
	case errors.Is(err, badgerstore.ErrDiskFull): // Open finds out before it reads anything
		r.pause = storepool.RetryInterval
	default:
		r.pause = min(2*r.pause, maxRetryPause)
		r.next = now.Add(time.Since(began) + r.pause)
	}
	if !errors.Is(err, badgerstore.ErrDiskFull) || !errors.Is(why, badgerstore.ErrDiskFull) {
		f.logger().Error("the store still cannot be opened", zap.String("folder", f.name), zap.Error(err))
	}
	return nil, err
}

// Maintain implements storepool.Opener. It checks the store when that is due, and at once after
// a read has found damage.
func (f *folder) Maintain(ctx context.Context, store *badgerstore.Store) {
	now := f.now()
	store.SetCacheSize(f.settings().cache)
	found := store.Damaged() && !f.isDamaged
	if found {
		f.isDamaged = true
		f.logger().Error("stored data were found damaged: presets and keys that are in memory are served on, and so is all that is whole; "+
			"the store is checked now; restore a backup, or copy what is whole with caddy presets salvage", zap.String("folder", f.name))
	}
	if found || f.checks.isDue(now, f.settings().scrub) {
		f.scrub(ctx, store)
		f.checks.last, f.checks.checked = time.Now(), true
	}
}

// checkState says when a store is to be checked.
type checkState struct {
	last    time.Time // the last check, or the opening
	checked bool      // since the opening
}

// maxFirstCheck bounds the time from the opening of a store to its first check.
const maxFirstCheck = time.Hour

// isDue reports whether the next check is due. The first one is early, so that a server
// that restarts each day makes one.
func (c checkState) isDue(now time.Time, interval time.Duration) bool {
	wait := interval
	if !c.checked {
		wait = min(interval/10, maxFirstCheck)
	}
	return interval > 0 && now.Sub(c.last) >= wait
}

// scrub checks the whole store, to find damage while there is a backup from before it.
func (f *folder) scrub(ctx context.Context, store *badgerstore.Store) {
	start := time.Now()
	report, err := store.Check(ctx)
	fields := []zap.Field{
		zap.String("folder", f.name), zap.Int("records", report.Records), zap.Int("tables", report.Tables), zap.Duration("took", time.Since(start)),
	}
	switch log := f.logger(); {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("the store could not be checked", append(fields, zap.Error(err))...)
	case len(report.Problems) > 0:
		log.Error("the store is damaged: restore a backup", append(fields, zap.Strings("problems", report.Problems), zap.Int("more", report.More))...)
	default:
		log.Info("the store was checked: nothing is damaged", fields...)
	}
}

// settings returns those of the configuration that came last, or none after the last one.
func (f *folder) settings() settings {
	if s := f.newest(); s != nil {
		return *s
	}
	return settings{logger: zap.NewNop()}
}

func (f *folder) logger() *zap.Logger { return f.settings().logger }

// Interface guard
var _ storepool.Opener[*badgerstore.Store] = (*folder)(nil)
