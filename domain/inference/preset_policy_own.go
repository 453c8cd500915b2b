package inference

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// hasOnce reports whether an object has the member of a place once, in any letter case, with the
// preset's value.
func (m *merger) hasOnce(object jsontext.Value, at place) bool {
	var found []rawjson.Member
	for f, err := range usualNames.Object(object) {
		if err != nil || len(found) > 1 {
			return false
		}
		if foldName(f.Name) == at.member {
			found = append(found, f)
		}
	}
	return len(found) == 1 && found[0].Name == at.member && m.isPresets(found[0].Value, at)
}

// ownScalar returns the preset's value at the first of places that has one, or nil.
func (e *enforcement) ownScalar(places []place) jsontext.Value {
	for _, at := range places {
		if ours := e.ownAt(at); ours != nil {
			return ours
		}
	}
	return nil
}

// ownAt returns the preset's value at a place, or nil. A part has none.
func (e *enforcement) ownAt(at place) jsontext.Value {
	if e.at != "" {
		return nil
	}
	return e.presetAt(at)
}

// presetValue is the preset's value at a place, or nil. form is its canonicalForm, once hasForm is
// set.
type presetValue struct {
	value, form jsontext.Value
	hasForm     bool
}

// presetAt returns the preset's value at a place, or nil.
func (m *merger) presetAt(at place) jsontext.Value { return m.presetValueAt(at).value }

// presetValueAt finds each value once: many fields of parts may be compared with it.
func (m *merger) presetValueAt(at place) *presetValue {
	known := m.presetValues[at]
	if known == nil {
		known = &presetValue{value: m.setting(at.field)}
		if at.member != "" {
			known.value = rawjson.Get(known.value, at.member)
		}
		if m.presetValues == nil {
			m.presetValues = make(map[place]*presetValue)
		}
		m.presetValues[at] = known
	}
	return known
}

// isPresets reports whether a value is the preset's at a place, but for its notation.
func (m *merger) isPresets(value jsontext.Value, at place) bool {
	ours := m.presetValueAt(at)
	if ours.value == nil || value.Kind() != ours.value.Kind() {
		return false
	}
	if !ours.hasForm {
		ours.form, ours.hasForm = canonicalForm(ours.value), true
	}
	return ours.form != nil && bytes.Equal(canonicalForm(value), ours.form)
}

// isOwn reports whether the preset has a value as the setting of a place, under any of the
// setting's names. The preset may have the parts of an object under other names.
func (e *enforcement) isOwn(value jsontext.Value, at place) bool {
	if e.at != "" || len(value) > maxRenamed {
		return false
	}
	isOwnAt := func(at place) bool {
		return len(e.presetAt(at)) <= maxRenamed && e.isPresets(value, at)
	}
	if isOwnAt(at) || slices.ContainsFunc(samePlaces[at], isOwnAt) {
		return true
	}
	if at.member != "" || value.Kind() != '{' || e.own(at.field) != nil {
		return false
	}
	for m, err := range usualNames.Object(value) {
		if err != nil || m.Value.Kind() != 'n' && !e.isOwn(m.Value, place{at.field, foldName(m.Name)}) {
			return false
		}
	}
	return true
}

// isSameJSON reports whether two values are the same but for their notation.
func isSameJSON(a, b jsontext.Value) bool {
	if a == nil || b == nil {
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
