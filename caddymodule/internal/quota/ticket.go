package quota

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Ticket is the passage of one request. Its zero value is that of a request that is not limited and not counted.
// It is not safe for concurrent use.
type Ticket struct {
	keeper   *Keeper
	caller   Caller
	at       moment
	holds    [3]held // of the key, the workspace and the preset
	number   int
	estimate amount
	shown    held // whose limits the headers tell
}

// held is a subject of a request.
type held struct {
	*subject
	bounds *bounds // nil without limits
}

// Admit decides whether a request may pass, as far as that can be told without its body. The ticket of a
// request that may pass must be ended. ctx bounds the reading of the store, which only the first request of
// a key or a workspace needs. The error is a *Error.
func (k *Keeper) Admit(ctx context.Context, t *Ticket, c Caller, now time.Time) error {
	t.keeper, t.caller = k, c
	var w *domain.WorkspaceLimits
	if c.Workspace != nil && len(c.Workspace.Budgets) > 0 {
		w = c.Workspace
	}
	if !c.isLimited() && w == nil {
		return nil
	}
	t.at = momentOf(now)
	if w != nil { // first, because a refused request counts nowhere
		s := k.hold(w.ID, OfWorkspace, w.ID, now)
		if err := t.enter(ctx, s, workspaceBounds(w, s), &t.at); err != nil {
			return err
		}
	}
	if c.isLimited() {
		s := k.hold(c.KeyID, OfKey, "", now)
		if err := t.enter(ctx, s, c.boundsOf(s), &t.at); err != nil {
			return err
		}
	}
	return nil
}

// enter lets the request through for a subject that is held. If it is refused, the ticket is as without it.
func (t *Ticket) enter(ctx context.Context, s *subject, b *bounds, m *moment) error {
	t.keeper.read(ctx, s, m)
	if s.scope != OfWorkspace && !t.shown.bounds.hasRates() {
		t.shown = held{s, b}
	}
	refused := s.checkSpent(b, m)
	if refused == nil {
		refused = s.enter(b, m)
	}
	if refused != nil {
		s.release()
		t.refuse(refused, s)
		return refused
	}
	t.holds[t.number] = held{s, b}
	t.number++
	return nil
}

// BoundsMoney reports whether a limit of costs holds for the request, and BoundsUse one of costs or tokens. The limits of a preset
// hold from Reserve on.
func (t *Ticket) BoundsMoney() bool { return t.bounds(func(b *bounds) bool { return b.boundsMoney }) }

// BoundsUse is described at BoundsMoney.
func (t *Ticket) BoundsUse() bool {
	return t.bounds(func(b *bounds) bool { return b.boundsMoney || b.boundsTokens })
}

func (t *Ticket) bounds(some func(b *bounds) bool) bool {
	return slices.ContainsFunc(t.holds[:t.number], func(h held) bool { return some(h.bounds) })
}

// IsLimited reports whether a limit holds for the request, of its key, its workspace or a preset.
func (t *Ticket) IsLimited(p Preset) bool { return t.number > 0 || p.Limits != nil }

// Estimate is what a request may use.
type Estimate struct {
	Tokens, Nanos int64
	// StatedTokens and StatedNanos are of the output alone that the request itself allows.
	StatedTokens, StatedNanos int64
}

// Reserve counts a request, whose body is known now, with the estimate of what it will use until it ends. A
// request that is refused counts nowhere, as one that states more than a whole limit. The error is a *Error.
func (t *Ticket) Reserve(ctx context.Context, p Preset, e Estimate, now time.Time) error {
	m := momentOf(now) // the body may have come over midnight
	if p.Limits != nil {
		if t.number == 0 {
			t.at = m
		}
		s := t.keeper.hold(p.ID, OfPreset, p.WorkspaceID, now)
		if err := t.enter(ctx, s, p.boundsOf(s), &m); err != nil {
			return err
		}
	}
	estimate, stated := amount{tokens: e.Tokens, nanos: e.Nanos}, amount{tokens: e.StatedTokens, nanos: e.StatedNanos}
	for i, h := range t.holds[:t.number] {
		refused := h.checkStated(h.bounds, &m, stated)
		if refused == nil {
			refused = h.reserve(h.bounds, &m, estimate)
		}
		if refused == nil {
			continue
		}
		for _, earlier := range t.holds[:i] {
			earlier.settle(estimate, amount{}, now)
		}
		t.refuse(refused, h.subject)
		return refused
	}
	t.estimate = estimate
	return nil
}

// settle replaces the estimate of a request by what it used.
func (h held) settle(estimate, used amount, now time.Time) {
	h.flightTokens.Add(-estimate.tokens)
	h.flightNanos.Add(-estimate.nanos)
	take(h.bounds.tokenRate, now, h.bounds.tokensOf(used)-h.bounds.tokensOf(estimate))
}

// refuse cancels the ticket, and tells of the refusal.
func (t *Ticket) refuse(r *Error, by *subject) {
	if r.isFirst {
		t.keeper.tell(by, r)
	}
	t.Cancel()
}

