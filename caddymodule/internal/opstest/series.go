package opstest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Series are the time series of a server: the values of labels by metric and label. If a
// label has no values, it may have any.
type Series map[string]map[string][]string

// Scraped reads the answer of /metrics.
func Scraped(response string) Series {
	all := make(Series)
	for line := range strings.Lines(response) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, s := range parse(line).selectors {
			if all[s.metric] == nil {
				all[s.metric] = make(map[string][]string)
			}
			for _, m := range s.matchers {
				all[s.metric][m.label] = append(all[s.metric][m.label], m.value)
			}
		}
	}
	return all
}

// Add adds a metric whose labels may have any value.
func (s Series) Add(metric string, labels ...string) {
	s[metric] = make(map[string][]string)
	for _, label := range labels {
		s[metric][label] = nil
	}
}

// has reports whether a metric has a label. Prometheus adds job and instance to all.
func (s Series) has(metric, label string) bool {
	_, ok := s[metric][label]
	return ok || label == "job" || label == "instance"
}

// shown matches a label in a legend of Grafana, or in a template of an alert.
var shown = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)

// Check returns what a query names and the series do not have: metrics, labels, and values
// of labels. It checks only metrics that concern selects.
func (s Series) Check(q Query, concern func(metric string) bool) (problems []string) {
	e := parse(q.Expression)
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var checked []selector
	for _, one := range e.selectors {
		if !concern(one.metric) {
			continue
		}
		if s[one.metric] == nil {
			problem("there is no metric %s", one.metric)
			continue
		}
		checked = append(checked, one)
		for _, m := range one.matchers {
			values := s[one.metric][m.label]
			switch {
			case !s.has(one.metric, m.label):
				problem("%s has no label %s", one.metric, m.label)
			case len(values) > 0 && (m.operator == "=" || m.operator == "!=") && !slices.Contains(values, m.value):
				problem("no %s has %s=%q", one.metric, m.label, m.value)
			}
		}
	}
	for _, g := range e.groupings {
		for _, label := range g.labels {
			has := func(one selector) bool { return s.has(one.metric, label) }
			if len(checked) == len(e.selectors) && !slices.ContainsFunc(checked, has) {
				problem("no metric has the label %s, which is in %q", label, g.keyword)
			}
		}
	}
	for _, found := range shown.FindAllStringSubmatch(q.Shown, -1) {
		label := found[1]
		switch by, dropped := e.aggregated(label); {
		case dropped:
			problem("label %s is shown, but an aggregation drops it", label)
		case !by && label != "__name__":
			for _, one := range checked {
				if !s.has(one.metric, label) {
					problem("%s has no label %s, which is shown", one.metric, label)
				}
			}
		}
	}
	return problems
}

// aggregated reports whether "by" names a label, and whether "by" or "without" drops it.
func (e expression) aggregated(label string) (by, dropped bool) {
	drops := false
	for _, g := range e.groupings {
		named := slices.Contains(g.labels, label)
		switch g.keyword {
		case "by":
			by = by || named
			drops = drops || !named
		case "without":
			dropped = dropped || named || label == "__name__"
		}
	}
	return by, dropped || drops && !by
}

// Metrics returns the names of the metrics in a query.
func (q Query) Metrics() (names []string) {
	for _, one := range parse(q.Expression).selectors {
		names = append(names, one.metric)
	}
	return names
}
