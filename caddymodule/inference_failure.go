package caddymodule

import (
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// gatewayError is an error of the next handler, such as a gateway that cannot be reached.
// The client sees its status alone, because its text may name addresses within.
type gatewayError struct{ status int }

func (e *gatewayError) Error() string {
	switch e.status {
	case http.StatusBadGateway:
		return "The gateway cannot be reached"
	case http.StatusServiceUnavailable:
		return "The gateway is not available"
	case http.StatusGatewayTimeout:
		return "The gateway did not answer in time"
	}
	return http.StatusText(e.status)
}

// renderGatewayError answers a request for which next failed with err before it began an
// answer. Without this, Caddy answers with the status alone. The caller still returns err:
// Caddy then logs it, and writes no second answer.
//
// It leaves the request to the error routes of the site, if some match.
func (c *inferenceCall) renderGatewayError(err error) {
	status := refusedStatus(err)
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if c.r.Context().Err() != nil || status < http.StatusBadRequest || hasErrorRoute(c.r, err) {
		return
	}
	c.render(response{}, &gatewayError{status})
}

// hasErrorRoute reports whether error routes would answer err: those of the server that
// match the request, or those of a subroute, whether they match or not.
func hasErrorRoute(r *http.Request, err error) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil {
		return false
	}
	if server.Errors != nil && len(server.Errors.Routes) > 0 {
		failed := server.Errors.WithError(r, err)
		if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok { // which the routes match
			failed.Method, failed.RequestURI, failed.URL = original.Method, original.RequestURI, original.URL
		}
		if answersError(server.Errors.Routes, failed) {
			return true
		}
	}
	named := slices.Collect(maps.Values(server.NamedRoutes))
	return hasSubrouteErrors(server.Routes) || slices.ContainsFunc(named, func(route *caddyhttp.Route) bool {
		return hasSubrouteErrors(caddyhttp.RouteList{*route})
	})
}

// answersError reports whether a handler of routes runs for a failed request.
func answersError(routes caddyhttp.RouteList, failed *http.Request) bool {
	for _, route := range routes {
		matches, err := route.MatcherSets.AnyMatchWithError(failed)
		if err != nil {
			return true
		}
		if !matches {
			continue
		}
		for _, handler := range route.Handlers {
			if within, ok := handler.(*caddyhttp.Subroute); !ok || answersError(within.Routes, failed) {
				return true
			}
		}
		if route.Terminal {
			return false
		}
	}
	return false
}

// hasSubrouteErrors reports whether a subroute within routes has error routes of its own, as
// only JSON can say.
func hasSubrouteErrors(routes caddyhttp.RouteList) bool {
	for _, route := range routes {
		for _, handler := range route.Handlers {
			within, ok := handler.(*caddyhttp.Subroute)
			if ok && (within.Errors != nil && len(within.Errors.Routes) > 0 || hasSubrouteErrors(within.Routes)) {
				return true
			}
		}
	}
	return false
}

// beginning passes an answer on, and tells whether it began.
type beginning struct {
	caddyhttp.ResponseWriterWrapper
	begun bool
}

// WriteHeader passes a header on. Those of interim answers begin nothing.
func (b *beginning) WriteHeader(status int) {
	b.begun = b.begun || status >= 200 || status == http.StatusSwitchingProtocols
	b.ResponseWriterWrapper.WriteHeader(status)
}

// Write passes bytes of the body on.
func (b *beginning) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriterWrapper.Write(p)
}

// ReadFrom passes a body on.
func (b *beginning) ReadFrom(r io.Reader) (int64, error) {
	b.begun = true
	return b.ResponseWriterWrapper.ReadFrom(r)
}
