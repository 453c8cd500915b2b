package usage

import (
	"context"
	"iter"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Spending is what the requests of one key have cost, in US dollars: in all days that were read, and
// in the present windows of the intervals.
type Spending struct {
	Total, Daily, Weekly, Monthly float64
	// Requests are those of today.
	Requests int64
}

// In returns what was spent in the present window of an interval, and the total for any other.
func (s Spending) In(interval domain.Interval) float64 {
	switch interval {
	case domain.Daily:
		return s.Daily
	case domain.Weekly:
		return s.Weekly
	case domain.Monthly:
		return s.Monthly
	default:
		return s.Total
	}
}

// ReadSpending returns the spending of each key by its id, at a time. It reads the stored days since
// another time, of a workspace or of all if its id is empty. So it lacks what is not stored yet.
func ReadSpending(ctx context.Context, s *domain.Service, workspaceID string, since, at time.Time) (spent map[string]Spending, err error) {
	days := domain.UsageRange{Day: true, From: since, To: at.UTC().AddDate(0, 0, 2)} // a node's clock may be ahead
	err = s.RowsOfKeys(ctx, workspaceID, days, func(rows iter.Seq2[domain.UsageRow, error]) error {
		spent, err = SumSpending(rows, at)
		return err
	})
	return spent, err
}

// windowed are the intervals of a Spending but its total.
var windowed = [...]domain.Interval{domain.Daily, domain.Weekly, domain.Monthly}

// keySums are the sums of one key: in each of windowed, and in all.
type keySums struct {
	costs    [len(windowed) + 1]amount
	requests int64
}

// SumSpending returns the spending of each key by its id, at a time, in rows of days. Their order does
// not matter, and rows of several nodes are summed. An error of rows or of a damaged row is returned.
func SumSpending(rows iter.Seq2[domain.UsageRow, error], at time.Time) (map[string]Spending, error) {
	var starts [len(windowed)]time.Time
	for i, interval := range windowed {
		starts[i], _ = interval.Window(at)
	}
	sums := make(map[string]*keySums)
	var totals Totals
	for stored, err := range rows {
		if err != nil {
			return nil, err
		}
		r, err := readRow(stored.Content)
		if err != nil {
			return nil, err
		}
		for r.series.more() {
			k, err := readKey(r.series.part())
			if err == nil {
				err = readTotals(r.series.part(), &totals)
			}
			if err != nil {
				return nil, err
			}
			sum := sums[string(k.access)]
			if sum == nil {
				sum = new(keySums)
				sums[string(k.access)] = sum
			}
			sum.costs[len(windowed)] = sum.costs[len(windowed)].plus(totals.cost)
			for i, start := range starts {
				if !stored.Start.Before(start) {
					sum.costs[i] = sum.costs[i].plus(totals.cost)
				}
			}
			if !stored.Start.Before(starts[0]) {
				sum.requests += totals.counts[requests]
			}
		}
		if err := r.series.err(); err != nil {
			return nil, err
		}
	}
	spent := make(map[string]Spending, len(sums))
	for key, sum := range sums {
		spent[key] = Spending{
			Daily: sum.costs[0].float(), Weekly: sum.costs[1].float(), Monthly: sum.costs[2].float(), Total: sum.costs[3].float(),
			Requests: sum.requests,
		}
	}
	return spent, nil
}
