package inference

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
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
			if f.Value = e.withoutPrompt(f); f.Value == nil {
				continue
			}
		case f.Name != name && m.putsPromptIn(name): // a gateway may take it for the preset's
			if f.Value.Kind() != 'n' {
				e.recordViolation(m.policy.promptLock, lockedMessage, true, f.Name)
				m.relocked = append(m.relocked, name)
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

// withoutPrompt returns what is left of a field with a system prompt. That is the attribution of
// Claude Code, which is no prompt of the caller, or nil.
func (e *enforcement) withoutPrompt(f rawjson.Member) (left jsontext.Value) {
	isEmpty, begin := false, 0
	if e.dialect == domain.Messages && f.Name == promptField[e.dialect] {
		if left, isEmpty = lockedAttribution(f.Value); left != nil {
			begin = 1
		}
	}
	isEmpty = isEmpty || f.Value.Kind() == 'n'
	match := e.prompt.match()
	if ok := match.addField("", begin, f.Value); !isEmpty && (!ok || !match.isEmpty && !match.is()) {
		e.recordViolation(e.policy.promptLock, lockedMessage, true, f.Name)
		e.relocked = append(e.relocked, f.Name)
	}
	return left
}

// putsPromptIn reports whether the merge puts the preset's prompt or a template's messages into a
// field.
func (m *merger) putsPromptIn(name string) bool {
	return name == promptField[m.dialect] && !m.prompt.isEmpty() || name == listField[m.dialect] && len(m.messages) > 0
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
	match := e.prompt.match()
	for _, message := range rawjson.Items(f.Value) {
		if !mayBeSystemMessage(message) {
			if len(left) > len("[") {
				left = append(left, ',')
			}
			left = append(left, message...)
			continue
		}
		if content := rawjson.Get(message, "content"); hasText(content) && (match.isEmpty || match.add(paragraphEnd)) {
			match.addField("", 0, content)
		}
	}
	if !match.isEmpty && !match.is() {
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

// hasText reports whether the joined texts of a content are not empty.
func hasText(content jsontext.Value) bool {
	isFirst := true
	for text := range promptTexts("", 0, content) {
		if !isFirst || !isEmptyText(text) {
			return true
		}
		isFirst = false
	}
	return false
}

// mayBeSystemMessage reports whether a gateway may take a message for one of the system or of
// the developer. It is wider than isSystemMessage: names and roles are in any letter case.
func mayBeSystemMessage(message jsontext.Value) bool {
	for name, value := range rawjson.Pairs(message) {
		if len(name) != len(`"role"`) && !bytes.Contains(name, []byte{'\\'}) {
			continue
		}
		if text, _ := rawjson.Head(name, len("role")); !strings.EqualFold(text, "role") {
			continue
		}
		role, _ := rawjson.Head(value, maxText)
		if len(role) > maxText { // perhaps behind much space
			return true
		}
		if slices.Contains([]string{"system", "developer"}, strings.ToLower(strings.TrimSpace(role))) {
			return true
		}
	}
	return false
}

// reserve takes memory for a copy of size bytes, until compose counts all parts. Once it was
// refused, compose returns the error, so a caller need not.
func (m *merger) reserve(size int) error {
	if m.memory == nil || m.refused != nil {
		return m.refused
	}
	if m.refused = m.memory.Reserve(size); m.refused == nil {
		m.copied += size
	}
	return m.refused
}

// release gives back size bytes of those that reserve took.
func (m *merger) release(size int) {
	if m.memory != nil {
		m.memory.Release(size)
		m.copied -= size
	}
}
