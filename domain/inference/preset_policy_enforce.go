package inference

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxBrokenIssues bounds the places that a refusal names.
const maxBrokenIssues = 20

const (
	lockedMessage  = "is locked by the preset's policy"
	boundedMessage = "is outside of the bounds of the preset's policy"
	modelMessage   = "is a model that the preset's policy does not allow"
)

// enforce enforces the policy on the merged request, whose fields were admitted. A request that breaks
// it is Forbidden if the policy says so.
func (c *check) enforce(models jsontext.Value) (left jsontext.Value, err error) {
	if c.policy == nil {
		return models, nil
	}
	hadTools := c.hadTools || c.index("tools") >= 0
	for _, name := range c.relocked {
		if i := c.index(name); i >= 0 {
			c.parts[i].from = FromPolicy
		}
	}
	for _, r := range c.policy.locks {
		for _, at := range r.places {
			c.lock(r, at)
		}
	}
	c.limitModels()
	models = c.limitUnknownModels(models)
	for _, r := range c.policy.limits {
		for _, at := range r.places {
			switch {
			case r.kind == boundRule:
				c.bound(r, at)
			case !r.isAboutTools() || c.bringsTools(at.field, c.value(at.field)):
				c.put(at, nil)
			}
		}
	}
	if hadTools && c.index("tools") < 0 { // gateways refuse a choice of no tools
		c.parts = slices.DeleteFunc(c.parts, func(p part) bool {
			return slices.Contains(toolUseFields, p.Name) && c.sentAt(place{field: p.Name}) != nil // reconcile does the preset's
		})
	}
	return models, c.refusal()
}

// refusal returns the error for a request that broke the policy, if the policy refuses it.
func (c *check) refusal() error {
	if c.issues == nil {
		return nil
	}
	e := domain.InvalidIssues(c.issues...)
	e.Kind, e.Code = domain.Forbidden, domain.PolicyBroken
	e.Message = strings.Replace(e.Message, "Invalid request parameters", "Request breaks the policy of the preset", 1)
	return e
}

// recordViolation records that a field, or its member, breaks a rule. sent tells that the value
// is the request's.
func (c *check) recordViolation(name, message string, sent bool, path ...string) {
	if !slices.Contains(c.broken, name) {
		c.broken = append(c.broken, name)
	}
	if !sent || !c.policy.refuse || len(c.issues) == maxBrokenIssues {
		return
	}
	if message == lockedMessage || message == boundedMessage {
		message += " (" + name + ")"
	}
	issue := domain.Issue{Message: message}
	for _, member := range path {
		issue.Path += pointer(member)
	}
	if !slices.Contains(c.issues, issue) {
		c.issues = append(c.issues, issue)
	}
}

// valueAt returns the value at a place of the merged request, or nil. null counts as none.
func (c *check) valueAt(at place) jsontext.Value { return member(c.value(at.field), at.member) }

// presetAt returns the preset's value at a place, or nil.
func (c *check) presetAt(at place) jsontext.Value {
	return member(rawjson.Find(c.ours, at.field), at.member)
}

// sentAt returns the value at a place that the request itself sent, or nil. It says something.
func (c *check) sentAt(at place) jsontext.Value {
	value := rawjson.Find(c.request.fields, at.field)
	if i := c.index(at.field); i >= 0 && c.parts[i].from == FromRequest {
		value = c.parts[i].Value // the model without the reference
	}
	value = member(value, at.member)
	if value.Kind() == 'n' || rawjson.IsEmpty(value) || at.field == "model" && (rawjson.IsText(value, "") || isReference(value)) {
		return nil
	}
	return value
}

// member returns a member of a value, or the value itself for none.
func member(value jsontext.Value, name string) jsontext.Value {
	if name == "" || value == nil {
		return value
	}
	return rawjson.Get(value, name)
}

func (at place) path() []string {
	if at.member == "" {
		return []string{at.field}
	}
	return []string{at.field, at.member}
}

