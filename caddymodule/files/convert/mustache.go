package convert

import (
	"regexp"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// partials are texts by their names, which templates refer to.
type partials map[string]string

const (
	// maxInside bounds how deep partials may have partials in them, so that none has itself.
	maxInside = 16
	// maxPartials bounds how many partials are put into one text.
	maxPartials = 1000
	// maxExpanded bounds the texts that are put into one text, in bytes. No version can have more.
	maxExpanded = domain.MaxStoredSize
)

var partialTag = regexp.MustCompile(`\{\{\s*>\s*([^{}]*?)\s*\}\}`)

// syntax is Mustache with the texts of its partials. Line breaks around them stay.
func (p partials) syntax(text string) ([]segment, []finding) {
	if !partialTag.MatchString(text) {
		return mustache(text)
	}
	var count, size int
	whole, problem := p.expand(text, 0, &count, &size)
	if problem != "" {
		return nil, []finding{{problem, true}}
	}
	segments, found := mustache(whole)
	return segments, append(found, finding{message: "has the texts of its partials: a change of a partial no longer changes it"})
}

// expand returns a text with the texts of its partials, or why there is none. It counts the partials and their
// bytes.
func (p partials) expand(text string, depth int, count, size *int) (whole, problem string) {
	var out strings.Builder
	at := 0
	for _, m := range partialTag.FindAllStringSubmatchIndex(text, maxPartials+1) {
		partial, ok := p[text[m[2]:m[3]]]
		*count++
		switch *size += len(partial); {
		case depth == maxInside, *count > maxPartials:
			return "", "has too many partials in partials, or one that has itself"
		case !ok:
			return "", "refers to a partial that the input does not have"
		case *size > maxExpanded:
			return "", "is too large with its partials"
		}
		if partial, problem = p.expand(partial, depth+1, count, size); problem != "" {
			return "", problem
		}
		out.WriteString(text[at:m[0]] + partial)
		at = m[1]
	}
	return out.String() + text[at:], ""
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
