package quota

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Scope says what a limit is of.
type Scope string

// The scopes of limits.
const (
	OfKey       Scope = "key"
	OfWorkspace Scope = "workspace"
	OfPreset    Scope = "preset"
)

// subject is a key, a workspace or a preset whose requests are summed. Requests of different subjects
// share no lock, and those of one only that of its rates.
type subject struct {
	id        string
	scope     Scope
	workspace string // the id of the workspace of a preset

	users   atomic.Int64 // requests in flight that hold it, far below zero once it is forgotten
	lastUse atomic.Int64 // in seconds since 1970

	inFlight     atomic.Int64 // requests that were let through
	flightTokens atomic.Int64 // their estimates
	flightNanos  atomic.Int64
	windows      [intervals]atomic.Pointer[[]*window]

	bounds     atomic.Pointer[bounds] // nil without limits
	isKept     atomic.Bool            // the windows have what the store has
	isInMemory atomic.Bool            // the store has no place for it
	reading    sync.Mutex             // held to read the store for the first time
	keeping    sync.Mutex             // held to change window.known
}

// none is no limit in a bounds.
const none = math.MaxInt64

// bounds are the limits of a subject.
type bounds struct {
	source any // what they are made of

	requestRate, tokenRate         *bucket // of a minute, nil for none
	requestsADay, tokensADay       int64
	concurrent                     int64
	nanos                          [intervals]int64
	boundsMoney, boundsTokens      bool
	requestsAMinute, tokensAMinute int64
}

// newBounds returns the bounds of limits. spending has a limit in US dollars for each interval, negative
// for none. Rates go on with what earlier has counted, which may be nil.
func newBounds(source any, earlier *bounds, l domain.Limits, spending [intervals]float64) *bounds {
	b := &bounds{
		source: source, requestsADay: orNone(l.RequestsPerDay), tokensADay: orNone(l.TokensPerDay), concurrent: orNone(l.Concurrent),
		requestsAMinute: l.RequestsPerMinute, tokensAMinute: l.TokensPerMinute,
	}
	var requests, tokens *bucket
	if earlier != nil {
		requests, tokens = earlier.requestRate, earlier.tokenRate
	}
	b.requestRate, b.tokenRate = rateOf(requests, l.RequestsPerMinute), rateOf(tokens, l.TokensPerMinute)
	b.boundsTokens = b.tokenRate != nil || b.tokensADay != none
	for i, usd := range spending {
		b.nanos[i] = none
		if usd >= 0 {
			b.nanos[i], b.boundsMoney = nanosOf(usd), true
		}
	}
	return b
}

// hasRates reports whether requests or tokens are limited.
func (b *bounds) hasRates() bool {
	return b != nil && (b.requestRate != nil || b.requestsADay != none || b.boundsTokens)
}

func orNone(limit int64) int64 {
	if limit == 0 {
		return none
	}
	return limit
}

// mostDebt is how many minutes of a rate one request can take.
const mostDebt = 16

// tokensOf returns how many of a request's tokens count against the rate.
func (b *bounds) tokensOf(a amount) int64 { return min(a.tokens, mostDebt*b.tokensAMinute) }

// nanosOf returns an amount in billionths of a US dollar.
func nanosOf(usd float64) int64 { return int64(math.Round(min(max(usd, 0)*1e9, full))) }

func usdOf(nanos int64) float64 { return float64(nanos) / 1e9 }

// limits returns the bounds of a subject, which make makes if source is not that of the last ones.
// Source is comparable.
func (s *subject) limits(source any, make func(earlier *bounds) *bounds) *bounds {
	for {
		b := s.bounds.Load()
		if b != nil && b.source == source {
			return b
		}
		if made := make(b); s.bounds.CompareAndSwap(b, made) {
			return made
		}
	}
}

// checkSpent refuses a request if a window is used up, or may be by what is in flight.
func (s *subject) checkSpent(b *bounds, m *moment) *Error {
	tokens := s.flightTokens.Load()
	refused := s.checkCost(b, m, s.flightNanos.Load())
	if refused == nil {
		refused = s.checkTokens(b, m, tokens)
	}
	if refused == nil && b.tokenRate != nil && b.tokenRate.TokensAt(m.at) < 1 {
		refused = s.refuseTokens(b, m, 1, tokens)
	}
	return refused
}

