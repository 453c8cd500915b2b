package storagetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkWorkspaceGone checks that r finds no trace of w itself.
func checkWorkspaceGone(t *testing.T, r domain.Reader, w domain.Workspace, slugTaken bool) {
	t.Helper()
	wantNotFound(t, "the id of a deleted workspace")(r.Workspace(w.ID))
	if !slugTaken {
		wantNotFound(t, "the slug of a deleted workspace")(workspaceBySlug(r, w.Slug))
	} else if got, err := workspaceBySlug(r, w.Slug); err != nil || got.ID == w.ID {
		t.Errorf("the slug of a deleted workspace: got id %s and error %v, want another's", got.ID, err)
	}
}

// workspaceDeleted deletes a workspace with content of every kind, beside others, and
// reuses its slug at once.
func workspaceDeleted(t *testing.T, s *suite) {
	fill := func(tx domain.Tx, w domain.Workspace) error {
		err := tx.PutWorkspace(w)
		for i := range 40 {
			p := newPreset(w.ID, slugOf(i))
			p.LatestVersion = 3
			for n := 1; n <= 3; n++ {
				err = cmp.Or(err, tx.PutPresetVersion(p, newVersion(p, n, "{}")), tx.PutLabelChange(p, "staging", newLabelChange(n)))
			}
			err = cmp.Or(err, tx.PutPreset(p))
		}
		return err
	}
	intact := func(r domain.Reader, all ...domain.Workspace) {
		for _, w := range all {
			wantValue(t, w)(workspaceBySlug(r, w.Slug))
			presets, err := collect(r.Presets(w.ID))
			for _, p := range presets {
				for n := 1; n <= 3; n++ {
					_, err1 := r.PresetVersion(p.State(), n)
					_, err2 := r.LabelChange(p, "staging", n)
					err = cmp.Or(err, err1, err2)
				}
			}
			page, total, err1 := presetPage(r, w.ID, domain.Page{Limit: math.MaxInt})
			if err := cmp.Or(err, err1); err != nil || len(presets) != 40 || len(page) != 40 || total != 40 {
				t.Errorf("%s: got %d presets, %d on a page, a total of %d and error %v, want 40", w.Slug, len(presets), len(page), total, err)
			}
		}
	}
	empty := func(r domain.Reader, w domain.Workspace) {
		checkPresets(t, r, w.ID)
		checkPresetPages(t, r, w.ID, nil, 1)
		wantNotFound(t, "a preset of the deleted workspace in that of the same slug")(r.Preset(w.ID, slugOf(1)))
	}
	before, w, after := newWorkspace("before"), newWorkspace("w"), newWorkspace("after")
	for _, w := range []domain.Workspace{before, w, after} {
		s.mustUpdate(t, func(tx domain.Tx) error { return fill(tx, w) })
	}
	// A failed deletion changes nothing.
	s.try(t, true, func(tx domain.Tx) error {
		err := tx.DeleteWorkspace(w)
		checkWorkspaceGone(t, tx, w, false)
		return err
	})
	s.inBoth(t, func(r domain.Reader) { intact(r, before, w, after) })

	heir := newWorkspace("w")
	s.mustUpdate(t, func(tx domain.Tx) error {
		if err := tx.DeleteWorkspace(w); err != nil {
			return err
		}
		checkWorkspaceGone(t, tx, w, false)
		err := tx.PutWorkspace(heir)
		empty(tx, heir)
		return err
	})
	s.checkAcrossReopen(t, func(r domain.Reader) {
		checkWorkspaceGone(t, r, w, true)
		checkWorkspacePages(t, r, []domain.Workspace{before, after, heir}, 1)
		intact(r, before, after)
		empty(r, heir)
	})
	// The heir has presets of the same slugs, and must lose none.
	filled := newWorkspace("filled")
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(tx.DeleteWorkspace(heir), fill(tx, filled))
	})
	s.reopen(t)
	s.inBoth(t, func(r domain.Reader) {
		checkWorkspaceGone(t, r, w, false)
		checkWorkspaceGone(t, r, heir, false)
		checkWorkspacePages(t, r, []domain.Workspace{before, after, filled}, 1)
		intact(r, before, after, filled)
	})
}

