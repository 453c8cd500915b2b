package rawjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file change objects that were checked. Other members keep their bytes.

// With returns an object with a value for a member, in the place of the member's own or at the end.
func With(object jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	edited := append(make(jsontext.Value, 0, len(object)+len(name)+len(value)+len(`,"":`)), '{')
	isSet := false
	for quoted, own := range Pairs(object) {
		if IsText(quoted, name) {
			own, isSet = value, true
		}
		edited = AppendMember(edited, quoted, own)
	}
	if !isSet {
		edited = AppendMember(edited, Quote(name), value)
	}
	return append(edited, '}')
}

// Without returns an object without the members that leavesOut names, or nil if nothing is left that is
// not null.
func Without(object jsontext.Value, leavesOut func(name jsontext.Value) bool) jsontext.Value {
	edited := append(make(jsontext.Value, 0, len(object)), '{')
	isEmpty := true
	for quoted, value := range Pairs(object) {
		if !leavesOut(quoted) {
			edited = AppendMember(edited, quoted, value)
			isEmpty = isEmpty && value.Kind() == 'n'
		}
	}
	if isEmpty {
		return nil
	}
	return append(edited, '}')
}

// IsEmpty reports whether a value is {} or [].
func IsEmpty(value jsontext.Value) bool {
	kind := value.Kind()
	return (kind == '{' || kind == '[') && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}

// AppendMember appends a member to an object that has no last brace yet.
func AppendMember(object, name, value jsontext.Value) jsontext.Value {
	if len(object) > len("{") {
		object = append(object, ',')
	}
	return append(append(append(object, name...), ':'), value...)
}
