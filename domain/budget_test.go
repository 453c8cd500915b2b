package domain_test

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// raceEnabled is set under the race detector, which allocates too.
var raceEnabled bool

// TestBudgets compares the allocations of operations, with warm caches, with those at the
// time of writing, plus a quarter.
func TestBudgets(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	f := newFixture(t)
	if _, err := f.CreatePresetVersion(t.Context(), domain.By(admin), "", "p", nothing); err != nil {
		t.Fatal(err)
	}
	page := domain.Page{Limit: domain.DefaultPage}
	for _, operation := range []struct {
		name   string
		budget float64
		do     func() error
	}{
		{"a workspace", 0, func() error { _, err := f.Workspace(t.Context(), admin, "default"); return err }},
		{"a preset", 0, func() error { _, err := f.Preset(t.Context(), user, "", "p"); return err }},
		{"a page of presets", 0, func() error { _, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, page); return err }},
		{"a page of workspaces", 0, func() error { _, err := f.Workspaces(t.Context(), admin, page); return err }},
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
