package schema

import (
	"fmt"

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
	object, ok := keyword.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be an object", errorMessageKeyword)
	}
	messages := make(errorMessage, len(object))
	for rule, text := range object {
		if _, ok := m[rule]; !ok {
			return nil, fmt.Errorf("%s for %s, which is not there", errorMessageKeyword, rule)
		}
		if messages[rule], ok = text.(string); !ok {
			return nil, fmt.Errorf("%s for %s must be a string", errorMessageKeyword, rule)
		}
	}
	return messages, nil
}
