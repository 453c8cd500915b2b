package inference

import (
	"bytes"
	"iter"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Body is the body of a request, in pieces that follow each other. Pieces may be parts of
// Request.Body, which then must not change before the Body was read. A merged Body of a single
// piece has no part of it.
type Body [][]byte

// Len returns the length in bytes.
func (b Body) Len() int {
	size := 0
	for _, piece := range b {
		size += len(piece)
	}
	return size
}

// Bytes returns the whole body. It is a copy, unless there is only one piece.
func (b Body) Bytes() []byte {
	if len(b) == 1 {
		return b[0]
	}
	return bytes.Join(b, nil)
}

// String returns the whole body.
func (b Body) String() string { return string(b.Bytes()) }

// part is one field of a merged request.
type part struct {
	rawjson.Member
	// lead stands before the value, which lacks its first byte then, and tail behind it. So
	// a prompt is added without a copy of the value, which may be most of the request.
	lead []jsontext.Value
	tail jsontext.Value
	from Source
}

var (
	openBrace, closeBrace = jsontext.Value{'{'}, jsontext.Value{'}'}
	colon, comma          = jsontext.Value{':'}, jsontext.Value{','}
)

// textsOf yields the texts that make up the object of parts.
func textsOf(parts []part) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		before := openBrace
		for i := range parts {
			p := &parts[i]
			if !yield(before) || !yield(p.Quoted) || !yield(colon) {
				return
			}
			for _, lead := range p.lead {
				if !yield(lead) {
					return
				}
			}
			if !yield(p.Value) || !yield(p.tail) {
				return
			}
			before = comma
		}
		if len(parts) > 0 || yield(openBrace) {
			yield(closeBrace)
		}
	}
}

// assemble returns the object of parts. Names and values keep their bytes.
func assemble(parts []part) []byte {
	text := make([]byte, 0, sizeOf(parts))
	for t := range textsOf(parts) {
		text = append(text, t...)
	}
	return text
}

// sizeOf returns the length of the object of parts, or the largest int. A template can repeat
// a large value, and an int may have 32 bits.
func sizeOf(parts []part) int {
	size := int64(0)
	for text := range textsOf(parts) {
		size += int64(len(text))
	}
	return int(min(size, math.MaxInt))
}

// largeText is the length from which a text is a piece of a Body. Shorter ones are copied,
// since each piece costs about as much as that.
const largeText = 4 << 10

// compose returns the merged request. It must be granted memory for all of it, since a
// template can repeat a large value. It releases that of the pieces that are shared, and that
// of copies, which are pieces too.
func (m *merger) compose() (Body, error) {
	size := sizeOf(m.parts)
	m.release(m.copied)
	if err := m.reserve(size); err != nil {
		return nil, err
	}
	if len(m.workspace.disabledTools) > 0 { // it is searched
		return Body{assemble(m.parts)}, nil
	}
	large, pieces := 0, 1
	for text := range textsOf(m.parts) {
		if len(text) >= largeText {
			large, pieces = large+len(text), pieces+2
		}
	}
	body, copied, begin := make(Body, 0, pieces), make([]byte, 0, size-large), 0
	for text := range textsOf(m.parts) {
		if len(text) < largeText {
			copied = append(copied, text...)
			continue
		}
		body = append(body, copied[begin:len(copied):len(copied)], text)
		begin = len(copied)
	}
	m.release(m.sharedSize())
	return append(body, copied[begin:]), nil
}

// sharedSize returns the length of the large texts that take no memory of their own. They are
// parts of the request's body or of a cached preset. Others were made for this request.
func (m *merger) sharedSize() (size int) {
	for i := range m.parts {
		p := &m.parts[i]
		if len(p.Value) >= largeText && (isEndOf(p.Value, rawjson.Find(m.sent, p.Name)) || isEndOf(p.Value, m.setting(p.Name))) {
			size += len(p.Value)
		}
		for _, lead := range p.lead {
			if len(lead) >= largeText && m.settings.template == nil { // it is of the preset's prompt
				size += len(lead)
			}
		}
	}
	return size
}

// isEndOf reports whether text, which is not empty, is the end of whole in the same memory.
func isEndOf(text, whole jsontext.Value) bool {
	return len(text) <= len(whole) && &text[len(text)-1] == &whole[len(whole)-1]
}
