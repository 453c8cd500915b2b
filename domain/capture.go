package domain

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Capture is what a preset keeps of an inference request.
type Capture struct {
	Dialect Dialect
	// Config is a JSON object of the kept fields.
	Config json.RawMessage
	// SystemPrompt is nil when the request has none.
	SystemPrompt *string
}

// CaptureRequest returns what a preset keeps of an inference request, given the
// members of its body as sent and checked against the dialect's schema: the
// fields of settingFields that the dialect has, in the request's order and byte
// for byte, without those that are null, and the system prompt.
//
// The system prompt is instructions in Responses and system in Messages, whose
// blocks are joined by two line breaks. In Chat it is made of the system and
// developer messages that the conversation begins with, joined likewise. An
// empty prompt is kept apart from none. More than MaxStoredSize is Invalid.
func CaptureRequest(dialect Dialect, members iter.Seq2[string, jsontext.Value]) (Capture, error) {
	in := Capture{Dialect: dialect}
	config := []byte{'{'}
	for name, value := range members {
		switch {
		case value.Kind() == 'n':
		case name == promptField[dialect]:
			if prompt, ok := promptText(dialect, value, len(value)); ok {
				in.SystemPrompt = &prompt
			}
		case settingFields[name]&dialect.set() != 0:
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
		return Capture{}, err
	}
	return in, nil
}

// CheckSize returns an Invalid error for more than MaxStoredSize.
func (in Capture) CheckSize() error {
	size := len(in.Config)
	if in.SystemPrompt != nil {
		size += len(quote(*in.SystemPrompt))
	}
	if size > MaxStoredSize {
		return InvalidAt("", fmt.Sprintf("what a preset version stores must be at most %d bytes, is %d", MaxStoredSize, size))
	}
	return nil
}
