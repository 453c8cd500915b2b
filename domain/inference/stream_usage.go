package inference

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const streamOptions = "stream_options"

// addStreamUsage makes a chat stream end with its usage, unless the request says whether it
// wants that, and no limit needs it. The other dialects always tell their usage.
func (m *merger) addStreamUsage() {
	if value := m.askingOptions(m.Value); value != nil {
		m.Set(streamOptions, value, draft.FromServer)
		m.streamUsageAdded = true
	}
}

// withStreamUsage is addStreamUsage for the body of a request without a preset. It returns nil if nothing is added.
func (m *merger) withStreamUsage(body []byte) draft.Body {
	value := m.askingOptions(m.sent)
	if value == nil {
		return nil
	}
	for _, field := range m.request.Fields {
		if field.Name == streamOptions {
			begin := rawjson.Offset(body, field.Value)
			return draft.Body{body[:begin], value, body[begin+len(field.Value):]}
		}
	}
	begin := bytes.IndexByte(body, '{') + 1
	return draft.Body{body[:begin], slices.Concat(rawjson.Quote(streamOptions), []byte{':'}, value, draft.Comma), body[begin:]}
}

// sent returns a field as it was sent, or nil. null counts as none.
func (m *merger) sent(name string) jsontext.Value { return rawjson.Find(m.request.Fields, name) }

// askingOptions returns the stream_options with which a chat stream with fields is asked for its usage, nil if they
// are to stay.
func (m *merger) askingOptions(field func(name string) jsontext.Value) jsontext.Value {
	const stream, include = "stream", "include_usage"
	isDropped := m.unknown[streamOptions] || m.unknown[stream] || m.rules.Policy.Drops(streamOptions) || m.rules.Policy.Drops(stream)
	if !m.streamUsage && !m.isMeasured || m.rules.Dialect != domain.Chat || isDropped || field(stream).Kind() != 't' {
		return nil
	}
	wanted := rawjson.NewMember(include, []byte("true"))
	value := field(streamOptions)
	switch {
	case value == nil:
		return rawjson.ObjectOf(wanted)
	case value.Kind() != '{': // the gateway refuses it
		return nil
	}
	if own := rawjson.Get(value, include); own != nil && (own.Kind() == 't' || !m.isMeasured) || m.Reserve(len(value)) != nil {
		return nil
	}
	return rawjson.With(value, include, wanted.Value)
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

// Asked is what a request asks of models, as far as it bounds what they generate and cost.
type Asked struct {
	// Models are all that may answer, at least one. It is empty for one whose name cannot be told or is longer than
	// 256 bytes, and for those beyond 64.
	Models []string
	// MaxTokens is how many output tokens each choice may have, 0 if the request does not say.
	MaxTokens int64
	// Thinking is how many of them reasoning may have, which some gateways let it have beyond MaxTokens. 0 is for a request
	// that does not say.
	Thinking int64
	// Choices is how many are generated, at least 1.
	Choices int64
}

// The bounds of Asked are as much as any gateway takes.
const (
	maxAskedModels = 64
	mostTokens     = 1_000_000
	mostChoices    = 128
)

// maxTokensFields bound the output tokens. Where there are several, gateways differ in which counts.
var maxTokensFields = map[domain.Dialect][]string{
	domain.Chat: {"max_tokens", "max_completion_tokens"}, domain.Responses: {"max_output_tokens"}, domain.Messages: {"max_tokens"},
}

// askedOf returns the Asked of a request with fields. What a gateway may read in another way is Invalid.
func askedOf(d domain.Dialect, field func(name string) jsontext.Value) (asked Asked, err error) {
	largest := func(most int64, paths ...string) (n int64) {
		for _, path := range paths {
			outer, inner, isInner := strings.Cut(path, "/")
			value := field(outer)
			if isInner {
				value = rawjson.Get(value, inner)
			}
			f := math.NaN()
			if value.Kind() == '0' {
				f, _ = strconv.ParseFloat(string(value), 64) // infinite if it is too large
			}
			if f == math.Trunc(f) {
				n = max(n, int64(min(f, float64(most))))
			} else if value != nil {
				err = cmp.Or(err, mustBe("/"+path, "must be an integer"))
			}
		}
		return n
	}
	asked = Asked{
		MaxTokens: largest(mostTokens, maxTokensFields[d]...), Thinking: largest(mostTokens, "thinking/budget_tokens", "reasoning/max_tokens"),
		Choices: max(largest(mostChoices, "n", "best_of"), 1),
	}
	if stream := field("stream"); stream != nil && stream.Kind() != 't' && stream.Kind() != 'f' {
		err = cmp.Or(err, mustBe("/stream", "must be true or false"))
	}
	for _, name := range [...]string{streamOptions, "thinking", "reasoning"} {
		if value := field(name); value != nil && err == nil {
			if _, broken := rawjson.ReadStrict(value); broken != nil {
				err = mustBe("/"+name, broken.Error())
			}
		}
	}
	if err != nil {
		return Asked{}, err
	}
	if model := field("model"); model != nil && !rawjson.IsText(model, "") {
		asked.Models = append(asked.Models, modelName(model))
	}
	for _, name := range [...]string{"models", "fallbacks"} {
		for _, model := range rawjson.Items(field(name)) {
			if len(asked.Models) == maxAskedModels {
				asked.Models[maxAskedModels-1] = ""
				return asked, nil
			}
			if model.Kind() == '{' {
				model = rawjson.Get(model, "model")
			}
			asked.Models = append(asked.Models, modelName(model))
		}
	}
	if svg := rawjson.Get(field("svg"), "model"); d == domain.Images && svg != nil { // draws beside the other
		asked.Models = append(asked.Models, modelName(svg))
	}
	if asked.Models == nil {
		asked.Models = []string{""}
	}
	return asked, nil
}

// mustBe returns an Invalid error for a field that has to be clear because of a limit.
func mustBe(place, what string) error {
	return domain.InvalidAt(place, what+", because a limit of costs or tokens holds")
}

// modelName returns the name of a model.
func modelName(value []byte) string {
	if len(value) > maxModelName {
		return ""
	}
	name, _ := rawjson.Text(value)
	return name
}
