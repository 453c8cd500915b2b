package domain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// prune prunes all workspaces and returns the removed versions of each preset.
func (f *fixture) prune(t testing.TB, on domain.Pruning) map[string]string {
	t.Helper()
	pruned, err := f.PruneVersions(t.Context(), ask, on)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range pruned {
		if p.Count != len(numbersIn(t, p.Versions)) || p.Count == 0 {
			t.Errorf("%+v does not add up", p)
		}
		all[p.WorkspaceSlug+"/"+p.Slug] = p.Versions
	}
	return all
}

// numbersIn returns the numbers of a text like 1-3,5.
func numbersIn(t testing.TB, text string) (numbers []int) {
	t.Helper()
	for span := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(span, "-")
		if !ok {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil || last < first || ok && last == first {
			t.Fatalf("%q is not as text of versions is (%v)", text, err)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// left returns the versions that a preset of the default workspace has, by reading
// them.
func (f *fixture) left(t testing.TB, slug string) (numbers []int) {
	t.Helper()
	p := f.stored(t, "default", slug)
	err := f.store.View(t.Context(), func(r domain.Reader) error {
		for n := 1; n <= p.LatestVersion+1; n++ {
			switch v, err := r.PresetVersion(p.State(), n); {
			case err == nil && v.Version == n:
				numbers = append(numbers, n)
			case !errors.Is(err, domain.ErrNotFound):
				return fmt.Errorf("version %d: %w", n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// Designated and labelled versions stay, and so do the newest.
func TestWhatIsPruned(t *testing.T) {
	for name, tc := range map[string]struct {
		versions, keep, designated int
		labels                     []domain.Target
		pruned                     string
	}{
		"all are among the newest":       {versions: 5, keep: 5},
		"fewer than are to stay":         {versions: 5, keep: 100},
		"the last":                       {versions: 1, keep: 1},
		"one too many":                   {versions: 5, keep: 4, pruned: "1"},
		"all but the last":               {versions: 5, keep: 1, pruned: "1-4"},
		"the designated":                 {versions: 5, keep: 1, designated: 2, pruned: "1,3-4"},
		"the first is designated":        {versions: 5, keep: 2, designated: 1, pruned: "2-3"},
		"a label":                        {versions: 5, keep: 1, labels: []domain.Target{{Version: 3}}, pruned: "1-2,4"},
		"a label for the designated":     {versions: 5, keep: 1, designated: 3, labels: []domain.Target{{Version: 3}}, pruned: "1-2,4"},
		"a split":                        {versions: 7, keep: 1, labels: []domain.Target{split(share(2, 1), share(5, 9))}, pruned: "1,3-4,6"},
		"a split's version of no weight": {versions: 4, keep: 1, labels: []domain.Target{split(share(2, 0), share(4, 1))}, pruned: "1,3"},
		"labels and splits":              {versions: 9, keep: 2, designated: 4, labels: []domain.Target{{Version: 1}, split(share(1, 1), share(9, 2)), split(share(6, 1))}, pruned: "2-3,5,7"},
		"all are in use":                 {versions: 4, keep: 1, designated: 3, labels: []domain.Target{split(share(2, 1), share(1, 2))}},
	} {
		t.Run(name, func(t *testing.T) {
			f := labelled(t, tc.versions)
			for i, to := range tc.labels {
				f.label(t, fmt.Sprint("l", i), to)
			}
			if tc.designated > 0 {
				f.must(f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: tc.designated}))
			}
			before, trail, want := f.stored(t, "default", "p"), f.trail(t), map[string]string{}
			var left []int
			for n := 1; n <= tc.versions; n++ {
				if tc.pruned == "" || !slices.Contains(numbersIn(t, tc.pruned), n) {
					left = append(left, n)
				}
			}
			if tc.pruned != "" {
				want["default/p"] = tc.pruned
			}
			// A dry run reports, and removes nothing.
			if got := f.prune(t, domain.Pruning{Keep: tc.keep, DryRun: true}); !reflect.DeepEqual(got, want) {
				t.Errorf("a dry run gives %v, want %v", got, want)
			}
			if after := f.stored(t, "default", "p"); !reflect.DeepEqual(after, before) || f.records(t) != len(trail) {
				t.Errorf("after a dry run: got %+v, want %+v still", after, before)
			}
			f.now = f.now.Add(time.Hour)
			if got := f.prune(t, domain.Pruning{Keep: tc.keep}); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if got := f.left(t, "p"); !slices.Equal(got, left) {
				t.Errorf("versions %v are left, want %v", got, left)
			}
			after := f.stored(t, "default", "p")
			if after.Kept = before.Kept; !reflect.DeepEqual(after, before) {
				t.Errorf("got  %+v\nwant %+v", after, before)
			}
			added := f.trail(t)[len(trail):]
			if tc.pruned == "" && len(added) != 0 || tc.pruned != "" && len(added) != 1 {
				t.Fatalf("the trail has %+v more", added)
			}
			for _, r := range added {
				object := domain.AuditObject{Kind: "preset", ID: before.ID, WorkspaceID: before.WorkspaceID, Slug: "p", Pruned: tc.pruned}
				if r.Operation != "preset.prune" || r.Object != object || r.Before != before.DesignatedVersion || r.After != r.Before || r.KeyID != "k1" || r.UserID != "ann" {
					t.Errorf("got record %+v, want one of %+v", r, object)
				}
			}
			if got := f.prune(t, domain.Pruning{Keep: tc.keep}); len(got) != 0 || f.records(t) != len(trail)+len(added) {
				t.Errorf("once more: got %v, want nothing", got)
			}
		})
	}
}

// A version that a label or the designation held back is removed once they have moved on.
func TestPrunedOnceItIsNotUsed(t *testing.T) {
	f := labelled(t, 6)
	f.label(t, "live", domain.Target{Version: 2})
	f.label(t, "canary", split(share(1, 1), share(4, 1)))
	prune := func(keep int, want string, left ...int) {
		t.Helper()
		if got := f.prune(t, domain.Pruning{Keep: keep}); got["default/p"] != want {
			t.Errorf("got %v, want %q", got, want)
		}
		if got := f.left(t, "p"); !slices.Equal(got, left) {
			t.Errorf("versions %v are left, want %v", got, left)
		}
	}
	prune(2, "3", 1, 2, 4, 5, 6)
	f.label(t, "canary", domain.Target{Version: 4})
	prune(3, "1", 2, 4, 5, 6)
	f.must(f.DeleteLabel(t.Context(), ask, "", "p", "live"))
	prune(10, "", 2, 4, 5, 6) // more are to stay than there are numbers
	prune(1, "2,5", 4, 6)
	f.must(f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: 4}))
	f.put(t, "p", "{}", nil)
	prune(1, "6", 4, 7)
	if p := f.stored(t, "default", "p"); p.LatestVersion != 7 {
		t.Errorf("got latest version %d, want 7", p.LatestVersion)
	}
}

// TestPruneUnused removes versions that were not served since a time. Both rules must allow it.
func TestPruneUnused(t *testing.T) {
	f := newFixture(t)
	begun := f.now.Truncate(time.Hour)
	for i := range 8 { // version n is made at hour n-1
		f.now = begun.Add(time.Duration(i) * time.Hour)
		f.put(t, "p", "{}", nil)
	}
	f.label(t, "live", domain.Target{Version: 2})
	f.label(t, "canary", split(share(3, 1), share(1, 1)))
	p := f.stored(t, "default", "p")
	hour := func(n int) int64 { return domain.ServedHour(begun.Add(time.Duration(n) * time.Hour)) }
	err := usage.RecordServed(t.Context(), f.store, map[usage.ServedPreset]domain.Served{
		{WorkspaceID: p.WorkspaceID, Slug: "p"}: {4: hour(20), 5: hour(10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	prune := func(keep, since int, want string, left ...int) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			if got := f.prune(t, domain.Pruning{Keep: keep, UnusedSince: begun.Add(time.Duration(since) * time.Hour), DryRun: dry}); got["default/p"] != want {
				t.Errorf("keep %d, since %d, dry run %v: got %v, want %q", keep, since, dry, got, want)
			}
		}
		if got := f.left(t, "p"); !slices.Equal(got, left) {
			t.Errorf("versions %v are left, want %v", got, left)
		}
	}
	prune(1, 4, "", 1, 2, 3, 4, 5, 6, 7, 8) // the labels hold those that are old enough
	prune(2, 10, "6", 1, 2, 3, 4, 5, 7, 8)  // 5 was served in that hour
	prune(1, 11, "5,7", 1, 2, 3, 4, 8)      // and is unused once it has passed
	prune(1, 20, "", 1, 2, 3, 4, 8)         // 4 was served later
	prune(9, 1000, "", 1, 2, 3, 4, 8)       // keep holds them all
	f.label(t, "canary", domain.Target{Version: 3})
	prune(1, 21, "1,4", 2, 3, 8)
}

// Nobody finds a version that was removed, and everybody the others.
func TestPrunedIsNotFound(t *testing.T) {
	f := labelled(t, 9)
	f.label(t, "moved", domain.Target{Version: 1})
	f.label(t, "moved", domain.Target{Version: 3})
	f.put(t, "q", "{}", nil) // before p in the list
	page := domain.Page{Limit: 50}
	preset := func() (all string) {
		t.Helper()
		found, err1 := f.Preset(t.Context(), user, "", "p")
		label, err2 := f.Label(t.Context(), user, "", "p", "moved", page)
		list, err3 := f.Presets(t.Context(), user, "", domain.PresetQuery{}, page)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(string(found.JSON), found.Tag, string(label.JSON), label.Tag, string(list.JSON), list.Tag)
	}
	before := preset()
	f.now = f.now.Add(time.Hour)
	f.prune(t, domain.Pruning{Keep: 4})
	if after := preset(); after != before {
		t.Errorf("what clients see of the preset changed: got\n%s, want\n%s", after, before)
	}
	left := []int{3, 6, 7, 8, 9}
	for n := 0; n <= 10; n++ {
		_, err1 := f.PresetVersion(t.Context(), user, "", "p", n)
		_, err2 := f.Diff(t.Context(), user, "", "p", "9", strconv.Itoa(n))
		_, err3 := f.Diff(t.Context(), user, "", "p", strconv.Itoa(n), "9")
		_, err4 := f.PutLabel(t.Context(), ask, "", "p", "other", domain.Target{Version: n}, nil)
		_, err5 := f.PutLabel(t.Context(), ask, "", "p", "other", split(share(9, 1), share(n, 1)), nil)
		_, err6 := f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: n})
		for i, err := range []error{err1, err2, err3, err4, err5, err6} {
			switch {
			case slices.Contains(left, n) && i == 4 && n == 9: // twice in one split
			case slices.Contains(left, n) && err != nil:
				t.Errorf("version %d, %d: got error %v", n, i, err)
			case !slices.Contains(left, n) && (i != 1 && i != 2 || n > 0):
				wantKind(t, err, domain.NotFound, "Preset version not found")
			}
		}
	}
	for _, offset := range []int{0, 1, 2, 3, 4, 5, 6, math.MaxInt - 1, math.MaxInt} {
		for limit := 1; limit < len(left)+2; limit++ {
			list, err := f.PresetVersions(t.Context(), user, "", "p", domain.Page{Offset: offset, Limit: limit})
			var versions []struct{ Version int }
			if err == nil {
				err = json.Unmarshal(list.JSON, &versions)
			}
			want := left[min(offset, len(left)):]
			want = want[:min(limit, len(want))]
			var got []int
			for _, v := range versions {
				got = append(got, v.Version)
			}
			if err != nil || !slices.Equal(got, want) || list.Total != len(left) {
				t.Errorf("%d from %d on: got %v of %d, %v, want %v of %d", limit, offset, got, list.Total, err, want, len(left))
			}
		}
	}
}

// Presets of all workspaces are pruned, whatever their status.
func TestPrunedWorkspaces(t *testing.T) {
	f := newFixture(t)
	for i := range 2 * domain.MaxPage { // more than a page of them
		f.workspace(t, fmt.Sprint("empty-", i))
	}
	team := f.workspace(t, "team")
	in := func(workspace, slug string, n int) {
		t.Helper()
		for range n {
			f.must(f.ReleasePresetVersion(t.Context(), ask, workspace, slug, nothing, domain.Release{}))
		}
	}
	in("default", "few", 2)
	in("default", "many", 5)
	in("team", "active", 4)
	in("team", "archived", 4)
	in("team", "disabled", 4)
	disabled := domain.PresetDisabled
	_, err1 := f.UpdatePreset(t.Context(), ask, "team", "disabled", domain.PresetPatch{Status: &disabled})
	_, err2 := f.ArchivePreset(t.Context(), ask, "team", "archived")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	inTeam := map[string]string{"team/active": "1-2", "team/archived": "1-2", "team/disabled": "1-2"}
	for _, ref := range []string{"team", team.ID, strings.ToUpper(team.ID)} {
		if got := f.prune(t, domain.Pruning{Keep: 2, Workspace: ref, DryRun: true}); !reflect.DeepEqual(got, inTeam) {
			t.Errorf("in %s: got %v, want %v", ref, got, inTeam)
		}
	}
	all := map[string]string{"default/many": "1-3", "team/active": "1-2", "team/archived": "1-2", "team/disabled": "1-2"}
	if got := f.prune(t, domain.Pruning{Keep: 2, DryRun: true}); !reflect.DeepEqual(got, all) {
		t.Errorf("got %v, want %v", got, all)
	}
	if got := f.prune(t, domain.Pruning{Keep: 2, Workspace: "default"}); !reflect.DeepEqual(got, map[string]string{"default/many": "1-3"}) {
		t.Errorf("in default: got %v", got)
	}
	if got := f.prune(t, domain.Pruning{Keep: 2}); !reflect.DeepEqual(got, inTeam) {
		t.Errorf("got %v, want %v", got, inTeam)
	}
	for name, status := range map[string]domain.PresetStatus{"archived": domain.PresetArchived, "disabled": domain.PresetDisabled} {
		if p := f.stored(t, "team", name); p.Status != status || p.State().Has(2) || !p.State().Has(3) {
			t.Errorf("got %+v, want one that is %s, without version 2", p, status)
		}
	}
	trail := f.records(t)
	for _, tc := range []struct {
		who  domain.Principal
		on   domain.Pruning
		kind domain.Kind
		says string
	}{
		{user, domain.Pruning{Keep: 1}, domain.Forbidden, ""},
		{admin, domain.Pruning{}, domain.Invalid, "keep: must be at least 1"},
		{admin, domain.Pruning{Keep: -1}, domain.Invalid, "keep: must be at least 1"},
		{admin, domain.Pruning{Keep: 1, Workspace: "nowhere"}, domain.NotFound, "Workspace not found"},
	} {
		pruned, err := f.PruneVersions(t.Context(), domain.By(tc.who), tc.on)
		wantKind(t, err, tc.kind, tc.says)
		if pruned != nil || f.records(t) != trail {
			t.Errorf("%+v: %+v were pruned", tc.on, pruned)
		}
	}
}

// A version that is added makes others go, in the same change and with one record.
func TestKeepVersions(t *testing.T) {
	f := labelled(t, 4)
	f.KeepVersions = 3
	f.label(t, "live", domain.Target{Version: 1})
	add := func(pruned string, left ...int) {
		t.Helper()
		trail := f.records(t)
		out := f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}))
		stored := f.stored(t, "default", "p")
		if out.Records[0].Object.Pruned != pruned || out.Records[0].Operation != "preset.create_version" || f.records(t) != trail+1 {
			t.Errorf("got record %+v, want one of a version that makes %q go", out.Records, pruned)
		}
		if got := f.left(t, "p"); !slices.Equal(got, left) {
			t.Errorf("versions %v are left, want %v", got, left)
		}
		if !reflect.DeepEqual(out.Preset, stored) || stored.LatestVersion != out.Number || stored.UpdatedAt != out.Version.CreatedAt {
			t.Errorf("got %+v, want what is stored, %+v", out.Preset, stored)
		}
		if found, err := f.Preset(t.Context(), user, "", "p"); err != nil || string(found.JSON) != string(out.JSON) {
			t.Errorf("got %s, want %s (error %v)", out.JSON, found.JSON, err)
		}
	}
	add("2", 1, 3, 4, 5)
	add("3", 1, 4, 5, 6)
	f.label(t, "live", domain.Target{Version: 5})
	add("1,4", 5, 6, 7)
	f.KeepVersions = 0
	add("", 5, 6, 7, 8)
	f.KeepVersions = 1
	add("6-8", 5, 9)
	f.must(f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: 5}))
	add("9", 5, 10)
	add("10", 5, 11)

	// A failed change removes nothing, and a repeated request removes nothing more.
	before := f.stored(t, "default", "p")
	failing := domain.NewService(broken{f.store, "audit"})
	failing.KeepVersions = 1
	if _, err := failing.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}); !errors.Is(err, errBroken) {
		t.Errorf("got error %v, want %v", err, errBroken)
	}
	if after := f.stored(t, "default", "p"); !reflect.DeepEqual(after, before) || !slices.Equal(f.left(t, "p"), []int{5, 11}) {
		t.Errorf("got %+v, want %+v still", after, before)
	}
	once := idempotent("a", "x")
	first, err1 := f.ReleasePresetVersion(t.Context(), once, "", "p", nothing, domain.Release{})
	f.put(t, "p", "{}", nil) // and version 12 is gone
	again, err2 := f.ReleasePresetVersion(t.Context(), once, "", "p", nothing, domain.Release{})
	if err := errors.Join(err1, err2); err != nil || string(first.JSON) != string(again.JSON) || first.Number != 12 || !slices.Equal(f.left(t, "p"), []int{5, 13}) {
		t.Errorf("got %s and then %s, %v; versions %v are left", first.JSON, again.JSON, err, f.left(t, "p"))
	}
}

