package schema

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxPatternsLength is how many characters a router plugin's list of model
// patterns may have in all.
const maxPatternsLength = 65536

// relations are rules between the items of one list, or between two members, which JSON Schema cannot express. check
// gets a value that keeps the rules of the schema.
var relations = []struct {
	member string
	check  func(value jsontext.Value, request []rawjson.Member) []Violation
}{{"plugins", patternLengths}, {"reasoning_effort", sameEffort}}

// brokenRelations checks the relations of the members that the schema names. It skips values with violations that
// the schema found, since their types may be wrong.
func (s *Schema) brokenRelations(request []rawjson.Member, found []Violation) (broken []Violation) {
	for _, r := range relations {
		sound := !slices.ContainsFunc(found, func(v Violation) bool { return strings.HasPrefix(v.Path, "/"+r.member) })
		if value := rawjson.Find(request, r.member); value != nil && sound && s.Names(r.member) {
			broken = append(broken, r.check(value, request)...)
		}
	}
	return broken
}

// patternLengths: the patterns of a router plugin have a total length.
func patternLengths(plugins jsontext.Value, _ []rawjson.Member) (broken []Violation) {
	if len(plugins) <= maxPatternsLength {
		return nil
	}
	for index, plugin := range rawjson.Items(plugins) {
		if id := string(textOf(plugin, "id")); id != "auto-router" && id != "auto-beta-router" {
			continue
		}
		for _, list := range []string{"allowed_models", "excluded_models"} {
			length := 0
			for _, pattern := range rawjson.Items(rawjson.Get(plugin, list)) {
				length += utf8.RuneCount(unquote(pattern))
			}
			if length > maxPatternsLength {
				path := "/plugins/" + strconv.Itoa(index) + "/" + list
				broken = append(broken, Violation{path, fmt.Sprintf("must have at most %d characters in all", maxPatternsLength)})
			}
		}
	}
	return broken
}

// sameEffort: reasoning_effort and reasoning.effort are the same.
func sameEffort(effort jsontext.Value, request []rawjson.Member) []Violation {
	reasoning := rawjson.Find(request, "reasoning")
	if effort.Kind() != '"' || reasoning.Kind() != '{' {
		return nil
	}
	if other := textOf(reasoning, "effort"); other != nil && !bytes.Equal(other, unquote(effort)) {
		return []Violation{{"/reasoning_effort", "must be the same as the effort of reasoning"}}
	}
	return nil
}

// textOf returns a member that is a string, or nil.
func textOf(object jsontext.Value, name string) []byte {
	if value := rawjson.Get(object, name); value.Kind() == '"' {
		return unquote(value)
	}
	return nil
}
