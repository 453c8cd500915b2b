package convert

import (
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// mustache is the syntax of Mustache as far as a template can express it. It has {{name}},
// {{{name}}} and {{&name}}, all without escaping. It also has comments and partials, and
// line breaks around them stay.
type mustache struct {
	// partials are the texts of partials by their names.
	partials map[string]string
}

func (m mustache) syntax(text string) ([]segment, []finding) {
	e := mustacheExpansion{texts: inclusion{kind: "partial", find: m.find}}
	e.add(text, nil)
	return e.result()
}

func (m mustache) find(name string) (text string, ok bool, problem string) {
	text, ok = m.partials[name]
	return text, ok, ""
}

type mustacheExpansion struct {
	builder
	texts inclusion
}

func (e *mustacheExpansion) refuse(message string) { e.find(finding{message, true}) }

// add adds the segments of a text. inside are the partials around it.
func (e *mustacheExpansion) add(text string, inside []string) {
	for {
		before, rest, found := strings.Cut(text, "{{")
		e.literal(before)
		if !found {
			return
		}
		end, start := "}}", ""
		if strings.HasPrefix(rest, "{") {
			start, end = "{", "}}}"
		}
		tag, behind, closed := strings.Cut(rest[len(start):], end)
		if !closed {
			e.refuse("has {{ without an end")
			return
		}
		e.tag(start+strings.Trim(tag, space), inside)
		text = behind
	}
}

// tag adds what a tag stands for.
func (e *mustacheExpansion) tag(tag string, inside []string) {
	kind, name := byte(0), tag
	if tag != "" && strings.IndexByte("{&>!#^/=", tag[0]) >= 0 {
		kind, name = tag[0], strings.Trim(tag[1:], space)
	}
	switch kind {
	case '!':
		e.find(finding{message: "has a comment {{! … }}: it is not for the model"})
	case '#', '^', '/':
		e.refuse("has a section {{#…}} or {{^…}}: a template has no conditions and no loops")
	case '=':
		e.refuse("changes the delimiters {{ and }}")
	case '>':
		e.partial(name, inside)
	default:
		whole, rest := domain.CutVariableName(name)
		switch {
		case whole == "" || rest != "":
			e.refuse("has " + tagShown(name) + ", which cannot be a variable here")
			return
		case strings.Contains(name, "."):
			e.find(finding{message: dottedName})
		}
		e.variable(name)
	}
}

func (e *mustacheExpansion) partial(name string, inside []string) {
	text, problem := e.texts.put(name, inside)
	if problem != "" {
		e.refuse(problem)
		return
	}
	e.find(finding{message: "has the texts of its partials: a change of a partial no longer changes it"})
	e.add(text, append(slices.Clone(inside), name))
}
