package quota

import (
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Kind says what a limit counts.
type Kind string

// The kinds of limits.
const (
	Cost              Kind = "cost"
	RequestsPerMinute Kind = "requests_per_minute"
	TokensPerMinute   Kind = "tokens_per_minute" //nolint:gosec // no credential
	RequestsPerDay    Kind = "requests_per_day"
	TokensPerDay      Kind = "tokens_per_day" //nolint:gosec // no credential
	Concurrent        Kind = "concurrent"
)

// Kinds are all kinds.
var Kinds = []Kind{Cost, RequestsPerMinute, TokensPerMinute, RequestsPerDay, TokensPerDay, Concurrent}

// Error is the refusal for a request that a limit does not let through.
type Error struct {
	Scope Scope
	Kind  Kind
	// Interval is that of the window that is used up, empty for a rate and for Concurrent.
	Interval domain.Interval
	// InFlight tells that the window is not used up, but those in flight may use the rest.
	InFlight bool
	// TooMuch tells that the output which the request allows is more than the whole limit.
	TooMuch bool
	// LimitUSD and SpendUSD are for Cost.
	LimitUSD, SpendUSD float64
	// Limit is for the other kinds.
	Limit int64
	// ResetsAt is the end of the window, zero if there is none.
	ResetsAt time.Time
	// RetryAfter is when a request may pass, zero if nobody can tell.
	RetryAfter time.Duration

	// A limit of a window whose event is told has what window.told has.
	window, told int64
	isFirst      bool // as far as this node knows
}

// toldKinds are the kinds of limits of windows.
var toldKinds = [...]Kind{Cost, RequestsPerDay, TokensPerDay}

// Error returns the message for the client. For costs, it is that of OpenRouter.
func (r *Error) Error() string {
	if r.TooMuch {
		return r.limit() + ": the output that this request allows, its max_tokens times n, is more than the whole limit"
	}
	return r.limit()
}

// limit returns the message without what is special about the request.
func (r *Error) limit() string {
	switch {
	case r.InFlight && r.Kind == Cost:
		return fmt.Sprintf("Requests in flight may spend what is left of the %s limit of this %s: try again when they have ended", r.Interval, r.Scope)
	case r.InFlight:
		return fmt.Sprintf("Requests in flight may use what is left of %d %s for this %s: try again when they have ended", r.Limit, rateNames[r.Kind], r.Scope)
	case r.Kind != Cost:
		return fmt.Sprintf("Rate limit exceeded: %d %s for this %s", r.Limit, rateNames[r.Kind], r.Scope)
	}
	interval := string(r.Interval)
	switch r.Scope {
	case OfKey:
		if r.Interval == domain.Lifetime {
			interval = "total"
		}
		return fmt.Sprintf("Key limit exceeded (%s limit)", interval)
	case OfWorkspace:
		return fmt.Sprintf("Workspace %s budget of $%s exceeded", interval, strconv.FormatFloat(r.LimitUSD, 'f', -1, 64))
	default:
		return fmt.Sprintf("Preset %s limit of $%s exceeded", interval, strconv.FormatFloat(r.LimitUSD, 'f', -1, 64))
	}
}

var rateNames = map[Kind]string{ //nolint:gosec // no credentials
	RequestsPerMinute: "requests per minute", TokensPerMinute: "tokens per minute",
	RequestsPerDay: "requests per day", TokensPerDay: "tokens per day", Concurrent: "concurrent requests",
}
