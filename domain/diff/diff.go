// Package diff compares two texts, and two values of JSON.
package diff

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/aymanbagabas/go-udiff"
	"github.com/wI2L/jsondiff"
)

// Text returns the unified diff of two texts, with three lines of context and the
// labels in its first lines. It returns nil if the texts are equal.
func Text(fromLabel, toLabel, from, to string) (*string, error) {
	if from == to {
		return nil, nil
	}
	text, err := udiff.ToUnified(fromLabel, toLabel, from, udiff.Lines(from, to), udiff.DefaultContextLines)
	return &text, err
}

// Operation is an operation of a JSON Patch (RFC 6902).
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"` // nil for remove
	// Old is the value before, nil for add. A patch ignores members that RFC 6902 does not define.
	Old json.RawMessage `json:"old,omitempty"`
}

const (
	// maxPatch bounds the size of a patch, and so the cost of finding one. It counts the
	// bytes of all paths and operations that two values could have. Tools of the maximum
	// size take half of it.
	maxPatch = 4 << 20
	// maxAligned bounds the arrays that are compared as sequences. That takes time and
	// memory quadratic in their length.
	maxAligned = 256
)

// JSON returns the JSON Patch that turns one JSON value into another. If they are equal, it is
// empty and not nil. null is the value of what does not exist.
//
// Numbers are compared by their text, so they may have any length. The order of an object's
// members does not count. If no array has more than 256 elements, the patch shows inserted and
// removed elements. Otherwise elements are compared by their index. If a patch could exceed 4
// MiB, it is one operation that replaces the whole.
func JSON(from, to json.RawMessage) ([]Operation, error) {
	source, err := decodeValue(from)
	if err != nil {
		return nil, err
	}
	target, err := decodeValue(to)
	if err != nil {
		return nil, err
	}
	var e extent
	e.add(source, 0)
	e.add(target, 0)
	// If only one is null, that one is no template.
	if (source == nil) != (target == nil) || e.patch > maxPatch && !reflect.DeepEqual(source, target) {
		whole, err := operation(jsondiff.OperationReplace, "", source, target)
		return []Operation{whole}, err
	}
	var options []jsondiff.Option
	if e.longest <= maxAligned {
		options = append(options, jsondiff.LCS())
	}
	patch, err := jsondiff.CompareWithoutMarshal(source, target, options...)
	if err != nil {
		return nil, err
	}
	operations := make([]Operation, len(patch))
	for i := range patch {
		if operations[i], err = operation(patch[i].Type, patch[i].Path, patch[i].OldValue, patch[i].Value); err != nil {
			return nil, err
		}
	}
	return operations, nil
}

func operation(op, path string, before, after any) (o Operation, err error) {
	o = Operation{Op: op, Path: path}
	if op != jsondiff.OperationAdd {
		o.Old, err = Marshal(before)
	}
	if op != jsondiff.OperationRemove && err == nil {
		o.Value, err = Marshal(after)
	}
	return o, err
}

// Marshal returns the JSON of a value. Unlike the jsonv2 encoder, it writes a json.Number
// unchanged, and an Operation whose value is empty with that value.
func Marshal(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// decodeValue decodes JSON and keeps the text of its numbers.
func decodeValue(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// extent is the amount of data to compare.
type extent struct {
	patch   int // the size of a patch with an operation for every value, without the values
	longest int // the length of the longest array
}

// add adds a value. path is the length of its path in bytes.
func (e *extent) add(value any, path int) {
	const operation = len(`{"op":"replace","path":"","value":},`)
	const index = len("/131072") // of an element in the longest array that fits
	e.patch += operation + path
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			e.add(member, path+len("/")+len(name))
		}
	case []any:
		e.longest = max(e.longest, len(value))
		for _, element := range value {
			e.add(element, path+index)
		}
	}
}
