package access

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/problem"
)

// Interval is a period of the calendar in UTC, in which spending is bounded. What was spent in
// one of its windows does not count in the next.
type Interval string

// The intervals of limits and budgets.
const (
	// Daily windows begin at midnight.
	Daily Interval = "daily"
	// Weekly windows begin at midnight of Monday.
	Weekly Interval = "weekly"
	// Monthly windows begin at midnight of the first day.
	Monthly Interval = "monthly"
	// Lifetime has one window, which never ends.
	Lifetime Interval = "lifetime"
)

// Intervals are all intervals, the shortest first.
var Intervals = []Interval{Daily, Weekly, Monthly, Lifetime}

// ReadInterval returns the interval of a name. A name that is none is Invalid.
func ReadInterval(name string) (Interval, error) {
	if interval := Interval(name); slices.Contains(Intervals, interval) {
		return interval, nil
	}
	return "", problem.InvalidAt("interval", "must be daily, weekly, monthly or lifetime")
}

// Window returns the window of i that a time is in. It is from start until before end. The
// window of Lifetime, and of an Interval that is not one of Intervals, has a zero start and a
// zero end.
func (i Interval) Window(at time.Time) (start, end time.Time) {
	year, month, day := at.UTC().Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	switch i {
	case Daily:
		return midnight, midnight.AddDate(0, 0, 1)
	case Weekly:
		monday := midnight.AddDate(0, 0, -(int(midnight.Weekday())+6)%7)
		return monday, monday.AddDate(0, 0, 7)
	case Monthly:
		first := midnight.AddDate(0, 0, 1-day)
		return first, first.AddDate(0, 1, 0)
	default:
		return time.Time{}, time.Time{}
	}
}

// Limits bound what the inference requests of one key use. A limit is from 1 to MaxLimit, and
// zero is none. Limits of a workspace hold for each of its keys that lacks the same limit.
type Limits struct {
	// RequestsPerMinute and RequestsPerDay count the requests that were let through, whatever
	// their response.
	RequestsPerMinute int64 `json:"requests_per_minute,omitzero"`
	// TokensPerMinute and TokensPerDay count the input and output tokens of responses.
	TokensPerMinute int64 `json:"tokens_per_minute,omitzero"`
	RequestsPerDay  int64 `json:"requests_per_day,omitzero"`
	TokensPerDay    int64 `json:"tokens_per_day,omitzero"`
	// Concurrent is how many requests may be in flight at once.
	Concurrent int64 `json:"concurrent,omitzero"`
}

// The greatest limits.
const (
	// MaxLimit bounds each number of requests or tokens.
	MaxLimit int64 = 1_000_000_000_000
	// MaxLimitUSD bounds each limit of spending, in US dollars.
	MaxLimitUSD = 1_000_000_000
	// MinLimitUSD is what spending is counted in. A limit is as much at least.
	MinLimitUSD = 1e-9
)

// Or returns l, and the limits of others where l has none. Either may be nil. The result is nil
// if both are, and may share their memory.
func (l *Limits) Or(others *Limits) *Limits {
	switch {
	case l == nil:
		return others
	case others == nil:
		return l
	}
	sum := *l
	for _, limit := range []struct{ of, other *int64 }{
		{&sum.RequestsPerMinute, &others.RequestsPerMinute},
		{&sum.TokensPerMinute, &others.TokensPerMinute},
		{&sum.RequestsPerDay, &others.RequestsPerDay},
		{&sum.TokensPerDay, &others.TokensPerDay},
		{&sum.Concurrent, &others.Concurrent},
	} {
		if *limit.of == 0 {
			*limit.of = *limit.other
		}
	}
	return &sum
}

// Check returns what is wrong with l, whose place in the request is given. Nil is right.
func (l *Limits) Check(place string) []Issue {
	if l == nil {
		return nil
	}
	return checkCounts(place, []count{
		{"requests_per_minute", l.RequestsPerMinute},
		{"tokens_per_minute", l.TokensPerMinute},
		{"requests_per_day", l.RequestsPerDay},
		{"tokens_per_day", l.TokensPerDay},
		{"concurrent", l.Concurrent},
	})
}

