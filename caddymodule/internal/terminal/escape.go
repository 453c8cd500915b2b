package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Escape returns text for one line of a terminal. A server, a file or a model may be
// hostile. Control characters could move the cursor, and marks of the writing direction
// could show another text. Escapes have Go's form, such as \x1b and \u202e. Bytes that are
// not UTF-8 are escaped, too.
func Escape(text string) string { return escapeBut(text, "") }

// EscapeText is Escape for a text of several lines. It keeps line feeds and tabs.
func EscapeText(text string) string { return escapeBut(text, "\n\t") }

// escapeBut escapes all unsafe characters but some.
func escapeBut(text, kept string) string {
	var escaped strings.Builder
	for at, r := range text {
		isInvalid := r == utf8.RuneError && !strings.HasPrefix(text[at:], string(utf8.RuneError))
		switch {
		case isInvalid:
			fmt.Fprintf(&escaped, `\x%02x`, text[at])
		case !IsUnsafe(r) || strings.ContainsRune(kept, r):
			escaped.WriteRune(r)
		default:
			escaped.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return escaped.String()
}

// EscapeJSON is Escape for JSON with any white space. The result is the same JSON.
func EscapeJSON(text []byte) []byte {
	var escaped bytes.Buffer
	for _, r := range string(text) {
		if !IsUnsafe(r) || strings.ContainsRune("\n\t\r", r) { // these are white space between values
			escaped.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	return escaped.Bytes()
}

// IsUnsafe reports whether a terminal may do something else with r than show it. These are
// all control characters, line and paragraph separators, and most format characters. Some of
// the latter change the direction of the text, others are invisible. Some scripts and emoji
// need the others.
func IsUnsafe(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) &&
		r != nonJoiner && r != joiner && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// maxIndented is how deep JSON may nest that is indented: as deep as the API takes it. Each
// level indents all lines in it, so a small answer could become a very large text.
const maxIndented = 128

// IndentJSON returns JSON with line breaks, for a terminal. Deeper JSON than maxIndented has
// one line, and other text stays as it is.
func IndentJSON(text json.RawMessage) string {
	var indented bytes.Buffer
	var err error
	if rawjson.IsDeeper(text, maxIndented) {
		err = json.Compact(&indented, text)
	} else {
		err = json.Indent(&indented, text, "", "  ")
	}
	if err != nil {
		return EscapeText(string(text))
	}
	return string(EscapeJSON(indented.Bytes()))
}
