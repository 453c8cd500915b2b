package domain

import (
	"context"
	"errors"
	"fmt"
)

var errPresetNotFound = &Error{Kind: NotFound, Code: PresetNotFound, Message: "Preset not found"}

// presetOf returns the preset of a slug in a workspace, which w is the id or
// slug of, whatever its status.
func presetOf(r Reader, who Principal, workspace, slug string) (Preset, error) {
	id, err := workspaceOf(r, who, workspace)
	if err != nil {
		return Preset{}, err
	}
	p, err := r.Preset(id, slug)
	if errors.Is(err, ErrNotFound) {
		return p, errPresetNotFound
	}
	return p, err
}

// errNotActive is the answer to what only an active preset allows. Trying again
// does not help, so its message says what does.
func errNotActive(p Preset) error {
	remedy := "restore it first"
	if p.Status == PresetDisabled {
		remedy = "set its status to active first"
	}
	return &Error{
		Kind: Conflict, Message: fmt.Sprintf("Preset is %s: %s", p.Status, remedy),
		Issues: []Issue{{"slug", fmt.Sprintf("the preset is %s", p.Status)}},
	}
}

// visiblePreset is presetOf for clients: what is archived is gone.
func visiblePreset(r Reader, who Principal, workspace, slug string) (Preset, error) {
	p, err := presetOf(r, who, workspace, slug)
	if err == nil && p.Status == PresetArchived {
		return Preset{}, errPresetNotFound
	}
	return p, err
}

// findPreset returns the preset that a change is about, once its condition was
// found to hold.
func (c *change) findPreset(workspace, slug string) (Preset, error) {
	p, err := visiblePreset(c, c.Who, workspace, slug)
	if err != nil {
		return p, err
	}
	return p, c.checkPreset(p)
}

// findAnyPreset is findPreset for what concerns archived presets, too.
func (c *change) findAnyPreset(workspace, slug string) (Preset, error) {
	p, err := presetOf(c, c.Who, workspace, slug)
	if err != nil {
		return p, err
	}
	return p, c.checkPreset(p)
}

// checkPreset checks the condition of the change against p as clients see it: for
// them an archived one does not exist.
func (c *change) checkPreset(p Preset) error {
	switch {
	case c.Condition.isEmpty():
		return nil
	case p.Status == PresetArchived:
		return c.Condition.Check()
	}
	text, err := c.shown(p)
	if err != nil {
		return err
	}
	return c.Condition.Check(Tag(text))
}

// shown returns p, which is stored, and its designated version as clients see
// them.
func (c *change) shown(p Preset) ([]byte, error) {
	stored, err := showPreset(c, p.WorkspaceID, p.Slug)
	if err != nil {
		return nil, err
	}
	return stored.withDesignated()
}

// putPreset stores what a change made of p, and records it. before is the
// version that was designated.
func (c *change) putPreset(operation string, p *Preset, before int) error {
	p.UpdatedAt = c.now
	if err := c.PutPreset(*p); err != nil {
		return err
	}
	return c.record(operation, p.audited(), before, p.DesignatedVersion)
}

// showPreset makes p the answer.
func (c *change) showPreset(p Preset) error {
	v, err := c.PresetVersion(p.State(), p.DesignatedVersion)
	if err != nil {
		return err
	}
	return c.showVersion(p, v)
}

// showVersion makes p, which is stored, the answer. Its designated version is v.
func (c *change) showVersion(p Preset, v PresetVersion) (err error) {
	c.out.Preset, c.out.Version, c.out.WorkspaceID, c.out.Number = p, v, p.WorkspaceID, v.Version
	c.out.JSON, err = c.shown(p)
	return err
}

func (p Preset) audited() AuditObject {
	return AuditObject{Kind: "preset", ID: p.ID, WorkspaceID: p.WorkspaceID, Slug: p.Slug}
}

