package usage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Price is what the tokens of some models cost, per million tokens, as decimal text.
type Price struct {
	// Model is a model or a pattern, as modelpattern.Match has it.
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
	model                                string
	input, output, cacheRead, cacheWrite decimal.Decimal
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
func readPrice(given Price) (price, error) {
	if err := modelpattern.Check(given.Model); err != nil {
		return price{}, fmt.Errorf("model: %w", err)
	}
	p := price{model: given.Model}
	for _, amount := range [...]struct {
		name, given string
		to          *decimal.Decimal
	}{
		{"input", given.Input, &p.input},
		{"output", given.Output, &p.output},
		{"cache_read", cmp.Or(given.CacheRead, given.Input), &p.cacheRead},
		{"cache_write", cmp.Or(given.CacheWrite, given.Input), &p.cacheWrite},
	} {
		var err error
		if *amount.to, err = readAmount(amount.name, amount.given); err != nil {
			return price{}, err
		}
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
		if modelpattern.Match(price.model, model) {
			return price.estimate(t), true
		}
	}
	return decimal.Zero, false
}

// Dearest returns the most that tokens cost of any of models. A model without a price, and an empty one, counts as that whose
// price is the highest. It returns false if there are no prices.
func (p Prices) Dearest(models []string, t answer.Tokens) (most decimal.Decimal, ok bool) {
	for _, model := range models {
		cost, hasPrice := p.Estimate(model, t)
		if !hasPrice || model == "" {
			for i := range p.list {
				cost = decimal.Max(cost, p.list[i].estimate(t))
			}
		}
		most = decimal.Max(most, cost)
	}
	return most, len(p.list) > 0
}

// estimate returns what tokens cost.
func (p *price) estimate(t answer.Tokens) (cost decimal.Decimal) {
	add := func(price decimal.Decimal, tokens int64) {
		if tokens > 0 {
			cost = cost.Add(price.Mul(decimal.NewFromInt(tokens)))
		}
	}
	add(p.output, t.Output)
	add(p.cacheRead, t.CacheRead)
	add(p.cacheWrite, t.CacheWrite)
	add(p.input, t.Input-max(t.CacheRead, 0)-max(t.CacheWrite, 0))
	return cost
}
