package storagetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func checkLabelNames(t *testing.T, r domain.Reader, p domain.Preset, want ...string) {
	t.Helper()
	got, err := collect(r.LabelNames(p))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got labels %q and error %v, want %q", got, err, want)
	}
	for label, err := range r.LabelNames(p) {
		if err != nil || label != want[0] {
			t.Errorf("got first label %q and error %v, want %q", label, err, want[0])
		}
		break
	}
}

// manyListed lists more labels than fit into one page. The update adds to them and reads
// other objects meanwhile.
func manyListed(t *testing.T, s *suite) {
	tier.NoRace(t)
	const many = 5000
	p := newPreset(newID(), "p")
	var labels []string
	for n := range many {
		labels = append(labels, fmt.Sprintf("%05d", n))
	}
	put := func(tx domain.Tx, n int) error {
		return tx.PutLabelChange(p, labels[n], newLabelChange(1))
	}
	for some := range slices.Chunk(rand.Perm(many), 50) {
		s.mustUpdate(t, func(tx domain.Tx) (err error) {
			for _, n := range some {
				if n%100 != 0 {
					err = cmp.Or(err, put(tx, n))
				}
			}
			return err
		})
	}
	s.mustUpdate(t, func(tx domain.Tx) (err error) {
		for n := 0; n < many; n += 100 {
			err = cmp.Or(err, put(tx, n))
		}
		if err != nil {
			return err
		}
		i := 0
		for label, err := range tx.LabelNames(p) {
			if err != nil || label != labels[i] {
				t.Fatalf("label %d: got %q and error %v", i, label, err)
			}
			if n, err := tx.LabelChanges(p, label); n != 1 || err != nil {
				t.Fatalf("label %d: got %d changes and error %v", i, n, err)
			}
			i++
		}
		if i != many {
			t.Errorf("got %d labels, want %d", i, many)
		}
		return nil
	})
}
