package dialects

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// The functions below are convert functions of counterparts. The comment of
// counterpart.convert has their contract.

// convertEffort translates a reasoning effort. Messages has no value below low.
func convertEffort(value jsontext.Value, _, to domain.Dialect) (converted jsontext.Value, lost []string) {
	if to == domain.Messages {
		effort, _ := rawjson.Text(value)
		if !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, effort) {
			return nil, nil
		}
	}
	return value, nil
}

// convertThinking translates the maximum number of reasoning tokens. It is a number, which
// messages wraps in an object.
func convertThinking(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	const budget = "budget_tokens"
	if from == domain.Messages {
		members, _ := rawjson.Members(value) // a value that is no object has no type
		if typeOf(members) != "enabled" {
			return nil, nil
		}
		value, lost = rawjson.Find(members, budget), others(members, "type", budget)
	}
	if value.Kind() != '0' {
		return nil, nil
	}
	if to == domain.Messages {
		value = rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("enabled")), rawjson.NewMember(budget, value))
	}
	return value, lost
}

// formatMembers are the members of a format with a JSON Schema.
var formatMembers = []counterpart{
	{paths: paths{domain.Responses: {"name"}, domain.Chat: {"json_schema.name"}}},
	{paths: paths{domain.Responses: {"schema"}, domain.Chat: {"json_schema.schema"}, domain.Messages: {"schema"}}},
	{paths: paths{domain.Responses: {"description"}, domain.Chat: {"json_schema.description"}}},
	{paths: paths{domain.Responses: {"strict"}, domain.Chat: {"json_schema.strict"}}},
}

// convertFormat translates the format of a model's answer.
func convertFormat(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	members, _ := rawjson.Members(value) // a value that is no object has no type
	switch kind := typeOf(members); kind {
	case "text", "json_object":
		if from == domain.Messages || to == domain.Messages {
			return nil, nil
		}
		return rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote(kind))), others(members, "type")
	case "json_schema":
		t := translateMembers(kind, members, formatMembers, from, to)
		name, schema := t.place(&formatMembers[0]), t.place(&formatMembers[1])
		if t.get(schema) == nil {
			return nil, nil
		}
		if name != "" && t.get(name) == nil {
			t.put(name, rawjson.Quote("response"))
		}
		return t.object()
	}
	return nil, nil
}

// convertStop translates the stop sequences. In chat, a single one may be a string instead
// of an array.
func convertStop(value jsontext.Value, _, _ domain.Dialect) (converted jsontext.Value, lost []string) {
	switch value.Kind() {
	case '[':
		return value, nil
	case '"':
		return rawjson.ArrayOf(value), nil
	}
	return nil, nil
}

// convertFallbacks translates the fallbacks of messages to models.
func convertFallbacks(value jsontext.Value, _, _ domain.Dialect) (converted jsontext.Value, lost []string) {
	return convertEach(value, func(entry jsontext.Value) (jsontext.Value, []string) {
		members, err := rawjson.Members(entry)
		model := rawjson.Find(members, "model")
		if err != nil || model.Kind() != '"' {
			return nil, nil
		}
		return model, others(members, "model")
	})
}

// functionMembers are the members of a function tool besides its type.
var functionMembers = []counterpart{
	{paths: paths{domain.Responses: {"name"}, domain.Chat: {"function.name"}, domain.Messages: {"name"}}},
	{paths: paths{domain.Responses: {"parameters"}, domain.Chat: {"function.parameters"}, domain.Messages: {"input_schema"}}},
	{paths: paths{domain.Responses: {"description"}, domain.Chat: {"function.description"}, domain.Messages: {"description"}}},
	{paths: paths{domain.Responses: {"strict"}, domain.Chat: {"function.strict"}, domain.Messages: {"strict"}}},
	{paths: paths{domain.Responses: {"defer_loading"}, domain.Messages: {"defer_loading"}}},
	{paths: paths{domain.Chat: {"cache_control"}, domain.Messages: {"cache_control"}}},
}

// noParameters has the parameters of a function without any, for dialects that require
// them.
var noParameters = map[domain.Dialect]jsontext.Value{
	domain.Responses: jsontext.Value(`null`),
	domain.Messages:  jsontext.Value(`{"type":"object","properties":{}}`),
}

