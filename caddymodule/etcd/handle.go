package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/logof"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/etcd"
)

// handles holds the one handle on each cluster, user and prefix that is in use. Joining
// and leaving are one step for all, so that one that is being closed is not joined.
var handles = struct {
	sync.Mutex
	pool *caddy.UsagePool
}{pool: caddy.NewUsagePool()}

// inUse returns the handles that are in use.
func inUse() (all []*handle) {
	handles.pool.Range(func(_, value any) bool {
		all = append(all, value.(*handle))
		return true
	})
	return all
}

// retryInterval is how often it is tried to reach a cluster that does not answer.
const retryInterval = time.Second

// handle is a store that several configurations share, as long as it can be opened.
type handle struct {
	name    string
	options etcd.Options
	store   atomic.Pointer[etcd.Store] // nil while the cluster has not answered
	why     atomic.Pointer[error]      // and why that is so
	quit    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	sharers []*lease // the newest last
}

func join(l *lease) (*handle, error) {
	handles.Lock()
	defer handles.Unlock()
	value, shared, err := handles.pool.LoadOrNew(l.identity, func() (caddy.Destructor, error) {
		h := &handle{name: l.name, options: l.options, done: make(chan struct{}), sharers: []*lease{l}}
		h.options.Logger = logof.New(h.logger)
		ctx, quit := context.WithCancel(context.Background())
		h.quit = quit
		err := h.open(ctx)
		if err != nil && !errors.Is(err, domain.ErrUnavailable) {
			quit()
			return nil, err
		}
		if err != nil {
			h.options.Logger.Error("the cluster does not answer: presets and workspaces are unavailable until it does, "+
				"requests that do not need them are served", zap.String("store", h.name), zap.Error(err))
		}
		go h.tend(ctx)
		return h, nil
	})
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	h := value.(*handle)
	if shared {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sharers = append(h.sharers, l)
	}
	return h, nil
}

// leave gives up a lease's share. The last to do so closes the store.
func (h *handle) leave(l *lease) error {
	handles.Lock()
	defer handles.Unlock()
	_, err := handles.pool.Delete(l.identity)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sharers = slices.DeleteFunc(h.sharers, func(sharer *lease) bool { return sharer == l })
	return err
}

// logger is that of the lease that joined last: an earlier one's may lead nowhere any
// more.
func (h *handle) logger() *zap.Logger {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sharers) == 0 {
		return zap.NewNop()
	}
	return h.sharers[len(h.sharers)-1].logger
}

func (h *handle) open(ctx context.Context) error {
	store, err := etcd.Open(ctx, h.options)
	if err != nil {
		h.why.Store(&err)
		return err
	}
	h.store.Store(store)
	return nil
}

// tend opens the store as soon as that is possible, or until ctx ends.
func (h *handle) tend(ctx context.Context) {
	defer close(h.done)
	for h.store.Load() == nil {
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return
		}
		before := *h.why.Load()
		switch err := h.open(ctx); {
		case err == nil:
			h.options.Logger.Info("the cluster answers: presets and workspaces are available", zap.String("store", h.name))
		case !errors.Is(err, domain.ErrUnavailable) && err.Error() != before.Error():
			h.options.Logger.Error("the cluster answers, but the store cannot be opened: presets and workspaces stay unavailable", zap.String("store", h.name), zap.Error(err))
		}
	}
}

// Destruct implements caddy.Destructor.
func (h *handle) Destruct() error {
	h.quit()
	<-h.done
	if store := h.store.Load(); store != nil {
		return store.Close()
	}
	return nil
}

// get returns the store, or why there is none.
func (h *handle) get() (*etcd.Store, error) {
	if store := h.store.Load(); store != nil {
		return store, nil
	}
	err := *h.why.Load()
	if !errors.Is(err, domain.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
	}
	return nil, err
}

// lease is a configuration's share in a handle. Requests that were under way when the
// configuration was replaced still use it after Cleanup, so it counts its users, the
// configuration being one of them: the share is given up when the last is done, and
// taken again should a request come even later.
type lease struct {
	identity string // of the cluster, its user and the prefix, with secrets: never to be shown
	name     string
	options  etcd.Options
	logger   *zap.Logger

	mu     sync.Mutex // of changes to the fields below
	users  int
	handle atomic.Pointer[handle] // nil without users
}

func (l *lease) acquire() (*handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		h, err := join(l)
		if err != nil {
			return nil, err
		}
		l.handle.Store(h)
	}
	l.users++
	return l.handle.Load(), nil
}

func (l *lease) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users > 0 {
		return nil
	}
	return l.handle.Swap(nil).leave(l)
}

// use calls fn with the store.
func (l *lease) use(ctx context.Context, fn func(*etcd.Store) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := l.acquire()
	if err != nil {
		return err
	}
	defer func() {
		if err := l.release(); err != nil {
			l.logger.Error("letting go of the cluster failed", zap.String("store", l.name), zap.Error(err))
		}
	}()
	store, err := h.get()
	if err != nil {
		return err
	}
	return fn(store)
}

// View implements domain.Store.
func (l *lease) View(ctx context.Context, fn func(domain.Reader) error) error {
	return l.use(ctx, func(store *etcd.Store) error { return store.View(ctx, fn) })
}

// Update implements domain.Store.
func (l *lease) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return l.use(ctx, func(store *etcd.Store) error { return store.Update(ctx, fn) })
}

// Check is etcd.Store.Check of the store.
func (l *lease) Check(ctx context.Context) (report etcd.Report, err error) {
	err = l.use(ctx, func(store *etcd.Store) (err error) {
		report, err = store.Check(ctx)
		return err
	})
	return report, err
}

// Sync implements domain.Store.
func (l *lease) Sync(ctx context.Context) error {
	return l.use(ctx, func(store *etcd.Store) error { return store.Sync(ctx) })
}

// Stamps implements domain.Store.
func (l *lease) Stamps() *domain.Stamps {
	if h := l.handle.Load(); h != nil {
		if store := h.store.Load(); store != nil {
			return store.Stamps()
		}
	}
	return noStamps
}

// noStamps match nothing that anyone kept.
var noStamps = newNoStamps()

func newNoStamps() *domain.Stamps {
	s := domain.NewStamps()
	s.GoodUntil(time.Unix(1, 0))
	return s
}
