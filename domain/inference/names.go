package inference

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// usualNames are the names of fields that many requests have. Those of requests and of what
// is made share their memory.
var usualNames = rawjson.NewNames(slices.Concat(slices.Collect(maps.Keys(settingFields)), slices.Collect(maps.Values(promptField)),
	[]string{"input", "stream", "stream_options", "metadata", "user", "store", "session_id", "preset", "prompt", "n"})...)

// soleMember returns a member of an object as it was sent. It returns nil if there is none, or if a
// gateway may read another one.
func soleMember(object jsontext.Value, name string) (value jsontext.Value) {
	for quoted, member := range rawjson.Pairs(object) {
		if !mayBeName(quoted, name) {
			continue
		}
		if value != nil || string(quoted[1:len(quoted)-1]) != name {
			return nil
		}
		value = member
	}
	return value
}

// mayBeName reports whether a gateway may read a member's name, as it was sent, as this name.
func mayBeName(quoted jsontext.Value, name string) bool {
	if len(quoted) > len(`""`)+len(`\u0074`)*len(name) {
		return false
	}
	inside := quoted[1 : len(quoted)-1]
	if !bytes.ContainsFunc(inside, func(char rune) bool { return char == '\\' || char >= utf8.RuneSelf }) {
		return bytes.EqualFold(inside, []byte(name))
	}
	text, _ := rawjson.Text(quoted)
	return strings.EqualFold(text, name)
}

// maxPointed bounds the names in a JSON Pointer, in bytes.
const maxPointed = 128

// pointer returns the JSON Pointer (RFC 6901) of a top-level field, or "" for a very long
// name.
func pointer(name string) string {
	if len(name) > maxPointed {
		return ""
	}
	return string(jsontext.Pointer("").AppendToken(name))
}

// mayContain reports whether a string of text may contain word, plain or spelled with \u
// escapes. word is ASCII.
func mayContain(text []byte, word string) bool {
	return bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte(`\u00`))
}

// maxText bounds the names, types and roles of a request that are read, in bytes.
const maxText = 1 << 10

// textOf returns the text of a member, cut at maxText. It is empty if that is not a string.
func textOf(object jsontext.Value, name string) string {
	text, _ := rawjson.Head(rawjson.Get(object, name), maxText)
	return text
}

// headerName returns a name for dropped. It replaces bytes that are not allowed there, and
// an empty name.
func headerName(name string) string {
	clean := []byte(cmp.Or(name, "_"))
	for i, c := range clean {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '.', c == ':', c == '-':
		default:
			clean[i] = '_'
		}
	}
	return string(clean)
}
