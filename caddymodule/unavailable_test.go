package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
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
