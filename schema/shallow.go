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
// because they may be long and are not kept. It holds a schema that sees of
// the value no more than its type, and of its items no more than theirs: what
// is below appears empty. So the schema may have type, and items with type.
//
// The value is read where it lies, item by item, and never built.
const shallowKeyword = "shallow"

type shallow struct {
	surface *jsonschema.Schema
}

func shallowOf(s *jsonschema.Schema) *shallow {
	sh, _ := s.Extensions[shallowKeyword].(*shallow)
	return sh
}

// Validate implements jsonschema.ExtSchema. It stops at MaxViolations items.
func (sh *shallow) Validate(ctx jsonschema.ValidationContext, v any) error {
	text := jsontext.Value(v.(opaque)) // planFor sees to that
	if !slices.Contains(sh.surface.Types, typeOf(text)) {
		return ctx.Error(shallowKeyword+"/type", "wrong type")
	}
	rule := sh.surface.Items2020
	if rule == nil || text.Kind() != '[' {
		return nil
	}
	var broken []error
	for index, item := range items(text) {
		if slices.Contains(rule.Types, typeOf(item)) {
			continue
		}
		if err := ctx.Validate(rule, shallowKeyword+"/items", surfaceOf(item), strconv.Itoa(index)); err != nil {
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
