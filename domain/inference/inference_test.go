package inference_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// fixture is a Service over Badger's in-memory mode with a clock of its own.
type fixture struct {
	*domain.Service
	store domain.Store
	now   time.Time
	views int64 // how often the store was read
}

func (f *fixture) View(ctx context.Context, fn func(domain.Reader) error) error {
	atomic.AddInt64(&f.views, 1)
	return f.store.View(ctx, fn)
}

func (f *fixture) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return f.store.Update(ctx, fn)
}

func (f *fixture) Stamps() *domain.Stamps         { return f.store.Stamps() }
func (f *fixture) Node() string                   { return f.store.Node() }
func (f *fixture) Sync(ctx context.Context) error { return f.store.Sync(ctx) }

var (
	admin = domain.Principal{KeyID: "k1", UserID: "ann", Kind: domain.ManagementKey}
	user  = domain.Principal{KeyID: "k2", UserID: "bob", Kind: domain.InferenceKey}
)

// resolving is a fixture with resolvers over it.
type resolving struct {
	*fixture
	home domain.Workspace // the default one
}

func newResolving(tb testing.TB) *resolving {
	tb.Helper()
	r, closeStore, err := openResolving(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := closeStore(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// openResolving is newResolving for who closes the store before a test ends.
func openResolving(ctx context.Context) (r *resolving, closeStore func() error, err error) {
	store, err := badger.OpenInMemory()
	if err != nil {
		return nil, nil, err
	}
	f := &fixture{store: store, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	f.Service = domain.NewServiceWith(f, func() time.Time { return f.now }, uuid.NewString)
	if err := f.EnsureDefaultWorkspace(ctx); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	home, err := workspace(ctx, f, admin, "default")
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return &resolving{fixture: f, home: home}, store.Close, nil
}

// resolver returns a resolver that counts as views of the fixture.
func (r *resolving) resolver(tb testing.TB, config inference.Config) *inference.Resolver {
	tb.Helper()
	return inference.NewResolver(r.fixture, config)
}

// team stores a workspace with defaults, empty for none, and returns who acts
// in it.
func (r *resolving) team(tb testing.TB, slug, textModel, providerSort string) domain.Principal {
	tb.Helper()
	in := domain.WorkspacePatch{Name: new(slug), Slug: new(slug)}
	if textModel != "" {
		in.DefaultTextModel = domain.Settable[string]{Given: true, Value: &textModel}
	}
	if providerSort != "" {
		in.DefaultProviderSort = domain.Settable[string]{Given: true, Value: &providerSort}
	}
	out, err := r.CreateWorkspace(tb.Context(), domain.By(admin), in)
	if err != nil {
		tb.Fatal(err)
	}
	return domain.Principal{KeyID: "k", UserID: "u", Kind: domain.InferenceKey, WorkspaceID: out.Workspace.ID}
}

// version is one to be stored.
type version struct {
	dialect domain.Dialect
	config  string
	prompt  string // empty: none
}

// put stores a version as the newest of a preset and designates it, in any
// dialect.
func (r *resolving) put(tb testing.TB, workspaceID, slug string, in version) (p domain.Preset) {
	tb.Helper()
	return r.putWithTemplate(tb, workspaceID, slug, in, nil)
}

// putWithTemplate is put for a template, unless that is nil.
func (r *resolving) putWithTemplate(tb testing.TB, workspaceID, slug string, in version, template *domain.Template) (p domain.Preset) {
	tb.Helper()
	var prompt *string
	if in.prompt != "" {
		prompt = &in.prompt
	}
	id, versionID := uuid.NewString(), uuid.NewString()
	err := r.store.Update(tb.Context(), func(tx domain.Tx) (err error) {
		p, err = putVersion(tx, workspaceID, slug, id, domain.PresetVersion{
			ID: versionID, Dialect: in.dialect, Config: json.RawMessage(in.config), SystemPrompt: prompt, Template: template, CreatorID: "ann",
		})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func putVersion(tx domain.Tx, workspaceID, slug, presetID string, v domain.PresetVersion) (domain.Preset, error) {
	p, err := tx.Preset(workspaceID, slug)
	if errors.Is(err, domain.ErrNotFound) {
		p, err = domain.Preset{ID: presetID, Name: slug, Slug: slug, Status: domain.PresetActive, CreatorUserID: "ann", WorkspaceID: workspaceID}, nil
	}
	if err != nil {
		return p, err
	}
	p.LatestVersion++
	p.DesignatedVersion, p.DesignatedVersionID = p.LatestVersion, v.ID
	v.PresetID, v.Version = p.ID, p.LatestVersion
	if err := tx.PutPresetVersion(p, v); err != nil {
		return p, err
	}
	return p, tx.PutPreset(p)
}

// change stores a preset's record in another state.
func (r *resolving) change(tb testing.TB, p domain.Preset, change func(*domain.Preset)) {
	tb.Helper()
	change(&p)
	if err := r.store.Update(tb.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
		tb.Fatal(err)
	}
}

// changeWorkspace stores a workspace in another state.
func (r *resolving) changeWorkspace(tb testing.TB, id string, change func(*domain.Workspace)) {
	tb.Helper()
	err := r.store.Update(tb.Context(), func(tx domain.Tx) error {
		w, err := tx.Workspace(id)
		if err != nil {
			return err
		}
		change(&w)
		return tx.PutWorkspace(w)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, want domain.Kind, message string) {
	t.Helper()
	if domain.KindOf(err) != want || err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("got error %v of kind %d, want kind %d with %q", err, domain.KindOf(err), want, message)
	}
}

// workspace returns a workspace as clients see it.
func workspace(ctx context.Context, s interface {
	Workspace(ctx context.Context, who domain.Principal, ref string) (domain.Found, error)
}, who domain.Principal, ref string,
) (w domain.Workspace, err error) {
	found, err := s.Workspace(ctx, who, ref)
	if err != nil {
		return w, err
	}
	if err := json.Unmarshal(found.JSON, &w); err != nil {
		return w, err
	}
	if w.ID != found.WorkspaceID {
		return w, fmt.Errorf("%s is said to have the id %s", found.JSON, found.WorkspaceID)
	}
	return w, nil
}
