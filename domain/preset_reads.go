package domain

import (
	"context"
	"errors"
)

// errNoSuchVersion is the answer to a version that the preset does not have. The
// place is where the request names it.
func errNoSuchVersion(place string) error {
	return &Error{Kind: NotFound, Message: "Preset version not found", Issues: []Issue{{place, "the preset has no such version"}}}
}

// versionOf returns a version of p, NotFound for a number that it does not have.
func versionOf(r Reader, p Preset, n int, place string) (PresetVersion, error) {
	v, err := r.PresetVersion(p, n)
	if errors.Is(err, ErrNotFound) {
		return v, errNoSuchVersion(place)
	}
	return v, err
}

// Found is an object as clients see it.
type Found struct {
	JSON []byte
	// WorkspaceID and Number are the workspace that it is in and the version
	// concerned, 0 for none.
	WorkspaceID string
	Number      int
}

// viewPreset runs fn with a preset that clients can see, and a snapshot that it
// is in.
func (s *Service) viewPreset(ctx context.Context, who Principal, workspace, slug string, fn func(r Reader, p Preset) error) error {
	return s.store.View(ctx, func(r Reader) error {
		p, err := visiblePreset(r, who, workspace, slug)
		if err != nil {
			return err
		}
		return fn(r, p)
	})
}

// Preset returns a preset and its designated version. workspace is the id or
// slug of the workspace to look in, empty for the key's own. An archived preset
// is NotFound, here and in all methods that read.
func (s *Service) Preset(ctx context.Context, who Principal, workspace, slug string) (found Found, err error) {
	err = s.viewPreset(ctx, who, workspace, slug, func(r Reader, p Preset) error {
		text, err := withDesignated(r, p)
		found = Found{JSON: text, WorkspaceID: p.WorkspaceID, Number: p.DesignatedVersion}
		return err
	})
	return found, err
}

// Presets returns a page of the presets of a workspace, the one that changed
// last first.
func (s *Service) Presets(ctx context.Context, who Principal, workspace string, page Page) (list Listed, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		w, err := workspaceOf(r, who, workspace)
		if err != nil {
			return err
		}
		presets, total, err := r.PresetPage(w.ID, page)
		if err != nil {
			return err
		}
		text, err := jsonArray(presets, Preset.json)
		list = Listed{JSON: text, Total: total}
		return err
	})
	return list, err
}

// PresetVersion returns version n of a preset.
func (s *Service) PresetVersion(ctx context.Context, who Principal, workspace, slug string, n int) (found Found, err error) {
	err = s.viewPreset(ctx, who, workspace, slug, func(r Reader, p Preset) error {
		v, err := versionOf(r, p, n, "version")
		if err != nil {
			return err
		}
		text, err := v.json()
		found = Found{JSON: text, WorkspaceID: p.WorkspaceID, Number: n}
		return err
	})
	return found, err
}

// PresetVersions returns a page of the versions of a preset, the first version
// first.
func (s *Service) PresetVersions(ctx context.Context, who Principal, workspace, slug string, page Page) (list Listed, err error) {
	err = s.viewPreset(ctx, who, workspace, slug, func(r Reader, p Preset) error {
		var versions []PresetVersion
		for n := page.Offset; n < p.LatestVersion && len(versions) < page.Limit; n++ {
			v, err := r.PresetVersion(p, n+1)
			if err != nil {
				return err
			}
			versions = append(versions, v)
		}
		text, err := jsonArray(versions, PresetVersion.json)
		list = Listed{JSON: text, Total: p.LatestVersion}
		return err
	})
	return list, err
}