// convertTools translates tools one by one.
func convertTools(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	same := true
	converted, lost = convertEach(value, func(tool jsontext.Value) (jsontext.Value, []string) {
		members, _ := rawjson.Members(tool) // a value that is no object has no type and no name
		if keepsTool(typeOf(members), from, to) {
			return tool, nil
		}
		same = false
		if !isFunction(members, from) {
			return nil, nil
		}
		return convertFunction(members, from, to)
	})
	if same && value.Kind() == '[' {
		return value, nil
	}
	return converted, lost
}

// isFunction reports whether a tool of dialect d is a function.
func isFunction(tool []rawjson.Member, d domain.Dialect) bool {
	if d == domain.Messages {
		return rawjson.Find(tool, "type") == nil || typeOf(tool) == "custom"
	}
	return typeOf(tool) == "function"
}

// keepsTool reports whether both dialects write tools of a kind alike.
func keepsTool(kind string, from, to domain.Dialect) bool {
	switch kind {
	case "openrouter:apply_patch":
		return to == domain.Responses
	case "web_search_preview", "web_search_preview_2025_03_11", "web_search", "web_search_2025_08_26":
		return from != domain.Messages && to != domain.Messages
	}
	return strings.HasPrefix(kind, "openrouter:")
}

func convertFunction(tool []rawjson.Member, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	kind := "function"
	if to == domain.Messages {
		kind = ""
	}
	t := translateMembers(kind, tool, functionMembers, from, to)
	name, parameters := t.place(&functionMembers[0]), t.place(&functionMembers[1])
	if t.get(name).Kind() != '"' {
		return nil, nil
	}
	if none := noParameters[to]; none != nil && t.get(parameters) == nil {
		t.put(parameters, none)
	}
	return t.object()
}

// choiceModes are the choices that name no tool. They are strings in responses and chat,
// and types in messages.
var choiceModes = map[string]string{"auto": "auto", "none": "none", "required": "any"}

// choiceKind is the type of a choice that names a function.
var choiceKind = map[domain.Dialect]string{domain.Responses: "function", domain.Chat: "function", domain.Messages: "tool"}

// convertToolChoice translates the choice of the tools that a model must use.
func convertToolChoice(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	if mode, ok := rawjson.Text(value); ok {
		switch {
		case from == domain.Messages, choiceModes[mode] == "":
			return nil, nil
		case to == domain.Messages:
			return rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote(choiceModes[mode]))), nil
		}
		return value, nil
	}
	members, _ := rawjson.Members(value) // a value that is no object has no type
	kind := typeOf(members)
	if from == domain.Messages {
		members = slices.DeleteFunc(members, func(m rawjson.Member) bool { return m.Name == SerialMember }) // moveSerial has it
		for mode, inMessages := range choiceModes {
			if kind == inMessages {
				return rawjson.Quote(mode), others(members, "type")
			}
		}
	}
	switch {
	case kind == choiceKind[from]:
		t := translateMembers(choiceKind[to], members, functionMembers[:1], from, to)
		if t.get(t.place(&functionMembers[0])).Kind() != '"' {
			return nil, nil
		}
		return t.object()
	case kind == "web_search_preview", kind == "web_search_preview_2025_03_11":
		if from != domain.Messages && to != domain.Messages {
			return value, nil
		}
	case strings.HasPrefix(kind, "openrouter:"):
		if to == domain.Chat || from == domain.Chat && to == domain.Responses {
			return value, nil
		}
	}
	return nil, nil
}

// In messages, parallel calls of tools are switched off by a member of the choice of tools.
const (
	SerialMember = "disable_parallel_tool_use"
	serialPath   = "tool_choice." + SerialMember
)

// convertParallel translates whether a model may call several tools at once, which messages negates.
// Only no is translated to or from there, because yes is what all dialects do without the setting.
func convertParallel(value jsontext.Value, from, to domain.Dialect) (converted jsontext.Value, lost []string) {
	kind := value.Kind()
	switch {
	case from != domain.Messages && to != domain.Messages:
		return value, nil
	case to == domain.Messages && kind == 'f', from == domain.Messages && kind == 't':
		return Negate(value), nil
	}
	return nil, nil
}

// Negate returns the other boolean, and any other value as it is.
func Negate(value jsontext.Value) jsontext.Value {
	switch value.Kind() {
	case 't':
		return jsontext.Value("false")
	case 'f':
		return jsontext.Value("true")
	}
	return value
}

