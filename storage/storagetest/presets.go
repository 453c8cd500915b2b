package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// collect returns the values that a sequence yields before its error.
func collect[T any](all iter.Seq2[T, error]) ([]T, error) { return collectFirst(all, math.MaxInt) }

// collectFirst is collect for at most n values.
func collectFirst[T any](all iter.Seq2[T, error], n int) (got []T, err error) {
	for one, err := range all {
		if err != nil {
			return got, err
		}
		if got = append(got, one); len(got) == n {
			break
		}
	}
	return got, nil
}

// bySlug returns presets in the order of a list by slug.
func bySlug(presets ...domain.Preset) []domain.Preset {
	return slices.SortedFunc(slices.Values(presets), func(a, b domain.Preset) int { return cmp.Compare(a.Slug, b.Slug) })
}

// checkPresets compares the presets that r lists with want.
func checkPresets(t *testing.T, r domain.Reader, workspaceID string, want ...domain.Preset) {
	t.Helper()
	wantValue(t, want)(collect(r.Presets(workspaceID)))
}

// presetsBySlug lists a workspace between two with neighbouring ids.
func presetsBySlug(t *testing.T, s *suite) {
	var ids [3]string
	id := uuid.Must(uuid.NewV7())
	for i := range ids {
		id[15] = byte(0xfe + i) // 0xfe, 0xff, and a carry into the byte before
		if i == 2 {
			id[14]++
		}
		ids[i] = id.String()
	}
	want := make([][]domain.Preset, len(ids))
	for i, id := range ids {
		for n, slug := range []string{
			"b", "a", "ab", "a-b", "a.b", "a~b", "a_b", "A", "Z", "z", "10", "9", "aa", strings.Repeat("a", 128), strings.Repeat("z", 128),
		} {
			p := newPreset(id, slug)
			p.Status = presetFilters[domain.AllPresets][n%3]
			p.Name = fmt.Sprint(awkward, i)
			want[i] = append(want[i], p)
			s.put(t, p)
		}
		want[i] = bySlug(want[i]...)
	}
	// Other records are not listed as presets.
	p := want[1][0]
	p.LatestVersion = 1
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(put[any](tx, newWorkspace("w"), newKey(1)), tx.PutPresetVersion(p, newVersion(p, 1, "{}")))
	})
	s.checkAcrossReopen(t, func(r domain.Reader) {
		for i, id := range ids {
			checkPresets(t, r, id, want[i]...)
		}
		for _, id := range append(invalidNames(), newID()) { // unknown, or not an id
			checkPresets(t, r, id)
		}
	})
}

func presetsWithOwnWrites(t *testing.T, s *suite) {
	w, neighbour := newID(), newID()
	b, d, f, other := newPreset(w, "b"), newPreset(w, "d"), newPreset(w, "f"), newPreset(neighbour, "x")
	s.put(t, b, d, f, other)
	for _, fails := range []bool{true, false} {
		first, between, last, only := newPreset(w, "a"), newPreset(w, "e"), newPreset(w, "g"), newPreset(newID(), "only")
		replaced, endReplaced, otherReplaced := d, f, other
		replaced.Name, endReplaced.Status, otherReplaced.Name = "replaced", "disabled", "replaced"
		s.try(t, fails, func(tx domain.Tx) error {
			checkPresets(t, tx, w, b, d, f)
			err := put(tx, last, replaced, only, first, otherReplaced, between, endReplaced)
			checkPresets(t, tx, w, first, b, replaced, between, endReplaced, last)
			checkPresets(t, tx, neighbour, otherReplaced)
			checkPresets(t, tx, only.WorkspaceID, only)
			return err
		})
		want, wantOther := []domain.Preset{b, d, f}, other
		if !fails {
			want, wantOther = []domain.Preset{first, b, replaced, between, endReplaced, last}, otherReplaced
		}
		s.inBoth(t, func(r domain.Reader) {
			checkPresets(t, r, w, want...)
			checkPresets(t, r, neighbour, wantOther)
		})
	}
}

