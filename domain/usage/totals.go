package usage

import (
	"math"
	"time"
)

// The places of counts.
const (
	requests = iota
	errored
	aborted
	streamed
	unknown
	refused
	inputTokens
	outputTokens
	cacheReadTokens
	cacheWriteTokens
	reasoningTokens
	shown // what reports show ends here

	costed    = shown     // requests with a cost
	estimated = shown + 1 // requests with an estimated cost
	uncosted  = shown + 2 // requests that may have cost something that is not known
	places    = shown + 3
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
	counts   counts
	cost     amount
	sketches [measures]sketch
	outcomes []outcome // in byte order of their names
}

// The places of sketches.
const (
	duration = iota
	firstContent
	measures
)

// Add adds a request. A cost that is negative or absurd is none. An error whose answer has
// no tokens is not unknown.
func (t *Totals) Add(r *Request) {
	if r.Refused {
		t.counts.merge(&counts{refused: 1})
		return
	}
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
	if cost, ok := amountOf(r.Cost); r.HasCost && ok {
		t.cost = t.cost.plus(cost)
		one[costed] = 1
		if r.Estimated {
			one[estimated] = 1
		}
	} else if r.usedAnything() {
		one[uncosted] = 1
	}
	t.counts.merge(&one)
	t.sketches[duration].add(r.Duration)
	if r.FirstContent >= 0 {
		t.sketches[firstContent].add(r.FirstContent)
	}
}

// merge adds another sum, with at most so many names of outcomes.
func (t *Totals) merge(o *Totals, names int) {
	t.mergeNumbers(o, names)
	for i := range t.sketches {
		t.sketches[i].merge(o.sketches[i].frames)
	}
}

// mergeNumbers merges everything but the sketches.
func (t *Totals) mergeNumbers(o *Totals, names int) {
	t.counts.merge(&o.counts)
	t.cost = t.cost.plus(o.cost)
	for _, of := range o.outcomes {
		t.addOutcome(of, names)
	}
}

// hourOf returns the hour of a time since 1970. Times before are in the first.
func hourOf(t time.Time) int64 { return max(t.Unix(), 0) / 3600 }
