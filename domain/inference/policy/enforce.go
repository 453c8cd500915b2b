package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxBrokenIssues bounds the places that a refusal names.
const maxBrokenIssues = 20

const (
	lockedMessage  = "is locked by the preset's policy"
	boundedMessage = "is outside of the bounds of the preset's policy"
	modelMessage   = "is a model that the preset's policy does not allow"
)

// Enforce enforces the policy on the merged request, whose fields were admitted. A request that breaks
// it is Forbidden if the policy says so.
func (c *Check) Enforce() error {
	if c.Policy == nil {
		return nil
	}
	hadTools := c.hadTools || c.Index("tools") >= 0
	for _, name := range c.touched {
		if i := c.Index(name); i >= 0 {
			c.Parts[i].From = draft.FromPolicy
		}
	}
	for _, r := range c.Policy.locks {
		for _, at := range c.placesOf(r, "") {
			c.lock(r, at)
		}
	}
	if c.Policy.reasoningLock != "" {
		c.keepReasoning()
	}
	c.limitModels()
	for _, r := range c.Policy.bounds {
		for _, at := range c.placesOf(r, "") {
			c.bound(r, at)
		}
	}
	for _, r := range c.Policy.drops {
		for _, at := range c.placesOf(r, r.name) {
			if !r.isAboutTools() || c.bringsTools(at.Field, c.Value(at.Field)) {
				c.put(at, nil)
			}
		}
	}
	if hadTools && c.Index("tools") < 0 { // gateways refuse a choice of no tools
		c.Parts = slices.DeleteFunc(c.Parts, func(p draft.Part) bool {
			return slices.Contains(dialects.ToolUseFields, p.Name) && c.sentAt(dialects.Place{Field: p.Name}) != nil // reconcile does the preset's
		})
	}
	return c.refusal()
}

// placesOf returns the places of a rule in the request. A rule that drops a field is about whatever has that name,
// and the others are about settings.
func (c *Check) placesOf(r *rule, dropped string) []dialects.Place {
	if c.Dialect == domain.Images {
		return dialects.ImagePlaces(r.places, dropped)
	}
	return r.places
}

