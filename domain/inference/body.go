package inference

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

// part is one field of a merged request.
type part struct {
	rawjson.Member
	// edits are in the order of their places. So a prompt is added without a copy of the value,
	// which may be most of the request.
	edits []edit
	from  Source
}

// edit puts texts into the place of the bytes of a value from begin to end.
type edit struct {
	begin, end int
	texts      []jsontext.Value
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
			at := 0
			for _, e := range p.edits {
				if !yield(p.Value[at:e.begin]) {
					return
				}
				for _, text := range e.texts {
					if !yield(text) {
						return
					}
				}
				at = e.end
			}
			if !yield(p.Value[at:]) {
				return
			}
			before = comma
		}
		if len(parts) > 0 || yield(openBrace) {
			yield(closeBrace)
		}
	}
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

// draft is a merged request that is being made, with the memory for it.
type draft struct {
	parts  []part
	memory Memory // nil: without a limit
	// copied is how much memory was granted for copies, and refused is the error once some was not.
	copied  int
	refused error
}

func (d *draft) index(name string) int {
	return slices.IndexFunc(d.parts, func(p part) bool { return p.Name == name })
}

// value returns a field of the merged request, or nil. null counts as none.
func (d *draft) value(name string) jsontext.Value {
	if i := d.index(name); i >= 0 && d.parts[i].Value.Kind() != 'n' {
		return d.parts[i].Value
	}
	return nil
}

// set adds a field, or gives it another value.
func (d *draft) set(name string, value jsontext.Value, from Source) {
	if i := d.index(name); i >= 0 {
		d.parts[i].Value, d.parts[i].from = value, from
		return
	}
	d.parts = append(d.parts, part{Member: rawjson.NewMember(name, value), from: from})
}

// remove removes a field, if there is one.
func (d *draft) remove(name string) {
	d.parts = slices.DeleteFunc(d.parts, func(p part) bool { return p.Name == name })
}

// reserve takes memory for a copy of size bytes, until compose counts all parts. Once it was
// refused, compose returns the error, so a caller need not.
func (d *draft) reserve(size int) error {
	if d.memory == nil || d.refused != nil {
		return d.refused
	}
	if d.refused = d.memory.Reserve(size); d.refused == nil {
		d.copied += size
	}
	return d.refused
}

// release gives back size bytes of those that reserve took.
func (d *draft) release(size int) {
	if d.memory != nil {
		d.memory.Release(size)
		d.copied -= size
	}
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
}

// largeText is the length from which a text is a piece of a Body. Shorter ones are copied,
// since each piece costs about as much as that.
const largeText = 4 << 10

// compose returns the merged request. It must be granted memory for all of it, since a
// template can repeat a large value. It releases shared bytes, which others hold, and those of copies,
// which are pieces too.
func (d *draft) compose(shared int) (Body, error) {
	size := sizeOf(d.parts)
	d.release(d.copied)
	if err := d.reserve(size); err != nil {
		return nil, err
	}
	large, pieces := 0, 1
	for text := range textsOf(d.parts) {
		if len(text) >= largeText {
			large, pieces = large+len(text), pieces+2
		}
	}
	body, copied, begin := make(Body, 0, pieces), make([]byte, 0, size-large), 0
	for text := range textsOf(d.parts) {
		if len(text) < largeText {
			copied = append(copied, text...)
			continue
		}
		body = append(body, copied[begin:len(copied):len(copied)], text)
		begin = len(copied)
	}
	d.release(shared)
	return append(body, copied[begin:]), nil
}
