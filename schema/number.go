package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxNumberLength is how many characters a number with a rule may have.
const MaxNumberLength = 1024

var errNumberTooLong = fmt.Errorf("has a number of more than %d characters", MaxNumberLength)

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

// decodeNumber returns a number for the validator, which computes exactly and so gets the text, unless
// it is 0 for a float64: its exponent may be any. A number that is only too small is the smallest of its
// sign. The number is in the range of float64.
func decodeNumber(text jsontext.Value) (any, error) {
	if len(text) > MaxNumberLength {
		return nil, errNumberTooLong
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != 0 {
		return json.Number(text), nil
	}
	mantissa, _, _ := bytes.Cut(bytes.ToLower(text), []byte{'e'})
	if bytes.ContainsAny(mantissa, "123456789") {
		return math.Copysign(math.SmallestNonzeroFloat64, f), nil
	}
	return 0.0, nil
}
