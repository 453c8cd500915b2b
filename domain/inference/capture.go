package inference

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/prompts"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Capture returns the part of an inference request that a preset keeps. That is the dialect's
// settings that are not null (see IsKept), and the system prompt. The fields keep their order
// and their bytes. The body was checked against the dialect's schema.
//
// The system prompt is instructions in Responses, and system in Messages. In Chat it is
// the system and developer messages at the beginning. Two line breaks join blocks and
// messages. An attribution of Claude Code is left out. An empty prompt differs from none. More than
// domain.MaxStoredSize is Invalid.
func Capture(dialect domain.Dialect, members []rawjson.Member) (domain.Capture, error) {
	in := domain.Capture{Dialect: dialect}
	config := jsontext.Value{'{'}
	for _, m := range members {
		name, value := m.Name, m.Value
		switch {
		case value.Kind() == 'n':
		case name == dialects.PromptField[dialect]:
			if prompt, ok := prompts.SystemText(dialect, value); ok {
				in.SystemPrompt = &prompt
			}
		case dialects.HasSetting(dialect, name):
			config = rawjson.AppendMember(config, rawjson.Quote(name), value)
		}
	}
	in.Config = []byte(append(config, '}'))
	if err := in.CheckSize(); err != nil {
		return domain.Capture{}, err
	}
	return in, nil
}

// CaptureTemplate is Capture for a version that is a template. Its messages are those of
// the request but the ones that Capture takes the system prompt from. Their text and the
// system prompt may have variables. Responses writes a conversation that is a string as a
// message of the user.
func CaptureTemplate(dialect domain.Dialect, members []rawjson.Member) (domain.Capture, error) {
	in, err := Capture(dialect, members)
	if err != nil {
		return domain.Capture{}, err
	}
	var messages []jsontext.Value
	list := rawjson.Find(members, dialects.ConversationField[dialect])
	if list.Kind() == '"' {
		messages = append(messages, userMessage(list))
	}
	for _, message := range rawjson.Items(list) {
		if dialect != domain.Chat || len(messages) > 0 || !dialects.IsSystemMessage(dialect, message) {
			messages = append(messages, message)
		}
	}
	in.Template = &domain.Template{Variables: []string{}, Messages: []byte(rawjson.ArrayOf(messages...))}
	t, _ := prompts.NewTemplate(domain.PresetVersion{Dialect: dialect, SystemPrompt: in.SystemPrompt, Template: in.Template}, dialect)
	in.Template.Variables = append(in.Template.Variables, t.Variables...)
	if err := in.CheckSize(); err != nil {
		return domain.Capture{}, err
	}
	return in, nil
}

// userMessage returns a message of the user whose content is a string.
func userMessage(text jsontext.Value) jsontext.Value {
	return slices.Concat(jsontext.Value(dialects.UserMessageHead), text, jsontext.Value{'}'})
}

// IsKept reports whether a preset keeps a member of a dialect's requests. These are settings,
// and the field that has the system prompt.
func IsKept(dialect domain.Dialect, member string) bool {
	return dialects.HasSetting(dialect, member) || member == dialects.PromptField[dialect]
}

// ConversationField returns the member of a dialect's requests that has the conversation.
// CaptureTemplate keeps it, and Capture does not.
func ConversationField(dialect domain.Dialect) string { return dialects.ConversationField[dialect] }
