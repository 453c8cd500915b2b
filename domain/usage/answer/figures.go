package answer

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

const (
	// maxCount is the greatest count that is read. Greater ones are malformed, so that sums
	// do not overflow.
	maxCount = 1_000_000_000_000
	// maxExponent bounds a cost's exponent, so that adding costs is cheap.
	maxExponent = 64
	// maxDigits is the longest count or cost that is read.
	maxDigits = 64
)

// A count that is not a number of tokens.
const (
	unsaid int64 = -1 // missing or null
	bad    int64 = -2 // not a count
)

// figures are the counts and the cost of a usage object.
type figures struct {
	said   bool // there is a usage that is not null
	broken bool // it is not an object
	counts [reasoning - input + 1]int64
	cost   name // as written
	// upstream is the provider's cost. It is paid beside cost if ownKey is set.
	upstream name
	ownKey   bool
}

// count returns a count.
func (f *figures) count(n what) *int64 { return &f.counts[n-input] }

// setNumber sets a count or a cost. A number that is too long has no text.
func (f *figures) setNumber(n what, text []byte) {
	if len(text) > maxDigits {
		text = nil
	}
	switch n {
	case input, output, cacheRead, cacheWrite, reasoning:
		*f.count(n) = countOf(text)
	case cost:
		f.cost.set(text)
	case upstreamCost:
		f.upstream.set(text)
	}
}

// begin forgets everything for a new usage of a kind.
func (f *figures) begin(v jsontext.Kind) {
	f.said, f.broken = v != 'n', v != '{'
	for i := range f.counts {
		f.counts[i] = unsaid
	}
	f.cost.len, f.upstream.len, f.ownKey = 0, 0, false
}

// beginMember forgets the member n for a new one of a kind.
func (f *figures) beginMember(n what, v jsontext.Kind) {
	switch n {
	case input, output, cacheRead, cacheWrite, reasoning:
		*f.count(n) = unsaid
		if v != 'n' {
			*f.count(n) = bad // until its number is read
		}
	case inputDetails:
		*f.count(cacheRead), *f.count(cacheWrite) = unsaid, unsaid
	case outputDetails:
		*f.count(reasoning) = unsaid
	case cost:
		f.cost.len = 0
	case costDetails, upstreamCost:
		f.upstream.len = 0
	case ownKey:
		f.ownKey = v == 't'
	}
}

// update takes over what later says. Missing members keep their values.
func (f *figures) update(later *figures) {
	f.said, f.broken = true, f.broken || later.broken
	for i, n := range later.counts {
		if n != unsaid {
			f.counts[i] = n
		}
	}
	if later.cost.len > 0 {
		f.cost, f.upstream, f.ownKey = later.cost, later.upstream, later.ownKey
	}
}

// tokens returns the counts. ok is false if one is bad or a needed one is missing.
func (f *figures) tokens(cacheApart bool) (t Tokens, ok bool) {
	if !f.said || f.broken || *f.count(input) == unsaid || *f.count(output) == unsaid {
		return Tokens{}, false
	}
	for i, n := range f.counts {
		if n == bad {
			return Tokens{}, false
		}
		f.counts[i] = max(n, 0)
	}
	t = Tokens{
		Input: *f.count(input), Output: *f.count(output),
		CacheRead: *f.count(cacheRead), CacheWrite: *f.count(cacheWrite), Reasoning: *f.count(reasoning),
	}
	if cacheApart {
		t.Input += t.CacheRead + t.CacheWrite
	}
	return t, true
}

// total returns the cost as decimal text, "" if there is none or it cannot be read.
func (f *figures) total() string {
	sum, ok := f.cost.decimal()
	if !ok || f.broken {
		return ""
	}
	if f.ownKey && f.upstream.len > 0 {
		upstream, ok := f.upstream.decimal()
		if !ok {
			return ""
		}
		sum = sum.Add(upstream)
	}
	return sum.String()
}

// costHeader is where LiteLLM tells the cost of an answer that is no stream.
const costHeader = "X-Litellm-Response-Cost"

// CostOf returns the cost that the header of an answer tells, as Seen.Cost. It is for answers
// whose body tells none. It is "" for what is not one JSON number, and for one that is negative or
// extreme.
func CostOf(header http.Header) string {
	var f figures
	if told := header[costHeader]; len(told) == 1 {
		if value := jsontext.Value(told[0]); value.Kind() == '0' && value.IsValid() {
			f.setNumber(cost, value)
		}
	}
	return f.total()
}

// decimal returns n exactly. ok is false if n is missing, negative or extreme.
func (n *name) decimal() (d decimal.Decimal, ok bool) {
	if n.len == 0 {
		return decimal.Decimal{}, false
	}
	d, err := decimal.NewFromString(string(n.text[:n.len]))
	if err != nil || d.IsNegative() || d.Exponent() > maxExponent || d.Exponent() < -maxExponent {
		return decimal.Decimal{}, false
	}
	return d, true
}

// countOf reads a JSON number as a count. 12.0 is 12. Other fractions and exponents are bad,
// since no API writes a count so.
func countOf(text []byte) int64 {
	var n int64
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9':
			if n = n*10 + int64(c-'0'); n > maxCount {
				return bad
			}
		case c == '.' && len(bytes.Trim(text[i+1:], "0")) == 0:
			return n
		default:
			return bad
		}
	}
	if len(text) == 0 {
		return bad
	}
	return n
}
