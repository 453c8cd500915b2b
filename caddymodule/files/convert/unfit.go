package convert

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// drop leaves out what a check refused: an item of a list, since the others mean the same
// without it, and else the setting. It returns false if the check refused something else, which
// cannot be left out.
func (v *version) drop(refused *schema.Error) bool {
	broken := make(map[string][]schema.Violation) // by the setting, with paths below it
	for _, found := range refused.Violations {
		segment, below, _ := strings.Cut(strings.TrimPrefix(found.Path, "/"), "/")
		name := jsontext.Pointer(segment).LastToken()
		if !slices.ContainsFunc(v.settings, func(s setting) bool { return s.name == name }) {
			return false
		}
		broken[name] = append(broken[name], schema.Violation{Path: below, Message: found.Message})
	}
	lost := make(map[string]bool)
	for i := range v.settings {
		s := &v.settings[i]
		if broken[s.name] == nil || v.dropItems(s, broken[s.name], lost) {
			continue
		}
		var reasons []string
		for _, b := range broken[s.name] {
			reasons = append(reasons, path.Join(s.name, b.Path)+" "+b.Message)
		}
		v.leave(s.value, "does not fit: "+strings.Join(reasons, "; "))
		s.value.value = nil
	}
	v.dropChoiceOf(lost)
	v.settings = slices.DeleteFunc(v.settings, func(s setting) bool { return !s.value.exists() })
	return len(broken) > 0
}

// dropItems leaves out items of a list, and adds the names of tools among them to lost. It returns
// false if more is broken than some items.
func (v *version) dropItems(s *setting, broken []schema.Violation, lost map[string]bool) bool {
	items := s.items
	if items == nil {
		items = slices.Collect(s.value.items())
	}
	reasons := make(map[int][]string)
	for _, b := range broken {
		index, below, _ := strings.Cut(b.Path, "/")
		i, err := strconv.Atoi(index)
		if err != nil || i >= len(items) {
			return false
		}
		reasons[i] = append(reasons[i], cmp.Or(below, "it")+" "+b.Message)
	}
	if len(reasons) == len(items) {
		return false
	}
	s.items = nil
	var values []jsontext.Value
	for i, item := range items {
		if reasons[i] == nil {
			s.items, values = append(s.items, item), append(values, item.value)
			continue
		}
		v.leave(item, "does not fit, and the others stay: "+strings.Join(reasons[i], "; "))
		if s.name == "tools" {
			lost[cmp.Or(item.textOf("name"), item.get("function").textOf("name"))] = true
		}
	}
	s.value.value = rawjson.ArrayOf(values...)
	return true
}

// dropChoiceOf leaves out a tool_choice that forces a tool which is left out.
func (v *version) dropChoiceOf(lost map[string]bool) {
	for i, s := range v.settings {
		name := cmp.Or(s.value.textOf("name"), s.value.get("function").textOf("name"))
		if s.name == "tool_choice" && name != "" && lost[name] {
			v.leave(s.value, "names a tool that is left out")
			v.settings[i].value.value = nil
		}
	}
}
