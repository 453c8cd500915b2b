package inference

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// isForPresets reports whether a field names a preset or a prompt. A gateway may have prompts of its
// own.
func isForPresets(name string) bool { return name == "preset" || isPromptField(name) }

// limitConversation leaves out the request's own system prompt and the tools in its conversation, if
// the policy locks them. It does so before the merge, which puts the preset's in their place.
func (c *check) limitConversation() error {
	limitsEffort := c.policy != nil && c.dialect == domain.Messages && c.policy.hasRuleAt(perMessage)
	if c.policy == nil || c.policy.promptLock == "" && !c.policy.limitsTools && !c.policy.limitsModels && !limitsEffort {
		return nil
	}
	kept := make([]rawjson.Member, 0, len(c.request.fields))
	for _, f := range c.request.fields {
		isList := f.Value.Kind() == '[' && (f.Name == "messages" || f.Name == "input")
		if isList && (c.policy.limitsTools || c.policy.limitsModels) {
			c.limitItems(&f)
		}
		if isList && limitsEffort {
			c.limitEffort(&f)
		}
		switch {
		case c.policy.promptLock == "":
		case isList:
			c.lockMessages(&f)
		case isPrompt(f):
			if f.Value = c.withoutPrompt(f); f.Value == nil {
				continue
			}
		}
		if c.refused != nil {
			return c.refused
		}
		kept = append(kept, f)
	}
	c.request.fields = kept
	return nil
}

// isPrompt reports whether a field has instructions to the model.
func isPrompt(f rawjson.Member) bool {
	switch f.Name {
	case "instructions", "system", "personality":
		return true
	case "compaction", "context_management":
		edits := rawjson.Get(f.Value, "edits")
		if f.Value.Kind() == '[' {
			edits = f.Value
		}
		for _, edit := range rawjson.Items(edits) {
			if instructions := rawjson.Get(edit, "instructions"); instructions != nil && instructions.Kind() != 'n' {
				return true
			}
		}
		instructions := rawjson.Get(f.Value, "instructions")
		return instructions != nil && instructions.Kind() != 'n'
	}
	return false
}

// withoutPrompt returns what is left of a field with a system prompt. That is the attribution of
// Claude Code, which is no prompt of the caller, or nil.
func (c *check) withoutPrompt(f rawjson.Member) (left jsontext.Value) {
	isEmpty, begin := false, 0
	if c.dialect == domain.Messages && f.Name == promptField[c.dialect] {
		if left, isEmpty = lockedAttribution(f.Value); left != nil {
			begin = 1
		}
	}
	isEmpty = isEmpty || f.Value.Kind() == 'n'
	match := c.prompt.match()
	if ok := match.addField("", begin, f.Value); !isEmpty && (!ok || !match.isEmpty && !match.is()) {
		c.recordViolation(c.policy.promptLock, lockedMessage, true, f.Name)
		c.relocked = append(c.relocked, f.Name)
	}
	return left
}

// lockMessages leaves the system messages out of a list.
func (c *check) lockMessages(f *rawjson.Member) {
	first, match := -1, c.prompt.match()
	c.editItems(f, func(i int, message jsontext.Value) jsontext.Value {
		if !mayBeSystemMessage(message) {
			return message
		}
		if first < 0 {
			first = i
		}
		match.addMessage(message)
		return nil
	})
	if !match.isEmpty && !match.is() {
		c.recordViolation(c.policy.promptLock, lockedMessage, true, f.Name, strconv.Itoa(first))
		c.relocked = append(c.relocked, f.Name)
	}
}

// limitItems leaves out the tools of the items of a list, or those with a model that the policy does
// not allow. An item with neither content nor calls of tools is left out as a whole, and so is one
// whose content defines a tool.
func (c *check) limitItems(f *rawjson.Member) {
	search := useSearch{check: c, visit: c.checkModel, isSilent: true}
	changed := c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		switch {
		case !addsTools(c.dialect, item), !c.policy.limitsTools && search.item("", item) == nil:
			return item
		case !c.policy.limitsTools:
			c.recordViolation("models", modelMessage, true, f.Name, strconv.Itoa(i))
		case c.policy.isLocked("tools"):
			c.recordViolation("tools", lockedMessage, true, f.Name, strconv.Itoa(i), "tools")
		}
		if rawjson.Get(item, "content") == nil && rawjson.Get(item, "tool_calls") == nil || c.reserve(len(item)) != nil {
			return nil
		}
		item = rawjson.Without(item, func(name jsontext.Value) bool { return mayBeName(name, "tools") })
		if addsTools(c.dialect, item) {
			return nil
		}
		return item
	})
	if changed {
		c.relocked = append(c.relocked, f.Name)
		c.hadTools = true
	}
}

// perMessage is a setting that a message of the Messages API may have for its own turn.
const perMessage = "output_config"

// limitEffort leaves the setting perMessage out of the items of a list.
func (c *check) limitEffort(f *rawjson.Member) {
	c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		for name := range rawjson.Pairs(item) {
			if !mayBeName(name, perMessage) {
				continue
			}
			c.recordViolation(perMessage, lockedMessage, true, f.Name, strconv.Itoa(i), perMessage)
			if c.reserve(len(item)) != nil {
				return nil
			}
			return rawjson.Without(item, func(name jsontext.Value) bool { return mayBeName(name, perMessage) })
		}
		return item
	})
}

// editItems gives each item of a list the value that edit returns, or leaves it out for nil. It
// reports whether it changed anything.
func (c *check) editItems(f *rawjson.Member, edit func(i int, item jsontext.Value) jsontext.Value) (changed bool) {
	var left []byte // nil as long as nothing changes
	for i, item := range rawjson.Items(f.Value) {
		edited := edit(i, item)
		switch {
		case left == nil && len(edited) == len(item):
			continue
		case left == nil:
			if c.reserve(len(f.Value)) != nil {
				return false
			}
			before := bytes.TrimRight(f.Value[:rawjson.Offset(f.Value, item)], " \t\r\n,")
			left = append(make([]byte, 0, len(f.Value)), before...)
		}
		if edited == nil {
			continue
		}
		if left[len(left)-1] != '[' {
			left = append(left, ',')
		}
		left = append(left, edited...)
	}
	if left == nil {
		return false
	}
	f.Value = append(left, ']')
	return true
}

// callerRoles are the roles of messages that are neither of the system nor of the developer.
var callerRoles = []string{"user", "assistant", "tool", "function"}

// mayBeSystemMessage reports whether a gateway may take a message for one of the system or of the
// developer: its role is not one of callerRoles, or a gateway may read another one.
func mayBeSystemMessage(message jsontext.Value) bool {
	hasRole := false
	for name := range rawjson.Pairs(message) {
		hasRole = hasRole || mayBeName(name, "role")
	}
	role, _ := rawjson.Head(soleMember(message, "role"), maxText)
	return hasRole && !slices.Contains(callerRoles, role)
}
