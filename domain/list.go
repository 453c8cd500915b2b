package domain

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// Page is a part of a list.
type Page struct {
	// Offset is how many objects come before the page.
	Offset int
	// Limit is the most objects that the page may have.
	Limit int
}

// MaxPage bounds the Limit of a page. DefaultPage is the Limit if the client names none
// (specification of lists in the public interface).
const (
	MaxPage     = 100
	DefaultPage = 50
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

// Accepts reports whether a list of f has presets of a status.
func (f PresetFilter) Accepts(status PresetStatus) bool {
	return f == AllPresets || f == PresetFilter(status) || f == ListedPresets && status != PresetArchived
}

// ActivePreset is an active preset with the model of its designated version. Model is
// empty if that version names none, or if it was not asked for.
type ActivePreset struct {
	Preset
	Model string
}

// ActivePresets returns the active presets of who's workspace that who reaches, ordered by the
// bytes of their slugs. It reads their models if withModels is true. An error ends them. It is
// NotFound if the workspace does not exist.
//
// They come from one snapshot, which is open until the loop ends. So the loop must not
// wait for a client. One preset at a time is in memory.
func (s *Service) ActivePresets(ctx context.Context, who Principal, withModels bool) iter.Seq2[ActivePreset, error] {
	return func(yield func(ActivePreset, error) bool) {
		stopped := false
		err := s.store.View(ctx, func(r Reader) error {
			id, err := who.Home(r)
			if err != nil {
				return err
			}
			for p, err := range r.Presets(id) {
				switch {
				case err != nil:
					return err
				case ctx.Err() != nil:
					return ctx.Err() // the client left, and the list may be long
				case p.Status != PresetActive, !who.ReachesPreset(p.Slug):
					continue
				}
				active, err := activePreset(r, p, withModels)
				if err != nil {
					return err
				}
				if stopped = !yield(active, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(ActivePreset{}, err)
		}
	}
}

// ActivePreset returns the active preset of a slug in who's workspace. It reads its model
// if withModel is true. The error is NotFound, with the preset's name, if there is no such
// preset or workspace.
func (s *Service) ActivePreset(ctx context.Context, who Principal, slug string, withModel bool) (active ActivePreset, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		id, err := who.Home(r)
		if err != nil {
			return err
		}
		p, err := r.Preset(id, slug)
		if errors.Is(err, ErrNotFound) || err == nil && (p.Status != PresetActive || !who.ReachesPreset(slug)) {
			err = &Error{Kind: NotFound, Code: PresetNotFound, Message: "Preset not found: " + Preset{Slug: slug}.Reference()}
		}
		if err != nil {
			return err
		}
		active, err = activePreset(r, p, withModel)
		return err
	})
	return active, err
}

func activePreset(r Reader, p Preset, withModel bool) (ActivePreset, error) {
	active := ActivePreset{Preset: p}
	if !withModel {
		return active, nil
	}
	v, err := r.PresetVersion(p.State(), p.DesignatedVersion)
	if err != nil {
		return active, err
	}
	var config struct {
		Model string `json:"model"` // every dialect has this setting
	}
	err = json.Unmarshal(v.Config, &config)
	active.Model = config.Model
	return active, err
}
