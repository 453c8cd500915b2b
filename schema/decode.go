package schema

import (
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
)

// Decode decodes a body that Check accepted. Every integer of JSON Schema, such as 1.0, is an
// int or int64. The schemas bound them to what a float64 holds exactly.
func Decode(body []byte, into any) error { return jsonv2.Unmarshal(body, into, integers) }

var integers = jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(jsonv2.UnmarshalFunc(decodeInteger[int]), jsonv2.UnmarshalFunc(decodeInteger[int64])))

func decodeInteger[T int | int64](text []byte, n *T) error {
	number, err := strconv.ParseFloat(string(text), 64)
	*n = T(number)
	return err
}