// Cancel ends a ticket whose request does not go to the gateway. It counts nowhere.
func (t *Ticket) Cancel() {
	for _, h := range t.holds[:t.number] {
		h.settle(t.estimate, amount{}, t.at.at)
		h.uncount(h.bounds, &t.at)
		take(h.bounds.requestRate, t.at.at, -1)
		h.inFlight.Add(-1)
		h.release()
	}
	t.number, t.estimate, t.keeper = 0, amount{}, nil // shown stays
}

// Used is what a request used.
type Used struct {
	Tokens int64
	Nanos  int64
	// UnknownTokens and UnknownCost tell that it may be more. The request then counts at least as its estimate.
	UnknownTokens, UnknownCost bool
	// PresetID and WorkspaceID are those of the request, empty for none.
	PresetID, WorkspaceID string
	// Answer is how many output tokens each choice has for Keeper.SeeAnswer, 0 for none.
	Answer int64
}

// End ends a ticket whose request went to the gateway. Its use counts for its key, its workspace and its preset, also if they have no
// limits: they may get some.
func (t *Ticket) End(used Used, now time.Time) {
	if t.keeper == nil {
		return
	}
	spent := amount{tokens: used.Tokens, nanos: used.Nanos}
	if used.UnknownTokens {
		spent.tokens = max(spent.tokens, t.estimate.tokens)
	}
	if used.UnknownCost {
		spent.nanos = max(spent.nanos, t.estimate.nanos)
	}
	m := momentOf(now)
	var done [3]bool
	scopes := [...]Scope{OfKey, OfWorkspace, OfPreset}
	for _, h := range t.holds[:t.number] {
		one := spent
		if h.bounds.requestsADay == none {
			one.requests = 1
		}
		h.count(one, &m) // first, so that it always counts somewhere
		h.settle(t.estimate, spent, now)
		h.inFlight.Add(-1)
		h.release()
		for i, of := range scopes {
			done[i] = done[i] || of == h.scope
		}
	}
	spent.requests = 1
	for i, id := range [...]string{t.caller.KeyID, used.WorkspaceID, used.PresetID} {
		if id != "" && !done[i] {
			s := t.keeper.hold(id, scopes[i], used.WorkspaceID, now)
			s.count(spent, &m)
			s.release()
		}
	}
	if t.keeper.ended.Load() {
		t.keeper.storeLate()
	}
	t.number, t.keeper = 0, nil
}

// SetHeaders sets the headers that tell the limits of requests and tokens, and what is left of them. They are those of the
// key if it has such limits, else those of the preset.
func (t *Ticket) SetHeaders(to http.Header, dialect domain.Dialect, now time.Time) {
	if t.shown.bounds.hasRates() {
		setHeaders(to, dialect, t.shown.subject, t.shown.bounds, now)
	}
}

func setHeaders(to http.Header, dialect domain.Dialect, s *subject, b *bounds, now time.Time) {
	for name := range to { // those of the gateway are of its own limits
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") {
			delete(to, name)
		}
	}
	m := momentOf(now)
	w := s.windowOf(daily, &m)
	for _, of := range [...]struct {
		name          string
		limit, day    int64
		left, dayLeft func() int64
		reset         func() time.Time
	}{
		{
			"requests", b.requestsAMinute, b.requestsADay,
			func() int64 { return int64(b.requestRate.TokensAt(now)) },
			func() int64 { return b.requestsADay - w.used().requests },
			func() time.Time { return now.Add(wait(b.requestRate, now, b.requestsAMinute)) },
		},
		{
			"tokens", b.tokensAMinute, b.tokensADay,
			func() int64 { return int64(b.tokenRate.TokensAt(now)) },
			func() int64 { return b.tokensADay - w.used().tokens - s.flightTokens.Load() },
			func() time.Time { return now.Add(wait(b.tokenRate, now, b.tokensAMinute)) },
		},
	} {
		var limit, left int64
		var reset time.Time
		switch {
		case of.limit != 0:
			limit, left, reset = of.limit, of.left(), of.reset()
		case of.day != none:
			limit, left, reset = of.day, of.dayLeft(), resetOf(daily, now)
		default:
			continue
		}
		limitText, leftText := strconv.FormatInt(limit, 10), strconv.FormatInt(max(left, 0), 10)
		if dialect == domain.Messages {
			to.Set("Anthropic-Ratelimit-"+of.name+"-Limit", limitText)
			to.Set("Anthropic-Ratelimit-"+of.name+"-Remaining", leftText)
			to.Set("Anthropic-Ratelimit-"+of.name+"-Reset", reset.UTC().Truncate(time.Second).Format(time.RFC3339))
			continue
		}
		to.Set("X-Ratelimit-Limit-"+of.name, limitText)
		to.Set("X-Ratelimit-Remaining-"+of.name, leftText)
		to.Set("X-Ratelimit-Reset-"+of.name, reset.Sub(now).Round(time.Millisecond).String())
	}
}

// HasHeaders reports whether SetHeaders sets any.
func (t *Ticket) HasHeaders() bool { return t.shown.bounds.hasRates() }