// checkCost refuses a request if a window is used up, or may be by what others have in flight.
func (s *subject) checkCost(b *bounds, m *moment, flight int64) (refused *Error) {
	if !b.boundsMoney {
		return nil
	}
	for i := intervals - 1; i >= 0; i-- { // the broadest first
		limit := b.nanos[i]
		if limit == none {
			continue
		}
		spent := s.windowOf(i, m).used().nanos
		switch {
		case spent >= limit:
			return s.refuse(Cost, i, m, func(r *Error) { r.LimitUSD, r.SpendUSD = usdOf(limit), usdOf(spent) })
		case spent+flight >= limit && refused == nil:
			refused = &Error{Scope: s.scope, Kind: Cost, Interval: domain.Intervals[i], InFlight: true, RetryAfter: time.Second}
		}
	}
	return refused
}

// checkTokens is checkCost for the tokens of a day.
func (s *subject) checkTokens(b *bounds, m *moment, flight int64) *Error {
	if b.tokensADay == none {
		return nil
	}
	used := s.windowOf(daily, m).used().tokens
	switch {
	case used >= b.tokensADay:
		return s.refuse(TokensPerDay, daily, m, func(r *Error) { r.Limit = b.tokensADay })
	case used+flight >= b.tokensADay:
		return &Error{Scope: s.scope, Kind: TokensPerDay, Interval: domain.Daily, Limit: b.tokensADay, InFlight: true, RetryAfter: time.Second}
	}
	return nil
}

// checkStated refuses a request that states more than a whole limit. It could use up what all requests share.
func (s *subject) checkStated(b *bounds, m *moment, stated amount) *Error {
	for i := intervals - 1; i >= 0; i-- { // the broadest first
		if limit := b.nanos[i]; stated.nanos > limit {
			return &Error{
				Scope: s.scope, Kind: Cost, Interval: domain.Intervals[i], TooMuch: true, ResetsAt: resetOf(i, m.at),
				LimitUSD: usdOf(limit), SpendUSD: usdOf(s.windowOf(i, m).used().nanos),
			}
		}
	}
	if stated.tokens > b.tokensADay {
		return &Error{Scope: s.scope, Kind: TokensPerDay, Interval: domain.Daily, Limit: b.tokensADay, TooMuch: true, RetryAfter: resetOf(daily, m.at).Sub(m.at)}
	}
	return nil
}

// refuseTokens returns the refusal of a rate of tokens that does not have n, of which others have some in flight.
func (s *subject) refuseTokens(b *bounds, m *moment, n, flight int64) *Error {
	r := &Error{Scope: s.scope, Kind: TokensPerMinute, Limit: b.tokensAMinute, RetryAfter: wait(b.tokenRate, m.at, n)}
	if b.tokenRate.TokensAt(m.at)+float64(flight) >= float64(n) {
		r.InFlight, r.RetryAfter = true, time.Second
	}
	return r
}

// refuse returns the refusal of a window that is used up.
func (s *subject) refuse(kind Kind, i int, m *moment, with func(*Error)) *Error {
	r := &Error{Scope: s.scope, Kind: kind, Interval: domain.Intervals[i], ResetsAt: resetOf(i, m.at)}
	if !r.ResetsAt.IsZero() {
		r.RetryAfter = r.ResetsAt.Sub(m.at)
	}
	with(r)
	r.window = m.windows[i]
	r.told = max(r.Limit, nanosOf(r.LimitUSD)) + 1 // a limit may be zero
	r.isFirst = raise(&s.windowOf(i, m).told[slices.Index(toldKinds[:], kind)], r.told)
	return r
}

// enter counts a request that is let through, unless a limit of requests refuses it.
func (s *subject) enter(b *bounds, m *moment) *Error {
	if n := s.inFlight.Add(1); n > b.concurrent {
		s.inFlight.Add(-1)
		return &Error{Scope: s.scope, Kind: Concurrent, Limit: b.concurrent, RetryAfter: time.Second}
	}
	if b.requestsADay != none {
		w := s.windowOf(daily, m)
		if w.total.requests.Add(1) > b.requestsADay {
			w.total.requests.Add(-1)
			s.inFlight.Add(-1)
			return s.refuse(RequestsPerDay, daily, m, func(r *Error) { r.Limit = b.requestsADay })
		}
	}
	if b.requestRate != nil && !b.requestRate.AllowN(m.at, 1) {
		s.uncount(b, m)
		s.inFlight.Add(-1)
		return &Error{Scope: s.scope, Kind: RequestsPerMinute, Limit: b.requestsAMinute, RetryAfter: wait(b.requestRate, m.at, 1)}
	}
	return nil
}

