package files

import "encoding/json"

// JSONOf returns the value of a YAML text as JSON. It reads the text as strictly as a
// preset's file, and numbers keep their text. A text without a value is null. file names
// the text in mistakes. The error is Errors.
func JSONOf(file string, text []byte) (json.RawMessage, error) {
	r := &reader{}
	value := json.RawMessage("null")
	if d, ok := r.parse(nil, file, text); ok && d.root != nil {
		c, _ := d.toJSON(nil) // if it is not ok, there are mistakes
		value = c.json
	}
	if err := r.mistakes.err(); err != nil {
		return nil, err
	}
	return value, nil
}
