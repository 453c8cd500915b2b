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
func (m *merger) enforce() error {
	if m.policy == nil {
		return nil
	}
	hadTools := m.hadTools || m.index("tools") >= 0
	for _, name := range m.relocked {
		if i := m.index(name); i >= 0 {
			m.parts[i].from = FromPolicy
		}
	}
	for _, r := range m.policy.locks {
		for _, at := range r.places {
			m.lock(r, at)
		}
	}
	m.limitModels()
	m.limitUnknownModels()
	for _, r := range m.policy.limits {
		for _, at := range r.places {
			switch {
			case r.kind == boundRule:
				m.bound(r, at)
			case !r.isAboutTools() || m.bringsTools(at.field, m.value(at.field)):
				m.put(at, nil)
			}
		}
	}
	if hadTools && m.index("tools") < 0 { // gateways refuse a choice of no tools
		m.parts = slices.DeleteFunc(m.parts, func(p part) bool {
			return slices.Contains(toolUseFields, p.Name) && m.sentSetting(p.Name) != nil // reconcile does the preset's
		})
	}
	return m.refusal()
}

// refusal returns the error for a request that broke the policy, if the policy refuses it.
func (m *merger) refusal() error {
	if m.issues == nil {
		return nil
	}
	e := domain.InvalidIssues(m.issues...)
	e.Kind, e.Code = domain.Forbidden, domain.PolicyBroken
	e.Message = strings.Replace(e.Message, "Invalid request parameters", "Request breaks the policy of the preset", 1)
	return e
}

// recordViolation records that a field, or its member, breaks a rule. sent tells that the value
// is the request's.
func (m *merger) recordViolation(name, message string, sent bool, path ...string) {
	if !slices.Contains(m.broken, name) {
		m.broken = append(m.broken, name)
	}
	if !sent || !m.policy.refuse || len(m.issues) == maxBrokenIssues {
		return
	}
	if message == lockedMessage || message == boundedMessage {
		message += " (" + name + ")"
	}
	issue := domain.Issue{Message: message}
	for _, member := range path {
		issue.Path += pointer(member)
	}
	if !slices.Contains(m.issues, issue) {
		m.issues = append(m.issues, issue)
	}
}

// valueAt returns the value at a place of the merged request, or nil. null counts as none.
func (m *merger) valueAt(at place) jsontext.Value { return member(m.value(at.field), at.member) }

// presetAt returns the preset's value at a place, or nil.
func (m *merger) presetAt(at place) jsontext.Value { return member(m.setting(at.field), at.member) }

// sentAt returns the value at a place that the request itself sent, or nil. It says something.
func (m *merger) sentAt(at place) jsontext.Value {
	value := rawjson.Find(m.request.fields, at.field)
	if i := m.index(at.field); i >= 0 && m.parts[i].from == FromRequest {
		value = m.parts[i].Value // the model without the reference
	}
	value = member(value, at.member)
	if value.Kind() == 'n' || isEmptyContainer(value) || at.field == "model" && (isEmptyText(value) || isReference(value)) {
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
func (m *merger) put(at place, value jsontext.Value) {
	i := m.index(at.field)
	switch {
	case at.member != "" && i >= 0 && m.parts[i].Value.Kind() == '{':
		whole := m.parts[i].Value
		if m.reserve(len(whole)+len(value)) != nil {
			return
		}
		if value == nil {
			value = withoutFields(whole, func(name string) bool { return name == at.member })
		} else {
			value = withField(whole, at.member, value)
		}
	case at.member != "" && value != nil && (i < 0 || m.parts[i].Value.Kind() == 'n'):
		value = object(newMember(at.member, value))
	case at.member != "": // a text has no such member
		return
	}
	switch {
	case value != nil:
		m.set(at.field, value, FromPolicy)
	case i >= 0:
		m.parts = slices.Delete(m.parts, i, i+1)
	}
}

// lock gives a place the preset's value.
func (m *merger) lock(r *rule, at place) {
	have, want := m.valueAt(at), m.presetAt(at)
	switch {
	case bytes.Equal(have, want):
		return
	case r.isAboutTools() && at.field != "tools" && !m.bringsTools(at.field, have) && !m.bringsTools(at.field, want):
		return
	case at == serialPlace && textOf(m.value(at.field), "type") == "none": // it has no such member
		return
	}
	if sent := m.sentAt(at); sent != nil && !m.isOwn(sent, slices.Concat(r.places, samePlaces[at])) {
		m.recordViolation(r.name, lockedMessage, true, at.path()...)
	}
	m.put(at, want)
}

// bound makes the value at a place meet the bounds of a rule. An allowed value is itself, else the
// nearest number, else the preset's value.
func (m *merger) bound(r *rule, at place) {
	turn := func(value jsontext.Value) jsontext.Value { return value }
	if at == serialPlace { // the bound is of what it switches off
		turn = negate
	}
	value := turn(m.valueAt(at))
	if value == nil || value.Kind() == 'n' {
		return
	}
	name := r.disallows(value)
	if name == "" {
		return
	}
	m.recordViolation(name, boundedMessage, bytes.Equal(m.sentAt(at), m.valueAt(at)), at.path()...)
	nearest := r.nearest(value)
	for _, place := range r.places {
		ours := m.presetAt(place)
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
	m.put(at, turn(nearest))
}

// bringsTools reports whether a value of a field gives tools to a model.
func (m *merger) bringsTools(field string, value jsontext.Value) bool {
	if field != "plugins" && field != "container" {
		return true
	}
	return value != nil && !m.opens(field) && m.search([]rawjson.Member{{Name: field, Value: value}}, func(u use) error {
		if u.tool != "" {
			return errFound
		}
		return nil
	}) != nil
}

// isOwn reports whether the preset has a value at one of places, which are names of the same setting.
func (m *merger) isOwn(value jsontext.Value, places []place) bool {
	return slices.ContainsFunc(places, func(at place) bool { return isSameJSON(value, m.presetAt(at)) })
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
