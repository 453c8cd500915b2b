package records

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// An upgrade does so many records at once, and so many bytes of them, or one more.
const (
	upgradeBatch = 256
	upgradeBytes = MaxRecord
)

// Upgrade stores every object that has no place once more, which gives it one, in the
// order of the times that they bear. Those that have one already come before all
// others. It adds disabled presets to their list. Versions stay as they are. An upgrade
// that was cut short may be made again. Others that know the new format may change the
// store meanwhile.
func Upgrade(ctx context.Context, e Engine) error {
	err := upgradeKind(ctx, e, KindWorkspace,
		func(payload []byte) (uint64, time.Time, error) {
			stored, err := parseWorkspace(payload)
			if err != nil || stored.place != 0 {
				return stored.place, time.Time{}, err
			}
			w, err := stored.decode()
			return 0, w.CreatedAt, err
		},
		func(t *Tx, payload []byte) error {
			w, err := decodeWorkspace(payload)
			if err != nil {
				return err
			}
			return t.PutWorkspace(w)
		})
	if err != nil {
		return err
	}
	return upgradeKind(ctx, e, KindPreset,
		func(payload []byte) (uint64, time.Time, error) {
			stored, err := parsePreset(payload)
			if err != nil || stored.place != 0 && stored.Status != domain.PresetDisabled {
				return stored.place, time.Time{}, err
			}
			p, err := stored.decode()
			return 0, p.UpdatedAt, err
		},
		func(t *Tx, payload []byte) error {
			stored, err := parsePreset(payload)
			if err != nil {
				return err
			}
			p, err := stored.decode()
			if err != nil {
				return err
			}
			switch {
			case stored.place == 0:
				return t.PutPreset(p)
			case stored.Status != domain.PresetDisabled: // it was changed meanwhile
				return nil
			}
			return t.listDisabled(p.WorkspaceID, stored.place)
		})
}

// listDisabled adds the place of a disabled preset to their list, unless it is there.
func (t *Tx) listDisabled(workspaceID string, place uint64) error {
	l, ok := presetsOf(workspaceID)
	if !ok {
		return t.refuse(KindPreset)
	}
	part := l.part(disabledPart)
	leaf, err := loadOrZero(&t.Reader, part.leafKey(leafOf(place)), decodeLeaf)
	switch {
	case err != nil:
		return t.write(part.leafKey(leafOf(place)), nil, err)
	case !leaf.set(place, true):
		return nil
	}
	return t.movePart(part, 0, place)
}

// unplaced is an object without a place.
type unplaced struct {
	key  Key
	time time.Time // which decides on its place
	size int
}

// upgradeKind does so with the objects of a kind. placed returns the place of one
// or, if it has none, its time; put stores one.
func upgradeKind(ctx context.Context, e Engine, of Kind, placed func([]byte) (uint64, time.Time, error), put func(*Tx, []byte) error) error {
	var all []unplaced
	err := e.View(ctx, func(r *Reader) error {
		return r.walk(newKey(of, 0), func(c *cursor) error {
			for ; c.key != nil; c.next() {
				var place uint64
				when, err := decodeAt(c, func(payload []byte) (when time.Time, err error) {
					place, when, err = placed(payload)
					return when, err
				})
				if err != nil {
					return err
				}
				if place == 0 {
					all = append(all, unplaced{slices.Clone(c.key), when, c.size()})
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b unplaced) int { return a.time.Compare(b.time) })
	for len(all) > 0 {
		n, size := 0, 0
		for n < min(len(all), upgradeBatch) && size < upgradeBytes {
			size += all[n].size
			n++
		}
		err := e.Update(ctx, func(t *Tx) error {
			for _, u := range all[:n] {
				payload, err := load(&t.Reader, u.key, decodeBytes)
				if errors.Is(err, domain.ErrNotFound) { // it was removed meanwhile
					continue
				}
				if err == nil {
					err = put(t, payload)
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

// parsePreset1 parses a preset of format 1, which is JSON.
func parsePreset1(payload []byte) (s storedPreset, err error) {
	stored, err := decodeJSON[struct {
		domain.Preset
		DesignatedVersion int `json:"designated_version"`
		LatestVersion     int `json:"latest_version"`
	}](payload)
	if err != nil {
		return s, err
	}
	stored.Preset.DesignatedVersion, stored.Preset.LatestVersion = stored.DesignatedVersion, stored.LatestVersion
	s.PresetState = stored.Preset.State()
	s.json, err = stored.Preset.JSON()
	return s, err
}

// parseVersion1 parses a version of format 1, which is its JSON without its config,
// and that.
func parseVersion1(payload []byte) (s storedVersion, err error) {
	type version struct {
		domain.PresetVersion
		Dialect domain.Dialect `json:"dialect"`
	}
	stored, config, err := decodeParts[version](payload)
	if err != nil {
		return s, err
	}
	stored.Config = config
	s.dialect, s.config = stored.Dialect, len(config)
	s.json, err = stored.JSON()
	return s, err
}
