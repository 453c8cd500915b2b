package quota

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// BytesOfToken is how many bytes a token is estimated to have.
const BytesOfToken = 4

// MaxRequestUSD is more than any request costs. A gateway may tell more where a request names its prices.
const MaxRequestUSD = 10_000

// Measured is what the limits need to know of a request whose tokens or costs they bound.
type Measured struct {
	inference.Asked
	Input int64 // tokens, estimated
}

// output returns how many output tokens a request may have, where each of its choices has as many as unstated unless the request says.
func (m *Measured) output(unstated int64) int64 {
	return m.Choices * max(cmp.Or(m.MaxTokens, unstated), m.Thinking)
}

// Estimate returns the estimate of a request. largest is Keeper.LargestAnswer.
func (m *Measured) Estimate(p usage.Prices, largest int64) Estimate {
	output := m.output(largest)
	e := Estimate{Tokens: m.Input + output, StatedTokens: m.output(0)}
	e.Nanos, _ = nanosOfCost(p.Dearest(m.Models, answer.Tokens{Input: m.Input, Output: output}))
	e.StatedNanos, _ = nanosOfCost(p.Dearest(m.Models, answer.Tokens{Output: e.StatedTokens}))
	return e
}

// Used returns what a request has used, and false if its cost is not known. It is measured unless m is nil. Where its answer does
// not say what it used, what was told before and what has passed count, and at least the estimate: only an error that says and has
// nothing is free. A cost that the gateway told counts at least as its prices, because some gateways take prices from requests.
func (m *Measured) Used(p usage.Prices, u *usage.Request) (used Used, isPriced bool) {
	tokens, isError := u.Tokens, u.IsError()
	isSilent := u.Unknown != "" || isError && tokens == (answer.Tokens{})
	if isSilent {
		tokens = u.Told
	}
	hasNothing := u.Bare || u.Status >= http.StatusBadRequest && (u.Content == 0 || !u.Streamed)
	isFree := isSilent && hasNothing && tokens == (answer.Tokens{})
	if isSilent && !isFree && m != nil {
		tokens.Input = max(tokens.Input, m.Input)
		if m.MaxTokens == 0 { // nobody knows how long the answer became
			tokens.Output = max(tokens.Output, m.output(DefaultAnswer))
		}
	}
	if !isFree && (isSilent || isError || u.Cut || tokens.Output <= 0) {
		tokens.Output = max(tokens.Output, m.seen(u))
	}
	used = Used{
		Tokens: max(tokens.Input, 0) + max(tokens.Output, 0), UnknownTokens: isSilent && !isFree, UnknownCost: isSilent && !isFree,
		PresetID: u.PresetID, WorkspaceID: u.WorkspaceID,
	}
	isTold := u.HasCost && !u.Estimated
	used.Nanos, isPriced = nanosOfCost(m.price(p, u, tokens, isTold))
	if isTold {
		told, _ := nanosOfCost(u.Cost, true)
		used.Nanos, isPriced = max(used.Nanos, told), true
	}
	if m != nil && m.MaxTokens == 0 && !isSilent && !isError && tokens.Output > 0 {
		used.Answer = (tokens.Output + m.Choices - 1) / m.Choices
	}
	return used, isPriced
}

// seen returns how many output tokens have passed, by what they take.
func (m *Measured) seen(u *usage.Request) int64 {
	tokens := u.Content / BytesOfToken
	if m != nil && m.MaxTokens > 0 && !u.Streamed { // a body may have more than its texts
		tokens = min(tokens, m.output(0))
	}
	return tokens
}

// price returns what tokens cost of the model that answered. If that has no price, it is the dearest that was asked. Of the asked models
// one without a price costs as the dearest of all, unless the gateway tells a cost.
func (m *Measured) price(p usage.Prices, u *usage.Request, tokens answer.Tokens, isTold bool) (cost decimal.Decimal, ok bool) {
	if m == nil {
		return p.Estimate(cmp.Or(u.Model, u.Asked), tokens)
	}
	if cost, ok = p.Estimate(u.Model, tokens); ok && u.Model != "" {
		return cost, true
	}
	models := m.Models
	if isTold {
		models = slices.DeleteFunc(slices.Clone(models), func(model string) bool {
			_, hasPrice := p.Estimate(model, tokens)
			return !hasPrice && model != ""
		})
	}
	return p.Dearest(models, tokens)
}

// nanosOfCost returns a cost of a request in billionths of a US dollar.
func nanosOfCost(cost decimal.Decimal, ok bool) (nanos int64, isKnown bool) {
	if cost.IsZero() { // without the memory that a number of fractions takes
		return 0, ok
	}
	return int64(math.Ceil(min(max(cost.InexactFloat64(), 0), MaxRequestUSD) * 1e9)), ok
}
