package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/metrics"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// bundleOwner manages the presets of bundles.
	bundleOwner = "caddyfile"
	// bundleConflicts bounds how often a bundle is planned again because others change its
	// presets meanwhile.
	bundleConflicts = 10
	// activePoll is how often a bundle looks whether its configuration is the active one.
	activePoll = 10 * time.Millisecond
)

// bundlePrincipal sends the requests of a bundle. It has all rights, as keys of the
// configuration do.
var bundlePrincipal = domain.Principal{KeyID: "bundle", UserID: bundleOwner, Kind: domain.ManagementKey}

// bundleRequest is the context key of these requests. Nothing from outside can set it.
type bundleRequest struct{}

// bundle is a folder of presets that a handler brings to its store when its configuration is
// live.
type bundle struct {
	dir    string
	set    *files.Set
	client *client.Client
	ctx    caddy.Context
	logger *zap.Logger
	// config identifies the configuration.
	config  *caddyevents.App
	metrics *metrics.Metrics
	turn    *semaphore.Weighted
}

// bundles are those of one store. Its methods are safe for concurrent use.
type bundles struct {
	// turn is held while one of them is applied.
	turn *semaphore.Weighted

	mu   sync.Mutex
	uses []*bundle
}

// add adds a bundle until remove. Two folders in one configuration would archive each
// other's presets.
func (s *bundles) add(b *bundle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.uses {
		if other.config == b.config && other.dir != b.dir {
			return fmt.Errorf("another presets directive of the same store has the folder %s, and a store has one", other.dir)
		}
	}
	s.uses = append(s.uses, b)
	b.turn = s.turn
	return nil
}

func (s *bundles) remove(b *bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.uses {
		if other == b {
			s.uses = append(s.uses[:i:i], s.uses[i+1:]...)
			return
		}
	}
}

// provisionBundle reads the bundle, so that a mistake in a file refuses the configuration.
func (h *Handler) provisionBundle(ctx caddy.Context, repl *caddy.Replacer) error {
	if h.Bundle == "" {
		return nil
	}
	dir, err := repl.ReplaceOrErr(h.Bundle, true, true)
	if err != nil {
		return err // names the placeholder
	}
	set, err := files.Read(dir)
	if err != nil {
		return err
	}
	presets := 0
	for _, w := range set.Workspaces {
		presets += len(w.Presets)
	}
	if presets == 0 {
		return fmt.Errorf("there is no preset in %s", dir)
	}
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting the events app: %w", err)
	}
	b := &bundle{dir: dir, set: set, ctx: ctx, logger: h.logger, config: app.(*caddyevents.App), metrics: h.metrics}
	b.client = &client.Client{
		Origin: "http://bundle", Transport: inProcess{h},
		// run repeats everything.
		Wait: func(context.Context, time.Duration) error { return errors.New("requests of a bundle are not repeated") },
	}
	if err := b.config.On("started", b); err != nil {
		return fmt.Errorf("subscribing to Caddy's start: %w", err)
	}
	h.bundle = b
	return nil
}

// Handle takes Caddy's event "started". The bundle is applied in the background, and requests
// are served meanwhile.
func (b *bundle) Handle(context.Context, caddy.Event) error {
	go b.run()
	return nil
}

// run applies the bundle, until that succeeds or its configuration ends.
func (b *bundle) run() {
	b.metrics.BundlesWaiting.Inc()
	defer b.metrics.BundlesWaiting.Dec()
	if !b.awaitActive() {
		return
	}
	conflicts, said := 0, false
	for {
		result, err := b.apply()
		switch {
		case b.ctx.Err() != nil, errors.Is(err, errReplaced):
			return
		case err == nil:
			b.logger.Info("bundle applied", zap.String("folder", b.dir), zap.Int("changed", result))
			return
		case errors.Is(err, errBundleConflict):
			if conflicts++; conflicts < bundleConflicts {
				break
			}
			fallthrough
		case !isPassing(err):
			b.logger.Error("bundle not applied: the next start or reload tries again", zap.String("folder", b.dir), zap.Error(err))
			<-b.ctx.Done() // it still waits
			return
		case !said:
			said = true
			b.logger.Warn("bundle not applied yet: trying again", zap.String("folder", b.dir), zap.Error(err))
		}
		if !b.pause(storepool.RetryInterval) {
			return
		}
	}
}

// pause waits, and reports whether the configuration goes on.
func (b *bundle) pause(d time.Duration) bool {
	select {
	case <-b.ctx.Done():
		return false
	case <-time.After(d):
		return b.ctx.Err() == nil
	}
}

// awaitActive waits until the configuration is the active one. Caddy emits "started" before.
// It may still refuse the configuration then, and the previous one is not stopped yet.
func (b *bundle) awaitActive() bool {
	for !b.isActive() {
		if !b.pause(activePoll) {
			return false
		}
	}
	return true
}

func (b *bundle) isActive() bool {
	app, err := caddy.ActiveContext().AppIfConfigured("events")
	return err == nil && app == any(b.config)
}

// errBundleConflict is the outcome if others changed presets after they were planned.
var errBundleConflict = errors.New("others change its presets at the same time")

// errReplaced is the outcome if another configuration has become the active one.
var errReplaced = errors.New("another configuration is active")

// isPassing reports whether a bundle may be applied later.
func isPassing(err error) bool {
	if errors.Is(err, errBundleConflict) {
		return true
	}
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusConflict)
}

// apply plans and applies the bundle once. It returns how many presets and workspaces it
// changed.
func (b *bundle) apply() (changed int, err error) {
	if err := b.turn.Acquire(b.ctx, 1); err != nil {
		return 0, err
	}
	defer b.turn.Release(1)
	if !b.isActive() { // a reload was faster, and has not stopped this configuration yet
		return 0, errReplaced
	}
	p, err := plan.New(b.ctx, b.client, b.set, plan.Options{Owner: bundleOwner, Prune: true})
	if err != nil {
		return 0, err
	}
	for _, note := range p.Notes {
		b.logger.Warn("part of the bundle is left as it is", zap.String("workspace", note.Workspace), zap.String("preset", note.Slug), zap.String("reason", note.Message))
	}
	if len(p.Errors) > 0 {
		var problems []error
		for _, problem := range p.Errors {
			problems = append(problems, fmt.Errorf("%s/%s %s", problem.Workspace, problem.Slug, problem.Message))
		}
		return 0, errors.Join(problems...)
	}
	result, err := p.Apply(b.ctx, plan.ApplyOptions{})
	if err != nil {
		return result.Done, err
	}
	var failures []error
	for _, f := range result.Failed {
		b.logger.Warn("preset of the bundle not applied", zap.String("workspace", f.Workspace), zap.String("preset", f.Slug), zap.String("reason", f.Message))
		if f.Conflict {
			failures = append(failures, errBundleConflict)
		} else {
			failures = append(failures, fmt.Errorf("%s/%s: %w", f.Workspace, f.Slug, f.Err))
		}
	}
	return result.Done, errors.Join(failures...)
}

// Interface guard
var _ caddyevents.Handler = (*bundle)(nil)
