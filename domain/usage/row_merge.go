package usage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// mergeRow adds changes to a row's content, nil for none, and returns the new content. The
// changes have their keys as appendKey writes them. Series without changes are copied as
// they are. folded is how many requests moved under other to keep domain.MaxUsageSize.
func mergeRow(content []byte, slug string, changes map[string]*Totals) (_ []byte, folded int64, err error) {
	var row rawRow
	total := new(Totals)
	if content != nil {
		if row, err = readRow(content); err != nil {
			return nil, 0, err
		}
		if total, err = decodeTotals(row.total); err != nil {
			return nil, 0, err
		}
	}
	for _, change := range changes {
		total.merge(change, maxOutcomes)
	}
	list, err := mergeSeries(row.series, changes)
	if err != nil {
		return nil, 0, err
	}
	head := appendPart([]byte{rowFormat}, slug)
	encoded, err := appendTotals(nil, total)
	if err != nil {
		return nil, 0, err
	}
	head = appendPart(head, encoded)
	if list, folded, err = fold(list, domain.MaxUsageSize-len(head)-sumSize); err != nil {
		return nil, 0, err
	}
	for _, s := range list {
		head = appendPart(appendPart(head, s.key), s.totals)
	}
	return binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli)), folded, nil
}

// mergeSeries returns the series of a row with changes, in order.
func mergeSeries(row []byte, changes map[string]*Totals) (list []rawSeries, err error) {
	added := maps.Clone(changes)
	for len(row) > 0 {
		var s rawSeries
		if s, row, err = nextSeries(row); err != nil {
			return nil, err
		}
		if change := changes[string(s.key)]; change != nil {
			if s.totals, err = mergeTotals(s.totals, change); err != nil {
				return nil, err
			}
			delete(added, string(s.key))
		}
		list = append(list, s)
	}
	for key, change := range added {
		totals, err := mergeTotals(nil, change)
		if err != nil {
			return nil, err
		}
		list = append(list, rawSeries{[]byte(key), totals})
	}
	slices.SortFunc(list, func(a, b rawSeries) int { return bytes.Compare(a.key, b.key) })
	return list, nil
}

// mergeTotals adds change to totals as a row has them, nil for none.
func mergeTotals(totals []byte, change *Totals) ([]byte, error) {
	sum := new(Totals)
	if totals != nil {
		var err error
		if sum, err = decodeTotals(totals); err != nil {
			return nil, err
		}
	}
	sum.merge(change, maxOutcomes)
	return appendTotals(nil, sum)
}

// fold sums series under other until the rest has at most room bytes, those with the
// fewest requests first. It returns how many requests moved.
func fold(list []rawSeries, room int) (_ []rawSeries, folded int64, err error) {
	size := 0
	for _, s := range list {
		size += s.size()
	}
	if size <= room {
		return list, 0, nil
	}
	room -= room / 4 // so that the next new series finds room
	other := string(appendKey(nil, &Key{Other: true}))
	sum := new(Totals)
	byRequests := make(map[string]int64, len(list))
	for _, s := range list {
		number, _ := binary.Uvarint(s.totals)
		byRequests[string(s.key)] = int64(number)
	}
	slices.SortFunc(list, func(a, b rawSeries) int {
		return cmp.Or(-cmp.Compare(byRequests[string(a.key)], byRequests[string(b.key)]), bytes.Compare(a.key, b.key))
	})
	kept := list[:0]
	left := room
	for _, s := range list {
		if string(s.key) != other && s.size() <= left {
			left -= s.size()
			kept = append(kept, s)
			continue
		}
		totals, err := decodeTotals(s.totals)
		if err != nil {
			return nil, 0, err
		}
		sum.merge(totals, maxOutcomes)
		if string(s.key) != other {
			folded += totals.counts[requests]
		}
	}
	totals, err := appendTotals(nil, sum)
	if err != nil {
		return nil, 0, err
	}
	kept = append(kept, rawSeries{[]byte(other), totals})
	slices.SortFunc(kept, func(a, b rawSeries) int { return bytes.Compare(a.key, b.key) })
	return kept, folded, nil
}

// size is at least the size of a series in its row.
func (s rawSeries) size() int { return len(s.key) + len(s.totals) + 2*binary.MaxVarintLen32 }
