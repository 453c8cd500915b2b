package convert

import (
	"iter"
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

const dottedName = "has a name with a dot: it is one name here, and clients send its value under the whole name"

// jinjaTag is a tag of a text, and what stands before it.
type jinjaTag struct {
	before, whole string
	kind          byte // {, % or #; 0 behind the last tag
	isOpen        bool // the tag has no end, and whole is the rest of the text
}

// inner returns what is in the tag.
func (t jinjaTag) inner() string { return strings.Trim(t.whole[2:len(t.whole)-2], space) }

// jinjaTags yields the tags of a text. The last one has the text behind the tags before it.
func jinjaTags(text string) iter.Seq[jinjaTag] {
	return func(yield func(jinjaTag) bool) {
		for from := 0; ; {
			at := from
			for at+1 < len(text) && (text[at] != '{' || strings.IndexByte("{%#", text[at+1]) < 0) {
				at++
			}
			if at+1 >= len(text) {
				yield(jinjaTag{before: text[from:]})
				return
			}
			end := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[text[at+1]]
			inner, _, closed := strings.Cut(text[at+2:], end)
			next := min(at+2+len(inner)+len(end), len(text))
			if !yield(jinjaTag{text[from:at], text[at:next], text[at+1], !closed}) || !closed {
				return
			}
			from = next
		}
	}
}

// jinja is the syntax of Jinja as far as a template can express it: {{ name }}.
func jinja(text string) ([]segment, []finding) {
	var b builder
	for tag := range jinjaTags(text) {
		b.literal(tag.before)
		switch {
		case tag.kind == 0:
		case tag.isOpen:
			b.find(finding{"has {{, {% or {# without an end", true})
			b.literal(tag.whole)
		case tag.kind == '%':
			b.find(finding{"has {% … %}: a template has no statements", true})
		case tag.kind == '#':
			b.find(finding{message: "has a comment {# … #}: it is not for the model"})
		case jinjaName.MatchString(tag.inner()) && !jinjaWords[tag.inner()]:
			b.variable(tag.inner())
		case jinjaDotted.MatchString(tag.inner()):
			b.variable(tag.inner())
			b.find(finding{message: dottedName})
		default:
			b.find(finding{"has " + tagShown(tag.inner()) + ", which is more than a name: a template has names alone", true})
		}
	}
	return b.result()
}

// withoutComments returns text without the comments of Jinja. They may span lines, even
// those with roles.
func withoutComments(text string) (rest string, had bool) {
	var kept strings.Builder
	for tag := range jinjaTags(text) {
		kept.WriteString(tag.before)
		if tag.kind == '#' && !tag.isOpen {
			had = true
		} else {
			kept.WriteString(tag.whole)
		}
	}
	return kept.String(), had
}