// CreatePresetVersion stores captured settings as a new version of the preset
// that slug names, designates it and returns both, as one durable change. The
// preset is created when there is none; a known one keeps its id and name.
//
// workspace is the id or slug of the workspace to act in, empty for the key's
// own (NotFound when there is none). A preset that is not active is a
// Conflict: its slug stays taken.
//
// Versions that KeepVersions leaves no room for go in the same change, see
// PruneVersions; where they are more than MaxChangeRemoved, the rest goes with the next.
func (s *Service) CreatePresetVersion(ctx context.Context, w Write, workspace, slug string, in Capture) (Outcome, error) {
	if err := CheckPresetSlug(slug); err != nil {
		return Outcome{}, err
	}
	presetID, versionID := s.newID(), s.newID()
	return s.change(ctx, w, func(c *change) error {
		home, err := workspaceOf(c, c.Who, workspace)
		if err != nil {
			return err
		}
		p, err := c.Preset(home, slug)
		switch {
		case errors.Is(err, ErrNotFound):
			p = Preset{
				ID: presetID, Name: slug, Slug: slug, Status: PresetActive,
				CreatorUserID: c.Who.UserID, WorkspaceID: home, CreatedAt: c.now,
			}
			err = c.Condition.Check()
		case err != nil:
		case p.Status != PresetActive:
			err = errNotActive(p)
		default:
			err = c.checkPreset(p)
		}
		if err != nil {
			return err
		}
		before := p.DesignatedVersion
		p.LatestVersion++
		v := PresetVersion{
			ID: versionID, PresetID: p.ID, Version: p.LatestVersion,
			Dialect: in.Dialect, Config: in.Config, SystemPrompt: in.SystemPrompt,
			CreatorID: c.Who.UserID, CreatedAt: c.now, UpdatedAt: c.now,
		}
		if err := c.PutPresetVersion(p, v); err != nil {
			return err
		}
		p.DesignatedVersion, p.DesignatedVersionID, p.UpdatedAt = v.Version, v.ID, c.now
		if err := c.PutPreset(p); err != nil {
			return err
		}
		pruned, err := c.prune(&p, s.KeepVersions)
		if err != nil {
			return err
		}
		object := p.audited()
		object.Pruned = formatRanges(pruned)
		if err := c.record("preset.create_version", object, before, v.Version); err != nil {
			return err
		}
		return c.showVersion(p, v)
	})
}

// Designation says which version of a preset is to serve requests: that of a
// number, or the one that a label stands for now. One of the two is set.
type Designation struct {
	Version int    `json:"version"`
	Label   string `json:"label"`
}

// DesignateVersion makes requests that name the preset get another of its
// versions. A version or label that the preset does not have is NotFound, a
// label with a split Invalid. Nothing changes where it is designated already.
func (s *Service) DesignateVersion(ctx context.Context, w Write, workspace, slug string, to Designation) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := c.findPreset(workspace, slug)
		if err != nil {
			return err
		}
		n := to.Version
		if to.Label != "" {
			if n, err = p.versionOfLabel(to.Label, "/label"); err != nil {
				return err
			}
		}
		if n == p.DesignatedVersion {
			return c.showPreset(p)
		}
		v, err := versionOf(c, p, n, "/version")
		if err != nil {
			return err
		}
		before := p.DesignatedVersion
		p.DesignatedVersion, p.DesignatedVersionID = v.Version, v.ID
		if err := c.putPreset("preset.designate", &p, before); err != nil {
			return err
		}
		return c.showVersion(p, v)
	})
}

// PresetPatch is the body of a preset's update, already checked against its
// schema: what to change. A field that is absent stays as it is; null clears one
// that may be null.
type PresetPatch struct {
	Name        *string          `json:"name"`
	Description Settable[string] `json:"description"`
	// Status is PresetActive or PresetDisabled.
	Status *PresetStatus `json:"status"`
}

// UpdatePreset changes a preset. Where all is so already, nothing changes.
func (s *Service) UpdatePreset(ctx context.Context, w Write, workspace, slug string, patch PresetPatch) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := c.findPreset(workspace, slug)
		if err != nil {
			return err
		}
		changed := false
		if patch.Name != nil && *patch.Name != p.Name {
			p.Name, changed = *patch.Name, true
		}
		if patch.Description.Given && !equal(patch.Description.Value, p.Description) {
			p.Description, changed = patch.Description.Value, true
		}
		if patch.Status != nil && *patch.Status != p.Status {
			p.Status, p.StatusUpdatedAt, changed = *patch.Status, &c.now, true
		}
		if changed {
			if err := c.putPreset("preset.update", &p, p.DesignatedVersion); err != nil {
				return err
			}
		}
		return c.showPreset(p)
	})
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// ArchivePreset retires a preset: clients find it no more, and its slug stays
// taken until RestorePreset. Archiving it again changes nothing; a disabled one
// is a Conflict. The outcome has no JSON.
func (s *Service) ArchivePreset(ctx context.Context, w Write, workspace, slug string) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := c.findAnyPreset(workspace, slug)
		if err != nil {
			return err
		}
		c.out.WorkspaceID = p.WorkspaceID
		switch p.Status {
		case PresetArchived:
			return nil
		case PresetDisabled:
			return errNotActive(p)
		}
		p.Status, p.StatusUpdatedAt = PresetArchived, &c.now
		return c.putPreset("preset.archive", &p, p.DesignatedVersion)
	})
}

// RestorePreset makes an archived preset active again, as it was. An active one
// stays as it is; a disabled one is a Conflict.
func (s *Service) RestorePreset(ctx context.Context, w Write, workspace, slug string) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := c.findAnyPreset(workspace, slug)
		if err != nil {
			return err
		}
		switch p.Status {
		case PresetDisabled:
			return errNotActive(p)
		case PresetArchived:
			p.Status, p.StatusUpdatedAt = PresetActive, &c.now
			if err := c.putPreset("preset.restore", &p, p.DesignatedVersion); err != nil {
				return err
			}
		}
		return c.showPreset(p)
	})
}
