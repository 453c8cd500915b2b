package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/logof"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sharing"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// folders has the handles on folders, by their canonical names.
var folders = sharing.Pool[folderSettings, *handle]{
	Open: func(s folderSettings, newest func() *folderSettings) (*handle, error) {
		h := &handle{folder: s.folder, key: s.key, probe: probeApart, newest: newest}
		return h, h.start()
	},
	Fits: func(h *handle, s folderSettings) error {
		if bytes.Equal(h.key, s.key) {
			return nil
		}
		return fmt.Errorf("the store in %s is in use with another encryption key, or without one: "+
			"all that use a folder must have the same encryption_key_file", s.folder)
	},
	NotClosed: func(s folderSettings, err error) {
		s.logger.Error("closing the store failed", zap.String("folder", s.folder), zap.Error(err))
	},
}

// handle is the store in a folder, or the reason why there is none at the moment:
// one that is damaged, or on a full disk, must not keep the server from all else
// that it does.
type handle struct {
	folder string
	key    []byte                            // nil without encryption
	store  atomic.Pointer[badgerstore.Store] // nil while it cannot be opened
	probe  func(ctx context.Context, folder string, o badgerstore.Options) error
	newest func() *folderSettings // what concerns the folder as a whole goes by them

	mu  sync.Mutex
	why error // there is no store

	quit context.CancelFunc // ends tending
	done chan struct{}
}

// start opens the store, or goes on trying to where it may be possible later.
func (h *handle) start() error {
	ctx, quit := context.WithCancel(context.Background())
	a := h.attempts()
	if err := h.open(ctx, a.new); err != nil {
		if errors.Is(err, badgerstore.ErrMisused) { // by the configuration
			quit()
			return err
		}
		h.logger().Error("the store cannot be opened: presets and workspaces are unavailable until it can, "+
			"requests that do not need them are served", zap.String("folder", h.folder), zap.Error(err))
	}
	h.quit, h.done = quit, make(chan struct{})
	go h.tend(ctx, a)
	return nil
}

// mayBeNew reports whether nothing speaks for there being a store in the folder, which may
// then be made one: neither what is in it, nor a link on the way to it that leads to
// nothing, as to a file system that is not mounted yet.
func (h *handle) mayBeNew() bool {
	if h.isStore() {
		return false
	}
	for name := h.folder; ; name = filepath.Dir(name) {
		if _, err := os.Lstat(name); err == nil || name == filepath.Dir(name) {
			_, err := os.Stat(name)
			return err == nil
		}
	}
}

// isStore reports whether the folder is a store, or may be one that cannot be looked at.
func (h *handle) isStore() bool {
	_, err := os.Stat(filepath.Join(h.folder, badgerstore.MarkerName))
	return !errors.Is(err, fs.ErrNotExist)
}

