package usage

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Step is the length of a point.
type Step string

// The steps.
const (
	Hour Step = "hour"
	Day  Step = "day"
)

// length returns the step's length.
func (s Step) length() time.Duration {
	if s == Day {
		return 24 * time.Hour
	}
	return time.Hour
}

// By is the property whose values have series in a report.
type By string

// The values of By. A preset's report has none by ByPreset and ByKey.
const (
	ByPreset  By = "preset"
	ByKey     By = "key"
	ByVersion By = "version"
	ByLabel   By = "label"
	ByModel   By = "model"
	ByStatus  By = "status"
)

// Scope is the object of a report.
type Scope uint8

// The scopes.
const (
	// OfPreset is one preset.
	OfPreset Scope = iota
	// OfWorkspace is every preset of a workspace, and its requests without one.
	OfWorkspace
)

// MaxPoints bounds the points of a report, over all series.
const MaxPoints = 50_000

// defaultPeriod is from From to To if one of them is not given.
const defaultPeriod = 24 * time.Hour

// Query is the question of a report.
type Query struct {
	// From and To are at the start of steps, in UTC. To is exclusive, and may lie ahead.
	From, To time.Time
	Step     Step
	By       By
	Scope    Scope
	// Label leaves out the requests that named another label or none, unless it is empty. A
	// workspace's report has none.
	Label string
	// Now is when the question was asked. Steps that begin later have no points, unless a
	// node's clock is ahead.
	Now time.Time
}

// ReadQuery reads from, to, step and by. The defaults are the last 24 hours, hour and
// version. From is rounded down to the start of its step, and to is rounded up. Without to
// the report ends with the present step. Errors name the parameter.
//
// A preset's by is version, label, model or status. A workspace's is one of these, preset
// or key. A preset also has label, and since: nothing before since counts, so it is rounded
// up, and the later one of from and since begins the report. Since the present step, the
// report has no points.
func ReadQuery(given url.Values, scope Scope, now time.Time) (Query, error) {
	q := Query{Step: Hour, By: ByVersion, Scope: scope, Now: now.UTC()}
	steps := []Step{Hour, Day}
	bys := []By{ByVersion, ByLabel, ByModel, ByStatus}
	if scope == OfWorkspace {
		bys = append([]By{ByPreset, ByKey}, bys...)
	}
	var err error
	if q.Step, err = oneOf(given, "step", steps, Hour); err != nil {
		return q, err
	}
	if q.By, err = oneOf(given, "by", bys, ByVersion); err != nil {
		return q, err
	}
	from, err := instant(given, "from")
	if err != nil {
		return q, err
	}
	to, err := instant(given, "to")
	if err != nil {
		return q, err
	}
	if to.IsZero() {
		to = q.Now
		if !from.IsZero() && !from.Before(to) {
			return q, domain.InvalidAt("from", "must be in the past, or before to")
		}
	}
	var since time.Time
	if scope == OfPreset {
		if q.Label, err = domain.OnlyValue("label", given["label"]); err != nil {
			return q, err
		}
		if q.Label != "" {
			if err := domain.CheckLabel(q.Label); err != nil {
				return q, err
			}
		}
		if since, err = instant(given, "since"); err != nil {
			return q, err
		}
	}
	switch {
	case !from.IsZero():
	case !since.IsZero() && since.Before(to):
		from = since
	default:
		from = to.Add(-defaultPeriod)
	}
	if !from.Before(to) {
		return q, domain.InvalidAt("from", "must be before to")
	}
	length := q.Step.length()
	q.From, q.To = from.Truncate(length), roundUp(to, length)
	if begin := roundUp(since, length); begin.After(q.From) {
		q.From = begin
		if q.To.Before(begin) {
			q.From = q.To
		}
	}
	if q.To.Year() > 9999 { // RFC 3339 has no such time
		return q, domain.InvalidAt("to", "must be before the last day of the year 9999")
	}
	if q.points() > MaxPoints {
		return q, tooManyPoints(1, q.points())
	}
	return q, nil
}

// roundUp returns the start of the first step at or after a time.
func roundUp(t time.Time, length time.Duration) time.Time {
	start := t.Truncate(length)
	if start.Before(t) {
		return start.Add(length)
	}
	return start
}

// points returns how many steps of the query have begun.
func (q Query) points() int {
	end := q.To
	if !q.Now.IsZero() && q.Now.Before(end) {
		end = q.Now
	}
	if !end.After(q.From) {
		return 0
	}
	// Seconds, because a duration ends after 292 years.
	length := int64(q.Step.length() / time.Second)
	return int((end.Unix() - q.From.Unix() + length - 1) / length)
}

// tooManyPoints is the error of a report of more than MaxPoints.
func tooManyPoints(series, points int) error {
	return domain.InvalidAt("from", fmt.Sprintf("the answer would have at least %d series of %d points, which is more than %d points: "+
		"ask for a shorter period or for step=day", series, points, MaxPoints))
}

// oneOf returns a parameter that is one of some values.
func oneOf[T ~string](given url.Values, name string, values []T, otherwise T) (T, error) {
	text, err := domain.OnlyValue(name, given[name])
	if err != nil || text == "" {
		return otherwise, err
	}
	if !slices.Contains(values, T(text)) {
		var names []string
		for _, value := range values {
			names = append(names, string(value))
		}
		return otherwise, domain.InvalidAt(name, "must be one of "+strings.Join(names, ", "))
	}
	return T(text), nil
}

// instant returns a parameter that is a time, zero if it is absent.
func instant(given url.Values, name string) (time.Time, error) {
	text, err := domain.OnlyValue(name, given[name])
	if err != nil || text == "" {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Unix() < 0 {
		return time.Time{}, domain.InvalidAt(name, "must be a time since 1970, such as 2026-11-23T08:00:00Z")
	}
	return t.UTC(), nil
}
