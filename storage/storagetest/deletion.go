package storagetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// workspaceGone checks that r finds no trace of w itself.
func workspaceGone(t *testing.T, r domain.Reader, w domain.Workspace, slugTaken bool) {
	t.Helper()
	if _, err := r.Workspace(w.ID); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("the id of a deleted workspace: got error %v, want ErrNotFound", err)
	}
	switch got, err := workspaceBySlug(r, w.Slug); {
	case !slugTaken && !errors.Is(err, domain.ErrNotFound):
		t.Errorf("the slug of a deleted workspace: got error %v, want ErrNotFound", err)
	case slugTaken && (err != nil || got.ID == w.ID):
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
	intact := func(r domain.Reader, w domain.Workspace) error {
		got, err := workspaceBySlug(r, w.Slug)
		if err != nil {
			return err
		}
		same(t, got, w)
		seen := 0
		for p, err := range r.Presets(w.ID) {
			if err != nil {
				return err
			}
			seen++
			for n := 1; n <= 3; n++ {
				_, err1 := r.PresetVersion(p.State(), n)
				_, err2 := r.LabelChange(p, "staging", n)
				if err := cmp.Or(err1, err2); err != nil {
					return err
				}
			}
		}
		page, total, err := presetPage(r, w.ID, domain.Page{Limit: math.MaxInt})
		if seen != 40 || len(page) != 40 || total != 40 {
			t.Errorf("%s: got %d presets, %d on a page and a total of %d, want 40", w.Slug, seen, len(page), total)
		}
		return err
	}
	empty := func(r domain.Reader, w domain.Workspace) error {
		presetsAre(t, r, w.ID)
		presetPagesAre(t, r, w.ID, nil, 1)
		_, err := r.Preset(w.ID, slugOf(1))
		if !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("a preset of the deleted workspace in that of the same slug: got error %v, want ErrNotFound", err)
		}
		return nil
	}
	before, w, after := newWorkspace("before"), newWorkspace("w"), newWorkspace("after")
	for _, w := range []domain.Workspace{before, w, after} {
		s.mustUpdate(t, func(tx domain.Tx) error { return fill(tx, w) })
	}
	// A failed deletion changes nothing.
	err := s.update(func(tx domain.Tx) error {
		if err := tx.DeleteWorkspace(w); err != nil {
			return err
		}
		workspaceGone(t, tx, w, false)
		return errDeliberate
	})
	if !errors.Is(err, errDeliberate) {
		t.Errorf("got error %v, want the function's own", err)
	}
	s.inBoth(t, func(r domain.Reader) error { return cmp.Or(intact(r, before), intact(r, w), intact(r, after)) })

	heir := newWorkspace("w")
	s.mustUpdate(t, func(tx domain.Tx) error {
		if err := tx.DeleteWorkspace(w); err != nil {
			return err
		}
		workspaceGone(t, tx, w, false)
		return cmp.Or(tx.PutWorkspace(heir), empty(tx, heir))
	})
	check := func() {
		t.Helper()
		s.inBoth(t, func(r domain.Reader) error {
			workspaceGone(t, r, w, true)
			workspacePagesAre(t, r, []domain.Workspace{before, after, heir}, 1)
			return cmp.Or(intact(r, before), intact(r, after), empty(r, heir))
		})
	}
	check()
	s.reopen(t)
	check()
	// The heir has presets of the same slugs, and must lose none.
	filled := newWorkspace("filled")
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(tx.DeleteWorkspace(heir), fill(tx, filled))
	})
	s.reopen(t)
	s.inBoth(t, func(r domain.Reader) error {
		workspaceGone(t, r, w, false)
		workspaceGone(t, r, heir, false)
		workspacePagesAre(t, r, []domain.Workspace{before, after, filled}, 1)
		return cmp.Or(intact(r, before), intact(r, after), intact(r, filled))
	})
}

// deletionsManyWriters creates, fills and deletes workspaces that share a few slugs, while
// others write.
func deletionsManyWriters(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	left := make([]map[string]bool, writers)
	errs := together(writers, func(i int) error {
		left[i] = map[string]bool{}
		slug := slugOf(i % 8)
		for n := range 4 {
			out, err := service.CreateWorkspace(context.Background(), by(""), domain.NewWorkspace{Name: "w", Slug: slug})
			switch {
			case errors.Is(err, domain.ErrConflict) || domain.KindOf(err) == domain.Invalid: // another workspace has the slug
				continue
			case err != nil:
				return err
			}
			id := out.Workspace.ID
			for _, preset := range []string{"p", fmt.Sprint("p-", n)} {
				for {
					_, err := service.CreatePresetVersion(context.Background(), by(id), "", preset, domain.Capture{Config: []byte("{}")})
					if err == nil {
						break
					}
					if !errors.Is(err, domain.ErrConflict) {
						return err
					}
				}
			}
			left[i][id] = true
			if n == 3 {
				continue
			}
			for {
				_, err := service.DeleteWorkspace(context.Background(), by(""), id, domain.WorkspaceDeletion{})
				if err == nil {
					delete(left[i], id)
					break
				}
				if !errors.Is(err, domain.ErrConflict) {
					return err
				}
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	check := func() {
		want := map[string]bool{}
		for _, of := range left {
			for id := range of {
				want[id] = true
			}
		}
		s.mustView(t, func(r domain.Reader) error {
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
			return nil
		})
	}
	check()
	s.reopen(t)
	check()
}
