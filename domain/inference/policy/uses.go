package policy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/inference/servertools"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// use is a server tool or a model that a request names.
type use struct {
	tool, model string // one of them is empty
}

// finding is what ends a search: a use, or a mistake.
type finding struct {
	use
	mistake string // empty for a use
	at      string // its place, a JSON Pointer
}

// under puts a name before the place of a finding, which may be none.
func (f *finding) under(name string) *finding {
	if f != nil {
		f.at = dialects.Pointer(name) + f.at
	}
	return f
}

// useSearch looks for the server tools and models in fields that Admit let pass, until one ends it. A kind
// of tool, a plugin or a member of them that is not known is a mistake, but its name is visited first.
type useSearch struct {
	*Check
	ends     func(use) bool
	isChoice bool // which brings no other tools
	visited  int
}

// maxVisited bounds the tools and plugins of a request, and maxToolDepth how deep they nest. The
// parameters of a tool are a level, and the tools in them another.
const (
	maxVisited   = 64 << 10
	maxToolDepth = 8
)

// search returns the use in fields that ends the search, or a mistake before it, or nil.
func (c *Check) search(fields []rawjson.Member, ends func(use) bool) *finding {
	s := useSearch{Check: c, ends: ends}
	for _, f := range fields {
		if f.Value.Kind() == 'n' || s.Opened[f.Name] { // a preset opens no field to what it does not limit
			continue
		}
		if found := s.field(f); found != nil {
			return found
		}
	}
	return nil
}

func (s *useSearch) visit(u use) *finding {
	if s.ends(u) {
		return &finding{use: u}
	}
	return nil
}

func each(list jsontext.Value, read func(element jsontext.Value) *finding) *finding {
	for i, element := range rawjson.Items(list) {
		if found := read(element); found != nil {
			return found.under(strconv.Itoa(i))
		}
	}
	return nil
}

func (s *useSearch) field(f rawjson.Member) (found *finding) {
	switch f.Name {
	case "model":
		if reference.IsReference(f.Value) { // which is resolved
			found = s.named(s.Request.Model)
		} else {
			found = s.named(textUpTo(f.Value, reference.MaxReference))
		}
	case "moderation", "svg": // a text has no model
		found = s.model(rawjson.Get(f.Value, "model")).under("model")
	case "input", "messages":
		if mayAddTools(s.Dialect, f.Value) {
			found = each(f.Value, s.item)
		}
	case "models", "fallbacks", "tools", "functions", "plugins":
		found = each(f.Value, func(element jsontext.Value) *finding { return s.element(f.Name, element) })
	case "tool_choice":
		if f.Value.Kind() == '{' {
			s.isChoice = true
			found = s.tool("", f.Value, 0)
			s.isChoice = false
		}
	case "container":
		if skills := rawjson.Get(f.Value, "skills"); skills != nil && !rawjson.IsEmpty(skills) {
			found = s.useOf(servertools.ByField[f.Name], nil).under("skills")
		}
	default:
		found = s.useOf(servertools.ByField[f.Name], nil)
	}
	return found.under(f.Name)
}

// element searches an element of a field that is a list.
func (s *useSearch) element(field string, element jsontext.Value) *finding {
	switch {
	case field == "models" || field == "fallbacks" && element.Kind() == '"':
		return s.model(element)
	case field == "fallbacks":
		return s.model(rawjson.Get(element, "model")).under("model")
	}
	return s.tool("", element, 0)
}

// item searches an item of a conversation, which may add tools.
func (s *useSearch) item(item jsontext.Value) *finding {
	for _, tools := range toolsOf(s.Dialect, item) {
		if found := each(tools, func(tool jsontext.Value) *finding { return s.tool("", tool, 0) }); found != nil {
			return found.under("tools")
		}
	}
	return nil
}

// listedTools is the form of the tools that an MCP server had in an earlier answer.
var listedTools = dialects.NewForm([]any{map[string]any{
	"name": "string", "description": "string", "input_schema": map[string]any{}, "annotations": map[string]any{},
}})

// toolsOf returns the lists of tools that an item of a conversation gives to the model, as additional_tools
// does in the Responses API, and a block that defines a tool in the Messages API. listedTools are none:
// clients send them back.
func toolsOf(dialect domain.Dialect, item jsontext.Value) (lists []jsontext.Value) {
	if !mayAddTools(dialect, item) {
		return nil
	}
	if tools := rawjson.Get(item, "tools"); tools != nil && !rawjson.IsEmpty(tools) &&
		(dialect != domain.Responses || !rawjson.IsText(rawjson.Get(item, "type"), "mcp_list_tools") || !listedTools.Fits(tools)) {
		lists = append(lists, tools)
	}
	if dialect != domain.Messages {
		return lists
	}
	for _, block := range rawjson.Items(rawjson.Get(item, "content")) {
		added := []jsontext.Value{block}
		for _, change := range rawjson.Items(rawjson.Get(block, "tool_changes")) {
			added = append(added, change)
		}
		for _, one := range added {
			if tool := rawjson.Get(rawjson.Get(one, "tool"), "definition"); tool != nil {
				lists = append(lists, rawjson.ArrayOf(tool))
			}
		}
	}
	return lists
}

// mayAddTools reports whether an item of a conversation, or a list of them, may give tools to the model.
func mayAddTools(dialect domain.Dialect, conversation jsontext.Value) bool {
	return bytes.Contains(conversation, []byte(`"tools"`)) || dialect == domain.Messages && dialects.MayContain(conversation, "definition")
}

