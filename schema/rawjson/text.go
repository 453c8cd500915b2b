package rawjson

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file read strings that were checked. Only Text and Inside
// copy a whole one. The inside of a string is what is between its quotes.

// Text returns the text of a value that is a string, in memory of its own.
func Text(value jsontext.Value) (text string, ok bool) {
	if value.Kind() != '"' {
		return "", false
	}
	if inside := insideOf(value); isPlainText(inside) {
		return string(inside), true // without AppendUnquote, which costs twice as much
	}
	decoded, err := jsontext.AppendUnquote(nil, value)
	return string(decoded), err == nil
}

// Head is Text, but cuts a text of more than most bytes. The head has more than most bytes, too.
func Head(value jsontext.Value, most int) (text string, ok bool) {
	if len(value) <= most || value.Kind() != '"' {
		return Text(value)
	}
	head := make([]byte, 0, most+utf8.UTFMax)
	ok = true
	for inside := insideOf(value); len(inside) > 0 && len(head) <= most; {
		char, size := character(inside)
		head, inside = utf8.AppendRune(head, char), inside[size:]
		ok = ok && char != notUTF8
	}
	return string(head), ok
}

// IsText reports whether a value is a string of this text, which is UTF-8.
func IsText(value jsontext.Value, text string) bool {
	if value.Kind() != '"' {
		return false
	}
	inside := insideOf(value)
	switch { // an escape takes two to six times the bytes of its character
	case len(inside) <= len(text):
		return string(inside) == text && strings.IndexByte(text, '\\') < 0
	case len(inside) > len(`\u0000`)*len(text), bytes.IndexByte(inside, '\\') < 0:
		return false
	}
	for len(inside) > 0 && text != "" {
		char, size := character(inside)
		want, length := utf8.DecodeRuneInString(text)
		if char != want {
			return false
		}
		inside, text = inside[size:], text[length:]
	}
	return len(inside) == 0 && text == ""
}

// Contains reports whether a value is a string that contains a text, which has no characters that JSON
// escapes. It copies nothing, since a stranger's string can be as long as a request.
func Contains(value jsontext.Value, text string) bool {
	if value.Kind() != '"' {
		return false
	}
	inside := insideOf(value)
	if bytes.IndexByte(inside, '\\') < 0 {
		return bytes.Contains(inside, []byte(text))
	}
	_, first := utf8.DecodeRuneInString(text)
	for begins := text[:first] + `\`; ; {
		next := bytes.IndexAny(inside, begins)
		if next < 0 {
			return false
		}
		inside = inside[next:]
		if _, missing := CutCommon(inside, []byte(text)); len(missing) == 0 {
			return true
		}
		_, size := character(inside)
		inside = inside[size:]
	}
}

// CutCommon returns what follows the common beginning of two insides. They are compared as
// they decode. Either differs from the other there, or has come to its end. b is one that
// Inside returns.
func CutCommon(a, b jsontext.Value) (restA, restB jsontext.Value) {
	if both := min(len(a), len(b)); bytes.Equal(a[:both], b[:both]) {
		return a[both:], b[both:]
	}
	for len(a) > 0 && len(b) > 0 {
		sizeA, sizeB := 1, 1
		charA, charB := rune(a[0]), rune(b[0])
		if charA == '\\' || charB == '\\' {
			charA, sizeA = character(a)
			charB, sizeB = character(b)
		}
		if charA != charB {
			break
		}
		a, b = a[sizeA:], b[sizeB:]
	}
	return a, b
}

// Inside returns the inside of a string, with no more escapes than it needs. Equal strings
// have equal insides. It is not ok for another value, or for a string that is not UTF-8. It
// copies a string with escapes, and the copy is no longer.
func Inside(value jsontext.Value) (inside jsontext.Value, ok bool) {
	if !IsUTF8(value) {
		return nil, false
	}
	inside = insideOf(value)
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	normal := make(jsontext.Value, 0, len(inside))
	for {
		plain := bytes.IndexByte(inside, '\\')
		if plain < 0 {
			return append(normal, inside...), true
		}
		normal = append(normal, inside[:plain]...)
		inside = inside[plain:]
		char, size := character(inside)
		if size == len(`\n`) && char != '/' { // it needs the escape
			normal = append(normal, inside[:size]...)
		} else {
			quoted := Quote(string(char))
			normal = append(normal, insideOf(quoted)...)
		}
		inside = inside[size:]
	}
}

// IsUTF8 reports whether a value is a string of UTF-8.
func IsUTF8(value jsontext.Value) bool {
	if value.Kind() != '"' || !utf8.Valid(value) {
		return false
	}
	for inside := insideOf(value); ; {
		next := bytes.IndexByte(inside, '\\')
		if next < 0 {
			return true
		}
		char, size := character(inside[next:])
		if char == notUTF8 {
			return false
		}
		inside = inside[next+size:]
	}
}

// FindNotUTF8 returns where the first name in text begins that is not UTF-8, or -1 if there is none. It looks at
// tokens alone, in JSON of any depth, and up to where other text has a string that does not end.
func FindNotUTF8(text []byte) int {
	if utf8.Valid(text) && !bytes.Contains(text, []byte(`\ud`)) && !bytes.Contains(text, []byte(`\uD`)) { // nearly always
		return -1
	}
	for i := 0; ; {
		next := bytes.IndexByte(text[i:], '"')
		if next < 0 {
			return -1
		}
		begin := i + next
		end := scanString(text, begin)
		if end < 0 {
			return -1
		}
		i = scanSpace(text, end)
		if at(text, i) == ':' && !IsUTF8(text[begin:end]) {
			return begin
		}
	}
}

func insideOf(value jsontext.Value) jsontext.Value { return value[1 : len(value)-1] }

// isPlainText reports whether an inside has no escapes and is valid UTF-8.
func isPlainText(inside []byte) bool {
	return bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside)
}

// notUTF8 is the character for a byte that is not UTF-8, and for half of a surrogate pair.
const notUTF8 rune = -1

// character decodes the first character of an inside, and returns its size there.
func character(inside []byte) (char rune, size int) {
	if inside[0] != '\\' {
		if char, size = utf8.DecodeRune(inside); char == utf8.RuneError && size == 1 {
			char = notUTF8
		}
		return char, size
	}
	switch inside[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(inside[1]), 2
	}
	const length = len(`\u0000`)
	char = codeOf(inside)
	if !utf16.IsSurrogate(char) {
		return char, length
	}
	if rest := inside[length:]; at(rest, 0) == '\\' && at(rest, 1) == 'u' {
		if char = utf16.DecodeRune(char, codeOf(rest)); char != utf8.RuneError {
			return char, 2 * length
		}
	}
	return notUTF8, length
}

// codeOf returns the code of the escape \uXXXX that begins an inside.
func codeOf(inside []byte) (code rune) {
	for _, digit := range inside[len(`\u`):len(`\u0000`)] {
		if digit > '9' {
			digit += 9 // of either letter, the lowest four bits count from 1
		}
		code = code<<4 | rune(digit&0xf)
	}
	return code
}
