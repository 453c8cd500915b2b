package inference

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitConversations is limitConversation for the request. It comes before the merge, which
// puts the preset's messages into the conversation.
func (m *merger) limitConversations() error {
	if m.policy == nil || m.policy.toolsName == "" {
		return nil
	}
	m.request.fields = slices.Clone(m.request.fields) // m.sent stays
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
// or drops tools. An item with neither content nor calls of tools is left out as a whole.
func (e *enforcement) limitConversation(f *rawjson.Member) error {
	field := foldName(f.Name)
	if e.policy.toolsName == "" || field != "input" && field != "messages" {
		return nil
	}
	if !e.anyBringsTools(field, f.Value) {
		return nil
	}
	if err := e.reserve(len(f.Value)); err != nil {
		return err
	}
	left := append(make([]byte, 0, len(f.Value)), '[')
	for i, item := range rawjson.Items(f.Value) {
		brings := e.bringsTools(field, item)
		if brings && e.policy.lockedBy["tools"] != nil {
			e.recordViolation(e.policy.toolsName, lockedMessage, true, f.Name, strconv.Itoa(i), "tools")
		}
		if brings && rawjson.Get(item, "content") == nil && rawjson.Get(item, "tool_calls") == nil {
			continue
		}
		if len(left) > len("[") {
			left = append(left, ',')
		}
		if brings {
			left = appendWithoutTools(left, item)
		} else {
			left = append(left, item...)
		}
	}
	f.Value = append(left, ']')
	e.changed = true
	return nil
}

func (m *merger) anyBringsTools(field string, conversation jsontext.Value) bool {
	for _, item := range rawjson.Items(conversation) {
		if m.bringsTools(field, item) {
			return true
		}
	}
	return false
}

// bringsTools reports whether an item of a field gives tools to the model, as additional_tools
// does in the Responses API.
func (m *merger) bringsTools(field string, item jsontext.Value) bool {
	isEarlier := false
	for name, value := range rawjson.Pairs(item) {
		if !mayBeName(name, "tools") || value.Kind() == 'n' || isEmptyContainer(value) {
			continue
		}
		isEarlier = isEarlier || m.isEarlier(field, item)
		if !isEarlier || haveServerTool(value) {
			return true
		}
	}
	return false
}

// isEarlier reports whether an item is one of an earlier answer that names tools. Clients of the
// Responses API send them back. Those with the tools of an MCP server give none. Those with found
// tools give functions, which a preset with tool_search allows.
func (m *merger) isEarlier(field string, item jsontext.Value) bool {
	if m.dialect != domain.Responses || field != "input" {
		return false
	}
	kind := soleMember(item, "type")
	return rawjson.IsText(kind, "mcp_list_tools") || rawjson.IsText(kind, "tool_search_output") && m.searchesTools()
}

// searchesTools reports whether the preset lets the model search for tools. It finds out once,
// since each item may ask.
func (m *merger) searchesTools() bool {
	if m.searches == nil {
		found := false
		for _, tool := range rawjson.Items(m.setting("tools")) {
			found = found || rawjson.IsText(rawjson.Get(tool, "type"), "tool_search")
		}
		m.searches = &found
	}
	return *m.searches
}

// appendWithoutTools appends an item of a conversation without its tools.
func appendWithoutTools(to []byte, item jsontext.Value) []byte {
	to = append(to, '{')
	for name, value := range rawjson.Pairs(item) {
		if mayBeName(name, "tools") {
			continue
		}
		if to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		to = append(append(append(to, name...), ':'), value...)
	}
	return append(to, '}')
}