// useOf visits a server tool, and the tools that it uses by default, unless tool gives it others, and the model
// that tool runs by default. There may be no t, and no tool.
func (s *useSearch) useOf(t *servertools.Tool, tool jsontext.Value) *finding {
	if t == nil {
		return nil
	}
	if found := s.visit(use{tool: t.Name}); found != nil || s.isChoice {
		return found
	}
	if !gives(tool, "tools") {
		for _, name := range t.Brings {
			if found := s.visit(use{tool: name}); found != nil {
				return found
			}
		}
	}
	if t.Runs == "" || tool == nil || gives(tool, t.Runs) {
		return nil
	}
	return s.visit(use{model: "openrouter/" + strings.TrimPrefix(t.Name, servertools.Namespace)})
}

// gives reports whether a tool or a plugin, or its parameters, has a member that says something. An empty list
// of tools does.
func gives(tool jsontext.Value, member string) bool {
	for _, object := range []jsontext.Value{tool, rawjson.Get(tool, "parameters")} {
		value := rawjson.Get(object, member)
		says := value.Kind() == '[' && (member == "tools" || !rawjson.IsEmpty(value))
		if member == "model" {
			says = value.Kind() == '"' && !rawjson.IsText(value, "")
		}
		if says {
			return true
		}
	}
	return false
}

// model visits a model that is not the request's own. A gateway would resolve a reference in it.
func (s *useSearch) model(value jsontext.Value) *finding {
	switch {
	case value == nil, value.Kind() == 'n':
		return nil
	case !dialects.IsModelName(value):
		return &finding{mistake: "must be " + dialects.Fields["model"].Form.Want}
	case reference.IsReference(value):
		return &finding{mistake: "must not refer to a preset"}
	}
	return s.named(textUpTo(value, reference.MaxReference))
}

// named visits a model, and the server tool that its name implies.
func (s *useSearch) named(model string) *finding {
	if model == "" {
		return nil
	}
	if found := s.visit(use{model: model}); found != nil {
		return found
	}
	return s.useOf(servertools.OfModel(model), nil)
}

// tool searches a tool, a plugin, a choice of tools, or the member part of one.
func (s *useSearch) tool(part string, tool jsontext.Value, depth int) (found *finding) {
	switch s.visited++; {
	case tool.Kind() != '{':
		return &finding{mistake: "must be an object"}
	case depth > maxToolDepth:
		return &finding{mistake: "is nested too deeply"}
	case s.visited > maxVisited:
		return &finding{mistake: "must not bring the tools and plugins above " + strconv.Itoa(maxVisited)}
	}
	seen := make([]string, 0, 16)
	kind := rawjson.Get(tool, "type")
	isFunction := kind == nil || servertools.IsCallers(kind)
	for m, broken := range servertools.Members.Object(tool) {
		if broken != nil || servertools.Members[m.Name] == "" || slices.Contains(seen, m.Name) {
			found = &finding{mistake: "is not a member that passes"}
			return found.under(m.Name)
		}
		seen = append(seen, m.Name)
		switch m.Name {
		case "type", "id":
			found = s.kind(m, tool)
		case "name":
			found = s.functionName(m.Value, isFunction && !s.isChoice && part != "parameters")
		case "model":
			found = s.model(m.Value)
		case "analysis_models", "allowed_models", "tools":
			read := s.model
			if m.Name == "tools" {
				read = func(tool jsontext.Value) *finding { return s.tool("", tool, depth+1) }
			}
			if found = each(m.Value, read); m.Value.Kind() != '[' && m.Value.Kind() != 'n' {
				found = &finding{mistake: "must be an array"}
			}
		case "parameters", "function", "custom", "allowed_tools", "svg":
			isSchema := m.Name == "parameters" && (isFunction || rawjson.IsText(kind, "tool_search"))
			isNames := m.Name == "allowed_tools" && !s.isChoice // of an MCP server
			if m.Value.Kind() != 'n' && !isSchema && !isNames {
				found = s.tool(m.Name, m.Value, depth+1)
			}
		}
		if found != nil {
			return found.under(m.Name)
		}
	}
	return nil
}

// functionName checks the name of a tool, which must not be that of one that a gateway answers itself. That of
// a function may be one that LiteLLM takes for web_search.
func (s *useSearch) functionName(name jsontext.Value, isFunction bool) *finding {
	const litellm = "litellm_"
	text := strings.TrimLeft(textUpTo(name, dialects.MaxText), " \t")
	switch {
	case strings.HasPrefix(text, "$"), strings.EqualFold(text[:min(len(litellm), len(text))], litellm):
		return &finding{mistake: "is the name of a tool that gateways run, and not of a function,"}
	case isFunction && servertools.IsWebSearch(text):
		return s.visit(use{tool: servertools.Namespace + "web_search"})
	}
	return nil
}

// kind visits the server tool of a type of a tool, or of the id of a plugin, unless the plugin is off.
func (s *useSearch) kind(m rawjson.Member, tool jsontext.Value) (found *finding) {
	text := textUpTo(m.Value, dialects.MaxText)
	t, isKnown := servertools.OfPlugin(text)
	if m.Name == "type" {
		if t, isKnown = nil, true; !servertools.IsCallers(m.Value) {
			t, isKnown = servertools.OfType(text)
		}
	}
	if rawjson.Get(tool, "enabled").Kind() != 'f' {
		found = s.useOf(t, tool)
	}
	if found == nil && !isKnown {
		found = &finding{mistake: "is not a kind of tool or plugin that passes"}
	}
	return found
}

// textUpTo returns the text of a string, cut behind so many bytes, or "" for another value.
func textUpTo(value jsontext.Value, most int) string {
	text, _ := rawjson.Head(value, most)
	return text
}
