package inference

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// promptField is the field of each dialect that takes a system prompt.
var promptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// promptSeparator stands between a preset's system prompt and the request's.
const promptSeparator = "\n\n"

// systemPrompt is a preset's system prompt, ready to be placed.
type systemPrompt struct {
	text   string
	quoted jsontext.Value
}

// alone returns the value of a dialect's prompt field in a request that has none.
func (p systemPrompt) alone(dialect domain.Dialect) jsontext.Value {
	if dialect == domain.Chat {
		return array(p.message())
	}
	return p.quoted
}

// placeBefore returns the text that replaces the first byte of value, a request's own
// prompt field. It puts the preset's prompt first, because providers cache by prefix.
//
// It returns nil for a request that already begins with the prompt. An example is the
// request that the preset was made from.
func (p systemPrompt) placeBefore(dialect domain.Dialect, value jsontext.Value) (jsontext.Value, error) {
	field := promptField[dialect]
	switch {
	case dialect == domain.Chat && value.Kind() != '[':
		return nil, domain.InvalidAt("/"+field, "must be an array")
	case dialect == domain.Chat:
		return p.beforeFirst(dialect, value, p.message()), nil
	case value.Kind() == '"':
		own, _ := rawjson.Text(value)
		switch {
		case p.begins(own):
			return nil, nil
		case own == "":
			return p.quoted[:len(p.quoted)-1], nil
		}
		return slices.Concat(p.quoted[:len(p.quoted)-1], jsontext.Value(`\n\n`)), nil
	case dialect == domain.Messages && value.Kind() == '[':
		return p.beforeFirst(dialect, value, p.block()), nil
	case dialect == domain.Messages:
		return nil, domain.InvalidAt("/"+field, "must be a string or an array")
	default:
		return nil, domain.InvalidAt("/"+field, "must be a string")
	}
}

// begins reports whether text begins with the whole prompt.
func (p systemPrompt) begins(text string) bool {
	rest, ok := strings.CutPrefix(text, p.text)
	return ok && (rest == "" || strings.HasPrefix(rest, promptSeparator))
}

// beforeFirst returns the text that replaces the opening bracket of list and puts element
// first. It returns nil for a list that begins with the prompt.
func (p systemPrompt) beforeFirst(dialect domain.Dialect, list, element jsontext.Value) jsontext.Value {
	own, _ := promptText(dialect, list, len(p.text)+len(promptSeparator))
	if p.begins(own) {
		return nil
	}
	for range rawjson.Items(list) { // there is a first element
		element = append(element, ',')
		break
	}
	return slices.Concat(jsontext.Value{'['}, element)
}

func (p systemPrompt) message() jsontext.Value {
	return slices.Concat(jsontext.Value(`{"role":"system","content":`), p.quoted, jsontext.Value{'}'})
}

func (p systemPrompt) block() jsontext.Value {
	return slices.Concat(jsontext.Value(`{"type":"text","text":`), p.quoted, jsontext.Value{'}'})
}

// promptText returns the joined texts of a request's prompt field. It stops beyond enough
// bytes. It is not ok if there is no text, not even an empty one.
func promptText(dialect domain.Dialect, value jsontext.Value, enough int) (text string, ok bool) {
	var joined strings.Builder
	for part := range promptTexts(dialect, value) {
		if ok {
			joined.WriteString(promptSeparator)
		}
		joined.WriteString(part)
		if ok = true; joined.Len() > enough {
			break
		}
	}
	return joined.String(), ok
}

// promptTexts yields the texts of a request's system prompt. In a chat they are those of
// the system and developer messages at its beginning.
func promptTexts(dialect domain.Dialect, value jsontext.Value) iter.Seq[string] {
	return func(yield func(string) bool) {
		if dialect != domain.Chat {
			yieldTexts(value, yield)
			return
		}
		for _, message := range rawjson.Items(value) {
			role, _ := rawjson.Text(rawjson.Get(message, "role"))
			if role != "system" && role != "developer" || !yieldTexts(rawjson.Get(message, "content"), yield) {
				return
			}
		}
	}
}

// yieldTexts yields the texts of content, a string or an array of parts. It reports
// whether to go on.
func yieldTexts(content jsontext.Value, yield func(string) bool) bool {
	if text, ok := rawjson.Text(content); ok {
		return yield(text)
	}
	for _, part := range rawjson.Items(content) {
		if text, ok := rawjson.Text(rawjson.Get(part, "text")); ok && !yield(text) {
			return false
		}
	}
	return true
}
