// Package draft is a merged request in the making: its fields with their sources, the texts to insert into
// them, and the memory for it.
package draft

import (
	"bytes"
	"iter"
	"math"
	"slices"

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

// Part is one field of a merged request.
type Part struct {
	rawjson.Member
	// Edits are in the order of their places. So a prompt is added without a copy of the value,
	// which may be most of the request.
	Edits []Edit
	From  Source
}

// Edit puts texts into the place of the bytes of a value from Begin to End.
type Edit struct {
	Begin, End int
	Texts      []jsontext.Value
}

// Insert returns the edit that inserts texts at a place.
func Insert(at int, texts []jsontext.Value) Edit { return Edit{at, at, texts} }

var (
	openBrace, closeBrace = jsontext.Value{'{'}, jsontext.Value{'}'}
	colon                 = jsontext.Value{':'}
)

// Comma separates items, and members.
var Comma = jsontext.Value{','}

// textsOf yields the texts that make up the object of parts.
func textsOf(parts []Part) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		before := openBrace
		for i := range parts {
			p := &parts[i]
			if !yield(before) || !yield(p.Quoted) || !yield(colon) {
				return
			}
			at := 0
			for _, e := range p.Edits {
				if !yield(p.Value[at:e.Begin]) {
					return
				}
				for _, text := range e.Texts {
					if !yield(text) {
						return
					}
				}
				at = e.End
			}
			if !yield(p.Value[at:]) {
				return
			}
			before = Comma
		}
		if len(parts) > 0 || yield(openBrace) {
			yield(closeBrace)
		}
	}
}

// Draft is a merged request that is being made, with the memory for it.
type Draft struct {
	Parts  []Part
	Memory Memory // nil: without a limit
	// Refused is the error once no memory was granted, and copied how much was granted for copies.
	Refused error
	copied  int
}

// Index returns the index of a field among Parts, or -1.
func (d *Draft) Index(name string) int {
	return slices.IndexFunc(d.Parts, func(p Part) bool { return p.Name == name })
}

// Value returns a field of the merged request, or nil. null counts as none.
func (d *Draft) Value(name string) jsontext.Value {
	if i := d.Index(name); i >= 0 && d.Parts[i].Value.Kind() != 'n' {
		return d.Parts[i].Value
	}
	return nil
}

// Set adds a field, or gives it another value.
func (d *Draft) Set(name string, value jsontext.Value, from Source) {
	if i := d.Index(name); i >= 0 {
		d.Parts[i].Value, d.Parts[i].From = value, from
		return
	}
	d.Parts = append(d.Parts, Part{Member: rawjson.NewMember(name, value), From: from})
}

// Remove removes a field, if there is one.
func (d *Draft) Remove(name string) {
	d.Parts = slices.DeleteFunc(d.Parts, func(p Part) bool { return p.Name == name })
}

// Reserve takes memory for a copy of size bytes. Once it was refused, Compose returns the error, so a caller
// need not.
func (d *Draft) Reserve(size int) error {
	if d.Memory == nil || d.Refused != nil {
		return d.Refused
	}
	d.copied += size
	d.Refused = d.Memory.Reserve(size)
	return d.Refused
}

// Source is the origin of a field of a merged request.
type Source string

// A field with several origins has the last of them.
const (
	FromRequest Source = "request"
	FromPreset  Source = "preset"
	// FromVariable is a system prompt or a conversation with values of variables.
	FromVariable  Source = "variable"
	FromWorkspace Source = "workspace"
	FromPolicy    Source = "policy"
	// FromServer is an addition by the configuration of this server.
	FromServer Source = "server"
)

// Memory grants memory before it is used.
type Memory interface {
	// Reserve grants size bytes, or returns why it does not.
	Reserve(size int) error
	// Release gives back size bytes of those granted.
	Release(size int)
	// Buffer returns an empty slice for size bytes that are granted. It is used again for others once nobody
	// reads the merged body any more.
	Buffer(size int) []byte
}

// LargeText is the length from which a text is a piece of a Body. Shorter ones are copied,
// since each piece costs about as much as that.
const LargeText = 4 << 10

// Compose returns the merged request. It must be granted memory for all of it, since a template can repeat a
// large value, but keeps only that of short texts: others hold large ones, or Reserve was called for them.
func (d *Draft) Compose() (Body, error) {
	short, pieces, size := 0, 1, int64(0) // an int may have 32 bits
	for text := range textsOf(d.Parts) {
		if size += int64(len(text)); len(text) >= LargeText {
			pieces += 2
		} else {
			short += len(text)
		}
	}
	more := max(short, int(min(size, math.MaxInt))-d.copied)
	if err := d.Reserve(more); err != nil {
		return nil, err
	}
	body, begin := make(Body, 0, pieces), 0
	var copied []byte
	if d.Memory == nil {
		copied = make([]byte, 0, short)
	} else {
		d.Memory.Release(more - short)
		copied = d.Memory.Buffer(short)
	}
	for text := range textsOf(d.Parts) {
		if len(text) < LargeText {
			copied = append(copied, text...)
			continue
		}
		body = append(body, copied[begin:len(copied):len(copied)], text)
		begin = len(copied)
	}
	return append(body, copied[begin:]), nil
}
