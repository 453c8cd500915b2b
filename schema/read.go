package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
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

// readObject reads a body strictly and returns its members, which are parts of body. Every
// error is an *Error.
func readObject(body []byte) ([]rawjson.Member, error) {
	switch kind, err := readValue(body); {
	case err != nil:
		return nil, err
	case kind != '{':
		return nil, violation("", "must be an object")
	}
	var members []rawjson.Member
	for quoted, value := range rawjson.Pairs(trimSpace(body)) {
		name, _ := rawjson.Text(quoted)
		members = append(members, rawjson.Member{Name: name, Value: value, Quoted: quoted})
	}
	return members, nil
}

// trimSpace returns the JSON value of a body that was read strictly.
func trimSpace(body []byte) jsontext.Value { return bytes.Trim(body, " \t\r\n") }

// readValue reads one JSON value strictly. Every error is an *Error.
func readValue(text []byte) (kind jsontext.Kind, err error) {
	r := &reader{text: text, decoder: jsontext.NewDecoder(bytes.NewBuffer(text))} // which it does not copy
	kind = r.decoder.PeekKind()
	for isWhole := false; !isWhole; isWhole = r.decoder.StackDepth() == 0 {
		if err := r.readToken(); errors.Is(err, io.EOF) {
			return 0, violation("", "must not be empty")
		} else if err != nil {
			return 0, syntaxViolation(err)
		}
	}
	end := r.decoder.InputOffset()
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return 0, violation("", fmt.Sprintf("has text after its end at byte %d", end))
	}
	return kind, nil
}

// reader reads a text once, token by token. So it checks its limits before the decoder's
// memory grows.
type reader struct {
	text    []byte
	decoder *jsontext.Decoder
	counted int // the number of members that count for MaxMembers
}

func (r *reader) readToken() error {
	token, err := r.decoder.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() == '0' && !fitsDouble(lastNumber(r.text[:r.decoder.InputOffset()])) {
		return violation(string(r.decoder.StackPointer()), "must be in the range of a double (IEEE 754), which ends at 1.8e308")
	}
	depth := r.decoder.StackDepth()
	if depth > MaxDepth {
		return violation("", fmt.Sprintf("must not nest deeper than %d levels", MaxDepth))
	}
	// The length counts names and values, so it is odd after a name.
	if kind, n := r.decoder.StackIndex(depth); kind == '{' && n > 2*freeMembers && n%2 == 1 {
		if r.counted++; r.counted > MaxMembers {
			return violation("", fmt.Sprintf("has too many members: more than %d beyond the first %d of an object", MaxMembers, freeMembers))
		}
	}
	return nil
}

// CheckDepth returns an error if JSON nests deeper than some levels, which a body of MaxDepth
// cannot hold. It says nothing about other mistakes.
func CheckDepth(text []byte, levels int) error {
	if rawjson.IsDeeper(text, levels) {
		return fmt.Errorf("must not nest deeper than %d levels", levels)
	}
	return nil
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

// fitsDouble reports whether a number is in the range of a float64 (RFC 7493, section 2.2).
// Clients in Go cannot read a page that has another one.
func fitsDouble(text []byte) bool {
	if len(text) <= 308 && !bytes.ContainsAny(text, "eE") {
		return true
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

// lastNumber returns the number that ends text.
func lastNumber(text []byte) []byte {
	begin := len(text)
	for begin > 0 && strings.IndexByte("0123456789+-.eE", text[begin-1]) >= 0 {
		begin--
	}
	return text[begin:]
}
