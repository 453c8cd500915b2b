package domain

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// AllPresets is the filter of PresetsByStatus that every status matches.
const AllPresets PresetStatus = "all"

// PresetsByStatus returns a page of the presets of a workspace that have a status, or
// of all of them with AllPresets. Archived ones are found this way alone. The one that
// changed last comes first; of those that changed in the same millisecond the first by
// slug.
//
// Lists are kept in the order of Presets, not by status, so this reads every preset of
// the workspace: about 7 ms for 1,000 of them in Badger. No answer is kept in memory.
func (s *Service) PresetsByStatus(ctx context.Context, who Principal, workspace string, status PresetStatus, page Page) (list Listed, err error) {
	id, err := s.home(ctx, who, workspace)
	if err != nil {
		return list, err
	}
	type match struct {
		slug    string
		updated time.Time
	}
	err = s.store.View(ctx, func(r Reader) error {
		if err := stillThere(r, id); err != nil {
			return err
		}
		var matches []match
		for p, err := range r.Presets(id) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			if status == AllPresets || p.Status == status {
				matches = append(matches, match{p.Slug, p.UpdatedAt})
			}
		}
		slices.SortFunc(matches, func(a, b match) int {
			return cmp.Or(b.updated.Compare(a.updated), strings.Compare(a.slug, b.slug))
		})
		first := min(page.Offset, len(matches))
		var presets [][]byte
		for _, m := range matches[first:][:min(page.Limit, len(matches)-first)] {
			_, text, err := r.PresetJSON(id, m.slug)
			if err != nil {
				return err
			}
			presets = append(presets, text)
		}
		list = listed(jsonArray(presets), len(matches))
		return nil
	})
	return list, err
}

// EachActivePreset calls fn for every active preset of the workspace that who
// acts in, by slug in byte order, and ends with the first error, its own or
// fn's. A workspace that does not exist is NotFound.
//
// model returns the model that the preset's designated version names, "" when
// it names none. It reads that version only when called, and may be called only
// until fn returns. All of it comes from one snapshot, of which no more than one
// preset is in memory at a time; the snapshot stays open until the last call of
// fn has returned, so fn does not wait for anybody.
func (s *Service) EachActivePreset(ctx context.Context, who Principal, fn func(p Preset, model func() (string, error)) error) error {
	return s.store.View(ctx, func(r Reader) error {
		id, err := workspaceOf(r, who, "")
		if err != nil {
			return err
		}
		for p, err := range r.Presets(id) {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err // nobody waits for the rest, which may be long
			}
			if p.Status != PresetActive {
				continue
			}
			model := func() (string, error) { return designatedModel(r, p) }
			if err := fn(p, model); err != nil {
				return err
			}
		}
		return nil
	})
}

// ActivePreset calls fn as EachActivePreset does, for the one preset of a slug, and
// returns fn's error or its own. A preset that does not exist or is not active is
// NotFound, and named; so is a workspace that does not exist.
func (s *Service) ActivePreset(ctx context.Context, who Principal, slug string, fn func(p Preset, model func() (string, error)) error) error {
	return s.store.View(ctx, func(r Reader) error {
		id, err := workspaceOf(r, who, "")
		if err != nil {
			return err
		}
		p, err := referredPreset(r, id, reference{slug: slug})
		if err != nil {
			return err
		}
		return fn(p, func() (string, error) { return designatedModel(r, p) })
	})
}

// designatedModel returns the model that p's designated version names, "" when
// it names none.
func designatedModel(r Reader, p Preset) (string, error) {
	v, err := r.PresetVersion(p.State(), p.DesignatedVersion)
	if err != nil {
		return "", err
	}
	for m, err := range scanObject(v.Config) {
		if err != nil {
			return "", err
		}
		if m.name == "model" { // a setting of this name in every dialect
			model, _ := textOf(m.value)
			return model, nil
		}
	}
	return "", nil
}
