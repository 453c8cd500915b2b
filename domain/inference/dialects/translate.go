package dialects

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Translate returns settings, captured in dialect from, in the field names of dialect to.
// It also returns the names of the settings that it dropped.
//
// The fields are in the order of settings. A value that both dialects write alike keeps its
// bytes. If several settings form one field, the field has the position of the first. A
// null setting counts as missing. Fields in unknown, which the gateway does not know, are
// not returned. The setting takes its next name in that dialect, if there is one. Fields of
// no form are not returned either.
//
// dropped is in the order of settings, without duplicates. It has "field" for a setting,
// and "field.member" or "tools.index" for a part of a setting whose rest is returned. If
// the dialect has no name for a setting, its name in settings is used. If unknown excluded
// it, the name it would have been sent with is used. The names consist of ASCII letters,
// digits and _ . : - only.
func Translate(settings []rawjson.Member, from, to domain.Dialect, unknown map[string]bool) (fields []rawjson.Member, dropped []string) {
	t := &translation{table: counterparts, from: from, to: to, unknown: unknown}
	for _, late := range []bool{false, true} {
		for i, s := range settings {
			if s.Value.Kind() != 'n' && t.yieldsToOthers(s.Name) == late {
				t.at = i
				t.setting(s)
			}
		}
	}
	if rawjson.Find(settings, "tools") != nil && t.get("tools") == nil {
		t.dropToolUse(settings)
	}
	if from != domain.Chat && to == domain.Chat {
		t.shortenReasoning()
	}
	if from != domain.Messages && to == domain.Messages {
		t.completeChoice()
	}
	return t.result()
}

// shortenReasoning replaces a reasoning that has only an effort by reasoning_effort, which
// more gateways know.
func (t *translation) shortenReasoning() {
	i := t.index("reasoning")
	if i < 0 || t.unknown["reasoning_effort"] {
		return
	}
	parts, _ := rawjson.Members(t.fields[i].Value)
	effort := rawjson.Find(parts, "effort")
	if effort.Kind() == '"' && !slices.ContainsFunc(parts, func(p rawjson.Member) bool { return p.Name != "effort" && p.Value.Kind() != 'n' }) {
		t.fields[i].Member = rawjson.NewMember("reasoning_effort", effort)
	}
}

// counterpart is a setting that the dialects name or write differently.
type counterpart struct {
	// paths are the setting's names in each dialect that has it: "field", or "field.member"
	// for a member of an object. The first name is written. The others mean the same.
	paths paths
	// within has the path of the number within an object, by the path of the object.
	within map[string]string
	// agree is set if two names of the setting may be used together with equal values.
	agree bool
	// convert, if set, returns the setting as dialect to writes it, or nil if that dialect
	// has no equivalent. lost has the paths within value that are left out. If converted is
	// nil and lost is empty, all of value is left out.
	convert func(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string)
}

type paths map[domain.Dialect][]string

// counterparts are the counterparts of settings. The members of tools and formats have
// their own tables. A field without an entry means the same in each dialect that has it.
var counterparts = []counterpart{
	{paths: paths{domain.Responses: {"max_output_tokens"}, domain.Chat: {"max_completion_tokens", "max_tokens"}, domain.Messages: {"max_tokens"}}},
	{
		paths: paths{domain.Responses: {"reasoning.effort"}, domain.Chat: {"reasoning.effort", "reasoning_effort"}, domain.Messages: {"output_config.effort"}},
		agree: true, convert: convertEffort,
	},
	{
		paths:   paths{domain.Responses: {"reasoning.max_tokens"}, domain.Chat: {"reasoning.max_tokens"}, domain.Messages: {"thinking"}},
		within:  map[string]string{"thinking": "thinking.budget_tokens"},
		convert: convertThinking,
	},
	{
		paths:   paths{domain.Responses: {"text.format"}, domain.Chat: {"response_format"}, domain.Messages: {"output_config.format"}},
		convert: convertFormat,
	},
	{paths: paths{domain.Responses: {"text.verbosity"}, domain.Chat: {"verbosity"}}},
	{paths: paths{domain.Chat: {"stop"}, domain.Messages: {"stop_sequences"}}, convert: convertStop},
	// Models stay models because of this order, and fallbacks become models.
	{paths: paths{domain.Responses: {"models"}, domain.Chat: {"models"}, domain.Messages: {"models"}}},
	{paths: paths{domain.Responses: {"models"}, domain.Chat: {"models"}, domain.Messages: {"fallbacks"}}, convert: convertFallbacks},
	{paths: paths{domain.Responses: {"tools"}, domain.Chat: {"tools"}, domain.Messages: {"tools"}}, convert: convertTools},
	{paths: paths{domain.Responses: {"tool_choice"}, domain.Chat: {"tool_choice"}, domain.Messages: {"tool_choice"}}, convert: convertToolChoice},
	{paths: paths{domain.Responses: {"parallel_tool_calls"}, domain.Chat: {"parallel_tool_calls"}, domain.Messages: {serialPath}}, convert: convertParallel},
	{paths: paths{domain.Responses: {"service_tier"}, domain.Chat: {"service_tier"}, domain.Messages: {"service_tier"}}, convert: convertServiceTier},
}

// translation translates one object from one dialect to another.
type translation struct {
	table    []counterpart
	from, to domain.Dialect
	unknown  map[string]bool // fields of to

	at     int // the index of the setting being translated
	fields []placed
	lost   []loss
	// renamed has the unknown fields whose setting took another name.
	renamed map[string]bool
}

