package domain

import (
	"cmp"
	"fmt"
	"regexp"
)

const presetProtected = "Preset is protected"

// guardPreset returns a Forbidden error if p is protected and the caller lacks the right to
// change it.
func (c *change) guardPreset(p Preset) error {
	if !p.Protected {
		return nil
	}
	return c.Who.Require(ProtectedLabels, presetProtected)
}

// guardPresets returns an error if the change may not remove the presets of a workspace. It is
// Forbidden if the caller lacks the right and a preset or a label is protected, else the first of
// checkOwner.
func (c *change) guardPresets(workspaceID string) (owned error) {
	missing := c.Who.Require(ProtectedLabels, "Workspace has protected presets or labels")
	for p, err := range c.Presets(workspaceID) {
		if err != nil {
			return err
		}
		isProtected := p.Protected
		for _, label := range p.Labels {
			isProtected = isProtected || label.Protected
		}
		if isProtected && missing != nil {
			return missing
		}
		owned = cmp.Or(owned, c.checkOwner(p))
	}
	return owned
}

// protection returns what a change did to a protection, for the audit trail.
func protection(before, after bool) string {
	switch {
	case before == after:
		return ""
	case after:
		return "set"
	default:
		return "cleared"
	}
}

// MaxOwner bounds the name of an owner, in characters.
const MaxOwner = 64

// ownerForm also keeps the name readable in a header and on a command line.
var ownerForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._/-]*[a-z0-9])?$`)

// CheckOwner returns an Invalid error if name cannot be an owner of presets. place is where
// the request has the name.
func CheckOwner(place, name string) error {
	if len(name) > MaxOwner || !ownerForm.MatchString(name) {
		return InvalidAt(place, fmt.Sprintf("must be 1 to %d of a-z, 0-9, dot, hyphen, underscore and slash, with a letter or digit at both ends", MaxOwner))
	}
	return nil
}

// checkOwners returns an error if w names something that is no owner, or if its principal may
// not manage.
func (w Write) checkOwners() error {
	for _, header := range []struct{ name, value string }{{"x-preset-owner", w.Owner}, {"x-preset-override", w.Override}} {
		if header.value == "" {
			continue
		}
		if err := w.Who.CheckManagement(); err != nil {
			return err
		}
		if err := CheckOwner(header.name, header.value); err != nil {
			return err
		}
	}
	return nil
}

// claimPreset checks the owner of p (see checkOwner). A preset without an owner gets that of
// the change. Every change of a stored preset calls it, but not the removal of old versions.
func (c *change) claimPreset(p *Preset) error {
	if err := c.checkOwner(*p); err != nil {
		return err
	}
	if p.ManagedBy == nil && c.Owner != "" {
		p.ManagedBy = &c.Owner
	}
	return nil
}

// checkOwner returns a Conflict if another owner than that of the change manages p, and the
// change does not override it. It notes an override for the audit trail.
func (c *change) checkOwner(p Preset) error {
	switch {
	case p.ManagedBy == nil || *p.ManagedBy == c.Owner:
		return nil
	case *p.ManagedBy == c.Override:
		c.overridden = c.Override
		return nil
	}
	owner := *p.ManagedBy
	return &Error{
		Kind:    Conflict,
		Message: fmt.Sprintf("Preset %s is managed by %s: change it there, or send X-Preset-Override: %s", p.Slug, owner, owner),
		Issues:  []Issue{{Path: "slug", Message: "the preset is managed by " + owner}},
	}
}
