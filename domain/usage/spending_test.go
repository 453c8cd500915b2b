package usage_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// TestSumSpending sums the costs of two nodes by key and by window, at a Monday.
func TestSumSpending(t *testing.T) {
	nodes, ledgers := []rows{{}, {}}, []usage.Ledger{{}, {}}
	spend := func(node int, key, preset, cost, at string) {
		t.Helper()
		start, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		ledgers[node].Add(&usage.Request{
			WorkspaceID: "w", PresetID: preset, Preset: preset, KeyID: key, Status: 200, Start: start, FirstContent: -1,
			Cost: decimal.RequireFromString(cost), HasCost: true,
		})
	}
	spend(0, "a", "p", "0.1", "2026-11-23T00:00:00Z") // today, a Monday
	spend(1, "a", "", "0.2", "2026-11-23T17:45:00Z")  // of another node
	spend(0, "a", "p", "1", "2026-11-22T23:59:59Z")   // of the week before
	spend(0, "a", "q", "10", "2026-11-01T00:00:00Z")  // the first of this month
	spend(1, "a", "p", "100", "2026-10-31T23:59:59Z") // of the month before
	spend(0, "a", "p", "0.5", "2026-11-24T00:00:00Z") // of a clock that is ahead
	spend(0, "b", "p", "1e-12", "2026-11-23T01:00:00Z")
	for i := range nodes {
		nodes[i].flush(t, &ledgers[i])
	}
	got, err := usage.SumSpending(of(usage.Day, nodes...), now)
	want := map[string]usage.Spending{
		"a": {Total: 111.8, Daily: 0.8, Weekly: 0.8, Monthly: 11.8, Requests: 3},
		"b": {Total: 1e-12, Daily: 1e-12, Weekly: 1e-12, Monthly: 1e-12, Requests: 1},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if a := got["a"]; a.In(domain.Daily) != a.Daily || a.In(domain.Weekly) != a.Weekly || a.In(domain.Monthly) != a.Monthly || a.In(domain.Lifetime) != a.Total || a.In("") != a.Total {
		t.Errorf("got %+v in other windows", a)
	}
	failed := errors.New("failed")
	if _, err := usage.SumSpending(func(yield func(domain.UsageRow, error) bool) { yield(domain.UsageRow{}, failed) }, now); !errors.Is(err, failed) {
		t.Errorf("got %v, want the rows' error", err)
	}
	if _, err := usage.SumSpending(func(yield func(domain.UsageRow, error) bool) { yield(domain.UsageRow{Content: []byte("x")}, nil) }, now); err == nil {
		t.Error("got no error of a damaged row")
	}
}
