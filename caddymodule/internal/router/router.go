// Package router finds the operation that a request asks for.
package router

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Router has operations by their methods and paths. Its zero value has none. Find is safe for
// concurrent use once all are added.
type Router[Op any] struct{ routes []route[Op] }

type route[Op any] struct {
	method   string
	segments []string
	op       Op
}

// Add adds an operation. path begins with a slash. A segment {name} of it stands for any segment
// that is not empty, and all others match as they are. A GET is a HEAD, too. A request that two
// operations match goes to the one that was added first.
func (t *Router[Op]) Add(method, path string, op Op) {
	t.routes = append(t.routes, route[Op]{method, split(path), op})
}

// Match is what a request found.
type Match[Op any] struct {
	// Op is the operation, nil for none.
	Op *Op
	// Allow names the methods of the path if Op is nil, as a header Allow does. It is empty for
	// an unknown path.
	Allow string

	ofRoute, segments []string
}

// Value returns the segment that a variable stands for, decoded, and "" for an unknown variable.
func (m *Match[Op]) Value(name string) string {
	for i, segment := range m.ofRoute {
		if variable, ok := variable(segment); ok && variable == name {
			return m.segments[i]
		}
	}
	return ""
}

// Find returns the operation of a request.
func (t *Router[Op]) Find(r *http.Request) (m Match[Op]) {
	m.segments = split(r.URL.Path)
	if r.URL.RawPath != "" { // a segment may hold an escaped slash
		m.segments = split(r.URL.EscapedPath())
		for i, segment := range m.segments {
			m.segments[i], _ = url.PathUnescape(segment) // EscapedPath is valid
		}
	}
	var methods []string
	for i := range t.routes {
		rt := &t.routes[i]
		if !slices.EqualFunc(rt.segments, m.segments, matches) {
			continue
		}
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead {
			m.Op, m.ofRoute = &rt.op, rt.segments
			return m
		}
		if methods = append(methods, rt.method); rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	m.Allow = strings.Join(slices.Compact(methods), ", ")
	return m
}

func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

func matches(ofRoute, segment string) bool {
	if _, isVariable := variable(ofRoute); isVariable {
		return segment != ""
	}
	return segment == ofRoute
}

func variable(segment string) (name string, ok bool) {
	if !strings.HasPrefix(segment, "{") {
		return "", false
	}
	return segment[1 : len(segment)-1], true
}
