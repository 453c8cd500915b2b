package files

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
)

// SameCapture reports whether two versions are equal: the dialect, the settings, the system
// prompt and the template. Numbers are compared by their text. The order of an object's
// members does not count. A missing prompt equals an empty one.
func SameCapture(a, b domain.Capture) bool {
	return a.Dialect == b.Dialect && domain.ValueOr(a.SystemPrompt, "") == domain.ValueOr(b.SystemPrompt, "") &&
		sameJSON(a.Config, b.Config) && sameJSON(a.Template.JSON(), b.Template.JSON())
}

// sameJSON compares two JSON texts as SameCapture does. Texts that are not JSON are equal
// if their bytes are.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	options := []jsontext.Options{jsontext.CanonicalizeRawFloats(false), jsontext.CanonicalizeRawInts(false)}
	return x.Canonicalize(options...) == nil && y.Canonicalize(options...) == nil && bytes.Equal(x, y)
}

// SameDefault reports whether a server stores two values of a workspace's member as one. It keeps
// an empty list of tools and empty limits as null, and the value of a number but not its text,
// except in the list of keys.
func SameDefault(name string, a, b json.RawMessage) bool {
	if name == "io_logging_api_key_ids" {
		return sameJSON(a, b)
	}
	x, y := nullIfEmpty(a), nullIfEmpty(b)
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

// nullIfEmpty returns a copy of a value, or null for an empty list or object.
func nullIfEmpty(value json.RawMessage) jsontext.Value {
	text := jsontext.Value(bytes.Clone(value))
	if text.Compact() == nil && (string(text) == "[]" || string(text) == "{}") {
		return jsontext.Value("null")
	}
	return text
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// sameName reports whether the names are the same. The slug is the name of a preset without
// one.
func sameName(p, q Preset) bool {
	name := func(name *string) string {
		if name == nil {
			return p.Slug
		}
		return *name
	}
	return name(p.Name) == name(q.Name)
}

// number returns the version that a number of a label stands for, if it is known.
func (p Preset) number(n Number) Number {
	if n == Latest && p.Designated > 0 {
		return Number(p.Designated)
	}
	return n
}

// sameLabel reports whether a label of p and one of its file have the same target.
func (p Preset) sameLabel(a, b Label) bool {
	return (a.Split == nil) == (b.Split == nil) && p.number(a.Version) == p.number(b.Version) &&
		slices.EqualFunc(a.Split, b.Split, func(x, y Share) bool {
			return p.number(x.Version) == p.number(y.Version) && x.Weight == y.Weight
		})
}

func sameLabels(p, q Preset) bool { return maps.EqualFunc(p.Labels, q.Labels, p.sameLabel) }

func samePolicy(a, b *domain.Policy) bool {
	x, errA := jsonv2.Marshal(a, jsonv2.Deterministic(true))
	y, errB := jsonv2.Marshal(b, jsonv2.Deterministic(true))
	return errA == nil && errB == nil && sameJSON(x, y)
}

func sameLimits(a, b *domain.PresetLimits) bool { return a == b || a != nil && b != nil && *a == *b }

// sameEarlier reports whether the earlier versions are the same. A preset without any says
// nothing about them.
func sameEarlier(p, q Preset) bool {
	return len(p.Earlier) == 0 || slices.EqualFunc(p.Earlier, q.Earlier, func(a, b Version) bool {
		return sameText(a.Message, b.Message) && SameCapture(a.Capture, b.Capture)
	})
}

// SameInput reports whether two inputs are equal, as SameCapture compares JSON.
func SameInput(a, b inputs.Content) bool {
	x, errA := jsonv2.Marshal(a)
	y, errB := jsonv2.Marshal(b)
	return errA == nil && errB == nil && sameJSON(x, y)
}

// sameInputs reports whether q has the inputs of p, in any order. A preset without a list says nothing about them.
func sameInputs(p, q Preset) bool {
	return p.Inputs == nil || len(p.Inputs) == len(q.Inputs) && !slices.ContainsFunc(p.Inputs, func(in inputs.Content) bool {
		return !slices.ContainsFunc(q.Inputs, func(other inputs.Content) bool { return SameInput(in, other) })
	})
}

// same reports whether a file with q says what p says.
func same(p, q Preset) bool {
	return sameName(p, q) && sameText(p.Description, q.Description) && p.Status == q.Status && sameLabels(p, q) &&
		samePolicy(p.Policy, q.Policy) && sameLimits(p.Limits, q.Limits) && (p.Tags == nil || slices.Equal(p.Tags, q.Tags)) && sameInputs(p, q) && sameEarlier(p, q) && SameCapture(p.Version.Capture, q.Version.Capture)
}