// presetErased erases a preset with versions and labels beside others, and uses its slug again.
func presetErased(t *testing.T, s *suite) {
	w := newWorkspace("w")
	fill := func(tx domain.Tx, p domain.Preset) (err error) {
		for n := 1; n <= p.LatestVersion; n++ {
			err = cmp.Or(err, tx.PutPresetVersion(p, newVersion(p, n, "{}")), tx.PutLabelChange(p, "staging", newLabelChange(n)))
		}
		return cmp.Or(err, tx.PutPreset(p), tx.PutServed(w.ID, p.Slug, domain.Served{1: 5}), tx.PutSpent(p.ID, []byte("1")))
	}
	var all []domain.Preset
	s.put(t, w)
	for i := range 40 {
		p := newPreset(w.ID, slugOf(i))
		p.LatestVersion = 3
		all = append(all, p)
		s.mustUpdate(t, func(tx domain.Tx) error { return fill(tx, p) })
	}
	gone, others := all[7], slices.Delete(slices.Clone(all), 7, 8)
	intact := func(r domain.Reader, presets []domain.Preset) {
		newest := slices.Clone(presets)
		slices.Reverse(newest)
		checkPresetPages(t, r, w.ID, newest, 1)
		for _, p := range presets {
			for n := 1; n <= 3; n++ {
				_, err1 := r.PresetVersion(p.State(), n)
				_, err2 := r.LabelChange(p, "staging", n)
				if err := cmp.Or(err1, err2); err != nil {
					t.Errorf("%s: %v", p.Slug, err)
				}
			}
		}
	}
	erased := func(r domain.Reader) {
		wantNotFound(t, "an erased preset")(r.Preset(w.ID, gone.Slug))
		intact(r, others)
		if served, err := r.Served(w.ID, gone.Slug); err != nil || len(served) > 0 {
			t.Errorf("the erased preset was served at %v, %v", served, err)
		}
	}
	s.try(t, true, func(tx domain.Tx) error { return tx.DeletePreset(gone) })
	s.inBoth(t, func(r domain.Reader) { intact(r, all) })
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := tx.DeletePreset(gone)
		wantNotFound(t, "an erased preset")(tx.Preset(w.ID, gone.Slug))
		return err
	})
	s.checkAcrossReopen(t, erased)
	again := newPreset(w.ID, gone.Slug)
	again.LatestVersion = 3
	s.mustUpdate(t, func(tx domain.Tx) error {
		wantValue(t, 0)(tx.LabelChanges(again, "staging"))
		return fill(tx, again)
	})
	s.checkAcrossReopen(t, func(r domain.Reader) { intact(r, append(slices.Clone(others), again)) })
	if err := s.update(func(tx domain.Tx) error { return tx.DeletePreset(newPreset(w.ID, "absent")) }); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("a preset that is not stored: got %v", err)
	}
}

// deletionsManyWriters creates, fills and deletes workspaces that share a few slugs, while
// others write.
func deletionsManyWriters(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	left := make([]map[string]bool, writers)
	mustConcurrently(t, writers, func(i int) error {
		left[i] = map[string]bool{}
		slug := slugOf(i % 8)
		for n := range 4 {
			out, err := service.CreateWorkspace(context.Background(), authorIn(""), domain.WorkspacePatch{Name: new("w"), Slug: new(slug)})
			switch {
			case errors.Is(err, domain.ErrConflict) || domain.KindOf(err) == domain.Invalid: // another workspace has the slug
				continue
			case err != nil:
				return err
			}
			id := out.Workspace.ID
			for _, preset := range []string{"p", fmt.Sprint("p-", n)} {
				if _, err := createVersionAmongWriters(service, authorIn(id), preset); err != nil {
					return err
				}
			}
			if n == 3 {
				left[i][id] = true
				continue
			}
			if _, err := retry(func() (domain.Outcome, error) {
				return service.DeleteWorkspace(context.Background(), authorIn(""), id, domain.WorkspaceDeletion{})
			}); err != nil {
				return err
			}
		}
		return nil
	})
	want := map[string]bool{}
	for _, of := range left {
		maps.Copy(want, of)
	}
	s.checkAcrossReopen(t, func(r domain.Reader) {
		text, total, err := r.WorkspacePage(domain.Page{Limit: math.MaxInt})
		var page []domain.Workspace
		if err == nil {
			err = json.Unmarshal(text, &page)
		}
		if err != nil || total != len(want) || len(page) != len(want) {
			t.Errorf("got %d workspaces, a total of %d and error %v, want %d", len(page), total, err, len(want))
		}
		for _, w := range page {
			if !want[w.ID] {
				t.Errorf("workspace %s was deleted", w.ID)
			}
			presets, total, err := presetPage(r, w.ID, domain.Page{Limit: 10})
			if err != nil || len(presets) != 2 || total != 2 {
				t.Errorf("got %d presets, a total of %d and error %v, want 2", len(presets), total, err)
			}
		}
	})
}

