package policy

import (
	"math"
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

// nearest returns the allowed number that is nearest to a number, the smaller one of two, or nil if there is none.
func (r *rule) nearest(value jsontext.Value) (best jsontext.Value) {
	n, isNumber := dialects.NumberOf(value)
	least := math.Inf(1)
	for _, b := range r.bounds {
		for _, text := range slices.Concat(b.In, []jsontext.Value{b.Min, b.Max}) {
			c, ok := dialects.NumberOf(text)
			distance := math.Abs(c - n)
			if isNumber && ok && r.disallows(text) == "" && (best == nil || distance < least || distance == least && c < n) {
				best, least = text, distance
			}
		}
	}
	return best
}
