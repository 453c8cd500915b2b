package inference

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
)

// Trial is a version that is not stored, for requests of its dialect. It never changes.
type Trial struct {
	slug     string
	settings *settings
}

// NewTrial returns the trial of what was captured, as a version of the preset of a slug. The preset need not exist.
// An error is Invalid, and names the place in the captured request.
func (r *Resolver) NewTrial(slug string, in domain.Capture) (*Trial, error) {
	v := domain.PresetVersion{Dialect: in.Dialect, Config: in.Config, SystemPrompt: in.SystemPrompt, Template: in.Template}
	s, err := newSettings(v, in.Dialect, r.unknown)
	return &Trial{slug, s}, err
}

// tried is version for a trial, with the policy and the limits of the preset if there is one.
func (r *Resolver) tried(ctx context.Context, who domain.Principal, workspaceID string, t *Trial) (usedVersion, error) {
	use, ref := usedVersion{settings: t.settings}, reference.Ref{Slug: t.slug}
	if !who.ReachesPreset(t.slug) {
		return use, errPresetNotFound(ref, nil)
	}
	key, stamp := cacheKey{kind: presetKind, id: workspaceID, slug: t.slug}, r.store.Stamps().Preset(workspaceID, t.slug)
	kept, ok := r.cache.Get(key, stamp)
	if !ok {
		var p domain.Preset
		err := r.store.View(ctx, func(reader domain.Reader) (err error) {
			p, err = readPreset(reader, workspaceID, ref)
			return err
		})
		switch {
		case errors.Is(err, reference.ErrNoPreset):
			return use, nil
		case err != nil:
			return use, err
		}
		if kept, err = r.keepPreset(key, stamp, p); err != nil {
			return use, err
		}
	}
	use.presetID, use.policy, use.limits = kept.preset.ID, kept.policy, kept.preset.Limits
	return use, nil
}

// keepPreset caches a preset that was read, with its policy.
func (r *Resolver) keepPreset(key cacheKey, stamp domain.Stamp, p domain.Preset) (kept cached, err error) {
	kept.preset = &p
	if kept.policy, err = policy.New(p.Policy); err != nil {
		return kept, fmt.Errorf("policy of preset %s is damaged: %w", p.ID, err)
	}
	r.cache.Put(key, stamp, kept, presetCost(&p)+kept.policy.Cost())
	return kept, nil
}
