package schema

import (
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A plan says how to build the view of a value, which is what the validator
// sees of it: Go values for the parts that some rule looks at and next to
// nothing for the rest, so that neither the size nor the shape of a body
// decides what checking it costs.
//
// A plan is derived from the schemas that apply to the value: its own and
// those which that one applies in place ($ref, if, then, not and variants). A
// value is looked at when one of them states its type, a member when one of
// them names it, an item when one of them has a rule for items.
type plan struct {
	// typed is false for a value nobody looks at. The validator gets it as an
	// opaque.
	typed bool
	// surface is set for a value that is skimmed (see shallowKeyword), whose
	// items then have the plan for those that need a closer look.
	surface *jsonschema.Schema
	// types is set when these types are all that is asked of a value, apart
	// from what is asked of its members or items.
	types []string
	// values is types for a value that must be one of a few.
	values []any
	// kept tells of a member that a rule asks whether it is there.
	kept bool
	// members has the plans of named members. Others follow rest, and are
	// left out when rest is nil.
	members map[string]*plan
	rest    *plan
	// items is for each item of an array, left out when items is nil.
	items *plan
	// most is how many members or items to look at when the number of them is
	// limited, which is one too many, and 0 otherwise.
	most int
	// selector names the member that tells which variant takes the place of
	// this plan; otherwise does for all other values. It is empty when there
	// are no variants.
	selector  string
	variants  map[string]*plan
	otherwise *plan
}

// planFor derives the plan of a value that schemas apply to, all of them. It
// fails when the plan could not show a rule what it needs to see.
func planFor(schemas ...*jsonschema.Schema) (*plan, error) {
	return planWithout(nil, schemas)
}

// planWithout is planFor when the variants of the discriminators in resolved
// are already among schemas.
func planWithout(resolved []*discriminator, schemas []*jsonschema.Schema) (*plan, error) {
	p := &plan{}
	parts := inPlace(schemas)
	var types [][]string
	var values [][]any
	simple := true
	for _, s := range parts {
		if len(s.Types) > 0 {
			types = append(types, s.Types)
		}
		if v := allowed(s); v != nil {
			values = append(values, v)
		}
		simple = simple && bare(s)
	}
	p.typed = len(types) > 0
	switch {
	case simple && len(types) == 1 && len(values) == 0:
		p.types = types[0]
	case simple && len(types) == 1 && len(values) == 1:
		p.values = values[0]
	}
	if err := checkVisible(p.typed, parts); err != nil {
		return nil, err
	}
	if err := p.planMembers(parts); err != nil {
		return nil, err
	}
	if err := p.planItems(parts); err != nil {
		return nil, err
	}
	for _, s := range parts {
		if sh := shallowOf(s); sh != nil {
			p.surface = sh.surface
			if err := checkSurface(sh.surface); err != nil {
				return nil, err
			}
			return p, p.planItems([]*jsonschema.Schema{sh.surface})
		}
		d := discriminatorOf(s)
		if d == nil {
			continue
		}
		p.members[d.property].typed = true
		if !slices.Contains(resolved, d) {
			return p, p.planVariants(d, append(resolved, d), schemas)
		}
	}
	return p, nil
}

// checkVisible refuses rules that a view would hide from the validator, or
// show a value that it cannot take.
func checkVisible(typed bool, parts []*jsonschema.Schema) error {
	for _, s := range parts {
		if !typed && (allowed(s) != nil || descends(s) || !bare(s) && s.Not == nil && shallowOf(s) == nil) {
			return fmt.Errorf("%s has rules for a value without stating its type", s)
		}
		if shallowOf(s) != nil && typed {
			return fmt.Errorf("%s has both a type and %s", s, shallowKeyword)
		}
		if d := discriminatorOf(s); d != nil && !slices.Contains(s.Required, d.property) {
			return fmt.Errorf("%s has a %s but does not require %s", s, discriminatorKeyword, d.property)
		}
	}
	return nil
}

// bare tells whether s asks nothing of the value itself but to be of a type, or
// one of a few values.
func bare(s *jsonschema.Schema) bool {
	return len(s.Required)+len(s.Extensions) == 0 &&
		s.Not == nil && s.If == nil && s.PropertyNames == nil && s.Pattern == nil &&
		s.Minimum == nil && s.Maximum == nil && s.MinLength < 0 && s.MaxLength < 0 &&
		s.MinItems < 0 && s.MaxItems < 0 && s.MinProperties < 0 && s.MaxProperties < 0
}

// allowed returns the values that s lists, or nil.
func allowed(s *jsonschema.Schema) []any {
	if s.Constant != nil {
		return s.Constant
	}
	return s.Enum
}

// descends tells whether s has rules for members or items.
func descends(s *jsonschema.Schema) bool {
	return len(s.Properties) > 0 || s.AdditionalProperties != nil || s.Items2020 != nil
}

func (p *plan) planMembers(parts []*jsonschema.Schema) (err error) {
	p.members = make(map[string]*plan)
	var rest []*jsonschema.Schema
	counted := false
	for _, s := range parts {
		for _, name := range s.Required {
			p.members[name] = nil
		}
		for name := range s.Properties {
			p.members[name] = nil
		}
		if a := additional(s); a != nil {
			rest = append(rest, a)
		}
		counted = counted || s.PropertyNames != nil || s.MinProperties >= 0 || s.MaxProperties >= 0
		p.most = max(p.most, s.MaxProperties+1)
	}
	for name := range p.members {
		var subs []*jsonschema.Schema
		for _, s := range parts {
			if sub := s.Properties[name]; sub != nil {
				subs = append(subs, sub)
			} else if a := additional(s); a != nil {
				subs = append(subs, a)
			}
		}
		if p.members[name], err = planFor(subs...); err != nil {
			return err
		}
		p.members[name].kept = counted || slices.ContainsFunc(parts, func(s *jsonschema.Schema) bool {
			return slices.Contains(s.Required, name)
		})
	}
	if counted || rest != nil {
		if p.rest, err = planFor(rest...); err != nil {
			return err
		}
		p.rest.kept = counted
	}
	return nil
}

func (p *plan) planItems(parts []*jsonschema.Schema) (err error) {
	var items []*jsonschema.Schema
	counted := false
	for _, s := range parts {
		if s.Items2020 != nil {
			items = append(items, s.Items2020)
		}
		counted = counted || s.MinItems >= 0 || s.MaxItems >= 0
		p.most = max(p.most, s.MaxItems+1)
	}
	if counted || items != nil {
		p.items, err = planFor(items...)
	}
	return err
}

func (p *plan) planVariants(d *discriminator, resolved []*discriminator, schemas []*jsonschema.Schema) (err error) {
	p.selector = d.property
	p.variants = make(map[string]*plan, len(d.variants))
	for name, v := range d.variants {
		p.variants[name], err = planWithout(resolved, append(slices.Clip(schemas), v.schema))
		if err != nil {
			return err
		}
	}
	if d.otherwise != nil {
		schemas = append(slices.Clip(schemas), d.otherwise.schema)
	}
	p.otherwise, err = planWithout(resolved, schemas)
	return err
}

// inPlace returns schemas and those that they apply to the same value, save
// the variants of discriminators.
func inPlace(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	var parts []*jsonschema.Schema
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || slices.Contains(parts, s) {
			return
		}
		parts = append(parts, s)
		for _, part := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
			add(part)
		}
	}
	for _, s := range schemas {
		add(s)
	}
	return parts
}

// additional returns the schema of members that s does not name, or nil.
func additional(s *jsonschema.Schema) *jsonschema.Schema {
	a, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return a
}
