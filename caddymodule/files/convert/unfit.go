package convert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// unfit are the violations of one setting.
type unfit struct {
	at     int // the setting's index
	broken []violation
}

// violation is a violation below a setting.
type violation struct {
	item    int    // the index of the list's item, -1 for none
	below   string // the JSON Pointer behind the setting
	message string
}

// drop leaves out what a check refused: an item of a list, since the others mean the same
// without it, and else the setting. It returns false if the check refused something else, which
// cannot be left out.
func (v *version) drop(refused *schema.Error) bool {
	var all []unfit
	for _, found := range refused.Violations {
		segment, rest, hasRest := strings.Cut(strings.TrimPrefix(found.Path, "/"), "/")
		name := jsontext.Pointer(segment).LastToken()
		at := slices.IndexFunc(v.settings, func(s setting) bool { return s.name == name })
		if at < 0 {
			return false
		}
		broken := violation{item: -1, message: found.Message}
		if hasRest {
			broken.below = "/" + rest
			index, _, _ := strings.Cut(rest, "/")
			if item, err := strconv.Atoi(index); err == nil && v.settings[at].value.kind() == '[' {
				broken.item = item
			}
		}
		i := slices.IndexFunc(all, func(u unfit) bool { return u.at == at })
		if i < 0 {
			i = len(all)
			all = append(all, unfit{at: at})
		}
		all[i].broken = append(all[i].broken, broken)
	}
	lost := make(map[string]bool)
	for _, u := range all {
		s := &v.settings[u.at]
		if slices.ContainsFunc(u.broken, func(b violation) bool { return b.item < 0 }) || !v.dropItems(s, u.broken, lost) {
			v.dropWhole(s, u.broken)
		}
	}
	v.dropChoiceOf(lost)
	v.settings = slices.DeleteFunc(v.settings, func(s setting) bool { return !s.value.exists() })
	return len(all) > 0
}

// dropWhole leaves out a setting, and reports all of its violations.
func (v *version) dropWhole(s *setting, broken []violation) {
	var reasons []string
	for _, b := range broken {
		reasons = append(reasons, s.name+b.below+" "+b.message)
	}
	v.leave(s.value, "does not fit: "+strings.Join(reasons, "; "))
	s.value.value = nil
}

// dropItems leaves out items of a list, and adds the names of tools among them to lost. It returns
// false if no item would be left.
func (v *version) dropItems(s *setting, broken []violation, lost map[string]bool) bool {
	items := slices.Collect(s.value.items())
	if s.places == nil {
		for _, item := range items {
			s.places = append(s.places, item.path)
		}
	}
	unfit := make(map[int]string)
	for _, b := range broken {
		_, below, _ := strings.Cut(b.below[1:], "/")
		reason := strings.TrimSpace(cmp.Or(below, "it") + " " + b.message)
		if unfit[b.item] != "" {
			reason = unfit[b.item] + "; " + reason
		}
		unfit[b.item] = reason
	}
	if len(unfit) >= len(items) {
		return false
	}
	var rest []jsontext.Value
	var places []string
	for i, item := range items {
		reason, ok := unfit[i]
		if !ok {
			rest, places = append(rest, item.value), append(places, s.places[i])
			continue
		}
		item.path = s.places[i]
		v.leave(item, "does not fit, and the others stay: "+reason)
		if s.name == "tools" {
			lost[cmp.Or(item.textOf("name"), item.get("function").textOf("name"))] = true
		}
	}
	s.value.value, s.places = rawjson.ArrayOf(rest...), places
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
