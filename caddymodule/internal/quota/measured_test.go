package quota

import (
	"testing"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// TestWhatCounts compares what requests count with what their answers told, showed and hid. Prices are a dollar for a token of input and
// ten for one of output, times 10^-6.
func TestWhatCounts(t *testing.T) {
	prices, err := usage.NewPrices([]usage.Price{{Model: "priced/*", Input: "1", Output: "10"}, {Model: "dear/*", Input: "10", Output: "100"}})
	if err != nil {
		t.Fatal(err)
	}
	asking := func(maxTokens int64, models ...string) *Measured {
		return &Measured{Asked: inference.Asked{Models: models, MaxTokens: maxTokens, Choices: 2}, Input: 100}
	}
	told := func(usd string, u usage.Request) usage.Request {
		u.Cost, u.HasCost = decimal.RequireFromString(usd), true
		return u
	}
	tokens := func(input, output int64) answer.Tokens { return answer.Tokens{Input: input, Output: output} }
	known := func(model string, of answer.Tokens) usage.Request {
		return usage.Request{Status: 200, Model: model, Tokens: of, Told: of}
	}
	priced := asking(0, "priced/m")
	for _, tc := range []struct {
		name          string
		m             *Measured
		u             usage.Request
		tokens, nanos int64
		isUnknown     bool
	}{
		{"known", priced, known("priced/m", tokens(1000, 5000)), 6000, 51_000_000, false},
		{"an answer of another model", priced, known("dear/m", tokens(1000, 5000)), 6000, 510_000_000, false},
		{"of a model without a price", priced, known("new", tokens(1000, 5000)), 6000, 51_000_000, false},
		{"of one that is not asked", asking(0, "new"), known("new", tokens(1000, 5000)), 6000, 510_000_000, false},

		{"a told cost of 0", priced, told("0", known("priced/m", tokens(1000, 5000))), 6000, 51_000_000, false},
		{"and no model", priced, told("0", known("", tokens(1000, 5000))), 6000, 51_000_000, false},
		{"and a model without a price", priced, told("0", known("new", tokens(1000, 5000))), 6000, 51_000_000, false},
		{"and one of several", asking(0, "new", "priced/m"), told("0", known("new", tokens(1000, 5000))), 6000, 51_000_000, false},
		{"and models that cannot be told", asking(0, "priced/m", ""), told("0", known("new", tokens(1000, 5000))), 6000, 510_000_000, false},
		{"a told cost without any price", asking(0, "new"), told("0.75", known("new", tokens(1000, 5000))), 6000, 750_000_000, false},
		{"a told cost that no request has", priced, told("1e30", known("priced/m", tokens(1, 1))), 2, 1e13, false},
		{"a told cost without tokens", asking(500, "priced/m"), told("0", usage.Request{Status: 200, Unknown: answer.Malformed}), 100, 100_000, true},

		{"a whole stream without usage", priced, usage.Request{Status: 200, Streamed: true, Unknown: answer.Absent, Content: 400}, 100 + 2*DefaultAnswer, 100_000 + 2*DefaultAnswer*10_000, true},
		{"a longer one", asking(10, "priced/m"), usage.Request{Status: 200, Streamed: true, Unknown: answer.Absent, Content: 4000}, 1100, 10_100_000, true},
		{"figures before a stream breaks off", asking(16, "priced/m"), usage.Request{Status: 200, Streamed: true, Unknown: answer.Aborted, Cut: true, Told: tokens(200_000, 1)}, 200_001, 200_010_000, true},
		{"figures and content before it breaks off", priced, usage.Request{Status: 200, Streamed: true, Cut: true, Content: 4000, Tokens: tokens(10, 3), Told: tokens(10, 3)}, 1010, 10_010_000, false},
		{"zeros beside content", priced, usage.Request{Status: 200, Streamed: true, Content: 4000}, 1000, 10_000_000, false},
		{"figures beside more content", priced, usage.Request{Status: 200, Streamed: true, Content: 4000, Tokens: tokens(10, 3), Told: tokens(10, 3)}, 13, 40_000, false},

		{"a large body", asking(7000, "priced/m"), usage.Request{Status: 200, Unknown: answer.TooLarge, Content: 9_000_000}, 14_100, 140_100_000, true},
		{"an error", priced, usage.Request{Status: 200, Failed: true, Bare: true}, 0, 0, false},
		{"an error with figures", priced, usage.Request{Status: 200, Failed: true, Bare: true, Tokens: tokens(10, 0), Told: tokens(10, 0)}, 10, 10_000, false},
		{"an error with output", priced, usage.Request{Status: 200, Failed: true}, 100 + 2*DefaultAnswer, 100_000 + 2*DefaultAnswer*10_000, true},
		{"an error status", priced, usage.Request{Status: 500, Content: 4000}, 0, 0, false},
		{"and figures", asking(10, "priced/m"), usage.Request{Status: 500, Told: tokens(1000, 0)}, 1000, 1_000_000, true},

		{"without limits", nil, known("priced/m", tokens(1000, 5000)), 6000, 51_000_000, false},
		{"without limits or a price", nil, known("new", tokens(1000, 5000)), 6000, 0, false},
	} {
		tc.u.PresetID, tc.u.WorkspaceID = "p", "w"
		got, isPriced := tc.m.Used(prices, &tc.u)
		if got.Tokens != tc.tokens || got.Nanos != tc.nanos || got.UnknownTokens != tc.isUnknown || got.UnknownCost != tc.isUnknown || got.PresetID != "p" || got.WorkspaceID != "w" {
			t.Errorf("%s: got %+v, want %d tokens and %d nanos, unknown %t", tc.name, got, tc.tokens, tc.nanos, tc.isUnknown)
		}
		if isPriced != (tc.nanos > 0 || tc.m != nil) {
			t.Errorf("%s: the cost is known: %t", tc.name, isPriced)
		}
	}
}

// TestEstimates compares what requests may use with what they state.
func TestEstimates(t *testing.T) {
	prices, err := usage.NewPrices([]usage.Price{{Model: "priced/*", Input: "1", Output: "10"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		asked inference.Asked
		want  Estimate
	}{
		{inference.Asked{Choices: 2}, Estimate{Tokens: 2100, Nanos: 20_100_000}},
		{inference.Asked{Choices: 2, MaxTokens: 10}, Estimate{Tokens: 120, Nanos: 300_000, StatedTokens: 20, StatedNanos: 200_000}},
		{inference.Asked{Choices: 1, MaxTokens: 10, Thinking: 5000}, Estimate{Tokens: 5100, Nanos: 50_100_000, StatedTokens: 5000, StatedNanos: 50_000_000}},
		{inference.Asked{Choices: 1, Thinking: 10}, Estimate{Tokens: 1100, Nanos: 10_100_000, StatedTokens: 10, StatedNanos: 100_000}},
	} {
		tc.asked.Models = []string{"priced/m"}
		m := &Measured{Asked: tc.asked, Input: 100}
		if got := m.Estimate(prices, 1000); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.asked, got, tc.want)
		}
	}
}
