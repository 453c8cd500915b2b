package inference

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// render puts the request's values in the place of the template's variables.
func (m *merger) render() error {
	t, sent := m.settings.template, m.request.prompt
	if t == nil {
		m.prompt = m.settings.prompt
		if sent.hasValues() {
			return domain.InvalidAt(sent.place, "the preset is no template and has no variables")
		}
		return nil
	}
	if bytes.IndexByte(sent.variables, '\\') >= 0 { // values with escapes are copied
		if err := m.reserve(len(sent.variables)); err != nil {
			return err
		}
	}
	values, err := t.readValues(sent.place, sent.variables)
	if err != nil {
		return err
	}
	if m.dialect == domain.Messages {
		for _, v := range values {
			if v.object == nil {
				continue
			}
			if err := v.object.readPlain(m.reserve); err != nil { // once, as a template can repeat it
				return err
			}
		}
	}
	if m.prompt, err = t.renderPrompt(values, sent.place); err != nil {
		return err
	}
	m.messages, err = t.render(t.messages, values, sent.place)
	if m.messagesFrom = FromPreset; hasVariables(t.messages) {
		m.messagesFrom = FromVariable
	}
	return err
}

// addConversation adds the conversation of the request, with the template's messages behind
// the system messages with which it begins. field has no value if the request has none.
func (m *merger) addConversation(field rawjson.Member) error {
	p := part{Member: field, tail: jsontext.Value{']'}, from: m.messagesFrom}
	p.lead = append(make([]jsontext.Value, 0, len(m.messages)+len(m.prompt.pieces)+8), jsontext.Value{'['})
	add := func(items ...jsontext.Value) {
		if len(p.lead) > 1 {
			p.lead = append(p.lead, jsontext.Value{','})
		}
		p.lead = append(p.lead, items...)
	}
	if m.dialect == domain.Chat && !m.prompt.isEmpty() && !m.prompt.begins(m.dialect, field.Value) {
		add(m.prompt.between(systemMessageHead, systemMessageTail)...)
		if m.prompt.from == FromVariable {
			p.from = FromVariable
		}
	}
	switch kind := field.Value.Kind(); {
	case field.Value == nil:
		add(m.messages...)
	case kind == '"' && m.dialect == domain.Responses:
		add(m.messages...)
		add(jsontext.Value(userMessageHead))
		p.tail = jsontext.Value("}]")
	case kind == '[':
		var head jsontext.Value
		isLeading := func(message jsontext.Value) bool { return isSystemMessage(m.dialect, message) }
		if head, p.Value = rawjson.SplitItems(field.Value, isLeading); len(head) > 0 {
			add(head)
		}
		add(m.messages...)
		if p.tail = nil; p.Value[0] != ']' {
			p.lead = append(p.lead, jsontext.Value{','})
		}
	case m.dialect == domain.Responses:
		return domain.InvalidAt("/"+field.Name, "must be a string or an array")
	default:
		return domain.InvalidAt("/"+field.Name, "must be an array")
	}
	m.parts = append(m.parts, p)
	return nil
}
