package policy

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// use is a server tool or a model that a request names.
type use struct {
	tool, model string // one of them is empty
	brought     bool   // a tool uses it there by default
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
	case "moderation":
		found = s.model(rawjson.Get(f.Value, "model")).under("model")
	case "models", "fallbacks", "tools", "functions", "plugins", "input", "messages":
		found = each(f.Value, func(element jsontext.Value) *finding { return s.element(f.Name, element) })
	case "tool_choice":
		if f.Value.Kind() == '{' {
			s.isChoice = true
			_, found = s.tool("", f.Value, 0)
			s.isChoice = false
		}
	case "container":
		if skills := rawjson.Get(f.Value, "skills"); skills != nil && !rawjson.IsEmpty(skills) {
			found = s.useOf(toolOfField(f.Name)).under("skills")
		}
	default:
		found = s.useOf(toolOfField(f.Name))
	}
	return found.under(f.Name)
}

// element searches an element of a field that is a list.
func (s *useSearch) element(field string, element jsontext.Value) *finding {
	switch {
	case field == "input" || field == "messages":
		return s.item(element)
	case field == "models" || field == "fallbacks" && element.Kind() == '"':
		return s.model(element)
	case field == "fallbacks":
		return s.model(rawjson.Get(element, "model")).under("model")
	}
	_, found := s.tool("", element, 0)
	return found
}

// item searches an item of a conversation, which may add tools.
func (s *useSearch) item(item jsontext.Value) *finding {
	for tools := range toolsOf(s.Dialect, item) {
		if found := s.tools(tools, 0); found != nil {
			return found.under("tools")
		}
	}
	return nil
}

// toolsOf yields the lists of tools that an item of a conversation gives to the model, as
// additional_tools does in the Responses API, and a block that defines a tool in the Messages API. The
// tools that an MCP server had in an earlier answer are none: clients send them back. They have no
// type.
func toolsOf(dialect domain.Dialect, item jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		isFirst, isEarlier := true, false
		for name, value := range rawjson.Pairs(item) {
			if !dialects.MayBeName(name, "tools") || value.Kind() == 'n' || rawjson.IsEmpty(value) {
				continue
			}
			if isFirst {
				isFirst, isEarlier = false, dialect == domain.Responses && rawjson.IsText(dialects.SoleMember(item, "type"), "mcp_list_tools")
			}
			if (!isEarlier || !areUntyped(value)) && !yield(value) {
				return
			}
		}
		if dialect != domain.Messages || !dialects.MayContain(item, "definition") {
			return
		}
		for _, block := range rawjson.Items(rawjson.Get(item, "content")) {
			added := []jsontext.Value{block}
			for _, change := range rawjson.Items(rawjson.Get(block, "tool_changes")) {
				added = append(added, change)
			}
			for _, one := range added {
				if tool := rawjson.Get(rawjson.Get(one, "tool"), "definition"); tool != nil && !yield(rawjson.ArrayOf(tool)) {
					return
				}
			}
		}
	}
}

// addsTools reports whether an item of a conversation gives tools to the model.
func addsTools(dialect domain.Dialect, item jsontext.Value) bool {
	for range toolsOf(dialect, item) {
		return true
	}
	return false
}

func areUntyped(tools jsontext.Value) bool {
	for _, tool := range rawjson.Items(tools) {
		for name := range rawjson.Pairs(tool) {
			if dialects.MayBeName(name, "type") {
				return false
			}
		}
	}
	return true
}

// useOf visits the tool of a field or a model, and the tools that it brings. There may be none.
func (s *useSearch) useOf(tool string) *finding {
	if tool == "" {
		return nil
	}
	if found := s.visit(use{tool: tool}); found != nil {
		return found
	}
	return s.broughtBy(tool, []string{"model", "analysis_models"})
}

// broughtBy visits the tools and models that a tool uses by default, where it is not given others.
func (s *useSearch) broughtBy(name string, given []string) *finding {
	t := toolNamed(name)
	if !slices.Contains(given, "tools") {
		for _, tool := range t.brings {
			if found := s.visit(use{tool: tool, brought: true}); found != nil {
				return found
			}
		}
	}
	if t.runs == "" || slices.Contains(given, t.runs) {
		return nil
	}
	return s.visit(use{model: "openrouter/" + strings.TrimPrefix(name, vendorNamespace), brought: true})
}

// model visits a model that is not the request's own. A gateway would resolve a reference in it.
func (s *useSearch) model(value jsontext.Value) *finding {
	switch {
	case value == nil, value.Kind() == 'n':
		return nil
	case !isModelName(value):
		return &finding{mistake: "must be " + aModel.want}
	case reference.IsReference(value):
		return &finding{mistake: "must not refer to a preset"}
	}
	return s.named(textUpTo(value, reference.MaxReference))
}

func (s *useSearch) named(model string) *finding {
	if model == "" {
		return nil
	}
	if found := s.visit(use{model: model}); found != nil {
		return found
	}
	return s.useOf(toolOfModel(model))
}

