package usage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Price is what the tokens of some models cost, per million tokens, as decimal text.
type Price struct {
	// Model is a model or a pattern, as domain.MatchModel has it.
	Model string
	// Input and Output are needed. They may be 0.
	Input, Output string
	// CacheRead and CacheWrite are for input tokens that were read from or written to a
	// cache. Such tokens cost as Input if these are empty.
	CacheRead, CacheWrite string
}

// Prices estimate costs. Their zero value knows no model. They are safe for concurrent use.
type Prices struct{ list []price }

// price is a Price that was read, per token.
type price struct {
	model                 string
	input, output         decimal.Decimal
	cacheRead, cacheWrite *decimal.Decimal // nil: as input
}

// NewPrices reads prices. Its error names the model and the price that is wrong.
func NewPrices(list []Price) (Prices, error) {
	var p Prices
	for _, given := range list {
		one, err := readPrice(given)
		if err != nil {
			return Prices{}, fmt.Errorf("price %q: %w", given.Model, err)
		}
		if slices.ContainsFunc(p.list, func(other price) bool { return other.model == one.model }) {
			return Prices{}, fmt.Errorf("price %q: given more than once", given.Model)
		}
		p.list = append(p.list, one)
	}
	slices.SortStableFunc(p.list, func(a, b price) int {
		return cmp.Or(cmp.Compare(literal(b.model), literal(a.model)), cmp.Compare(stars(a.model), stars(b.model)))
	})
	return p, nil
}

func stars(pattern string) int   { return strings.Count(pattern, "*") }
func literal(pattern string) int { return len(pattern) - stars(pattern) }

// readPrice reads and checks a price.
func readPrice(given Price) (p price, err error) {
	if err := domain.CheckModelPattern(given.Model); err != nil {
		return p, fmt.Errorf("model: %w", err)
	}
	p.model = given.Model
	if p.input, err = readAmount("input", given.Input); err != nil {
		return p, err
	}
	if p.output, err = readAmount("output", given.Output); err != nil {
		return p, err
	}
	for _, cache := range [...]struct {
		name, given string
		to          **decimal.Decimal
	}{{"cache_read", given.CacheRead, &p.cacheRead}, {"cache_write", given.CacheWrite, &p.cacheWrite}} {
		if cache.given == "" {
			continue
		}
		amount, err := readAmount(cache.name, cache.given)
		if err != nil {
			return p, err
		}
		*cache.to = &amount
	}
	return p, nil
}

// readAmount reads a price per million tokens, and returns that of one token. An amount
// has 12 decimal places after that, as a sum of costs does.
func readAmount(name, text string) (decimal.Decimal, error) {
	if text == "" {
		return decimal.Zero, errors.New(name + ": is missing")
	}
	whole, places, point := strings.Cut(text, ".")
	digits := strings.Trim(whole+places, "0123456789") == ""
	if !digits || whole == "" || len(whole) > 9 || point && places == "" || len(places) > amountDigits-6 {
		return decimal.Zero, errors.New(name + ": must be a decimal number such as 0.25, with at most 9 digits before the point and 12 after it")
	}
	d, err := decimal.NewFromString(text)
	return d.Shift(-6), err
}

// Estimate returns what the tokens of a model cost, and false if no price is for the model.
// If several patterns match, the one with the longest literal part counts. Then fewer *
// count, then the first pattern. Reasoning tokens are output tokens.
func (p Prices) Estimate(model string, t answer.Tokens) (decimal.Decimal, bool) {
	for _, price := range p.list {
		if domain.MatchModel(price.model, model) {
			return price.estimate(t), true
		}
	}
	return decimal.Zero, false
}

// estimate returns what tokens cost.
func (p *price) estimate(t answer.Tokens) decimal.Decimal {
	of := func(price decimal.Decimal, tokens int64) decimal.Decimal {
		return price.Mul(decimal.NewFromInt(max(tokens, 0)))
	}
	cost := of(p.output, t.Output)
	input := t.Input
	if p.cacheRead != nil {
		cost = cost.Add(of(*p.cacheRead, t.CacheRead))
		input -= max(t.CacheRead, 0)
	}
	if p.cacheWrite != nil {
		cost = cost.Add(of(*p.cacheWrite, t.CacheWrite))
		input -= max(t.CacheWrite, 0)
	}
	return cost.Add(of(p.input, input))
}
