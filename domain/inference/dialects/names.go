package dialects

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

// UsualNames are the names of fields that many requests have. Those of requests and of what
// is made share their memory.
var UsualNames = rawjson.NewNames(slices.Collect(maps.Keys(Fields))...)

// SoleMember returns a member of an object as it was sent. It returns nil if there is none, or if a
// gateway may read another one.
func SoleMember(object jsontext.Value, name string) (value jsontext.Value) {
	for quoted, member := range rawjson.Pairs(object) {
		if !MayBeName(quoted, name) {
			continue
		}
		if value != nil || string(quoted[1:len(quoted)-1]) != name {
			return nil
		}
		value = member
	}
	return value
}

// MayBeName reports whether a gateway may read a member's name, as it was sent, as this name, which is of ASCII
// without a backslash.
func MayBeName(quoted jsontext.Value, name string) bool {
	inside := quoted[1 : len(quoted)-1]
	switch { // an escape, and a letter that folds to one of ASCII, take more bytes than that
	case len(inside) <= len(name):
		return bytes.EqualFold(inside, []byte(name))
	case len(inside) > len(`\u0074`)*len(name), !bytes.ContainsFunc(inside, func(char rune) bool { return char == '\\' || char >= utf8.RuneSelf }):
		return false
	}
	text, _ := rawjson.Text(quoted)
	return strings.EqualFold(text, name)
}

// MaxPointed bounds the names in a JSON Pointer, in bytes.
const MaxPointed = 128

// Pointer returns the JSON Pointer (RFC 6901) of a top-level field, or "" for a very long
// name.
func Pointer(name string) string {
	if len(name) > MaxPointed {
		return ""
	}
	return string(jsontext.Pointer("").AppendToken(name))
}

// MayContain reports whether a string of text may contain word, plain or spelled with \u
// escapes. word is ASCII.
func MayContain(text []byte, word string) bool {
	return bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte(`\u00`))
}

// MaxText bounds the names, types and roles of a request that are read, in bytes.
const MaxText = 1 << 10

// TextOf returns the text of a member, cut at MaxText. It is empty if that is not a string.
func TextOf(object jsontext.Value, name string) string {
	text, _ := rawjson.Head(rawjson.Get(object, name), MaxText)
	return text
}

// HeaderName returns a name for dropped. It replaces bytes that are not allowed there, and
// an empty name.
func HeaderName(name string) string {
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
