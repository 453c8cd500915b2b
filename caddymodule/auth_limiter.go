package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

const (
	defaultAuthFailures      = 100
	defaultAuthFailureWindow = time.Minute

	// maxAuthFailures and maxAuthFailureWindow keep the arithmetic exact.
	maxAuthFailures      = 1_000_000
	maxAuthFailureWindow = 24 * time.Hour

	// limiterSets of limiterWays each are the addresses that a limiter remembers:
	// 16,384. They take 768 KiB, which is allocated once and never grows.
	limiterSets = 4096
	limiterWays = 4

	// maxLimitedLookups bounds the look-ups in the store that limited addresses
	// have in flight together, and maxLookupWait how long a request waits for one
	// of these places.
	maxLimitedLookups = 16
	maxLookupWait     = time.Second
)

// limiter counts failed authentications by client address, for all handlers of one
// store. It outlives reloads. It is safe for concurrent use.
//
// It decides how a wrong key is answered, and never keeps a right one out. Each
// address has a leaky bucket: a failure adds one, and the limit of the handler where it
// failed last drains in that handler's window. A handler whose own limit is reached
// answers wrong keys from the address with 429. Keys that are not in memory are then
// looked up in the store, a few at a time: see enter.
//
// An address has its place in one set of the table, by its hash. A new address
// replaces the one whose bucket is the emptiest. So the table can be flooded without
// refusing anybody, and those that fail most are forgotten last. The seed keeps
// clients from choosing whose set they share.
type limiter struct {
	now     func() time.Duration
	seed    maphash.Seed
	lookups chan struct{} // semaphore

	mu      sync.Mutex
	buckets [limiterSets][limiterWays]bucket
	told    time.Duration // when an address was last logged
	untold  int           // addresses that were limited since, and not logged
}

// bucket is the failures of an address that have not drained.
type bucket struct {
	from  origin
	level float64
	rate  float64       // that drain in a second
	at    time.Duration // when the level was computed
	told  bool          // the address was logged since the bucket was empty
}

// failureLimit is what one handler allows. The zero value allows everything.
type failureLimit struct {
	most   int // failures at once, and in the window
	window time.Duration
}

// perSecond is how fast a bucket drains.
func (f failureLimit) perSecond() float64 { return float64(f.most) / f.window.Seconds() }

func newLimiter() *limiter {
	start := time.Now()
	return &limiter{
		now:     func() time.Duration { return time.Since(start) },
		seed:    maphash.MakeSeed(),
		lookups: make(chan struct{}, maxLimitedLookups),
	}
}

// provisionFailureLimit sets the defaults and checks the settings.
func (h *Handler) provisionFailureLimit() error {
	if h.AuthFailureLimit == 0 {
		h.AuthFailureLimit = defaultAuthFailures
	}
	if h.AuthFailureWindow == 0 {
		h.AuthFailureWindow = caddy.Duration(defaultAuthFailureWindow)
	}
	if err := checkAuthFailureLimit(h.AuthFailureLimit, time.Duration(h.AuthFailureWindow)); err != nil {
		return fmt.Errorf("auth_failure_limit: %w", err)
	}
	if h.AuthFailureLimit != authFailuresOff {
		h.failureLimit = failureLimit{h.AuthFailureLimit, time.Duration(h.AuthFailureWindow)}
	}
	return nil
}

// authFailuresOff is the setting for no limit.
const authFailuresOff = -1

func checkAuthFailureLimit(limit int, window time.Duration) error {
	if limit != authFailuresOff && (limit < 1 || limit > maxAuthFailures) {
		return fmt.Errorf("must be from 1 to %d, got %d", maxAuthFailures, limit)
	}
	if window < time.Second || window > maxAuthFailureWindow {
		return fmt.Errorf("the duration must be from 1s to %s, got %s", maxAuthFailureWindow, window)
	}
	return nil
}

// isLimited reports whether an address has used up its limit.
func (l *limiter) isLimited(from origin, by failureLimit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.find(from)
	return b != nil && b.wait(l.now(), by) > 0
}

// fail counts a failed authentication. Where the address has used up its limit it
// counts nothing, returns how long until it may fail once more, and logs the address
// once.
func (l *limiter) fail(from origin, by failureLimit, logger *zap.Logger) (wait time.Duration) {
	l.mu.Lock()
	now := l.now()
	b := l.find(from)
	if b == nil {
		b = l.replace(from, now)
	}
	wait = b.wait(now, by)
	b.rate = by.perSecond()
	if b.level == 0 {
		b.told = false
	}
	if wait == 0 {
		b.level++
		l.mu.Unlock()
		return 0
	}
	tell := !b.told
	b.told = true
	if tell && l.told != 0 && now-l.told < time.Second { // a flood of addresses must not flood the log
		tell = false
		l.untold++
	}
	untold := l.untold
	if tell {
		l.told, l.untold = now, 0
	}
	l.mu.Unlock()
	if tell {
		logger.Warn("too many failed authentications from an address: wrong keys from there are answered with 429",
			zap.Stringer("address", from), zap.Int("others_since_last_told", untold))
	}
	return wait
}

// wait drains b and returns how long until it has room for one more failure.
func (b *bucket) wait(now time.Duration, by failureLimit) time.Duration {
	b.drain(now)
	most := float64(by.most)
	over := min(b.level, most) + 1 - most // more may be left of another limit
	return max(0, time.Duration(over/by.perSecond()*float64(time.Second)).Round(time.Millisecond))
}

func (b *bucket) drain(now time.Duration) {
	b.level = max(0, b.level-(now-b.at).Seconds()*b.rate)
	b.at = now
}

// find returns the bucket of an address, nil if there is none. mu is held.
func (l *limiter) find(from origin) *bucket {
	set := l.setOf(from)
	for i := range set {
		if set[i].from == from {
			return &set[i]
		}
	}
	return nil
}

// replace gives an address the place of the emptiest bucket of its set. mu is held.
func (l *limiter) replace(from origin, now time.Duration) *bucket {
	set := l.setOf(from)
	emptiest := &set[0]
	for i := range set {
		if set[i].drain(now); set[i].level < emptiest.level {
			emptiest = &set[i]
		}
	}
	*emptiest = bucket{from: from, at: now}
	return emptiest
}

func (l *limiter) setOf(from origin) *[limiterWays]bucket {
	return &l.buckets[maphash.Bytes(l.seed, from[:])%limiterSets]
}

var errLookupWait = errors.New("too many look-ups of keys from limited addresses")

// enter waits for one of the places for look-ups that limited addresses share, in
// the order of arrival. The caller gives it back with leave. The error is that of
// ctx, or errLookupWait after maxLookupWait.
func (l *limiter) enter(ctx context.Context) error {
	select {
	case l.lookups <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(maxLookupWait)
	defer timer.Stop()
	select {
	case l.lookups <- struct{}{}:
		return nil
	case <-timer.C:
		return errLookupWait
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *limiter) leave() { <-l.lookups }

// limitError is the answer to a wrong key from an address that has failed too often.
type limitError struct {
	wait time.Duration // until the address may fail once more
}

func (*limitError) Error() string { return "Rate limit exceeded" }

// retryAfter returns the value of that header: whole seconds, at least one.
func (e *limitError) retryAfter() int {
	return max(1, int((e.wait+time.Second-1)/time.Second))
}