// refusal returns the error for a request that broke the policy, if the policy refuses it.
func (c *Check) refusal() error {
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
func (c *Check) recordViolation(name, message string, sent bool, path ...string) {
	if !slices.Contains(c.Broken, name) {
		c.Broken = append(c.Broken, name)
	}
	c.touched = append(c.touched, path[0])
	if !sent || !c.Policy.refuse || len(c.issues) == maxBrokenIssues {
		return
	}
	if message == lockedMessage || message == boundedMessage {
		message += " (" + name + ")"
	}
	issue := domain.Issue{Message: message}
	for _, member := range path {
		issue.Path += dialects.Pointer(member)
	}
	if !slices.Contains(c.issues, issue) {
		c.issues = append(c.issues, issue)
	}
}

// valueAt returns the value at a place of the merged request, or nil. null counts as none.
func (c *Check) valueAt(at dialects.Place) jsontext.Value {
	return member(c.Value(at.Field), at)
}

// presetAt returns the preset's value at a place, or nil.
func (c *Check) presetAt(at dialects.Place) jsontext.Value {
	return member(c.Setting(at.Field), at)
}

// sentAt returns the value at a place that the request itself sent, or nil. It says something.
func (c *Check) sentAt(at dialects.Place) jsontext.Value {
	value := rawjson.Find(c.Request.Fields, at.Field)
	if i := c.Index(at.Field); i >= 0 && c.Parts[i].From == draft.FromRequest {
		value = c.Parts[i].Value // the model without the reference
	}
	value = member(value, at)
	if value.Kind() == 'n' || rawjson.IsEmpty(value) || at.Field == "model" && (rawjson.IsText(value, "") || reference.IsReference(value)) {
		return nil
	}
	return value
}

// member returns the member of a value that a place names, or the value itself. That of dialects.SerialPlace is
// the opposite of what rules are about.
func member(value jsontext.Value, at dialects.Place) jsontext.Value {
	switch {
	case at.Member == "" || value == nil:
		return value
	case at == dialects.SerialPlace:
		return dialects.Negate(rawjson.Get(value, at.Member))
	}
	return rawjson.Get(value, at.Member)
}

// put gives a place of the merged request a value, or removes it. The preset's value takes the place
// of an object without any members left.
func (c *Check) put(at dialects.Place, value jsontext.Value) {
	if at == dialects.SerialPlace {
		value = dialects.Negate(value)
	}
	i := c.Index(at.Field)
	switch {
	case at.Member != "" && i >= 0 && c.Parts[i].Value.Kind() == '{':
		whole := c.Parts[i].Value
		if c.Reserve(len(whole)+len(value)) != nil {
			return
		}
		if value == nil {
			value = without(whole, at.Member)
		} else {
			value = rawjson.With(whole, at.Member, value)
		}
	case at.Member != "" && value != nil && (i < 0 || c.Parts[i].Value.Kind() == 'n'):
		value = rawjson.ObjectOf(rawjson.NewMember(at.Member, value))
	case at.Member != "": // a text has no such member
		return
	}
	switch {
	case value != nil:
		c.Set(at.Field, value, draft.FromPolicy)
	default:
		c.Remove(at.Field)
	}
}

// lock gives a place the preset's value.
func (c *Check) lock(r *rule, at dialects.Place) {
	have, want := c.valueAt(at), c.presetAt(at)
	switch {
	case bytes.Equal(have, want):
		return
	case r.isAboutTools() && at.Field != "tools" && !c.bringsTools(at.Field, have) && !c.bringsTools(at.Field, want):
		return
	case at == dialects.SerialPlace && dialects.TextOf(c.Value(at.Field), "type") == "none": // it has no such member
		return
	}
	if sent := c.sentAt(at); sent != nil && !c.isOwn(sent, r.places) {
		c.recordViolation(r.name, lockedMessage, true, at.Path()...)
	}
	c.put(at, want)
}

// offSwitches are the places that can switch reasoning off.
var offSwitches = []dialects.Place{
	{Field: "reasoning", Member: "enabled"},
	{Field: "reasoning", Member: "effort"},
	{Field: "reasoning", Member: "max_tokens"},
	{Field: "thinking"},
	{Field: "output_config", Member: "effort"},
	{Field: "reasoning_effort"},
	{Field: "include_reasoning"},
}

// isOff reports whether the value of an off switch switches reasoning off.
func isOff(value jsontext.Value) bool {
	if value.Kind() == '{' {
		return isOff(rawjson.Get(value, "type")) || isOff(rawjson.Get(value, "budget_tokens"))
	}
	n, isNumber := dialects.NumberOf(value)
	return value.Kind() == 'f' || rawjson.IsText(value, "none") || rawjson.IsText(value, "disabled") || isNumber && n == 0
}

// keepReasoning gives what switches reasoning off the preset's value, because it would undo a lock of another
// setting of reasoning.
func (c *Check) keepReasoning() {
	for _, at := range offSwitches {
		value, ours := c.valueAt(at), c.presetAt(at)
		if isOff(value) && !isSameJSON(value, ours) {
			c.recordViolation(c.Policy.reasoningLock, lockedMessage, true, at.Path()...)
			c.put(at, ours)
		}
	}
}

// bound makes the value at a place meet the bounds of a rule. An allowed value is itself, else the
// nearest number, else the preset's value.
func (c *Check) bound(r *rule, at dialects.Place) {
	value := c.valueAt(at)
	if value == nil || value.Kind() == 'n' {
		return
	}
	name := r.disallows(value)
	if name == "" {
		return
	}
	c.recordViolation(name, boundedMessage, bytes.Equal(c.sentAt(at), value), at.Path()...)
	nearest := r.nearest(value)
	for _, place := range r.places {
		if ours := c.presetAt(place); nearest == nil && ours != nil {
			if nearest = ours; r.disallows(ours) != "" {
				nearest = r.nearest(ours)
			}
			break
		}
	}
	c.put(at, nearest)
}

// bringsTools reports whether a value of a field gives tools to a model.
func (c *Check) bringsTools(field string, value jsontext.Value) bool {
	if field != "plugins" && field != "container" {
		return true
	}
	return value != nil && !c.opens(field) && c.search([]rawjson.Member{{Name: field, Value: value}}, func(u use) bool { return u.tool != "" }) != nil
}

// isOwn reports whether the preset has a value at one of places, which are names of the same setting.
func (c *Check) isOwn(value jsontext.Value, places []dialects.Place) bool {
	return slices.ContainsFunc(places, func(at dialects.Place) bool { return isSameJSON(value, c.presetAt(at)) })
}

// maxCompared is how deep compared values nest: to compare them takes a stack, which the request keeps.
const maxCompared = 64

// isSameJSON reports whether two values, no longer than those of presets, are the same but for their notation.
func isSameJSON(a, b jsontext.Value) bool {
	if a == nil || b == nil || a.Kind() != b.Kind() || max(len(a), len(b)) > 2*domain.MaxStoredSize || rawjson.IsDeeper(a, maxCompared) {
		return false
	}
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}