// watching calls a function before and after versions are pruned.
type watching struct {
	domain.Store
	before func(numbers []int) error
	after  func()
}

type watchingTx struct {
	domain.Tx
	w      watching
	pruned *bool
}

func (w watching) Update(ctx context.Context, fn func(domain.Tx) error) error {
	pruned := false
	err := w.Store.Update(ctx, func(tx domain.Tx) error { return fn(watchingTx{tx, w, &pruned}) })
	if pruned && w.after != nil {
		w.after()
	}
	return err
}

func (tx watchingTx) PruneVersions(p domain.Preset, numbers []int) error {
	*tx.pruned = true
	if err := tx.w.before(numbers); err != nil {
		return err
	}
	return tx.Tx.PruneVersions(p, numbers)
}

// many stores a preset "p" with so many versions that they go in parts.
func many(t *testing.T, versions int) *fixture {
	t.Helper()
	f := labelled(t, 1)
	for stored := 1; stored < versions; {
		upTo := min(versions, stored+500)
		err := f.store.Update(t.Context(), func(tx domain.Tx) error {
			p, err := tx.Preset(f.stored(t, "default", "p").WorkspaceID, "p")
			for n := stored + 1; n <= upTo && err == nil; n++ {
				p.LatestVersion, p.DesignatedVersion = n, n
				err = tx.PutPresetVersion(p, domain.PresetVersion{PresetID: p.ID, Version: n, Dialect: domain.Responses, Config: json.RawMessage("{}")})
			}
			if err != nil {
				return err
			}
			return tx.PutPreset(p)
		})
		if err != nil {
			t.Fatal(err)
		}
		stored = upTo
	}
	return f
}

