package caddymodule

import (
	"net/url"
	"strings"
)

// maxSegments is how many segments a path of the admin endpoint may have.
const maxSegments = 4

// pathSegments appends the decoded segments of an escaped path to room. It returns
// none where they match nothing: one is empty, or they are more than maxSegments.
func pathSegments(path string, room []string) []string {
	// Split before unescaping: an escaped slash is part of a slug or id.
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		got, err := url.PathUnescape(segment)
		if err != nil || got == "" || len(room) == maxSegments {
			return nil
		}
		room = append(room, got)
	}
	return room
}

// matchPath reports whether segments match the path of a route table, and appends
// those that are variable to params.
func matchPath(path string, segments, params []string) ([]string, bool) {
	for i, got := range segments {
		want, rest, more := strings.Cut(path, "/")
		switch {
		case more != (i < len(segments)-1):
			return nil, false
		case want == "{}":
			params = append(params, got)
		case want != got:
			return nil, false
		}
		path = rest
	}
	return params, len(segments) > 0
}
