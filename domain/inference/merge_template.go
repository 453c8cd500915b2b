package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// addConversation adds the conversation of the request, with the template's messages behind
// the system messages with which it begins. field has no value if the request has none.
func (m *merger) addConversation(field rawjson.Member) error {
	p := draft.Part{Member: field, From: m.messagesFrom}
	if field.Value == nil {
		p.Value = jsontext.Value(`[]`)
	}
	switch kind := p.Value.Kind(); {
	case kind == '[':
		var err error
		if m.rules.Dialect == domain.Chat && !m.prompt.IsEmpty() {
			p.Edits, err = m.prompt.Place(m.rules.Dialect, p.Value, true)
		}
		if err != nil {
			return err
		}
		if len(p.Edits) > 0 && m.prompt.From == draft.FromVariable {
			p.From = draft.FromVariable
		}
		p.Edits = append(p.Edits, m.behindSystem(p.Value))
	case kind == '"' && m.rules.Dialect == domain.Responses:
		lead := slices.Concat([]jsontext.Value{{'['}}, m.messages, []jsontext.Value{draft.Comma, jsontext.Value(dialects.UserMessageHead)})
		end := len(p.Value)
		p.Edits = []draft.Edit{draft.Insert(0, lead), draft.Insert(end, []jsontext.Value{jsontext.Value("}]")})}
	case m.rules.Dialect == domain.Responses:
		return domain.InvalidAt("/"+field.Name, "must be a string or an array")
	default:
		return domain.InvalidAt("/"+field.Name, "must be an array")
	}
	m.Parts = append(m.Parts, p)
	return nil
}

// behindSystem returns the edit that puts the template's messages behind the system messages with
// which a conversation begins.
func (m *merger) behindSystem(conversation jsontext.Value) draft.Edit {
	isLeading := func(message jsontext.Value) bool { return dialects.IsSystemMessage(m.rules.Dialect, message) }
	head, tail := rawjson.SplitItems(conversation, isLeading)
	at, isLast := len(conversation)-len(tail), tail[0] == ']'
	switch {
	case !isLast:
		return draft.Insert(at, append(slices.Clip(m.messages), draft.Comma))
	case len(head) > 0:
		return draft.Insert(at, append([]jsontext.Value{draft.Comma}, m.messages...))
	}
	return draft.Insert(at, m.messages)
}

// render puts the request's values in the place of the template's variables.
func (m *merger) render() (err error) {
	t, sent := m.settings.template, m.request.Prompt
	switch {
	case t != nil:
		m.prompt, m.messages, m.messagesFrom, err = t.Render(sent.Place, sent.Variables, m.Reserve)
	case sent.HasValues():
		err = domain.InvalidAt(sent.Place, "the preset is no template and has no variables")
	default:
		m.prompt = m.settings.prompt
	}
	return err
}