// Many versions are removed in parts. Each part decides anew what to remove.
func TestPrunedInParts(t *testing.T) {
	f := many(t, 2600)
	f.label(t, "live", domain.Target{Version: 500})
	var parts []int
	store := watching{Store: f, before: func(numbers []int) error { parts = append(parts, len(numbers)); return nil }}
	store.after = func() {
		if len(parts) == 1 { // version 500 is not needed any more, and 2000 is
			f.label(t, "live", domain.Target{Version: 2000})
		}
	}
	trail := f.records(t)
	pruned, err := domain.NewService(store).PruneVersions(t.Context(), ask, domain.Pruning{Keep: 10})
	if err != nil || len(pruned) != 1 || pruned[0].Versions != "1-1999,2001-2590" || pruned[0].Count != 2589 {
		t.Errorf("got %+v, %v", pruned, err)
	}
	if !slices.Equal(parts, []int{1000, 1000, 589}) {
		t.Errorf("they went in parts of %v", parts)
	}
	var got []string
	for _, r := range f.trail(t)[trail:] {
		got = append(got, r.Operation+" "+r.Object.Pruned)
	}
	if want := []string{"preset.prune 1-499,501-1001", "label.move ", "preset.prune 500,1002-1999,2001", "preset.prune 2002-2590"}; !slices.Equal(got, want) {
		t.Errorf("got records %q, want %q", got, want)
	}
	if got := f.left(t, "p"); !slices.Equal(got, append([]int{2000}, 2591, 2592, 2593, 2594, 2595, 2596, 2597, 2598, 2599, 2600)) {
		t.Errorf("versions %v are left", got)
	}

	// Versions that are added later make as many go at once, too.
	f = many(t, 2600)
	f.KeepVersions = 2
	for _, want := range []string{"1-1000", "1001-2000", "2001-2601", "2602"} {
		out, err := f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{})
		if err != nil || out.Records[0].Object.Pruned != want {
			t.Errorf("got %+v, %v, want that %s go", out.Records, err, want)
		}
	}
}

