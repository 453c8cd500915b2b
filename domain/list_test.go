package domain_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Presets of each status are found, in the order of their last changes.
func TestPresetsByStatus(t *testing.T) {
	f := newFixture(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	f.workspace(t, "team")
	f.must(f.CreatePresetVersion(t.Context(), ask, "team", "elsewhere", nothing))
	statuses := make(map[string]domain.PresetStatus)
	var changed []string // the last changed one first
	touch := func(slug string, status domain.PresetStatus) {
		statuses[slug] = status
		changed = slices.DeleteFunc(changed, func(s string) bool { return s == slug })
		changed = slices.Insert(changed, 0, slug)
	}
	check := func(filter domain.PresetFilter, page domain.Page) {
		t.Helper()
		var want []string
		for _, slug := range changed {
			status := statuses[slug]
			if filter == domain.AllPresets || filter == domain.ListedPresets && status != domain.PresetArchived || string(filter) == string(status) {
				want = append(want, slug)
			}
		}
		total := len(want)
		want = want[min(page.Offset, total):]
		want = want[:min(page.Limit, len(want))]
		list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{Filter: filter}, page)
		var presets []domain.Preset
		if err == nil {
			err = json.Unmarshal(list.JSON, &presets)
		}
		var got []string
		for _, p := range presets {
			got = append(got, p.Slug)
			if p.Status != statuses[p.Slug] {
				t.Errorf("%s: got %s with status %s, want %s", filter, p.Slug, p.Status, statuses[p.Slug])
			}
		}
		if err != nil || list.Total != total || !slices.Equal(got, want) || list.Tag == "" {
			t.Errorf("%s, %+v: got %v of %d, %v, want %v of %d", filter, page, got, list.Total, err, want, total)
		}
	}
	filters := []domain.PresetFilter{domain.ListedPresets, domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets, domain.AllPresets}
	for range 200 {
		slug := fmt.Sprint("p", random.IntN(12))
		set := func(status domain.PresetStatus) error {
			return errOf(f.UpdatePreset(t.Context(), ask, "", slug, domain.PresetPatch{Status: &status}))
		}
		var err error
		switch before := statuses[slug]; before {
		case "":
			_, err = f.CreatePresetVersion(t.Context(), ask, "", slug, nothing)
			touch(slug, domain.PresetActive)
		case domain.PresetActive:
			if random.IntN(2) == 0 {
				err = set(domain.PresetDisabled)
				touch(slug, domain.PresetDisabled)
			} else {
				_, err = f.ArchivePreset(t.Context(), ask, "", slug)
				touch(slug, domain.PresetArchived)
			}
		case domain.PresetDisabled:
			err = set(domain.PresetActive)
			touch(slug, domain.PresetActive)
		case domain.PresetArchived:
			_, err = f.RestorePreset(t.Context(), ask, "", slug)
			touch(slug, domain.PresetActive)
		}
		if err != nil {
			t.Fatal(err)
		}
		check(filters[random.IntN(len(filters))], domain.Page{Offset: random.IntN(5), Limit: 1 + random.IntN(5)})
	}
	for _, filter := range filters {
		check(filter, domain.Page{Limit: domain.MaxPage})
		check(filter, domain.Page{Offset: math.MaxInt, Limit: domain.MaxPage})
	}
	wantKind(t, errOf(f.Presets(t.Context(), user, "team", domain.PresetQuery{Filter: domain.AllPresets}, domain.Page{Limit: 1})), domain.Forbidden, "")
}
