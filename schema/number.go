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

// MaxNumberLength is how many characters a number with a rule may have.
const MaxNumberLength = 1024

var errNumberTooLong = fmt.Errorf("has a number of more than %d characters", MaxNumberLength)

// decodeNumber returns a number for the validator. The validator computes exactly, so it
// gets the text. It would compute every digit of 1e999999, and it fails on 1e999999999. So
// a number beyond the range of float64 becomes the nearest number of that range. No rule
// has a bound beyond it.
func decodeNumber(text jsontext.Value) (any, error) {
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

// nearZero returns 0 for a zero in any notation. For a number that is too small it returns
// the smallest float64 of its sign.
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