// manyPresetsListed lists more presets than an engine fetches at once.
func manyPresetsListed(t *testing.T, s *suite) {
	tier.NoRace(t)
	const n = 1000
	w, other := newID(), newPreset(newID(), "other")
	name := func(i int) string { return fmt.Sprintf("p-%04d", i) }
	var want []domain.Preset
	for i := range n {
		p := newPreset(w, name(i))
		p.LatestVersion = i
		p.Description = new(strings.Repeat("d", i%500))
		want = append(want, p)
	}
	for some := range slices.Chunk(want, 100) {
		s.mustUpdate(t, func(tx domain.Tx) error { return cmp.Or(put(tx, some...), tx.PutPreset(other)) })
	}
	s.inBoth(t, func(r domain.Reader) { checkPresets(t, r, w, want...) })

	t.Run("stopped early", func(t *testing.T) {
		s.inBoth(t, func(r domain.Reader) {
			for _, after := range []int{1, 2, 99, n - 1} {
				wantValue(t, want[:after])(collectFirst(r.Presets(w), after))
			}
			checkPresets(t, r, w, want...) // earlier iterations do not interfere
			again := r.Presets(w)
			for range again {
				break
			}
			wantValue(t, want)(collect(again))
		})
		// An abandoned iteration ends with its view.
		var next func() (domain.Preset, error, bool)
		stop := func() {}
		defer func() { stop() }()
		s.mustView(t, func(r domain.Reader) error {
			next, stop = iter.Pull2(r.Presets(w))
			_, err, _ := next()
			return err
		})
		if p, err, ok := next(); !ok || err == nil {
			t.Errorf("after the view: got preset %q and error %v, want an error", p.Slug, err)
		}
	})

	t.Run("several at once", func(t *testing.T) {
		s.inBoth(t, func(r domain.Reader) {
			var got []domain.Preset
			for p, err := range r.Presets(w) {
				if err != nil {
					t.Error(err)
				}
				if len(got)%250 == 0 {
					checkPresets(t, r, w, want...)
					checkPresets(t, r, other.WorkspaceID, other)
					_, err := r.Keys()
					wantValue(t, p)(r.Preset(w, p.Slug))
					if err != nil {
						t.Error(err)
					}
				}
				got = append(got, p)
			}
			checkSame(t, got, want)
		})
		mustConcurrently(t, 8, func(int) error {
			return s.View(t.Context(), func(r domain.Reader) error {
				got, err := collect(r.Presets(w))
				if len(got) != n {
					err = errors.Join(err, fmt.Errorf("got %d presets, want %d", len(got), n))
				}
				return err
			})
		})
	})

	t.Run("with own writes", func(t *testing.T) {
		s.mustUpdate(t, func(tx domain.Tx) error {
			mine := slices.Clone(want)
			for i := 0; i < n; i += 37 {
				mine[i].Name = "replaced"
				mine = append(mine, newPreset(w, name(i)+"x"))
				if err := put(tx, mine[i], mine[len(mine)-1]); err != nil {
					return err
				}
			}
			checkPresets(t, tx, w, bySlug(mine...)...)
			return nil
		})
		// Writes during a listing neither repeat nor hide the objects that existed before.
		s.mustUpdate(t, func(tx domain.Tx) error {
			seen := map[string]int{}
			for p, err := range tx.Presets(w) {
				if err != nil {
					return err
				}
				seen[p.Slug]++
				if len(seen) > domain.MaxChangeObjects {
					continue
				}
				p.Name = "once more"
				if err := tx.PutPreset(p); err != nil {
					return err
				}
			}
			for _, p := range want {
				if seen[p.Slug] != 1 {
					return fmt.Errorf("%s was listed %d times", p.Slug, seen[p.Slug])
				}
			}
			return nil
		})
	})

	t.Run("in a snapshot", func(t *testing.T) {
		s.mustView(t, func(r domain.Reader) error {
			before, err := collect(r.Presets(w))
			if err != nil {
				return err
			}
			var got []domain.Preset
			for p, err := range r.Presets(w) {
				if err != nil {
					return err
				}
				if got = append(got, p); len(got) == 1 {
					changed := want[n-1]
					changed.Name = "changed meanwhile"
					s.put(t, changed, newPreset(w, "zz"))
				}
			}
			checkSame(t, got, before)
			return nil
		})
	})
}
