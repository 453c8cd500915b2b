package quota

import (
	"context"
	"net/http"
	"strconv"
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
		if err := t.enter(ctx, s, workspaceBounds(w, s)); err != nil {
			return err
		}
	}
	if c.isLimited() {
		s := k.hold(c.KeyID, OfKey, "", now)
		if err := t.enter(ctx, s, c.boundsOf(s)); err != nil {
			return err
		}
	}
	return nil
}

// enter lets the request through for a subject that is held. If it is refused, the ticket is as without it.
func (t *Ticket) enter(ctx context.Context, s *subject, b *bounds) error {
	t.keeper.read(ctx, s, &t.at)
	if s.scope != OfWorkspace && !t.shown.bounds.hasRates() {
		t.shown = held{s, b}
	}
	refused := s.checkSpent(b, &t.at, amount{})
	if refused == nil {
		refused = s.enter(b, &t.at)
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

// BoundsMoney reports whether the request's estimate needs its cost, and BoundsTokens whether it needs tokens. The
// limits of a preset are known with the preset.
func (t *Ticket) BoundsMoney(p Preset) bool {
	for _, h := range t.holds[:t.number] {
		if h.bounds.boundsMoney {
			return true
		}
	}
	return p.Limits != nil && p.Limits.CostPerDay > 0
}

// IsLimited reports whether a limit holds for the request, of its key, its workspace or a preset.
func (t *Ticket) IsLimited(p Preset) bool { return t.number > 0 || p.Limits != nil }

// Reserve counts a request, whose body is known now, with the estimate of what it will use until it ends. A
// request that is refused counts nowhere. The error is a *Error.
func (t *Ticket) Reserve(ctx context.Context, p Preset, tokens, nanos int64) error {
	if p.Limits != nil {
		if t.number == 0 {
			t.at = momentOf(time.Now())
		}
		s := t.keeper.hold(p.ID, OfPreset, p.WorkspaceID, t.at.at)
		if err := t.enter(ctx, s, p.boundsOf(s)); err != nil {
			return err
		}
	}
	t.estimate = amount{tokens: tokens, nanos: nanos}
	for i, h := range t.holds[:t.number] {
		refused := h.reserve(h.bounds, &t.at, t.estimate)
		if refused == nil {
			continue
		}
		for _, earlier := range t.holds[:i] {
			earlier.settle(t.estimate, amount{}, t.at.at)
		}
		t.estimate = amount{}
		t.refuse(refused, h.subject)
		return refused
	}
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
	if r.first {
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
	// Unknown tells that the estimate stands for both. NoCost tells that it does so for the cost.
	Unknown, NoCost bool
	// PresetID and WorkspaceID are those of the request, empty for none.
	PresetID, WorkspaceID string
}

// End ends a ticket whose request went to the gateway. Its use counts for its key, its workspace and its preset, also if they have no
// limits: they may get some.
func (t *Ticket) End(used Used, now time.Time) {
	if t.keeper == nil {
		return
	}
	spent := amount{tokens: used.Tokens, nanos: used.Nanos}
	if used.Unknown {
		spent.tokens = t.estimate.tokens
	}
	if used.Unknown || used.NoCost {
		spent.nanos = t.estimate.nanos
	}
	m := momentOf(now)
	var done [3]bool
	scopes := [...]Scope{OfKey, OfWorkspace, OfPreset}
	for _, h := range t.holds[:t.number] {
		h.settle(t.estimate, spent, now)
		one := spent
		if h.bounds.requestsADay == none {
			one.requests = 1
		}
		h.count(one, &m)
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

// LacksCost reports whether a limit of costs holds for a request whose estimate has none.
func (t *Ticket) LacksCost() bool { return t.BoundsMoney(Preset{}) && t.estimate.nanos == 0 }

// EstimatedTokens are those of Reserve.
func (t *Ticket) EstimatedTokens() int64 { return t.estimate.tokens }
