// Package limiter answers how often a client address may try a wrong key.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
)

const (
	// maxFailures and maxWindow bound the rounding errors of a level to much
	// less than a negligible part of a failure.
	maxFailures = 1_000_000
	maxWindow   = 24 * time.Hour
	negligible  = 1e-3

	// A Limiter remembers limiterSets * limiterWays = 16,384 addresses. They take
	// 768 KiB, which are allocated once.
	limiterSets = 4096
	limiterWays = 4
)

// MaxLookups bounds the concurrent look-ups of limited addresses in the store.
// A request waits at most MaxLookupWait for its turn.
const (
	MaxLookups    = 16
	MaxLookupWait = time.Second
)

// Limiter counts failed authentications by client address, for all handlers of one
// store. It outlives reloads. It is safe for concurrent use.
//
// It only decides how a wrong key is answered; a right key always works. Each address has
// a leaky bucket. A failure adds one to its level, and the level drains at the rate of the
// handler that counted last. A handler answers wrong keys with 429 while the level is at
// its own limit. Keys of limited addresses that are not in memory wait for one of a few
// look-ups in the store.
//
// The buckets are a set-associative table: a hash picks the set of an address. A new
// address replaces the emptiest bucket of its set. So a flood of addresses refuses nobody,
// and the worst addresses are forgotten last. The seed of the hash keeps clients from
// choosing their set.
type Limiter struct {
	now     func() time.Duration
	seed    maphash.Seed
	lookups *semaphore.Weighted

	mu       sync.Mutex
	buckets  [limiterSets][limiterWays]bucket
	loggedAt time.Duration // when an address was last logged
}

// bucket has the failures of an address that have not drained.
type bucket struct {
	from     Origin
	level    float64
	rate     float64       // by which the level drains in a second
	at       time.Duration // when the level was computed
	isLogged bool          // the address was logged since the bucket was empty
}

// Limit is the limit of one handler. The zero value is no limit.
type Limit struct {
	Most   int // failures at once, and in each window
	Window time.Duration
}

func (f Limit) perSecond() float64 { return float64(f.Most) / f.Window.Seconds() }

// New returns a limiter that has counted nothing.
func New() *Limiter {
	start := time.Now()
	return &Limiter{
		now:     func() time.Duration { return time.Since(start) },
		seed:    maphash.MakeSeed(),
		lookups: semaphore.NewWeighted(MaxLookups),
	}
}

// Validate returns an error for a limit that the limiter cannot count.
func (f Limit) Validate() error {
	if f.Most < 1 || f.Most > maxFailures {
		return fmt.Errorf("must be from 1 to %d, got %d", maxFailures, f.Most)
	}
	if f.Window < time.Second || f.Window > maxWindow {
		return fmt.Errorf("the duration must be from 1s to %s, got %s", maxWindow, f.Window)
	}
	return nil
}

// IsLimited reports whether an address is at its limit.
func (l *Limiter) IsLimited(from Origin, by Limit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.find(from)
	return b != nil && b.wait(l.now(), by) > 0
}

// Fail counts a failed authentication. If the address is at its limit, Fail counts nothing
// and returns the time until the next failure is allowed. It logs the address once.
func (l *Limiter) Fail(from Origin, by Limit, logger *zap.Logger) time.Duration {
	wait, isToLog := l.count(from, by)
	if isToLog {
		logger.Warn("too many failed authentications from an address: wrong keys from there are answered with 429", zap.Stringer("address", from))
	}
	return wait
}

// count is Fail without the logging. It returns whether to log the address: a flood of addresses logs at
// most one in a second.
func (l *Limiter) count(from Origin, by Limit) (wait time.Duration, isToLog bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b := l.find(from)
	if b == nil {
		b = l.replace(from, now)
	}
	wait = b.wait(now, by)
	b.rate = by.perSecond()
	if b.level == 0 {
		b.isLogged = false
	}
	if wait == 0 {
		b.level++
		return 0, false
	}
	if b.isLogged {
		return wait, false
	}
	b.isLogged = true
	if l.loggedAt != 0 && now-l.loggedAt < time.Second {
		return wait, false
	}
	l.loggedAt = now
	return wait, true
}

// wait drains b and returns how long until it has room for one more failure.
func (b *bucket) wait(now time.Duration, by Limit) time.Duration {
	b.drain(now)
	most := float64(by.Most)
	over := min(b.level, most) + 1 - most // a higher limit may have left a higher level
	if over < negligible {
		return 0
	}
	wait := time.Duration(over / by.perSecond() * float64(time.Second))
	return max(time.Microsecond, wait.Round(time.Microsecond))
}

func (b *bucket) drain(now time.Duration) {
	b.level = max(0, b.level-(now-b.at).Seconds()*b.rate)
	b.at = now
}

// find returns the bucket of an address, nil if it has none. The caller holds mu.
func (l *Limiter) find(from Origin) *bucket {
	set := l.setOf(from)
	for i := range set {
		if set[i].from == from {
			return &set[i]
		}
	}
	return nil
}

// replace gives the emptiest bucket of its set to an address. The caller holds mu.
func (l *Limiter) replace(from Origin, now time.Duration) *bucket {
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

func (l *Limiter) setOf(from Origin) *[limiterWays]bucket {
	return &l.buckets[maphash.Bytes(l.seed, from[:])%limiterSets]
}

// Enter waits for a turn to look up a key of a limited address, in the order of arrival.
// The caller calls Leave afterwards. The error is that of ctx, or a Refusal after
// MaxLookupWait.
func (l *Limiter) Enter(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, MaxLookupWait)
	defer cancel()
	if l.lookups.Acquire(waiting, 1) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return Refusal(MaxLookupWait)
}

// Leave ends the turn of Enter.
func (l *Limiter) Leave() { l.lookups.Release(1) }

// ErrLimited is the cause of a Refusal.
var ErrLimited = errors.New("the address has sent too many wrong keys")

// Refusal returns the error for a wrong key from an address that is at its limit, until which the
// address may fail once more.
func Refusal(wait time.Duration) *status.Error {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	return &status.Error{
		Status: http.StatusTooManyRequests, Message: "Rate limit exceeded",
		Header: "Retry-After", Value: strconv.Itoa(seconds), Cause: ErrLimited,
	}
}
