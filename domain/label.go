package domain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Target is the meaning of a label: one version of its preset, or a split of requests
// between several. A label is a name that can be moved, such as staging.
type Target struct {
	// Version is 0 where there is a split.
	Version int     `json:"version,omitzero"`
	Split   []Share `json:"split,omitempty"`
	// Protected makes changing and removing the label take the right ProtectedLabels.
	Protected bool `json:"protected,omitzero"`
}

// Share is a version's part of a split.
type Share struct {
	Version int `json:"version"`
	// Weight is the share of sessions relative to the other weights.
	Weight int `json:"weight"`
}

// formatSplit returns the versions of a split with their weights, such as 3:90,4:10.
func formatSplit(split []Share) string {
	texts := make([]string, len(split))
	for i, share := range split {
		texts[i] = fmt.Sprintf("%d:%d", share.Version, share.Weight)
	}
	return strings.Join(texts, ",")
}

// LabelChange is one change of a label. It is never changed itself. Its JSON is stored
// and shown to clients.
type LabelChange struct {
	Number int       `json:"number"` // from 1, without a gap, going on when a label is set again
	Time   time.Time `json:"time"`
	KeyID  string    `json:"key_id"`
	UserID string    `json:"user_id"`
	// From and To are nil where the label did not exist.
	From *Target `json:"from"`
	To   *Target `json:"to"`
}

const (
	// MaxLabels bounds the labels of one preset.
	MaxLabels = 64
	// MaxShares bounds the versions of a split.
	MaxShares = 16
	// MaxWeight bounds the weight of each.
	MaxWeight = 10_000
	// LatestLabel is reserved: it would not say which version is the latest.
	LatestLabel = "latest"
)

// maxLabel bounds a label, which follows a slug and an @ in a reference, in bytes.
const maxLabel = 64

// CheckLabel returns an Invalid error if label, already percent-decoded, cannot be used.
// Numbers are versions, so they are no labels.
func CheckLabel(label string) error {
	if !IsSlug(label, maxLabel) {
		return InvalidAt("label", "must be 1 to 64 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit")
	}
	if strings.Trim(label, "0123456789") == "" || strings.EqualFold(label, LatestLabel) {
		return InvalidAt("label", "is reserved: "+LatestLabel+" and numbers cannot be labels")
	}
	return nil
}

// errNoSuchLabel is the error for a label that the preset does not have. place is where
// the request names it.
func errNoSuchLabel(place string) error {
	return &Error{Kind: NotFound, Code: VersionNotFound, Message: "Label not found", Issues: []Issue{{Path: place, Message: "the preset has no such label"}}}
}

// versionOfLabel returns the version that a label of p stands for. A label that p does
// not have is NotFound, one with a split is Invalid. place is where the request names it.
func (p Preset) versionOfLabel(name, place string) (int, error) {
	label, ok := p.Labels[name]
	switch {
	case !ok:
		return 0, errNoSuchLabel(place)
	case label.Split != nil:
		return 0, InvalidAt(place, "stands for a split and not for one version")
	}
	return label.Version, nil
}

// labelJSON returns a label of p as clients see it, with a page of its history. A deleted
// label has a version of null. One that was never set is errNoSuchLabel.
func labelJSON(r Reader, p Preset, name string, page Page) ([]byte, error) {
	changes, err := r.LabelChanges(p, name)
	switch {
	case err != nil:
		return nil, err
	case changes == 0:
		return nil, errNoSuchLabel("label")
	}
	history := []LabelChange{}
	for n := changes - page.Offset; n > 0 && len(history) < page.Limit; n-- {
		c, err := r.LabelChange(p, name, n)
		if err != nil {
			return nil, err
		}
		history = append(history, c)
	}
	target := p.Labels[name]
	var version any // none where there is a split
	if target.Split == nil {
		version = nilIfZero(target.Version)
	}
	return jsonv2.Marshal(struct {
		Label   string        `json:"label"`
		Version any           `json:"version,omitzero"`
		Split   []Share       `json:"split,omitempty"`
		Protect bool          `json:"protected"`
		History []LabelChange `json:"history"`
		Changes int           `json:"history_count"`
	}{name, version, target.Split, target.Protected, history, changes})
}

// latestChanges is the page of a label's history that its entity tag is about.
var latestChanges = Page{Limit: DefaultPage}

// checkLabel checks the condition of the change. An If-Match may have the tag of the label, as
// clients see it, or of its preset. A label that is not set does not exist for *, and has the
// tag of its history if it was removed.
func (c *change) checkLabel(p Preset, name string) error {
	when := c.Condition
	if when.IsEmpty() {
		return nil
	}
	if _, ok := p.Labels[name]; !ok && (when.Match == nil || when.Match.Any || when.NoneMatch != nil) {
		return when.Check()
	}
	preset, err := c.tag(p)
	if err != nil {
		return err
	}
	switch label, err := labelJSON(c, p, name, latestChanges); {
	case KindOf(err) == NotFound: // it was never set
		return when.Check(preset)
	case err != nil:
		return err
	default:
		return when.Check(Tag(label), preset)
	}
}

// moveLabel gives a label of p another target, which is not stored with p yet. It returns
// the earlier target. Nil stands for no label. A label that is protected before or after is
// Forbidden without the right ProtectedLabels.
func (c *change) moveLabel(p *Preset, name string, to *Target) (from *Target, err error) {
	if label, existed := p.Labels[name]; existed {
		from = &label
	} else if len(p.Labels) >= MaxLabels {
		return nil, InvalidAt("label", fmt.Sprintf("the preset has %d labels already, which is the most", MaxLabels))
	}
	if from.isProtected() || to.isProtected() {
		if err := c.Who.Require(ProtectedLabels, "Label is protected"); err != nil {
			return nil, err
		}
	}
	number, err := c.LabelChanges(*p, name)
	if err != nil {
		return nil, err
	}
	entry := LabelChange{Number: number + 1, Time: c.now, KeyID: c.Who.KeyID, UserID: c.Who.UserID, From: from, To: to}
	if err := c.PutLabelChange(*p, name, entry); err != nil {
		return nil, err
	}
	p.Labels = maps.Clone(p.Labels)
	if to == nil {
		delete(p.Labels, name)
		return from, nil
	}
	if p.Labels == nil {
		p.Labels = make(map[string]Target)
	}
	p.Labels[name] = *to
	return from, nil
}

