package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// collect returns the values that a sequence yields before its error.
func collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	var got []T
	for one, err := range all {
		if err != nil {
			return got, err
		}
		got = append(got, one)
	}
	return got, nil
}

// bySlug returns presets in the order of a list by slug.
func bySlug(presets ...domain.Preset) []domain.Preset {
	return slices.SortedFunc(slices.Values(presets), func(a, b domain.Preset) int { return cmp.Compare(a.Slug, b.Slug) })
}

// presetsAre compares the presets that r lists with want.
func presetsAre(t *testing.T, r domain.Reader, workspaceID string, want ...domain.Preset) {
	t.Helper()
	got, err := collect(r.Presets(workspaceID))
	if err != nil {
		t.Errorf("Presets: %v", err)
	}
	if !slices.Equal(slugs(got), slugs(want)) {
		t.Errorf("Presets: got %q, want %q", slugs(got), slugs(want))
		return
	}
	same(t, got, want)
}

func slugs(presets []domain.Preset) []string {
	all := make([]string, len(presets))
	for i, p := range presets {
		all[i] = p.Slug
	}
	return all
}

// inBoth runs check with a Reader of a view and with one of an update.
func (s *suite) inBoth(t *testing.T, check func(r domain.Reader) error) {
	t.Helper()
	s.mustView(t, check)
	s.mustUpdate(t, func(tx domain.Tx) error { return check(tx) })
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
			p.Status = []domain.PresetStatus{domain.PresetActive, domain.PresetDisabled, domain.PresetArchived}[n%3]
			p.Name = fmt.Sprint(awkward, i)
			want[i] = append(want[i], p)
			s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutPreset(p) })
		}
		want[i] = bySlug(want[i]...)
	}
	// Other records are not listed as presets.
	p := want[1][0]
	p.LatestVersion = 1
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutWorkspace(newWorkspace("w")), tx.PutPresetVersion(p, newVersion(p, 1, "{}")), tx.PutKey(newKey(1)))
	})
	check := func(r domain.Reader) error {
		for i, id := range ids {
			presetsAre(t, r, id, want[i]...)
		}
		for _, id := range append(odd(), newID()) { // unknown, or not an id
			presetsAre(t, r, id)
		}
		return nil
	}
	s.inBoth(t, check)
	s.reopen(t)
	s.inBoth(t, check)
}

func presetsWithOwnWrites(t *testing.T, s *suite) {
	w, neighbour := newID(), newID()
	b, d, f, other := newPreset(w, "b"), newPreset(w, "d"), newPreset(w, "f"), newPreset(neighbour, "x")
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutPreset(b), tx.PutPreset(d), tx.PutPreset(f), tx.PutPreset(other))
	})
	for _, fails := range []bool{true, false} {
		first, between, last, only := newPreset(w, "a"), newPreset(w, "e"), newPreset(w, "g"), newPreset(newID(), "only")
		replaced, endReplaced, otherReplaced := d, f, other
		replaced.Name, endReplaced.Status, otherReplaced.Name = "replaced", "disabled", "replaced"
		err := s.update(func(tx domain.Tx) error {
			presetsAre(t, tx, w, b, d, f)
			for _, p := range []domain.Preset{last, replaced, only, first, otherReplaced, between, endReplaced} {
				if err := tx.PutPreset(p); err != nil {
					return err
				}
			}
			presetsAre(t, tx, w, first, b, replaced, between, endReplaced, last)
			presetsAre(t, tx, neighbour, otherReplaced)
			presetsAre(t, tx, only.WorkspaceID, only)
			if fails {
				return errDeliberate
			}
			return nil
		})
		want, wantOther := []domain.Preset{b, d, f}, other
		if !fails {
			want, wantOther = []domain.Preset{first, b, replaced, between, endReplaced, last}, otherReplaced
		}
		if fails != errors.Is(err, errDeliberate) || !fails && err != nil {
			t.Errorf("got error %v", err)
		}
		s.inBoth(t, func(r domain.Reader) error {
			presetsAre(t, r, w, want...)
			presetsAre(t, r, neighbour, wantOther)
			return nil
		})
	}
}

// manyPresetsListed lists more presets than an engine fetches at once.
func manyPresetsListed(t *testing.T, s *suite) {
	const n = 1000
	w, other := newID(), newPreset(newID(), "other")
	name := func(i int) string { return fmt.Sprintf("p-%04d", i) }
	var want []domain.Preset
	for i := 0; i < n; i += 100 {
		s.mustUpdate(t, func(tx domain.Tx) error {
			want = want[:i]
			for j := i; j < i+100; j++ {
				p := newPreset(w, name(j))
				p.LatestVersion = j
				p.Description = new(strings.Repeat("d", j%500))
				want = append(want, p)
				if err := tx.PutPreset(p); err != nil {
					return err
				}
			}
			return tx.PutPreset(other)
		})
	}
	s.inBoth(t, func(r domain.Reader) error {
		presetsAre(t, r, w, want...)
		return nil
	})

	t.Run("stopped early", func(t *testing.T) {
		s.inBoth(t, func(r domain.Reader) error {
			for _, after := range []int{1, 2, 99, n - 1} {
				var got []domain.Preset
				for p, err := range r.Presets(w) {
					if err != nil {
						return err
					}
					if got = append(got, p); len(got) == after {
						break
					}
				}
				same(t, got, want[:after])
			}
			presetsAre(t, r, w, want...) // earlier iterations do not interfere
			seq := r.Presets(w)
			for range seq {
				break
			}
			if again, err := collect(seq); err != nil || len(again) != n {
				t.Errorf("a sequence once more: got %d presets and error %v, want %d", len(again), err, n)
			}
			return nil
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
		s.inBoth(t, func(r domain.Reader) error {
			var got []domain.Preset
			for p, err := range r.Presets(w) {
				if err != nil {
					return err
				}
				if len(got)%250 == 0 {
					presetsAre(t, r, w, want...)
					presetsAre(t, r, other.WorkspaceID, other)
					_, err1 := r.Keys()
					_, err2 := r.Preset(w, p.Slug)
					if err := errors.Join(err1, err2); err != nil {
						return err
					}
				}
				got = append(got, p)
			}
			same(t, got, want)
			return nil
		})
		errs := together(8, func(int) error {
			return s.View(t.Context(), func(r domain.Reader) error {
				got, err := collect(r.Presets(w))
				if len(got) != n {
					err = errors.Join(err, fmt.Errorf("got %d presets, want %d", len(got), n))
				}
				return err
			})
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})

	t.Run("with own writes", func(t *testing.T) {
		s.mustUpdate(t, func(tx domain.Tx) error {
			mine := slices.Clone(want)
			for i := 0; i < n; i += 37 {
				mine[i].Name = "replaced"
				mine = append(mine, newPreset(w, name(i)+"x"))
				if err := errors.Join(tx.PutPreset(mine[i]), tx.PutPreset(mine[len(mine)-1])); err != nil {
					return err
				}
			}
			presetsAre(t, tx, w, bySlug(mine...)...)
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
		var before []domain.Preset
		s.mustView(t, func(r domain.Reader) (err error) {
			before, err = collect(r.Presets(w))
			return err
		})
		s.mustView(t, func(r domain.Reader) error {
			if _, err := r.Preset(w, name(0)); err != nil { // some engines begin the snapshot with the first read
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
					err := s.update(func(tx domain.Tx) error {
						return errors.Join(tx.PutPreset(changed), tx.PutPreset(newPreset(w, "zz")))
					})
					if err != nil {
						return err
					}
				}
			}
			same(t, got, before)
			return nil
		})
	})
}
