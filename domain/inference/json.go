package inference

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one member of a JSON object. Its value keeps the bytes it was sent
// with.
type member struct {
	name  string
	value jsontext.Value
}

// sentMember is a member with its name as it was sent, quotes, escapes and all.
type sentMember struct {
	member
	quoted jsontext.Value
}

// find returns the value of a name, nil when there is none or it is null:
// null counts as not sent.
func find(members []member, name string) jsontext.Value {
	for _, m := range members {
		if m.name == name && m.value.Kind() != 'n' {
			return m.value
		}
	}
	return nil
}

// membersOf splits an object. Anything else is an error, which does not quote
// it.
func membersOf(object jsontext.Value) ([]member, error) {
	var members []member
	for m, err := range scanObject(object) {
		if err != nil {
			return nil, err
		}
		members = append(members, m.member)
	}
	return members, nil
}

// textDecoder reads a value or body whose parts are kept as they are: all of it
// must be JSON (RFC 8259), but names may repeat and strings may hold halves of
// characters, as clients that cut text produce them.
func textDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// scanObject yields the members of the one object that text must hold, each
// with its name as it was sent, and ends with an error if text turns out to
// hold anything else.
func scanObject(text []byte) iter.Seq2[sentMember, error] {
	return func(yield func(sentMember, error) bool) {
		d := textDecoder(text)
		if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
			yield(sentMember{}, notJSON(err, "an object"))
			return
		}
		for d.PeekKind() != '}' {
			var m sentMember
			var err error
			if m.quoted, err = readValue(d, text); err == nil {
				m.name, _ = textOf(m.quoted)
				m.value, err = readValue(d, text)
			}
			if err != nil {
				yield(sentMember{}, notJSON(err, ""))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
		if err := ended(d); err != nil {
			yield(sentMember{}, err)
		}
	}
}

// scanArray is scanObject for the elements of an array.
func scanArray(text []byte) iter.Seq2[jsontext.Value, error] {
	return func(yield func(jsontext.Value, error) bool) {
		d := textDecoder(text)
		if token, err := d.ReadToken(); err != nil || token.Kind() != '[' {
			yield(nil, notJSON(err, "an array"))
			return
		}
		for d.PeekKind() != ']' {
			value, err := readValue(d, text)
			if err != nil {
				yield(nil, notJSON(err, ""))
				return
			}
			if !yield(value, nil) {
				return
			}
		}
		if err := ended(d); err != nil {
			yield(nil, err)
		}
	}
}

// memberOf returns a member of what may be an object, nil when there is none or
// it is null.
func memberOf(object jsontext.Value, name string) jsontext.Value {
	for m, err := range scanObject(object) {
		if err == nil && m.name == name && m.value.Kind() != 'n' {
			return m.value
		}
	}
	return nil
}

// elementsOf splits an array. Anything else is an error, which does not quote
// it.
func elementsOf(array jsontext.Value) ([]jsontext.Value, error) {
	var elements []jsontext.Value
	for value, err := range scanArray(array) {
		if err != nil {
			return nil, err
		}
		elements = append(elements, value)
	}
	return elements, nil
}

// readValue reads the next value as a part of text, which the decoder reads: its
// own copy lives no longer than the next call.
func readValue(d *jsontext.Decoder, text []byte) (jsontext.Value, error) {
	value, err := d.ReadValue()
	end := int(d.InputOffset())
	return text[end-len(value) : end : end], err
}

// ended reads the delimiter that closes the outermost value and makes sure that
// nothing follows.
func ended(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return notJSON(err, "")
	}
	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder's own mark, never wrapped
		return fmt.Errorf("has text after its end at byte %d", d.InputOffset())
	}
	return nil
}

// maxDepth is how deep the decoder lets JSON nest.
const maxDepth = 10_000

// notJSON says where text stops being what it should be. The decoder's own
// words may quote the text, so they are not passed on.
func notJSON(err error, wanted string) error {
	if err == nil {
		return fmt.Errorf("must be %s", wanted)
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok: // there is no value at all
		return errors.New("ends too early, at byte 0")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("ends too early, at byte %d", syntax.ByteOffset)
	case syntax.Err.Error() == "exceeded max depth": // which has no name to ask for
		return fmt.Errorf("must not nest deeper than %d levels", maxDepth)
	}
	return fmt.Errorf("not valid JSON at byte %d", syntax.ByteOffset)
}

// textOf returns the text of a value that is a string, as a decoder returned it.
func textOf(value jsontext.Value) (text string, ok bool) {
	if value.Kind() != '"' {
		return "", false
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true // as most are, and this costs half
	}
	decoded, err := jsontext.AppendUnquote(nil, value)
	return string(decoded), err == nil
}

// quote returns text as a JSON string.
func quote(text string) jsontext.Value {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic("domain: quoting text that is no UTF-8") // all text here was decoded from JSON
	}
	return quoted
}

// object returns a JSON object of members.
func object(members []member) jsontext.Value {
	parts := make([]part, len(members))
	for i, m := range members {
		parts[i].sentMember = sentMember{m, quote(m.name)}
	}
	return assemble(parts)
}

// array returns a JSON array of elements.
func array(elements []jsontext.Value) jsontext.Value {
	text := jsontext.Value{'['}
	for i, e := range elements {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, e...)
	}
	return append(text, ']')
}
