// Package errorroutes tells whether the error routes of a site would answer an error.
package errorroutes

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Answers reports whether error routes of the server would answer err. Those that a subroute has only in
// JSON do not count.
func Answers(r *http.Request, err error) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil || server.Errors == nil {
		return false
	}
	failed := server.Errors.WithError(r, err)
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok { // which the routes match
		failed.Method, failed.RequestURI, failed.URL = original.Method, original.RequestURI, original.URL
	}
	return anyRuns(server.Errors.Routes, failed)
}

// anyRuns reports whether a handler of routes runs for a failed request.
func anyRuns(routes caddyhttp.RouteList, failed *http.Request) bool {
	for _, route := range routes {
		matches, err := route.MatcherSets.AnyMatchWithError(failed)
		if err != nil {
			return true
		}
		if !matches {
			continue
		}
		for _, handler := range route.Handlers {
			if within, ok := handler.(*caddyhttp.Subroute); !ok || anyRuns(within.Routes, failed) {
				return true
			}
		}
		if route.Terminal {
			return false
		}
	}
	return false
}
