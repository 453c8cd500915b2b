package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxDepth is how deep a body may nest: an object or array may lie inside
	// at most MaxDepth-1 others.
	MaxDepth = 128
	// MaxMembers is how many members the objects of a body may have in all. The first 64 of
	// each object do not count. To find duplicates among more, the decoder builds a map
	// that takes twenty times the memory of the names.
	MaxMembers  = 16384
	freeMembers = 64
)

// Object is the top level of a body that was read strictly. It refers to the
// bytes of that body, which must not change while it is in use.
type Object struct {
	members []member
}

type member struct {
	name  string
	value jsontext.Value
}

// All returns the members in the order of the body. A value is the part of the
// body that holds it, byte for byte; a name is decoded.
func (o Object) All() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for _, m := range o.members {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// member returns the value of a name, or nil.
func (o Object) member(name string) jsontext.Value {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// readObject reads the members of a body. Every error is an *Error.
func readObject(body []byte) (Object, error) {
	object, kind, err := readValue(body)
	switch {
	case err != nil:
		return Object{}, err
	case kind != '{':
		return Object{}, violation("", "must be an object")
	}
	return object, nil
}

// readValue reads one JSON value of any kind, and the members of an object. Every error is
// an *Error.
func readValue(text []byte) (object Object, kind jsontext.Kind, err error) {
	r := newReader(text)
	defer r.free()
	if kind = r.decoder.PeekKind(); kind == '{' {
		object, err = r.members()
	} else {
		err = r.skip()
	}
	if errors.Is(err, io.EOF) {
		return Object{}, 0, violation("", "must not be empty")
	}
	if err != nil {
		return Object{}, 0, syntaxViolation(err)
	}
	end := r.decoder.InputOffset()
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return Object{}, 0, violation("", fmt.Sprintf("has text after its end at byte %d", end))
	}
	return object, kind, nil
}

// reader reads a text once, token by token. So it checks its limits before the decoder's
// memory grows.
type reader struct {
	text    []byte
	buffer  bytes.Buffer
	decoder jsontext.Decoder
	counted int // the number of members that count for MaxMembers
}

// readers are reused, because a decoder allocates a list of names for each level. A reader
// keeps nothing of a body but names. After a body of more than maxPooled bytes it may
// keep many, so it is dropped.
var readers = sync.Pool{New: func() any { return new(reader) }}

const maxPooled = 64 << 10

func newReader(text []byte) *reader {
	r := readers.Get().(*reader)
	r.text, r.counted = text, 0
	r.buffer = *bytes.NewBuffer(text)
	r.decoder.Reset(&r.buffer)
	return r
}

func (r *reader) free() {
	if len(r.text) > maxPooled {
		return
	}
	r.text, r.buffer = nil, bytes.Buffer{}
	r.decoder.Reset(&r.buffer)
	readers.Put(r)
}

func (r *reader) token() (jsontext.Token, error) {
	token, err := r.decoder.ReadToken()
	if err != nil {
		return token, err
	}
	depth := r.decoder.StackDepth()
	if depth > MaxDepth {
		return token, violation("", fmt.Sprintf("must not nest deeper than %d levels", MaxDepth))
	}
	// The length counts names and values, so it is odd after a name.
	if kind, n := r.decoder.StackIndex(depth); kind == '{' && n > 2*freeMembers && n%2 == 1 {
		if r.counted++; r.counted > MaxMembers {
			return token, violation("", fmt.Sprintf("has too many members: more than %d beyond the first %d of an object", MaxMembers, freeMembers))
		}
	}
	return token, nil
}

// skip skips one value.
func (r *reader) skip() error {
	for depth := r.decoder.StackDepth(); ; {
		if _, err := r.token(); err != nil {
			return err
		}
		if r.decoder.StackDepth() <= depth {
			return nil
		}
	}
}

// members reads an object.
func (r *reader) members() (Object, error) {
	object := Object{make([]member, 0, 8)}
	if _, err := r.token(); err != nil { // {
		return Object{}, err
	}
	for r.decoder.PeekKind() != '}' {
		token, err := r.token()
		if err != nil {
			return Object{}, err
		}
		name := token.String()
		afterName := r.decoder.InputOffset()
		if err := r.skip(); err != nil {
			return Object{}, err
		}
		value := bytes.TrimLeft(r.text[afterName:r.decoder.InputOffset()], ": \t\r\n")
		object.members = append(object.members, member{name, value})
	}
	_, err := r.token() // }
	return object, err
}

// syntaxViolation returns where a body stops being strict JSON. The decoder's own message
// may quote the body, so it is not used.
func syntaxViolation(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		return violation(string(syntax.JSONPointer), "duplicate name")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return violation("", fmt.Sprintf("ends too early, at byte %d", syntax.ByteOffset))
	}
	return violation("", fmt.Sprintf("not valid JSON at byte %d", syntax.ByteOffset))
}
