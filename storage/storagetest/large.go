package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// largestChanges makes the largest change that every engine must accept, in each respect.
// It then makes larger ones, which may be refused as too large.
func largestChanges(t *testing.T, s *suite) {
	tier.NoRace(t)
	pruned := newPreset(newID(), "pruned")
	pruned.LatestVersion = domain.MaxChangeRemoved + 1
	for first := 1; first <= pruned.LatestVersion; first += 200 {
		s.mustUpdate(t, func(tx domain.Tx) error {
			err := tx.PutPreset(pruned)
			for n := first; n < min(first+200, pruned.LatestVersion+1); n++ {
				err = cmp.Or(err, tx.PutPresetVersion(pruned, newVersion(pruned, n, "{}")))
			}
			return err
		})
	}
	numbers := make([]int, domain.MaxChangeRemoved)
	for i := range numbers {
		numbers[i] = i + 1
	}
	// No two presets are in one list, so each takes the maximum number of records.
	var presets []domain.Preset
	total := 0
	for i := range domain.MaxChangeObjects {
		p := newPreset(newID(), fmt.Sprintf("p-%03d", i))
		p.Description = new("")
		text, err := p.JSON()
		if err != nil {
			t.Fatal(err)
		}
		total += len(text) + 1<<10
		presets = append(presets, p)
	}
	for i := range presets {
		presets[i].Description = new(strings.Repeat("d", (domain.MaxChangeSize-total)/len(presets)))
	}
	begun := time.Now()
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(tx.PruneVersions(pruned, numbers), put(tx, presets...))
	})
	t.Logf("the largest change took %v", time.Since(begun))
	s.reopen(t)
	s.view(t, func(r domain.Reader) {
		for _, p := range presets {
			checkPresets(t, r, p.WorkspaceID, p)
		}
		kept := pruned
		kept.Kept = domain.Kept{From: pruned.LatestVersion}
		checkPresets(t, r, pruned.WorkspaceID, kept)
	})

	large := `{"a":"` + strings.Repeat("x", domain.MaxStoredSize-8) + `"}`
	for what, fill := range map[string]func(tx domain.Tx, p domain.Preset) error{
		"bytes": func(tx domain.Tx, p domain.Preset) (err error) {
			for n := range 60 {
				err = cmp.Or(err, tx.PutPresetVersion(p, newVersion(p, n+1, large)))
			}
			return err
		},
		"objects": func(tx domain.Tx, _ domain.Preset) (err error) {
			for n := range 120_000 {
				id := domain.ReplayID{byte(n >> 16), byte(n >> 8), byte(n)}
				err = cmp.Or(err, tx.PutReplay(domain.Replay{ID: id, Request: []byte{1}, ExpiresAt: begun.Add(time.Hour)}))
			}
			return err
		},
	} {
		p := newPreset(newID(), "p")
		p.LatestVersion = 60
		err := s.update(func(tx domain.Tx) error { return cmp.Or(tx.PutPreset(p), fill(tx, p)) })
		t.Logf("%s: got error %v", what, err)
		if err != nil && !errors.Is(err, domain.ErrTooLarge) {
			t.Errorf("%s: got error %v, want none or ErrTooLarge", what, err)
		}
		_, stored := s.preset(p.WorkspaceID, p.Slug)
		if err == nil && stored != nil || err != nil && !errors.Is(stored, domain.ErrNotFound) {
			t.Errorf("%s: got error %v, and %v of what was stored", what, err, stored)
		}
		s.put(t, newPreset(p.WorkspaceID, "next"))
	}
}

// largestServiceChanges makes the largest changes that the Service allows, each with a kept
// answer.
func largestServiceChanges(t *testing.T, s *suite) {
	f := Fill(t, s)
	f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
	changes := 0
	by := func() domain.Write {
		changes++
		w := f.By
		w.Who.UserID = strings.Repeat("😀", domain.MaxKeyText)
		w.RequestID = newID()
		w.Idempotency.Key = fmt.Sprintf("%0*d", domain.MaxIdempotencyKey, changes)
		return w
	}
	must := func(out domain.Outcome, err error) domain.Outcome {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	text := strings.Repeat("😀", domain.MaxMessage)
	slug := strings.Repeat("s", 128)
	model := strings.Repeat("m", domain.MaxStoredSize-6000)
	must(f.CreateWorkspace(t.Context(), by(), domain.WorkspacePatch{Name: new(text), Slug: new("large"), Description: domain.Settable[string]{Given: true, Value: &text}, DefaultTextModel: domain.Settable[string]{Given: true, Value: &model}}))

	var split domain.Target
	for n := range domain.MaxShares {
		f.Version("", slug, fmt.Sprintf(`{"model":"m%d"}`, n))
		split.Split = append(split.Split, domain.Share{Version: n + 1, Weight: domain.MaxWeight - n})
	}
	for n := range domain.MaxLabels {
		f.Label("", slug, fmt.Sprintf("l%063d", n), split)
	}
	policy := domain.Policy{Lock: []string{"a"}, Drop: []string{strings.Repeat("d", domain.MaxPolicySize-100)}}
	must(f.UpdatePreset(t.Context(), by(), "", slug, domain.PresetPatch{
		Name: &text, Description: domain.Settable[string]{Given: true, Value: &text}, Policy: domain.Settable[domain.Policy]{Given: true, Value: &policy},
	}))
	for _, draft := range []bool{false, true} { // the answer to the draft shows the other one, too
		in := domain.Capture{Dialect: domain.Chat, Config: []byte(`{"a":"` + strings.Repeat("x", domain.MaxStoredSize-8) + `"}`)}
		if err := in.CheckSize(); err != nil {
			t.Fatal(err)
		}
		w := by()
		out := must(f.ReleasePresetVersion(t.Context(), w, "", slug, in, domain.Release{Draft: draft, Label: fmt.Sprintf("l%063d", 0), Message: &text}))
		again := must(f.ReleasePresetVersion(t.Context(), w, "", slug, in, domain.Release{Draft: draft, Label: fmt.Sprintf("l%063d", 0), Message: &text}))
		if !again.Replayed || string(again.JSON) != string(out.JSON) {
			t.Errorf("draft: %t: a repeated request got another answer", draft)
		}
		t.Logf("draft: %t: an answer of %d bytes", draft, len(out.JSON))
	}
	must(f.DesignateVersion(t.Context(), by(), "", slug, domain.Designation{Version: domain.MaxShares + 2}))

	scope := domain.Scope{}
	for n := range domain.MaxScopePresets {
		scope.Presets = append(scope.Presets, fmt.Sprintf("%0128d", n))
	}
	for n := range domain.MaxScopeModels {
		scope.Models = append(scope.Models, fmt.Sprintf("%0*d", modelpattern.Max, n))
	}
	_, _, err := f.IssueKey(t.Context(), by(), domain.NewKey{Kind: domain.InferenceKey, UserID: text[:4*domain.MaxKeyText], Name: text[:4*domain.MaxKeyText], Scope: scope})
	f.Must(nil, err)
	s.reopen(t)
	s.view(t, func(r domain.Reader) {
		if head, err := r.AuditHead(); err != nil || head.Count == 0 {
			t.Errorf("got %+v, %v", head, err)
		}
	})
}
