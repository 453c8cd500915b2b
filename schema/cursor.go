package schema

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// unquote decodes a string from a body that was read strictly.
func unquote(quoted jsontext.Value) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		panic(err)
	}
	return text
}