// measured reports whether l, which may be nil, bounds tokens.
func (l *Limits) measured() bool {
	return l != nil && (l.TokensPerMinute != 0 || l.TokensPerDay != 0)
}

// Measured reports whether w bounds costs or tokens.
func (w *WorkspaceLimits) Measured() bool { return len(w.Budgets) > 0 || w.Limits.measured() }

// Measured reports whether l, which may be nil, bounds costs or tokens.
func (l *PresetLimits) Measured() bool { return l != nil && (l.TokensPerDay != 0 || l.CostPerDay != 0) }

// NilIfNone returns nil for limits that have none.
func (l *Limits) NilIfNone() *Limits {
	if l == nil || *l == (Limits{}) {
		return nil
	}
	return l
}

// KeyLimits bound what the inference requests of one key spend and use. Their zero value bounds
// nothing. They are never changed in place: a changed key has others.
type KeyLimits struct {
	// Limit is how much the key may spend in each window of LimitReset, in US dollars. Nil is
	// no limit. With zero, no request passes. Others are from MinLimitUSD to MaxLimitUSD.
	Limit *float64 `json:"limit,omitzero"`
	// LimitReset is Daily, Weekly or Monthly, and empty if the window never ends. It may be set
	// without a Limit, and means nothing then.
	LimitReset Interval `json:"limit_reset,omitzero"`
	// IncludeBYOKInLimit is kept for clients. It changes nothing: the meter counts what a
	// request costs with the caller's own provider key, too.
	IncludeBYOKInLimit bool `json:"include_byok_in_limit,omitzero"`
	// Limits are nil for none. Those of the workspace hold beside them: see Limits.Or.
	Limits *Limits `json:"limits,omitzero"`
}

// Check returns what is wrong with the limits of a key of a kind.
func (l KeyLimits) Check(kind KeyKind) (issues []Issue) {
	if kind == ManagementKey && l != (KeyLimits{}) {
		place := "/limits"
		switch {
		case l.Limit != nil:
			place = "/limit"
		case l.LimitReset != "":
			place = "/limit_reset"
		case l.IncludeBYOKInLimit:
			place = "/include_byok_in_limit"
		}
		return []Issue{{Path: place, Message: "is for inference keys only"}}
	}
	if l.Limit != nil && *l.Limit != 0 {
		issues = checkUSD("/limit", *l.Limit)
		for i := range issues {
			issues[i].Message += ", or 0"
		}
	}
	switch l.LimitReset {
	case "", Daily, Weekly, Monthly:
	default:
		issues = append(issues, Issue{Path: "/limit_reset", Message: "must be daily, weekly or monthly"})
	}
	return append(issues, l.Limits.Check("/limits")...)
}

// PresetLimits bound what the inference requests for one preset use together, whatever their
// keys. Zero is no limit.
type PresetLimits struct {
	// RequestsPerMinute and TokensPerDay are at most MaxLimit, and count as those of Limits.
	RequestsPerMinute int64 `json:"requests_per_minute,omitzero"`
	TokensPerDay      int64 `json:"tokens_per_day,omitzero"`
	// CostPerDay is how much the requests of a Daily window may cost, in US dollars, at most
	// MaxLimitUSD.
	CostPerDay float64 `json:"cost_per_day,omitzero"`
}

// Check returns what is wrong with l, whose place in the request is given. Nil is right.
func (l *PresetLimits) Check(place string) []Issue {
	if l == nil {
		return nil
	}
	issues := checkCounts(place, []count{{"requests_per_minute", l.RequestsPerMinute}, {"tokens_per_day", l.TokensPerDay}})
	if l.CostPerDay != 0 {
		issues = append(issues, checkUSD(place+"/cost_per_day", l.CostPerDay)...)
	}
	return issues
}

// NilIfNone returns nil for limits that have none.
func (l *PresetLimits) NilIfNone() *PresetLimits {
	if l == nil || *l == (PresetLimits{}) {
		return nil
	}
	return l
}

// Budget bounds what all inference requests of a workspace spend in each window of an interval.
type Budget struct {
	// ID is a UUID, which stays when the budget is changed.
	ID string `json:"id"`
	// LimitUSD is from MinLimitUSD to MaxLimitUSD.
	LimitUSD  float64    `json:"limit_usd"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at"` // null until the first change
}

