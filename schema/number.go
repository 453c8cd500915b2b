package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxNumberLength is how many characters a number that a rule looks at may
// have.
const MaxNumberLength = 1024

var errNumberTooLong = fmt.Errorf("has a number of more than %d characters", MaxNumberLength)

// number returns what the validator computes with. It computes exactly, so the
// text goes to it as it is, with two exceptions: the validator would work out
// every digit of 1e999999 and gives up on 1e999999999, so a number beyond the
// range of float64 becomes the last number inside that range. No rule has a
// bound out there, so no rule can tell.
func number(text jsontext.Value) (any, error) {
	if len(text) > MaxNumberLength {
		return nil, errNumberTooLong
	}
	exact := json.Number(text)
	if len(text) < 16 && !bytes.ContainsAny(text, "eE") {
		return exact, nil
	}
	f, err := strconv.ParseFloat(string(exact), 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.Copysign(math.MaxFloat64, f), nil
	}
	if f == 0 {
		return nearZero(text), nil
	}
	return exact, nil
}

// nearZero tells a true zero, however it is written, from a number that is too
// small for a float64.
func nearZero(text jsontext.Value) float64 {
	mantissa := text
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
	}
	switch {
	case !bytes.ContainsAny(mantissa, "123456789"):
		return 0
	case text[0] == '-':
		return -math.SmallestNonzeroFloat64
	default:
		return math.SmallestNonzeroFloat64
	}
}