// keyDeleted removes keys beside others, also in the change that stored them.
func keyDeleted(t *testing.T, s *suite) {
	gone, stays, never := newKey(1), newKey(2), newKey(3)
	s.put(t, gone, stays)
	s.try(t, true, func(tx domain.Tx) error { return tx.DeleteKey(gone) })
	s.inBoth(t, func(r domain.Reader) {
		wantValue(t, gone)(r.Key(gone.ID))
		wantValue(t, gone)(r.KeyByHash(gone.Hash))
	})
	s.mustUpdate(t, func(tx domain.Tx) error {
		if err := cmp.Or(tx.DeleteKey(never), tx.PutKey(never), tx.DeleteKey(never), tx.DeleteKey(gone), tx.DeleteKey(gone)); err != nil {
			return err
		}
		checkKeysLeft(t, tx, []domain.Key{gone, never}, stays)
		return nil
	})
	left := func() {
		t.Helper()
		s.inBoth(t, func(r domain.Reader) { checkKeysLeft(t, r, []domain.Key{gone, never}, stays) })
	}
	left()
	s.reopen(t)
	left()
	stale := stays // DeleteKey goes by the id
	stale.Hash = gone.Hash
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.DeleteKey(stale) })
	s.inBoth(t, func(r domain.Reader) { checkKeysLeft(t, r, []domain.Key{gone, never, stays}) })
	s.put(t, gone)
	s.inBoth(t, func(r domain.Reader) { checkKeysLeft(t, r, []domain.Key{never, stays}, gone) })
	s.try(t, true, func(tx domain.Tx) error {
		if err := tx.DeleteKey(domain.Key{ID: "x"}); err == nil {
			t.Error("a key without an id was removed")
		}
		return nil
	})
}

// checkKeysLeft checks that r has some keys, and no trace of others.
func checkKeysLeft(t *testing.T, r domain.Reader, gone []domain.Key, left ...domain.Key) {
	t.Helper()
	for _, k := range gone {
		wantNotFound(t, "the id of a removed key")(r.Key(k.ID))
		wantNotFound(t, "the hash of a removed key")(r.KeyByHash(k.Hash))
	}
	for _, k := range left {
		wantValue(t, k)(r.KeyByHash(k.Hash))
	}
	wantValue(t, left)(r.Keys())
}

// keyDeletedManyWriters removes a key while others note its use. A use that is noted after
// the removal would bring the key back.
func keyDeletedManyWriters(t *testing.T, s *suite) {
	k := newKey(1)
	s.put(t, k)
	mustConcurrently(t, writers, func(i int) error {
		return s.update(func(tx domain.Tx) error {
			if i == writers/2 {
				return tx.DeleteKey(k)
			}
			stored, err := tx.Key(k.ID)
			if errors.Is(err, domain.ErrNotFound) {
				return nil
			}
			stored.LastUsedAt = new(timeAt(i))
			return cmp.Or(err, tx.PutKey(stored))
		})
	})
	s.view(t, func(r domain.Reader) { checkKeysLeft(t, r, []domain.Key{k}) })
}
