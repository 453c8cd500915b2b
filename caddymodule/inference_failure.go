package caddymodule

import (
	"cmp"
	"net/http"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/errorroutes"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
)

// renderGatewayError answers a request for which next failed with err before it began an
// answer. Without this, Caddy answers with the status alone. The caller still returns err:
// Caddy then logs it, and writes no second answer.
//
// It leaves the request to the error routes of the site, if some match.
func (c *inferenceCall) renderGatewayError(err error) {
	code := cmp.Or(refusedStatus(err), http.StatusInternalServerError)
	if c.r.Context().Err() != nil || code < http.StatusBadRequest || errorroutes.Answers(c.r, err) {
		return
	}
	c.render(response{}, status.OfGateway(code))
}
