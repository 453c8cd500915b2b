// Package sitecheck looks at the site around a handler that is being provisioned, for what its
// operator may not expect.
package sitecheck

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// LateDirectives returns the directives that seem to guard some paths and what is below them, and do
// not, because their requests end in the handler of ctx. Caddy sorts the directives of a site: abort,
// error, respond, handle and route come behind presets, wherever they are written.
func LateDirectives(ctx caddy.Context, server *caddyhttp.Server, paths []string) (late []string) {
	lists := []caddyhttp.RouteList{server.Routes}
	for _, module := range ctx.Modules() {
		if around, ok := module.(*caddyhttp.Subroute); ok {
			lists = append(lists, around.Routes)
		}
	}
	for _, routes := range slices.Backward(lists) {
		// Handlers are provisioned in order, and leave no JSON.
		at := slices.IndexFunc(routes, func(r caddyhttp.Route) bool { return r.HandlersRaw != nil })
		if at < 0 || routes[at].Terminal {
			break // nothing behind it is for the same requests
		}
		for _, route := range routes[at+1:] {
			if route.Group != "" && route.Group == routes[at].Group {
				continue // one of both gets a request
			}
			if sets := reaching(paths, route.MatcherSets, routes[at].MatcherSets); len(sets) > 0 {
				late = append(late, guardsIn(route.HandlersRaw, sets)...)
			}
		}
	}
	slices.Sort(late)
	return slices.Compact(late)
}

// guardsIn returns the directives that made handlers which may be there to refuse requests. sets are
// the matchers of their route.
func guardsIn(handlers []json.RawMessage, sets caddyhttp.MatcherSets) (names []string) {
	for _, raw := range handlers {
		var handler struct {
			Handler        string
			Abort          bool
			Routes         []caddyhttp.Route
			HandleResponse json.RawMessage `json:"handle_response"`
		}
		if json.Unmarshal(raw, &handler) != nil {
			continue
		}
		switch handler.Handler {
		case "static_response":
			if handler.Abort {
				names = append(names, "abort")
			} else {
				names = append(names, "respond")
			}
		case "error":
			names = append(names, "error")
		case "authentication":
			names = append(names, "basic_auth")
		case "reverse_proxy":
			if handler.HandleResponse != nil {
				names = append(names, "forward_auth")
			}
		case "subroute":
			// A block for some paths leads them elsewhere, unless something in it refuses.
			refuses := slices.ContainsFunc(handler.Routes, func(r caddyhttp.Route) bool { return guardsIn(r.HandlersRaw, nil) != nil })
			if refuses || !slices.ContainsFunc(sets, isPathAlone) {
				names = append(names, "handle or route")
			}
		}
	}
	return names
}

// isPathAlone reports whether a set matches by the path, and by nothing else.
func isPathAlone(set caddyhttp.MatcherSet) bool {
	return len(set) == 1 && pathsOf(set) != nil
}

// pathsOf returns the paths that a set matches, or nil for all.
func pathsOf(set caddyhttp.MatcherSet) caddyhttp.MatchPath {
	for _, matcher := range set {
		if paths, ok := matcher.(*caddyhttp.MatchPath); ok {
			return *paths
		}
	}
	return nil
}

func hasNot(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(matcher any) bool { _, isNot := matcher.(*caddyhttp.MatchNot); return isNot })
}

// reaching returns the sets that may match a request to one of some paths or below it. There are none if own,
// which it also matches, leaves requests to others.
func reaching(paths []string, sets, own caddyhttp.MatcherSets) (reaching caddyhttp.MatcherSets) {
	if slices.ContainsFunc(own, hasNot) { // for what others get
		return nil
	}
	for _, set := range sets {
		patterns := pathsOf(set)
		if patterns != nil && !slices.ContainsFunc(patterns, func(pattern string) bool { return mayMatch(pattern, paths) }) {
			continue
		}
		reaching = append(reaching, set)
	}
	return reaching
}

// mayMatch reports whether the pattern of a path matcher may match one of some paths, or below it.
func mayMatch(pattern string, paths []string) bool {
	pattern = strings.ToLower(pattern) // as Caddy does
	before, wildcard := pattern, strings.IndexAny(pattern, "*?[{\\")
	if wildcard >= 0 {
		before = pattern[:wildcard]
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		path = strings.ToLower(path)
		return before == path || strings.HasPrefix(before, path+"/") || wildcard >= 0 && (strings.HasPrefix(path, before) || strings.HasPrefix(before, path))
	})
}
