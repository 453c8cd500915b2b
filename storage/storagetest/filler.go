package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Filler fills a store through the Service, for tests that need a store with content. A
// failed call ends the test.
type Filler struct {
	*domain.Service
	By domain.Write // the author of the changes

	t     testing.TB
	store domain.Store
}

// Fill returns a Filler of s.
func Fill(t testing.TB, s domain.Store) Filler {
	return Filler{domain.NewService(s), authorIn(""), t, s}
}

// Must ends the test if a call failed.
func (f Filler) Must(_ any, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// Version adds a version to a preset.
func (f Filler) Version(workspace, slug, config string) {
	f.t.Helper()
	f.Must(f.ReleasePresetVersion(f.t.Context(), f.By, workspace, slug, domain.Capture{Dialect: domain.Chat, Config: []byte(config)}, domain.Release{}))
}

// Label sets a label.
func (f Filler) Label(workspace, slug, label string, to domain.Target) {
	f.t.Helper()
	f.Must(f.PutLabel(f.t.Context(), f.By, workspace, slug, label, to, nil))
}

// Update is the store's Update.
func (f Filler) Update(fn func(tx domain.Tx) error) {
	f.t.Helper()
	f.Must(nil, f.store.Update(f.t.Context(), fn))
}

// Some stores a few objects of each kind.
func (f Filler) Some() {
	t, ctx, by := f.t, f.t.Context(), f.By
	t.Helper()
	f.Must(nil, f.EnsureDefaultWorkspace(ctx))
	for _, slug := range []string{"team", "gone", "last"} {
		f.Must(f.CreateWorkspace(ctx, by, domain.WorkspacePatch{Name: new(awkwardName), Slug: new(slug), IOLoggingAPIKeyIDs: []byte(`["a",9007199254740993]`)}))
	}
	f.Version("gone", "p", `{"model":"m"}`)
	f.Must(f.DeleteWorkspace(ctx, by, "gone", domain.WorkspaceDeletion{}))
	f.Must(f.DeleteWorkspace(ctx, by, "default", domain.WorkspaceDeletion{ConfirmDefault: true}))

	for n := range 9 {
		f.Version("team", "pruned", fmt.Sprintf(`{"model":"m%d"}`, n))
		if n == 1 {
			f.Label("team", "pruned", "staging", domain.Target{Version: 2})
		}
	}
	f.Label("team", "pruned", "gone", domain.Target{Version: 9})
	f.Must(f.DeleteLabel(ctx, by, "team", "pruned", "gone"))
	f.Must(f.DesignateVersion(ctx, by, "team", "pruned", domain.Designation{Version: 5}))
	f.Must(f.Service.PruneVersions(ctx, by, domain.Pruning{Keep: 2}))
	f.Label("team", "pruned", "staging", domain.Target{Split: []domain.Share{{Version: 2, Weight: 10}, {Version: 9, Weight: 0}}})
	f.Label("team", "pruned", "gone", domain.Target{Version: 8})
	f.Label("team", "pruned", "Gone", domain.Target{Version: 8})
	f.Must(f.PutLabel(ctx, by, "team", "pruned", "Gone", domain.Target{Version: 9}, new(true)))
	f.Must(f.UpdatePreset(ctx, by, "team", "pruned", domain.PresetPatch{Protected: new(true)}))

	f.Version("", "first", "{\n\t\"model\" : \"m\\ud83d\",\r\n\"model\":1.0e+02 , \"x\":\"☃\u2028\"}")
	f.Version("", "archived", `{"model":"a"}`)
	f.Version("", "disabled", `{"model":"d"}`)
	f.Version("", "archived-too", `{"model":"b"}`)
	f.Version("", "archived-too", `{"model":"c"}`)
	f.Label("", "archived-too", "l", domain.Target{Version: 1})
	f.Must(f.ArchivePreset(ctx, by, "", "archived-too"))
	f.Must(f.ArchivePreset(ctx, by, "", "archived"))
	disabled := domain.PresetDisabled
	f.Must(f.UpdatePreset(ctx, by, "", "disabled", domain.PresetPatch{
		Status: &disabled, Name: new(awkwardName), Description: domain.Settable[string]{Given: true, Value: new(awkwardName + "\t\n")},
	}))
	f.Must(f.UpdatePreset(ctx, by, "", "first", domain.PresetPatch{Policy: domain.Settable[domain.Policy]{Given: true, Value: &domain.Policy{
		Lock: []string{"system"}, Models: []string{"a/*:online"}, Bounds: map[string]domain.Bound{"top_p": {Max: []byte("0.90")}},
	}}}))
	f.Version("", "zzz", `{}`)
	f.Version("", "first", `{}`)

	prompt := awkward
	w := by
	w.Idempotency = domain.Idempotency{Key: "again", Request: [32]byte{1, 2, 3}}
	f.Must(f.ReleasePresetVersion(ctx, w, "last", "prompt", domain.Capture{Dialect: domain.Messages, SystemPrompt: &prompt, Config: []byte("{ }")}, domain.Release{}))
	w.Idempotency.Key = "template"
	f.Must(f.ReleasePresetVersion(ctx, w, "last", "template", domain.Capture{
		Dialect: domain.Chat, SystemPrompt: new("In {{city}}."), Config: []byte("{}"), Template: &domain.Template{
			Variables: []string{"city", "a.b"}, Messages: []byte("[ {\"role\":\"user\",\t\"content\":\"\\u007b{a.b}} ☃\"} ]"),
		},
	}, domain.Release{}))
	w.Idempotency.Key = "draft"
	f.Must(f.ReleasePresetVersion(ctx, w, "last", "prompt", domain.Capture{Dialect: domain.Chat, Config: []byte("{}")},
		domain.Release{Draft: true, Label: "next", Message: new("why ☃ <b>\"")}))
	later := time.Now().Add(time.Hour).UTC()
	f.Update(func(tx domain.Tx) error {
		return errors.Join(
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{1}, Request: []byte{}, Answer: []byte("☃{\n"), Workspace: awkward, Version: 3, ExpiresAt: later}),
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{2}, Request: []byte{9}, ExpiresAt: later}),
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{3}, Request: []byte{9}, ExpiresAt: later.Add(-2 * time.Hour)}), // expired
		)
	})

	f.usage()

	for _, in := range []domain.NewKey{
		{Kind: domain.ManagementKey, Name: "key ☃", Scope: domain.Scope{OnlyWorkspace: true, Rights: []domain.Right{domain.ProtectedLabels}}},
		{Kind: domain.InferenceKey, UserID: "bob", Workspace: "team", Lifetime: time.Hour, Scope: domain.Scope{
			Presets: []string{"p", "A.b_c~d-1"}, PresetRequired: true, Models: []string{"openai/*", "a/b:free"},
		}},
		{Kind: domain.InferenceKey},
	} {
		k, secret, err := f.IssueKey(ctx, by, in)
		f.Must(k, err)
		if in.Name != "" {
			continue
		}
		f.Must(f.RevokeKey(ctx, by, k.ID))
		if in.UserID != "" { // used once
			f.Update(func(tx domain.Tx) error {
				k, err := tx.KeyByHash(domain.HashSecret(secret))
				used := k.CreatedAt.Add(time.Millisecond)
				k.LastUsedAt = &used
				return errors.Join(err, tx.PutKey(k))
			})
		}
	}
}