// NumberOf returns a number, infinite where a float64 is too small for it. It is not ok for any other value.
func NumberOf(value jsontext.Value) (n float64, ok bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	n, _ = strconv.ParseFloat(string(value), 64)
	return n, true
}

// moveSerial translates the member of a choice of messages that switches parallel calls off. A choice
// of no tool has no such member.
func (t *translation) moveSerial(choice jsontext.Value) {
	switch serial := rawjson.Get(choice, SerialMember); {
	case serial == nil || serial.Kind() == 'n':
	case TextOf(choice, "type") == "none":
		t.drop(serialPath)
	default:
		t.move(serialPath, serial)
	}
}

// completeChoice gives a choice of messages that consists of serialMember alone the type that means
// the same as no choice. It removes the member from a choice of no tool, which does not have it.
func (t *translation) completeChoice() {
	i := t.index("tool_choice")
	if i < 0 || t.get(serialPath) == nil {
		return
	}
	switch f := &t.fields[i]; TextOf(f.Value, "type") {
	case "":
		f.Value = rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("auto")), rawjson.NewMember(SerialMember, jsontext.Value("true")))
	case "none":
		f.Value = rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("none")))
		t.lost = append(t.lost, loss{"parallel_tool_calls", f.at})
	}
}

// convertServiceTier translates the tier of a service. Anthropic's API refuses the tiers of others,
// and they refuse the one that only it has.
func convertServiceTier(value jsontext.Value, _, to domain.Dialect) (converted jsontext.Value, lost []string) {
	tier, _ := rawjson.Text(value)
	if isOnlyAnthropics := tier == "standard_only"; tier != "auto" && isOnlyAnthropics != (to == domain.Messages) {
		return nil, nil
	}
	return value, nil
}

// dropToolUse removes the settings of tool use from a result without tools, because gateways would
// refuse it.
func (t *translation) dropToolUse(settings []rawjson.Member) {
	t.fields = slices.DeleteFunc(t.fields, func(f placed) bool { return slices.Contains(ToolUseFields, f.Name) })
	for i, s := range settings {
		if t.at = i; slices.Contains(ToolUseFields, s.Name) && s.Value.Kind() != 'n' {
			t.drop(s.Name)
		}
	}
}

// typeOf returns the type among members. It is empty if it is not a string.
func typeOf(members []rawjson.Member) string {
	kind, _ := rawjson.Text(rawjson.Find(members, "type"))
	return kind
}

// others returns the names of the members that are not null and not in known.
func others(members []rawjson.Member, known ...string) []string {
	var names []string
	for _, m := range members {
		if m.Value.Kind() != 'n' && !slices.Contains(known, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// convertEach converts elements and drops those that become nil. It returns the array of
// the others, or nil if there are none. The names in lost begin with an element's index.
func convertEach(elements jsontext.Value, convert func(jsontext.Value) (jsontext.Value, []string)) (converted jsontext.Value, lost []string) {
	var left []jsontext.Value
	for i, e := range rawjson.Items(elements) {
		index := strconv.Itoa(i)
		e, members := convert(e)
		if e == nil {
			lost = append(lost, index)
			continue
		}
		left = append(left, e)
		for _, name := range members {
			lost = append(lost, index+"."+name)
		}
	}
	if left == nil {
		return nil, lost
	}
	return rawjson.ArrayOf(left...), lost
}

// translateMembers begins the translation of an object by a table of its members. The result
// has the type kind, if it is not empty. The type in members is ignored.
func translateMembers(kind string, members []rawjson.Member, table []counterpart, from, to domain.Dialect) *translation {
	t := &translation{table: table, from: from, to: to}
	if kind != "" {
		t.put("type", rawjson.Quote(kind))
	}
	for _, m := range members {
		switch {
		case m.Name == "type", m.Value.Kind() == 'n':
		case strings.Contains(m.Name, "."): // the name looks like a path but is none
			t.drop(m.Name)
		default:
			t.move(m.Name, m.Value)
		}
	}
	return t
}

// object returns the result of a rename in the form of convert.
func (t *translation) object() (converted jsontext.Value, lost []string) {
	members, _ := t.result()
	for _, l := range t.lost {
		lost = append(lost, l.name)
	}
	return rawjson.ObjectOf(members...), lost
}
