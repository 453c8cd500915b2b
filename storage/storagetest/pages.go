package storagetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// presetPage returns a page of a workspace's presets, and the number of all of them.
func presetPage(r domain.Reader, workspaceID string, page domain.Page) (presets []domain.Preset, total int, err error) {
	text, total, err := r.PresetPage(workspaceID, domain.ListedPresets, page)
	if err != nil {
		return nil, 0, err
	}
	if err := json.Unmarshal(text, &presets); err != nil {
		return nil, 0, err
	}
	for i, p := range presets {
		// The page lacks the fields that clients do not see.
		if presets[i], err = r.Preset(workspaceID, p.Slug); err != nil {
			return nil, 0, err
		}
	}
	return presets, total, nil
}

// checkPages compares pages of several sizes with want, which is in list order. It reads one
// in every step offsets.
func checkPages[T interface{ JSON() ([]byte, error) }](t *testing.T, what string, want []T, step int, read func(domain.Page) ([]byte, int, error)) {
	t.Helper()
	check := func(page domain.Page) {
		t.Helper()
		text, total, err := read(page)
		var got []json.RawMessage
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || total != len(want) {
			t.Errorf("%s, %+v: got a total of %d and error %v, want %d", what, page, total, err, len(want))
			return
		}
		first := min(page.Offset, len(want))
		last := first + min(page.Limit, len(want)-first)
		if len(got) != last-first {
			t.Errorf("%s, %+v: got %d objects, want %d", what, page, len(got), last-first)
			return
		}
		for i := range got {
			wantJSON(t, want[first+i])(got[i], nil)
		}
	}
	for offset := 0; offset <= len(want)+1; offset += step {
		check(domain.Page{Offset: offset, Limit: 1})
		if offset%9 == 0 {
			check(domain.Page{Offset: offset, Limit: domain.MaxPage})
		}
	}
	check(domain.Page{})
	check(domain.Page{Limit: math.MaxInt})
	check(domain.Page{Offset: len(want) / 2, Limit: math.MaxInt})
	check(domain.Page{Offset: math.MaxInt, Limit: math.MaxInt})
}

// presetFilters has the statuses that each filter accepts.
var presetFilters = map[domain.PresetFilter][]domain.PresetStatus{
	domain.ListedPresets:   {domain.PresetActive, domain.PresetDisabled},
	domain.ActivePresets:   {domain.PresetActive},
	domain.DisabledPresets: {domain.PresetDisabled},
	domain.ArchivedPresets: {domain.PresetArchived},
	domain.AllPresets:      {domain.PresetActive, domain.PresetDisabled, domain.PresetArchived},
}

// filtered returns the presets that a filter accepts.
func filtered(presets []domain.Preset, filter domain.PresetFilter) []domain.Preset {
	return slices.DeleteFunc(slices.Clone(presets), func(p domain.Preset) bool {
		return !slices.Contains(presetFilters[filter], p.Status)
	})
}

// checkPresetPages compares the pages of every filter with all presets of a workspace. all
// begins with the preset that was put last.
func checkPresetPages(t *testing.T, r domain.Reader, workspaceID string, all []domain.Preset, step int) {
	t.Helper()
	for filter := range presetFilters {
		checkPages(t, fmt.Sprintf("PresetPage of %q", filter), filtered(all, filter), step, func(page domain.Page) ([]byte, int, error) {
			return r.PresetPage(workspaceID, filter, page)
		})
		want := filtered(all, filter)
		for text, err := range r.PresetList(workspaceID, filter) {
			if err != nil || len(want) == 0 {
				t.Errorf("PresetList of %q: got %s and error %v, want %d more", filter, text, err, len(want))
				return
			}
			wantJSON(t, want[0])(text, nil)
			want = want[1:]
		}
		if len(want) > 0 {
			t.Errorf("PresetList of %q: %d presets are missing", filter, len(want))
		}
	}
}

func checkWorkspacePages(t *testing.T, r domain.Reader, want []domain.Workspace, step int) {
	t.Helper()
	checkPages(t, "WorkspacePage", want, step, r.WorkspacePage)
}

