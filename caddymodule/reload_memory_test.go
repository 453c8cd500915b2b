package caddymodule

import (
	"context"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// countingStore counts the views of a store.
type countingStore struct {
	domain.Store
	views int
}

func (s *countingStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	s.views++
	return s.Store.View(ctx, fn)
}

// TestCleanupFreesResolvedPresets checks that Cleanup frees the cache of resolved presets.
// Late requests may keep an old configuration's handler in memory.
func TestCleanupFreesResolvedPresets(t *testing.T) {
	opened := openInMemory(t)
	store := &countingStore{Store: opened}
	service := domain.NewService(store)
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	capture := domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"m"}`)}
	if _, err := service.CreatePresetVersion(t.Context(), operator, "default", "p", capture); err != nil {
		t.Fatal(err)
	}
	use := &registry.Use{Store: store, Service: service}
	h := &Handler{
		Inference: &Inference{resolver: inference.NewResolver(store, inference.Config{})},
		live:      registry.Add(t.Name(), use), use: use, shared: newShared(t.Name()),
	}
	ask := func() (views int) {
		before := store.views
		got, err := h.Inference.resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: []byte(`{"model":"@preset/p"}`)})
		if err != nil || got.Preset != "p" {
			t.Fatalf("got preset %q, %v", got.Preset, err)
		}
		return store.views - before
	}
	ask()
	if n := ask(); n != 0 {
		t.Fatalf("a preset that was resolved before takes %d views, want none", n)
	}
	if err := h.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if ask() == 0 {
		t.Error("the cache outlives its configuration")
	}
}
