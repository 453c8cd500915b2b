package inference

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
)

// minEntryCost is about the memory for a cached object besides its own bytes.
const minEntryCost = 1024

// cacheKey names an object that a Resolver caches. Fields that do not apply are zero.
type cacheKey struct {
	kind    cacheKind
	id      string // of a workspace, or of a version's preset
	slug    string // of a workspace or a preset
	version int
	dialect domain.Dialect
}

type cacheKind byte

const (
	workspaceKind cacheKind = iota
	presetKind
	settingsKind
)

// cached is an object that a Resolver caches. One of the fields is set, or preset and
// policy.
type cached struct {
	workspace *workspaceDefaults
	preset    *domain.Preset // an active one
	policy    *policy.Policy // of the preset, nil for none
	settings  *settings      // of one version for one dialect
}

// workspace returns the defaults of the workspace that who acts in. fromMemory tells that the store was not
// read.
func (r *Resolver) workspace(ctx context.Context, who domain.Principal) (_ *workspaceDefaults, fromMemory bool, err error) {
	id, slug := who.WorkspaceRef()
	key, stamp := cacheKey{kind: workspaceKind, id: id, slug: slug}, r.store.Stamps().Workspace(id+slug)
	if kept, ok := r.cache.Get(key, stamp); ok {
		return kept.workspace, true, nil
	}
	var w domain.Workspace
	err = r.store.View(ctx, func(reader domain.Reader) (err error) {
		id, err := domain.Home(reader, who)
		if err != nil {
			return err
		}
		w, err = reader.Workspace(id)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	defaults := &workspaceDefaults{id: w.ID, textModel: domain.ValueOr(w.DefaultTextModel, ""), imageModel: domain.ValueOr(w.DefaultImageModel, ""), providerSort: domain.ValueOr(w.DefaultProviderSort, "")}
	defaults.limits = domain.WorkspaceLimits{ID: w.ID, Limits: w.Limits, Budgets: w.Budgets}
	cost := minEntryCost + len(defaults.textModel) + len(defaults.imageModel) + len(defaults.providerSort)
	var loggingCost int
	defaults.logging, loggingCost = newLogging(&w)
	cost += loggingCost
	if w.DisabledServerTools != nil {
		defaults.disabledTools = *w.DisabledServerTools
		for _, tool := range defaults.disabledTools {
			cost += len(tool) + 16
		}
	}
	r.cache.Put(key, stamp, cached{workspace: defaults}, cost)
	return defaults, false, nil
}

// WorkspaceID returns the id of the workspace that who acts in. It is cached.
func (r *Resolver) WorkspaceID(ctx context.Context, who domain.Principal) (string, error) {
	defaults, _, err := r.workspace(ctx, who)
	if err != nil {
		return "", err
	}
	return defaults.id, nil
}

// Limits returns what the workspace that who acts in bounds. It is cached, and has another address once the
// workspace has changed.
func (r *Resolver) Limits(ctx context.Context, who domain.Principal) (*domain.WorkspaceLimits, error) {
	defaults, _, err := r.workspace(ctx, who)
	if err != nil {
		return nil, err
	}
	return &defaults.limits, nil
}

// usedVersion is the version that a reference names.
type usedVersion struct {
	presetID string
	number   int
	label    string // by which it was named, or empty
	settings *settings
	policy   *policy.Policy // of the preset, nil for none
	limits   *domain.PresetLimits
	// fromMemory tells that the store was not read.
	fromMemory bool
}

// version returns the version that a reference names, with its settings and the preset's
// policy. It caches the preset and its policy under the preset's stamp. It caches settings
// under the stamp of all versions, which changes of a preset leave alone, so they stay
// prepared.
func (r *Resolver) version(ctx context.Context, who domain.Principal, workspaceID string, ref reference.Ref, id stickyID, dialect domain.Dialect) (use usedVersion, err error) {
	if !who.ReachesPreset(ref.Slug) {
		return use, errPresetNotFound(ref, reference.ErrNoPreset)
	}
	key := cacheKey{kind: presetKind, id: workspaceID, slug: ref.Slug}
	stamps := r.store.Stamps()
	stamp, versions := stamps.Preset(workspaceID, ref.Slug), stamps.Versions()
	if kept, ok := r.cache.Get(key, stamp); ok {
		if use.number, use.label, err = versionOf(ref, kept.preset, id); err != nil {
			return use, err
		}
		use.presetID, use.policy, use.limits = kept.preset.ID, kept.policy, kept.preset.Limits
		if kept, ok := r.cache.Get(settingsKey(kept.preset, use.number, dialect), versions); ok {
			use.settings, use.fromMemory = kept.settings, true
			return use, nil
		}
	}
	return r.load(ctx, key, stamp, versions, ref, id, dialect)
}

// load is version for what is not cached. key and stamps are those of the preset and
// of all versions.
func (r *Resolver) load(ctx context.Context, key cacheKey, stamp, versions domain.Stamp, ref reference.Ref, id stickyID, dialect domain.Dialect) (use usedVersion, err error) {
	var p domain.Preset
	var v domain.PresetVersion
	var kept cached
	err = r.store.View(ctx, func(reader domain.Reader) (err error) {
		if p, err = readPreset(reader, key.id, ref); err != nil {
			return err
		}
		if use.number, use.label, err = versionOf(ref, &p, id); err != nil {
			return err
		}
		// The stamp is read again, because the store may have been restored meanwhile.
		var ok bool
		if kept, ok = r.cache.Get(settingsKey(&p, use.number, dialect), r.store.Stamps().Versions()); !ok {
			v, err = readVersion(reader, p, use.number)
		}
		return err
	})
	if err != nil {
		return use, err
	}
	key.slug = p.Slug // ref.slug is a part of the request's model, which may be long
	keptPreset, err := r.keepPreset(key, stamp, p)
	if err != nil {
		return use, err
	}
	use.presetID, use.limits, use.policy = p.ID, p.Limits, keptPreset.policy
	if use.settings = kept.settings; use.settings != nil {
		return use, nil
	}
	if use.settings, err = newSettings(v, dialect, r.unknown); err != nil {
		return use, fmt.Errorf("version %d of preset %s is damaged: %v", v.Version, v.PresetID, err) //nolint:errorlint // an Invalid tools field of a preset is not the request's
	}
	r.cache.Put(settingsKey(&p, use.number, dialect), versions, cached{settings: use.settings}, use.settings.cost()+len(v.Config)) // the settings are parts of it
	return use, nil
}

func settingsKey(p *domain.Preset, n int, dialect domain.Dialect) cacheKey {
	return cacheKey{kind: settingsKind, id: p.ID, version: n, dialect: dialect}
}

// readPreset reads the active preset that a reference names. The error for one that does
// not exist is reference.ErrNoPreset, too.
func readPreset(reader domain.Reader, workspaceID string, ref reference.Ref) (domain.Preset, error) {
	p, err := reader.Preset(workspaceID, ref.Slug)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return p, errPresetNotFound(ref, reference.ErrNoPreset)
	case err == nil && p.Status != domain.PresetActive:
		return p, errPresetNotFound(ref, nil)
	}
	return p, err
}

// errPresetNotFound is the answer to a reference to no active preset, and to one that the
// caller does not reach.
func errPresetNotFound(ref reference.Ref, cause error) error {
	return &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: "Preset not found: " + ref.String(), Err: cause}
}

// readVersion reads a version of p. If that fails, the workspace may have been deleted
// meanwhile, and with it the version.
func readVersion(reader domain.Reader, p domain.Preset, n int) (domain.PresetVersion, error) {
	v, err := reader.PresetVersion(p.State(), n)
	if err != nil {
		if gone := domain.CheckWorkspace(reader, p.WorkspaceID); domain.KindOf(gone) == domain.NotFound {
			err = gone
		}
	}
	return v, err
}

// presetCost is the memory that p takes, about, in bytes.
func presetCost(p *domain.Preset) int {
	cost := minEntryCost + 8*len(p.Kept.Also)
	for name, label := range p.Labels {
		cost += len(name) + 16*len(label.Split) + 128
	}
	return cost
}

// cost is the memory that s takes, about, in bytes.
func (s *settings) cost() int {
	cost := minEntryCost + 2*s.prompt.Size
	if s.template != nil {
		cost += s.template.Cost()
	}
	for _, field := range s.fields {
		cost += len(field.Name) + len(field.Value) + 96
	}
	for _, t := range s.tools {
		cost += len(t.identity) + 64
	}
	return cost
}