// Budgets are those of a workspace. Of those that are set, one of a longer interval is greater.
type Budgets map[Interval]Budget

// Set gives b a limit for an interval, which Check must allow. A new budget gets the id.
func (b Budgets) Set(interval Interval, limitUSD float64, id string, now time.Time) {
	switch budget, ok := b[interval]; {
	case !ok:
		b[interval] = Budget{ID: id, LimitUSD: limitUSD, CreatedAt: now}
	case budget.LimitUSD != limitUSD:
		budget.LimitUSD, budget.UpdatedAt = limitUSD, &now
		b[interval] = budget
	}
}

// ReplacedBy returns budgets with the intervals and limits of others, nil for none. The id and
// the time of creation are those of b where it has the interval.
func (b Budgets) ReplacedBy(others Budgets, newID func() string, now time.Time) Budgets {
	if len(others) == 0 {
		return nil
	}
	all := make(Budgets, len(others))
	for interval, budget := range others {
		if old, ok := b[interval]; ok {
			all[interval] = old
		}
		all.Set(interval, budget.LimitUSD, newID(), now)
	}
	return all
}

// CheckAll returns what is wrong with the limits of b, whose place in the request is given.
func (b Budgets) CheckAll(place string) []Issue {
	for _, interval := range Intervals {
		budget, ok := b[interval]
		if !ok {
			continue
		}
		if issues := b.Check(interval, budget.LimitUSD); issues != nil {
			issues[0].Path = place + "/" + string(interval) + issues[0].Path
			return issues
		}
	}
	return nil
}

// Check returns what is wrong with a limit that b is to have for an interval, in the place of
// the one that b may have.
func (b Budgets) Check(interval Interval, limitUSD float64) []Issue {
	const place = "/limit_usd"
	if issues := checkUSD(place, limitUSD); issues != nil {
		return issues
	}
	isLonger := false
	for _, other := range Intervals {
		if other == interval {
			isLonger = true
			continue
		}
		budget, ok := b[other]
		amount := "$" + strconv.FormatFloat(budget.LimitUSD, 'f', -1, 64)
		switch {
		case !ok:
		case isLonger && limitUSD >= budget.LimitUSD:
			return []Issue{{Path: place, Message: fmt.Sprintf("must be less than the %s budget of %s", other, amount)}}
		case !isLonger && limitUSD <= budget.LimitUSD:
			return []Issue{{Path: place, Message: fmt.Sprintf("must be more than the %s budget of %s", other, amount)}}
		}
	}
	return nil
}

// checkUSD returns an issue unless usd can be a limit of spending other than zero.
func checkUSD(place string, usd float64) []Issue {
	if usd >= MinLimitUSD && usd <= MaxLimitUSD { // not of NaN
		return nil
	}
	return []Issue{{Path: place, Message: fmt.Sprintf("must be a number of US dollars from %.9f to %d", MinLimitUSD, MaxLimitUSD)}}
}

// count is a limit of requests or tokens, and its name.
type count struct {
	name  string
	limit int64
}

// checkCounts returns an issue for each limit that is neither zero nor from 1 to MaxLimit.
func checkCounts(place string, counts []count) (issues []Issue) {
	for _, c := range counts {
		if c.limit < 0 || c.limit > MaxLimit {
			issues = append(issues, Issue{Path: place + "/" + c.name, Message: fmt.Sprintf("must be an integer from 1 to %d", MaxLimit)})
		}
	}
	return issues
}

// WorkspaceLimits are what a workspace bounds.
type WorkspaceLimits struct {
	ID string
	// Limits are those of each key of the workspace that lacks the same limit. Nil is none.
	Limits  *Limits
	Budgets Budgets
}

// LimitsMeasured reports whether p's key has a limit of costs or tokens, which only the routes that resolve presets
// measure.
func (p Principal) LimitsMeasured() bool {
	l := p.KeyLimits
	return l != nil && (l.Limit != nil || l.Limits != nil && (l.Limits.TokensPerMinute != 0 || l.Limits.TokensPerDay != 0))
}
