package caddymodule

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/live"
	"github.com/caddy-presets/caddy-presets/domain"
)

// sharedStates holds a *shared by the name of each store that handlers use.
var sharedStates = caddy.NewUsagePool()

// shared is what all handlers of one store share. It outlives reloads.
type shared struct {
	limiter *authLimiter
	advised sync.Once // how to make the first key
}

// Destruct implements caddy.Destructor.
func (*shared) Destruct() error { return nil }

// goLive registers the handler as a user of its store, until withdraw.
func (h *Handler) goLive(e engine.Engine) {
	h.storeName = e.Name()
	value, _, _ := sharedStates.LoadOrNew(h.storeName, func() (caddy.Destructor, error) { // never fails
		return &shared{limiter: newAuthLimiter()}, nil
	})
	h.shared = value.(*shared)
	h.limiter = h.shared.limiter
	h.use = &live.Use{
		Store: e.Store(), Service: domain.NewService(e.Store()),
		Keys: slices.Collect(maps.Values(h.keys)), KeepVersions: h.KeepVersions,
	}
	h.live = live.Add(h.storeName, h.use)
	h.finder = keyFinder{h.keys, []*live.Store{h.live}}
}

func (h *Handler) withdraw() error {
	if h.live == nil {
		return nil // Provision never got that far
	}
	_, err := sharedStates.Delete(h.storeName)
	return errors.Join(err, h.live.Remove(h.use))
}

// adviseFirstKey logs how to make the first key, if neither the configuration nor the
// store has one. Reloads do not log it again.
func (h *Handler) adviseFirstKey(ctx context.Context) {
	if len(h.live.Keys()) > 0 {
		return
	}
	if keys, err := h.service.Keys(ctx); err != nil || len(keys) > 0 {
		return // the store logs its failures
	}
	h.shared.advised.Do(func() {
		h.logger.Warn("no key is configured for this site and none was issued: make the first with caddy presets key create --kind management", zap.String("store", h.storeName))
	})
}

// Interface guard
var _ caddy.Destructor = (*shared)(nil)
