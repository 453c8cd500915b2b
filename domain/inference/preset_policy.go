package inference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// policy is a preset's policy, prepared for requests of all dialects. It never changes. A
// nil policy allows everything.
type policy struct {
	refuse bool
	// locks are in the order of the policy. lockedBy and limitedBy have the rules for a
	// field, by its folded name. Limits are bounds and drops.
	locks               []*rule
	lockedBy, limitedBy map[string][]target
	// promptLock is the name that locks the system prompt, or empty.
	promptLock string
	// models are the patterns of allowed models. All are allowed if limitsModels is false.
	models       []string
	limitsModels bool
	// toolsName is the name that locks or drops tools, or empty.
	toolsName string
}

// rule is a policy's rule for one setting.
type rule struct {
	name   string
	kind   ruleKind
	places []place
	bounds []bound // of a boundRule
}

type ruleKind byte

const (
	lockRule ruleKind = iota
	boundRule
	dropRule
)

// place is a field of a request, or a member of a field.
type place struct{ field, member string }

// target is a rule's place within a field. It is the whole field if member is empty.
type target struct {
	*rule
	place
}

// newPolicy prepares a policy. An error means that it is damaged.
func newPolicy(stored *domain.Policy) (*policy, error) {
	if stored == nil {
		return nil, nil
	}
	p := &policy{
		refuse: stored.Violation == domain.RefuseViolation, models: stored.Models, limitsModels: stored.Models != nil,
		lockedBy: map[string][]target{}, limitedBy: map[string][]target{},
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
		p.addTo(p.lockedBy, r)
	}
	if err := p.addBounds(stored.Bounds); err != nil {
		return nil, err
	}
	for _, name := range stored.Drop {
		r, err := newRule(foldName(name), dropRule)
		if err != nil {
			return nil, err
		}
		p.addTo(p.limitedBy, r)
	}
	return p, nil
}

// addBounds adds bounds. Those of one setting under several names form one rule.
func (p *policy) addBounds(stored map[string]domain.Bound) error {
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
		p.addTo(p.limitedBy, r)
		if field := overriding[r.name]; field != "" {
			lock := &rule{name: r.name, kind: lockRule, places: []place{{field: field}}}
			p.locks = append(p.locks, lock)
			p.addTo(p.lockedBy, lock)
		}
	}
	return nil
}

func newRule(name string, kind ruleKind) (*rule, error) {
	r := &rule{name: name, kind: kind}
	if kind == boundRule {
		r.places = scalarPlaces(name)
	} else {
		r.places = settingPlaces(name)
	}
	if r.places == nil && kind == dropRule { // a field that is no setting has one name
		r.places = []place{{field: name}}
	}
	if r.places == nil {
		return nil, fmt.Errorf("no dialect has a setting of the name %q", name)
	}
	if field := overriding[name]; field != "" && (kind == lockRule || kind == dropRule && field == oldFormatField) {
		r.places = append(r.places, place{field: field})
	}
	switch {
	case kind == boundRule:
	case name == "tools":
		r.places = append(r.places, otherToolPlaces...)
	case name == "model": // a list of models can replace it
		for _, field := range modelFields[1:] {
			r.places = append(r.places, place{field: field})
		}
		r.places = append(append(r.places, settingPlaces("models")...), otherFallbackPlaces...)
	case slices.Contains(r.places, place{field: "models"}):
		r.places = append(r.places, otherFallbackPlaces...)
	}
	return r, nil
}

// addTo adds the places of a rule to an index.
func (p *policy) addTo(index map[string][]target, r *rule) {
	if r.name == "tools" {
		p.toolsName = r.name
	}
	for _, at := range r.places {
		index[at.field] = append(index[at.field], target{r, at})
	}
}

// drops reports whether the policy drops a whole field.
func (p *policy) drops(field string) bool {
	return p != nil && slices.ContainsFunc(p.limitedBy[field], func(t target) bool { return t.kind == dropRule && t.member == "" })
}

