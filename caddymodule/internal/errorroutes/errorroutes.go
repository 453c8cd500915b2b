// Package errorroutes tells whether the error routes of a site would answer an error.
package errorroutes

import (
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Answers reports whether error routes would answer err: those of the server that
// match the request, or those of a subroute, whether they match or not.
func Answers(r *http.Request, err error) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil {
		return false
	}
	if server.Errors != nil && len(server.Errors.Routes) > 0 {
		failed := server.Errors.WithError(r, err)
		if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok { // which the routes match
			failed.Method, failed.RequestURI, failed.URL = original.Method, original.RequestURI, original.URL
		}
		if anyRuns(server.Errors.Routes, failed) {
			return true
		}
	}
	named := slices.Collect(maps.Values(server.NamedRoutes))
	return hasSubrouteErrors(server.Routes) || slices.ContainsFunc(named, func(route *caddyhttp.Route) bool {
		return hasSubrouteErrors(caddyhttp.RouteList{*route})
	})
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
