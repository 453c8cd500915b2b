package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// folders holds the one handle on each folder that is in use. Opening and
// closing take turns, so that a folder that is being closed can be opened
// again right after.
var folders = struct {
	sync.Mutex
	pool *caddy.UsagePool // *handle by canonical folder
}{pool: caddy.NewUsagePool()}

// handle is the store in a folder, or the reason why there is none at the moment:
// one that is damaged, or on a full disk, must not keep the server from all else
// that it does.
type handle struct {
	folder string
	key    []byte                       // nil without encryption
	store  atomic.Pointer[badger.Store] // nil while it cannot be opened

	mu      sync.Mutex
	why     error    // there is no store
	sharers []*lease // the newest last

	quit context.CancelFunc // ends tending
	done chan struct{}
}

// join gives a lease its share in the handle on its folder. It fails where that
// cannot be what the operator meant, such as a folder that is in use or not a store.
func join(l *lease) (*handle, error) {
	folders.Lock()
	defer folders.Unlock()
	value, shared, err := folders.pool.LoadOrNew(l.folder, func() (caddy.Destructor, error) {
		h := &handle{folder: l.folder, key: l.key, sharers: []*lease{l}}
		return h, h.start()
	})
	if err != nil {
		return nil, err
	}
	h := value.(*handle)
	if !bytes.Equal(h.key, l.key) {
		_, err := folders.pool.Delete(l.folder)
		return nil, errors.Join(fmt.Errorf("the store in %s is in use with another encryption key, or without one: "+
			"all that use a folder must have the same encryption_key_file", l.folder), err)
	}
	if shared {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sharers = append(h.sharers, l)
	}
	return h, nil
}

// leave gives up a lease's share. The last to do so closes the store.
func (h *handle) leave(l *lease) error {
	folders.Lock()
	defer folders.Unlock()
	_, err := folders.pool.Delete(h.folder)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sharers = slices.DeleteFunc(h.sharers, func(sharer *lease) bool { return sharer == l })
	return err
}

// start opens the store, or goes on trying to where it may be possible later.
func (h *handle) start() error {
	if err := h.open(); err != nil {
		if !mayPass(err) {
			return err
		}
		h.logger().Error("the store cannot be opened: presets and workspaces are unavailable until it can, "+
			"requests that do not need them are served", zap.String("folder", h.folder), zap.Error(err))
	}
	ctx, quit := context.WithCancel(context.Background())
	h.quit, h.done = quit, make(chan struct{})
	go h.tend(ctx)
	return nil
}

// mayPass reports whether what keeps a store from being opened lies in its files or
// its disk, and not in what was configured.
func mayPass(err error) bool {
	return errors.Is(err, badger.ErrDamaged) || errors.Is(err, domain.ErrUnavailable) || errors.Is(err, syscall.EIO)
}

func (h *handle) open() error {
	store, err := badger.Open(h.folder, badger.Options{Logger: zap.New(logOf{h}), EncryptionKey: h.key, Probe: probeApart})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why = err; err == nil {
		h.store.Store(store)
	}
	return err
}

// retryInterval is how often it is looked whether a store can be opened.
const retryInterval = time.Second

// tend opens the store as soon as that is possible, and then looks for damage in it
// now and then, until ctx ends.
func (h *handle) tend(ctx context.Context) {
	defer close(h.done)
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	seen, checked := contents(h.folder), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		store := h.store.Load()
		interval := h.scrubInterval()
		switch {
		case store == nil:
			seen, checked = h.retry(seen), time.Now()
		case interval > 0 && time.Since(checked) >= interval:
			h.scrub(ctx, store)
			checked = time.Now()
		}
	}
}

// retry opens the store if there may be space again, or if what was found damaged
// has changed from how it was seen. It returns how it is now.
func (h *handle) retry(seen string) string {
	_, why := h.get()
	if now := contents(h.folder); errors.Is(why, badger.ErrDamaged) && now == seen {
		return now
	}
	if _, err := os.Stat(filepath.Join(h.folder, badger.MarkerName)); err != nil && !errors.Is(why, badger.ErrDiskFull) {
		return seen // it is being replaced: an empty folder would become an empty store
	}
	if h.open() == nil {
		h.logger().Info("the store is open: presets and workspaces are available", zap.String("folder", h.folder))
	} else if _, now := h.get(); now.Error() != why.Error() {
		h.logger().Error("the store still cannot be opened", zap.String("folder", h.folder), zap.Error(now))
	}
	return contents(h.folder)
}

// scrub looks for damage, so that what rots where nobody reads is found while there
// is a backup from before.
func (h *handle) scrub(ctx context.Context, store *badger.Store) {
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
func (h *handle) get() (*badger.Store, error) {
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

// Destruct closes the store, within the store's own limit of time.
func (h *handle) Destruct() error {
	h.quit()
	<-h.done
	if store := h.store.Load(); store != nil {
		return store.Close()
	}
	return nil
}

// newest returns the lease that joined last, nil for none. What concerns the folder as
// a whole goes by it: the logger of an earlier one may lead nowhere any more.
func (h *handle) newest() *lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sharers) == 0 {
		return nil
	}
	return h.sharers[len(h.sharers)-1]
}

func (h *handle) logger() *zap.Logger {
	if l := h.newest(); l != nil {
		return l.logger
	}
	return zap.NewNop()
}

func (h *handle) scrubInterval() time.Duration {
	if l := h.newest(); l != nil {
		return l.scrub
	}
	return 0
}

// logOf is a zapcore.Core that writes to whatever is the logger of a handle.
type logOf struct{ h *handle }

func (c logOf) Enabled(level zapcore.Level) bool { return c.h.logger().Core().Enabled(level) }

func (c logOf) With(fields []zapcore.Field) zapcore.Core {
	return c.h.logger().Core().With(fields)
}

func (c logOf) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	l := c.h.logger()
	entry.LoggerName = l.Name()
	return l.Core().Check(entry, checked)
}

func (c logOf) Write(zapcore.Entry, []zapcore.Field) error { return nil } // Check adds other cores

func (c logOf) Sync() error { return c.h.logger().Sync() }
