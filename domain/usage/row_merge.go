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
// they are. folded is how many requests moved under otherModel or other to keep
// domain.MaxUsageSize.
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

// fold makes series fit into room bytes, those with the fewest requests first. It sums them
// under otherModel, so that clients who name many models take nothing from the other
// reports. If that is not enough, it sums series under other. It returns how many requests
// moved.
func fold(list []rawSeries, room int) (_ []rawSeries, folded int64, err error) {
	if sizeOf(list) <= room {
		return list, 0, nil
	}
	list, folded, err = foldTo(list, room/2, withoutModel)
	if err != nil || sizeOf(list) <= room {
		return list, folded, err
	}
	room -= room / 4 // so that the next new series finds room
	other := string(appendKey(nil, &Key{Other: true}))
	list, more, err := foldTo(list, room, func([]byte) (string, error) { return other, nil })
	return list, folded + more, err
}

// withoutModel returns a key with otherModel.
func withoutModel(key []byte) (string, error) {
	k, err := decodeKey(key)
	if err != nil || k.Other {
		return string(key), err
	}
	k.Model = otherModel
	return string(appendKey(nil, &k)), nil
}

// foldTo keeps series in room bytes, those with the most requests first. It sums the others,
// and those that are sums already, under the keys that target returns. It returns how many
// requests moved.
func foldTo(list []rawSeries, room int, target func(key []byte) (string, error)) (kept []rawSeries, folded int64, err error) {
	byRequests := make(map[string]int64, len(list))
	for _, s := range list {
		number, _ := binary.Uvarint(s.totals)
		byRequests[string(s.key)] = int64(number)
	}
	slices.SortFunc(list, func(a, b rawSeries) int {
		return cmp.Or(-cmp.Compare(byRequests[string(a.key)], byRequests[string(b.key)]), bytes.Compare(a.key, b.key))
	})
	sums := make(map[string]*Totals)
	for _, s := range list {
		to, err := target(s.key)
		if err != nil {
			return nil, 0, err
		}
		moves := string(s.key) != to
		if moves && s.size() <= room {
			room -= s.size()
			kept = append(kept, s)
			continue
		}
		totals, err := decodeTotals(s.totals)
		if err != nil {
			return nil, 0, err
		}
		if sums[to] == nil {
			sums[to] = new(Totals)
		}
		sums[to].merge(totals, maxOutcomes)
		if moves {
			folded += totals.counts[requests]
		}
	}
	for key, sum := range sums {
		totals, err := appendTotals(nil, sum)
		if err != nil {
			return nil, 0, err
		}
		kept = append(kept, rawSeries{[]byte(key), totals})
	}
	slices.SortFunc(kept, func(a, b rawSeries) int { return bytes.Compare(a.key, b.key) })
	return kept, folded, nil
}

// sizeOf is at least the size of series in their row.
func sizeOf(list []rawSeries) (size int) {
	for _, s := range list {
		size += s.size()
	}
	return size
}

// size is at least the size of a series in its row.
func (s rawSeries) size() int { return len(s.key) + len(s.totals) + 2*binary.MaxVarintLen32 }
