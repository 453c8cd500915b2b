package inference

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitConversations is limitConversation for the request. It comes before the merge, which
// puts the preset's messages into the conversation.
func (m *merger) limitConversations() error {
	if m.policy == nil {
		return nil
	}
	e := &enforcement{merger: m}
	for i := range m.request.fields {
		f := &m.request.fields[i]
		e.changed = false
		if err := e.limitConversation(f); err != nil {
			return err
		}
		if e.changed {
			m.relocked = append(m.relocked, f.Name)
			m.hadTools = true
		}
	}
	return nil
}

// limitConversation leaves out the tools of the items of a conversation, if the policy locks
// or drops tools. An item that is about nothing else is left out as a whole.
func (e *enforcement) limitConversation(f *rawjson.Member) error {
	if name := foldName(f.Name); e.policy.toolsName == "" || name != "input" && name != "messages" {
		return nil
	}
	if !e.anyBringsTools(f.Value) {
		return nil
	}
	if err := e.reserve(len(f.Value)); err != nil {
		return err
	}
	left := append(make([]byte, 0, len(f.Value)), '[')
	for i, item := range rawjson.Items(f.Value) {
		if e.bringsTools(item) {
			if e.policy.lockedBy["tools"] != nil {
				e.recordViolation(e.policy.toolsName, lockedMessage, true, f.Name, strconv.Itoa(i), "tools")
			}
			if item = withoutTools(item); item == nil {
				continue
			}
		}
		if len(left) > len("[") {
			left = append(left, ',')
		}
		left = append(left, item...)
	}
	f.Value = append(left, ']')
	e.changed = true
	return nil
}

func (m *merger) anyBringsTools(conversation jsontext.Value) bool {
	for _, item := range rawjson.Items(conversation) {
		if m.bringsTools(item) {
			return true
		}
	}
	return false
}

// bringsTools reports whether an item of a conversation gives tools to the model, as
// additional_tools does in the Responses API. Clients send back the items of earlier answers.
// Those with the tools of an MCP server give none. Those with found tools give functions, which
// a preset with tool_search allows.
func (m *merger) bringsTools(item jsontext.Value) bool {
	for name, value := range rawjson.Pairs(item) {
		if !isToolsName(name) || value.Kind() == 'n' || isEmptyContainer(value) {
			continue
		}
		kind := rawjson.Get(item, "type")
		switch {
		case rawjson.IsText(kind, "mcp_list_tools"):
		case rawjson.IsText(kind, "tool_search_output") && m.searchesTools() && !haveServerTool(value):
		default:
			return true
		}
	}
	return false
}

// searchesTools reports whether the preset lets the model search for tools.
func (m *merger) searchesTools() bool {
	for _, tool := range rawjson.Items(m.setting("tools")) {
		if rawjson.IsText(rawjson.Get(tool, "type"), "tool_search") {
			return true
		}
	}
	return false
}

// withoutTools returns an item of a conversation without its tools. It returns nil for one
// that has neither content nor calls of tools.
func withoutTools(item jsontext.Value) jsontext.Value {
	if rawjson.Get(item, "content") == nil && rawjson.Get(item, "tool_calls") == nil {
		return nil
	}
	left := append(make([]byte, 0, len(item)), '{')
	for name, value := range rawjson.Pairs(item) {
		if !isToolsName(name) {
			left = appendMember(left, rawjson.Member{Quoted: name, Value: value})
		}
	}
	return append(left, '}')
}

// isToolsName reports whether a name, as it was sent, may be "tools" for a gateway.
func isToolsName(quoted jsontext.Value) bool {
	if len(quoted) > len(`"\u0074\u006f\u006f\u006c\u0073"`) {
		return false
	}
	name, _ := rawjson.Text(quoted)
	return foldName(name) == "tools"
}
