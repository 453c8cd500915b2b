package usage_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

func TestEstimate(t *testing.T) {
	prices, err := usage.NewPrices([]usage.Price{
		{Model: "*", Input: "9", Output: "9"},
		{Model: "openai/gpt-5*", Input: "1", Output: "2"},
		{Model: "openai/gpt-5-mini", Input: "0.25", Output: "2.00", CacheRead: "0.025"},
		{Model: "*/gpt-5-mini*", Input: "3", Output: "3"},
		{Model: "anthropic/claude", Input: "3", Output: "15", CacheRead: "0.3", CacheWrite: "3.75"},
		{Model: "free", Input: "0", Output: "0"},
		{Model: "a*c", Input: "5", Output: "0"},
		{Model: "ac*", Input: "6", Output: "0"},
		{Model: "ac", Input: "7", Output: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := answer.Tokens{Input: 1000, Output: 100, CacheRead: 600, CacheWrite: 200, Reasoning: 50}
	for model, want := range map[string]string{
		"openai/gpt-5-mini":      "0.000315", // 400×0.25 + 600×0.025 + 100×2, reasoning is output
		"openai/gpt-5-mini-2026": "0.0012",   // the longest literal part, then the first
		"openai/gpt-5.1":         "0.0012",
		"azure/gpt-5-mini":       "0.0033",
		"anthropic/claude":       "0.00303", // 200×3 + 600×0.3 + 200×3.75 + 100×15
		"free":                   "0",
		"unheard of":             "0.0099",
		"ac":                     "0.007", // before patterns that are as long
		"acc":                    "0.005", // the first of two
	} {
		got, ok := prices.Estimate(model, tokens)
		if !ok || got.String() != want {
			t.Errorf("%s: got %s, %v; want %s", model, got, ok, want)
		}
	}
	if got, ok := prices.Estimate("lab/model:online", tokens); ok {
		t.Errorf("got %s for a variant that no pattern names, want none", got)
	}
	if _, ok := (usage.Prices{}).Estimate("free", tokens); ok {
		t.Error("got a cost without prices, want none")
	}
}

func TestNewPrices(t *testing.T) {
	for want, list := range map[string][]usage.Price{
		`price "a": input: is missing`:                     {{Model: "a", Output: "1"}},
		`price "a": output: is missing`:                    {{Model: "a", Input: "1"}},
		`price "a": input: must be a decimal number`:       {{Model: "a", Input: "1e3", Output: "1"}},
		`price "a": output: must be a decimal number`:      {{Model: "a", Input: "1", Output: "-1"}},
		`price "a": cache_read: must be a decimal number`:  {{Model: "a", Input: "1", Output: "1", CacheRead: ".5"}},
		`price "a": cache_write: must be a decimal number`: {{Model: "a", Input: "1", Output: "1", CacheWrite: "1."}},
		`price "b": input: must be a decimal number`:       {{Model: "b", Input: "1234567890", Output: "1"}},
		`price "b": output: must be a decimal number`:      {{Model: "b", Input: "1", Output: "0.0123456789012"}},
		`price "": model: `:                                {{Input: "1", Output: "1"}},
		`price "a": given more than once`:                  {{Model: "a", Input: "1", Output: "1"}, {Model: "a", Input: "1", Output: "1"}},
	} {
		if _, err := usage.NewPrices(list); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestCosts compares sums of costs with those of decimal arithmetic.
func TestCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for range 200 {
		var l usage.Ledger
		stored := make(rows)
		want := decimal.Zero
		for range 1 + r.IntN(20) {
			cost := decimal.New(r.Int64N(1<<uint(1+r.IntN(62))), int32(r.IntN(20)-18))
			if r.IntN(2) == 0 {
				cost = cost.Add(decimal.New(r.Int64N(1e15), -18))
			}
			if cost.LessThan(decimal.New(1, 17)) {
				want = want.Add(cost)
				l.Add(&usage.Request{Start: now, HasCost: true, Cost: cost, FirstContent: -1})
			}
		}
		l.Add(&usage.Request{Start: now, HasCost: true, FirstContent: -1})
		stored.flush(t, &l)
		if got := *list(t, ask(t, usage.OfPreset, "", stored))[0].Total.Cost; got != want.String() {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, absurd := range []string{"-0.1", "1e999999999", "1e-999999999", "1e19", strings.Repeat("9", 40)} {
		var l usage.Ledger
		stored := make(rows)
		l.Add(&usage.Request{Start: now, HasCost: true, Cost: decimal.RequireFromString(absurd), FirstContent: -1})
		stored.flush(t, &l)
		if got := list(t, ask(t, usage.OfPreset, "", stored))[0].Total; got.Cost != nil || got.Requests != 1 {
			t.Errorf("%s: got %v, want a request without a cost", absurd, *got.Cost)
		}
	}
}

// TestDearest takes the dearest of the models of a request, and of all prices for a model without one.
func TestDearest(t *testing.T) {
	prices, err := usage.NewPrices([]usage.Price{
		{Model: "input", Input: "10", Output: "1"}, {Model: "output", Input: "1", Output: "10"}, {Model: "cheap/*", Input: "1", Output: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		models []string
		tokens answer.Tokens
		want   string
	}{
		{[]string{"cheap/a"}, answer.Tokens{Input: 1000, Output: 1000}, "0.002"},
		{[]string{"cheap/a", "output"}, answer.Tokens{Input: 1000, Output: 1000}, "0.011"},
		{[]string{"cheap/a", "other"}, answer.Tokens{Input: 1000, Output: 100}, "0.0101"},
		{[]string{""}, answer.Tokens{Input: 100, Output: 1000}, "0.0101"},
		{nil, answer.Tokens{Input: 1}, "0"},
	} {
		if got, ok := prices.Dearest(tc.models, tc.tokens); !ok || got.String() != tc.want {
			t.Errorf("%q: got %s, %v, want %s", tc.models, got, ok, tc.want)
		}
	}
	if got, ok := (usage.Prices{}).Dearest([]string{"m"}, answer.Tokens{Input: 1}); ok || !got.IsZero() {
		t.Errorf("without prices: got %s, %v", got, ok)
	}
}
