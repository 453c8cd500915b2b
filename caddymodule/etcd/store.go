package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/etcd/etcdstore"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/logof"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sharing"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// clusters has the handles on clusters, by what Etcd.identity returns, which holds
// secrets and is never to be shown.
var clusters = sharing.Pool[settings, *handle]{
	Open: open,
	NotClosed: func(s settings, err error) {
		s.logger.Error("letting go of the cluster failed", zap.String("store", s.name), zap.Error(err))
	},
}

// settings are what a configuration says about a cluster.
type settings struct {
	name    string
	options etcdstore.Options
	logger  *zap.Logger
}

// retryInterval is how often it is tried to open a store that could not be.
const retryInterval = time.Second

// handle is a store that several configurations share, as long as it can be opened.
type handle struct {
	name    string
	options etcdstore.Options
	store   atomic.Pointer[etcdstore.Store] // nil while it could not be opened
	why     atomic.Pointer[error]           // and why that is so
	told    string                          // of that to the operator, last
	quit    context.CancelFunc
	done    chan struct{}
}

// open opens a store, or goes on trying to where that may work later.
func open(s settings, newest func() *settings) (*handle, error) {
	h := &handle{name: s.name, options: s.options, done: make(chan struct{})}
	h.options.Logger = logof.New(func() *zap.Logger {
		if s := newest(); s != nil {
			return s.logger
		}
		return zap.NewNop()
	})
	ctx, quit := context.WithCancel(context.Background())
	h.quit = quit
	err := h.open(ctx)
	if err != nil && !errors.Is(err, domain.ErrUnavailable) {
		quit()
		return nil, err
	}
	if err != nil {
		h.tell(err)
	}
	go h.tend(ctx)
	return h, nil
}

func (h *handle) open(ctx context.Context) error {
	store, err := etcdstore.Open(ctx, h.options)
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
		switch err := h.open(ctx); {
		case err == nil:
			h.options.Logger.Info("the cluster answers: presets and workspaces are available", zap.String("store", h.name))
		case ctx.Err() == nil:
			h.tell(err)
		}
	}
}

// tell tells the operator why the store cannot be opened, unless that was told before.
// Clusters that do not answer have many ways not to.
func (h *handle) tell(err error) {
	what, detail := "the cluster does not answer: presets and workspaces are unavailable until it does", ""
	if etcdstore.Answered(err) {
		what, detail = "the cluster answers, but the store cannot be opened: presets and workspaces are unavailable until it can", err.Error()
	}
	if told := what + detail; told != h.told {
		h.told = told
		h.options.Logger.Error(what+", requests that do not need them are served", zap.String("store", h.name), zap.Error(err))
	}
}

// Close closes the store. An attempt to open it that is under way is given up.
func (h *handle) Close() error {
	h.quit()
	<-h.done
	if store := h.store.Load(); store != nil {
		return store.Close()
	}
	return nil
}

// get returns the store, or why there is none.
func (h *handle) get() (*etcdstore.Store, error) {
	if store := h.store.Load(); store != nil {
		return store, nil
	}
	err := *h.why.Load()
	if !errors.Is(err, domain.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
	}
	return nil, err
}

// lease is a configuration's share in a handle.
type lease struct {
	*sharing.Lease[settings, *handle]
}

// use calls fn with the store.
func (l *lease) use(ctx context.Context, fn func(*etcdstore.Store) error) error {
	return l.Use(ctx, func(h *handle) error {
		store, err := h.get()
		if err != nil {
			return err
		}
		return fn(store)
	})
}

// View implements domain.Store.
func (l *lease) View(ctx context.Context, fn func(domain.Reader) error) error {
	return l.use(ctx, func(store *etcdstore.Store) error { return store.View(ctx, fn) })
}

// Update implements domain.Store.
func (l *lease) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return l.use(ctx, func(store *etcdstore.Store) error { return store.Update(ctx, fn) })
}

// AfterRemoval says what becomes of the space of what was removed.
func (*lease) AfterRemoval() string {
	return "etcd uses the space again once it has compacted its history; `etcdctl defrag` on one member after another gives it back to the disk"
}

// Check is etcdstore.Store.Check of the store.
func (l *lease) Check(ctx context.Context) (report storage.Report, err error) {
	err = l.use(ctx, func(store *etcdstore.Store) (err error) {
		report, err = store.Check(ctx)
		return err
	})
	return report, err
}

// Sync implements domain.Store.
func (l *lease) Sync(ctx context.Context) error {
	return l.use(ctx, func(store *etcdstore.Store) error { return store.Sync(ctx) })
}

// Stamps implements domain.Store.
func (l *lease) Stamps() *domain.Stamps {
	if h, ok := l.Current(); ok {
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