// placed is a field of the result with the index of its first setting.
type placed struct {
	rawjson.Member
	at int
}

// loss is a dropped name with the index of its setting.
type loss struct {
	name string
	at   int
}

// yieldsToOthers reports whether a setting yields to others that take the same place. The
// order of the settings does not matter.
func (t *translation) yieldsToOthers(name string) bool {
	if t.from == t.to {
		return t.unknown[name]
	}
	return name == "max_tokens" || name == "reasoning_effort" || name == "fallbacks" || name == "parallel_tool_calls"
}

// setting translates one setting.
func (t *translation) setting(s rawjson.Member) {
	known := HasSetting(t.to, s.Name) && !t.unknown[s.Name]
	switch {
	case Fields[s.Name].Form == nil:
		t.drop(s.Name)
	case known && (t.from == t.to || t.counterpart(s.Name) == nil):
		if !t.put(s.Name, s.Value) {
			t.drop(s.Name)
		}
	default:
		t.move(s.Name, s.Value)
		if s.Name == "tool_choice" && t.from == domain.Messages {
			t.moveSerial(s.Value)
		}
	}
}

// move translates the value of a path in dialect from.
func (t *translation) move(path string, value jsontext.Value) {
	c := t.counterpart(path)
	if c == nil {
		t.moveParts(path, value)
		return
	}
	place := t.place(c)
	if place == "" {
		if names := c.paths[t.to]; len(names) > 0 && t.from != t.to {
			path = names[0]
		}
		t.drop(path)
		return
	}
	if taken := t.get(place); taken != nil {
		if !c.agree || !bytes.Equal(taken, value) {
			t.drop(path)
		}
		return
	}
	if c.convert != nil {
		var lost []string
		value, lost = c.convert(value, t.from, t.to)
		for _, name := range lost {
			t.drop(path + "." + name)
		}
		if value == nil && len(lost) > 0 {
			return
		}
	}
	if value == nil || !t.put(place, value) {
		t.drop(path)
	}
}

// moveParts translates the members of a value that has no counterpart as a whole.
func (t *translation) moveParts(path string, value jsontext.Value) {
	var parts []rawjson.Member
	if t.hasParts(path) {
		parts, _ = rawjson.Members(value) // a value that is no object has no parts
	}
	empty := true
	for _, p := range parts {
		if p.Value.Kind() != 'n' {
			empty = false
			t.move(path+"."+p.Name, p.Value)
		}
	}
	if empty {
		t.drop(path)
	}
}

// hasParts reports whether the table has members of the object at path.
func (t *translation) hasParts(path string) bool {
	return slices.ContainsFunc(t.table, func(c counterpart) bool {
		return slices.ContainsFunc(c.paths[t.from], func(p string) bool { return strings.HasPrefix(p, path+".") })
	})
}

// counterpart returns the table's entry for a path of dialect from, or nil.
func (t *translation) counterpart(path string) *counterpart {
	i := slices.IndexFunc(t.table, func(c counterpart) bool { return slices.Contains(c.paths[t.from], path) })
	if i < 0 {
		return nil
	}
	return &t.table[i]
}

// place returns the path to write c to. It is empty if there is none, or if its field is
// unknown.
func (t *translation) place(c *counterpart) string {
	for i, path := range c.paths[t.to] {
		if t.unknown[fieldOf(path)] {
			continue
		}
		if i > 0 {
			if t.renamed == nil {
				t.renamed = map[string]bool{}
			}
			t.renamed[fieldOf(c.paths[t.to][0])] = true
		}
		return path
	}
	return ""
}

// index returns the index of a field in the result, or -1.
func (t *translation) index(name string) int {
	return slices.IndexFunc(t.fields, func(f placed) bool { return f.Name == name })
}

// get returns the value of path in the result, or nil.
func (t *translation) get(path string) jsontext.Value {
	field, part, nested := strings.Cut(path, ".")
	i := t.index(field)
	if i < 0 {
		return nil
	}
	if !nested {
		return t.fields[i].Value
	}
	return rawjson.Get(t.fields[i].Value, part)
}

// put adds value to the result at path, where get finds nothing. It returns false if an
// existing field cannot take the value.
func (t *translation) put(path string, value jsontext.Value) bool {
	field, part, nested := strings.Cut(path, ".")
	i := t.index(field)
	if i < 0 {
		if nested {
			value = rawjson.ObjectOf(rawjson.NewMember(part, value))
		}
		t.fields = append(t.fields, placed{rawjson.NewMember(field, value), t.at})
		return true
	}
	f := &t.fields[i]
	if !nested || f.Value.Kind() != '{' {
		return false
	}
	f.Value, f.at = rawjson.With(f.Value, part, value), min(f.at, t.at)
	return true
}

func (t *translation) drop(name string) { t.lost = append(t.lost, loss{name, t.at}) }

// result returns the results of translate.
func (t *translation) result() (fields []rawjson.Member, dropped []string) {
	slices.SortStableFunc(t.fields, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	slices.SortStableFunc(t.lost, func(a, b loss) int { return cmp.Compare(a.at, b.at) })
	for _, f := range t.fields {
		fields = append(fields, f.Member)
	}
	listed := map[string]bool{}
	for _, l := range t.lost {
		name := l.name
		// Nothing is left of an unknown field, so its parts are not listed.
		if field := fieldOf(name); t.unknown[field] && !t.renamed[field] && HasSetting(t.to, field) {
			name = field
		}
		name = HeaderName(name)
		if !listed[name] {
			listed[name] = true
			dropped = append(dropped, name)
		}
	}
	return fields, dropped
}
