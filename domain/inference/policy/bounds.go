package policy

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
)

// bound has the allowed values of a setting, under one of its names.
type bound struct {
	name string
	domain.Bound
}

// allows reports whether b allows a value.
func (b *bound) allows(value jsontext.Value) bool {
	n, isNumber := dialects.NumberOf(value)
	if least, ok := dialects.NumberOf(b.Min); ok && (!isNumber || n < least) {
		return false
	}
	if most, ok := dialects.NumberOf(b.Max); ok && (!isNumber || n > most) {
		return false
	}
	return b.In == nil || slices.ContainsFunc(b.In, func(allowed jsontext.Value) bool {
		if other, ok := dialects.NumberOf(allowed); ok {
			return isNumber && n == other
		}
		return isSameJSON(value, allowed)
	})
}

// disallows returns the name of the first bound that does not allow a value, or "".
func (r *rule) disallows(value jsontext.Value) string {
	for i := range r.bounds {
		if b := &r.bounds[i]; !b.allows(value) {
			return b.name
		}
	}
	return ""
}

// nearest returns the allowed number that is nearest to a number, or nil if there is none. If
// two are equally near, it returns the smaller one.
func (r *rule) nearest(value jsontext.Value) jsontext.Value {
	n, ok := dialects.NumberOf(value)
	if !ok {
		return nil
	}
	var numbers []jsontext.Value
	for _, b := range r.bounds {
		numbers = append(append(append(numbers, b.In...), b.Min), b.Max)
	}
	var below, above jsontext.Value
	var belowN, aboveN float64
	for _, text := range numbers {
		switch c, ok := dialects.NumberOf(text); {
		case !ok || r.disallows(text) != "":
		case c <= n && (below == nil || c > belowN):
			below, belowN = text, c
		case c > n && (above == nil || c < aboveN):
			above, aboveN = text, c
		}
	}
	if below == nil || above != nil && aboveN-n < n-belowN {
		return above
	}
	return below
}
