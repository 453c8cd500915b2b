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
	// See MatchModel. Nil allows all models, an empty list allows none.
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
		if err := CheckModelPattern(pattern); err != nil {
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

// MaxModelPattern bounds a model pattern, in bytes.
const MaxModelPattern = 256

const maxPatternStars = 4

// CheckModelPattern returns why a text is no model pattern. A pattern has 1 to
// MaxModelPattern printable ASCII characters without spaces, and at most four *.
func CheckModelPattern(pattern string) error {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if pattern == "" || len(pattern) > MaxModelPattern || strings.ContainsFunc(pattern, unprintable) {
		return fmt.Errorf("must have 1 to %d printable ASCII characters and no space", MaxModelPattern)
	}
	if strings.Count(pattern, "*") > maxPatternStars {
		return fmt.Errorf("must have at most %d *", maxPatternStars)
	}
	return nil
}

// MatchModel reports whether a model matches a pattern. A * in the pattern matches any
// characters except a colon and a comma. So a suffix like ":online" needs a pattern of its
// own. LiteLLM runs each model of a list with commas. Its time is linear in the model.
func MatchModel(pattern, model string) bool {
	part, rest, star := strings.Cut(pattern, "*")
	model, ok := strings.CutPrefix(model, part)
	for ok && star {
		part, rest, star = strings.Cut(rest, "*")
		// The first place of a part is the best: any other leaves less to the next *.
		place := strings.Index(model, part)
		if !star {
			place = len(model) - len(part) // the pattern ends here
		}
		if place < 0 || model[place:place+len(part)] != part || strings.ContainsAny(model[:place], ":,") {
			return false
		}
		model = model[place+len(part):]
	}
	return ok && model == ""
}
