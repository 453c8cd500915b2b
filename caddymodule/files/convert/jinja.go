package convert

import (
	"regexp"
	"strings"
)

// jinjaWord is a name of Jinja, which begins with no digit.
const jinjaWord = `[\p{L}_][\p{L}\p{M}\p{Nd}_]*`

var (
	jinjaName    = regexp.MustCompile(`^` + jinjaWord + `$`)
	jinjaDotted  = regexp.MustCompile(`^` + jinjaWord + `(\.` + jinjaWord + `)+$`)
	jinjaComment = regexp.MustCompile(`(?s)\{#.*?#\}`)
	// jinjaWords look like names, and are none.
	jinjaWords = map[string]bool{
		"true": true, "false": true, "none": true, "True": true, "False": true, "None": true, "not": true, "loop": true, "self": true,
	}
)

const dottedName = "has a name with a dot: it is one name here, and clients send its value under the whole name"

// jinja is the syntax of Jinja without comments, as far as a template can express it: {{ name }}.
func jinja(text string) ([]segment, []finding) {
	var b builder
	for {
		at := 0
		for at+1 < len(text) && (text[at] != '{' || strings.IndexByte("{%#", text[at+1]) < 0) {
			at++
		}
		if at+1 >= len(text) {
			b.literal(text)
			return b.result()
		}
		b.literal(text[:at])
		kind := text[at+1]
		tag, behind, closed := strings.Cut(text[at+2:], map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[kind])
		tag = strings.Trim(tag, space)
		switch {
		case !closed:
			b.find(finding{"has {{, {% or {# without an end", true})
			return b.result()
		case kind == '%':
			b.find(finding{"has {% … %}: a template has no statements", true})
		case jinjaName.MatchString(tag) && !jinjaWords[tag]:
			b.variable(tag)
		case jinjaDotted.MatchString(tag):
			b.variable(tag)
			b.find(finding{message: dottedName})
		default:
			b.find(finding{"has " + tagShown(tag) + ", which is more than a name: a template has names alone", true})
		}
		text = behind
	}
}
