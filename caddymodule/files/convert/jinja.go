package convert

import (
	"regexp"
	"strings"
)

// jinjaWord is a name of Jinja, which begins with no digit.
const jinjaWord = `[\p{L}_][\p{L}\p{M}\p{Nd}_]*`

var (
	jinjaName   = regexp.MustCompile(`^` + jinjaWord + `$`)
	jinjaDotted = regexp.MustCompile(`^` + jinjaWord + `(\.` + jinjaWord + `)+$`)
	// jinjaWords look like names, and are none.
	jinjaWords = map[string]bool{
		"true": true, "false": true, "none": true, "True": true, "False": true, "None": true, "not": true, "loop": true, "self": true,
	}
)

const (
	jinjaStatement = "has {% … %}: a template has no statements"
	jinjaUnclosed  = "has {{, {% or {# without an end"
	dottedName     = "has a name with a dot: it is one name here, and clients send its value under the whole name"
)

// jinja is the syntax of Jinja as far as a template can express it: {{ name }}.
func jinja(text string) ([]segment, []finding) {
	var b builder
	for {
		at := indexJinja(text)
		if at < 0 {
			b.literal(text)
			return b.result()
		}
		b.literal(text[:at])
		tag, rest, closed := cutJinja(text[at:])
		inner := strings.Trim(tag, space)
		switch {
		case !closed:
			b.find(finding{jinjaUnclosed, true})
			b.literal(text[at:])
			return b.result()
		case text[at+1] == '%':
			b.find(finding{jinjaStatement, true})
		case text[at+1] == '#': // it is not for the model
			b.find(finding{message: "has a comment {# … #}: it is not for the model"})
		case jinjaName.MatchString(inner) && !jinjaWords[inner]:
			b.variable(inner)
		case jinjaDotted.MatchString(inner):
			b.variable(inner)
			b.find(finding{message: dottedName})
		default:
			b.find(finding{"has " + tagShown(inner) + ", which is more than a name: a template has names alone", true})
		}
		text = rest
	}
}

// indexJinja returns the index of the first {{, {% or {# of a text, -1 if there is none.
func indexJinja(text string) int {
	for at := 0; ; at++ {
		next := strings.IndexByte(text[at:], '{')
		if next < 0 || at+next+1 >= len(text) {
			return -1
		}
		at += next
		if strings.IndexByte("{%#", text[at+1]) >= 0 {
			return at
		}
	}
}

// cutJinja returns the inside of the tag that begins text, and the text behind it.
func cutJinja(text string) (inner, rest string, closed bool) {
	end := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[text[1]]
	return strings.Cut(text[2:], end)
}

// withoutComments returns text without the comments of Jinja. They may span lines, even
// those with roles.
func withoutComments(text string) (rest string, had bool) {
	var kept strings.Builder
	for {
		at := indexJinja(text)
		if at < 0 {
			kept.WriteString(text)
			return kept.String(), had
		}
		kept.WriteString(text[:at])
		_, behind, closed := cutJinja(text[at:])
		if !closed {
			kept.WriteString(text[at:])
			return kept.String(), had
		}
		if text[at+1] == '#' {
			had = true
		} else {
			kept.WriteString(text[at : len(text)-len(behind)])
		}
		text = behind
	}
}