// put gives a place of the merged request a value, or removes it. The preset's value takes the place
// of an object without any members left.
func (c *check) put(at place, value jsontext.Value) {
	i := c.index(at.field)
	switch {
	case at.member != "" && i >= 0 && c.parts[i].Value.Kind() == '{':
		whole := c.parts[i].Value
		if c.reserve(len(whole)+len(value)) != nil {
			return
		}
		if value == nil {
			value = rawjson.Without(whole, func(name jsontext.Value) bool { return rawjson.IsText(name, at.member) })
		} else {
			value = rawjson.With(whole, at.member, value)
		}
	case at.member != "" && value != nil && (i < 0 || c.parts[i].Value.Kind() == 'n'):
		value = rawjson.ObjectOf(rawjson.NewMember(at.member, value))
	case at.member != "": // a text has no such member
		return
	}
	switch {
	case value != nil:
		c.set(at.field, value, FromPolicy)
	default:
		c.remove(at.field)
	}
}

// lock gives a place the preset's value.
func (c *check) lock(r *rule, at place) {
	have, want := c.valueAt(at), c.presetAt(at)
	switch {
	case bytes.Equal(have, want):
		return
	case r.isAboutTools() && at.field != "tools" && !c.bringsTools(at.field, have) && !c.bringsTools(at.field, want):
		return
	case at == serialPlace && textOf(c.value(at.field), "type") == "none": // it has no such member
		return
	}
	if sent := c.sentAt(at); sent != nil && !c.isOwn(sent, slices.Concat(r.places, samePlaces[at])) {
		c.recordViolation(r.name, lockedMessage, true, at.path()...)
	}
	c.put(at, want)
}

// bound makes the value at a place meet the bounds of a rule. An allowed value is itself, else the
// nearest number, else the preset's value.
func (c *check) bound(r *rule, at place) {
	turn := func(value jsontext.Value) jsontext.Value { return value }
	if at == serialPlace { // the bound is of what it switches off
		turn = negate
	}
	value := turn(c.valueAt(at))
	if value == nil || value.Kind() == 'n' {
		return
	}
	name := r.disallows(value)
	if name == "" {
		return
	}
	c.recordViolation(name, boundedMessage, bytes.Equal(c.sentAt(at), c.valueAt(at)), at.path()...)
	nearest := r.nearest(value)
	for _, place := range r.places {
		ours := c.presetAt(place)
		if place == serialPlace {
			ours = negate(ours)
		}
		if nearest == nil && ours != nil {
			if nearest = ours; r.disallows(ours) != "" {
				nearest = r.nearest(ours)
			}
			break
		}
	}
	c.put(at, turn(nearest))
}

// bringsTools reports whether a value of a field gives tools to a model.
func (c *check) bringsTools(field string, value jsontext.Value) bool {
	if field != "plugins" && field != "container" {
		return true
	}
	return value != nil && !c.opens(field) && c.search([]rawjson.Member{{Name: field, Value: value}}, func(u use) error {
		if u.tool != "" {
			return errFound
		}
		return nil
	}) != nil
}

// isOwn reports whether the preset has a value at one of places, which are names of the same setting.
func (c *check) isOwn(value jsontext.Value, places []place) bool {
	return slices.ContainsFunc(places, func(at place) bool { return isSameJSON(value, c.presetAt(at)) })
}

// isSameJSON reports whether two values are the same but for their notation.
func isSameJSON(a, b jsontext.Value) bool {
	if a == nil || b == nil || a.Kind() != b.Kind() {
		return false
	}
	form := canonicalForm(a)
	return form != nil && bytes.Equal(form, canonicalForm(b))
}

// canonicalForm returns a value without differences of notation. It returns nil for a value
// that is longer than any of a preset, or has no such form.
func canonicalForm(value jsontext.Value) jsontext.Value {
	if len(value) > 2*domain.MaxStoredSize {
		return nil
	}
	value = value.Clone()
	if value.Canonicalize() != nil {
		return nil
	}
	return value
}
