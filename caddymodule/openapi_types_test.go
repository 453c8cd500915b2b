package caddymodule

import (
	"slices"
	"strings"
	"testing"
)

// TestOpenAPITypes checks that generators of clients get each type with a name, and nothing that
// they do not understand.
func TestOpenAPITypes(t *testing.T) {
	inBoth(t, func(t *testing.T, doc document) {
		doc.eachSchema(func(place string, s map[string]any) {
			if s == nil {
				t.Errorf("%s: true or false instead of a schema", place)
			}
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

// eachSchema calls visit with the place of each schema of the document, and of each in it. It
// passes nil for one that is true or false, except in additionalProperties, where generators know
// these.
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
