package usage_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// TestRelativeError compares quantiles with the exact ones, from 1 ms to 1 h and a bit
// beyond.
func TestRelativeError(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	span := math.Log(float64(time.Hour) / float64(time.Millisecond))
	draws := map[string]func() time.Duration{
		"even in the logarithm": func() time.Duration { return time.Duration(float64(time.Millisecond) * math.Exp(r.Float64()*span)) },
		"exponential":           func() time.Duration { return time.Duration(float64(2*time.Second) * r.ExpFloat64()) },
		"two humps": func() time.Duration {
			return time.Duration([]float64{5e6, 4e10}[r.IntN(2)] * (1 + r.NormFloat64()/20))
		},
		"1 ms":  func() time.Duration { return time.Millisecond },
		"1 h":   func() time.Duration { return time.Hour },
		"50 µs": func() time.Duration { return 50 * time.Microsecond },
	}
	worst := 0.0
	for name, draw := range draws {
		for _, number := range []int{1, 2, 3, 19, 20, 21, 100, 101, 5000} {
			var l usage.Ledger
			stored := make(rows)
			exact := make([]time.Duration, number)
			for i := range exact {
				exact[i] = max(draw(), 10*time.Microsecond)
				l.Add(&usage.Request{Start: now, Duration: exact[i], FirstContent: exact[i]})
				if r.IntN(100) == 0 {
					stored.flush(t, &l)
				}
			}
			stored.flush(t, &l)
			slices.Sort(exact)
			total := list(t, ask(t, usage.OfPreset, "", stored))[0].Total
			for percent, got := range map[int][2]float64{
				50: {total.Duration.P50, total.FirstContent.P50},
				95: {total.Duration.P95, total.FirstContent.P95},
				99: {total.Duration.P99, total.FirstContent.P99},
			} {
				rank := (number*percent + 99) / 100 // the nearest one
				want := float64(exact[rank-1]) / float64(time.Millisecond)
				off := math.Abs(got[0]-want) / want
				worst = max(worst, off)
				if off > usage.RelativeError || got[0] != got[1] {
					t.Errorf("%s, %d durations: got %v and %v ms as p%d, want %v within 2 %%", name, number, got[0], got[1], percent, want)
				}
			}
		}
	}
	t.Logf("worst relative error: %.2f %%", worst*100)
}

// TestExtremeDurations are counted as the nearest that sketches have.
func TestExtremeDurations(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		var l usage.Ledger
		stored := make(rows)
		l.Add(&usage.Request{Start: now, Duration: d, FirstContent: -1})
		stored.flush(t, &l)
		want := 0.01
		if d > time.Hour {
			want = 24 * 3600e3
		}
		got := list(t, ask(t, usage.OfPreset, "", stored))[0].Total.Duration.P50
		if math.Abs(got-want)/want > usage.RelativeError {
			t.Errorf("%d ns: got %v ms, want %v", d, got, want)
		}
	}
}
