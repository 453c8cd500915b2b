package schema

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// members returns the names, still quoted, and values of an object that has
// been read strictly.
func members(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return rawjson.Pairs(object)
}

// items returns the items of an array that has been read strictly, numbered.
func items(array jsontext.Value) iter.Seq2[int, jsontext.Value] {
	return func(yield func(int, jsontext.Value) bool) {
		i := 0
		for value, err := range rawjson.Array(array) {
			if err != nil {
				panic(err)
			}
			if !yield(i, value) {
				return
			}
			i++
		}
	}
}

// unquote decodes a string that has been read strictly.
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
