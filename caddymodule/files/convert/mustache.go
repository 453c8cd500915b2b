package convert

import (
	"regexp"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// partials are texts by their names, which templates refer to.
type partials map[string]string

var partialTag = regexp.MustCompile(`\{\{\s*>\s*([^{}]*?)\s*\}\}`)

// syntax is Mustache with the texts of its partials. Line breaks around them stay.
func (p partials) syntax() syntax {
	find := func(name string) (text string, ok bool, problem string) {
		text, ok = p[name]
		return text, ok, ""
	}
	return inclusion{kind: "partial", reference: partialTag, find: find}.included(mustache,
		finding{message: "has the texts of its partials: a change of a partial no longer changes it"})
}

// mustache is the syntax of Mustache as far as a template can express it. It has {{name}},
// {{{name}}} and {{&name}}, all without escaping, and comments.
func mustache(text string) ([]segment, []finding) {
	var b builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.literal(before)
		if !found {
			return b.result()
		}
		end := "}}"
		if strings.HasPrefix(rest, "{") {
			end = "}}}"
		}
		tag, behind, closed := strings.Cut(rest, end)
		if !closed {
			b.find(finding{"has {{ without an end", true})
			return b.result()
		}
		b.mustacheTag(strings.Trim(tag, space))
		text = behind
	}
}

// mustacheTag adds what a tag stands for.
func (b *builder) mustacheTag(tag string) {
	kind, name := byte(0), tag
	if tag != "" && strings.IndexByte("{&!#^/=", tag[0]) >= 0 {
		kind, name = tag[0], strings.Trim(tag[1:], space)
	}
	switch kind {
	case '!':
		b.find(finding{message: "has a comment {{! … }}: it is not for the model"})
	case '#', '^', '/':
		b.find(finding{"has a section {{#…}} or {{^…}}: a template has no conditions and no loops", true})
	case '=':
		b.find(finding{"changes the delimiters {{ and }}", true})
	default:
		if whole, rest := domain.CutVariableName(name); whole == "" || rest != "" {
			b.find(finding{"has " + tagShown(name) + ", which cannot be a variable here", true})
			return
		}
		if strings.Contains(name, ".") {
			b.find(finding{message: dottedName})
		}
		b.variable(name)
	}
}
