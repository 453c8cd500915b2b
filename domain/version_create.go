package domain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Release says how a new version is published. The zero value designates it.
type Release struct {
	// Draft stores the version without designating it.
	Draft bool
	// Label is set to the version, empty for none.
	Label string
	// Message is the author's reason for the version, nil for none.
	Message *string
}

// MaxMessage bounds a message, in characters.
const MaxMessage = 500

// CheckMessage returns an Invalid error if text cannot be the message of a version.
func CheckMessage(text string) error {
	switch {
	case !utf8.ValidString(text):
		return InvalidAt("message", "must be UTF-8")
	case text == "" || utf8.RuneCountInString(text) > MaxMessage:
		return InvalidAt("message", fmt.Sprintf("must be 1 to %d characters", MaxMessage))
	case strings.ContainsFunc(text, unicode.IsControl):
		return InvalidAt("message", "must not have control characters, such as line breaks")
	}
	return nil
}

// check returns an error if r breaks a rule, or if who may not do it.
func (r Release) check(who Principal) error {
	if r.Label != "" {
		if err := who.CheckManagement(); err != nil { // as for PUT of a label
			return err
		}
		if err := CheckLabel(r.Label); err != nil {
			return err
		}
	}
	if r.Message != nil {
		return CheckMessage(*r.Message)
	}
	return nil
}

// errNothingServes is the answer to a draft of a preset that does not exist.
var errNothingServes = &Error{
	Kind: Conflict, Message: "Preset does not exist: its first version must be designated",
	Issues: []Issue{{"designate", "the preset has no version yet, and its first one must be designated"}},
}

// ReleasePresetVersion stores captured settings as a new version of a preset, designates
// it and returns both, as one durable change. It creates a preset that does not exist. An
// existing one keeps its id and name.
//
// The slug must be one that CheckPresetSlug accepts. workspace is the id or slug of the
// workspace to act in, empty for the key's own. An unknown workspace is NotFound. A preset
// that is not active keeps its slug, and is a Conflict.
//
// A draft is not designated. The outcome's JSON then shows it as created_version of its
// preset. Version and Number of the outcome are those of the draft. A draft of a preset
// that does not exist is a Conflict. To set a label, w.Who must be allowed to manage.
// Without the right ProtectedLabels, a version of a protected preset must be a draft: else
// Forbidden.
//
// The same change removes versions beyond KeepVersions, as PruneVersions does, but at
// most MaxChangeRemoved. The next change removes the rest. Drafts count as other versions.
// A change by a key that lacks the right removes none of a protected preset.
func (s *Service) ReleasePresetVersion(ctx context.Context, w Write, workspace, slug string, in Capture, how Release) (Outcome, error) {
	if err := how.check(w.Who); err != nil {
		return Outcome{}, err
	}
	presetID, versionID := s.newID(), s.newID()
	return s.change(ctx, w, func(c *change) error {
		p, err := c.presetToExtend(workspace, slug, presetID)
		if err != nil {
			return err
		}
		if how.Draft && p.LatestVersion == 0 {
			return errNothingServes
		}
		if !how.Draft {
			if err := c.guardPreset(p); err != nil {
				return err
			}
		}
		if err := c.claimPreset(&p); err != nil {
			return err
		}
		before := p.DesignatedVersion
		p.LatestVersion++
		v := PresetVersion{
			ID: versionID, PresetID: p.ID, Version: p.LatestVersion,
			Dialect: in.Dialect, Message: how.Message, Config: in.Config, SystemPrompt: in.SystemPrompt, Template: in.Template,
			CreatorID: c.Who.UserID, CreatedAt: c.now, UpdatedAt: c.now,
		}
		if err := c.PutPresetVersion(p, v); err != nil {
			return err
		}
		if !how.Draft {
			p.DesignatedVersion, p.DesignatedVersionID = v.Version, v.ID
		}
		var labelled *Target // what the label stood for
		if how.Label != "" {
			if labelled, err = c.moveLabel(&p, how.Label, &Target{Version: v.Version, Protected: p.Labels[how.Label].Protected}); err != nil {
				return err
			}
		}
		if err := c.storePreset(&p); err != nil {
			return err
		}
		var pruned []int
		if c.guardPreset(p) == nil { // else drafts would push out versions
			if pruned, err = c.prune(&p, Pruning{Keep: s.KeepVersions}); err != nil { // spares the labelled version
				return err
			}
		}
		object := p.audited()
		object.Pruned = formatRanges(pruned)
		object.Message = ValueOr(how.Message, "")
		if how.Draft {
			object.Draft = v.Version
		}
		if err := c.record(createVersion, object, before, p.DesignatedVersion); err != nil {
			return err
		}
		if how.Label != "" {
			if err := c.recordLabel(p, how.Label, labelled, new(p.Labels[how.Label])); err != nil {
				return err
			}
		}
		if err := c.showVersion(p, v); err != nil || !how.Draft {
			return err
		}
		return c.showDraft(p, v)
	})
}

// presetToExtend returns the active preset of a slug, or a new one with an id if there is
// none. It checks the condition of the change.
func (c *change) presetToExtend(workspace, slug, id string) (p Preset, err error) {
	home, err := workspaceOf(c, c.Who, workspace)
	if err != nil {
		return p, err
	}
	if err := c.Who.reach(slug); err != nil {
		return p, err
	}
	p, err = c.Preset(home, slug)
	switch {
	case errors.Is(err, ErrNotFound):
		p = Preset{
			ID: id, Name: slug, Slug: slug, Status: PresetActive,
			CreatorUserID: c.Who.UserID, WorkspaceID: home, CreatedAt: c.now,
		}
		return p, c.Condition.Check()
	case err != nil:
		return p, err
	case p.Status != PresetActive:
		return p, errNotActive(p)
	default:
		return p, c.checkPreset(p)
	}
}

// showDraft adds a draft of p to the answer, which shows p. The answer's tag stays that of
// p alone.
func (c *change) showDraft(p Preset, v PresetVersion) error {
	stored, err := showPreset(c, p.WorkspaceID, p.Slug)
	if err != nil {
		return err
	}
	draft, err := stored.version(v.Version)
	if err != nil {
		return err
	}
	c.out.JSON = withMember(c.out.JSON, "created_version", draft)
	return nil
}
