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

// series is a sum of a row and its key, as the row has them.
type series struct{ key, totals []byte }

// mergeRow adds changes to a row's content, nil for none, and returns the new content. The
// changes have their keys as appendKey writes them. Series without changes are copied as
// they are. folded is how many requests moved under otherModel or other to keep
// domain.MaxUsageSize.
func mergeRow(content []byte, slug string, changes map[string]*Totals) (_ []byte, folded int64, err error) {
	var stored row
	if content != nil {
		if stored, err = readRow(content); err != nil {
			return nil, 0, err
		}
	}
	total, err := mergeTotals(stored.total, slices.Collect(maps.Values(changes))...)
	if err != nil {
		return nil, 0, err
	}
	list, err := mergeSeries(&stored.series, changes)
	if err != nil {
		return nil, 0, err
	}
	head := appendPart(appendPart([]byte{rowFormat}, slug), total)
	if list, folded, err = fold(list, domain.MaxUsageSize-len(head)-sumSize); err != nil {
		return nil, 0, err
	}
	for _, s := range list {
		head = appendPart(appendPart(head, s.key), s.totals)
	}
	return binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli)), folded, nil
}

// mergeSeries returns the series of a row with changes, in order.
func mergeSeries(stored *decoder, changes map[string]*Totals) (list []series, err error) {
	added := maps.Clone(changes)
	for stored.more() {
		s := series{stored.part(), stored.part()}
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
		list = append(list, series{[]byte(key), totals})
	}
	sortSeries(list)
	return list, stored.err()
}

func sortSeries(list []series) {
	slices.SortFunc(list, func(a, b series) int { return bytes.Compare(a.key, b.key) })
}

// mergeTotals adds changes to totals as a row has them, nil for none.
func mergeTotals(totals []byte, changes ...*Totals) ([]byte, error) {
	sum := new(Totals)
	if totals != nil {
		if err := readTotals(totals, sum); err != nil {
			return nil, err
		}
	}
	for _, change := range changes {
		sum.merge(change, maxOutcomes)
	}
	return appendTotals(nil, sum)
}

// fold makes series fit into room bytes, those with the fewest requests first. It sums them
// under otherModel, so that clients who name many models take nothing from the other
// reports. If that is not enough, it sums series under other. It returns how many requests
// moved.
func fold(list []series, room int) (_ []series, folded int64, err error) {
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

// foldTo keeps series in room bytes, those with the most requests first. It sums the others,
// and those that are sums already, under the keys that target returns. It returns how many
// requests moved.
func foldTo(list []series, room int, target func(key []byte) (string, error)) (kept []series, folded int64, err error) {
	slices.SortFunc(list, func(a, b series) int {
		return cmp.Or(cmp.Compare(b.requests(), a.requests()), bytes.Compare(a.key, b.key))
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
		var totals Totals
		if err := readTotals(s.totals, &totals); err != nil {
			return nil, 0, err
		}
		if sums[to] == nil {
			sums[to] = new(Totals)
		}
		sums[to].merge(&totals, maxOutcomes)
		if moves {
			folded += totals.counts[requests]
		}
	}
	for key, sum := range sums {
		totals, err := appendTotals(nil, sum)
		if err != nil {
			return nil, 0, err
		}
		kept = append(kept, series{[]byte(key), totals})
	}
	sortSeries(kept)
	return kept, folded, nil
}

// requests returns how many requests a series has, which is the first of its counts.
func (s series) requests() uint64 {
	number, _ := binary.Uvarint(s.totals)
	return number
}

// sizeOf is at least the size of series in their row.
func sizeOf(list []series) (size int) {
	for _, s := range list {
		size += s.size()
	}
	return size
}

// size is at least the size of a series in its row.
func (s series) size() int { return len(s.key) + len(s.totals) + 2*binary.MaxVarintLen32 }
