package domain

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Capture is the part of an inference request that a preset keeps.
type Capture struct {
	Dialect Dialect
	// Config is a JSON object of the kept fields.
	Config json.RawMessage
	// SystemPrompt is nil when the request has none.
	SystemPrompt *string
	// Template is nil unless the version is to be a template.
	Template *Template
}

// CheckSize returns an Invalid error for more than MaxStoredSize.
func (in Capture) CheckSize() error {
	size := len(in.Config) + in.Template.size()
	if in.SystemPrompt != nil {
		quoted, _ := jsontext.AppendQuote(nil, *in.SystemPrompt)
		size += len(quoted)
	}
	if size > MaxStoredSize {
		return InvalidAt("", fmt.Sprintf("what a preset version stores must be at most %d bytes, is %d", MaxStoredSize, size))
	}
	return nil
}

// TextOrEmpty returns the text that a pointer leads to. It is empty without one.
func TextOrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
