package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

var errPresetNotFound = &Error{Kind: NotFound, Code: PresetNotFound, Message: "Preset not found"}

// presetOf returns the preset of a slug, of any status, in the workspace of an id or slug.
func presetOf(r Reader, who Principal, workspace, slug string) (Preset, error) {
	id, err := workspaceOf(r, who, workspace)
	if err != nil {
		return Preset{}, err
	}
	if err := reach(who, slug); err != nil {
		return Preset{}, err
	}
	p, err := r.Preset(id, slug)
	if errors.Is(err, ErrNotFound) {
		return p, errPresetNotFound
	}
	return p, err
}

// reach returns errPresetNotFound for a slug that who does not reach.
func reach(who Principal, slug string) error {
	if !who.ReachesPreset(slug) {
		return errPresetNotFound
	}
	return nil
}

// errNotActive is the error for a change that only an active preset allows. A retry does
// not help, so its message says what does.
func errNotActive(p Preset) error {
	remedy := "restore it first"
	if p.Status == PresetDisabled {
		remedy = "set its status to active first"
	}
	return &Error{
		Kind: Conflict, Message: fmt.Sprintf("Preset is %s: %s", p.Status, remedy),
		Issues: []Issue{{Path: "slug", Message: fmt.Sprintf("the preset is %s", p.Status)}},
	}
}

// visiblePreset is presetOf for clients, who do not see archived presets.
func visiblePreset(r Reader, who Principal, workspace, slug string) (Preset, error) {
	p, err := presetOf(r, who, workspace, slug)
	if err == nil && p.Status == PresetArchived {
		return Preset{}, errPresetNotFound
	}
	return p, err
}

// findPreset returns the preset that a change is about, and checks the condition of the
// change.
func (c *change) findPreset(workspace, slug string) (Preset, error) {
	p, err := visiblePreset(c, c.Who, workspace, slug)
	if err != nil {
		return p, err
	}
	return p, c.checkPreset(p)
}

// checkPreset checks the condition of the change against p as clients see it. An archived
// preset does not exist for them.
func (c *change) checkPreset(p Preset) error {
	switch {
	case c.Condition.IsEmpty():
		return nil
	case p.Status == PresetArchived:
		return c.Condition.Check()
	}
	tag, err := c.tag(p)
	if err != nil {
		return err
	}
	return c.Condition.Check(tag)
}

// tag returns the entity tag of a stored preset.
func (c *change) tag(p Preset) (string, error) {
	stored, err := showPreset(c, p.WorkspaceID, p.Slug)
	if err != nil {
		return "", err
	}
	text, err := stored.withDesignated()
	return presetTag(text), err
}

// storePreset stores a changed preset.
func (c *change) storePreset(p *Preset) error {
	p.UpdatedAt, p.UpdatedBy = c.now, c.Who.UserID
	return c.PutPreset(*p)
}

// savePreset stores a changed preset of the change's owner and records the change. before is
// the version that was designated.
func (c *change) savePreset(operation string, p *Preset, before int) error {
	if err := c.claimPreset(p); err != nil {
		return err
	}
	if err := c.storePreset(p); err != nil {
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

// showVersion makes a stored preset with its designated version the answer.
func (c *change) showVersion(p Preset, v PresetVersion) (err error) {
	c.out.Preset, c.out.Version, c.out.WorkspaceID, c.out.Number = p, v, p.WorkspaceID, v.Version
	stored, err := showPreset(c, p.WorkspaceID, p.Slug)
	if err == nil {
		stored.served, err = c.Served(p.WorkspaceID, p.Slug)
	}
	if err != nil {
		return err
	}
	c.out.JSON, err = stored.withDesignated()
	c.out.Tag = presetTag(c.out.JSON)
	return err
}

func (p Preset) audited() AuditObject {
	return AuditObject{Kind: "preset", ID: p.ID, WorkspaceID: p.WorkspaceID, Slug: p.Slug, ManagedBy: ValueOr(p.ManagedBy, "")}
}

// Designation names the version of a preset that is to serve requests. It has its number,
// or a label that stands for it now. One of the two is set.
type Designation struct {
	Version int    `json:"version"`
	Label   string `json:"label"`
}

// DesignateVersion changes the version that requests for a preset get. A version or label
// that the preset does not have is NotFound. A label with a split is Invalid. If the
// version is designated already, nothing changes.
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
		if err := c.guardPreset(p); err != nil {
			return err
		}
		before := p.DesignatedVersion
		p.DesignatedVersion, p.DesignatedVersionID = v.Version, v.ID
		if err := c.savePreset("preset.designate", &p, before); err != nil {
			return err
		}
		return c.showVersion(p, v)
	})
}

