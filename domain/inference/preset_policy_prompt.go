package inference

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// mayHavePrompt reports whether a field of any dialect can have a system prompt.
func mayHavePrompt(name string) bool {
	switch foldName(name) {
	case "instructions", "system", liteLLMPrompt, "messages", "input":
		return true
	}
	return false
}

// liteLLMPrompt is a field whose text LiteLLM adds to the system prompt.
const liteLLMPrompt = "litellm_system_prompt"

// isForPresets reports whether a field names a preset or a prompt, in any letter case. A
// gateway may have prompts of its own.
func isForPresets(name string) bool {
	name = foldName(name)
	return name == "preset" || isPromptField(name)
}

// lockPrompt leaves out the request's own system prompt, if the policy locks it. It does so
// before the merge, which puts the preset's prompt in its place. Prompts are in
// instructions, system and liteLLMPrompt, and in messages of the roles system and developer.
func (m *merger) lockPrompt() error {
	if m.policy == nil || m.policy.promptLock == "" {
		return nil
	}
	e := &enforcement{merger: m}
	kept := make([]rawjson.Member, 0, len(m.request.fields))
	for _, f := range m.request.fields {
		switch name := foldName(f.Name); {
		case !mayHavePrompt(f.Name):
		case name == "instructions" || name == "system" || name == liteLLMPrompt:
			text, ok := promptText("", f.Value, m.prompt.size)
			if f.Value.Kind() != 'n' && (!ok || text != "" && !m.prompt.is(text)) {
				e.recordViolation(m.policy.promptLock, lockedMessage, true, f.Name)
				m.relocked = append(m.relocked, f.Name)
			}
			continue
		default:
			var err error
			if f.Value, err = e.withoutPrompts(f); err != nil {
				return err
			}
		}
		kept = append(kept, f)
	}
	m.request.fields = kept
	return nil
}

// withoutPrompts returns a field without its system messages.
func (e *enforcement) withoutPrompts(f rawjson.Member) (jsontext.Value, error) {
	first := firstSystemMessage(f.Value)
	if first < 0 {
		return f.Value, nil
	}
	if err := e.reserve(len(f.Value)); err != nil {
		return nil, err
	}
	left := append(make([]byte, 0, len(f.Value)), '[')
	var prompt strings.Builder
	for _, message := range rawjson.Items(f.Value) {
		if !mayBeSystemMessage(message) {
			if len(left) > len("[") {
				left = append(left, ',')
			}
			left = append(left, message...)
			continue
		}
		if prompt.Len() > e.prompt.size { // it is another one already
			continue
		}
		if text, _ := contentText(message, e.prompt.size); text != "" {
			if prompt.Len() > 0 {
				prompt.WriteString(promptSeparator)
			}
			prompt.WriteString(text)
		}
	}
	if text := prompt.String(); text != "" && !e.prompt.is(text) {
		e.recordViolation(e.policy.promptLock, lockedMessage, true, f.Name, strconv.Itoa(first))
		e.relocked = append(e.relocked, f.Name)
	}
	return append(left, ']'), nil
}

// firstSystemMessage returns the index of the first system message in a list, or -1.
func firstSystemMessage(list jsontext.Value) int {
	for i, message := range rawjson.Items(list) {
		if mayBeSystemMessage(message) {
			return i
		}
	}
	return -1
}

// contentText returns the text of a message. It stops beyond enough bytes.
func contentText(message jsontext.Value, enough int) (string, bool) {
	return promptText("", rawjson.Get(message, "content"), enough)
}

// mayBeSystemMessage reports whether a gateway may take a message for one of the system or of
// the developer. It is wider than isSystemMessage: names and roles are in any letter case.
func mayBeSystemMessage(message jsontext.Value) bool {
	for name, value := range rawjson.Pairs(message) {
		if len(name) != len(`"role"`) && !bytes.Contains(name, []byte{'\\'}) {
			continue
		}
		if text, _ := rawjson.Text(name); !strings.EqualFold(text, "role") {
			continue
		}
		role, _ := rawjson.Text(value)
		if slices.Contains([]string{"system", "developer"}, strings.ToLower(strings.TrimSpace(role))) {
			return true
		}
	}
	return false
}

// reserve takes memory for a copy of size bytes.
func (m *merger) reserve(size int) error {
	if m.memory == nil {
		return nil
	}
	return m.memory.Reserve(size)
}
