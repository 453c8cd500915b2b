package convert

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// langfuseTexts are the entries that others refer to, by name.
type langfuseTexts map[string][]node

var langfuseReference = regexp.MustCompile(`@@@langfusePrompt:(.*?)@@@`)

// syntax is the syntax of Langfuse: {{name}}, and references to other prompts.
func (t langfuseTexts) syntax() syntax {
	return inclusion{kind: "prompt", reference: langfuseReference, find: t.find}.included(plainBraces,
		finding{message: "has the texts of the prompts that it refers to: a change of those no longer changes it"})
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
