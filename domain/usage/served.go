package usage

import (
	"iter"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// LastServed returns the hour of the last request of each version that rows of one preset
// have, from rows of hours or of days. Their order does not matter. Requests that are
// summed under other have no version.
func LastServed(rows iter.Seq2[domain.UsageRow, error]) (map[int]time.Time, error) {
	served := make(map[int]time.Time)
	var totals rawTotals
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		row, err := readRow(r.Content)
		if err != nil {
			return nil, err
		}
		for rest := row.series; len(rest) > 0; {
			var s rawSeries
			if s, rest, err = nextSeries(rest); err != nil {
				return nil, err
			}
			key, err := readKey(s.key)
			if err != nil {
				return nil, err
			}
			if err := readTotals(s.totals, &totals); err != nil {
				return nil, err
			}
			version := int(key.version)
			at := time.Unix(totals.counts[lastHour]*3600, 0).UTC()
			if version > 0 && totals.counts[requests] > 0 && at.After(served[version]) {
				served[version] = at
			}
		}
	}
	return served, nil
}
