package domain

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
)

// Policy says which settings a request for a preset may change. It holds for all versions
// and labels. The names of settings are those of any dialect, and mean the same setting in
// each. Its struct tags are its stored form, and what clients see.
type Policy struct {
	// Lock are settings whose value in the preset always wins.
	Lock []string `json:"lock,omitempty"`
	// Bounds are the allowed values of settings. The preset's own values have them, too.
	Bounds map[string]Bound `json:"bounds,omitempty"`
	// Models are patterns of the models that a request may name besides the preset's own.
	// See modelpattern.Match. Nil allows all models, an empty list allows none.
	Models []string `json:"models,omitzero"`
	// Drop are top-level fields that never go upstream. Settings are among them, and are
	// dropped under all of their names.
	Drop []string `json:"drop,omitempty"`
	// AllowFields are top-level fields that pass although the request's API does not have them. What is in
	// them is not looked into.
	AllowFields []string  `json:"allow_fields,omitempty"`
	Violation   Violation `json:"violation"`
}

// Bound has the allowed values of a setting. Those that are zero allow all values.
type Bound struct {
	// Min and Max are numbers. Another value than a number breaks them.
	Min jsontext.Value `json:"min,omitzero"`
	Max jsontext.Value `json:"max,omitzero"`
	// In are strings, numbers and booleans.
	In []jsontext.Value `json:"in,omitzero"`
}

// Violation says what becomes of a request that breaks a policy.
type Violation string

const (
	// OverrideViolation puts an allowed value in the place of the request's. It is the
	// default.
	OverrideViolation Violation = "override"
	// RefuseViolation refuses the request.
	RefuseViolation Violation = "refuse"
)

// NeverDropped are the top-level fields of a request without which it asks for nothing.
var NeverDropped = []string{"model", "messages", "input", "instructions", "system"}

// MaxPolicySize bounds the JSON of a policy, in bytes.
const MaxPolicySize = 16 << 10

// Check returns an Invalid error if p breaks a rule that its JSON Schema cannot express.
// The error names the place in the body of a preset's update.
func (p *Policy) Check() error {
	if p == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Bounds)) {
		b := p.Bounds[name]
		if b.Min == nil && b.Max == nil && b.In == nil {
			return InvalidAt("/policy/bounds/"+name, "must have min, max or in")
		}
		if b.Min != nil && b.Max != nil && number(b.Min) > number(b.Max) {
			return InvalidAt("/policy/bounds/"+name, "min must not be above max")
		}
	}
	for i, pattern := range p.Models {
		if err := modelpattern.Check(pattern); err != nil {
			return InvalidAt("/policy/models/"+strconv.Itoa(i), err.Error())
		}
	}
	for i, name := range p.Drop {
		if slices.Contains(NeverDropped, strings.ToLower(name)) {
			return InvalidAt("/policy/drop/"+strconv.Itoa(i), name+" cannot be dropped")
		}
	}
	switch text, err := p.encode(); {
	case err != nil:
		return err
	case len(text) > MaxPolicySize:
		return InvalidAt("/policy", fmt.Sprintf("must be at most %d bytes of JSON", MaxPolicySize))
	}
	return nil
}

// number returns the value of a number, which is infinite beyond the range of float64.
func number(text jsontext.Value) float64 {
	n, _ := strconv.ParseFloat(string(text), 64)
	return n
}

// encode returns the JSON of p. Equal policies have equal JSON.
func (p *Policy) encode() ([]byte, error) { return jsonv2.Marshal(p, jsonv2.Deterministic(true)) }

// equals reports whether both policies are stored alike.
func (p *Policy) equals(other *Policy) (bool, error) {
	a, err := p.encode()
	if err != nil {
		return false, err
	}
	b, err := other.encode()
	return bytes.Equal(a, b), err
}
