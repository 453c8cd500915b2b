package schema

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// discriminatorKeyword is the keyword for objects of several variants. It is OpenAPI 3.2's
// Discriminator Object. The value of the member propertyName selects a variant. mapping has
// the reference of each variant's schema. defaultMapping has the reference for all other
// values; without it they are refused.
//
// Only the selected variant is checked. That is several times faster than oneOf, and a
// violation describes the variant that the client chose. An object without the member
// breaks the rule required, which must stand beside the keyword.
const discriminatorKeyword = "discriminator"

type discriminator struct {
	property  string
	variants  map[string]*variant
	otherwise *variant // nil: other values are refused
}

type variant struct {
	schema *jsonschema.Schema
	path   string // the path from the schema with the keyword
}

func discriminatorOf(s *jsonschema.Schema) *discriminator {
	d, _ := s.Extensions[discriminatorKeyword].(*discriminator)
	return d
}

// names returns the values that select a variant, sorted.
func (d *discriminator) names() []string {
	return slices.Sorted(maps.Keys(d.variants))
}

// choose returns the variant that a value selects, or nil.
func (d *discriminator) choose(value string) *variant {
	if chosen := d.variants[value]; chosen != nil {
		return chosen
	}
	return d.otherwise
}

// Validate implements jsonschema.ExtSchema.
func (d *discriminator) Validate(ctx jsonschema.ValidationContext, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	selector, ok := object[d.property]
	if !ok {
		return nil
	}
	name, _ := selector.(string)
	if raw, ok := selector.(opaque); ok && jsontext.Value(raw).Kind() == '"' {
		name = string(unquote(jsontext.Value(raw)))
	}
	chosen := d.choose(name)
	if chosen == nil {
		return ctx.Error(discriminatorKeyword, "no such variant")
	}
	return ctx.Validate(chosen.schema, chosen.path, v, "")
}

type discriminatorCompiler struct{}

// Compile implements jsonschema.ExtCompiler.
func (discriminatorCompiler) Compile(ctx jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	keyword, ok := m[discriminatorKeyword]
	if !ok {
		return nil, nil
	}
	object := keyword.(map[string]any)
	d := &discriminator{property: object["propertyName"].(string), variants: make(map[string]*variant)}
	for name, ref := range object["mapping"].(map[string]any) {
		v, err := compileVariant(ctx, ref, discriminatorKeyword+"/mapping/"+name)
		if err != nil {
			return nil, err
		}
		d.variants[name] = v
	}
	if ref, ok := object["defaultMapping"]; ok {
		v, err := compileVariant(ctx, ref, discriminatorKeyword+"/defaultMapping")
		if err != nil {
			return nil, err
		}
		d.otherwise = v
	}
	return d, nil
}

func compileVariant(ctx jsonschema.CompilerContext, ref any, path string) (*variant, error) {
	s, err := ctx.CompileRef(ref.(string), path, true)
	if err != nil {
		return nil, err
	}
	return &variant{s, path}, nil
}
