package badger

import (
	"fmt"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// raceEnabled is set under the race detector, which allocates too.
var raceEnabled bool

// TestBudgets compares the allocations of operations with those at the time of writing,
// plus a quarter.
func TestBudgets(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	s := mustOpenInMemory(t)
	w, p := newWorkspace("w"), newPreset("", "p")
	p.WorkspaceID = w.ID
	v := domain.PresetVersion{ID: newID(), PresetID: p.ID, Version: 1, Config: []byte(`{"model":"m"}`)}
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		if err := tx.PutPresetVersion(p, v); err != nil {
			return err
		}
		for i := range 100 {
			if err := tx.PutPreset(newPreset(w.ID, fmt.Sprint("p-", i))); err != nil {
				return err
			}
		}
		return tx.PutWorkspace(w)
	})
	if err != nil {
		t.Fatal(err)
	}
	view := func(fn func(r domain.Reader) error) func() error {
		return func() error { return s.View(t.Context(), fn) }
	}
	update := func(fn func(tx domain.Tx) error) func() error {
		return func() error { return s.Update(t.Context(), fn) }
	}
	page := domain.Page{Offset: 10, Limit: domain.DefaultPage}
	for _, operation := range []struct {
		name   string
		budget float64
		do     func() error
	}{
		{"a workspace", 14, view(func(r domain.Reader) error { _, err := r.WorkspaceJSON(w.ID); return err })},
		{"a version", 14, view(func(r domain.Reader) error { _, err := r.PresetVersionJSON(p.State(), 1); return err })},
		{"a page of 50", 550, view(func(r domain.Reader) error { _, _, err := r.PresetPage(w.ID, domain.ListedPresets, page); return err })},
		{"a change of a workspace", 108, update(func(tx domain.Tx) error { return tx.PutWorkspace(w) })},
		{"a change of a preset", 200, update(func(tx domain.Tx) error { return tx.PutPreset(p) })},
	} {
		t.Run(operation.name, func(t *testing.T) {
			storagetest.CheckAllocations(t, operation.budget, func() float64 {
				return testing.AllocsPerRun(100, func() {
					if err := operation.do(); err != nil {
						t.Fatal(err)
					}
				})
			})
		})
	}
}