// The versions that were removed before an error are reported.
func TestPruningEndsInTheMiddle(t *testing.T) {
	prune := func(t *testing.T, f *fixture, fails int) ([]domain.Pruned, error) {
		t.Helper()
		part := 0
		store := watching{Store: f, before: func([]int) error {
			if part++; part == fails {
				return errBroken
			}
			return nil
		}}
		return domain.NewService(store).PruneVersions(t.Context(), ask, domain.Pruning{Keep: 1})
	}
	f := newFixture(t)
	for _, slug := range []string{"a", "b", "c"} {
		for range 3 {
			f.put(t, slug, "{}", nil)
		}
	}
	pruned, err := prune(t, f, 2)
	if !errors.Is(err, errBroken) || len(pruned) != 1 || pruned[0].Slug != "a" || pruned[0].Versions != "1-2" {
		t.Errorf("got %+v, %v, want a preset and an error", pruned, err)
	}
	if got := f.left(t, "b"); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("versions %v are left of the preset that failed", got)
	}
	f = many(t, 2200)
	pruned, err = prune(t, f, 2)
	if !errors.Is(err, errBroken) || len(pruned) != 1 || pruned[0].Versions != "1-1000" || len(f.left(t, "p")) != 1200 {
		t.Errorf("got %+v, %v, want the first part and an error", pruned, err)
	}
	// The caller may leave meanwhile.
	ctx, leave := context.WithCancel(t.Context())
	store := watching{Store: f, before: func([]int) error { return nil }, after: leave}
	pruned, err = domain.NewService(store).PruneVersions(ctx, ask, domain.Pruning{Keep: 1})
	if !errors.Is(err, context.Canceled) || len(pruned) != 1 || pruned[0].Versions != "1001-2000" {
		t.Errorf("got %+v, %v, want the next part and an error", pruned, err)
	}
}

// An object that is deleted before its turn causes no error.
func TestPrunedAfterItsWorkspace(t *testing.T) {
	f := newFixture(t)
	for _, slug := range []string{"one", "two"} {
		f.workspace(t, slug)
		for _, preset := range []string{"p", "q"} {
			for range 2 {
				f.must(f.ReleasePresetVersion(t.Context(), ask, slug, preset, nothing, domain.Release{}))
			}
		}
	}
	store := watching{Store: f, before: func([]int) error { return nil }}
	store.after = func() {
		for _, slug := range []string{"one", "two"} { // those of the one are known, and those of the other are not
			_, err := f.DeleteWorkspace(t.Context(), ask, slug, domain.WorkspaceDeletion{})
			if err != nil && domain.KindOf(err) != domain.NotFound {
				t.Error(err)
			}
		}
	}
	pruned, err := domain.NewService(store).PruneVersions(t.Context(), ask, domain.Pruning{Keep: 1})
	if err != nil || len(pruned) != 1 || pruned[0].WorkspaceSlug != "one" || pruned[0].Slug != "p" {
		t.Errorf("got %+v, %v, want one preset", pruned, err)
	}
}
