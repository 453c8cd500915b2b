package schema

import (
	"bytes"
	"fmt"
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
// apart, and the length of all patterns of a plugin. The types of what it
// looks at have been checked.
func relations(object Object) (broken []Violation) {
	for name, value := range object.All() {
		switch name {
		case "tools":
			broken = append(broken, toolNames(value)...)
		case "plugins":
			broken = append(broken, patternLengths(value)...)
		}
	}
	return broken
}

func toolNames(tools jsontext.Value) (broken []Violation) {
	if !bytes.Contains(tools, []byte("openrouter:")) && bytes.IndexByte(tools, '\\') < 0 {
		return nil // as nearly all are
	}
	type named struct{ kind, name string }
	seen := make(map[named]bool)
	index := -1
	for tool := range items(tools) {
		index++
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
	index := -1
	for plugin := range items(plugins) {
		index++
		if id := string(textOf(plugin, "id")); id != "auto-router" && id != "auto-beta-router" {
			continue
		}
		for _, list := range []string{"allowed_models", "excluded_models"} {
			length := 0
			if patterns := memberOf(plugin, list); patterns != nil {
				for pattern := range items(patterns) {
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
