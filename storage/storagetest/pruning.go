package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkVersions compares the versions of a stored preset with want, by number. All other
// numbers must have no version, including those before the first and after the last.
func checkVersions(t *testing.T, r domain.Reader, p domain.Preset, want map[int]domain.PresetVersion) {
	t.Helper()
	wantValue(t, p)(r.Preset(p.WorkspaceID, p.Slug))
	state, _, err := r.PresetJSON(p.WorkspaceID, p.Slug)
	wantValue(t, p.State())(state, err)
	for n := -1; n <= p.LatestVersion+1; n++ {
		there, ok := want[n]
		if state.Has(n) != ok {
			t.Errorf("%s: has version %d: %t, want %t", p.Slug, n, !ok, ok)
		}
		if !ok {
			wantNotFound(t, fmt.Sprint(p.Slug, ", version ", n))(r.PresetVersion(p.State(), n))
			wantNotFound(t, fmt.Sprint(p.Slug, ", version ", n))(r.PresetVersionJSON(state, n))
			wantNotFound(t, fmt.Sprint(p.Slug, ", summary of version ", n))(r.PresetVersionSummary(state, n))
			continue
		}
		wantValue(t, there)(r.PresetVersion(p.State(), n))
		text, err := r.PresetVersionJSON(state, n)
		wantJSON(t, there)(text, err)
		if summary, err := r.PresetVersionSummary(state, n); err != nil {
			t.Errorf("%s, summary of version %d: %v", p.Slug, n, err)
		} else {
			checkSummary(t, summary, text)
		}
	}
}

// versionsPrunedElsewhere stores a preset that lost versions before a salvage, and then the
// versions that it had at each moment.
func versionsPrunedElsewhere(t *testing.T, s *suite) {
	p, of := newPreset(newID(), "p"), map[int]domain.PresetVersion{}
	check := func(r domain.Reader) {
		checkVersions(t, r, p, of)
		checkPresets(t, r, p.WorkspaceID, p)
	}
	for _, step := range []struct {
		adds int
		kept domain.Kept
	}{
		{2, domain.Kept{From: 2}},
		{4, domain.Kept{From: 4, Also: []int{2}}},
		{7, domain.Kept{From: 7, Also: []int{2, 4}}},
		{8, domain.Kept{From: 7, Also: []int{2, 4}}},
		{9, domain.Kept{From: 7, Also: []int{2, 4}}},
	} {
		p.LatestVersion, p.Kept = step.adds, step.kept
		add := step.adds
		of[add] = newVersion(p, add, "{}")
		p.DesignatedVersion, p.DesignatedVersionID = add, of[add].ID
		s.mustUpdate(t, func(tx domain.Tx) error {
			return cmp.Or(tx.PutPresetVersion(p, of[add]), tx.PutPreset(p))
		})
		s.inBoth(t, check)
	}
	s.reopen(t)
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PruneVersions(p, []int{4, 8}) })
	p.Kept = domain.Kept{From: 9, Also: []int{2, 7}}
	delete(of, 4)
	delete(of, 8)
	s.inBoth(t, check)
}

