package rawjson

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Int returns a number that is an integer to JSON Schema, such as 2, 2.0 and 2e0. It is not
// ok for other values, for integers beyond those that a float64 and an int hold exactly, and for more than
// 16 characters with a point or an exponent.
func Int(value jsontext.Value) (n int, ok bool) {
	const (
		most   = min(1<<53-1, math.MaxInt)
		digits = 16 // a float64 tells all numbers of 15 digits apart
	)
	if value.Kind() != '0' || len(value) > digits+1 { // a longer one is not copied
		return 0, false
	}
	if n, err := strconv.Atoi(string(value)); err == nil {
		return n, -most <= n && n <= most
	}
	f, err := strconv.ParseFloat(string(value[:min(len(value), digits+1)]), 64)
	return int(f), len(value) <= digits && err == nil && f == math.Trunc(f) && math.Abs(f) <= most
}
