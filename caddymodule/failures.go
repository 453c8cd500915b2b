package caddymodule

import (
	"context"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	defaultAuthFailures      = 100
	defaultAuthFailureWindow = time.Minute

	// maxAuthFailures and maxAuthFailureWindow keep what is reckoned with below
	// far from the ends of an int64.
	maxAuthFailures      = 1_000_000
	maxAuthFailureWindow = 24 * time.Hour

	// failureSets of failureWays each are the addresses whose failures are
	// remembered, and as many keys that worked: 16,384 of both, 640 KiB of
	// memory in all, which is there from the start and never grows.
	failureSets = 4096
	failureWays = 4
)

// failures bounds how many failed authentications each client address may have.
// An address has a bucket of limit tokens, refilled at an even rate; a failure
// takes one. While it is empty no key from there is looked at, right or wrong,
// but those that have worked from there before: one client that guesses does not
// lock out the others behind its address. It is safe for concurrent use.
//
// Each address, by its hash, has a place in one set, where a new one takes the
// place of the one whose bucket is the fullest. So whoever fails most is
// forgotten last, however many addresses others come from; and a full table
// refuses nobody: what it forgets are failures. The seed keeps clients from
// choosing whose set they share.
type failures struct {
	limit  int64
	each   time.Duration // until there is one token more
	now    func() time.Duration
	logger *zap.Logger
	seed   maphash.Seed
	*worked

	mu      sync.Mutex
	buckets [failureSets][failureWays]bucket
	pending map[origin]lookups
	told    time.Duration // when an address was last told of in the log
	untold  int           // addresses that were limited since, and not told of
}

// lookups are those of keys from an address that are under way, each with a token.
type lookups struct {
	count int
	over  chan struct{} // closed when there may be a token, or none will be given back; nil if nobody waits
}

// worked holds the hashes of addresses and keys that worked together, by sets, and 0
// for nothing. Reading it takes no lock: every request does. That two pairs have one
// hash is less likely than a right guess, and would only have a key looked at.
//
// It belongs to a store and not to a configuration, so that what worked is not
// forgotten with a reload.
type worked struct {
	seed  maphash.Seed
	pairs [failureSets * failureWays]atomic.Uint64
}

func newWorked() *worked { return &worked{seed: maphash.MakeSeed()} }

// bucket is what an address has left, told by when it will be full again.
type bucket struct {
	from origin
	full time.Duration
	told bool // that it was empty, since it was full
}

// origin is where a request comes from, as far as one client is told from another:
// an IPv4 address, or the first half of an IPv6 address, of which a client has
// all. It is zero for what is neither, such as a Unix socket.
type origin [16]byte

func originOf(r *http.Request) origin {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string) // minds trusted_proxies
	if text == "" {
		text, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	text, _, _ = strings.Cut(text, "%") // a zone
	address, err := netip.ParseAddr(text)
	if err != nil {
		return origin{}
	}
	from := origin(address.As16())
	if !address.Unmap().Is4() {
		clear(from[8:])
	}
	return from
}

// String returns o as it stands in the log.
func (o origin) String() string {
	switch address := netip.AddrFrom16(o).Unmap(); {
	case o == origin{}:
		return "unknown"
	case address.Is4():
		return address.String()
	default:
		return address.String() + "/64"
	}
}

// newFailures returns failures of at most limit at once and limit in a window.
func newFailures(limit int, window time.Duration, logger *zap.Logger) *failures {
	start := time.Now()
	return &failures{
		limit: int64(limit), each: window / time.Duration(limit),
		now: func() time.Duration { return time.Since(start) }, logger: logger,
		seed: maphash.MakeSeed(), worked: newWorked(), pending: make(map[origin]lookups),
	}
}

// provisionFailures judges the settings and makes what they say.
func (h *Handler) provisionFailures() error {
	if h.AuthFailureLimit == 0 {
		h.AuthFailureLimit = defaultAuthFailures
	}
	if h.AuthFailureWindow == 0 {
		h.AuthFailureWindow = caddy.Duration(defaultAuthFailureWindow)
	}
	if err := checkAuthFailureLimit(h.AuthFailureLimit, time.Duration(h.AuthFailureWindow)); err != nil {
		return fmt.Errorf("auth_failure_limit: %w", err)
	}
	if h.AuthFailureLimit > 0 {
		h.failures = newFailures(h.AuthFailureLimit, time.Duration(h.AuthFailureWindow), h.logger)
	}
	return nil
}

// authFailuresOff is the limit that is none.
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

