package usage

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Collect returns the report of stored rows: hours for the step hour, days for day. Their
// order does not matter, and rows of several nodes are summed. Rows outside of the period
// are ignored. It keeps no row's content.
//
// A report of more than MaxPoints is an error that names from. An error of rows or of a
// damaged row is returned.
func (q Query) Collect(rows iter.Seq2[domain.UsageRow, error]) (Report, error) {
	c := collector{query: q, points: q.points(), groups: make(map[reportKey]*reportSeries), named: make(map[string]bool)}
	for row, err := range rows {
		if err != nil {
			return Report{}, err
		}
		if err := c.add(row); err != nil {
			return Report{}, err
		}
	}
	return c.report()
}

// collector sums rows by the key and the step of a query.
type collector struct {
	query  Query
	points int
	groups map[reportKey]*reportSeries
	named  map[string]bool // the names of outcomes
	totals Totals          // of the series that is read
	texts  []byte          // room for copies of sketches
}

// maxReportOutcomes bounds the names of outcomes in a report. Others share otherOutcomes. A
// table has two columns for each name.
const maxReportOutcomes = 64

// add adds a row.
func (c *collector) add(r domain.UsageRow) error {
	if r.Start.Before(c.query.From) || !r.Start.Before(c.query.To) {
		return nil
	}
	point := int((r.Start.Unix() - c.query.From.Unix()) / int64(c.query.Step.length()/time.Second))
	stored, err := readRow(r.Content)
	if err != nil {
		return err
	}
	if c.query.By == ByPreset { // the row's total is enough
		return c.sum(rawKey{}, stored.slug, point, stored.total)
	}
	for stored.series.more() {
		key, err := readKey(stored.series.part())
		totals := stored.series.part()
		if err != nil {
			return err
		}
		if c.query.Label != "" && string(key.label) != c.query.Label {
			continue
		}
		if err := c.sum(key, stored.slug, point, totals); err != nil {
			return err
		}
	}
	return stored.series.err()
}

// group returns the group of a series. A new one needs room for its points.
func (c *collector) group(k rawKey, slug []byte) (*reportSeries, error) {
	var preset, text []byte
	var version int
	other := k.class == otherClass || c.query.By == ByModel && string(k.model) == otherModel
	switch {
	case other:
	case c.query.By == ByPreset:
		preset = slug
	case c.query.By == ByVersion:
		version = k.version
		if c.query.Scope == OfWorkspace {
			preset = slug
		}
	case c.query.By == ByLabel:
		text = k.label
	case c.query.By == ByModel:
		text = k.model
	case c.query.By == ByKey:
		text = k.access
	case c.query.By == ByStatus:
		text = statusClasses[min(k.class, 5)]
	}
	g := c.groups[reportKey{string(preset), version, string(text), other}] // without a copy of the texts
	if g == nil {
		if (len(c.groups)+1)*c.points > MaxPoints {
			return nil, tooManyPoints(len(c.groups)+1, c.points)
		}
		g = &reportSeries{key: reportKey{string(preset), version, string(text), other}, points: make([]figures, c.points)}
		c.groups[g.key] = g
	}
	return g, nil
}

// statusClasses are the keys of status classes.
var statusClasses = [...][]byte{nil, []byte("1xx"), []byte("2xx"), []byte("3xx"), []byte("4xx"), []byte("5xx")}

// sum adds totals to a point of the group of a series.
func (c *collector) sum(k rawKey, slug []byte, point int, totals []byte) error {
	g, err := c.group(k, slug)
	if err != nil {
		return err
	}
	if err := readTotals(totals, &c.totals); err != nil {
		return err
	}
	if point >= len(g.points) { // a node's clock is ahead
		if (point+1)*len(c.groups) > MaxPoints {
			return tooManyPoints(len(c.groups), point+1)
		}
		c.points = max(c.points, point+1)
		g.points = append(g.points, make([]figures, c.points-len(g.points))...)
	}
	to := &g.points[point]
	to.counts.merge(&c.totals.counts)
	to.cost = to.cost.plus(c.totals.cost)
	for i := range to.sketches {
		c.merge(&to.sketches[i], c.totals.sketches[i].frames)
	}
	for _, o := range c.totals.outcomes {
		if !c.named[o.name] {
			if len(c.named) >= maxReportOutcomes {
				o.name = otherOutcomes
			}
			c.named[o.name] = true
		}
		to.addOutcome(o, math.MaxInt)
	}
	return nil
}

// merge adds the one frame of a stored sketch.
func (c *collector) merge(to *sketch, frame []byte) {
	if len(to.frames) > 0 || len(frame) == 0 {
		to.merge(frame)
		return
	}
	if cap(c.texts)-len(c.texts) < len(frame) {
		c.texts = make([]byte, 0, max(64<<10, len(frame)))
	}
	start := len(c.texts)
	c.texts = append(c.texts, frame...)
	*to = sketch{frames: c.texts[start:len(c.texts):len(c.texts)], packed: len(frame)}
}

// report returns the report of the collected rows.
func (c *collector) report() (Report, error) {
	r := Report{query: c.query, series: slices.Collect(maps.Values(c.groups))}
	for _, s := range r.series {
		s.points = append(s.points, make([]figures, c.points-len(s.points))...)
		for i := range s.points {
			s.points[i].dropUncounted()
			s.total.mergeNumbers(&s.points[i].Totals, math.MaxInt)
		}
		for of := range measures {
			if err := s.setPercentiles(of); err != nil {
				return Report{}, err
			}
		}
	}
	slices.SortFunc(r.series, func(a, b *reportSeries) int { return a.key.compare(b.key) })
	return r, nil
}

// setPercentiles sets the percentiles of a measure.
func (s *reportSeries) setPercentiles(of int) error {
	total := histograms.Get().(*histogram)
	defer total.release()
	for i := range s.points {
		sketch := &s.points[i].sketches[of]
		if len(sketch.frames) == 0 {
			continue
		}
		if err := sketch.pack(); err != nil {
			return err
		}
		if err := total.readFrame(&decoder{text: sketch.frames}); err != nil {
			return err
		}
		s.points[i].percentiles[of] = total.percentiles()
		total.add()
	}
	total.collect()
	s.total.percentiles[of] = total.percentiles()
	return nil
}