// PresetPatch is the body of a preset's update, already checked against its schema. An
// absent field stays as it is. Null clears a field that may be null.
type PresetPatch struct {
	Name        *string          `json:"name"`
	Description Settable[string] `json:"description"`
	// Status is PresetActive or PresetDisabled.
	Status *PresetStatus `json:"status"`
	// Protected sets and clears the protection.
	Protected *bool `json:"protected"`
	// Policy without a Violation has the default one.
	Policy Settable[Policy] `json:"policy"`
	// Tags replace all tags of the preset. None may be there twice.
	Tags Settable[[]string] `json:"tags"`
	// Limits replace all limits of the preset.
	Limits Settable[PresetLimits] `json:"limits"`
	// ManagedBy sets and clears the owner.
	ManagedBy Settable[string] `json:"managed_by"`
}

// UpdatePreset changes a preset. If the preset has these values already, nothing changes. A
// protected preset is Forbidden without the right ProtectedLabels, but for its description and tags.
// So are setting and clearing its protection, and its limits for a key of one workspace without the
// right IssueKeys. A policy that fails its Check is Invalid, and
// so is an owner that fails CheckOwner. The status, the protection, the policy and the owner
// have audit records of their own.
func (s *Service) UpdatePreset(ctx context.Context, w Write, workspace, slug string, patch PresetPatch) (Outcome, error) {
	if policy := patch.Policy.Value; policy != nil {
		if err := policy.Check(); err != nil {
			return Outcome{}, err
		}
		withDefault := *policy
		withDefault.Violation = cmp.Or(policy.Violation, OverrideViolation)
		patch.Policy.Value = &withDefault
	}
	if issues := patch.Limits.Value.Check("/limits"); issues != nil {
		return Outcome{}, InvalidIssues(issues...)
	}
	tags := ValueOr(patch.Tags.Value, nil)
	for i, tag := range tags {
		if slices.Contains(tags[:i], tag) {
			return Outcome{}, InvalidAt("/tags/"+strconv.Itoa(i), "is in the list already")
		}
	}
	if owner := patch.ManagedBy.Value; owner != nil {
		if err := CheckOwner("/managed_by", *owner); err != nil {
			return Outcome{}, err
		}
	}
	return s.change(ctx, w, func(c *change) error {
		before, err := c.findPreset(workspace, slug)
		if err != nil {
			return err
		}
		p := before
		setTo(&p.Name, patch.Name)
		setTo(&p.Protected, patch.Protected)
		patch.Description.set(&p.Description)
		patch.Policy.set(&p.Policy)
		patch.Limits.set(&p.Limits)
		p.Limits = p.Limits.NilIfNone()
		if patch.Tags.Given {
			p.Tags = tags
		}
		if len(p.Tags) == 0 {
			p.Tags = nil
		}
		patch.ManagedBy.set(&p.ManagedBy)
		if patch.Status != nil && *patch.Status != p.Status {
			p.Status, p.StatusUpdatedAt = *patch.Status, &c.now
		}
		if err := c.updatePreset(before, &p); err != nil {
			return err
		}
		return c.showPreset(p)
	})
}

