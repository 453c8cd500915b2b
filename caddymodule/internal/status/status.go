// Package status has the errors of HTTP, and the HTTP status of each kind of domain error.
package status

import (
	"net/http"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// RetryAfter is when to ask again, in seconds, if the store is unavailable or the memory for
// bodies is taken. A store may need longer.
const RetryAfter = "5"

// Of returns the HTTP status for the kind of an error (specification, "Errors").
func Of(kind domain.Kind) int { return byKind[kind] }

var byKind = map[domain.Kind]int{
	domain.Internal:        http.StatusInternalServerError,
	domain.Invalid:         http.StatusBadRequest,
	domain.Unauthenticated: http.StatusUnauthorized,
	domain.Forbidden:       http.StatusForbidden,
	domain.NotFound:        http.StatusNotFound,
	domain.Conflict:        http.StatusConflict,

	domain.PreconditionFailed: http.StatusPreconditionFailed,
	domain.Unprocessable:      http.StatusUnprocessableEntity,
	domain.Unavailable:        http.StatusServiceUnavailable,
}

// Error is a failure of HTTP itself, outside of the domain. Its message is for the client. It is not
// logged.
type Error struct {
	Status  int
	Message string
	// Spending is for a limit of costs, nil for none.
	Spending *envelope.Spending
	// Header and Value are a header of the response, empty for none.
	Header, Value string
	// Cause is what the error is to the program, nil for nothing else.
	Cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Invalid returns the domain's error for a body that breaks its schema.
func Invalid(broken *schema.Error) *domain.Error {
	issues := make([]domain.Issue, len(broken.Violations))
	for i, v := range broken.Violations {
		issues[i] = domain.Issue(v)
	}
	return domain.InvalidIssues(issues...)
}

// OfGateway returns the error for a failure of the next handler, such as a gateway that cannot be
// reached. The client sees its status alone, because its text may name addresses within.
func OfGateway(code int) *Error {
	message := http.StatusText(code)
	switch code {
	case http.StatusBadGateway:
		message = "The gateway cannot be reached"
	case http.StatusServiceUnavailable:
		message = "The gateway is not available"
	case http.StatusGatewayTimeout:
		message = "The gateway did not answer in time"
	}
	return &Error{Status: code, Message: message}
}