// uncount takes back that a request was counted in the day.
func (s *subject) uncount(b *bounds, m *moment) {
	if b.requestsADay != none {
		s.windowOf(daily, m).total.requests.Add(-1)
	}
}

// reserve adds the estimate of a request to what is in flight, unless a window is used up, or may be by what was added
// before. Nobody adds tokens whose cost is refused, so of several that do not fit together one always passes.
func (s *subject) reserve(b *bounds, m *moment, estimate amount) *Error {
	if refused := s.checkCost(b, m, s.flightNanos.Add(estimate.nanos)-estimate.nanos); refused != nil {
		s.flightNanos.Add(-estimate.nanos)
		return refused
	}
	flight := s.flightTokens.Add(estimate.tokens) - estimate.tokens
	refused := s.checkTokens(b, m, flight)
	if refused == nil && b.tokenRate != nil && estimate.tokens > 0 {
		first := min(estimate.tokens, int64(b.tokenRate.Burst()))
		if b.tokenRate.AllowN(m.at, int(first)) {
			take(b.tokenRate, m.at, b.tokensOf(estimate)-first)
		} else {
			refused = s.refuseTokens(b, m, first, flight)
		}
	}
	if refused != nil {
		s.flightTokens.Add(-estimate.tokens)
		s.flightNanos.Add(-estimate.nanos)
	}
	return refused
}

// count adds what a request used to the windows.
func (s *subject) count(a amount, m *moment) {
	s.windowOf(daily, m).total.add(a)
	if s.scope == OfPreset {
		return // whose limits are of a day
	}
	for i := weekly; i < intervals; i++ {
		s.windowOf(i, m).total.add(amount{nanos: a.nanos})
	}
}

// isNear reports whether four fifths of a limit are used, or this node has used an eighth of what was left since it last told the
// others. The nodes of a cluster tell each other more often then.
func (s *subject) isNear(m *moment) bool {
	b := s.bounds.Load()
	if b == nil {
		return false
	}
	isNear := func(known, used, limit int64) bool {
		return limit != none && (used >= limit-limit/5 || used-known >= (limit-known)/8)
	}
	for i, limit := range b.nanos {
		if w := s.windowOf(i, m); isNear(w.known.nanos.Load(), w.total.nanos.Load()+s.flightNanos.Load(), limit) {
			return true
		}
	}
	day := s.windowOf(daily, m)
	return isNear(day.known.requests.Load(), day.total.requests.Load(), b.requestsADay) ||
		isNear(day.known.tokens.Load(), day.total.tokens.Load()+s.flightTokens.Load(), b.tokensADay) ||
		b.requestRate != nil && b.requestRate.TokensAt(m.at) < float64(b.requestsAMinute)/5 ||
		b.tokenRate != nil && b.tokenRate.TokensAt(m.at) < float64(b.tokensAMinute)/5
}

// hasPending reports whether something is to be stored.
func (s *subject) hasPending() bool {
	for i := range s.windows {
		if slices.ContainsFunc(s.windowsOf(i), func(w *window) bool { return !w.pending().isZero() }) {
			return true
		}
	}
	return false
}

// isForgettable reports whether a subject that is made anew would let through what s does: the buckets of
// its rates are full, and the store has what was used in its windows. What counts in memory alone has
// limits of a day only.
func (s *subject) isForgettable(m *moment) bool {
	if b := s.bounds.Load(); b != nil {
		for _, l := range [...]*bucket{b.requestRate, b.tokenRate} {
			if l != nil && l.TokensAt(m.at) < float64(l.Burst()) {
				return false
			}
		}
	}
	isOpen := func(w *window) bool { return w.number >= m.windows[daily] }
	return !s.hasPending() && (!s.isInMemory.Load() || !slices.ContainsFunc(s.windowsOf(daily), isOpen))
}
