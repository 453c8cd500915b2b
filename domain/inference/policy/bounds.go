package policy

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

// bound has the allowed values of a setting, under one of its names.
type bound struct {
	name     string
	min, max number           // of no text: any
	in       []jsontext.Value // nil: any
}

func newBound(name string, stored domain.Bound) bound {
	b := bound{name: name, in: stored.In}
	b.min, _ = readNumber(stored.Min)
	b.max, _ = readNumber(stored.Max)
	return b
}

// allows reports whether b allows a value. n is the value if that is a number.
func (b *bound) allows(value jsontext.Value, n number) bool {
	if (b.min.text != nil || b.max.text != nil) && n.text == nil ||
		b.min.text != nil && n.compare(b.min) < 0 || b.max.text != nil && n.compare(b.max) > 0 {
		return false
	}
	return b.in == nil || slices.ContainsFunc(b.in, func(allowed jsontext.Value) bool {
		if other, ok := readNumber(allowed); ok {
			return n.text != nil && n.compare(other) == 0
		}
		return isSameJSON(value, allowed)
	})
}

// disallows returns the name of the first bound that does not allow a value, or "".
func (r *rule) disallows(value jsontext.Value) string {
	n, _ := readNumber(value)
	for i := range r.bounds {
		if b := &r.bounds[i]; !b.allows(value, n) {
			return b.name
		}
	}
	return ""
}

// nearest returns the allowed number that is nearest to a number, or nil if there is none. If
// two are equally near, it returns the smaller one.
func (r *rule) nearest(value jsontext.Value) jsontext.Value {
	n, ok := readNumber(value)
	if !ok {
		return nil
	}
	var below, above number
	consider := func(c number) {
		switch {
		case c.text == nil || r.disallows(c.text) != "":
		case c.compare(n) <= 0 && (below.text == nil || c.compare(below) > 0):
			below = c
		case c.compare(n) > 0 && (above.text == nil || c.compare(above) < 0):
			above = c
		}
	}
	for i := range r.bounds {
		b := &r.bounds[i]
		consider(b.min)
		consider(b.max)
		for _, allowed := range b.in {
			c, _ := readNumber(allowed)
			consider(c)
		}
	}
	switch {
	case below.text == nil || above.text != nil && above.near-n.near < n.near-below.near:
		return above.text
	}
	return below.text
}

// maxNumber bounds the text of a number, in bytes. A longer one is none.
const maxNumber = 1024

// number is a number of JSON. near is its nearest float64, or infinite. The zero value is
// none.
type number struct {
	text jsontext.Value
	near float64
}

// readNumber reads a number. It is not ok for any other value.
func readNumber(text jsontext.Value) (n number, ok bool) {
	if text.Kind() != '0' || len(text) > maxNumber {
		return n, false
	}
	near, _ := strconv.ParseFloat(string(text), 64) // infinite where that is not enough
	return number{text, near}, true
}

// compare orders two numbers by their values. Those with the same float64 are compared by
// their first digits, about 70.
func (n number) compare(other number) int {
	switch {
	case n.near < other.near:
		return -1
	case n.near > other.near:
		return 1
	case bytes.Equal(n.text, other.text) || math.IsInf(n.near, 0):
		return 0
	}
	return n.exact().Cmp(other.exact())
}

func (n number) exact() *big.Float {
	exact, _, err := big.ParseFloat(string(n.text), 10, 256, big.ToNearestEven)
	if err != nil { // an exponent beyond its range
		return big.NewFloat(n.near)
	}
	return exact
}
