package schema

import (
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
)

// Decode decodes a body that Check accepted. Every integer of JSON Schema, such as 1.0, is an
// int. The schemas bound them to what a float64 holds exactly.
func Decode(body []byte, into any) error { return jsonv2.Unmarshal(body, into, integers) }

var integers = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFunc(func(text []byte, n *int) error {
	number, err := strconv.ParseFloat(string(text), 64)
	*n = int(number)
	return err
}))