// presetPages changes presets of two workspaces at random, several in one update, and
// compares the pages with a model.
func presetPages(t *testing.T, s *suite) {
	tier.NoRace(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	ids := []string{newID(), newID()}
	all := map[string][]domain.Preset{} // by workspace, the preset that was put last first
	pick := func(presets []domain.Preset) domain.Preset { return presets[random.IntN(len(presets))] }
	visible := presetFilters[domain.ListedPresets]
	toFront := func(p domain.Preset) {
		others := slices.DeleteFunc(slices.Clone(all[p.WorkspaceID]), func(q domain.Preset) bool { return q.Slug == p.Slug })
		all[p.WorkspaceID] = slices.Insert(others, 0, p)
	}
	clock := 0
	change := func(tx domain.Tx, w string) error {
		clock++
		var p domain.Preset
		listed, archived := filtered(all[w], domain.ListedPresets), filtered(all[w], domain.ArchivedPresets)
		switch n := random.IntN(10); {
		case n < 3 && len(archived) > 0: // restored
			p = pick(archived)
			p.Status = visible[random.IntN(len(visible))]
		case n < 5 && len(listed) > 0:
			p = pick(listed)
			p.Status = domain.PresetArchived
		case n < 6 && len(archived) > 0: // put and still archived
			p = pick(archived)
		case n < 8 && len(listed) > 0:
			p = pick(listed)
			p.Status = visible[random.IntN(len(visible))]
		default:
			p = newPreset(w, fmt.Sprint("p-", clock))
			p.Status = presetFilters[domain.AllPresets][random.IntN(3)]
		}
		p.LatestVersion, p.UpdatedAt = clock, timeAt(clock%3) // times give no order
		toFront(p)
		return tx.PutPreset(p)
	}
	check := func(step int) {
		t.Helper()
		s.inBoth(t, func(r domain.Reader) {
			for _, w := range ids {
				checkPresetPages(t, r, w, all[w], step)
			}
		})
	}
	check(1) // the lists are empty
	for _, w := range ids {
		// Enough presets for pages, and the records that count them, to have several parts.
		for i := range 300 / tier.Sample(2) {
			toFront(newPreset(w, slugOf(i)))
		}
		s.mustUpdate(t, func(tx domain.Tx) error { return put(tx, oldestFirst(all[w])...) })
	}
	check(1)
	for round := range 120 / tier.Sample(2) {
		// An engine may run the function again, so the model is reset.
		before := cloneLists(all)
		changes, fails, looks, start := 1+random.IntN(12), random.IntN(6) == 0, random.IntN(4) == 0, clock
		w := ids[random.IntN(len(ids))]
		s.try(t, fails, func(tx domain.Tx) error {
			all, clock = cloneLists(before), start
			for range changes {
				if err := change(tx, w); err != nil {
					return err
				}
			}
			if looks {
				checkPresetPages(t, tx, w, all[w], 37)
			}
			return nil
		})
		if fails {
			all = before
		}
		if round%20 == 0 {
			check(29)
		}
	}
	check(1)
	s.reopen(t)
	check(1)
	// In the end all presets are archived, in random order.
	for _, w := range ids {
		for {
			var gone []domain.Preset
			for i, p := range filtered(all[w], domain.ListedPresets) {
				if i%9 < 5 {
					p.Status = domain.PresetArchived
					gone = append(gone, p)
				}
			}
			if len(gone) == 0 {
				break
			}
			s.mustUpdate(t, func(tx domain.Tx) error { return put(tx, gone...) })
			for _, p := range gone {
				toFront(p)
			}
			s.view(t, func(r domain.Reader) { checkPresetPages(t, r, w, all[w], 7) })
		}
	}
	check(1)
	s.inBoth(t, func(r domain.Reader) {
		for _, id := range append(invalidNames(), newID()) { // unknown, or not an id
			checkPresetPages(t, r, id, nil, 1)
		}
	})
}

// oldestFirst returns the presets of a list in the order in which they were put.
func oldestFirst(list []domain.Preset) []domain.Preset {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func cloneLists(m map[string][]domain.Preset) map[string][]domain.Preset {
	clone := make(map[string][]domain.Preset, len(m))
	for w, presets := range m {
		clone[w] = slices.Clone(presets)
	}
	return clone
}

// pagesManyWriters has each update increment a clock, which gives their order.
func pagesManyWriters(t *testing.T, s *suite) {
	const (
		each    = 12
		presets = 40 // fewer than writers, so that they contend
	)
	elsewhere, w := newID(), newID()
	s.put(t, newPreset(elsewhere, "clock"))
	stamps := make([]map[string]int, writers)
	var stop atomic.Bool
	look := func() error {
		return s.View(context.Background(), func(r domain.Reader) error {
			// In one view, all pages together have every preset once.
			seen := map[string]bool{}
			for offset := 0; ; offset += 7 {
				page, total, err := presetPage(r, w, domain.Page{Offset: offset, Limit: 7})
				if err != nil {
					return err
				}
				for _, p := range page {
					seen[p.Slug] = true
				}
				if offset+7 < total {
					continue
				}
				if len(seen) != total || offset+len(page) != total {
					return fmt.Errorf("a total of %d, but %d on pages, %d of them different", total, offset+len(page), len(seen))
				}
				return nil
			}
		})
	}
	looking := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = look()
		}
		looking <- err
	}()
	errs := concurrently(writers, func(i int) error {
		stamps[i] = map[string]int{}
		for n := range each {
			slug, stamp := slugOf((i+n*n)%presets), 0
			err := s.update(func(tx domain.Tx) error {
				clock, err := tx.Preset(elsewhere, "clock")
				if err != nil {
					return err
				}
				clock.LatestVersion++
				stamp = clock.LatestVersion
				p := newPreset(w, slug)
				p.LatestVersion = stamp
				return put(tx, clock, p)
			})
			if err != nil {
				return err
			}
			stamps[i][slug] = stamp
		}
		return nil
	})
	stop.Store(true)
	if err := errors.Join(append(errs, <-looking)...); err != nil {
		t.Fatal(err)
	}
	latest := map[string]int{}
	for _, of := range stamps {
		for slug, stamp := range of {
			latest[slug] = max(latest[slug], stamp)
		}
	}
	s.checkAcrossReopen(t, func(r domain.Reader) {
		got, _, err := presetPage(r, w, domain.Page{Limit: math.MaxInt})
		if err != nil || len(got) != presets {
			t.Fatalf("got %d presets and error %v, want %d", len(got), err, presets)
		}
		for i, p := range got {
			if p.LatestVersion != latest[p.Slug] {
				t.Errorf("%s was put last at %d, want %d", p.Slug, p.LatestVersion, latest[p.Slug])
			}
			if i > 0 && p.LatestVersion >= got[i-1].LatestVersion {
				t.Errorf("%s of %d comes after %s of %d", p.Slug, p.LatestVersion, got[i-1].Slug, got[i-1].LatestVersion)
			}
		}
	})
}