// setLabel gives a label another target and stores p. If to is nil, it removes the label.
func (c *change) setLabel(p *Preset, name string, to *Target) error {
	from, err := c.moveLabel(p, name, to)
	if err != nil {
		return err
	}
	if err := c.claimPreset(p); err != nil {
		return err
	}
	if err := c.storePreset(p); err != nil {
		return err
	}
	return c.recordLabel(*p, name, from, to)
}

// recordLabel records a change of a label of p.
func (c *change) recordLabel(p Preset, name string, from, to *Target) error {
	object, operation := p.audited(), "label.move"
	object.Label = name
	object.Protection = protection(from.isProtected(), to.isProtected())
	switch {
	case to == nil:
		operation = "label.delete"
	case from != nil && from.servesLike(*to):
		operation = "label.protect"
	case to.Split != nil:
		operation, object.Split = "label.split", formatSplit(to.Split)
	case from == nil:
		operation = "label.set"
	}
	return c.record(operation, object, ValueOr(from, Target{}).Version, ValueOr(to, Target{}).Version)
}

// servesLike reports whether requests get the same versions from t and from other.
func (t Target) servesLike(other Target) bool {
	return t.Version == other.Version && slices.Equal(t.Split, other.Split)
}

// isProtected reports whether t is there and protected.
func (t *Target) isProtected() bool { return t != nil && t.Protected }

// Label returns a label of a preset with a page of its history, the latest change first.
// A deleted label still has its history. One that was never set is NotFound.
func (s *Service) Label(ctx context.Context, who Principal, workspace, slug, name string, page Page) (found Found, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		p, err := visiblePreset(r, who, workspace, slug)
		if err != nil {
			return err
		}
		text, err := labelJSON(r, p, name, page)
		found = tagged(Found{JSON: text, WorkspaceID: p.WorkspaceID, Number: p.Labels[name].Version})
		return err
	})
	return found, err
}

// PutLabel makes a label of a preset stand for a version, or for a split. A version
// that the preset does not have is NotFound. Any other wrong Target is Invalid. protected
// sets or clears the protection of the label; nil keeps it, and to.Protected is ignored. If
// the label is so already, nothing changes. Changing a label that is protected before or
// after is Forbidden without the right ProtectedLabels.
func (s *Service) PutLabel(ctx context.Context, w Write, workspace, slug, name string, to Target, protected *bool) (Outcome, error) {
	if err := CheckLabel(name); err != nil {
		return Outcome{}, err
	}
	return s.change(ctx, w, func(c *change) error {
		p, err := visiblePreset(c, c.Who, workspace, slug)
		if err != nil {
			return err
		}
		if err := c.checkLabel(p, name); err != nil {
			return err
		}
		if err := to.Check(p); err != nil {
			return err
		}
		label, existed := p.Labels[name]
		to := to // fn may run again
		to.Protected = ValueOr(protected, label.Protected)
		if !existed || label.Protected != to.Protected || !label.servesLike(to) {
			if err := c.setLabel(&p, name, &to); err != nil {
				return err
			}
		}
		c.out.WorkspaceID, c.out.Number, c.out.Preset = p.WorkspaceID, to.Version, p
		c.out.JSON, err = labelJSON(c, p, name, latestChanges)
		return err
	})
}

// DeleteLabel removes a label of a preset. Its history stays, and goes on when the label
// is set again. The outcome has no JSON.
func (s *Service) DeleteLabel(ctx context.Context, w Write, workspace, slug, name string) (Outcome, error) {
	return s.change(ctx, w, func(c *change) error {
		p, err := visiblePreset(c, c.Who, workspace, slug)
		if err != nil {
			return err
		}
		if _, ok := p.Labels[name]; !ok {
			return errNoSuchLabel("label")
		}
		if err := c.checkLabel(p, name); err != nil {
			return err
		}
		err = c.setLabel(&p, name, nil)
		c.out.WorkspaceID, c.out.Preset = p.WorkspaceID, p
		return err
	})
}

// Check returns an error if t cannot be the target of a label of p. It is NotFound for a
// version that p does not have, and Invalid for any other fault.
func (t Target) Check(p Preset) error {
	if t.Split == nil {
		if !p.State().Has(t.Version) {
			return errNoSuchVersion("/version")
		}
		return nil
	}
	if n := len(t.Split); n < 1 || n > MaxShares {
		return InvalidAt("/split", fmt.Sprintf("must have 1 to %d versions", MaxShares))
	}
	seen, total := make(map[int]bool), 0
	for i, share := range t.Split {
		place := fmt.Sprintf("/split/%d", i)
		switch {
		case !p.State().Has(share.Version):
			return errNoSuchVersion(place + "/version")
		case seen[share.Version]:
			return InvalidAt(place+"/version", "is in the split already")
		case share.Weight < 0 || share.Weight > MaxWeight:
			return InvalidAt(place+"/weight", fmt.Sprintf("must be between 0 and %d", MaxWeight))
		}
		seen[share.Version] = true
		total += share.Weight
	}
	if total == 0 {
		return InvalidAt("/split", "must have a weight above 0")
	}
	return nil
}
