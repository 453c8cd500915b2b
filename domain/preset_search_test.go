package domain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/search"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// listedPreset has the members by which lists are searched and sorted.
type listedPreset struct {
	Slug, Name  string
	Description *string
	Status      domain.PresetStatus
}

// queried returns the presets of a query by its definition. all are in the order of the
// list, the last changed first.
func queried(all []listedPreset, q domain.PresetQuery) []listedPreset {
	text := strings.ToLower(q.Text)
	found := slices.DeleteFunc(slices.Clone(all), func(p listedPreset) bool {
		status := q.Filter == domain.AllPresets || q.Filter == domain.PresetFilter(p.Status) ||
			q.Filter == domain.ListedPresets && p.Status != domain.PresetArchived
		places := []string{p.Slug, p.Name}
		if p.Description != nil {
			places = append(places, *p.Description)
		}
		return !status || !slices.ContainsFunc(places, func(place string) bool { return strings.Contains(strings.ToLower(place), text) })
	})
	switch q.Sort {
	case search.Slug:
		slices.SortFunc(found, func(a, b listedPreset) int { return strings.Compare(b.Slug, a.Slug) })
	case search.Name:
		slices.SortFunc(found, func(a, b listedPreset) int {
			return cmp.Or(strings.Compare(strings.ToLower(b.Name), strings.ToLower(a.Name)), strings.Compare(b.Name, a.Name), strings.Compare(b.Slug, a.Slug))
		})
	}
	if q.Ascending {
		slices.Reverse(found)
	}
	return found
}

// Pages of every query are those of a search of all presets.
func TestPresetQueries(t *testing.T) {
	tier.NoRace(t)
	f := newFixture(t)
	random := rand.New(rand.NewPCG(3, 4))
	words := []string{"mail", "Mail", "MÉMO", "mémo", "Éa", "x", "ärger", "ÄRGER", "日本", "a-b"}
	word := func() string { return words[random.IntN(len(words))] }
	const presets = 60
	for n := range presets {
		slug := fmt.Sprintf("%c%d-Mail", "aAbBzZ"[n%6], random.IntN(1000)*presets+n)
		f.must(f.ReleasePresetVersion(t.Context(), ask, "", slug, nothing, domain.Release{}))
		patch := domain.PresetPatch{Name: new(word())}
		if n%2 == 0 {
			patch.Description = domain.Settable[string]{Given: true, Value: new(word() + " " + word())}
		}
		if n%5 == 0 {
			patch.Status = new(domain.PresetDisabled)
		}
		f.must(f.UpdatePreset(t.Context(), ask, "", slug, patch))
		if n%7 == 1 && n%5 != 0 {
			f.must(f.ArchivePreset(t.Context(), ask, "", slug))
		}
	}
	list := func(q domain.PresetQuery, page domain.Page) (found []listedPreset, total int) {
		t.Helper()
		listed, err := f.Presets(t.Context(), user, "", q, page)
		if err != nil || json.Unmarshal(listed.JSON, &found) != nil || found == nil || listed.Tag == "" {
			t.Fatalf("%+v: got %s, %v", q, listed.JSON, err)
		}
		return found, listed.Total
	}
	all, _ := list(domain.PresetQuery{Filter: domain.AllPresets}, domain.Page{Limit: presets})
	if len(all) != presets {
		t.Fatalf("got %d presets", len(all))
	}
	matched := 0
	for range 1000 {
		q := domain.PresetQuery{
			Filter:    []domain.PresetFilter{domain.ListedPresets, domain.AllPresets, domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets}[random.IntN(5)],
			Sort:      []search.Sort{search.Updated, search.Name, search.Slug}[random.IntN(3)],
			Ascending: random.IntN(2) == 0,
		}
		if random.IntN(3) > 0 {
			q.Text = []string{word(), "A", "b1", "É", "-mail", "absent", "7", "mo "}[random.IntN(8)]
		}
		page := domain.Page{Offset: random.IntN(presets + 2), Limit: 1 + random.IntN(5)}
		want := queried(all, q)
		matched += len(want)
		found, total := list(q, page)
		begin := min(page.Offset, len(want))
		part := want[begin : begin+min(page.Limit, len(want)-begin)]
		got, wanted := fmt.Sprint(slugsOf(found)), fmt.Sprint(slugsOf(part))
		if got != wanted || total != len(want) {
			t.Fatalf("%+v, %+v: got %s of %d, want %s of %d", q, page, got, total, wanted, len(want))
		}
	}
	if matched == 0 {
		t.Error("nothing was found")
	}
	far := domain.Page{Offset: math.MaxInt, Limit: 1}
	wantKind(t, errOf(f.Presets(t.Context(), user, "", domain.PresetQuery{Sort: search.Name}, far)), domain.Invalid, "offset: must be at most 10000")
}

func slugsOf(list []listedPreset) (slugs []string) {
	for _, p := range list {
		slugs = append(slugs, p.Slug)
	}
	return slugs
}

// A search is answered from memory until a preset changes.
func TestSearchesAreCached(t *testing.T) {
	f := newFixture(t)
	f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}))
	q := domain.PresetQuery{Text: "N"}
	total := func() int {
		list := f.found(f.Presets(t.Context(), user, "", q, domain.Page{Limit: 2}))
		return list.Total
	}
	if n := total(); n != 0 {
		t.Errorf("got %d, want none", n)
	}
	views := f.views
	if total(); f.views != views {
		t.Errorf("the store was read %d times", f.views-views)
	}
	f.must(f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Name: new("n")}))
	if n := total(); n != 1 {
		t.Errorf("got %d, want 1", n)
	}
}

// A scan ends when its time is over, or when the client leaves.
func TestScansEnd(t *testing.T) {
	f := newFixture(t)
	f.LimitScans(-time.Second)
	for _, q := range []domain.PresetQuery{{Text: "x"}, {Sort: search.Name}, {Sort: search.Slug}, {Ascending: true}} {
		wantKind(t, errOf(f.Presets(t.Context(), user, "", q, domain.Page{Limit: 1})), domain.Unavailable, "The search took too long")
	}
	f.LimitScans(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Presets(ctx, user, "", domain.PresetQuery{Text: "x"}, domain.Page{Limit: 1}); err == nil || domain.KindOf(err) == domain.Unavailable {
		t.Errorf("got error %v, want that of the context", err)
	}
}
