package usage

import (
	"math"
	"slices"
	"strings"
	"time"
)

// The places of counts.
const (
	requests = iota
	errored
	aborted
	streamed
	unknown
	inputTokens
	outputTokens
	cacheReadTokens
	cacheWriteTokens
	reasoningTokens
	shown // what reports show ends here

	costed    = shown     // requests with a cost
	estimated = shown + 1 // requests with an estimated cost
	places    = shown + 2
)

// counts are the integers of a sum. None is negative.
type counts [places]int64

// merge adds o to c. Sums end at the greatest integer, so that their order never shows.
func (c *counts) merge(o *counts) {
	for i := range c {
		if c[i] += o[i]; c[i] < 0 {
			c[i] = math.MaxInt64
		}
	}
}

// Totals are the sum of requests. Their zero value is the sum of none. They are not safe
// for concurrent use.
type Totals struct {
	counts       counts
	cost         amount
	duration     sketch
	firstContent sketch
	outcomes     []outcome // in byte order of their names
}

// outcome is the feedback of one name. A unit of sum is 10^-6.
type outcome struct {
	name  string
	count int64
	sum   int64
}

const scoreDigits = 6

// Add adds a request. A cost that is negative or absurd is none. An error whose answer has
// no tokens is not unknown.
func (t *Totals) Add(r *Request) {
	one := counts{requests: 1}
	if r.IsError() {
		one[errored] = 1
	} else if r.Unknown != "" {
		one[unknown] = 1
	}
	if r.Aborted {
		one[aborted] = 1
	}
	if r.Streamed {
		one[streamed] = 1
	}
	if r.Unknown == "" {
		one[inputTokens] = max(r.Tokens.Input, 0)
		one[outputTokens] = max(r.Tokens.Output, 0)
		one[cacheReadTokens] = max(r.Tokens.CacheRead, 0)
		one[cacheWriteTokens] = max(r.Tokens.CacheWrite, 0)
		one[reasoningTokens] = max(r.Tokens.Reasoning, 0)
	}
	if r.HasCost {
		if cost, ok := amountOf(r.Cost); ok {
			t.cost = t.cost.plus(cost)
			one[costed] = 1
			if r.Estimated {
				one[estimated] = 1
			}
		}
	}
	t.counts.merge(&one)
	t.duration.add(r.Duration)
	if r.FirstContent >= 0 {
		t.firstContent.add(r.FirstContent)
	}
}

// Merge adds another sum.
func (t *Totals) Merge(o *Totals) { t.merge(o, math.MaxInt) }

// merge is Merge with at most so many names of outcomes.
func (t *Totals) merge(o *Totals, names int) {
	t.mergeNumbers(o, names)
	t.duration.merge(o.duration.frames)
	t.firstContent.merge(o.firstContent.frames)
}

// mergeNumbers merges everything but the sketches.
func (t *Totals) mergeNumbers(o *Totals, names int) {
	t.counts.merge(&o.counts)
	t.cost = t.cost.plus(o.cost)
	for _, of := range o.outcomes {
		t.addOutcome(of, names)
	}
}

// maxOutcomes bounds the names of outcomes in one series. Others share otherOutcomes.
const (
	maxOutcomes   = 16
	otherOutcomes = "other"
)

// addOutcome adds feedback. Beyond most names, it is summed under otherOutcomes.
func (t *Totals) addOutcome(o outcome, most int) {
	byName := func(o outcome, name string) int { return strings.Compare(o.name, name) }
	place, found := slices.BinarySearchFunc(t.outcomes, o.name, byName)
	if !found && len(t.outcomes) >= most {
		o.name = otherOutcomes
		place, found = slices.BinarySearchFunc(t.outcomes, o.name, byName)
	}
	if !found {
		t.outcomes = slices.Insert(t.outcomes, place, outcome{name: o.name})
	}
	t.outcomes[place].count += o.count
	t.outcomes[place].sum += o.sum
}

// feedback returns an outcome of one request.
func feedback(f Feedback) outcome {
	score := min(max(f.Score, -1), 1) // NaN stays
	if score != score {
		score = 0
	}
	return outcome{name: cut(f.Name), count: 1, sum: int64(math.Round(score * 1e6))}
}

// hourOf returns the hour of a time since 1970. Times before are in the first.
func hourOf(t time.Time) int64 { return max(t.Unix(), 0) / 3600 }
