package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// escape returns text for one line of a terminal. A server, a file or a model may be
// hostile. Control characters could move the cursor, and marks of the writing direction
// could show another text. Escapes have Go's form, such as \x1b and \u202e. Bytes that are
// not UTF-8 are escaped, too.
func escape(text string) string { return escapeBut(text, "") }

// escapeText is escape for a text of several lines. It keeps line feeds and tabs.
func escapeText(text string) string { return escapeBut(text, "\n\t") }

// escapeBut escapes all unsafe characters but some.
func escapeBut(text, kept string) string {
	var escaped strings.Builder
	done := 0 // everything before it is written
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		isInvalid := r == utf8.RuneError && size == 1
		if !isInvalid && (!isUnsafe(r) || strings.ContainsRune(kept, r)) {
			at += size
			continue
		}
		escaped.WriteString(text[done:at])
		switch {
		case isInvalid:
			fmt.Fprintf(&escaped, `\x%02x`, text[at])
		case r == '\n':
			escaped.WriteString(`\n`)
		case r == '\r':
			escaped.WriteString(`\r`)
		case r == '\t':
			escaped.WriteString(`\t`)
		case r <= 0xff:
			fmt.Fprintf(&escaped, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		default:
			fmt.Fprintf(&escaped, `\U%08x`, r)
		}
		at += size
		done = at
	}
	if done == 0 {
		return text
	}
	escaped.WriteString(text[done:])
	return escaped.String()
}

// escapeJSON is escape for JSON with any white space. The result is the same JSON.
func escapeJSON(text []byte) []byte {
	var escaped bytes.Buffer
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped.WriteString(`\ufffd`) // as decoders read it
		case !isUnsafe(r) || r == '\n' || r == '\t' || r == '\r': // these are white space between values
			escaped.Write(text[:size])
		case r <= 0xffff:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		}
		text = text[size:]
	}
	return escaped.Bytes()
}

// isUnsafe reports whether a terminal may do something else with r than show it. These are
// all control characters, line and paragraph separators, and most format characters. Some of
// the latter change the direction of the text, others are invisible. Some scripts and emoji
// need the others.
func isUnsafe(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r == nonJoiner || r == joiner || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// maxIndented is how deep JSON may nest that is indented: as deep as the API takes it. Each
// level indents all lines in it, so a small answer could become a very large text.
const maxIndented = 128

// indentJSON returns JSON with line breaks, for a terminal. Deeper JSON than maxIndented has
// one line.
func indentJSON(text json.RawMessage) (string, error) {
	var indented bytes.Buffer
	var err error
	if isDeep(text) {
		err = json.Compact(&indented, text)
	} else {
		err = json.Indent(&indented, text, "", "  ")
	}
	if err != nil {
		return "", fmt.Errorf("the answer has invalid JSON: %w", err)
	}
	return string(escapeJSON(indented.Bytes())), nil
}

// isDeep reports whether JSON nests deeper than maxIndented.
func isDeep(text []byte) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for decoder.StackDepth() <= maxIndented {
		if _, err := decoder.ReadToken(); err != nil {
			return false // at its end, or at a mistake
		}
	}
	return true
}