// cost is the memory that p takes, about, in bytes.
func (p *policy) cost() int {
	if p == nil {
		return 0
	}
	cost := minEntryCost
	for _, index := range []map[string][]target{p.lockedBy, p.limitedBy} {
		for _, targets := range index {
			cost += 64 + 128*len(targets)
			for _, t := range targets {
				cost += 256 * len(t.bounds)
			}
		}
	}
	for _, pattern := range p.models {
		cost += 16 + len(pattern)
	}
	return cost
}

// isPromptName reports whether a policy's name is that of the system prompt.
func isPromptName(name string) bool { return name == "system" || name == "instructions" }

// otherToolPlaces are the fields besides tools that give tools to a model. Plugins count
// only if they are server tools.
var otherToolPlaces = func() []place {
	places := []place{{field: "plugins"}, {field: "functions"}, {field: "function_call"}}
	for _, t := range serverTools {
		for _, field := range t.fields {
			places = append(places, place{field: field})
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

// otherFallbackPlaces are the fields besides fallbacks that replace the model.
var otherFallbackPlaces = func() (places []place) {
	for _, field := range fallbackFields {
		if settingFields[field] == 0 {
			places = append(places, place{field: field})
		}
	}
	return places
}()

// allPaths returns the setting's names in all dialects.
func (c counterpart) allPaths() []string {
	return slices.Concat(slices.Collect(maps.Values(c.paths))...)
}

// settingPaths returns the paths of a setting in all dialects, nil if there is no setting
// of this name. The name of a field that is no setting itself stands for all settings in it.
func settingPaths(name string) []string {
	paths := map[string]bool{}
	if settingFields[name] != 0 && !presetOnly[name] {
		paths[name] = true
	}
	isSetting := slices.ContainsFunc(counterparts, func(c counterpart) bool { return slices.Contains(c.allPaths(), name) })
	for _, c := range counterparts {
		for _, path := range c.allPaths() {
			if path == name || c.within[path] == name || !isSetting && strings.HasPrefix(path, name+".") {
				paths[path] = true
			}
		}
	}
	// A counterpart of a counterpart is the same setting: models and fallbacks.
	for known := 0; known < len(paths); {
		known = len(paths)
		for _, c := range counterparts {
			if own := c.allPaths(); slices.ContainsFunc(own, func(path string) bool { return paths[path] }) {
				for _, path := range own {
					paths[path] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// settingPlaces returns the places of a setting in all dialects. It leaves out members of
// fields that are places themselves.
func settingPlaces(name string) (places []place) {
	paths := settingPaths(name)
	for _, path := range paths {
		if field := fieldOf(path); field == path || !slices.Contains(paths, field) {
			places = append(places, placeOf(path))
		}
	}
	return places
}

// scalarPlaces returns the places of a setting that is a number, a string or a boolean.
func scalarPlaces(name string) (places []place) {
	for _, path := range settingPaths(name) {
		for _, c := range counterparts {
			if within := c.within[path]; within != "" {
				path = within
			}
		}
		places = append(places, placeOf(path))
	}
	return places
}

// samePlaces has the places of the same setting, by each of its places.
var samePlaces = func() map[place][]place {
	all := map[place][]place{}
	for _, c := range counterparts {
		for _, path := range append(c.allPaths(), slices.Collect(maps.Values(c.within))...) {
			all[placeOf(path)] = scalarPlaces(path)
		}
	}
	all[place{field: oldFormatField}] = scalarPlaces("output_config.format")
	return all
}()

func placeOf(path string) place {
	field, member, _ := strings.Cut(path, ".")
	return place{field, member}
}

// foldName returns a field's name in the letter case of the dialects. Some gateways read
// names in any letter case.
func foldName(name string) string {
	for i := range len(name) {
		if c := name[i]; ('a' > c || c > 'z') && c != '_' {
			if len(name) > 64 { // longer than all names
				return name
			}
			return strings.ToLower(strings.ToUpper(name))
		}
	}
	return name
}