// take takes a token from the bucket of an address, before a key is looked up: so many
// guesses at once are no more than one after another. Where there is none it waits for
// those that are looked up now, whose tokens are given back if they are right: so many
// right keys at once are all looked up. It returns nil, and then end must be called, or
// a *limitError, or the error of ctx.
func (f *failures) take(ctx context.Context, from origin) error {
	f.mu.Lock()
	for {
		wait := f.takeNow(from)
		under := f.pending[from]
		switch {
		case wait <= 0:
			under.count++
			f.pending[from] = under
			f.mu.Unlock()
			return nil
		case under.count == 0:
			f.tell(from) // unlocks
			return &limitError{wait}
		case under.over == nil:
			under.over = make(chan struct{})
			f.pending[from] = under
		}
		f.mu.Unlock()
		select {
		case <-under.over:
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
	}
}

// end ends the look-up of a key that took a token, which it gives back unless the key
// was wrong.
func (f *failures) end(from origin, wrong bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !wrong {
		f.bucketOf(from).full -= f.each
	}
	under := f.pending[from]
	under.count--
	// Wrong keys wake nobody before the last: there is nothing for who waits.
	if under.over != nil && (!wrong || under.count == 0) {
		close(under.over)
		under.over = nil
	}
	if f.pending[from] = under; under.count == 0 {
		delete(f.pending, from)
	}
}

// takeNow takes a token. Where there is none it returns how long it takes until there
// is. mu is held.
func (f *failures) takeNow(from origin) (wait time.Duration) {
	now := f.now()
	b := f.bucketOf(from)
	if b.full <= now {
		b.full, b.told = now, false
	}
	if wait = b.full + f.each - now - time.Duration(f.limit)*f.each; wait <= 0 {
		b.full += f.each
		return 0
	}
	return wait
}

// tell tells the log of an address whose bucket is empty, if it was not told. mu is
// held, and is not any more afterwards.
func (f *failures) tell(from origin) {
	now := f.now()
	b := f.bucketOf(from)
	tell := !b.told
	b.told = true
	if tell && f.told != 0 && now-f.told < time.Second { // a flood of addresses is none of the log
		tell = false
		f.untold++
	}
	untold := f.untold
	if tell {
		f.told, f.untold = now, 0
	}
	f.mu.Unlock()
	if tell {
		f.logger.Warn("too many failed authentications from an address: only keys that have worked from there are looked at",
			zap.Stringer("address", from), zap.Int("others_since_last_told", untold))
	}
}

// bucketOf returns the bucket of an address, a new one in the place of another
// where it has none. mu is held.
func (f *failures) bucketOf(from origin) *bucket {
	set := &f.buckets[maphash.Bytes(f.seed, from[:])%failureSets]
	fullest := &set[0]
	for i := range set {
		b := &set[i]
		if b.from == from {
			return b
		}
		if b.full < fullest.full {
			fullest = b
		}
	}
	*fullest = bucket{from: from}
	return fullest
}

// hasWorked reports whether a key has worked from an address, as far as is
// remembered.
func (w *worked) hasWorked(from origin, key domain.KeyHash) bool {
	set, pair := w.setOf(from, key)
	for i := range set {
		if set[i].Load() == pair {
			return true
		}
	}
	return false
}

// remember notes that a key has worked from an address, and forget that it does
// no longer.
func (w *worked) remember(from origin, key domain.KeyHash) {
	set, pair := w.setOf(from, key)
	for i := range set {
		if set[i].CompareAndSwap(0, pair) {
			return
		}
	}
	set[pair>>1%failureWays].Store(pair) // any will do: there are more of them than clients have keys
}

func (w *worked) forget(from origin, key domain.KeyHash) {
	set, pair := w.setOf(from, key)
	for i := range set {
		set[i].CompareAndSwap(pair, 0)
	}
}

// setOf returns the set of an address and key, and what stands for them there.
func (w *worked) setOf(from origin, key domain.KeyHash) (set []atomic.Uint64, pair uint64) {
	var both [len(from) + len(key)]byte
	copy(both[copy(both[:], from[:]):], key[:])
	pair = maphash.Bytes(w.seed, both[:]) | 1 // never 0
	first := pair >> 32 % failureSets * failureWays
	return w.pairs[first : first+failureWays], pair
}

// limitError is what an address gets that has failed too often.
type limitError struct {
	wait time.Duration // until one more attempt is allowed
}

func (*limitError) Error() string { return "Rate limit exceeded" }

// retryAfter is what the header of that name says: whole seconds, at least one.
func (e *limitError) retryAfter() int {
	return max(1, int((e.wait+time.Second-1)/time.Second))
}
