package schema

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// members returns the names, still quoted, and values of an object that has
// been read strictly.
func members(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) {
		c := cursor{object, 1}
		for c.more() && yield(c.next(), c.next()) {
		}
	}
}

// items returns the items of an array that has been read strictly, numbered.
func items(array jsontext.Value) iter.Seq2[int, jsontext.Value] {
	return func(yield func(int, jsontext.Value) bool) {
		c := cursor{array, 1}
		for i := 0; c.more() && yield(i, c.next()); i++ {
		}
	}
}

// cursor goes through an object or array a second time. The strict reading
// has found it valid, so all that is left to do is to find where values end.
type cursor struct {
	text jsontext.Value
	at   int
}

// skipSpace goes to the next value, or to the end of the object or array.
func (c *cursor) skipSpace() {
	for {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			c.at++
		default:
			return
		}
	}
}

func (c *cursor) more() bool {
	c.skipSpace()
	return c.text[c.at] != '}' && c.text[c.at] != ']'
}

// next returns the next value or quoted name.
func (c *cursor) next() jsontext.Value {
	c.skipSpace()
	start := c.at
	switch c.text[c.at] {
	case '"':
		c.skipString()
	case '{', '[':
		c.skipNested()
	default:
		c.skipLiteral()
	}
	return c.text[start:c.at]
}

func (c *cursor) skipString() {
	for c.at++; ; c.at++ {
		end := bytes.IndexByte(c.text[c.at:], '"')
		if end < 0 {
			panic("schema: a string without an end was read") // rather than search forever
		}
		c.at += end
		if !escaped(c.text, c.at) {
			c.at++
			return
		}
	}
}

// escaped tells whether a backslash before the quote at i takes it as text, which
// it does not if another takes the backslash.
func escaped(text jsontext.Value, i int) bool {
	first := i
	for text[first-1] == '\\' {
		first--
	}
	return (i-first)%2 == 1
}

func (c *cursor) skipNested() {
	for depth := 0; ; {
		switch c.text[c.at] {
		case '"':
			c.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.at++
		if depth == 0 {
			return
		}
	}
}

// skipLiteral skips a number, true, false or null.
func (c *cursor) skipLiteral() {
	for {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n', ',', '}', ']':
			return
		}
		c.at++
	}
}

// unquote decodes a string that has been read strictly.
func unquote(quoted jsontext.Value) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		panic(err)
	}
	return text
}
