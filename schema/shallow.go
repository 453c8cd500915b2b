package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// shallowKeyword is the keyword for values of which only the surface matters,
// because they may be long and are not kept, or only in part. It holds a schema
// that sees of the value no more than its type, and of its items no more than
// theirs: what is below appears empty. Where a discriminator tells items apart,
// the schema sees those whose variant has rules as they are. So it may have type,
// and items with type and a discriminator.
//
// The value is read where it lies, item by item. Items that keep to the schema by
// their type and variant alone are never built, and do not count for MaxValues.
const shallowKeyword = "shallow"

type shallow struct {
	surface *jsonschema.Schema
}

func shallowOf(s *jsonschema.Schema) *shallow {
	sh, _ := s.Extensions[shallowKeyword].(*shallow)
	return sh
}

// skimmed is what the validator sees of a shallow value: its type, and those of
// its items that may break a rule.
type skimmed struct {
	kind  string
	items []skimmedItem
}

type skimmedItem struct {
	index int
	view  any
}

// skim returns the view of a shallow value. It ends after MaxViolations items that
// do break a rule.
func (b *builder) skim(p *plan, v jsontext.Value) (any, error) {
	s := &skimmed{kind: typeOf(v)}
	rule := p.surface.Items2020
	if rule == nil || s.kind != "array" {
		return s, nil
	}
	broken := 0
	for index, item := range items(v) {
		known, plain := sight(rule, item)
		if plain {
			continue
		}
		view := surfaceOf(item)
		if item.Kind() == '{' {
			var err error
			if view, err = b.value(p.items, item); err != nil {
				return nil, err
			}
		}
		s.items = append(s.items, skimmedItem{index, view})
		if !known {
			if broken++; broken == MaxViolations {
				break
			}
		}
	}
	return s, nil
}

// sight tells whether an item is of a type and variant that rule knows, and
// whether that is all that rule asks of it.
func sight(rule *jsonschema.Schema, item jsontext.Value) (known, plain bool) {
	if !slices.Contains(rule.Types, typeOf(item)) {
		return false, false
	}
	d := discriminatorOf(rule)
	if d == nil {
		return true, true
	}
	chosen := d.variants[string(textOf(item, d.property))]
	return chosen != nil, chosen != nil && chosen.schema.Ref == nil && asksNothing(chosen.schema)
}

// checkSurface refuses rules that skim passes by.
func checkSurface(s *jsonschema.Schema) error {
	seen := bare(s) && s.Ref == nil && len(s.Properties) == 0 && s.AdditionalProperties == nil
	if item := s.Items2020; item != nil {
		d := discriminatorOf(item)
		byVariant := d != nil && d.otherwise == nil && len(item.Required)+len(item.Extensions) == 2 &&
			slices.Equal(item.Types, []string{"object"}) && item.If == nil && item.Not == nil
		seen = seen && (bare(item) || byVariant) && item.Ref == nil && !descends(item)
	}
	if !seen {
		return fmt.Errorf("%s has rules that %s does not look at", s, shallowKeyword)
	}
	return nil
}

// Validate implements jsonschema.ExtSchema. It stops at MaxViolations items.
func (sh *shallow) Validate(ctx jsonschema.ValidationContext, v any) error {
	s := v.(*skimmed) // planFor sees to that
	if !slices.Contains(sh.surface.Types, s.kind) {
		return ctx.Error(shallowKeyword+"/type", "wrong type")
	}
	var broken []error
	for _, item := range s.items {
		if err := ctx.Validate(sh.surface.Items2020, shallowKeyword+"/items", item.view, strconv.Itoa(item.index)); err != nil {
			broken = append(broken, err)
		}
		if len(broken) == MaxViolations {
			break
		}
	}
	if broken == nil {
		return nil
	}
	return jsonschema.ValidationError{}.Group(ctx.Error(shallowKeyword, "broken items"), broken...)
}

// typeOf returns the JSON Schema type of v.
func typeOf(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	default:
		return "array"
	}
}

// surfaceOf returns a value of v's type.
func surfaceOf(v jsontext.Value) any {
	switch v.Kind() {
	case 'n':
		return nil
	case 't', 'f':
		return false
	case '"':
		return ""
	case '0':
		return json.Number("0")
	case '{':
		return emptyObject
	default:
		return emptyArray
	}
}

type shallowCompiler struct{}

// Compile implements jsonschema.ExtCompiler.
func (shallowCompiler) Compile(ctx jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	if _, ok := m[shallowKeyword]; !ok {
		return nil, nil
	}
	surface, err := ctx.Compile(shallowKeyword, true)
	if err != nil {
		return nil, err
	}
	if len(surface.Types) == 0 {
		return nil, fmt.Errorf("%s needs a type", shallowKeyword)
	}
	return &shallow{surface}, nil
}
