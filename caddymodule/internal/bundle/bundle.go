// Package bundle brings a folder of presets to a store when its configuration is the active one.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
)

const (
	// Owner manages the presets of bundles.
	Owner = "caddyfile"
	// activePoll is how often a bundle looks whether its configuration is the active one.
	activePoll = 10 * time.Millisecond
)

// Bundle is a folder of presets that a handler brings to its store when its configuration is
// live. Its fields do not change after Bundles.Add.
type Bundle struct {
	Dir     string
	Set     *files.Set      // of the folder
	Client  *client.Client  // of the store's API, which repeats no request
	Context context.Context // of the configuration
	Logger  *zap.Logger
	// Config identifies the configuration.
	Config any
	// IsActive reports whether the configuration is the active one.
	IsActive func() bool
	Waiting  prometheus.Gauge // counts the bundle until it is applied

	turn *semaphore.Weighted
}

// New returns those of a store, which has none yet.
func New() *Bundles { return &Bundles{turn: semaphore.NewWeighted(1)} }

// Bundles are those of one store. Its methods are safe for concurrent use.
type Bundles struct {
	// turn is held while one of them is applied.
	turn *semaphore.Weighted

	mu   sync.Mutex
	uses []*Bundle
}

// Add adds a bundle until Remove. Two folders in one configuration would archive each
// other's presets.
func (s *Bundles) Add(b *Bundle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.uses {
		if other.Config == b.Config && other.Dir != b.Dir {
			return fmt.Errorf("another presets directive of the same store has the folder %s, and a store has one", other.Dir)
		}
	}
	s.uses = append(s.uses, b)
	b.turn = s.turn
	return nil
}

// Remove removes a bundle that was added.
func (s *Bundles) Remove(b *Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = slices.DeleteFunc(s.uses, func(other *Bundle) bool { return other == b })
}

// Handle takes Caddy's event "started". The bundle is applied in the background, and requests
// are served meanwhile.
func (b *Bundle) Handle(context.Context, caddy.Event) error {
	go b.run()
	return nil
}

// run applies the bundle, until that succeeds or its configuration ends.
func (b *Bundle) run() {
	b.Waiting.Inc()
	defer b.Waiting.Dec()
	if !b.awaitActive() {
		return
	}
	for said := false; ; {
		result, err := b.apply()
		switch {
		case b.Context.Err() != nil, errors.Is(err, errReplaced):
			return
		case err == nil:
			b.Logger.Info("bundle applied", zap.String("folder", b.Dir), zap.Int("changed", result))
			return
		case !isPassing(err):
			b.Logger.Error("bundle not applied: the next start or reload tries again", zap.String("folder", b.Dir), zap.Error(err))
			<-b.Context.Done() // it still waits
			return
		case !said:
			said = true
			b.Logger.Warn("bundle not applied yet: trying again", zap.String("folder", b.Dir), zap.Error(err))
		}
		if !b.pause(storepool.RetryInterval) {
			return
		}
	}
}

// pause waits, and reports whether the configuration goes on.
func (b *Bundle) pause(d time.Duration) bool {
	select {
	case <-b.Context.Done():
		return false
	case <-time.After(d):
		return b.Context.Err() == nil
	}
}

// awaitActive waits until the configuration is the active one. Caddy emits "started" before.
// It may still refuse the configuration then, and the previous one is not stopped yet.
func (b *Bundle) awaitActive() bool {
	for !b.IsActive() {
		if !b.pause(activePoll) {
			return false
		}
	}
	return true
}

// errConflict is the outcome if others changed presets after they were planned.
var errConflict = errors.New("others change its presets at the same time")

// errReplaced is the outcome if another configuration has become the active one.
var errReplaced = errors.New("another configuration is active")

// isPassing reports whether a bundle may be applied later.
func isPassing(err error) bool {
	if errors.Is(err, errConflict) {
		return true
	}
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusConflict)
}

// apply plans and applies the bundle once. It returns how many presets and workspaces it
// changed.
func (b *Bundle) apply() (changed int, err error) {
	if err := b.turn.Acquire(b.Context, 1); err != nil {
		return 0, err
	}
	defer b.turn.Release(1)
	if !b.IsActive() { // a reload was faster, and has not stopped this configuration yet
		return 0, errReplaced
	}
	p, err := plan.New(b.Context, b.Client, b.Set, plan.Options{Owner: Owner, Prune: true})
	if err != nil {
		return 0, err
	}
	for _, note := range p.Notes {
		b.Logger.Warn("part of the bundle is left as it is", zap.String("workspace", note.Workspace), zap.String("preset", note.Slug), zap.String("reason", note.Message))
	}
	if len(p.Errors) > 0 {
		var problems []error
		for _, problem := range p.Errors {
			problems = append(problems, fmt.Errorf("%s/%s %s", problem.Workspace, problem.Slug, problem.Message))
		}
		return 0, errors.Join(problems...)
	}
	result, err := p.Apply(b.Context, "")
	if err != nil {
		return result.Done, err
	}
	var failures []error
	for _, f := range result.Failed {
		b.Logger.Warn("preset of the bundle not applied", zap.String("workspace", f.Workspace), zap.String("preset", f.Slug), zap.String("reason", f.Message))
		if f.Conflict {
			failures = append(failures, errConflict)
		} else {
			failures = append(failures, fmt.Errorf("%s/%s: %w", f.Workspace, f.Slug, f.Err))
		}
	}
	return result.Done, errors.Join(failures...)
}

// Interface guard
var _ caddyevents.Handler = (*Bundle)(nil)
