// Package status has the HTTP status of each kind of domain error.
package status

import (
	"net/http"

	"github.com/caddy-presets/caddy-presets/domain"
)

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
