// Package etag reads the entity tags in the headers of conditional requests.
package etag

import (
	"net/http"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Condition returns the condition of a request by its headers (RFC 9110, 13.1.1 and
// 13.1.2).
func Condition(header http.Header) (condition domain.Condition, err error) {
	if condition.Match, err = readTags(header, "If-Match", false); err != nil {
		return condition, err
	}
	condition.NoneMatch, err = readTags(header, "If-None-Match", true)
	return condition, err
}

// readTags reads the entity tags of a header, nil without the header. It drops weak tags
// unless weak is true.
func readTags(header http.Header, name string, weak bool) (*domain.Tags, error) {
	lines := header.Values(name)
	if lines == nil {
		return nil, nil
	}
	malformed := domain.InvalidAt(strings.ToLower(name), `must be * or entity tags such as "0123456789abcdef"`)
	text := strings.Trim(strings.Join(lines, ","), " \t")
	if text == "*" {
		return &domain.Tags{Any: true}, nil
	}
	const blank = ", \t" // lists may have empty elements (RFC 9110, 5.6.1.2)
	text = strings.TrimLeft(text, blank)
	if text == "" {
		return nil, malformed
	}
	tags := new(domain.Tags)
	for text != "" {
		opaque, isWeak := strings.CutPrefix(text, "W/")
		opaque, quoted := strings.CutPrefix(opaque, `"`)
		tag, rest, closed := strings.Cut(opaque, `"`)
		rest = strings.TrimLeft(rest, " \t")
		if !quoted || !closed || rest != "" && rest[0] != ',' {
			return nil, malformed
		}
		if !isWeak || weak {
			// Caddy's encode handler appends a hyphen and the coding to tags, and
			// clients send that back.
			tag, _, _ = strings.Cut(tag, "-")
			tags.List = append(tags.List, tag)
		}
		text = strings.TrimLeft(rest, blank)
	}
	return tags, nil
}
