package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bundle"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
)

// shared is the state that all handlers of one store share. It outlives reloads.
type shared struct {
	limiter  *limiter.Limiter
	advised  sync.Once // see adviseFirstKey
	changes  events.Order
	webhooks *webhook.Queues
	usage    *usagerecorder.Recorder
	bundles  *bundle.Bundles
	quota    *quota.Keeper
	uncosted sync.Once // a request without a cost was logged

	mu        sync.Mutex
	inferring []*Handler // those with an inference block, until Cleanup
}

func newShared(store string) *shared {
	return &shared{
		limiter:  limiter.New(),
		usage:    usagerecorder.Of(store),
		webhooks: webhook.NewQueues(webhookLimits),
		bundles:  bundle.New(),
		quota:    quota.Of(store),
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
		h.use.StoreUsage = func(ctx context.Context) error {
			return errors.Join(h.shared.usage.Flush(ctx, recording), h.shared.quota.Store(ctx))
		}
	}
	h.live = registry.Add(e.Name(), h.use)
	h.shared = h.live.Shared(func() any { return newShared(h.live.Name()) }).(*shared)
	h.shared.webhooks.Add(h.webhooks)
	h.inheritMemory()
	if recording != nil {
		h.shared.usage.Start(recording)
	}
	h.service.Changing = h.changing
	h.startLimits(e.Store(), operators)
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

func (h *Handler) provisionStore(ctx caddy.Context) error {
	if h.StorageRaw == nil {
		h.StorageRaw = json.RawMessage(`{"engine":"badger"}`)
	}
	if err := checkEngineOf(h.StorageRaw); err != nil {
		return err
	}
	guest, err := engine.WithMemory(ctx, h.Memory).LoadModule(h, "StorageRaw")
	if err != nil {
		return fmt.Errorf("loading the storage engine: %w", err)
	}
	e, ok := guest.(engine.Engine)
	if !ok {
		return fmt.Errorf("module %T is not a storage engine", guest)
	}
	store := h.metrics.Measure(e.Store())
	memory := domain.NewMemory(h.Memory)
	h.service = domain.NewService(store)
	h.service.UseMemory(memory)
	h.service.KeepVersions = h.KeepVersions
	h.damage, _ = e.Store().(engine.DamageReporter)
	ensured := h.service.EnsureDefaultWorkspace(ctx)
	if ensured != nil && !isRetryable(ensured) {
		return fmt.Errorf("creating the default workspace: %w", ensured)
	}
	if h.Inference != nil {
		if err := h.Inference.provision(store, memory); err != nil {
			return fmt.Errorf("inference: %w", err)
		}
	}
	h.goLive(e, memory)
	if ensured != nil {
		go h.ensureLater(ctx) // requests that need no store are served meanwhile
		return nil
	}
	h.adviseFirstKey(ctx)
	h.adviseMoney(ctx)
	return nil
}

// isRetryable reports whether a change that failed may succeed later, or may have been made.
func isRetryable(err error) bool {
	return errors.Is(err, domain.ErrUnavailable) || errors.Is(err, domain.ErrConflict) || errors.Is(err, domain.ErrUnknown)
}

// ensureLater creates the default workspace as soon as the store is available, until
// ctx ends.
func (h *Handler) ensureLater(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.service.EnsureDefaultWorkspace(ctx)
		if err == nil {
			h.adviseFirstKey(ctx)
			return
		}
		if !isRetryable(err) {
			if ctx.Err() == nil {
				h.logger.Error("creating the default workspace failed: the next start or reload tries again", zap.Error(err))
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(storepool.RetryInterval):
		}
	}
}

// checkEngine returns an error unless this build has the engine of a name. The error says
// how to get one.
func checkEngine(name string) error {
	var engines []string
	for _, m := range caddy.GetModules(engine.Namespace) {
		if m.ID.Name() == name {
			return nil
		}
		engines = append(engines, m.ID.Name())
	}
	has := "; this build has " + strings.Join(engines, " and ")
	switch {
	case name == "":
		return fmt.Errorf("storage: the name of the engine is empty%s%s", has, directive.MaybeUnset)
	case strings.ContainsAny(name, `/\`):
		return fmt.Errorf("storage wants the name of an engine before its folder: storage badger %s", name)
	case name == "etcd":
		return fmt.Errorf("storage: this build of Caddy is without the engine etcd: build one as https://github.com/caddy-presets/caddy-presets/blob/main/xcaddy.md says, --with github.com/caddy-presets/caddy-presets/caddymodule/etcd")
	}
	return fmt.Errorf("storage: there is no engine %q%s", name, has)
}

// checkEngineOf is checkEngine for a configuration in JSON. Caddy itself refuses one
// without a name.
func checkEngineOf(storage json.RawMessage) error {
	var named struct {
		Engine string `json:"engine"`
	}
	if err := json.Unmarshal(storage, &named); err != nil || named.Engine == "" {
		return nil //nolint:nilerror // as above
	}
	return checkEngine(named.Engine)
}
