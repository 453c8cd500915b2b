package usage

import (
	"slices"
	"strings"
)

// outcome is the feedback of one name. A unit of sum is 10^-6. A replaced score is a count of
// zero and the difference. So a series may have a sum without a count, where the score
// itself was summed in another one. Reports leave that out.
type outcome struct {
	name  string
	count int64
	sum   int64
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

// dropUncounted removes outcomes without a count.
func (t *Totals) dropUncounted() {
	t.outcomes = slices.DeleteFunc(t.outcomes, func(o outcome) bool { return o.count == 0 })
}