// versionsPruned removes versions of one preset of several.
func versionsPruned(t *testing.T, s *suite) {
	w := newID()
	presets := []domain.Preset{newPreset(w, "last"), newPreset(w, "p"), newPreset(w, "first")} // in list order
	versions := map[string]map[int]domain.PresetVersion{}
	for i := range presets {
		presets[i].LatestVersion = 9
		of := map[int]domain.PresetVersion{}
		for n := 1; n <= 9; n++ {
			of[n] = newVersion(presets[i], n, fmt.Sprintf(`{"n":%d}`, n))
		}
		versions[presets[i].Slug] = of
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		var err error
		for _, p := range slices.Backward(presets) {
			for _, v := range versions[p.Slug] {
				err = cmp.Or(err, tx.PutPresetVersion(p, v))
			}
			err = cmp.Or(err, tx.PutPreset(p), tx.PutLabelChange(p, "staging", newLabelChange(1)))
		}
		return err
	})
	p, of := &presets[1], versions["p"]
	look := func(r domain.Reader) {
		for _, p := range presets {
			checkVersions(t, r, p, versions[p.Slug])
			wantValue(t, 1)(r.LabelChanges(p, "staging"))
		}
		checkPresetPages(t, r, w, presets, 1)
		checkPresets(t, r, w, bySlug(presets...)...)
	}
	// Versions at the beginning, the middle and the end are removed, several times.
	for _, step := range []struct {
		numbers []int
		kept    domain.Kept
	}{
		{nil, domain.Kept{}},
		{[]int{2, 3, 5}, domain.Kept{From: 6, Also: []int{1, 4}}},
		{[]int{6}, domain.Kept{From: 7, Also: []int{1, 4}}},
		{[]int{1}, domain.Kept{From: 7, Also: []int{4}}},
		{[]int{4, 8}, domain.Kept{From: 9, Also: []int{7}}},
	} {
		stored := *p
		stored.Name, stored.LatestVersion = "not stored", 1 // only stored versions count
		pruned := maps.Clone(of)
		for _, n := range step.numbers {
			delete(pruned, n)
		}
		for _, fails := range []bool{true, false} {
			before := *p
			s.try(t, fails, func(tx domain.Tx) error {
				if err := tx.PruneVersions(stored, step.numbers); err != nil {
					return err
				}
				p.Kept, versions["p"] = step.kept, pruned
				look(tx)
				return nil
			})
			if fails {
				*p, versions["p"] = before, of
				s.inBoth(t, look)
			}
		}
		of = pruned
		s.inBoth(t, look)
	}
	s.reopen(t)
	s.inBoth(t, look)
	// One update adds a version and removes others, as the Service does to make room.
	added := newVersion(*p, 10, `{"n":10}`)
	s.mustUpdate(t, func(tx domain.Tx) error {
		q, err := tx.Preset(w, "p")
		if err != nil {
			return err
		}
		q.LatestVersion, q.DesignatedVersion = 10, 10
		err = cmp.Or(tx.PutPresetVersion(q, added), tx.PutPreset(q), tx.PruneVersions(q, []int{7, 9}))
		q.Kept = domain.Kept{From: 10}
		*p = q
		return err
	})
	versions["p"] = map[int]domain.PresetVersion{10: added}
	presets[0], presets[1] = presets[1], presets[0] // put last
	s.checkAcrossReopen(t, look)
	// A missing version is damage if the preset still has its number.
	state := presets[0].State()
	state.LatestVersion++
	if _, err := get(s, func(r domain.Reader) (domain.PresetVersion, error) { return r.PresetVersion(state, 11) }); err == nil || errors.Is(err, domain.ErrNotFound) {
		t.Errorf("a version that must exist: got error %v, want one that is not ErrNotFound", err)
	}
}

