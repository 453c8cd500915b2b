package schema

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxPatternsLength is how many characters a router plugin's list of model
// patterns may have in all.
const maxPatternsLength = 65536

// relations checks what items of one list mean for each other, for which JSON
// Schema has no words: the names of tools that run a model, which tell them
// apart, the tool that deferred tools are found with, and the length of all
// patterns of a plugin. It passes by a list in which the schema has found
// something, as its types may be wrong.
func relations(object Object, found []Violation) (broken []Violation) {
	sound := func(list string) bool {
		return !slices.ContainsFunc(found, func(v Violation) bool { return strings.HasPrefix(v.Path, list) })
	}
	for name, value := range object.All() {
		switch {
		case name == "tools" && sound("/tools"):
			broken = append(append(broken, toolNames(value)...), deferredTools(value)...)
		case name == "plugins" && sound("/plugins"):
			broken = append(broken, patternLengths(value)...)
		}
	}
	return broken
}

// mentions tells whether text may hold word, which can be spelled with escapes.
func mentions(text jsontext.Value, word string) bool {
	return bytes.Contains(text, []byte(word)) || bytes.IndexByte(text, '\\') >= 0
}

func deferredTools(tools jsontext.Value) (broken []Violation) {
	if !mentions(tools, "defer_loading") {
		return nil
	}
	searchable := false
	var visit func(path string, tools jsontext.Value)
	visit = func(path string, tools jsontext.Value) {
		for index, tool := range items(tools) {
			path := path + "/" + strconv.Itoa(index)
			switch string(textOf(tool, "type")) {
			case "openrouter:tool_search":
				searchable = true
			case "namespace":
				visit(path+"/tools", memberOf(tool, "tools"))
			case "function":
				if memberOf(tool, "defer_loading").Kind() == 't' {
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

func toolNames(tools jsontext.Value) (broken []Violation) {
	if !mentions(tools, "openrouter:") {
		return nil
	}
	type named struct{ kind, name string }
	seen := make(map[named]bool)
	for index, tool := range items(tools) {
		path := "/tools/" + strconv.Itoa(index)
		n := named{kind: string(textOf(tool, "type"))}
		if n.kind != "openrouter:advisor" && n.kind != "openrouter:subagent" {
			continue
		}
		if name := memberOf(memberOf(tool, "parameters"), "name"); name != nil {
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

func patternLengths(plugins jsontext.Value) (broken []Violation) {
	if len(plugins) <= maxPatternsLength {
		return nil
	}
	for index, plugin := range items(plugins) {
		if id := string(textOf(plugin, "id")); id != "auto-router" && id != "auto-beta-router" {
			continue
		}
		for _, list := range []string{"allowed_models", "excluded_models"} {
			length := 0
			if patterns := memberOf(plugin, list); patterns != nil {
				for _, pattern := range items(patterns) {
					length += utf8.RuneCount(unquote(pattern))
				}
			}
			if length > maxPatternsLength {
				path := "/plugins/" + strconv.Itoa(index) + "/" + list
				broken = append(broken, Violation{path, fmt.Sprintf("must have at most %d characters in all", maxPatternsLength)})
			}
		}
	}
	return broken
}

// memberOf returns a member of an object, or nil.
func memberOf(object jsontext.Value, name string) jsontext.Value {
	if object == nil {
		return nil
	}
	for quoted, value := range members(object) {
		if string(unquote(quoted)) == name {
			return value
		}
	}
	return nil
}

// textOf returns a member that is a string.
func textOf(object jsontext.Value, name string) []byte {
	return unquote(memberOf(object, name))
}
