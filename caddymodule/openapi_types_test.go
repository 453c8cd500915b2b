package caddymodule

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestOpenAPITypes checks that generators of clients get each type with a name, and nothing that
// they do not understand.
func TestOpenAPITypes(t *testing.T) {
	inBoth(t, func(t *testing.T, doc document) {
		doc.eachSchema(func(place string, s map[string]any) {
			last := place[strings.LastIndexByte(place, '/')+1:]
			named := strings.Count(place, "/") == 3 // #/components/schemas/ and its name
			inType := strings.Contains(place, "/allOf/") || strings.HasSuffix(place, "/not") || strings.Contains(place, "/not/") || last == "then" || last == "if" || last == "else"
			words, _ := s["enum"].([]any)
			if kinds, _ := s["type"].([]any); (s["type"] == "array" || slices.Contains(kinds, any("array"))) && s["items"] == nil {
				t.Errorf("%s: a list has no schema of its items", place)
			}
			if (s["properties"] != nil || words != nil) && !named && !inType && last != "propertyNames" {
				t.Errorf("%s: a type has no name", place)
			}
			if len(words) == 1 {
				t.Errorf("%s: one value is no enumeration", place)
			}
			folded := make(map[string]bool)
			for _, word := range words {
				word, _ := word.(string)
				if folded[fold(word)] && !inType {
					t.Errorf("%s: %s folds into the name of another word", place, word)
				}
				folded[fold(word)] = true
			}
		})
	})
}

// eachSchema calls visit with the place of each schema of the document, and of each in it. A
// schema that is true or false is the empty one, and only the keyword additionalProperties may
// have such a schema.
func (d document) eachSchema(visit func(place string, s map[string]any)) {
	var walk func(place string, value any)
	walk = func(place string, value any) {
		s, _ := value.(map[string]any)
		visit(place, s)
		for keyword, value := range s {
			place := place + "/" + keyword
			switch keyword {
			case "properties":
				for name, part := range value.(map[string]any) {
					walk(place+"/"+name, part)
				}
			case "allOf", "anyOf", "oneOf":
				for _, part := range value.([]any) {
					walk(place+"/0", part)
				}
			case "additionalProperties":
				if _, plain := value.(bool); !plain {
					walk(place, value)
				}
			case "items", "propertyNames", "not", "if", "then", "else":
				walk(place, value)
			}
		}
	}
	var find func(place string, value any)
	find = func(place string, value any) {
		object, _ := value.(map[string]any)
		for name, value := range object {
			switch place := place + "/" + name; {
			case place == "#/components/schemas":
				for name, s := range value.(map[string]any) {
					walk(place+"/"+name, s)
				}
			case name == "schema":
				walk(place, value)
			default:
				find(place, value)
			}
		}
	}
	find("#", map[string]any(d))
}

// TestTypeNames checks the names and the forms that types get.
func TestTypeNames(t *testing.T) {
	for _, test := range []struct{ name, given, want string }{
		{"an object in a property, a list and a map", `
A:
  type: object
  properties:
    own_part: {type: object, properties: {a: {type: string}}}
    all: {type: array, items: {type: object, properties: {b: {type: string}}}}
    by_name: {type: object, additionalProperties: {title: A thing, type: object, properties: {c: {type: string}}}}
`, `
A:
  type: object
  properties:
    own_part: {$ref: '#/components/schemas/AOwnPart'}
    all: {type: array, items: {$ref: '#/components/schemas/AAllItem'}}
    by_name: {type: object, additionalProperties: {$ref: '#/components/schemas/AThing'}}
AOwnPart: {type: object, properties: {a: {type: string}}}
AAllItem: {type: object, properties: {b: {type: string}}}
AThing: {title: A thing, type: object, properties: {c: {type: string}}}
`},
		{"what was null is null where it is referenced", `
A:
  type: object
  properties:
    plain: {$ref: '#/components/schemas/B'}
    described: {description: d, allOf: [{$ref: '#/components/schemas/B'}]}
    narrowed: {allOf: [{$ref: '#/components/schemas/B'}, {type: object, required: [x]}]}
    extended: {$ref: '#/components/schemas/C'}
    union: {anyOf: [{$ref: '#/components/schemas/B'}, {type: string}]}
B: {type: [object, 'null'], properties: {x: {type: string}}}
C: {allOf: [{$ref: '#/components/schemas/B'}], required: [x]}
`, `
A:
  type: object
  properties:
    plain: {anyOf: [{$ref: '#/components/schemas/B'}, {type: 'null'}]}
    described: {description: d, anyOf: [{$ref: '#/components/schemas/B'}, {type: 'null'}]}
    narrowed: {$ref: '#/components/schemas/ANarrowed'}
    extended: {anyOf: [{$ref: '#/components/schemas/C'}, {type: 'null'}]}
    union: {anyOf: [{$ref: '#/components/schemas/B'}, {type: string}, {type: 'null'}]}
B: {type: object, properties: {x: {type: string}}}
C: {allOf: [{$ref: '#/components/schemas/B'}, {required: [x], properties: {x: {}}}]}
ANarrowed: {allOf: [{$ref: '#/components/schemas/B'}, {type: object, required: [x]}]}
`},
		{"several types", `
A:
  type: object
  properties:
    either: {type: [string, object, 'null'], minLength: 1, required: [x], properties: {x: {type: string}}}
    word: {type: [string, 'null'], enum: [a, b, null]}
`, `
A:
  type: object
  properties:
    either: {anyOf: [{type: string, minLength: 1}, {$ref: '#/components/schemas/AEither'}, {type: 'null'}]}
    word: {anyOf: [{$ref: '#/components/schemas/AWord'}, {type: 'null'}]}
AEither: {type: object, required: [x], properties: {x: {type: string}}}
AWord: {type: string, enum: [a, b]}
`},
		{"forms that not all generators know", `
A:
  type: object
  properties:
    any: true
    list: {type: array}
    one: {type: string, enum: [a]}
`, `
A:
  type: object
  properties:
    any: {}
    list: {type: array, items: {}}
    one: {type: string, const: a}
`},
		{"words that fold into one name", `
A: {title: Setting, type: string, enum: [a_b, c, a.b]}
`, `
A: {title: Setting, anyOf: [{$ref: '#/components/schemas/SettingName'}, {$ref: '#/components/schemas/SettingPart'}]}
SettingName: {title: Setting name, description: A setting as a whole., type: string, enum: [a_b, c]}
SettingPart: {title: Setting part, description: A part of a setting., type: string, enum: [a.b]}
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			components := componentsOf(t, test.given)
			if err := nameTypes(components); err != nil {
				t.Fatal(err)
			}
			if got, want := asText(t, memberNode(components, "schemas")), asText(t, memberNode(componentsOf(t, test.want), "schemas")); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for _, test := range []struct{ name, given, want string }{
		{"one name twice", "A: {properties: {b: {enum: [x, y]}}}\nAB: {type: string}", "two types have the name AB"},
		{"words that fold, without a title", "A: {properties: {b: {enum: [x.y, x_y]}}}", "needs a title"},
		{"words that fold for another reason", "A: {title: A, enum: [x_y, x-y]}", "A has words that fold into one name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := nameTypes(componentsOf(t, test.given)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// componentsOf returns the components of a document with schemas.
func componentsOf(t *testing.T, schemas string) *yaml.Node {
	t.Helper()
	var read yaml.Node
	if err := yaml.Unmarshal([]byte(schemas), &read); err != nil {
		t.Fatal(err)
	}
	return ordered("schemas", read.Content[0])
}

// asText returns YAML with sorted names.
func asText(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var value any
	if err := n.Decode(&value); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
