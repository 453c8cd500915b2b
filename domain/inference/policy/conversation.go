package policy

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/prompts"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// isForPresets reports whether a field names a preset or a prompt. A gateway may have prompts of its
// own.
func isForPresets(name string) bool { return name == "preset" || reference.IsPromptField(name) }

// LimitConversation leaves out the request's own system prompt and the tools in its conversation, if
// the policy locks them. It does so before the merge, which puts the preset's in their place.
func (c *Check) LimitConversation() error {
	if c.Policy == nil {
		return nil
	}
	limitsEffort := c.Dialect == domain.Messages && c.Policy.hasRuleAt(perMessage)
	if c.Policy.promptLock == "" && c.Policy.reasoningLock == "" && !c.Policy.limitsTools && !c.Policy.limitsModels && !limitsEffort {
		return nil
	}
	kept := make([]rawjson.Member, 0, len(c.Request.Fields))
	for _, f := range c.Request.Fields {
		isList := f.Value.Kind() == '[' && (f.Name == "messages" || f.Name == "input")
		if isList && (c.Policy.limitsTools || c.Policy.limitsModels) {
			c.limitItems(&f)
		}
		if isList && limitsEffort {
			c.leaveOut(&f, perMessage, perMessage)
		}
		if c.Policy.reasoningLock != "" {
			c.keepReasoning(&f)
		}
		switch {
		case f.Value == nil:
			continue
		case c.Policy.promptLock == "":
		case f.Name == "plugins":
			c.leaveOut(&f, "search_prompt", c.Policy.promptLock) // a web plugin introduces its results with it
		case isList:
			c.lockMessages(&f)
		case isPrompt(f):
			if f.Value = c.withoutPrompt(f); f.Value == nil {
				continue
			}
		}
		if c.Refused != nil {
			return c.Refused
		}
		kept = append(kept, f)
	}
	c.Request.Fields = kept
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
			if hasMember(edit, "instructions") {
				return true
			}
		}
		return hasMember(f.Value, "instructions")
	}
	return false
}

// hasMember reports whether an object has a member that a gateway may read by a name, and that is not null.
func hasMember(object jsontext.Value, name string) bool {
	for quoted, value := range rawjson.Pairs(object) {
		if value.Kind() != 'n' && dialects.MayBeName(quoted, name) {
			return true
		}
	}
	return false
}

// withoutPrompt returns what is left of a field with a system prompt. That is the attribution of
// Claude Code, which is no prompt of the caller, or nil.
func (c *Check) withoutPrompt(f rawjson.Member) (left jsontext.Value) {
	isEmpty, begin := false, 0
	if c.Dialect == domain.Messages && f.Name == dialects.PromptField[c.Dialect] {
		if left, isEmpty = prompts.LockedAttribution(f.Value); left != nil {
			begin = 1
		}
	}
	isEmpty = isEmpty || f.Value.Kind() == 'n'
	match := c.Prompt.Match()
	if ok := match.AddField("", begin, f.Value); !isEmpty && (!ok || !match.IsEmpty && !match.Is()) {
		c.recordViolation(c.Policy.promptLock, lockedMessage, true, f.Name)
		c.relocked = append(c.relocked, f.Name)
	}
	return left
}

// lockMessages leaves the system messages out of a list.
func (c *Check) lockMessages(f *rawjson.Member) {
	first, match := -1, c.Prompt.Match()
	c.editItems(f, func(i int, message jsontext.Value) jsontext.Value {
		if !mayBeSystemMessage(message) {
			return message
		}
		if first < 0 {
			first = i
		}
		match.AddMessage(message)
		return nil
	})
	if !match.IsEmpty && !match.Is() {
		c.recordViolation(c.Policy.promptLock, lockedMessage, true, f.Name, strconv.Itoa(first))
		c.relocked = append(c.relocked, f.Name)
	}
}

// limitItems leaves out the tools of the items of a list, or those with a model that the policy does
// not allow. An item with neither content nor calls of tools is left out as a whole, and so is one
// whose content defines a tool.
func (c *Check) limitItems(f *rawjson.Member) {
	search := useSearch{Check: c, ends: c.refusesModel}
	changed := c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		switch {
		case !addsTools(c.Dialect, item), !c.Policy.limitsTools && search.item(item) == nil:
			return item
		case !c.Policy.limitsTools:
			c.recordViolation("models", modelMessage, true, f.Name, strconv.Itoa(i))
		case c.Policy.IsLocked("tools"):
			c.recordViolation("tools", lockedMessage, true, f.Name, strconv.Itoa(i), "tools")
		}
		if rawjson.Get(item, "content") == nil && rawjson.Get(item, "tool_calls") == nil || c.Reserve(len(item)) != nil {
			return nil
		}
		item = rawjson.Without(item, func(name jsontext.Value) bool { return dialects.MayBeName(name, "tools") })
		if addsTools(c.Dialect, item) {
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

// leaveOut leaves a member that a rule limits out of the items of a list, but for those of the preset.
func (c *Check) leaveOut(f *rawjson.Member, member, rule string) {
	own := c.Setting(f.Name)
	c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		if !hasMember(item, member) || hasItem(own, item) {
			return item
		}
		c.recordViolation(rule, lockedMessage, true, f.Name, strconv.Itoa(i), member)
		if c.Reserve(len(item)) != nil {
			return nil
		}
		return rawjson.Without(item, func(name jsontext.Value) bool { return dialects.MayBeName(name, member) })
	})
}

// offSwitches are the members, or the whole fields, that can switch reasoning off.
var offSwitches = map[string][]string{
	"reasoning": {"enabled", "effort", "max_tokens"}, "thinking": {"type", "budget_tokens"}, "output_config": {"effort"},
	"reasoning_effort": {""}, "include_reasoning": {""},
}

// isOff reports whether the value of an off switch switches reasoning off.
func isOff(value jsontext.Value) bool {
	n, isNumber := readNumber(value)
	return value.Kind() == 'f' || rawjson.IsText(value, "none") || rawjson.IsText(value, "disabled") || isNumber && n.near == 0
}

// keepReasoning leaves out what switches reasoning off, which would undo a lock of another setting of it.
func (c *Check) keepReasoning(f *rawjson.Member) {
	for _, name := range offSwitches[f.Name] {
		at := dialects.Place{Field: f.Name, Member: name}
		value := member(f.Value, name)
		if !isOff(value) || c.Policy.locksAt(at) || isSameJSON(value, c.presetAt(at)) || c.Reserve(len(f.Value)) != nil {
			continue
		}
		c.recordViolation(c.Policy.reasoningLock, lockedMessage, true, at.Path()...)
		c.relocked = append(c.relocked, f.Name)
		if name == "" || f.Name == "thinking" {
			f.Value = nil
			return
		}
		f.Value = rawjson.Without(f.Value, func(quoted jsontext.Value) bool { return rawjson.IsText(quoted, name) })
	}
}

// editItems gives each item of a list the value that edit returns, or leaves it out for nil. It
// reports whether it changed anything.
func (c *Check) editItems(f *rawjson.Member, edit func(i int, item jsontext.Value) jsontext.Value) (changed bool) {
	var left []byte // nil as long as nothing changes
	for i, item := range rawjson.Items(f.Value) {
		edited := edit(i, item)
		switch {
		case left == nil && len(edited) == len(item):
			continue
		case left == nil:
			if c.Reserve(len(f.Value)) != nil {
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
		hasRole = hasRole || dialects.MayBeName(name, "role")
	}
	role, _ := rawjson.Head(dialects.SoleMember(message, "role"), dialects.MaxText)
	return hasRole && !slices.Contains(callerRoles, role)
}
