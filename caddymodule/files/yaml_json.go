package files

import "encoding/json"

// JSONOf returns the value of a YAML text as JSON. It reads the text as strictly as a
// preset's file, and numbers keep their text. A text without a value is null. file names
// the text in mistakes. The error is Errors.
func JSONOf(file string, text []byte) (json.RawMessage, error) {
	r := &reader{}
	d, ok := r.parse(nil, file, text)
	if !ok || d.failed {
		return nil, r.mistakes.err()
	}
	if d.root == nil {
		return json.RawMessage("null"), nil
	}
	value, ok := d.toJSON(d.root, nil, false)
	if !ok {
		return nil, r.mistakes.err()
	}
	return value, nil
}
