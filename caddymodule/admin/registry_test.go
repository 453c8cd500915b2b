package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// TestNewestHandlerServesTheAdminEndpoint checks that the admin endpoint uses the newest
// handler's store. When that handler is withdrawn, the endpoint uses the handler before it.
func TestNewestHandlerServesTheAdminEndpoint(t *testing.T) {
	const name = "a cluster"
	listed := func() string {
		t.Helper()
		w := httptest.NewRecorder()
		if err := new(endpoint).serve(w, httptest.NewRequest("GET", "/presets/keys?store=a+cluster", nil)); err != nil {
			return err.Error()
		}
		return w.Body.String()
	}
	var store *registry.Store
	var uses []*registry.Use
	for n := range 3 {
		engine, err := badger.OpenInMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		use := &registry.Use{Store: engine, Service: domain.NewService(engine), Keys: []domain.Principal{{KeyID: fmt.Sprint("config-", n), Hash: domain.KeyHash{byte(n)}}}}
		store = registry.Add(name, use)
		uses = append(uses, use)
		if _, _, err := store.Newest().Service.IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.InferenceKey, Name: fmt.Sprint("of store ", n)}); err != nil {
			t.Fatal(err)
		}
		if got := listed(); !strings.Contains(got, fmt.Sprint("of store ", n)) {
			t.Errorf("with %d handlers: got %s, want the keys of the last", n+1, got)
		}
	}
	for _, step := range []struct {
		withdrawn, want int // handlers
	}{{2, 1}, {0, 1}} {
		if err := store.Remove(uses[step.withdrawn]); err != nil {
			t.Fatal(err)
		}
		if got := listed(); !strings.Contains(got, fmt.Sprint("of store ", step.want)) {
			t.Errorf("without handler %d: got %s, want the keys of handler %d", step.withdrawn, got, step.want)
		}
	}
	if keys := store.Keys(); len(keys) != 1 || keys[0].KeyID != "config-1" || !store.HasKey(keys[0].Hash) || store.HasKey(domain.KeyHash{2}) {
		t.Errorf("got the configured keys %v, want those of the one handler that is left", keys)
	}
	if store.Gone().Err() != nil {
		t.Error("the store is gone while a handler uses it")
	}
	if err := store.Remove(uses[1]); err != nil {
		t.Fatal(err)
	}
	if got := listed(); !strings.Contains(got, "no store is live") {
		t.Errorf("got %s, want that no store is live", got)
	}
	if store.Gone().Err() == nil || store.HasKeys() {
		t.Error("the store is not gone without handlers")
	}
}

// TestLastHandlerIsCleanedUp withdraws the last handler of a store after a request has found
// the store.
func TestLastHandlerIsCleanedUp(t *testing.T) {
	use := new(registry.Use)
	store := registry.Add("a store", use)
	if err := store.Remove(use); err != nil {
		t.Fatal(err)
	}
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range Routes(schemas) {
		if rt.run == nil {
			continue
		}
		err := rt.runOn(store, request{Request: httptest.NewRequest(rt.Method, Path, nil), w: httptest.NewRecorder()})
		refusal, ok := errors.AsType[caddy.APIError](err)
		if !ok || refusal.HTTPStatus != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "try again") {
			t.Errorf("%s: got %v, want 503 with advice", rt.Name, err)
		}
	}
	if got := healthOf(t.Context(), map[string]*registry.Store{"a store": store}); got.Healthy || len(got.Stores) > 0 {
		t.Errorf("got %+v, want that no store is healthy", got)
	}
}
