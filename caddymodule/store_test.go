package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// TestDefaultWorkspaceLater opens a new store that is unavailable at first. It has its
// default workspace once it can be opened.
func TestDefaultWorkspaceLater(t *testing.T) {
	s := start(t, standard)
	s.folder = caddytest.Folder(t)
	store, err := badger.Open(s.folder, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := domain.NewService(store) // a table needs something in it
	if _, _, err := service.IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.ManagementKey}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	undo := caddytest.Damage(t, s.folder)
	s.reload(standard)
	s.manage("GET", "/v1/workspaces/default", "").want(t, 503)
	undo()
	if !s.eventually(func() bool { return s.manage("GET", "/v1/workspaces/default", "").status == 200 }) {
		t.Error("there is no default workspace")
	}
	s.stop() // before the folder goes
}

// told is a store with given answers, which counts its calls.
type told struct {
	domain.Store
	err   error
	asked int
	again func() // called at the second call, unless it is nil
}

func (s *told) ask() error {
	if s.asked++; s.asked == 2 && s.again != nil {
		s.again()
	}
	return s.err
}

func (s *told) View(context.Context, func(domain.Reader) error) error { return s.ask() }

func (s *told) Update(context.Context, func(domain.Tx) error) error { return s.ask() }

func (*told) Stamps() *domain.Stamps { return domain.NewStamps() }

func (*told) Node() string { return "" }

func (*told) Sync(context.Context) error { return nil }

func TestEnsureLaterEnds(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	broken := &told{err: errors.New("broken")}
	h := &Handler{logger: zap.New(core), service: domain.NewService(broken)}
	h.ensureLater(t.Context())
	if entries := logs.FilterField(zap.Error(broken.err)).All(); broken.asked != 1 || len(entries) != 1 || entries[0].Level != zap.ErrorLevel {
		t.Errorf("got %d attempts and %v, want one that is logged as an error", broken.asked, logs.All())
	}
	for _, err := range []error{domain.ErrConflict, domain.ErrUnknown} {
		ctx, cancel := context.WithCancel(t.Context())
		passing := &told{err: fmt.Errorf("%w: for now", err), again: cancel}
		h.service = domain.NewService(passing)
		h.ensureLater(ctx)
		cancel()
		if passing.asked < 2 {
			t.Errorf("%v: got %d attempts, want another", err, passing.asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	absent := &told{err: domain.ErrUnavailable}
	h.service = domain.NewService(absent)
	for range 20 { // a select would pick either
		h.ensureLater(ctx)
	}
	if absent.asked != 0 {
		t.Errorf("the store was asked %d times after the end", absent.asked)
	}
}

const firstKeyAdvice = "caddy presets key create --kind management"

// TestFirstKeyIsAdvised checks that a start without keys explains once how to create the
// first key.
func TestFirstKeyIsAdvised(t *testing.T) {
	const limit = "auth_failure_limit 1000000"
	advised := func(s *server) int { return strings.Count(s.logs(), firstKeyAdvice) }
	s := start(t, limit)
	if got := advised(s); got != 1 || !strings.Contains(s.logs(), `"store":"`+s.canonicalFolder()+`"`) {
		t.Errorf("a new store is advised of %d times, want once, with its name", got)
	}
	s.reload(limit + "\nmax_body_size 1MiB")
	if got := advised(s); got != 1 {
		t.Errorf("a reload makes it %d times, want once", got)
	}
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("another start makes it %d times, want twice", got)
	}
	s.issue(`{"kind":"management"}`)
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("it is advised though there is a key: %d times, want twice", got)
	}
	s.stop()
	configured := start(t, standard)
	if got := advised(configured); got != 0 {
		t.Errorf("it is advised %d times though there are configured keys", got)
	}
}

// TestFirstKeyIsAdvisedOnceTheStoreIsThere checks that an unavailable store logs no advice,
// because it may have keys.
func TestFirstKeyIsAdvisedOnceTheStoreIsThere(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	s.stop()
	undo := caddytest.Damage(t, s.folder)
	s.reload("auth_failure_limit 1000000")
	if !strings.Contains(s.logs(), "the store cannot be opened") {
		t.Fatal("the store is not damaged")
	}
	if strings.Contains(s.logs(), firstKeyAdvice) {
		t.Error("it is advised while nobody knows whether there are keys")
	}
	undo()
	if !s.eventually(func() bool { return strings.Contains(s.logs(), firstKeyAdvice) }) {
		t.Error("it is not advised once the store is there")
	}
}

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
	if _, err := service.ReleasePresetVersion(t.Context(), operator, "default", "p", capture, domain.Release{}); err != nil {
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
