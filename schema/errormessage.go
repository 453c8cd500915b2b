package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// errorMessageKeyword is the keyword for the messages of violations. It maps a keyword of
// the same schema to its message, for rules such as patterns.
const errorMessageKeyword = "errorMessage"

type errorMessage map[string]string

// Validate implements jsonschema.ExtSchema. It accepts every value.
func (errorMessage) Validate(jsonschema.ValidationContext, any) error { return nil }

type errorMessageCompiler struct{}

// Compile implements jsonschema.ExtCompiler.
func (errorMessageCompiler) Compile(_ jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	keyword, ok := m[errorMessageKeyword]
	if !ok {
		return nil, nil
	}
	messages := make(errorMessage)
	for rule, text := range keyword.(map[string]any) {
		messages[rule] = text.(string)
	}
	return messages, nil
}
