package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// addConversation adds the conversation of the request, with the template's messages behind
// the system messages with which it begins. field has no value if the request has none.
func (m *merger) addConversation(field rawjson.Member) error {
	p := part{Member: field, from: m.messagesFrom}
	if field.Value == nil {
		p.Value = jsontext.Value(`[]`)
	}
	switch kind := p.Value.Kind(); {
	case kind == '[':
		var err error
		if m.dialect == domain.Chat && !m.prompt.isEmpty() {
			p.edits, err = m.prompt.place(m.dialect, p.Value, true)
		}
		if err != nil {
			return err
		}
		if len(p.edits) > 0 && m.prompt.from == FromVariable {
			p.from = FromVariable
		}
		p.edits = append(p.edits, m.behindSystem(p.Value))
	case kind == '"' && m.dialect == domain.Responses:
		lead := slices.Concat([]jsontext.Value{{'['}}, m.messages, []jsontext.Value{comma, jsontext.Value(userMessageHead)})
		end := len(p.Value)
		p.edits = []edit{{0, 0, lead}, {end, end, []jsontext.Value{jsontext.Value("}]")}}}
	case m.dialect == domain.Responses:
		return domain.InvalidAt("/"+field.Name, "must be a string or an array")
	default:
		return domain.InvalidAt("/"+field.Name, "must be an array")
	}
	m.parts = append(m.parts, p)
	return nil
}

// behindSystem returns the edit that puts the template's messages behind the system messages with
// which a conversation begins.
func (m *merger) behindSystem(conversation jsontext.Value) edit {
	isLeading := func(message jsontext.Value) bool { return isSystemMessage(m.dialect, message) }
	head, tail := rawjson.SplitItems(conversation, isLeading)
	at, isLast := len(conversation)-len(tail), tail[0] == ']'
	switch {
	case !isLast:
		return edit{at, at, append(slices.Clip(m.messages), comma)}
	case len(head) > 0:
		return edit{at, at, append([]jsontext.Value{comma}, m.messages...)}
	}
	return edit{at, at, m.messages}
}

// render puts the request's values in the place of the template's variables.
func (m *merger) render() (err error) {
	t, sent := m.settings.template, m.request.prompt
	switch {
	case t != nil:
		m.prompt, m.messages, m.messagesFrom, err = t.render(sent.place, sent.variables, m.reserve)
	case sent.hasValues():
		err = domain.InvalidAt(sent.place, "the preset is no template and has no variables")
	default:
		m.prompt = m.settings.prompt
	}
	return err
}
