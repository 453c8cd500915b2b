package diff

import (
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FieldChange is a field that a change gave another value.
type FieldChange struct {
	// Field is the JSON pointer of the field in the API, such as /limits/requests_per_minute.
	Field string `json:"field"`
	// From and To are null where there is no value. Both are absent for names and descriptions, and if one of them is too long.
	From jsontext.Value `json:"from,omitzero"`
	To   jsontext.Value `json:"to,omitzero"`
}

// maxValue bounds the bytes of a value in a FieldChange, because nobody may remove it from an audit trail.
const maxValue = 512

// isFreeText reports whether a field has what people write, which they may want to be gone for good.
func isFreeText(field string) bool {
	return strings.HasSuffix(field, "/name") || strings.HasSuffix(field, "/description")
}

// Fields returns the fields that differ, in the order of their pointers. before and after are two states
// of the same object, without anything secret. The error is that of encoding one of them.
func Fields(before, after any) ([]FieldChange, error) {
	from, err := fieldsOf(before)
	if err != nil {
		return nil, err
	}
	to, err := fieldsOf(after)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, fields := range []map[string]jsontext.Value{from, to} {
		for name := range fields {
			names[name] = true
		}
	}
	var all []FieldChange
	for _, field := range slices.Sorted(maps.Keys(names)) {
		a, b := orNull(from[field]), orNull(to[field])
		if string(a) == string(b) {
			continue
		}
		if isFreeText(field) || max(len(a), len(b)) > maxValue {
			a, b = nil, nil
		}
		all = append(all, FieldChange{Field: field, From: a, To: b})
	}
	return all, nil
}

// orNull returns a value, null for none.
func orNull(value jsontext.Value) jsontext.Value {
	if value == nil {
		return jsontext.Value("null")
	}
	return value
}

// fieldsOf returns the values of an object's JSON by their pointers. Those of objects in it have fields
// of their own. What only says who made it and when is left out.
func fieldsOf(object any) (map[string]jsontext.Value, error) {
	text, err := jsonv2.Marshal(object)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]jsontext.Value)
	var add func(at string, value jsontext.Value) error
	add = func(at string, value jsontext.Value) error {
		if value.Kind() != '{' {
			fields[at] = value
			return nil
		}
		var members map[string]jsontext.Value
		if err := jsonv2.Unmarshal(value, &members); err != nil {
			return err
		}
		for name, member := range members {
			if name == "id" || strings.HasSuffix(name, "_at") {
				continue
			}
			if err := add(at+"/"+name, member); err != nil {
				return err
			}
		}
		return nil
	}
	return fields, add("", text)
}
