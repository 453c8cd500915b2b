package quota

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// The places of the intervals in arrays, in the order of domain.Intervals.
const (
	daily = iota
	weekly
	monthly
	lifetime
	intervals
)

// moment is a time, and the number of the window of each interval that it is in.
type moment struct {
	at      time.Time
	windows [intervals]int64
}

const secondsOfDay = 24 * 60 * 60

// momentOf returns the moment of a time. Its windows are those of domain.Interval, in UTC.
func momentOf(at time.Time) moment {
	day := max(at.Unix(), 0) / secondsOfDay
	year, month, _ := at.UTC().Date()
	const thursday = 3 // 1970 began on one, and weeks begin on Monday
	return moment{at, [intervals]int64{daily: day, weekly: (day + thursday) / 7, monthly: int64(year)*12 + int64(month)}}
}

// amount is what requests used. Costs are in billionths of a US dollar.
type amount struct{ requests, tokens, nanos int64 }

func (a amount) isZero() bool { return a == amount{} }

// full is where sums end. It is more than any limit, and three times as much is an int64.
const full = math.MaxInt64 / 4

func (a amount) plus(b amount) amount {
	return amount{min(a.requests+b.requests, full), min(a.tokens+b.tokens, full), min(a.nanos+b.nanos, full)}
}

func (a amount) minus(b amount) amount {
	return amount{a.requests - b.requests, a.tokens - b.tokens, a.nanos - b.nanos}
}

// sum is an amount that many goroutines add to.
type sum struct{ requests, tokens, nanos atomic.Int64 }

func (s *sum) load() amount { return amount{s.requests.Load(), s.tokens.Load(), s.nanos.Load()} }

func (s *sum) add(a amount) {
	add(&s.requests, a.requests)
	add(&s.tokens, a.tokens)
	add(&s.nanos, a.nanos)
}

// add adds n to a sum.
func add(to *atomic.Int64, n int64) {
	for before := to.Load(); n != 0 && !to.CompareAndSwap(before, min(before+min(n, full), full)); {
		before = to.Load()
	}
}

// window sums what was used in one window of an interval.
type window struct {
	number int64
	total  sum // what all nodes used, as far as this one knows
	known  sum // what the row has of it, as this one last read it
	// told are the limits, and one, whose events were told. A limit that is raised tells again.
	told [len(toldKinds)]atomic.Int64
}

// used returns what was used in the window.
func (w *window) used() amount { return w.total.load() }

// pending returns what ended here and is not in the row.
func (w *window) pending() amount { return w.used().minus(w.known.load()) }

// maxWindows is how many windows of each interval a row has: those that were changed last. Nodes whose
// clocks are wrong change windows of their own beside that of the others. A subject has twice as many,
// because it knows the order in which it met them alone.
const maxWindows = 4

// windowsOf returns the windows of an interval, the one that was made last first.
func (s *subject) windowsOf(i int) []*window {
	if all := s.windows[i].Load(); all != nil {
		return *all
	}
	return nil
}

// windowOf returns the window of an interval that a moment is in. A clock that is set back comes to the
// window that it had then, with what was used in it.
func (s *subject) windowOf(i int, m *moment) *window { return s.windowNumbered(i, m.windows[i]) }

func (s *subject) windowNumbered(i int, number int64) *window {
	for {
		old := s.windows[i].Load()
		all := s.windowsOf(i)
		for _, w := range all {
			if w.number == number {
				return w
			}
		}
		made := []*window{{number: number}}
		for _, w := range all {
			if len(made) < 2*maxWindows || !w.pending().isZero() {
				made = append(made, w)
			}
		}
		s.windows[i].CompareAndSwap(old, &made)
	}
}

// raise raises a number to n, and reports whether it was less.
func raise(a *atomic.Int64, n int64) bool {
	for {
		before := a.Load()
		if before >= n {
			return false
		}
		if a.CompareAndSwap(before, n) {
			return true
		}
	}
}

// resetOf returns the end of an interval's window, zero for none.
func resetOf(i int, at time.Time) time.Time {
	_, end := domain.Intervals[i].Window(at)
	return end
}
