// Package template has the part of a version whose variables requests fill in.
package template

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/problem"
)

// Template is the part of a version whose variables requests fill in. Its system prompt and
// the text of its messages have the variables, as {{name}}.
type Template struct {
	// Variables are the names of all variables, in the order of their first use.
	Variables []string `json:"variables"`
	// Messages is a JSON array of the captured messages in the shape of the version's
	// dialect. Each has the bytes that were sent. Encoders would rewrite those.
	Messages json.RawMessage `json:"messages"`
}

// CutVariableName returns the name of a variable that begins text, and the text behind it.
// The name is empty if none begins it. A name has letters, marks and digits of any script,
// _ . and -, and begins with none of the last two.
func CutVariableName(text string) (name, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool {
		return r == utf8.RuneError || !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && r != '_' && r != '.' && r != '-'
	})
	if end < 0 {
		end = len(text)
	}
	if text != "" && (text[0] == '.' || text[0] == '-') {
		end = 0
	}
	return text[:end], text[end:]
}

// Check returns an Invalid error if no capture makes such a template. It does not compare
// Variables with the text.
func (t *Template) Check() error {
	if t == nil {
		return nil
	}
	seen := make(map[string]bool, len(t.Variables))
	for i, name := range t.Variables {
		if whole, _ := CutVariableName(name); name == "" || whole != name || seen[name] {
			return problem.InvalidAt("/template/variables/"+strconv.Itoa(i), "must be the name of a variable, and no other's")
		}
		seen[name] = true
	}
	var messages []jsontext.Value
	err := jsonv2.Unmarshal(t.Messages, &messages)
	isBare := err == nil && t.Messages[0] == '[' && t.Messages[len(t.Messages)-1] == ']' // and not null or with spaces
	if !isBare || slices.ContainsFunc(messages, func(m jsontext.Value) bool { return m.Kind() != '{' }) {
		return problem.InvalidAt("/template/messages", "must be an array of objects")
	}
	return nil
}

// JSON returns t as clients see it, null for none.
func (t *Template) JSON() []byte {
	if t == nil {
		return []byte("null")
	}
	text := append(make([]byte, 0, t.Size()+32), `{"variables":[`...)
	for i, name := range t.Variables {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), name...), '"')
	}
	text = append(append(text, `],"messages":`...), t.Messages...)
	return append(text, '}')
}

// Size returns the bytes that t counts for the limit of what a version stores, 0 for none.
func (t *Template) Size() int {
	if t == nil {
		return 0
	}
	size := len(t.Messages)
	for _, name := range t.Variables {
		size += len(name) + len(`"",`)
	}
	return size
}
