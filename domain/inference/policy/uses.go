package policy

import (
	"bytes"
	"errors"
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
	at          string // its place, a JSON Pointer
	brought     bool   // a tool uses it there by default
}

// useSearch looks for the server tools and models in fields that admit let pass. An error of visit
// ends it. A kind of tool, a plugin or a member of them that is not known is Invalid, but its name is
// visited first.
type useSearch struct {
	*Check
	visit    func(use) error
	isSilent bool // there are no places
	isChoice bool // which brings no other tools
	visited  int
}

// errFound ends a search that was successful.
var errFound = errors.New("found")

// maxVisited bounds the tools and plugins of a request, and maxToolDepth how deep they nest. The
// parameters of a tool are a level, and the tools in them another.
const (
	maxVisited   = 64 << 10
	maxToolDepth = 8
)

// search visits the uses in fields. Most have none that is refused, so places are made only then.
func (c *Check) search(fields []rawjson.Member, visit func(use) error) error {
	s := useSearch{Check: c, visit: visit, isSilent: true}
	if s.fields(fields) == nil {
		return nil
	}
	s = useSearch{Check: c, visit: visit}
	return s.fields(fields)
}

func (s *useSearch) fields(fields []rawjson.Member) error {
	for _, f := range fields {
		if f.Value.Kind() == 'n' || s.Opened[f.Name] { // a preset opens no field to what it does not limit
			continue
		}
		if err := s.field(f); err != nil {
			return err
		}
	}
	return nil
}

// below returns the place of a member.
func (s *useSearch) below(at, name string) string {
	if s.isSilent {
		return ""
	}
	return at + dialects.Pointer(name)
}

func (s *useSearch) refuse(at, message string) error {
	if s.isSilent {
		return errFound
	}
	return domain.InvalidAt(at, message+" "+s.where())
}

func (s *useSearch) each(at string, list jsontext.Value, read func(at string, element jsontext.Value) error) error {
	for i, element := range rawjson.Items(list) {
		place := ""
		if !s.isSilent {
			place = at + "/" + strconv.Itoa(i)
		}
		if err := read(place, element); err != nil {
			return err
		}
	}
	return nil
}

func (s *useSearch) field(f rawjson.Member) error {
	at := s.below("", f.Name)
	switch f.Name {
	case "model":
		name, _, _ := strings.Cut(textUpTo(f.Value, reference.MaxReference), domain.ReferenceMark) // which is resolved
		return s.named(at, name)
	case "moderation":
		return s.model(s.below(at, "model"), rawjson.Get(f.Value, "model"))
	case "models", "fallbacks", "tools", "functions", "plugins", "input", "messages":
		return s.each(at, f.Value, func(at string, element jsontext.Value) error { return s.element(f.Name, at, element) })
	case "tool_choice":
		if f.Value.Kind() == '{' {
			s.isChoice = true
			_, err := s.tool(at, "", f.Value, 0)
			s.isChoice = false
			return err
		}
	case "container":
		if skills := rawjson.Get(f.Value, "skills"); skills == nil || rawjson.IsEmpty(skills) {
			return nil
		}
		at = s.below(at, "skills")
	}
	return s.useOf(toolOfField(f.Name), at)
}

// element searches an element of a field that is a list.
func (s *useSearch) element(field, at string, element jsontext.Value) error {
	switch {
	case field == "input" || field == "messages":
		return s.item(at, element)
	case field == "models" || field == "fallbacks" && element.Kind() == '"':
		return s.model(at, element)
	case field == "fallbacks":
		return s.model(s.below(at, "model"), rawjson.Get(element, "model"))
	}
	_, err := s.tool(at, "", element, 0)
	return err
}

