package domain

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/internal/template"
)

// Dialect is an inference API: which field names a request uses.
type Dialect string

// The dialects are the last part of their routes' paths. Requests alone have Images: no version is captured in it.
const (
	Responses Dialect = "responses"
	Chat      Dialect = "chat/completions"
	Messages  Dialect = "messages"
	Images    Dialect = "images"
)

// publicChat is Chat as clients see it in versions.
const publicChat = "chat"

// MarshalText returns d as clients see it: responses, chat or messages.
func (d Dialect) MarshalText() ([]byte, error) {
	if d == Chat {
		return []byte(publicChat), nil
	}
	return []byte(d), nil
}

// UnmarshalText reads what MarshalText returns. It does not check that d is Valid.
func (d *Dialect) UnmarshalText(text []byte) error {
	if *d = Dialect(text); *d == publicChat {
		*d = Chat
	}
	return nil
}

// Valid reports whether versions are captured in d.
func (d Dialect) Valid() bool { return d == Responses || d == Chat || d == Messages }

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
	size := len(in.Config) + in.Template.Size()
	if in.SystemPrompt != nil {
		quoted, _ := jsontext.AppendQuote(nil, *in.SystemPrompt)
		size += len(quoted)
	}
	if size > MaxStoredSize {
		return InvalidAt("", fmt.Sprintf("what a preset version stores must be at most %d bytes, is %d", MaxStoredSize, size))
	}
	return nil
}

// Template is the part of a version whose variables requests fill in.
type Template = template.Template

// CutVariableName is template.CutVariableName.
func CutVariableName(text string) (name, rest string) { return template.CutVariableName(text) }
