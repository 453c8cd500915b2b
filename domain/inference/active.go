package inference

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
)

// ActivePreset is an active preset as a model: its designated version, or that of a label.
type ActivePreset struct {
	domain.Preset
	// Label is empty for the designated version.
	Label string
	// Model is what the version runs. It is empty if the version names none, and if the versions
	// of a split differ in it.
	Model string
}

// Ref is how a request names p.
func (p ActivePreset) Ref() reference.Ref { return reference.Ref{Slug: p.Slug, Pin: p.Label} }

// DisplayName returns the preset's name, else its slug, with the label.
func (p ActivePreset) DisplayName() string {
	name := cmp.Or(p.Name, p.Slug)
	if p.Label != "" {
		name += " (" + p.Label + ")"
	}
	return name
}

// ActivePresets returns the active presets of who's workspace that who reaches, ordered by the
// bytes of their slugs, each followed by its labels if withLabels is true. An error ends them. It is
// NotFound if the workspace does not exist.
//
// They come from one snapshot, which is open until the loop ends. So the loop must not
// wait for a client. One preset at a time is in memory.
func (r *Resolver) ActivePresets(ctx context.Context, who domain.Principal, withLabels bool) iter.Seq2[ActivePreset, error] {
	return func(yield func(ActivePreset, error) bool) {
		stopped := false
		err := r.store.View(ctx, func(reader domain.Reader) error {
			id, err := domain.Home(reader, who)
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
				labels := []string{""}
				if withLabels {
					labels = append(labels, slices.Sorted(maps.Keys(p.Labels))...)
				}
				models := map[int]string{}
				for _, label := range labels {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					active, err := activePreset(reader, p, label, models)
					if err != nil {
						return err
					}
					if stopped = !yield(active, nil); stopped {
						return nil
					}
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(ActivePreset{}, err)
		}
	}
}

// ActivePreset returns the active preset of a slug in who's workspace, by a label unless that is
// empty. The error is NotFound, with the reference, if there is no such preset, label or workspace.
func (r *Resolver) ActivePreset(ctx context.Context, who domain.Principal, ref reference.Ref) (active ActivePreset, err error) {
	err = r.store.View(ctx, func(reader domain.Reader) error {
		id, err := domain.Home(reader, who)
		if err != nil {
			return err
		}
		p, err := reader.Preset(id, ref.Slug)
		_, labelled := p.Labels[ref.Pin]
		if errors.Is(err, domain.ErrNotFound) || err == nil && (p.Status != domain.PresetActive || !who.ReachesPreset(ref.Slug) || ref.Pin != "" && !labelled) {
			err = errPresetNotFound(ref, nil)
		}
		if err != nil {
			return err
		}
		active, err = activePreset(reader, p, ref.Pin, map[int]string{})
		return err
	})
	return active, err
}

// activePreset returns a preset by a label. models has the models of the versions that were read, since
// labels may stand for the same ones.
func activePreset(reader domain.Reader, p domain.Preset, label string, models map[int]string) (ActivePreset, error) {
	active := ActivePreset{Preset: p, Label: label}
	target := domain.Target{Version: p.DesignatedVersion}
	if label != "" {
		target = p.Labels[label]
	}
	versions := target.Split
	if versions == nil {
		versions = []domain.Share{{Version: target.Version}}
	}
	for i, share := range versions {
		model, ok := models[share.Version]
		if !ok {
			v, err := reader.PresetVersion(p.State(), share.Version)
			if err != nil {
				return active, err
			}
			var config struct {
				Model string `json:"model"` // every dialect has this setting
			}
			if err := json.Unmarshal(v.Config, &config); err != nil {
				return active, fmt.Errorf("version %d of preset %s is damaged: %w", share.Version, p.ID, err)
			}
			model = config.Model
			models[share.Version] = model
		}
		if i > 0 && model != active.Model {
			active.Model = ""
			break
		}
		active.Model = model
	}
	return active, nil
}