func (s *useSearch) tools(tools jsontext.Value, depth int) *finding {
	return each(tools, func(tool jsontext.Value) *finding {
		_, found := s.tool("", tool, depth)
		return found
	})
}

// tool searches a tool, a plugin, a choice of tools, or the member part of one. It returns which of the
// members tools, model and analysis_models say something there.
func (s *useSearch) tool(part string, tool jsontext.Value, depth int) (given []string, found *finding) {
	switch s.visited++; {
	case tool.Kind() != '{':
		return nil, &finding{mistake: "must be an object"}
	case depth > maxToolDepth:
		return nil, &finding{mistake: "is nested too deeply"}
	case s.visited > maxVisited:
		return nil, &finding{mistake: "must not bring the tools and plugins above " + strconv.Itoa(maxVisited)}
	}
	var name, place string
	seen := make([]string, 0, 16)
	isOff, kind := rawjson.Get(tool, "enabled").Kind() == 'f', rawjson.Get(tool, "type")
	isFunction := kind == nil || isCallers(kind)
	for m, broken := range toolMembers.Object(tool) {
		if broken != nil || toolMembers[m.Name] == "" || slices.Contains(seen, m.Name) {
			found = &finding{mistake: "is not a member that passes"}
			return given, found.under(m.Name)
		}
		seen = append(seen, m.Name)
		switch m.Name {
		case "type", "id":
			name, found = s.kind(m, isOff)
			place = m.Name
		case "name":
			found = s.functionName(m.Value, isFunction && !s.isChoice && part != "parameters")
		case "model":
			if !rawjson.IsText(m.Value, "") && m.Value.Kind() != 'n' {
				given = append(given, m.Name)
			}
			found = s.model(m.Value)
		case "analysis_models", "allowed_models", "tools":
			if m.Value.Kind() == '[' && (m.Name == "tools" || !rawjson.IsEmpty(m.Value)) {
				given = append(given, m.Name)
			}
			if m.Name == "tools" {
				found = s.tools(m.Value, depth+1)
			} else {
				found = each(m.Value, s.model)
			}
		case "parameters", "function", "custom", "allowed_tools", "svg":
			isSchema := m.Name == "parameters" && (isFunction || rawjson.IsText(kind, "tool_search"))
			isNames := m.Name == "allowed_tools" && !s.isChoice // of an MCP server
			if m.Value.Kind() != 'n' && !isSchema && !isNames {
				var inside []string
				if inside, found = s.tool(m.Name, m.Value, depth+1); m.Name != "svg" { // which has a model of its own
					given = append(given, inside...)
				}
			}
		}
		if found != nil {
			return given, found.under(m.Name)
		}
	}
	if name != "" && !s.isChoice {
		found = s.broughtBy(name, given).under(place)
	}
	return given, found
}

// functionName checks the name of a tool. That of a function counts as the server tool of that type.
func (s *useSearch) functionName(name jsontext.Value, isFunction bool) *finding {
	if isGateways(name) {
		return &finding{mistake: "is the name of a tool that gateways run, and not of a function,"}
	}
	if tool := toolOfFunction(name); isFunction && tool != "" {
		return s.visit(use{tool: tool})
	}
	return nil
}

// kind visits the server tool of a type of a tool, or of the id of a plugin. It returns "" if there is
// none, or if the plugin is off.
func (s *useSearch) kind(m rawjson.Member, isOff bool) (name string, found *finding) {
	known := true
	switch {
	case m.Name == "id":
		id := textUpTo(m.Value, dialects.MaxText)
		name, known = toolOfPlugin(id), slices.Contains(pluginIDs, id)
	case !isCallers(m.Value):
		name, known = toolOfType(textUpTo(m.Value, dialects.MaxText))
	}
	if isOff {
		name = ""
	}
	if name != "" {
		found = s.visit(use{tool: name})
	}
	if found == nil && !known {
		found = &finding{mistake: "is not a kind of tool or plugin that passes"}
	}
	return name, found
}

// isCallers reports whether a type is that of no server tool.
func isCallers(kind jsontext.Value) bool {
	return kind.Kind() == 'n' || slices.ContainsFunc(callersTypes, func(name string) bool { return rawjson.IsText(kind, name) })
}

// isGateways reports whether a name is that of a tool that a gateway answers itself.
func isGateways(name jsontext.Value) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = rawjson.Quote(textUpTo(name, dialects.MaxText))
	}
	inside := bytes.TrimLeft(bytes.Trim(name, `"`), " \t")
	const litellm = "litellm_"
	return bytes.HasPrefix(inside, []byte("$")) || len(inside) >= len(litellm) && strings.EqualFold(string(inside[:len(litellm)]), litellm)
}

// textUpTo returns the text of a string, cut behind so many bytes, or "" for another value.
func textUpTo(value jsontext.Value, most int) string {
	text, _ := rawjson.Head(value, most)
	return text
}
