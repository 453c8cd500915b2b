package convert

import (
	"regexp"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxInside bounds how deep texts may have texts in them, so that none has itself.
	maxInside = 16
	// maxPuttingIn bounds how many texts are put into one text.
	maxPuttingIn = 1000
	// maxExpanded bounds the texts that are put into one text, in bytes. No version can have more.
	maxExpanded = domain.MaxStoredSize
)

// inclusion puts the partials or the prompts that a text refers to into it.
type inclusion struct {
	kind string // partial or prompt
	// reference matches a reference, and captures the name of what it refers to.
	reference *regexp.Regexp
	// find returns the text of a name. Without one, problem is the reason, empty if it is missing.
	find        func(name string) (text string, ok bool, problem string)
	count, size int
}

// expand returns a text with the texts of its references, or why there is none.
func (i *inclusion) expand(text string, depth int) (whole, problem string) {
	var out strings.Builder
	at := 0
	for _, m := range i.reference.FindAllStringSubmatchIndex(text, maxPuttingIn+1) {
		if i.count++; depth == maxInside || i.count > maxPuttingIn {
			return "", "has too many " + i.kind + "s in " + i.kind + "s, or one that has itself"
		}
		found, ok, problem := i.find(text[m[2]:m[3]])
		switch i.size += len(found); {
		case !ok && problem == "":
			problem = "refers to a " + i.kind + " that the input does not have"
		case i.size > maxExpanded:
			problem = "is too large with its " + i.kind + "s"
		}
		if problem == "" {
			found, problem = i.expand(found, depth+1)
		}
		if problem != "" {
			return "", problem
		}
		out.WriteString(text[at:m[0]] + found)
		at = m[1]
	}
	return out.String() + text[at:], ""
}

// included returns the syntax of a text whose references another syntax does not know.
func (i inclusion) included(then syntax, found finding) syntax {
	return func(text string) ([]segment, []finding) {
		if !i.reference.MatchString(text) {
			return then(text)
		}
		expansion := i // with counts of its own
		whole, problem := expansion.expand(text, 0)
		if problem != "" {
			return nil, []finding{{problem, true}}
		}
		segments, all := then(whole)
		return segments, append(all, found)
	}
}
