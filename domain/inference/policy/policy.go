// Package policy applies to a request what limits it: the policy of its preset, the limits of its key, and
// the server tools that its workspace disables. What is not known does not pass.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
)

// Policy is a preset's policy, prepared for requests of all dialects. It never changes. A
// nil policy allows everything.
type Policy struct {
	refuse bool
	// locks are in the order of the policy. limits are bounds and drops.
	locks, limits []*rule
	// promptLock is the name that locks the system prompt, or empty.
	promptLock string
	// reasoningLock is the name that locks a setting of reasoning, or empty.
	reasoningLock string
	// models are the patterns of allowed models. All are allowed if limitsModels is false.
	models       []string
	limitsModels bool
	limitsTools  bool // locks or drops them
	// opened are the fields of allow_fields.
	opened map[string]bool
}

// rule is a policy's rule for one setting.
type rule struct {
	name   string
	kind   ruleKind
	places []dialects.Place
	bounds []bound // of a boundRule
}

type ruleKind byte

const (
	lockRule ruleKind = iota
	boundRule
	dropRule
)

// New prepares a policy. An error means that it is damaged.
func New(stored *domain.Policy) (*Policy, error) {
	if stored == nil {
		return nil, nil
	}
	p := &Policy{refuse: stored.Violation == domain.RefuseViolation, models: stored.Models, limitsModels: stored.Models != nil, opened: map[string]bool{}}
	for _, name := range stored.AllowFields {
		p.opened[name] = true
	}
	for _, name := range stored.Lock {
		if isPromptName(name) {
			p.promptLock = name
			continue
		}
		r, err := newRule(name, lockRule)
		if err != nil {
			return nil, err
		}
		p.locks = append(p.locks, r)
		if slices.ContainsFunc(r.places, isOffSwitch) {
			p.reasoningLock = name
		}
	}
	if err := p.addBounds(stored.Bounds); err != nil {
		return nil, err
	}
	for _, name := range stored.Drop {
		r, err := newRule(strings.ToLower(name), dropRule)
		if err != nil {
			return nil, err
		}
		r.places = append(r.places, dialects.Place{Field: name}) // which may be in capitals
		p.limits = append(p.limits, r)
	}
	p.limitsTools = slices.ContainsFunc(slices.Concat(p.locks, p.limits), (*rule).isAboutTools)
	return p, nil
}

// addBounds adds bounds. Those of one setting under several names form one rule.
func (p *Policy) addBounds(stored map[string]domain.Bound) error {
	var rules []*rule
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		r, err := newRule(name, boundRule)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(rules, func(other *rule) bool { return slices.Equal(other.places, r.places) }); i >= 0 {
			r = rules[i]
		} else {
			rules = append(rules, r)
		}
		r.bounds = append(r.bounds, newBound(name, stored[name]))
	}
	for _, r := range rules {
		p.limits = append(p.limits, r)
		if field := overriding[r.name]; field != "" {
			p.locks = append(p.locks, &rule{name: r.name, kind: lockRule, places: []dialects.Place{{Field: field}}})
		}
	}
	return nil
}

func newRule(name string, kind ruleKind) (*rule, error) {
	r := &rule{name: name, kind: kind}
	if kind == boundRule {
		r.places = dialects.ScalarPlaces(name)
	} else {
		r.places = dialects.SettingPlaces(name)
	}
	if r.places == nil && kind == dropRule { // a field that is no setting has one name
		r.places = []dialects.Place{{Field: name}}
	}
	if r.places == nil {
		return nil, fmt.Errorf("no dialect has a setting of the name %q", name)
	}
	if field := overriding[name]; field != "" && (kind == lockRule || kind == dropRule && field == oldFormatField) {
		r.places = append(r.places, dialects.Place{Field: field})
	}
	switch {
	case kind == boundRule:
	case name == "tools":
		r.places = append(r.places, otherToolPlaces...)
	case name == "model": // a list of models can replace it
		r.places = append(r.places, dialects.SettingPlaces("models")...)
	}
	return r, nil
}

// isAboutTools reports whether r locks or drops tools.
func (r *rule) isAboutTools() bool { return r.name == "tools" }

// hasRuleAt reports whether a rule of the policy is about a field, or a part of it.
func (p *Policy) hasRuleAt(field string) bool {
	return slices.ContainsFunc(slices.Concat(p.locks, p.limits), func(r *rule) bool {
		return slices.ContainsFunc(r.places, func(at dialects.Place) bool { return at.Field == field })
	})
}

// IsLocked reports whether the policy locks a field, or a part of it.
func (p *Policy) IsLocked(field string) bool {
	return p != nil && slices.ContainsFunc(p.locks, func(r *rule) bool {
		return slices.ContainsFunc(r.places, func(at dialects.Place) bool { return at.Field == field })
	})
}

// locksAt reports whether the policy locks a place, or its whole field.
func (p *Policy) locksAt(at dialects.Place) bool {
	return slices.ContainsFunc(p.locks, func(r *rule) bool {
		return slices.Contains(r.places, at) || slices.Contains(r.places, dialects.Place{Field: at.Field})
	})
}

// isOffSwitch reports whether a place is one of offSwitches, or has one.
func isOffSwitch(at dialects.Place) bool {
	members, ok := offSwitches[at.Field]
	return ok && (at.Member == "" || slices.Contains(members, at.Member))
}

// Drops reports whether the policy drops a whole field.
func (p *Policy) Drops(field string) bool {
	return p != nil && slices.ContainsFunc(p.limits, func(r *rule) bool {
		return r.kind == dropRule && slices.Contains(r.places, dialects.Place{Field: field})
	})
}

// Disallows reports whether a bound of the policy does not allow a value at a place.
func (p *Policy) Disallows(at dialects.Place, value jsontext.Value) bool {
	return p != nil && slices.ContainsFunc(p.limits, func(r *rule) bool {
		return r.kind == boundRule && slices.Contains(r.places, at) && r.disallows(value) != ""
	})
}

// Cost is the memory that p takes, about, in bytes.
func (p *Policy) Cost() int {
	if p == nil {
		return 0
	}
	cost := 64 * len(p.opened)
	for _, r := range slices.Concat(p.locks, p.limits) {
		cost += 64 + 32*len(r.places) + 256*len(r.bounds)
	}
	for _, pattern := range p.models {
		cost += 16 + len(pattern)
	}
	return cost
}

// isPromptName reports whether a policy's name is that of the system prompt.
func isPromptName(name string) bool { return name == "system" || name == "instructions" }

// otherToolPlaces are the fields besides tools that give tools to a model. Plugins and a container
// count only with server tools.
var otherToolPlaces = func() []dialects.Place {
	places := []dialects.Place{{Field: "plugins"}, {Field: "functions"}, {Field: "function_call"}}
	for _, t := range serverTools {
		for _, field := range t.fields {
			places = append(places, dialects.Place{Field: field})
		}
	}
	return places
}()

// overriding has the field that overrides a setting, or a part of it, by the setting's
// name. A lock or a bound of the setting locks that field, too. Anthropic also takes the old name
// of output_config.format.
var overriding = map[string]string{
	"max_tool_calls": "stop_server_tools_when", "provider": "route",
	"response_format": oldFormatField, "text.format": oldFormatField, "output_config.format": oldFormatField,
	"text": oldFormatField, "output_config": oldFormatField,
}

const oldFormatField = "output_format"
