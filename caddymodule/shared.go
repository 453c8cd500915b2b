package caddymodule

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
)

// shared is the state that all handlers of one store share. It outlives reloads.
type shared struct {
	limiter  *limiter.Limiter
	advised  sync.Once // see adviseFirstKey
	changes  changeOrder
	webhooks *webhook.Queues
	usage    *usagerecorder.Recorder
	bundles  bundles

	mu        sync.Mutex
	inferring []*Handler // those with an inference block, until Cleanup
}

func newShared(store string) *shared {
	return &shared{
		limiter:  limiter.New(),
		usage:    usagerecorder.Of(store),
		webhooks: webhook.NewQueues(webhookLimits),
		bundles:  bundles{turn: semaphore.NewWeighted(1)},
	}
}

// goLive registers the handler as a user of its store, until Cleanup. From then on changes
// are announced.
func (h *Handler) goLive(e engine.Engine, memory *domain.Memory) {
	operators := domain.NewService(e.Store())
	operators.UseMemory(memory)
	operators.Changing = h.changing
	h.use = &registry.Use{
		Store: e.Store(), Service: operators,
		Keys: slices.Collect(maps.Values(h.keys)), KeepVersions: h.KeepVersions,
		Inference: h.Inference != nil,
	}
	var recording *usagerecorder.Use
	if h.Inference != nil && h.Inference.Usage != nil {
		u := h.Inference.Usage
		recording = &usagerecorder.Use{
			Store: e.Store(), KeepHours: time.Duration(u.KeepHours), KeepDays: time.Duration(u.KeepDays), Logger: h.logger,
		}
		u.recording = recording
		h.use.StoreUsage = func(ctx context.Context) error { return h.shared.usage.Flush(ctx, recording) }
	}
	h.live = registry.Add(e.Name(), h.use)
	h.shared = h.live.Shared(func() any { return newShared(h.live.Name()) }).(*shared)
	h.shared.webhooks.Add(h.webhooks)
	h.inheritMemory()
	if recording != nil {
		h.shared.usage.Start(recording)
	}
	h.service.Changing = h.changing
	h.finder = ownkeys.Finder{Own: h.keys, Stores: []*registry.Store{h.live}}
}

// inheritMemory copies the cached presets of other handlers if the store is damaged. These belong
// to the previous configuration and to other sites. A cache may hold the only readable copy. The
// store's stamps show whether a copy is current. Keys are not copied, because a key with a damaged
// record could not be revoked.
func (h *Handler) inheritMemory() {
	if h.Inference == nil {
		return
	}
	h.shared.mu.Lock()
	others := slices.Clone(h.shared.inferring)
	h.shared.inferring = append(h.shared.inferring, h)
	h.shared.mu.Unlock()
	if h.damage == nil || !h.damage.Damaged() {
		return
	}
	for _, other := range others {
		h.Inference.resolver.Inherit(other.Inference.resolver)
	}
}

// endMemory ends inheritMemory: nobody inherits from h any more.
func (h *Handler) endMemory() {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.inferring = slices.DeleteFunc(h.shared.inferring, func(other *Handler) bool { return other == h })
}

// adviseFirstKey logs how to make the first key if the configuration and the store have
// none. It logs once for each store, and not again on reload.
func (h *Handler) adviseFirstKey(ctx context.Context) {
	if len(h.live.Keys()) > 0 {
		return
	}
	if keys, err := h.service.Keys(ctx); err != nil || len(keys) > 0 {
		return // the store logs its failures
	}
	h.shared.advised.Do(func() {
		h.logger.Warn("no key is configured for this site and none was issued: make the first with caddy presets key create --kind management", zap.String("store", h.live.Name()))
	})
}