// Much adds to Some the largest objects, and enough objects for several batches.
func (f Filler) Much() {
	f.t.Helper()
	for n := range 230 {
		f.Version("", fmt.Sprintf("page-%d", n*7919%230), `{"model":"m"}`)
	}
	for n := range 250 {
		f.Version("team", "long", fmt.Sprintf(`{"model":"m%d"}`, n))
		if n%2 == 0 {
			f.Label("team", "long", fmt.Sprintf("l%d", n%7), domain.Target{Version: n + 1})
		}
	}
	f.Must(f.Service.PruneVersions(f.t.Context(), f.By, domain.Pruning{Keep: 200}))
	large := strings.Repeat("x", domain.MaxStoredSize-2000)
	quotes := `{"tools":[` + strings.Repeat("\n", domain.MaxStoredSize-2000) + `]}`
	control := strings.Repeat("\x01", domain.MaxStoredSize/6-500)
	f.Must(f.CreateWorkspace(f.t.Context(), f.By, domain.WorkspacePatch{Name: new("n"), Slug: new("large"), DefaultTextModel: domain.Settable[string]{Given: true, Value: &large}}))
	for _, c := range []domain.Capture{
		{Dialect: domain.Chat, Config: []byte(quotes)},
		{Dialect: domain.Responses, Config: []byte(`{"a":"` + large + `"}`)},
		{Dialect: domain.Messages, Config: []byte("{}"), SystemPrompt: &control},
	} {
		f.Must(f.ReleasePresetVersion(f.t.Context(), f.By, "large", "large", c, domain.Release{}))
	}
}

// usage stores rows of a preset and of requests without one. It also stores when the preset
// was served, what it spent, an input, and the secret for handles of feedback.
func (f Filler) usage() {
	f.t.Helper()
	var w domain.Workspace
	var p domain.Preset
	f.Must(nil, f.store.View(f.t.Context(), func(r domain.Reader) error {
		id, err := r.WorkspaceID("team")
		w.ID = id
		if err == nil {
			p, err = r.Preset(id, "pruned")
		}
		return err
	}))
	var ledger usage.Ledger
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, of := range []domain.Preset{p, {}} {
		ledger.Add(&usage.Request{
			WorkspaceID: w.ID, PresetID: of.ID, Preset: of.Slug, Version: 5, Label: "staging", KeyID: "k", Model: "m",
			Status: 200, Start: start, Duration: time.Second, FirstContent: -1, Tokens: answer.Tokens{Input: 7, Output: 3},
		})
	}
	rows, err := ledger.Take(func(domain.UsageID) ([]byte, error) { return nil, nil })
	f.Must(nil, err)
	f.Update(func(tx domain.Tx) (err error) {
		for _, row := range rows {
			row.Node = f.store.Node()
			err = errors.Join(err, tx.PutUsage(row))
		}
		return errors.Join(err, tx.PutSpent(p.ID, []byte("spent")), tx.PutInput(p.ID, p.DesignatedVersionID, []byte(`{"name":"needle"}`)), tx.PutServed(w.ID, p.Slug, domain.Served{p.LatestVersion: domain.ServedHour(start)}))
	})
	f.Must(usage.EnsureFeedbackSecret(f.t.Context(), f.store))
}
