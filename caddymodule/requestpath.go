package caddymodule

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
)

// The rules of this file refuse requests that a gateway could read differently than this
// handler. They apply to every request, before authentication.

// checkRequest checks the method and the path of a request. It returns the normalized path,
// also with an error.
func (h *Handler) checkRequest(r *http.Request) (string, error) {
	normalized, isPlain, err := requestpath.Normalize(r.URL.Path)
	switch {
	case !requestpath.IsAllowedMethod(r):
		return normalized, errMethodNotAllowed
	case r.URL.Opaque != "": // "x:%2fv1/models" would go upstream without a leading slash
		return normalized, domain.InvalidAt("path", "must begin with a slash")
	case err != nil || isPlain:
		return normalized, err
	case requestpath.IsAmbiguous(h.BasePath, r.URL.EscapedPath()):
		return normalized, domain.InvalidAt("path", "must not have an encoded /, ? or # after a semicolon")
	case inferenceRouteOf(h.routeOf(normalized)) != nil && strings.ContainsAny(requestpath.DecodeFully(r.URL.Path), "?#"):
		// A gateway may read what follows as the query, with fields that nobody has checked.
		return normalized, domain.InvalidAt("path", "must not have an encoded ? or #")
	}
	return normalized, nil
}

var errMethodNotAllowed = &status.Error{Status: http.StatusMethodNotAllowed, Message: "Method not allowed"}

// gatewayMethods are the usual methods that the gateway gets.
const gatewayMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"

// refuse answers a request with an error of checkRequest, in the error envelope of its
// route.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, normalized string, err error) {
	c := h.newCall(w, r)
	// Dot segments may lead elsewhere from a path of the API.
	if sent, _, _ := requestpath.Normalize(strings.ReplaceAll(requestpath.DecodeFully(r.URL.Path), "..", "-")); h.isAPIPath(sent) {
		normalized = sent
	}
	route := inferenceRouteOf(h.routeOf(normalized))
	if route != nil {
		c.op.name, c.envelope = route.name, route.envelope
	}
	if errors.Is(err, errMethodNotAllowed) {
		switch {
		case route != nil:
			c.header.Set("Allow", http.MethodPost)
		case h.Health != "" && normalized == h.Health:
			c.header.Set("Allow", "GET, HEAD")
		case h.isAPIPath(normalized):
			err = c.match() // which is no success, as no operation has such a method
		default:
			c.header.Set("Allow", gatewayMethods)
		}
	}
	c.setPlaceholder(operationPlaceholder, c.op.name)
	status := c.render(response{}, err)
	switch {
	case route != nil && h.Inference != nil:
		h.metrics.CountResolution(c.op.name, "refused", c.start)
	case h.isAPIPath(normalized):
		h.metrics.CountRequest(c.op.name, status, time.Since(c.start))
	}
}
