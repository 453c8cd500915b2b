package usage

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"time"
)

// CSV returns the points of the report as a table with a header (RFC 4180). Its columns are
// the members of the key, other, and time. Then come the members of JSON's points, such as
// duration_ms_p50 and feedback_<name>_mean. Empty fields are null. Totals are in JSON only,
// so that sums over rows are right.
func (r Report) CSV() []byte {
	var to bytes.Buffer
	w := csv.NewWriter(&to)
	w.UseCRLF = true
	names, outcomes := r.keyNames(), r.outcomeNames()
	record := append([]string(nil), names...)
	record = append(record, "other", "time")
	record = append(record, countNames[:]...)
	record = append(record, "cost", "cost_estimated", "cost_unknown")
	for _, of := range measureNames {
		for _, percentile := range percentileNames {
			record = append(record, of+"_"+percentile)
		}
	}
	for _, name := range outcomes {
		record = append(record, "feedback_"+name+"_count", "feedback_"+name+"_mean")
	}
	_ = w.Write(record) // a buffer takes everything
	for _, s := range r.series {
		for point := range s.points {
			record = record[:0]
			for _, name := range names {
				record = append(record, s.key.member(name))
			}
			record = append(record, strconv.FormatBool(s.key.other), r.time(point).Format(time.RFC3339))
			record = s.points[point].appendFields(record, outcomes)
			_ = w.Write(record)
		}
	}
	w.Flush()
	return to.Bytes()
}

// appendFields appends the fields of figures, with those of the named outcomes.
func (f *figures) appendFields(record, outcomes []string) []string {
	for i := range countNames {
		record = append(record, strconv.FormatInt(f.counts[i], 10))
	}
	cost := ""
	if f.hasCost() {
		cost = string(f.cost.appendText(nil))
	}
	record = append(record, cost, strconv.FormatBool(f.costEstimated()), strconv.FormatInt(f.costUnknown(), 10))
	for _, p := range f.percentiles {
		for i := range p {
			record = append(record, p.text(i))
		}
	}
	next := f.outcomes
	for _, name := range outcomes { // both are in byte order
		if len(next) == 0 || next[0].name != name {
			record = append(record, "0", "")
			continue
		}
		record = append(record, strconv.FormatInt(next[0].count, 10), string(next[0].appendMean(nil)))
		next = next[1:]
	}
	return record
}
