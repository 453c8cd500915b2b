package inference

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Capture returns what a preset keeps of an inference request, given the
// members of its body as sent and checked against the dialect's schema: the
// fields of settingFields that the dialect has, in the request's order and byte
// for byte, without those that are null, and the system prompt.
//
// The system prompt is instructions in Responses and system in Messages, whose
// blocks are joined by two line breaks. In Chat it is made of the system and
// developer messages that the conversation begins with, joined likewise. An
// empty prompt is kept apart from none. More than domain.MaxStoredSize is Invalid.
func Capture(dialect domain.Dialect, members iter.Seq2[string, jsontext.Value]) (domain.Capture, error) {
	in := domain.Capture{Dialect: dialect}
	config := []byte{'{'}
	for name, value := range members {
		switch {
		case value.Kind() == 'n':
		case name == promptField[dialect]:
			if prompt, ok := promptText(dialect, value, len(value)); ok {
				in.SystemPrompt = &prompt
			}
		case settingFields[name]&setOf(dialect) != 0:
			if len(config) > 1 {
				config = append(config, ',')
			}
			config = append(config, '"')
			config = append(config, name...)
			config = append(config, '"', ':')
			config = append(config, value...)
		}
	}
	in.Config = append(config, '}')
	if err := in.CheckSize(); err != nil {
		return domain.Capture{}, err
	}
	return in, nil
}
