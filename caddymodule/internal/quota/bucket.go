package quota

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// bucket is a limiter whose time never goes back. A rate.Limiter that is asked at an earlier time, as by a request whose
// body took long, would refill once more what lies between that and its latest time.
type bucket struct {
	*rate.Limiter
	latest atomic.Int64 // since processStart, in nanoseconds
}

var processStart = time.Now()

// latestOf returns the latest time that the limiter was asked at, now included.
func (b *bucket) latestOf(now time.Time) time.Time {
	raise(&b.latest, int64(now.Sub(processStart)))
	return processStart.Add(time.Duration(b.latest.Load()))
}

// AllowN takes n if the limiter has as many.
func (b *bucket) AllowN(now time.Time, n int) bool { return b.Limiter.AllowN(b.latestOf(now), n) }

// rateOf returns a limiter of a number in each minute, which is earlier if there is one.
func rateOf(earlier *bucket, inMinute int64) *bucket {
	if inMinute == 0 {
		return nil
	}
	limit, burst := rate.Limit(float64(inMinute)/60), int(min(inMinute, math.MaxInt))
	switch {
	case earlier == nil:
		return &bucket{Limiter: rate.NewLimiter(limit, burst)}
	case earlier.Burst() != burst:
		earlier.SetLimit(limit)
		earlier.SetBurst(burst)
	}
	return earlier
}

// take takes n from a limiter, also more than it has. A negative n gives back. Nil takes nothing.
func take(l *bucket, now time.Time, n int64) {
	if l == nil {
		return
	}
	burst, at := int64(l.Burst()), l.latestOf(now)
	for ; n > burst; n -= burst {
		l.ReserveN(at, int(burst))
	}
	l.ReserveN(at, int(n))
}

// wait returns how long until a limiter has n, which is at most what it can have.
func wait(l *bucket, now time.Time, n int64) time.Duration {
	lacking := float64(min(n, int64(l.Burst()))) - l.TokensAt(now)
	return time.Duration(max(lacking, 0) / float64(l.Limit()) * float64(time.Second))
}
