package usage

import (
	"iter"
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
	c := collector{query: q, points: q.points(), groups: make(map[reportKey]*group), named: make(map[string]bool)}
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
	groups map[reportKey]*group
	named  map[string]bool // the names of outcomes
	totals rawTotals
	texts  []byte // room for copies of sketches
}

// maxReportOutcomes bounds the names of outcomes in a report. Others share otherOutcomes. A
// table has two columns for each name.
const maxReportOutcomes = 64

// group is the sum of one key, by step.
type group struct {
	key    reportKey
	points []Totals
}

// add adds a row.
func (c *collector) add(r domain.UsageRow) error {
	if r.Start.Before(c.query.From) || !r.Start.Before(c.query.To) {
		return nil
	}
	point := int((r.Start.Unix() - c.query.From.Unix()) / int64(c.query.Step.length()/time.Second))
	row, err := readRow(r.Content)
	if err != nil {
		return err
	}
	if c.query.By == ByPreset { // the row's total is enough
		g, err := c.group(rawKey{}, row.slug)
		if err != nil {
			return err
		}
		return c.sum(g, point, row.total)
	}
	for rest := row.series; len(rest) > 0; {
		var s rawSeries
		if s, rest, err = nextSeries(rest); err != nil {
			return err
		}
		key, err := readKey(s.key)
		if err != nil {
			return err
		}
		if c.query.Label != "" && string(key.label) != c.query.Label {
			continue
		}
		g, err := c.group(key, row.slug)
		if err != nil {
			return err
		}
		if err := c.sum(g, point, s.totals); err != nil {
			return err
		}
	}
	return nil
}

// group returns the group of a series. A new one needs room for its points.
func (c *collector) group(k rawKey, slug []byte) (*group, error) {
	var preset, text []byte
	var version int
	other := k.class == otherClass || c.query.By == ByModel && string(k.model) == otherModel
	switch {
	case other:
	case c.query.By == ByPreset:
		preset = slug
	case c.query.By == ByVersion:
		version = int(k.version)
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
		g = &group{key: reportKey{string(preset), version, string(text), other}, points: make([]Totals, c.points)}
		c.groups[g.key] = g
	}
	return g, nil
}

// statusClasses are the keys of status classes.
var statusClasses = [...][]byte{nil, []byte("1xx"), []byte("2xx"), []byte("3xx"), []byte("4xx"), []byte("5xx")}

// sum adds totals to a point.
func (c *collector) sum(g *group, point int, totals []byte) error {
	raw := &c.totals
	if err := readTotals(totals, raw); err != nil {
		return err
	}
	if point >= len(g.points) { // a node's clock is ahead
		if (point+1)*len(c.groups) > MaxPoints {
			return tooManyPoints(len(c.groups), point+1)
		}
		c.points = max(c.points, point+1)
		g.points = append(g.points, make([]Totals, c.points-len(g.points))...)
	}
	to := &g.points[point]
	to.counts.merge(&raw.counts)
	to.cost = to.cost.plus(raw.cost)
	c.merge(&to.duration, raw.duration)
	c.merge(&to.firstContent, raw.firstContent)
	if len(raw.outcomes) > 0 {
		list, err := readOutcomes(raw.outcomes)
		if err != nil {
			return err
		}
		for _, o := range list {
			if !c.named[o.name] {
				if len(c.named) >= maxReportOutcomes {
					o.name = otherOutcomes
				}
				c.named[o.name] = true
			}
			to.addOutcome(o, math.MaxInt)
		}
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
	r := Report{query: c.query, series: make([]reportSeries, 0, len(c.groups))}
	for _, g := range c.groups {
		s, err := g.series(c.points)
		if err != nil {
			return Report{}, err
		}
		r.series = append(r.series, s)
	}
	slices.SortFunc(r.series, func(a, b reportSeries) int { return a.key.compare(b.key) })
	return r, nil
}

// series returns the figures of a group.
func (g *group) series(points int) (reportSeries, error) {
	s := reportSeries{key: g.key, total: figures{Totals: new(Totals)}, points: make([]figures, points)}
	duration, firstContent := newHistogram(), newHistogram()
	defer duration.release()
	defer firstContent.release()
	g.points = append(g.points, make([]Totals, points-len(g.points))...)
	for i := range g.points {
		from, to := &g.points[i], &s.points[i]
		to.Totals = from
		from.dropUncounted()
		s.total.mergeNumbers(from, math.MaxInt)
		var err error
		if to.ofDuration, err = duration.read(&from.duration); err != nil {
			return s, err
		}
		if to.ofFirstContent, err = firstContent.read(&from.firstContent); err != nil {
			return s, err
		}
	}
	s.total.ofDuration, s.total.ofFirstContent = duration.percentiles(), firstContent.percentiles()
	return s, nil
}
