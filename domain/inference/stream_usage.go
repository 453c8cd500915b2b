package inference

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// addStreamUsage makes a chat stream end with its usage, unless the request says whether it
// wants that. The other dialects always tell their usage.
func (m *merger) addStreamUsage() {
	const stream, options, include = "stream", "stream_options", "include_usage"
	isDropped := m.unknown[options] || m.unknown[stream] || m.rules.Policy.Drops(options) || m.rules.Policy.Drops(stream)
	if !m.streamUsage || m.rules.Dialect != domain.Chat || isDropped || m.Value(stream).Kind() != 't' {
		return
	}
	wanted := rawjson.NewMember(include, []byte("true"))
	value := m.Value(options)
	switch {
	case value == nil:
		value = rawjson.ObjectOf(wanted)
	case value.Kind() != '{': // the gateway refuses it
		return
	default:
		if rawjson.Get(value, include) != nil || m.Reserve(len(value)) != nil {
			return
		}
		value = rawjson.With(value, include, wanted.Value)
	}
	m.Set(options, value, draft.FromServer)
	m.streamUsageAdded = true
}

// IsStreamUsage reports whether an event of a chat stream is the chunk that has only the
// stream's usage. data is that of the event. Its choices say nothing: most gateways send none,
// and LiteLLM one with an empty delta. A chunk that also tells an error is not.
func IsStreamUsage(data []byte) bool {
	noChoices, hasUsage := false, false
	for field, err := range rawjson.Object(data) {
		if err != nil {
			return false
		}
		switch field.Name {
		case "choices":
			if noChoices = saysNothing(field.Value); !noChoices {
				return false // a second field of the name changes nothing
			}
		case "usage":
			hasUsage = field.Value.Kind() == '{'
		case "error":
			if field.Value.Kind() != 'n' {
				return false
			}
		}
	}
	return noChoices && hasUsage
}

// saysNothing reports whether choices have nothing for the client: no role, no content and no
// reason to finish.
func saysNothing(choices jsontext.Value) bool {
	if choices.Kind() != '[' {
		return false
	}
	for _, choice := range rawjson.Items(choices) {
		if choice.Kind() != '{' {
			return false
		}
		for member, err := range rawjson.Object(choice) {
			isIndex := member.Name == "index" && member.Value.Kind() == '0'
			if err != nil || !isIndex && !isNothing(member.Value, 1) {
				return false
			}
		}
	}
	return true
}

// isNothing reports whether a value is null or empty, or has such values alone in so many levels.
func isNothing(value jsontext.Value, levels int) bool {
	switch value.Kind() {
	case 'n':
		return true
	case '"':
		return rawjson.IsText(value, "")
	case '[':
		for _, element := range rawjson.Items(value) {
			if levels == 0 || !isNothing(element, levels-1) {
				return false
			}
		}
		return true
	case '{':
		for _, member := range rawjson.Pairs(value) {
			if levels == 0 || !isNothing(member, levels-1) {
				return false
			}
		}
		return true
	}
	return false
}

// maxModelName bounds the models that Resolution.Model tells, in bytes.
const maxModelName = 256

// modelOf returns the Resolution.Model of a request with fields.
func modelOf(field func(name string) jsontext.Value) string {
	model := field("model")
	if model == nil || rawjson.IsText(model, "") {
		model = firstModel(field("models"))
	}
	return modelName(model)
}

// maxTokensOf returns how many output tokens the fields of a request allow, in any dialect, 0 for none.
func maxTokensOf(field func(name string) jsontext.Value) int64 {
	for _, name := range [...]string{"max_completion_tokens", "max_output_tokens", "max_tokens"} {
		if n, err := strconv.ParseInt(string(field(name)), 10, 64); err == nil && n > 0 {
			return min(n, mostTokens)
		}
	}
	return 0
}

// mostTokens is more than any model generates in a response.
const mostTokens = 100_000_000

// modelName returns the name of a model.
func modelName(value []byte) string {
	if len(value) > maxModelName {
		return ""
	}
	name, _ := rawjson.Text(value)
	return name
}
