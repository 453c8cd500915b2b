package domain

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// promptField is the field of each dialect that takes a system prompt.
var promptField = map[Dialect]string{Responses: "instructions", Chat: "messages", Messages: "system"}

// promptSeparator stands between a preset's system prompt and the request's.
const promptSeparator = "\n\n"

// systemPrompt is a preset's system prompt, ready to be placed.
type systemPrompt struct {
	text   string
	quoted jsontext.Value
}

// placeIn returns the value of a dialect's prompt field with the prompt before
// everything else, so that what providers cache by prefix stays the same from
// request to request. value is the request's own, nil when there is none.
//
// A request that begins with the very prompt, as the one does that the preset
// was made from, is left as it is.
func (p systemPrompt) placeIn(dialect Dialect, value jsontext.Value) (jsontext.Value, error) {
	field := promptField[dialect]
	switch {
	case dialect == Chat && value == nil:
		return array([]jsontext.Value{p.message()}), nil
	case value == nil:
		return p.quoted, nil
	case dialect == Chat && value.Kind() != '[':
		return nil, InvalidAt("/"+field, "must be an array")
	case dialect == Chat:
		return p.beforeFirst(value, p.message(), leadingPrompt(value, len(p.text))), nil
	case value.Kind() == '"':
		own, _ := textOf(value)
		switch {
		case p.begins(own):
			return value, nil
		case own == "":
			return p.quoted, nil
		}
		return slices.Concat(p.quoted[:len(p.quoted)-1], jsontext.Value(`\n\n`), value[1:]), nil
	case dialect == Messages && value.Kind() == '[':
		return p.beforeFirst(value, p.block(), firstBlock(value)), nil
	case dialect == Messages:
		return nil, InvalidAt("/"+field, "must be a string or an array")
	default:
		return nil, InvalidAt("/"+field, "must be a string")
	}
}

// begins tells whether text begins with the prompt, as a whole.
func (p systemPrompt) begins(text string) bool {
	rest, ok := strings.CutPrefix(text, p.text)
	return ok && (rest == "" || strings.HasPrefix(rest, promptSeparator))
}

// beforeFirst inserts an element at the start of an array that does not begin
// with the prompt.
func (p systemPrompt) beforeFirst(list, element jsontext.Value, beginning string) jsontext.Value {
	if p.begins(beginning) {
		return list
	}
	rest := list[1:]
	for _, err := range scanArray(list) {
		if err == nil { // there is a first element
			element = append(element, ',')
		}
		break
	}
	return slices.Concat(jsontext.Value{'['}, element, rest)
}

func (p systemPrompt) message() jsontext.Value {
	return slices.Concat(jsontext.Value(`{"role":"system","content":`), p.quoted, jsontext.Value{'}'})
}

func (p systemPrompt) block() jsontext.Value {
	return slices.Concat(jsontext.Value(`{"type":"text","text":`), p.quoted, jsontext.Value{'}'})
}

// leadingPrompt returns the text of the system and developer messages that a
// chat begins with, or as much of it as tells whether it begins with a prompt
// of a given length.
func leadingPrompt(messages jsontext.Value, length int) string {
	var text strings.Builder
	for message, err := range scanArray(messages) {
		role, _ := textOf(memberOf(message, "role"))
		if err != nil || role != "system" && role != "developer" || text.Len() > length+len(promptSeparator) {
			break
		}
		if text.Len() > 0 {
			text.WriteString(promptSeparator)
		}
		text.WriteString(contentText(memberOf(message, "content")))
	}
	return text.String()
}

// contentText returns the text of a message's content, which is a string or an
// array of parts.
func contentText(content jsontext.Value) string {
	if content.Kind() != '[' {
		text, _ := textOf(content)
		return text
	}
	var texts []string
	for part, err := range scanArray(content) {
		if text, ok := textOf(memberOf(part, "text")); ok && err == nil {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, promptSeparator)
}

// firstBlock returns the text of the first block of a system prompt.
func firstBlock(system jsontext.Value) string {
	for block, err := range scanArray(system) {
		if text, ok := textOf(memberOf(block, "text")); ok && err == nil {
			return text
		}
		break
	}
	return ""
}
