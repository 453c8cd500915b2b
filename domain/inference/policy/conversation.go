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
func (c *Check) isForPresets(name string) bool {
	return name == "preset" || reference.IsPromptField(c.Dialect, name)
}

// LimitConversation leaves out the request's own system prompt and the tools in its conversation, if
// the policy locks them. It does so before the merge, which puts the preset's in their place.
func (c *Check) LimitConversation() error {
	if c.Policy == nil {
		return nil
	}
	kept := c.Request.Fields[:0]
	for _, f := range c.Request.Fields {
		switch isList := f.Value.Kind() == '['; {
		case isList && (f.Name == "messages" || f.Name == "input"):
			c.limitItems(&f)
			if c.Policy.limitsEffort && c.Dialect == domain.Messages {
				c.leaveOut(&f, perMessage, perMessage)
			}
		case c.Policy.promptLock == "":
		case f.Name == "plugins":
			c.leaveOut(&f, "search_prompt", c.Policy.promptLock) // a web plugin introduces its results with it
		case isPrompt(f):
			f.Value = c.withoutPrompt(f)
		}
		if c.Refused != nil {
			return c.Refused
		}
		if f.Value != nil {
			kept = append(kept, f)
		}
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
		return dialects.MayContain(f.Value, `"instructions"`)
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
	}
	return left
}

// limitItems leaves out the system messages of a list, if the prompt is locked, and the items that give tools to
// the model, or those tools with a model that the policy does not allow.
func (c *Check) limitItems(f *rawjson.Member) {
	p := c.Policy
	if p.promptLock == "" && !p.limitsTools && !p.limitsModels {
		return
	}
	search := useSearch{Check: c, ends: c.refusesModel}
	first, match := -1, c.Prompt.Match()
	c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		hasTools := len(toolsOf(c.Dialect, item)) > 0
		switch {
		case hasTools && p.limitsTools:
			c.hadTools = true
			if p.IsLocked("tools") {
				c.recordViolation("tools", lockedMessage, true, f.Name, strconv.Itoa(i), "tools")
			}
		case hasTools && p.limitsModels && search.item(item) != nil:
			c.hadTools = true
			c.recordViolation("models", modelMessage, true, f.Name, strconv.Itoa(i))
		case p.promptLock != "" && isSystemMessage(item):
			if first < 0 {
				first = i
			}
			match.AddMessage(item)
		default:
			return item
		}
		return nil
	})
	if !match.IsEmpty && !match.Is() {
		c.recordViolation(p.promptLock, lockedMessage, true, f.Name, strconv.Itoa(first))
	}
}

// perMessage is a setting that a message of the Messages API may have for its own turn.
const perMessage = "output_config"

// leaveOut leaves a member that a rule limits out of the items of a list, but for those of the preset.
func (c *Check) leaveOut(f *rawjson.Member, member, rule string) {
	own := c.ownItems(f.Name)
	c.editItems(f, func(i int, item jsontext.Value) jsontext.Value {
		if rawjson.Get(item, member) == nil || own[string(item)] {
			return item
		}
		c.recordViolation(rule, lockedMessage, true, f.Name, strconv.Itoa(i), member)
		if c.Reserve(len(item)) != nil {
			return nil
		}
		return without(item, member)
	})
}

func without(object jsontext.Value, member string) jsontext.Value {
	return rawjson.Without(object, func(name jsontext.Value) bool { return rawjson.IsText(name, member) })
}

// editItems gives each item of a list the value that edit returns, or leaves it out for nil.
func (c *Check) editItems(f *rawjson.Member, edit func(i int, item jsontext.Value) jsontext.Value) {
	var left []byte // nil as long as nothing changes
	for i, item := range rawjson.Items(f.Value) {
		edited := edit(i, item)
		switch {
		case left == nil && len(edited) == len(item):
			continue
		case left == nil:
			if c.Reserve(len(f.Value)) != nil {
				return
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
	if left != nil {
		f.Value = append(left, ']')
	}
}

// callerRoles are the roles of messages that are neither of the system nor of the developer.
var callerRoles = []string{"user", "assistant", "tool", "function"}

// isSystemMessage reports whether a gateway may take a message for one of the system or of the developer: it
// has a role, which is not one of callerRoles.
func isSystemMessage(message jsontext.Value) bool {
	role := rawjson.Get(message, "role")
	return role != nil && !slices.ContainsFunc(callerRoles, func(name string) bool { return rawjson.IsText(role, name) })
}
