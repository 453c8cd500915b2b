package domain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// fixture is a Service over Badger's in-memory mode with a clock of its own.
type fixture struct {
	*domain.Service
	store domain.Store
	now   time.Time
	views int64 // how often the store was read
	t     testing.TB
}

// must returns the outcome of a change, which must succeed.
func (f *fixture) must(out domain.Outcome, err error) domain.Outcome {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return out
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

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t, store: store, now: time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)}
	f.Service = domain.NewServiceWith(f, func() time.Time { return f.now }, uuid.NewString)
	if err := f.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) workspace(t *testing.T, slug string) domain.Workspace {
	t.Helper()
	out := f.must(f.CreateWorkspace(t.Context(), domain.By(admin), domain.WorkspacePatch{Name: new(slug), Slug: new(slug)}))
	return out.Workspace
}

// nothing is a capture of a request without settings.
var nothing = domain.Capture{Dialect: domain.Responses, Config: json.RawMessage("{}")}

// trail returns the audit trail, which must be unbroken.
func (f *fixture) trail(t testing.TB) []domain.AuditRecord {
	t.Helper()
	var all []domain.AuditRecord
	for {
		records, head, err := f.AuditTrail(t.Context(), len(all), domain.MaxAuditPage)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
		if len(all) < head.Count {
			continue
		}
		if end, err := domain.VerifyAudit(domain.AuditHead{}, all); err != nil || end != head {
			t.Fatalf("the audit trail leads to %+v, %v, want its head %+v", end, err, head)
		}
		return all
	}
}

// records returns how many records the audit trail has.
func (f *fixture) records(t testing.TB) int {
	t.Helper()
	_, head, err := f.AuditTrail(t.Context(), 0, 0)
	if err != nil {
		t.Error(err)
	}
	return head.Count
}

// stored returns the stored preset, whatever its status.
func (f *fixture) stored(t testing.TB, workspace, slug string) (p domain.Preset) {
	t.Helper()
	err := f.store.View(t.Context(), func(r domain.Reader) error {
		home, err := r.WorkspaceID(workspace)
		if err != nil {
			return err
		}
		p, err = r.Preset(home, slug)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// found returns what a read finds, which must succeed.
func (f *fixture) found(found domain.Found, err error) domain.Found {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// newKey returns an issued key and its secret.
func (f *fixture) newKey(in domain.NewKey) (domain.Key, string) {
	f.t.Helper()
	k, secret, err := f.IssueKey(f.t.Context(), ask, in)
	if err != nil {
		f.t.Fatal(err)
	}
	return k, secret
}

// shown returns a workspace as clients see it.
func (f *fixture) shown(ref string) domain.Workspace {
	f.t.Helper()
	w, err := workspace(f.t.Context(), f, admin, ref)
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// doing is a change of the preset of a slug in the default workspace.
type doing = func(w domain.Write, slug string) (domain.Outcome, error)

func (f *fixture) patching(p domain.PresetPatch) doing {
	return func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.UpdatePreset(f.t.Context(), w, "", slug, p)
	}
}

func (f *fixture) releasing(how domain.Release) doing {
	return func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.ReleasePresetVersion(f.t.Context(), w, "", slug, nothing, how)
	}
}

func (f *fixture) designating(to domain.Designation) doing {
	return func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.DesignateVersion(f.t.Context(), w, "", slug, to)
	}
}

// labelling gives a label a target. It sets its protection unless that is nil.
func (f *fixture) labelling(name string, to domain.Target, protected *bool) doing {
	return func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.PutLabel(f.t.Context(), w, "", slug, name, to, protected)
	}
}

func (f *fixture) unlabelling(name string) doing {
	return func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.DeleteLabel(f.t.Context(), w, "", slug, name)
	}
}

func (f *fixture) archiving(w domain.Write, slug string) (domain.Outcome, error) {
	return f.ArchivePreset(f.t.Context(), w, "", slug)
}

func (f *fixture) restoring(w domain.Write, slug string) (domain.Outcome, error) {
	return f.RestorePreset(f.t.Context(), w, "", slug)
}

// reads are the ways to read a preset that has the label live.
func (f *fixture) reads() map[string]func(who domain.Principal, workspace, slug string) error {
	ctx, page := f.t.Context(), domain.Page{Limit: 10}
	return map[string]func(who domain.Principal, workspace, slug string) error{
		"preset": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.Preset(ctx, who, workspace, slug))
		},
		"version": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.PresetVersion(ctx, who, workspace, slug, 1))
		},
		"versions": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.PresetVersions(ctx, who, workspace, slug, page))
		},
		"summaries": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.PresetVersionSummaries(ctx, who, workspace, slug, page))
		},
		"diff": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.Diff(ctx, who, workspace, slug, "1", "live"))
		},
		"label": func(who domain.Principal, workspace, slug string) error {
			return errOf(f.Label(ctx, who, workspace, slug, "live", page))
		},
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

func wantKind(t *testing.T, err error, want domain.Kind, message string) {
	t.Helper()
	if domain.KindOf(err) != want || err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("got error %v of kind %d, want kind %d with %q", err, domain.KindOf(err), want, message)
	}
}

// refusing is an engine that gives up on every change.
type refusing struct{ domain.Store }

func (refusing) Update(context.Context, func(domain.Tx) error) error {
	return fmt.Errorf("after 5 tries: %w", domain.ErrConflict)
}

func TestAnEngineThatGivesUpIsAConflict(t *testing.T) {
	s := domain.NewService(refusing{})
	wantKind(t, errOf(s.ReleasePresetVersion(t.Context(), domain.By(admin), "", "x", nothing, domain.Release{})), domain.Conflict, "Resource conflict. Please try again later.")
}

func TestInvalidIssues(t *testing.T) {
	err := domain.InvalidIssues(domain.Issue{Path: "/a", Message: "required"}, domain.Issue{Path: "/b", Message: "required"})
	if want := "Invalid request parameters: /a: required; /b: required"; err.Message != want {
		t.Errorf("got %q, want %q", err.Message, want)
	}
	if want := "Invalid request parameters: body: must be an object"; domain.InvalidAt("", "must be an object").Message != want {
		t.Errorf("got %q, want %q", domain.InvalidAt("", "must be an object").Message, want)
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
