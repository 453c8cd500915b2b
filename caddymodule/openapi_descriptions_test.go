package caddymodule

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestOpenAPIDescriptions checks that everything is described, and that no description is
// everywhere the same. A member with one value needs none. The description of a member may be that
// of its type.
func TestOpenAPIDescriptions(t *testing.T) {
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
