package inference

import (
	"slices"
	"strings"
)

// serverTool is a tool that a gateway or a provider runs, with all spellings of its use.
// docs/workspaces.md lists them, too.
type serverTool struct {
	// name is the name by which workspaces disable the tool.
	name string
	// types are prefixes of the tool's types, because many types end in a date. Some
	// clients use one as the name of a member, in a tool without a type.
	types []string
	// plugins are ids of plugins.
	plugins []string
	// fields are the request fields that switch the tool on, unless they are null or false.
	fields []string
	// models are names of models, in any letter case.
	models []string
	// variants are suffixes of a model's name after a colon, in any letter case.
	variants []string
	// brings are the tools that it uses if it has no list of its own.
	brings []string
}

// vendorNamespace is the prefix of the names of server tools.
const vendorNamespace = "openrouter:"

// serverTools are the known server tools. An unknown one can be disabled, too: its types
// are its name, with and without the namespace.
var serverTools = []serverTool{
	{name: "openrouter:advisor", types: []string{"advisor"}},
	{name: "openrouter:apply_patch", types: []string{"apply_patch"}},
	{name: "openrouter:bash", types: []string{"bash"}},
	{name: "openrouter:browser_use", types: []string{"browser", "computer"}},
	{name: "openrouter:code_interpreter", types: []string{"code_interpreter", "code_execution", "codeExecution"}},
	{name: "openrouter:datetime", types: []string{"datetime"}},
	{name: "openrouter:experimental__search_models", types: []string{"experimental__search_models"}},
	{name: "openrouter:file_search", types: []string{"file_search"}},
	{name: "openrouter:files", types: []string{"files"}},
	{
		name: "openrouter:fusion", types: []string{"fusion"}, plugins: []string{"fusion"}, models: []string{"openrouter/fusion"},
		brings: []string{"openrouter:web_search", "openrouter:web_fetch"},
	},
	{name: "openrouter:image_generation", types: []string{"image_generation"}},
	{name: "openrouter:mcp", types: []string{"mcp"}, fields: []string{"mcp_servers"}},
	{name: "openrouter:memory", types: []string{"memory"}},
	{name: "openrouter:shell", types: []string{"shell", "local_shell"}},
	{name: "openrouter:subagent", types: []string{"subagent"}},
	{name: "openrouter:text_editor", types: []string{"text_editor"}},
	{name: "openrouter:tool_search", types: []string{"tool_search"}},
	{name: "openrouter:web_fetch", types: []string{"web_fetch", "url_context", "urlContext"}, plugins: []string{"web-fetch"}},
	{
		name: "openrouter:web_search", plugins: []string{"web"}, variants: []string{"online"},
		types:  []string{"web_search", "x_search", "browser_search", "google_search", "googleSearch", "enterprise_web_search", "enterpriseWebSearch"},
		fields: []string{"web_search_options", "search_parameters", "enable_search"},
	},
}

// clientTypes are the types of tools, and of tool choices, that belong to no server tool.
var clientTypes = []string{"", "function", "custom", "namespace", "allowed_tools", "auto", "any", "none", "tool"}

// toolOfType returns the name of the server tool with a type, or "". It ignores letter case
// and surrounding space, because some gateways do.
func toolOfType(kind string) string {
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case slices.Contains(clientTypes, kind):
		return ""
	case strings.Contains(kind, ":"): // a namespace
		return kind
	}
	if name := toolOfMember(kind); name != "" {
		return name
	}
	return vendorNamespace + kind
}

// toolOfPlugin returns the name of the server tool of a plugin, or "".
func toolOfPlugin(id string) string {
	return findTool(func(t *serverTool) bool { return containsFold(t.plugins, strings.TrimSpace(id)) })
}

// toolOfField returns the name of the server tool that a request field switches on, or "".
func toolOfField(field string) string {
	return findTool(func(t *serverTool) bool { return containsFold(t.fields, field) })
}

// toolOfMember returns the name of the server tool for a member of a tool without a type,
// or "". It is the tool with the longest prefix of the member's name.
func toolOfMember(member string) string {
	name, longest := "", ""
	for i := range serverTools {
		for _, t := range serverTools[i].types {
			if len(t) > len(longest) && hasPrefixFold(member, t) {
				name, longest = serverTools[i].name, t
			}
		}
	}
	return name
}

// toolOfModel returns the name of the server tool that a model's name implies, or "". The
// name may have several vendors in front, and a reference at the end. LiteLLM takes a name
// with commas for a list of models. If they imply several tools, the first in serverTools
// counts. Lists can be very long, so nothing is collected.
func toolOfModel(model string) string {
	model = strings.ReplaceAll(strings.ToLower(model), "@", ":")
	return findTool(func(t *serverTool) bool {
		return (t.models != nil || t.variants != nil) && t.isImpliedBy(model)
	})
}

// isImpliedBy reports whether a list of models in lower case implies the tool. It has
// commas between models, and colons between the parts of each.
func (t *serverTool) isImpliedBy(models string) bool {
	for model := range strings.SplitSeq(models, ",") {
		isVariant := false
		for part := range strings.SplitSeq(model, ":") {
			part = strings.TrimSpace(part)
			switch {
			case isVariant && slices.Contains(t.variants, part):
				return true
			case !isVariant && slices.ContainsFunc(t.models, func(name string) bool { return part == name || strings.HasSuffix(part, "/"+name) }):
				return true
			}
			isVariant = true
		}
	}
	return false
}

func findTool(by func(t *serverTool) bool) string {
	if i := slices.IndexFunc(serverTools, func(t serverTool) bool { return by(&t) }); i >= 0 {
		return serverTools[i].name
	}
	return ""
}

// impliedTools returns the tools that a server tool uses if it has no list of its own.
func impliedTools(tool string) []string {
	if i := slices.IndexFunc(serverTools, func(t serverTool) bool { return t.name == tool }); i >= 0 {
		return serverTools[i].brings
	}
	return nil
}

// hasPrefixFold reports whether text begins with an ASCII prefix in any letter case. Letters of
// more than one byte can be equal to those of ASCII.
func hasPrefixFold(text, prefix string) bool {
	letters := 0
	for i := range text {
		if letters == len(prefix) {
			text = text[:i]
			break
		}
		letters++
	}
	return strings.EqualFold(text, prefix)
}

func containsFold(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, text) })
}
