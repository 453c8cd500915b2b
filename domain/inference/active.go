package inference

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/caddy-presets/caddy-presets/domain"
)

// ActivePreset is an active preset with the model of its designated version. Model is
// empty if that version names none, or if it was not asked for.
type ActivePreset struct {
	domain.Preset
	Model string
}

// ActivePresets returns the active presets of who's workspace that who reaches, ordered by the
// bytes of their slugs. It reads their models if withModels is true. An error ends them. It is
// NotFound if the workspace does not exist.
//
// They come from one snapshot, which is open until the loop ends. So the loop must not
// wait for a client. One preset at a time is in memory.
func (r *Resolver) ActivePresets(ctx context.Context, who domain.Principal, withModels bool) iter.Seq2[ActivePreset, error] {
	return func(yield func(ActivePreset, error) bool) {
		stopped := false
		err := r.store.View(ctx, func(reader domain.Reader) error {
			id, err := who.Home(reader)
			if err != nil {
				return err
			}
			for p, err := range reader.Presets(id) {
				switch {
				case err != nil:
					return err
				case ctx.Err() != nil:
					return ctx.Err() // the client left, and the list may be long
				case p.Status != domain.PresetActive, !who.ReachesPreset(p.Slug):
					continue
				}
				active, err := activePreset(reader, p, withModels)
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
func (r *Resolver) ActivePreset(ctx context.Context, who domain.Principal, slug string, withModel bool) (active ActivePreset, err error) {
	err = r.store.View(ctx, func(reader domain.Reader) error {
		id, err := who.Home(reader)
		if err != nil {
			return err
		}
		p, err := reader.Preset(id, slug)
		if errors.Is(err, domain.ErrNotFound) || err == nil && (p.Status != domain.PresetActive || !who.ReachesPreset(slug)) {
			err = &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: "Preset not found: " + domain.Preset{Slug: slug}.Reference()}
		}
		if err != nil {
			return err
		}
		active, err = activePreset(reader, p, withModel)
		return err
	})
	return active, err
}

func activePreset(reader domain.Reader, p domain.Preset, withModel bool) (ActivePreset, error) {
	active := ActivePreset{Preset: p}
	if !withModel {
		return active, nil
	}
	v, err := reader.PresetVersion(p.State(), p.DesignatedVersion)
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
