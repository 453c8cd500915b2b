package usage

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns the report as {"data": …}, the body of an answer. Each series has its
// key, its total and its points. The key of what found no room elsewhere is {"other": true}.
func (r Report) JSON() []byte {
	size := 256
	for _, s := range r.series {
		size += 128 + 480*(1+len(s.points))
	}
	b := append(make([]byte, 0, size), `{"data":{"from":`...)
	b = appendTime(b, r.query.From)
	b = append(b, `,"to":`...)
	b = appendTime(b, r.query.To)
	b = append(b, `,"step":"`+string(r.query.Step)+`","by":"`+string(r.query.By)+`","series":[`...)
	names := r.keyNames()
	for i, s := range r.series {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.key.appendJSON(append(b, `{"key":`...), names)
		b = s.total.appendMembers(append(b, `,"total":{`...))
		b = append(b, `},"points":[`...)
		for point := range s.points {
			if point > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"time":`...)
			b = appendTime(b, r.time(point))
			b = s.points[point].appendMembers(append(b, ','))
			b = append(b, '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}}"...)
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339), '"')
}

// appendJSON appends a key with the named members.
func (k reportKey) appendJSON(b []byte, names []string) []byte {
	if k.other {
		return append(b, `{"other":true}`...)
	}
	for i, name := range names {
		b = append(b, "{,"[min(i, 1)], '"')
		b = append(b, name+`":`...)
		text := k.member(name)
		switch {
		case text == "":
			b = append(b, "null"...)
		case name == string(ByVersion):
			b = append(b, text...)
		default:
			b, _ = jsontext.AppendQuote(b, text) // of UTF-8
		}
	}
	return append(b, '}')
}

// member returns a member of the key as text, "" if it is null.
func (k reportKey) member(name string) string {
	switch By(name) {
	case ByPreset:
		return k.preset
	case ByVersion:
		if k.version == 0 {
			return ""
		}
		return strconv.Itoa(k.version)
	default:
		return k.text
	}
}

// jsonNames are the names of counts as JSON has them before their values.
var jsonNames = func() (names [shown]string) {
	for i, name := range countNames {
		names[i] = `"` + name + `":`
	}
	return names
}()

// nothing is figures of no requests, which most points of a quiet preset are.
var nothing = new(figures).appendSome(nil)

// appendMembers appends the members of figures.
func (f *figures) appendMembers(b []byte) []byte {
	if f.counts == (counts{}) && len(f.outcomes) == 0 {
		return append(b, nothing...)
	}
	return f.appendSome(b)
}

func (f *figures) appendSome(b []byte) []byte {
	for i, name := range jsonNames {
		b = append(b, name...)
		b = strconv.AppendInt(b, f.counts[i], 10)
		b = append(b, ',')
	}
	b = append(b, `"cost":`...)
	if f.hasCost() {
		b = f.cost.appendText(append(b, '"'))
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"cost_estimated":`...)
	b = strconv.AppendBool(b, f.costEstimated())
	b = append(b, `,"cost_unknown":`...)
	b = strconv.AppendInt(b, f.costUnknown(), 10)
	for i, name := range measureNames {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = f.percentiles[i].appendJSON(b)
	}
	b = append(b, `,"feedback":{`...)
	for i, o := range f.outcomes {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, o.name) // of UTF-8
		b = append(b, `:{"count":`...)
		b = strconv.AppendInt(b, o.count, 10)
		b = append(b, `,"mean":`...)
		b = append(o.appendMean(b), '}')
	}
	return append(b, '}')
}

// appendJSON appends percentiles, null if there are none.
func (p percentiles) appendJSON(b []byte) []byte {
	if p == (percentiles{}) {
		return append(b, "null"...)
	}
	for i, name := range percentileNames {
		b = append(b, "{,"[min(i, 1)], '"')
		b = append(append(b, name...), `":`...)
		b = append(b, p.text(i)...)
	}
	return append(b, '}')
}

// percentileNames are the names of percentiles.
var percentileNames = [len(percents)]string{"p50", "p95", "p99"}

// outcomeNames returns the names of all outcomes, in byte order.
func (r Report) outcomeNames() (names []string) {
	for _, s := range r.series {
		for _, o := range s.total.outcomes {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
