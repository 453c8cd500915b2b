package inference

import (
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Capture returns the part of an inference request that a preset keeps: the dialect's
// settingFields that are not null, and the system prompt. The fields keep their order and
// their bytes. The body was checked against the dialect's schema.
//
// The system prompt is instructions in Responses, and system in Messages. In Chat it is
// the system and developer messages at the beginning. Two line breaks join blocks and
// messages. An empty prompt differs from none. More than domain.MaxStoredSize is Invalid.
func Capture(dialect domain.Dialect, members []rawjson.Member) (domain.Capture, error) {
	in := domain.Capture{Dialect: dialect}
	config := []byte{'{'}
	for _, m := range members {
		name, value := m.Name, m.Value
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
