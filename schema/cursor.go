package schema

import (
	"bytes"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// members returns the names, still quoted, and values of an object that has
// been read strictly.
func members(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) {
		c := newCursor(object)
		defer c.free()
		for c.more() && yield(c.next(), c.next()) {
		}
	}
}

// items returns the items of an array that has been read strictly, numbered.
func items(array jsontext.Value) iter.Seq2[int, jsontext.Value] {
	return func(yield func(int, jsontext.Value) bool) {
		c := newCursor(array)
		defer c.free()
		for i := 0; c.more() && yield(i, c.next()); i++ {
		}
	}
}

// cursor goes through an object or array a second time. The strict reading
// has found it valid, so any failure now is a bug, and panics.
type cursor struct {
	text    jsontext.Value
	buffer  bytes.Buffer
	decoder jsontext.Decoder
}

// cursors are those not in use. They keep no body, and no memory of note: the
// decoder neither compares names again nor copies values.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

func newCursor(text jsontext.Value) *cursor {
	c := cursors.Get().(*cursor)
	c.text = text
	c.buffer = *bytes.NewBuffer(text)
	c.decoder.Reset(&c.buffer, jsontext.AllowDuplicateNames(true))
	if _, err := c.decoder.ReadToken(); err != nil {
		panic(err)
	}
	return c
}

func (c *cursor) free() {
	c.text = nil
	c.buffer = bytes.Buffer{}
	c.decoder.Reset(&c.buffer)
	cursors.Put(c)
}

func (c *cursor) more() bool {
	kind := c.decoder.PeekKind()
	return kind != '}' && kind != ']'
}

// next returns the next value or quoted name as a part of the text, because
// the decoder does not promise to keep what it returns.
func (c *cursor) next() jsontext.Value {
	v, err := c.decoder.ReadValue()
	if err != nil {
		panic(err)
	}
	end := c.decoder.InputOffset()
	return c.text[end-int64(len(v)) : end]
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
