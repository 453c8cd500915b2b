package badger

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// An upgrade does so many records at once, and so many bytes of them, or one more.
const (
	upgradeBatch = 256
	upgradeBytes = maxRecord
)

// upgrade stores every object of a store of format 1 once more, which gives it its
// place, in the order of the times that they bear. Those that have one already,
// from an upgrade that was cut short, come before all others. Nobody else uses the
// store meanwhile.
func (s *Store) upgrade() error {
	err := upgradeKind(s, kindWorkspace,
		func(u unplaced) time.Time { return u.CreatedAt },
		func(t *tx, w domain.Workspace) error { return t.PutWorkspace(w) })
	if err != nil {
		return err
	}
	return upgradeKind(s, kindPreset,
		func(u unplaced) time.Time { return u.UpdatedAt },
		func(t *tx, p domain.Preset) error { return t.PutPreset(p) })
}

// unplaced is what decides on the place of an object.
type unplaced struct {
	placed
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	key  key
	size int
}

func upgradeKind[T any](s *Store, of kind, when func(unplaced) time.Time, put func(*tx, T) error) error {
	var all []unplaced
	err := s.view(context.Background(), func(r *reader) error {
		return r.walk(newKey(of, 0), func(c *cursor) error {
			for ; c.key != nil; c.next() {
				u, err := decodeAt(c, decodeJSON[unplaced])
				if err != nil {
					return err
				}
				if u.Place == 0 {
					u.key, u.size = slices.Clone(c.key), c.size()
					all = append(all, u)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b unplaced) int { return when(a).Compare(when(b)) })
	for len(all) > 0 {
		n, size := 0, 0
		for n < min(len(all), upgradeBatch) && size < upgradeBytes {
			size += all[n].size
			n++
		}
		err := s.update(context.Background(), func(t *tx) error {
			for _, u := range all[:n] {
				object, err := load(&t.reader, u.key, decodeJSON[T])
				if err == nil {
					err = put(t, object)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
