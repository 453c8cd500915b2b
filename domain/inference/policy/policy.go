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
	"github.com/caddy-presets/caddy-presets/domain/inference/servertools"
)

// Policy is a preset's policy, prepared for requests of all dialects. It never changes. A
// nil policy allows everything.
type Policy struct {
	refuse bool
	// The rules of each kind are in the order of the policy.
	locks, bounds, drops []*rule
	// promptLock is the name that locks the system prompt, and reasoningLock one that locks a setting of
	// reasoning. Both may be empty.
	promptLock, reasoningLock string
	// models are the patterns of allowed models. All are allowed if limitsModels is false.
	models       []string
	limitsModels bool
	limitsTools  bool // locks or drops them
	limitsEffort bool // has a rule that is about perMessage, or a part of it
	// opened are the fields of allow_fields.
	opened map[string]bool
}

// rule is a policy's rule for one setting.
type rule struct {
	name   string
	places []dialects.Place
	bounds []bound // of a rule among Policy.bounds
}

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
		places := settingPlaces(name)
		switch {
		case isPromptName(name):
			p.promptLock = name
			continue
		case places == nil:
			return nil, errNoSetting(name)
		case slices.ContainsFunc(places, isOffSwitch):
			p.reasoningLock = name
		}
		p.locks = append(p.locks, &rule{name: name, places: places})
	}
	if err := p.addBounds(stored.Bounds); err != nil {
		return nil, err
	}
	for _, name := range stored.Drop {
		known := strings.ToLower(name)
		places := append(settingPlaces(known), dialects.Place{Field: known}, dialects.Place{Field: name}) // which may be in capitals
		p.drops = append(p.drops, &rule{name: known, places: places})
	}
	rules := slices.Concat(p.locks, p.bounds, p.drops)
	p.limitsEffort = isAnyAt(rules, func(at dialects.Place) bool { return at.Field == perMessage })
	p.limitsTools = slices.ContainsFunc(slices.Concat(p.locks, p.drops), (*rule).isAboutTools)
	return p, nil
}

// addBounds adds bounds. Those of one setting under several names form one rule.
func (p *Policy) addBounds(stored map[string]domain.Bound) error {
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		places := dialects.ScalarPlaces(name)
		if places == nil {
			return errNoSetting(name)
		}
		i := slices.IndexFunc(p.bounds, func(other *rule) bool { return slices.Equal(other.places, places) })
		if i < 0 {
			i = len(p.bounds)
			p.bounds = append(p.bounds, &rule{name: name, places: places})
			for _, field := range besides[name] {
				p.locks = append(p.locks, &rule{name: name, places: []dialects.Place{{Field: field}}})
			}
		}
		p.bounds[i].bounds = append(p.bounds[i].bounds, bound{name, stored[name]})
	}
	return nil
}

func errNoSetting(name string) error {
	return fmt.Errorf("no dialect has a setting of the name %q", name)
}

// settingPlaces returns the places that a lock or a drop of a setting is about, nil if there is no setting
// of this name.
func settingPlaces(name string) []dialects.Place {
	places := dialects.SettingPlaces(name)
	for _, at := range places {
		for _, field := range besides[at.Field] {
			places = append(places, dialects.Place{Field: field})
		}
	}
	return places
}

// besides are the other fields that override a setting, or do the same, by the setting's field. Plugins and a
// container count as tools only with server tools. Anthropic also takes the old name of output_config.format.
var besides = map[string][]string{
	"model": {"models", "fallbacks"}, "max_tool_calls": {"stop_server_tools_when"}, "provider": {"route"},
	"response_format": {"output_format"},
	"tools":           slices.Concat([]string{"plugins", "functions", "function_call"}, slices.Sorted(maps.Keys(servertools.ByField))),
}

// isAboutTools reports whether r locks or drops tools.
func (r *rule) isAboutTools() bool { return r.name == "tools" }

// isAnyAt reports whether one of rules has a place like this.
func isAnyAt(rules []*rule, is func(at dialects.Place) bool) bool {
	return slices.ContainsFunc(rules, func(r *rule) bool { return slices.ContainsFunc(r.places, is) })
}

// IsLocked reports whether the policy locks a field, or a part of it.
func (p *Policy) IsLocked(field string) bool {
	return p != nil && isAnyAt(p.locks, func(at dialects.Place) bool { return at.Field == field })
}

// Drops reports whether the policy drops a whole field.
func (p *Policy) Drops(field string) bool {
	return p != nil && isAnyAt(p.drops, func(at dialects.Place) bool { return at == dialects.Place{Field: field} })
}

// Disallows reports whether a bound of the policy does not allow a value at a place.
func (p *Policy) Disallows(at dialects.Place, value jsontext.Value) bool {
	return p != nil && slices.ContainsFunc(p.bounds, func(r *rule) bool { return slices.Contains(r.places, at) && r.disallows(value) != "" })
}

// isOffSwitch reports whether a place is one of offSwitches, or has one.
func isOffSwitch(at dialects.Place) bool {
	return slices.ContainsFunc(offSwitches, func(off dialects.Place) bool {
		return off.Field == at.Field && (off.Member == "" || at.Member == "" || off == at)
	})
}

// Cost is the memory that p takes, about, in bytes.
func (p *Policy) Cost() int {
	if p == nil {
		return 0
	}
	return 64*len(p.opened) + 512*(len(p.locks)+len(p.bounds)+len(p.drops)) + 300*len(p.models)
}

// isPromptName reports whether a policy's name is that of the system prompt.
func isPromptName(name string) bool { return name == "system" || name == "instructions" }