// updatePreset stores a preset if a patch changed it, with a record for each kind of change.
func (c *change) updatePreset(before Preset, p *Preset) error {
	samePolicy, err := before.Policy.equals(p.Policy)
	if err != nil {
		return err
	}
	named, isDescribed := p.Name != before.Name, !equal(p.Description, before.Description) || !slices.Equal(p.Tags, before.Tags)
	setStatus, protect, setPolicy := p.Status != before.Status, p.Protected != before.Protected, !samePolicy
	setOwner, setLimits := !equal(p.ManagedBy, before.ManagedBy), !equal(p.Limits, before.Limits)
	isGuarded := named || setLimits || setStatus || protect || setPolicy
	if !isGuarded && !isDescribed && !setOwner {
		return nil
	}
	if isGuarded && (before.Protected || p.Protected) {
		if err := c.Who.Require(ProtectedLabels, presetProtected); err != nil {
			return err
		}
	}
	if setLimits {
		if err := c.Who.CheckBounding(); err != nil {
			return err
		}
	}
	owned := before // whose owner decides
	if err := c.claimPreset(&owned); err != nil {
		return err
	}
	if !setOwner {
		p.ManagedBy = owned.ManagedBy
	}
	if err := c.storePreset(p); err != nil {
		return err
	}
	changes, err := diff.Fields(described{before.Name, before.Description, before.Tags, before.Limits}, described{p.Name, p.Description, p.Tags, p.Limits})
	if err != nil {
		return err
	}
	object := p.audited()
	withStatus, withProtection := object, object
	withStatus.Status, withProtection.Protection = p.Status, protection(before.Protected, p.Protected)
	for _, kind := range []struct {
		operation string
		changed   bool
		object    AuditObject
		changes   []diff.FieldChange
	}{
		{"preset.update", named || isDescribed || setLimits, object, changes},
		{"preset.set_status", setStatus, withStatus, nil},
		{"preset.protect", protect, withProtection, nil},
		{"preset.set_policy", setPolicy, object, nil},
		{"preset.set_owner", setOwner, object, nil},
	} {
		if !kind.changed {
			continue
		}
		if err := c.record(kind.operation, kind.object, p.DesignatedVersion, p.DesignatedVersion, kind.changes...); err != nil {
			return err
		}
	}
	return nil
}

// described is what a preset.update changes.
type described struct {
	Name        string        `json:"name"`
	Description *string       `json:"description"`
	Tags        []string      `json:"tags,omitzero"`
	Limits      *PresetLimits `json:"limits,omitzero"`
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// ArchivePreset hides a preset from clients. Its slug stays taken until RestorePreset.
// Archiving it again changes nothing. A disabled preset is a Conflict. The outcome has no
// JSON.
func (s *Service) ArchivePreset(ctx context.Context, w Write, workspace, slug string) (Outcome, error) {
	return s.setArchived(ctx, w, workspace, slug, "preset.archive", PresetArchived)
}

// RestorePreset makes an archived preset active again. An active one stays as it is. A
// disabled one is a Conflict.
func (s *Service) RestorePreset(ctx context.Context, w Write, workspace, slug string) (Outcome, error) {
	return s.setArchived(ctx, w, workspace, slug, "preset.restore", PresetActive)
}

func (s *Service) setArchived(ctx context.Context, w Write, workspace, slug, operation string, to PresetStatus) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := presetOf(c, c.Who, workspace, slug)
		if err == nil {
			err = c.checkPreset(p)
		}
		switch {
		case err != nil:
			return err
		case p.Status == PresetDisabled:
			return errNotActive(p)
		case p.Status != to:
			if err := c.guardPreset(p); err != nil {
				return err
			}
			p.Status, p.StatusUpdatedAt = to, &c.now
			if err := c.savePreset(operation, &p, p.DesignatedVersion); err != nil {
				return err
			}
		}
		if to == PresetArchived {
			c.out.WorkspaceID = p.WorkspaceID
			return nil
		}
		return c.showPreset(p)
	})
}
