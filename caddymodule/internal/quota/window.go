package quota

import (
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

func (a amount) plus(b amount) amount {
	return amount{a.requests + b.requests, a.tokens + b.tokens, a.nanos + b.nanos}
}

func (a amount) minus(b amount) amount {
	return amount{a.requests - b.requests, a.tokens - b.tokens, a.nanos - b.nanos}
}

// sum is an amount that many goroutines add to.
type sum struct{ requests, tokens, nanos atomic.Int64 }

func (s *sum) load() amount { return amount{s.requests.Load(), s.tokens.Load(), s.nanos.Load()} }

func (s *sum) store(a amount) {
	s.requests.Store(a.requests)
	s.tokens.Store(a.tokens)
	s.nanos.Store(a.nanos)
}

func (s *sum) add(a amount) {
	if a.requests != 0 {
		s.requests.Add(a.requests)
	}
	if a.tokens != 0 {
		s.tokens.Add(a.tokens)
	}
	if a.nanos != 0 {
		s.nanos.Add(a.nanos)
	}
}

// window sums what was used in one window of an interval.
type window struct {
	number  atomic.Int64
	stored  sum // what all nodes stored, as this one last knew it
	pending sum // what ended here and is not in stored
	reached atomic.Bool
}

func newWindow(number int64) *window {
	w := new(window)
	w.number.Store(number)
	return w
}

// used returns what was used in the window.
func (w *window) used() amount { return w.stored.load().plus(w.pending.load()) }

// windowOf returns the window of an interval that a moment is in. It never goes back by one window: a
// clock that is set back would open again what is spent. A window that is further ahead comes
// from a clock that was wrong, so it becomes that of the moment, with what it counted.
func (s *subject) windowOf(i int, m *moment) *window {
	for {
		w := s.windows[i].Load()
		now := m.windows[i]
		if w != nil {
			number := w.number.Load()
			switch {
			case number == now, number == now+1:
				return w
			case number > now && w.number.CompareAndSwap(number, now):
				return w
			case number > now:
				continue
			}
		}
		s.windows[i].CompareAndSwap(w, newWindow(now))
	}
}

// resetOf returns the end of an interval's window, zero for none.
func resetOf(i int, at time.Time) time.Time {
	_, end := domain.Intervals[i].Window(at)
	return end
}