// pagesInASnapshot reads the pages of a view while all of them change.
func pagesInASnapshot(t *testing.T, s *suite) {
	const n = 150
	w := newID()
	var want []domain.Preset
	for i := range n {
		want = append(want, newPreset(w, slugOf(i)))
	}
	workspaces := []domain.Workspace{newWorkspace("one"), newWorkspace("two"), newWorkspace("three")}
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(put(tx, oldestFirst(want)...), put(tx, workspaces...))
	})
	s.mustView(t, func(r domain.Reader) error {
		if _, _, err := r.PresetPage(w, domain.ListedPresets, domain.Page{Limit: 1}); err != nil { // some engines begin the snapshot with the first read
			return err
		}
		for i := range 5 {
			err := s.update(func(tx domain.Tx) error {
				var err error
				for j, p := range want {
					if j%5 != i {
						continue
					}
					if j%2 == 0 {
						p.Status = domain.PresetArchived
					}
					err = cmp.Or(err, tx.PutPreset(p))
				}
				err = cmp.Or(err, put[any](tx, newPreset(w, fmt.Sprint("new-", i)), newWorkspace(fmt.Sprint("new-", i))))
				if i < 2 {
					err = cmp.Or(err, tx.DeleteWorkspace(workspaces[i]))
				}
				return err
			})
			if err != nil {
				return err
			}
			checkPresetPages(t, r, w, want, 31)
			checkWorkspacePages(t, r, workspaces, 1)
		}
		return nil
	})
	s.mustView(t, func(r domain.Reader) error {
		got, total, err := presetPage(r, w, domain.Page{Limit: math.MaxInt})
		if len(got) != n/2+5 || total != len(got) {
			t.Errorf("afterwards: got %d presets of %d, want %d", len(got), total, n/2+5)
		}
		return err
	})
}

// workspacePages stores workspaces whose times give no order, changes them and deletes
// some.
func workspacePages(t *testing.T, s *suite) {
	var want []domain.Workspace
	check := func(r domain.Reader) { checkWorkspacePages(t, r, want, 1) }
	s.inBoth(t, check)
	for i := range 150 {
		w := newWorkspace(slugOf(i))
		w.CreatedAt = timeAt((i * 37) % 11)
		want = append(want, w)
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		for i, w := range want {
			if i%50 == 0 {
				checkWorkspacePages(t, tx, want[:i], 13)
			}
			if err := tx.PutWorkspace(w); err != nil {
				return err
			}
		}
		return nil
	})
	s.inBoth(t, check)
	// Changes keep all workspaces in their places.
	for _, i := range []int{149, 0, 70, 64, 63} {
		want[i].Name, want[i].CreatedAt = "changed", timeAt(i)
		if i%2 == 0 {
			want[i].Slug = fmt.Sprint("renamed-", i)
		}
		s.put(t, want[i])
	}
	s.inBoth(t, check)
	// Some workspaces are deleted while others are created.
	for i := range 6 {
		gone := want[i*20 : i*20+7]
		added := []domain.Workspace{newWorkspace(fmt.Sprint("added-", i)), newWorkspace(fmt.Sprint("passing-", i))}
		s.mustUpdate(t, func(tx domain.Tx) error {
			for _, w := range gone {
				if err := tx.DeleteWorkspace(w); err != nil {
					return err
				}
			}
			return cmp.Or(put(tx, added...), tx.DeleteWorkspace(added[1]))
		})
		want = slices.Delete(slices.Clone(want), i*20, i*20+7)
		want = append(want, added[0])
		s.view(t, func(r domain.Reader) { checkWorkspacePages(t, r, want, 17) })
	}
	s.checkAcrossReopen(t, check)
}