// versionsPrunedAtRandom adds and removes versions of a few presets at random, and compares
// the results with a model.
func versionsPrunedAtRandom(t *testing.T, s *suite) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	type model struct {
		presets  []domain.Preset // the preset that was put last first
		versions map[string]map[int]domain.PresetVersion
	}
	clone := func(m model) model {
		versions := map[string]map[int]domain.PresetVersion{}
		for slug, of := range m.versions {
			versions[slug] = maps.Clone(of)
		}
		return model{slices.Clone(m.presets), versions}
	}
	w := newID()
	now := model{versions: map[string]map[int]domain.PresetVersion{}}
	for i := range 4 {
		p := newPreset(w, slugOf(i))
		now.presets = append(now.presets, p)
		now.versions[p.Slug] = map[int]domain.PresetVersion{}
	}
	s.mustUpdate(t, func(tx domain.Tx) error { return put(tx, oldestFirst(now.presets)...) })
	putFirst := func(tx domain.Tx, p domain.Preset) error {
		other := func(q domain.Preset) bool { return q.Slug == p.Slug }
		now.presets = slices.Insert(slices.DeleteFunc(now.presets, other), 0, p)
		return tx.PutPreset(p)
	}
	change := func(tx domain.Tx, random *rand.Rand) error {
		p := &now.presets[random.IntN(len(now.presets))]
		of := now.versions[p.Slug]
		switch n := random.IntN(10); {
		case n < 5:
			q := *p
			q.LatestVersion++
			q.DesignatedVersion = q.LatestVersion
			v := newVersion(q, q.LatestVersion, fmt.Sprintf(`{"n":%d}`, q.LatestVersion))
			of[v.Version] = v
			return cmp.Or(tx.PutPresetVersion(q, v), putFirst(tx, q))
		case n < 6:
			q := *p
			q.Status = presetFilters[domain.AllPresets][random.IntN(3)]
			return putFirst(tx, q)
		default:
			var numbers []int
			for _, n := range slices.Sorted(maps.Keys(of)) {
				if n < p.LatestVersion && random.IntN(3) == 0 {
					numbers = append(numbers, n)
					delete(of, n)
				}
			}
			p.Kept = p.Kept.Without(numbers)
			return tx.PruneVersions(*p, numbers)
		}
	}
	check := func(r domain.Reader) {
		for _, p := range now.presets {
			checkVersions(t, r, p, now.versions[p.Slug])
		}
		checkPresetPages(t, r, w, now.presets, 1)
	}
	for round := range 150 {
		// An engine may run the function again, so the model and the random numbers are
		// reset.
		before, changes, fails, looks, seed := clone(now), 1+random.IntN(8), random.IntN(6) == 0, random.IntN(4) == 0, random.Uint64()
		s.try(t, fails, func(tx domain.Tx) error {
			now = clone(before)
			random := rand.New(rand.NewPCG(seed, 0))
			for range changes {
				if err := change(tx, random); err != nil {
					return err
				}
			}
			if looks {
				check(tx)
			}
			return nil
		})
		if fails {
			now = before
		}
		if round%10 == 0 {
			s.view(t, check)
		}
	}
	s.reopen(t)
	s.inBoth(t, check)
}

// pruningManyWriters adds versions and prunes meanwhile. Some additions also remove
// versions. Views must find every version that a preset has.
func pruningManyWriters(t *testing.T, s *suite) {
	const (
		presets = 4
		each    = 12
		keep    = 5
	)
	keeping, pruning := domain.NewService(s.Store), domain.NewService(s.Store)
	keeping.KeepVersions = keep
	created, err := keeping.CreateWorkspace(t.Context(), authorIn(""), domain.WorkspacePatch{Name: new("w"), Slug: new("w")})
	if err != nil {
		t.Fatal(err)
	}
	w := created.Workspace.ID
	look := func(least int) (most int, err error) {
		err = s.View(context.Background(), func(r domain.Reader) error {
			for p, err := range r.Presets(w) {
				if err != nil {
					return err
				}
				state, there := p.State(), 0
				for n := range p.LatestVersion {
					if !state.Has(n + 1) {
						continue
					}
					there++
					if v, err := r.PresetVersion(state, n+1); err != nil || v.Version != n+1 {
						return fmt.Errorf("%s has version %d, but reading it gives %d: %w", p.Slug, n+1, v.Version, err)
					}
				}
				if there < min(p.LatestVersion, least) || !state.Has(p.LatestVersion) {
					return fmt.Errorf("%s has %d versions, of %d", p.Slug, there, p.LatestVersion)
				}
				most = max(most, there)
			}
			return nil
		})
		return most, err
	}
	var working atomic.Int64
	working.Store(writers)
	mustConcurrently(t, writers+2, func(i int) error {
		if i >= writers {
			for working.Load() > 0 {
				if _, err := look(2); err != nil {
					return err
				}
				// A pruning that lost against other writers is not repeated.
				if _, err := pruning.PruneVersions(context.Background(), authorIn(""), domain.Pruning{Keep: 2}); err != nil && !errors.Is(err, domain.ErrConflict) {
					return err
				}
			}
			return nil
		}
		defer working.Add(-1)
		service := []*domain.Service{keeping, pruning}[i%2]
		for range each {
			if _, err := createVersionAmongWriters(service, authorIn(w), slugOf(i%presets)); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range presets {
		if _, err := createVersion(keeping, authorIn(w), slugOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.reopen(t)
	if most, err := look(2); err != nil || most > keep {
		t.Errorf("got %d versions of a preset and error %v, want at most %d", most, err, keep)
	}
}
