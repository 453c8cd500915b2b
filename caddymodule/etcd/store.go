package etcd

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/etcd/etcdstore"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/logof"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/dump"
)

// clusters has the handles on clusters. Their keys come from Etcd.identity. They hold
// secrets and are never shown.
var clusters = storepool.Pool[settings, *etcdstore.Store]{
	Opener: func(s settings, newest func() *settings) storepool.Opener[*etcdstore.Store] {
		o := &opener{name: s.name, options: s.options, newest: newest}
		o.options.Logger = logof.New(func() *zap.Logger {
			if s := newest(); s != nil {
				return s.logger
			}
			return zap.NewNop()
		})
		return o
	},
	OnCloseError: func(s settings, err error) {
		s.logger.Error("releasing the cluster failed", zap.String("store", s.name), zap.Error(err))
	},
}

// settings are a configuration's options for a cluster.
type settings struct {
	name    string
	options etcdstore.Options
	logger  *zap.Logger
}

// opener opens the store in a cluster.
type opener struct {
	name    string
	options etcdstore.Options
	newest  func() *settings
	logged  string // the last reason why the store cannot be opened
}

// Open implements storepool.Opener.
func (o *opener) Open(ctx context.Context) (*etcdstore.Store, error) {
	store, err := etcdstore.Open(ctx, o.options)
	if err != nil && !o.IsFatal(err) {
		o.logReason(err)
	}
	return store, err
}

// IsFatal implements storepool.Opener.
func (*opener) IsFatal(err error) bool { return !errors.Is(err, domain.ErrUnavailable) }

// Retry implements storepool.Opener.
func (o *opener) Retry(ctx context.Context, _ error) (*etcdstore.Store, error) {
	store, err := etcdstore.Open(ctx, o.options)
	switch {
	case err == nil:
		o.options.Logger.Info("the cluster answers: presets and workspaces are available", zap.String("store", o.name))
	case ctx.Err() == nil:
		o.logReason(err)
	}
	return store, err
}

// Maintain implements storepool.Opener. A reload may have changed the memory of the store, which
// does all else itself.
func (o *opener) Maintain(_ context.Context, store *etcdstore.Store) {
	if s := o.newest(); s != nil {
		store.SetMemory(s.options.Memory)
	}
}

// logReason logs why the store cannot be opened, unless that was logged last. If the
// cluster does not answer, the errors differ but count as one reason.
func (o *opener) logReason(err error) {
	what, detail := "the cluster does not answer: presets and workspaces are unavailable until it does", ""
	if etcdstore.Answered(err) {
		what, detail = "the cluster answers, but the store cannot be opened: presets and workspaces are unavailable until it can", err.Error()
	}
	if reason := what + detail; reason != o.logged {
		o.logged = reason
		o.options.Logger.Error(what+", requests that do not need them are served", zap.String("store", o.name), zap.Error(err))
	}
}

// store is a configuration's reference to the store in a cluster.
type store struct {
	*storepool.Store[settings, *etcdstore.Store]
}

func newStore(identity string, s settings) *store { return &store{clusters.Store(identity, s)} }

// AfterRemoval implements engine.RemovalAdviser.
func (*store) AfterRemoval() string {
	return "etcd uses the space again once it has compacted its history; `etcdctl defrag` on one member after another gives it back to the disk"
}

// Backup implements engine.Backuper.
func (s *store) Backup(ctx context.Context, w io.Writer) error {
	return s.Use(ctx, func(opened *etcdstore.Store) error { return opened.Backup(ctx, w) })
}

// Restore implements engine.Restorer. It has a connection of its own, because a store that holds
// a part of a restore cannot be opened.
func (s *store) Restore(ctx context.Context, from *dump.Reader) error {
	return etcdstore.Restore(ctx, s.Settings.options, from)
}

// Health implements engine.HealthReporter. A store is available while the node has heard
// from the cluster within max_staleness.
func (s *store) Health() engine.Health {
	opened, err := s.Opened()
	if err != nil {
		return engine.Health{Error: err.Error()}
	}
	status := opened.Status()
	if status.Stale {
		return engine.Health{Error: "the cluster has not answered for " + status.Staleness.Round(time.Millisecond).String()}
	}
	return engine.Health{Available: true, Writable: status.Writable}
}

// Details implements engine.DetailReporter.
func (s *store) Details() *engine.Details {
	opened, err := s.Opened()
	if err != nil {
		return nil
	}
	status := opened.Status()
	return &engine.Details{
		Shared: true, Watching: &status.Watching, StalenessSeconds: new(status.Staleness.Seconds()),
		Commit: &status.Commits, MemoryBytes: &status.Memory,
	}
}

// Interface guards
var (
	_ storepool.Opener[*etcdstore.Store] = (*opener)(nil)
	_ domain.Store                       = (*store)(nil)
	_ engine.Checker                     = (*store)(nil)
	_ engine.Backuper                    = (*store)(nil)
	_ engine.Restorer                    = (*store)(nil)
	_ engine.RemovalAdviser              = (*store)(nil)
	_ engine.Holder                      = (*store)(nil)
	_ engine.DetailReporter              = (*store)(nil)
	_ engine.HealthReporter              = (*store)(nil)
)
