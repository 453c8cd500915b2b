package caddymodule

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestOpenAPIForm checks that the schemas compile and have only keywords of JSON Schema, that
// references name components and do not point into them, and that generators of clients get each type
// with a name, and nothing that they do not understand.
func TestOpenAPIForm(t *testing.T) {
	tier.NoRace(t)
	keywords := strings.Fields(`$ref title description deprecated examples default format
		type enum const not if then else allOf anyOf oneOf properties additionalProperties propertyNames required minProperties maxProperties
		dependentRequired items minItems maxItems uniqueItems contains minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum`)
	component := regexp.MustCompile(`^#/components/(schemas|parameters|headers|responses)/[A-Za-z0-9_-]+$`)
	inBoth(t, func(t *testing.T, doc document) {
		references(map[string]any(doc), func(ref string) {
			if !component.MatchString(ref) || doc.at(ref) == nil {
				t.Errorf("%s names no component", ref)
			}
		})
		text, err := json.Marshal(doc)
		if err != nil || bytes.Contains(text, []byte(`"$defs"`)) {
			t.Errorf("the document has $defs, or %v", err)
		}
		validator := doc.validator(t)
		for name := range doc.object("#/components/schemas") {
			validator("#/components/schemas/" + name) // compiles
			if !schemaName.MatchString(name) {
				t.Errorf("%s is no name for a type", name)
			}
		}
		doc.eachSchema(func(place string, s map[string]any) {
			for keyword := range s {
				if !slices.Contains(keywords, keyword) {
					t.Errorf("%s: %s is no keyword of JSON Schema", place, keyword)
				}
			}
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

// TestOpenAPIDescriptions checks that everything is described, and that no description is
// everywhere the same. A member with one value needs none. The description of a member may be that
// of its type.
func TestOpenAPIDescriptions(t *testing.T) {
	tier.NoRace(t)
	inBoth(t, func(t *testing.T, doc document) {
		places := make(map[string][]string)
		need := func(place string, described map[string]any) {
			t.Helper()
			text, _ := described["description"].(string)
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s has no description", place)
			}
			places[text] = append(places[text], place)
		}
		need("info", doc["info"].(map[string]any))
		for _, kind := range []string{"tags", "servers"} {
			for _, each := range doc[kind].([]any) {
				need(kind, each.(map[string]any))
			}
		}
		for id, operation := range doc.operations() {
			need(id, operation)
			places[operation["summary"].(string)] = append(places[operation["summary"].(string)], id+"'s summary")
		}
		for kind, all := range doc["components"].(map[string]any) {
			for name, component := range all.(map[string]any) {
				if kind != "schemas" {
					need(kind+"/"+name, component.(map[string]any))
				}
			}
		}
		doc.eachSchema(func(place string, s map[string]any) {
			if strings.HasSuffix(place, "/not") {
				return
			}
			properties, _ := s["properties"].(map[string]any)
			for name, property := range properties {
				property, _ := property.(map[string]any)
				if _, isConstant := property["const"]; !isConstant && len(property) > 0 && !doc.describes(property) {
					need(place+"."+name, property)
				}
			}
		})
		for _, text := range slices.Sorted(maps.Keys(places)) {
			if all := places[text]; len(all) > 3 { // an error has three forms
				t.Errorf("%q describes %q", text, all)
			}
		}
	})
}

// describes reports whether a schema refers to a type that is described.
func (d document) describes(s map[string]any) bool {
	if s["description"] != nil {
		return false
	}
	if ref, ok := s["$ref"].(string); ok {
		target := d.object(ref)
		return target["description"] != nil
	}
	for _, keyword := range []string{"anyOf", "allOf"} {
		parts, _ := s[keyword].([]any)
		if slices.ContainsFunc(parts, func(part any) bool { return d.describes(part.(map[string]any)) }) {
			return true
		}
	}
	return false
}
