package usage

import (
	"iter"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Rank returns how many requests each preset had in stored rows, by its slug, or how many of them failed. It keeps no
// row's content. An error of rows or of a damaged row is returned.
func Rank(rows iter.Seq2[domain.UsageRow, error], isOfErrors bool) (map[string]int64, error) {
	rank := make(map[string]int64)
	var totals Totals
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		stored, err := readRow(r.Content)
		if err == nil {
			err = readTotals(stored.total, &totals)
		}
		if err != nil {
			return nil, err
		}
		count := totals.counts[requests]
		if isOfErrors {
			count = totals.counts[errored]
		}
		if len(stored.slug) > 0 {
			rank[string(stored.slug)] += count
		}
	}
	return rank, nil
}
