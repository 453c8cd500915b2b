package caddymodule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// warnOfLateDirectives warns of directives that seem to guard the API and the console, and do not,
// because their requests end in h. Caddy sorts the directives of a site: abort, error, respond, handle
// and route come behind presets, wherever they are written.
func (h *Handler) warnOfLateDirectives(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return
	}
	lists := []caddyhttp.RouteList{server.Routes}
	for _, module := range ctx.Modules() {
		if around, ok := module.(*caddyhttp.Subroute); ok {
			lists = append(lists, around.Routes)
		}
	}
	var late []string
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
			if sets := h.reaching(route.MatcherSets, routes[at].MatcherSets); len(sets) > 0 {
				late = append(late, guardsIn(route.HandlersRaw, sets)...)
			}
		}
	}
	if slices.Sort(late); late != nil {
		h.logger.Warn("these directives do not guard the API and the console, because presets runs before them: put them into a route { … } with presets, above it",
			zap.Strings("directives", slices.Compact(late)))
	}
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

// reaching returns the sets that may match a request to the API or the console. own are the sets of h.
func (h *Handler) reaching(sets, own caddyhttp.MatcherSets) (reaching caddyhttp.MatcherSets) {
	for _, set := range sets {
		paths := pathsOf(set)
		if paths != nil && !slices.ContainsFunc(paths, h.mayBeOwn) {
			continue
		}
		if len(own) > 0 && !slices.ContainsFunc(own, func(o caddyhttp.MatcherSet) bool { return !excludes(o, set) }) {
			continue
		}
		reaching = append(reaching, set)
	}
	return reaching
}

// mayBeOwn reports whether the pattern of a path matcher may match a path of the API or the console.
func (h *Handler) mayBeOwn(pattern string) bool {
	own := []string{h.BasePath + "/presets", h.BasePath + "/workspaces"}
	if h.Console != nil {
		own = append(own, h.Console.Path)
	}
	pattern = strings.ToLower(pattern) // as Caddy does
	before, wildcard := pattern, strings.IndexAny(pattern, "*?[{\\")
	if wildcard >= 0 {
		before = pattern[:wildcard]
	}
	return slices.ContainsFunc(own, func(path string) bool {
		path = strings.ToLower(path)
		return isAtOrBelow(before, path) || wildcard >= 0 && (strings.HasPrefix(path, before) || strings.HasPrefix(before, path))
	})
}

// excludes reports whether a set has a not for all that another set matches, as the named matchers of
// a site often have.
func excludes(set, other caddyhttp.MatcherSet) bool {
	for _, matcher := range set {
		if not, ok := matcher.(*caddyhttp.MatchNot); ok {
			for _, excluded := range not.MatcherSets {
				if formOf(excluded) == formOf(other) {
					return true
				}
			}
		}
	}
	return false
}

// formOf returns the same text for sets that match the same by their settings.
func formOf(set caddyhttp.MatcherSet) string {
	forms := make([]string, 0, len(set))
	for _, matcher := range set {
		id := caddy.GetModuleID(matcher)
		if not, ok := matcher.(*caddyhttp.MatchNot); ok { // its JSON is gone
			excluded := make([]string, 0, len(not.MatcherSets))
			for _, set := range not.MatcherSets {
				excluded = append(excluded, formOf(set))
			}
			forms = append(forms, fmt.Sprintf("%s %q", id, excluded))
		} else if text, err := json.Marshal(matcher); err == nil {
			forms = append(forms, id+" "+string(text))
		}
	}
	slices.Sort(forms)
	return strings.Join(forms, "\n")
}

// loggedHeaders are the headers in which clients of AI gateways send a key. Caddy
// hides Authorization and Cookie in its logs, unless log_credentials is on.
var loggedHeaders = [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Sec-Websocket-Protocol", "Cookie"}

// warnOfLoggedKeys warns of logs that would show keys which are sent over HTTP/3.
// The guard of ownkeys, which hides them from the logs, does not see those requests.
func (h *Handler) warnOfLoggedKeys(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || !servesHTTP3(server) {
		return
	}
	shown := make(map[string]bool) // by header
	var loggers []string
	for _, name := range requestLogs(server) {
		probe := &keyProbe{credentials: server.Logs != nil && server.Logs.ShouldLogCredentials}
		ctx.Logger(logName(name)).With(zap.Inline(probe)) // With encodes and writes nothing
		for _, header := range probe.shown {
			shown[header] = true
		}
		if probe.shown != nil {
			loggers = append(loggers, name)
		}
	}
	if loggers != nil {
		h.logger.Warn("the log shows keys that clients send over HTTP/3 in these headers: delete them with a filter in the log's format, or serve no HTTP/3 (protocols h1 h2)",
			zap.Strings("headers", slices.Sorted(maps.Keys(shown))), zap.Strings("loggers", loggers))
	}
}

// servesHTTP3 reports whether a server that is being provisioned may serve HTTP/3.
func servesHTTP3(server *caddyhttp.Server) bool {
	return len(server.TLSConnPolicies) > 0 &&
		(slices.Contains(server.Protocols, "h3") || slices.Contains(slices.Concat(server.ListenProtocols...), "h3"))
}

// requestLogs returns the names of the loggers to which a server writes requests.
func requestLogs(server *caddyhttp.Server) []string {
	names := map[string]bool{"http.log.error": true}
	if server.Logs != nil {
		add := func(name string) {
			for _, log := range [...]string{"http.log.access", "http.log.error"} {
				if name != "" {
					log += "." + name
				}
				names[log] = true
			}
		}
		add(server.Logs.DefaultLoggerName)
		for _, of := range server.Logs.LoggerNames {
			for _, name := range of {
				add(name)
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// logName is a module that exists only to get the logger of this name. It is not registered.
// The documentation of Caddy's portal leaves out modules whose ID is computed.
type logName string

// CaddyModule returns module information with the logger's name as its ID.
func (n logName) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(n), New: func() caddy.Module { return n }}
}

// keyProbe is a log field that finds out in which headers the log's encoder shows a key.
type keyProbe struct {
	credentials bool // whether Caddy is told to show Authorization and Cookie
	shown       []string
}

// MarshalLogObject encodes a request that has a key in each header, outside the log entry.
// It records which keys the text shows.
func (p *keyProbe) MarshalLogObject(fields zapcore.ObjectEncoder) error {
	encoder, ok := fields.(zapcore.Encoder)
	if !ok {
		return nil // an encoder of another kind cannot be tried
	}
	const key = "a-key-of-nobody-in-"
	header := make(http.Header)
	for _, name := range loggedHeaders {
		header.Set(name, key+name+".")
	}
	text, err := encoder.Clone().EncodeEntry(zapcore.Entry{}, []zap.Field{zap.Object("request", caddyhttp.LoggableHTTPRequest{
		Request: &http.Request{Header: header}, ShouldLogCredentials: p.credentials,
	})})
	if err != nil {
		return nil //nolint:nilerror // only a trial failed
	}
	defer text.Free()
	for _, name := range loggedHeaders {
		if bytes.Contains(text.Bytes(), []byte(key+name+".")) && !slices.Contains(p.shown, name) {
			p.shown = append(p.shown, name)
		}
	}
	return nil
}
