package inference

import (
	"bytes"
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

// quoteInside returns what is between the quotes of text as a JSON string.
func quoteInside(text string) jsontext.Value {
	quoted := rawjson.Quote(text)
	return quoted[1 : len(quoted)-1]
}

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