// open opens the store, which is made if there is none and it may be new.
func (h *handle) open(ctx context.Context, mayBeNew bool) error {
	store, err := badgerstore.Open(h.folder, badgerstore.Options{
		Logger: logof.New(h.logger), EncryptionKey: h.key, Existing: !mayBeNew,
		Probe: func(folder string, o badgerstore.Options) error { return h.probe(ctx, folder, o) },
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why = err; err == nil {
		h.store.Store(store)
	}
	return err
}

// retryInterval is how often it is looked whether a store can be opened. Tests have no
// time for that.
var retryInterval = time.Second

// maxRetryPause is how long is waited at most after an attempt that failed, as each
// may read all tables.
const maxRetryPause = 30 * time.Second

// tend opens the store as soon as that is possible, and then maintains it, until ctx
// ends.
func (h *handle) tend(ctx context.Context, a attempts) {
	defer close(h.done)
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	checks := newChecks(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		store := h.store.Load()
		switch {
		case ctx.Err() != nil: // a select with both picks either
			return
		case store == nil:
			h.retry(ctx, &a, time.Now())
			checks = newChecks(time.Now())
		default:
			h.maintain(ctx, store, &checks, time.Now())
		}
	}
}

// maintain does for a store that is open what is due. It looks for damage and gives back
// disk space in turn, and not at once: what a check sees is not given back.
func (h *handle) maintain(ctx context.Context, store *badgerstore.Store, checks *checks, now time.Time) {
	switch {
	case checks.due(now, h.scrubInterval()):
		h.scrub(ctx, store)
		checks.last, checks.some = time.Now(), true
	case store.ShouldReclaim(now):
		if err := store.Reclaim(ctx); err != nil && ctx.Err() == nil {
			h.logger().Warn("the disk space of removed records was not given back: it is tried again within the hour", zap.String("folder", h.folder), zap.Error(err))
		}
	}
}

// attempts are those to open a store.
type attempts struct {
	seen  string        // what was in the folder before the last one
	pause time.Duration // after the next one that fails
	next  time.Time     // not before
	new   bool          // there never was a store, and may be made one
}

// attempts returns those that begin now.
func (h *handle) attempts() attempts {
	return attempts{seen: contents(h.folder), pause: retryInterval, new: h.mayBeNew()}
}

// retry opens the store if there may be space again, or if what was found damaged
// has changed from how it was seen.
func (h *handle) retry(ctx context.Context, a *attempts, now time.Time) {
	if now.Before(a.next) {
		return
	}
	_, why := h.get()
	found := contents(h.folder)
	if errors.Is(why, badgerstore.ErrDamaged) && found == a.seen {
		return
	}
	// What is being replaced must not become an empty store meanwhile.
	a.new = a.new && !errors.Is(why, badgerstore.ErrDamaged) && h.mayBeNew()
	if !a.new && !h.isStore() {
		return
	}
	// As it was before, so that what changes meanwhile is noticed.
	a.seen = found
	began := time.Now()
	err := h.open(ctx, a.new)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		h.logger().Info("the store is open: presets and workspaces are available", zap.String("folder", h.folder))
		return
	case errors.Is(err, badgerstore.ErrDiskFull): // which is found out before anything is read
		a.pause = retryInterval
	default:
		a.pause = min(2*a.pause, maxRetryPause)
		a.next = now.Add(time.Since(began) + a.pause)
	}
	if reason(err) != reason(why) { // not their texts, which tell how much space is left
		h.logger().Error("the store still cannot be opened", zap.String("folder", h.folder), zap.Error(err))
	}
}

// reason is what keeps a store from being opened, as far as it makes a difference to
// an operator.
func reason(err error) string {
	switch {
	case errors.Is(err, badgerstore.ErrDamaged):
		return "damage"
	case errors.Is(err, badgerstore.ErrDiskFull):
		return "a full disk"
	default:
		return "another"
	}
}

// checks are those of a store that is open.
type checks struct {
	last time.Time // or when it was opened, without any
	some bool
	luck float64 // from 0 to 1
}

// newChecks returns those of a store that was opened just now.
func newChecks(now time.Time) checks {
	return checks{last: now, luck: rand.Float64()} //nolint:gosec // it spreads load, and is no secret
}

// maxFirstCheck is how long after it was opened a store is looked at for the first time
// at the latest.
const maxFirstCheck = time.Hour

// due reports whether the next check is, given how often there is to be one. The first
// comes soon: a server that is started anew each day would else never make one. It
// comes at no fixed time, for many servers may have been started at once.
func (c checks) due(now time.Time, interval time.Duration) bool {
	wait := interval
	if !c.some {
		wait = time.Duration(c.luck * float64(min(interval/10, maxFirstCheck)))
	}
	return interval > 0 && now.Sub(c.last) >= wait
}

// scrub looks for damage, so that what rots where nobody reads is found while there
// is a backup from before.
func (h *handle) scrub(ctx context.Context, store *badgerstore.Store) {
	start := time.Now()
	report, err := store.Check(ctx)
	fields := []zap.Field{
		zap.String("folder", h.folder), zap.Int("records", report.Records), zap.Int("tables", report.Tables), zap.Duration("took", time.Since(start)),
	}
	switch log := h.logger(); {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("the store could not be checked", append(fields, zap.Error(err))...)
	case len(report.Problems) > 0:
		log.Error("the store is damaged: restore a backup", append(fields, zap.Strings("problems", report.Problems), zap.Int("more", report.More))...)
	default:
		log.Info("the store was checked: nothing is damaged", fields...)
	}
}

// contents says what is in a folder: the name, size and time of each file.
func contents(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			fmt.Fprintln(&text, entry.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return text.String()
}

// get returns the store, or why there is none.
func (h *handle) get() (*badgerstore.Store, error) {
	if store := h.store.Load(); store != nil {
		return store, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store.Load(), unavailable(h.why)
}

func unavailable(why error) error {
	if why == nil || errors.Is(why, domain.ErrUnavailable) {
		return why
	}
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, why)
}

// noStamps are the stamps of nothing.
var noStamps = domain.NewStamps()

func (h *handle) stamps() *domain.Stamps {
	if store := h.store.Load(); store != nil {
		return store.Stamps()
	}
	return noStamps
}

// Close closes the store, within the store's own limit of time. An attempt to open
// it that is under way is given up.
func (h *handle) Close() error {
	h.quit()
	<-h.done
	if store := h.store.Load(); store != nil {
		return store.Close()
	}
	return nil
}

func (h *handle) logger() *zap.Logger {
	if s := h.newest(); s != nil {
		return s.logger
	}
	return zap.NewNop()
}

func (h *handle) scrubInterval() time.Duration {
	if s := h.newest(); s != nil {
		return s.scrub
	}
	return 0
}

// folderSettings are what a configuration says about a folder.
type folderSettings struct {
	folder string
	key    []byte        // nil without encryption
	scrub  time.Duration // how often, not positive for never
	logger *zap.Logger
}

// lease is a configuration's share in the handle on a folder.
type lease struct {
	*sharing.Lease[folderSettings, *handle]
}

func newLease(s folderSettings) *lease { return &lease{folders.Lease(s.folder, s)} }

// View implements domain.Store.
func (l *lease) View(ctx context.Context, fn func(domain.Reader) error) error {
	return l.use(ctx, func(store *badgerstore.Store) error { return store.View(ctx, fn) })
}

// Update implements domain.Store.
func (l *lease) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return l.use(ctx, func(store *badgerstore.Store) error { return store.Update(ctx, fn) })
}

// AfterRemoval implements engine.RemovalAdviser.
func (*lease) AfterRemoval() string {
	return "the folder gets smaller by itself within the hour if a tenth of what is stored was removed since it last did, and 1 MiB or more; what is less goes with what is removed later"
}

// Check implements engine.Checker.
func (l *lease) Check(ctx context.Context) (report storage.Report, err error) {
	err = l.use(ctx, func(store *badgerstore.Store) (err error) {
		report, err = store.Check(ctx)
		return err
	})
	return report, err
}

func (l *lease) use(ctx context.Context, fn func(*badgerstore.Store) error) error {
	return l.Use(ctx, func(h *handle) error {
		store, err := h.get()
		if err != nil {
			return err
		}
		return fn(store)
	})
}

// Stamps implements domain.Store. They are those of the store that is open: when
// the folder was closed meanwhile and is opened again they are others.
func (l *lease) Stamps() *domain.Stamps {
	if h, ok := l.Current(); ok {
		return h.stamps()
	}
	stamps := noStamps // which match nothing that anyone kept
	_ = l.Use(context.Background(), func(h *handle) error {
		stamps = h.stamps()
		return nil
	})
	return stamps
}

// Sync implements domain.Store.
func (*lease) Sync(context.Context) error { return nil }

// Backup implements engine.Backuper.
func (l *lease) Backup(ctx context.Context, w io.Writer, since string) error {
	var base *badgerstore.BackupInfo
	if since != "" {
		info, err := badgerstore.ParseBackupInfo([]byte(since))
		if err != nil {
			return fmt.Errorf("%w: since: %w", storage.ErrBaseRefused, err)
		}
		base = &info
	}
	return l.use(ctx, func(store *badgerstore.Store) error {
		_, _, err := store.Backup(ctx, w, base)
		return err
	})
}

// Interface guards
var (
	_ domain.Store          = (*lease)(nil)
	_ engine.Checker        = (*lease)(nil)
	_ engine.Backuper       = (*lease)(nil)
	_ engine.RemovalAdviser = (*lease)(nil)
)