// item searches an item of a conversation, which may add tools.
func (s *useSearch) item(at string, item jsontext.Value) error {
	for tools := range toolsOf(s.Dialect, item) {
		if err := s.tools(s.below(at, "tools"), tools, 0); err != nil {
			return err
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
func (s *useSearch) useOf(tool, at string) error {
	if tool == "" {
		return nil
	}
	if err := s.visit(use{tool: tool, at: at}); err != nil {
		return err
	}
	return s.broughtBy(tool, at, []string{"model", "analysis_models"})
}

// broughtBy visits the tools and models that a tool uses by default, where it is not given others.
func (s *useSearch) broughtBy(name, at string, given []string) error {
	t := toolNamed(name)
	if !slices.Contains(given, "tools") {
		for _, tool := range t.brings {
			if err := s.visit(use{tool: tool, at: at, brought: true}); err != nil {
				return err
			}
		}
	}
	if t.runs == "" || slices.Contains(given, t.runs) {
		return nil
	}
	return s.visit(use{model: "openrouter/" + strings.TrimPrefix(name, vendorNamespace), at: at, brought: true})
}

// model visits a model that is not the request's own. A gateway would resolve a reference in it.
func (s *useSearch) model(at string, value jsontext.Value) error {
	switch {
	case value == nil, value.Kind() == 'n':
		return nil
	case !isModelName(value):
		return s.refuse(at, "must be "+aModel.want)
	case reference.IsReference(value):
		return s.refuse(at, "must not refer to a preset")
	}
	return s.named(at, textUpTo(value, reference.MaxReference))
}

func (s *useSearch) named(at, model string) error {
	if model == "" {
		return nil
	}
	if err := s.visit(use{model: model, at: at}); err != nil {
		return err
	}
	return s.useOf(toolOfModel(model), at)
}

func (s *useSearch) tools(at string, tools jsontext.Value, depth int) error {
	return s.each(at, tools, func(at string, tool jsontext.Value) error {
		_, err := s.tool(at, "", tool, depth)
		return err
	})
}

// tool searches a tool, a plugin, a choice of tools, or the member part of one. It returns which of the
// members tools, model and analysis_models say something there.
func (s *useSearch) tool(at, part string, tool jsontext.Value, depth int) (given []string, err error) {
	switch s.visited++; {
	case tool.Kind() != '{':
		return nil, s.refuse(at, "must be an object")
	case depth > maxToolDepth:
		return nil, s.refuse(at, "is nested too deeply")
	case s.visited > maxVisited:
		return nil, s.refuse(at, "must not bring the tools and plugins above "+strconv.Itoa(maxVisited))
	}
	var name, place string
	seen := make([]string, 0, 16)
	isOff, kind := rawjson.Get(tool, "enabled").Kind() == 'f', rawjson.Get(tool, "type")
	isFunction := kind == nil || isCallers(kind)
	for m, broken := range toolMembers.Object(tool) {
		below := s.below(at, m.Name)
		if broken != nil || toolMembers[m.Name] == "" || slices.Contains(seen, m.Name) {
			return given, s.refuse(below, "is not a member that passes")
		}
		seen = append(seen, m.Name)
		switch m.Name {
		case "type", "id":
			name, err = s.kind(below, m, isOff)
			place = below
		case "name":
			err = s.functionName(below, m.Value, isFunction && !s.isChoice && part != "parameters")
		case "model":
			if !rawjson.IsText(m.Value, "") && m.Value.Kind() != 'n' {
				given = append(given, m.Name)
			}
			err = s.model(below, m.Value)
		case "analysis_models", "allowed_models", "tools":
			if m.Value.Kind() == '[' && (m.Name == "tools" || !rawjson.IsEmpty(m.Value)) {
				given = append(given, m.Name)
			}
			if m.Name == "tools" {
				err = s.tools(below, m.Value, depth+1)
			} else {
				err = s.each(below, m.Value, s.model)
			}
		case "parameters", "function", "custom", "allowed_tools", "svg":
			isSchema := m.Name == "parameters" && (isFunction || rawjson.IsText(kind, "tool_search"))
			isNames := m.Name == "allowed_tools" && !s.isChoice // of an MCP server
			if m.Value.Kind() != 'n' && !isSchema && !isNames {
				var inside []string
				if inside, err = s.tool(below, m.Name, m.Value, depth+1); m.Name != "svg" { // which has a model of its own
					given = append(given, inside...)
				}
			}
		}
		if err != nil {
			return given, err
		}
	}
	if name != "" && !s.isChoice {
		err = s.broughtBy(name, place, given)
	}
	return given, err
}

// functionName checks the name of a tool. That of a function counts as the server tool of that type.
func (s *useSearch) functionName(at string, name jsontext.Value, isFunction bool) error {
	if isGateways(name) {
		return s.refuse(at, "is the name of a tool that gateways run, and not of a function,")
	}
	if tool := toolOfFunction(name); isFunction && tool != "" {
		return s.visit(use{tool: tool, at: at})
	}
	return nil
}

// kind visits the server tool of a type of a tool, or of the id of a plugin. It returns "" if there is
// none, or if the plugin is off.
func (s *useSearch) kind(at string, m rawjson.Member, isOff bool) (name string, err error) {
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
		err = s.visit(use{tool: name, at: at})
	}
	if err == nil && !known {
		err = s.refuse(at, "is not a kind of tool or plugin that passes")
	}
	return name, err
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
