package convert

import (
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxReferences bounds how deep references may refer to texts with references.
	maxReferences = 16
	// maxExpanded bounds a text with the texts that it refers to, in bytes. No version can
	// have more.
	maxExpanded = domain.MaxStoredSize

	referenceStart = "@@@langfusePrompt:"
	referenceEnd   = "@@@"
)

// langfuseTexts finds the prompts that others refer to.
type langfuseTexts struct{ byName map[string][]node }

func newLangfuseTexts(entries []node) *langfuseTexts {
	t := &langfuseTexts{make(map[string][]node)}
	for _, entry := range entries {
		name := entry.textOf("name")
		t.byName[name] = append(t.byName[name], entry)
	}
	return t
}

// syntax is the syntax of Langfuse: {{name}}, and references to other prompts.
func (t *langfuseTexts) syntax(text string) ([]segment, []finding) {
	if !strings.Contains(text, referenceStart) {
		return plainBraces(text)
	}
	e := expansion{texts: t}
	e.add(text, nil)
	if e.failed != "" {
		return nil, []finding{{e.failed, true}}
	}
	segments, found := plainBraces(e.text.String())
	return segments, append(found, finding{message: "has the texts of the prompts that it refers to: a change of those no longer changes it"})
}

// expansion puts the texts of references in.
type expansion struct {
	texts  *langfuseTexts
	text   strings.Builder
	count  int    // texts that were put in
	failed string // the reason, empty for none
}

// add adds a text. inside are the references around it.
func (e *expansion) add(text string, inside []string) {
	for e.failed == "" {
		before, rest, found := strings.Cut(text, referenceStart)
		if e.text.Len()+len(before) > maxExpanded {
			e.failed = "is too large with the texts of the prompts that it refers to"
			return
		}
		e.text.WriteString(before)
		if !found {
			return
		}
		reference, rest, closed := strings.Cut(rest, referenceEnd)
		if !closed {
			e.failed = "has a reference to a prompt without an end"
			return
		}
		switch {
		case slices.Contains(inside, reference):
			e.failed = "refers to a prompt that refers back to it"
			return
		case len(inside) == maxReferences || e.count == maxPuttingIn:
			e.failed = "refers to too many prompts that refer to others"
			return
		}
		e.count++
		if referred, failed := e.texts.find(reference); failed != "" {
			e.failed = failed
		} else {
			e.add(referred, append(slices.Clone(inside), reference))
		}
		text = rest
	}
}

// find returns the text that a reference stands for, or why there is none.
func (t *langfuseTexts) find(reference string) (text, failed string) {
	parts := make(map[string]string)
	for part := range strings.SplitSeq(reference, "|") {
		key, value, _ := strings.Cut(part, "=")
		parts[key] = value
	}
	const missing = "refers to a prompt that the input does not have"
	var found node
	for _, entry := range t.byName[parts["name"]] {
		labels := slices.Collect(entry.get("labels").items())
		hasLabel := func(label node) bool { text, ok := label.text(); return ok && text == parts["label"] }
		switch {
		case parts["version"] != "" && isLangfuseNumber(entry, parts["version"]):
			found = entry
		case parts["version"] == "" && parts["label"] == domain.LatestLabel:
			if !found.exists() || entry.get("version").number() >= found.get("version").number() {
				found = entry
			}
		case parts["version"] == "" && slices.ContainsFunc(labels, hasLabel):
			found = entry
		}
	}
	if !found.exists() {
		return "", missing
	}
	text, ok := found.get("prompt").text()
	if !ok {
		return "", "refers to a chat prompt: only texts can be put in"
	}
	return text, ""
}
