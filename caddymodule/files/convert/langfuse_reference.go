package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

const referenceStart, referenceEnd = "@@@langfusePrompt:", "@@@"

// langfuseTexts are the entries that others refer to, by name.
type langfuseTexts map[string][]node

// syntax is the syntax of Langfuse: {{name}}, and references to other prompts.
func (t langfuseTexts) syntax(text string) ([]segment, []finding) {
	if !strings.Contains(text, referenceStart) {
		return plainBraces(text)
	}
	var whole strings.Builder
	if problem := t.expand(&whole, text, &inclusion{kind: "prompt", find: t.find}, nil); problem != "" {
		return nil, []finding{{problem, true}}
	}
	segments, found := plainBraces(whole.String())
	return segments, append(found, finding{message: "has the texts of the prompts that it refers to: a change of those no longer changes it"})
}

// expand writes a text with the texts of its references. inside are the references around it.
func (t langfuseTexts) expand(whole *strings.Builder, text string, texts *inclusion, inside []string) (problem string) {
	for {
		before, rest, found := strings.Cut(text, referenceStart)
		whole.WriteString(before)
		if !found {
			return ""
		}
		reference, rest, closed := strings.Cut(rest, referenceEnd)
		if !closed {
			return "has a reference to a prompt without an end"
		}
		referred, problem := texts.put(reference, inside)
		if problem == "" {
			problem = t.expand(whole, referred, texts, append(slices.Clone(inside), reference))
		}
		if problem != "" {
			return problem
		}
		text = rest
	}
}

// find returns the text that a reference stands for, or why there is none, if it is not missing.
func (t langfuseTexts) find(reference string) (text string, ok bool, problem string) {
	parts := make(map[string]string)
	for part := range strings.SplitSeq(reference, "|") {
		key, value, _ := strings.Cut(part, "=")
		parts[key] = value
	}
	version, label := parts["version"], parts["label"]
	var found node
	for _, entry := range t[parts["name"]] {
		number := entry.get("version").number()
		isMeant := number > 0 && version == strconv.Itoa(number)
		if version == "" {
			isMeant = label == domain.LatestLabel && number >= found.get("version").number()
			for own := range entry.get("labels").items() {
				text, ok := own.text()
				isMeant = isMeant || ok && label != domain.LatestLabel && text == label
			}
		}
		if isMeant {
			found = entry
		}
	}
	if text, ok = found.get("prompt").text(); found.exists() && !ok {
		problem = "refers to a chat prompt: only texts can be put in"
	}
	return text, ok, problem
}
