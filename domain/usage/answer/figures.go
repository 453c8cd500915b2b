package answer

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const (
	// maxCount is the greatest count that is read. Greater ones are malformed, so that sums
	// do not overflow.
	maxCount = 1_000_000_000_000
	// maxExponent bounds a cost's exponent, so that adding costs is cheap.
	maxExponent = 64
	// maxDigits is the longest cost that is read.
	maxDigits = 64
)

// A count that is not a number of tokens.
const (
	unsaid int64 = -1 // missing or null
	bad    int64 = -2 // not a count
)

// The places of counts.
const (
	input = iota
	output
	cacheRead
	cacheWrite
	reasoning
	places
)

// The places of other members of a usage object.
const (
	cost = places + iota
	costDetails
	isBYOK
	members
)

// countPaths lead from a usage object to its counts.
var countPaths = map[domain.Dialect]*[places][]string{
	domain.Chat: {
		input: {"prompt_tokens"}, output: {"completion_tokens"},
		cacheRead: {"prompt_tokens_details", "cached_tokens"}, cacheWrite: {"prompt_tokens_details", "cache_write_tokens"},
		reasoning: {"completion_tokens_details", "reasoning_tokens"},
	},
	domain.Responses: {
		input: {"input_tokens"}, output: {"output_tokens"},
		cacheRead: {"input_tokens_details", "cached_tokens"}, cacheWrite: {"input_tokens_details", "cache_write_tokens"},
		reasoning: {"output_tokens_details", "reasoning_tokens"},
	},
	domain.Messages: {
		input: {"input_tokens"}, output: {"output_tokens"},
		cacheRead: {"cache_read_input_tokens"}, cacheWrite: {"cache_creation_input_tokens"},
		reasoning: {"output_tokens_details", "thinking_tokens"},
	},
}

// figures are the counts and the cost of a usage object.
type figures struct {
	said   bool // there is a usage that is not null
	broken bool // it is not an object
	counts [places]int64
	cost   string // as Seen.Cost
}

// figuresOf reads a usage that is not null.
func figuresOf(d domain.Dialect, usage jsontext.Value) figures {
	if d == domain.Images { // OpenAI counts as in responses, and OpenRouter as in chat
		if d = domain.Responses; rawjson.Get(usage, "prompt_tokens") != nil {
			d = domain.Chat
		}
	}
	paths := countPaths[d]
	names := [members]string{cost: "cost", costDetails: "cost_details", isBYOK: "is_byok"}
	for i, path := range paths {
		names[i] = path[0]
	}
	var found [members]jsontext.Value
	rawjson.Pick(usage, names[:], found[:])
	f := figures{said: true, broken: usage.Kind() != '{', cost: costOf(found[cost], found[costDetails], found[isBYOK])}
	for i, path := range paths {
		f.counts[i] = countOf(rawjson.At(found[i], path[1:]...))
	}
	return f
}

// update takes over what later says. Of two numbers the larger stays: what breaks off may have told zeros last.
func (f *figures) update(later figures) {
	if !f.said {
		*f = later
		return
	}
	f.broken = later.broken
	for i, n := range later.counts {
		if n == bad || n > f.counts[i] {
			f.counts[i] = n
		}
	}
	if before, isFirst := decimal.NewFromString(f.cost); isFirst != nil {
		f.cost = later.cost
	} else if now, err := decimal.NewFromString(later.cost); err == nil && now.GreaterThan(before) {
		f.cost = later.cost
	}
}

// tokens returns the counts. ok is false if one is bad or a needed one is missing.
func (f *figures) tokens(cacheApart bool) (t Tokens, ok bool) {
	if !f.said || f.broken || f.counts[input] == unsaid || f.counts[output] == unsaid || slices.Contains(f.counts[:], bad) {
		return Tokens{}, false
	}
	return f.told(cacheApart), true
}

// told returns the counts that were told, and zero for the others.
func (f *figures) told(cacheApart bool) Tokens {
	of := func(place int) int64 { return max(f.counts[place], 0) }
	t := Tokens{of(input), of(output), of(cacheRead), of(cacheWrite), of(reasoning)}
	if cacheApart {
		t.Input += t.CacheRead + t.CacheWrite
	}
	return t
}

// costOf returns the cost that a usage object tells, as Seen.Cost. With the caller's own key, the provider's
// cost is paid beside the gateway's.
func costOf(told, details, isOwnKey jsontext.Value) string {
	sum, ok := decimalOf(told)
	if upstream := rawjson.Get(details, "upstream_inference_cost"); ok && upstream != nil && isOwnKey.Kind() == 't' {
		var paid decimal.Decimal
		paid, ok = decimalOf(upstream)
		sum = sum.Add(paid)
	}
	if !ok {
		return ""
	}
	return sum.String()
}

// costHeader is where LiteLLM tells the cost of an answer that is no stream.
const costHeader = "X-Litellm-Response-Cost"

// CostOf returns the cost that the header of an answer tells, as Seen.Cost. It is for answers
// whose body tells none. It is "" for what is not one JSON number, and for one that is negative or
// extreme.
func CostOf(header http.Header) string {
	if told := header[costHeader]; len(told) == 1 && jsontext.Value(told[0]).IsValid() {
		if cost, ok := decimalOf(jsontext.Value(told[0])); ok {
			return cost.String()
		}
	}
	return ""
}

// decimalOf returns a number exactly. ok is false if it is none, or negative or extreme.
func decimalOf(number jsontext.Value) (d decimal.Decimal, ok bool) {
	if number.Kind() != '0' || len(number) > maxDigits {
		return decimal.Decimal{}, false
	}
	d, err := decimal.NewFromString(string(number))
	if err != nil || d.IsNegative() || d.Exponent() > maxExponent || d.Exponent() < -maxExponent {
		return decimal.Decimal{}, false
	}
	return d, true
}

// countOf reads a JSON number as a count. 12.0 is 12. Other fractions and exponents are bad,
// since no API writes a count so.
func countOf(number jsontext.Value) int64 {
	if number == nil {
		return unsaid
	}
	var n int64
	for i, c := range number {
		switch {
		case '0' <= c && c <= '9':
			if n = n*10 + int64(c-'0'); n > maxCount {
				return bad
			}
		case c == '.' && len(bytes.Trim(number[i+1:], "0")) == 0:
			return n
		default:
			return bad
		}
	}
	return n
}
