// Package dialects has what the three APIs call the fields, settings and messages of a request, and
// translates settings and messages from one API to another.
package dialects

import (
	_ "embed"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Set is a set of dialects.
type Set uint8

// The sets of one dialect each.
const (
	InResponses Set = 1 << iota
	InChat
	InMessages
)

// SetOf returns the set of one dialect, empty for one that there is not.
func SetOf(d domain.Dialect) Set {
	switch d {
	case domain.Responses:
		return InResponses
	case domain.Chat:
		return InChat
	case domain.Messages:
		return InMessages
	}
	return 0
}

// Field is a field of requests: the dialects whose presets keep it, those that know it besides, and its
// form, nil for none. Presets keep what selects or shapes the model's run. Content,
// identity, transport and per-call state are not kept.
type Field struct {
	Kept, Known Set
	Form        *Form
}

//go:embed fields.json
var fieldsText []byte

// Fields are the fields of requests by name, from the types of the official clients. e2e compares them with the
// installed ones. A field of no form says how a preset is used. It is stored and never sent, since it is no field
// of a request.
var Fields = func() map[string]Field {
	var stored map[string]struct {
		Kept, Known Set
		Form        any
	}
	if err := json.Unmarshal(fieldsText, &stored); err != nil {
		panic(err) // a test reads it
	}
	fields := map[string]Field{}
	for name, f := range stored {
		field := Field{Kept: f.Kept, Known: f.Known}
		if f.Form != nil {
			field.Form = new(NewForm(f.Form))
		}
		fields[name] = field
	}
	return fields
}()

// UnmarshalText reads the first letters of dialects.
func (s *Set) UnmarshalText(letters []byte) error {
	for _, letter := range letters {
		*s |= map[byte]Set{'r': InResponses, 'c': InChat, 'm': InMessages}[letter]
	}
	return nil
}

// isSetting reports whether a dialect has a setting of a name that is sent.
func isSetting(name string) bool { return Fields[name].Kept != 0 && Fields[name].Form != nil }

// ConversationField is the field of each dialect that has the conversation.
var ConversationField = map[domain.Dialect]string{domain.Responses: "input", domain.Chat: "messages", domain.Messages: "messages"}

// IsSystemMessage reports whether an item of a conversation is a message of the system or
// of the developer. In a chat every item is a message.
func IsSystemMessage(dialect domain.Dialect, message jsontext.Value) bool {
	if role := rawjson.Get(message, "role"); !rawjson.IsText(role, "system") && !rawjson.IsText(role, "developer") {
		return false
	}
	if dialect == domain.Chat {
		return true
	}
	kind := rawjson.Get(message, "type")
	return kind == nil || rawjson.IsText(kind, "message")
}

// UserMessageHead begins a message of the user, before its content.
const UserMessageHead = `{"role":"user","content":`

// PromptField is the field of each dialect that takes a system prompt.
var PromptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// Synonyms are pairs of fields of a dialect with the same meaning. A request with one of
// them overrides the other of the preset.
var Synonyms = map[domain.Dialect]map[string]string{
	domain.Chat: {
		"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens",
		"reasoning": "reasoning_effort", "reasoning_effort": "reasoning",
	},
	domain.Messages: {"models": "fallbacks", "fallbacks": "models"},
}

// ToolUseFields are the settings of tool use.
var ToolUseFields = []string{"tool_choice", "parallel_tool_calls"}

// HasSetting reports whether requests of a dialect have a setting of a name, which presets keep.
func HasSetting(dialect domain.Dialect, name string) bool {
	return Fields[name].Kept&SetOf(dialect) != 0
}
