package domain

import (
	"context"
	"encoding/json"
	"errors"
)

// PresetFilter says which presets of a workspace a list has.
type PresetFilter string

// The filters of lists of presets.
const (
	// ListedPresets lets all through that are not archived.
	ListedPresets   PresetFilter = ""
	ActivePresets                = PresetFilter(PresetActive)
	DisabledPresets              = PresetFilter(PresetDisabled)
	ArchivedPresets              = PresetFilter(PresetArchived)
	AllPresets      PresetFilter = "all"
)

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
		id, err := who.Home(r)
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
		id, err := who.Home(r)
		if err != nil {
			return err
		}
		p, err := r.Preset(id, slug)
		if errors.Is(err, ErrNotFound) || err == nil && p.Status != PresetActive {
			err = &Error{Kind: NotFound, Code: PresetNotFound, Message: "Preset not found: " + Preset{Slug: slug}.Reference()}
		}
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
	var config struct {
		Model string `json:"model"` // a setting of this name in every dialect
	}
	return config.Model, json.Unmarshal(v.Config, &config)
}
