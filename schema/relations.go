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

// A relation is a rule between the items of one list, or between two members. JSON Schema
// cannot express it.
type relation struct {
	member string
	// check gets a value that keeps the rules of the schema.
	check func(value jsontext.Value, request []rawjson.Member) []Violation
}

// The relations of each body.
var (
	responsesRelations = []relation{{"tools", toolNames}, {"tools", deferredTools}, {"plugins", patternLengths}}
	chatRelations      = []relation{{"tools", toolNames}, {"plugins", patternLengths}, {"reasoning_effort", sameEffort}}
	messagesRelations  = []relation{{"tools", toolNames}, {"plugins", patternLengths}}
)

// checkRelations checks relations. It skips values with violations that the schema found,
// since their types may be wrong.
func checkRelations(relations []relation, request []rawjson.Member, found []Violation) (broken []Violation) {
	for _, r := range relations {
		sound := !slices.ContainsFunc(found, func(v Violation) bool { return strings.HasPrefix(v.Path, "/"+r.member) })
		if value := rawjson.Find(request, r.member); value != nil && sound {
			broken = append(broken, r.check(value, request)...)
		}
	}
	return broken
}

// mayContain reports whether text may contain word, perhaps with escapes.
func mayContain(text jsontext.Value, word string) bool {
	return bytes.Contains(text, []byte(word)) || bytes.IndexByte(text, '\\') >= 0
}

// deferredTools: a deferred function needs a tool that searches for it.
func deferredTools(tools jsontext.Value, _ []rawjson.Member) (broken []Violation) {
	if !mayContain(tools, "defer_loading") {
		return nil
	}
	searchable := false
	var visit func(path string, tools jsontext.Value)
	visit = func(path string, tools jsontext.Value) {
		for index, tool := range rawjson.Items(tools) {
			path := path + "/" + strconv.Itoa(index)
			switch string(textOf(tool, "type")) {
			case "openrouter:tool_search":
				searchable = true
			case "namespace":
				visit(path+"/tools", rawjson.Get(tool, "tools"))
			case "function":
				if rawjson.Get(tool, "defer_loading").Kind() == 't' {
					broken = append(broken, Violation{path + "/defer_loading", "must be false without an openrouter:tool_search tool"})
				}
			}
		}
	}
	visit("/tools", tools)
	if searchable {
		return nil
	}
	return broken
}

// toolNames: tools that run a model have different names.
func toolNames(tools jsontext.Value, _ []rawjson.Member) (broken []Violation) {
	if !mayContain(tools, "openrouter:") {
		return nil
	}
	type named struct{ kind, name string }
	seen := make(map[named]bool)
	for index, tool := range rawjson.Items(tools) {
		kind := textOf(tool, "type")
		switch string(kind) {
		case "openrouter:advisor", "openrouter:subagent":
		default:
			continue
		}
		n := named{kind: string(kind)}
		path := "/tools/" + strconv.Itoa(index)
		if name := rawjson.Get(rawjson.Get(tool, "parameters"), "name"); name != nil {
			n.name = strings.TrimSpace(string(unquote(name)))
			if path += "/parameters/name"; n.name == "" {
				broken = append(broken, Violation{path, "must not be blank"})
			}
		}
		switch {
		case !seen[n]:
			seen[n] = true
		case n.name != "":
			broken = append(broken, Violation{path, "must differ from the names of other tools of this type"})
		case n.kind == "openrouter:advisor":
			broken = append(broken, Violation{path, "must have a name, as another advisor has none"})
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
