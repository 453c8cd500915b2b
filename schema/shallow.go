package schema

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// shallowKeyword is the keyword for values that are checked only at their surface, unless
// another rule looks at them whole. They may be long and are not fully kept. It holds a schema that may have a type, and items with a
// type and a discriminator. Items of a variant without rules are never decoded, and do not
// count for MaxValues. The others are decoded one by one.
const shallowKeyword = "shallow"

type shallow struct {
	surface *jsonschema.Schema
}

func shallowOf(s *jsonschema.Schema) *shallow {
	sh, _ := s.Extensions[shallowKeyword].(*shallow)
	return sh
}

// skimmed is the validator's view of a shallow value: its type, and the items that may
// break a rule.
type skimmed struct {
	kind  jsontext.Kind
	items []skimmedItem
}

type skimmedItem struct {
	index int
	view  any
}

// skim returns the view of a shallow value. It ends after MaxViolations broken items.
func (d *decoder) skim(surface *jsonschema.Schema, v jsontext.Value) (any, error) {
	s := &skimmed{kind: v.Kind()}
	rule := surface.Items2020
	if rule == nil || s.kind != '[' {
		return s, nil
	}
	variants := discriminatorOf(rule)
	broken := 0
	for index, item := range rawjson.Items(v) {
		kind := item.Kind()
		sound := slices.Contains(rule.Types, kinds[kind].name)
		if sound && variants == nil {
			continue
		}
		if sound {
			chosen := variants.choose(string(textOf(item, variants.property)))
			if sound = chosen != nil; sound && chosen.schema.Ref == nil && !hasRules(chosen.schema) {
				continue
			}
		}
		view := kinds[kind].sample
		if kind == '{' {
			var err error
			if view, err = d.value(item, []*jsonschema.Schema{rule}); err != nil {
				return nil, err
			}
		}
		s.items = append(s.items, skimmedItem{index, view})
		if !sound {
			if broken++; broken == MaxViolations {
				break
			}
		}
	}
	return s, nil
}

// kinds are the types of JSON Schema, each with a sample value.
var kinds = map[jsontext.Kind]struct {
	name   string
	sample any
}{
	'n': {"null", nil},
	't': {"boolean", true},
	'f': {"boolean", false},
	'"': {"string", ""},
	'0': {"number", json.Number("0")},
	'{': {"object", emptyObject},
	'[': {"array", emptyArray},
}

// Validate implements jsonschema.ExtSchema. It stops at MaxViolations items.
func (sh *shallow) Validate(ctx jsonschema.ValidationContext, v any) error {
	s, ok := v.(*skimmed)
	if !ok {
		return nil // another rule looks at it whole
	}
	if !slices.Contains(sh.surface.Types, kinds[s.kind].name) {
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

type shallowCompiler struct{}

// Compile implements jsonschema.ExtCompiler.
func (shallowCompiler) Compile(ctx jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	if _, ok := m[shallowKeyword]; !ok {
		return nil, nil
	}
	surface, err := ctx.Compile(shallowKeyword, true)
	return &shallow{surface}, err
}
