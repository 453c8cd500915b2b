package policy

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// serverTool is a tool that a gateway or a provider runs, with the ways to use it.
// docs/workspaces.md lists them, too.
type serverTool struct {
	// name is the name by which workspaces disable the tool.
	name string
	// types are the tool's types, without the namespace and the date in which many end.
	types []string
	// plugins are ids of plugins, and fields the request fields that switch the tool on.
	plugins, fields []string
	// models are names of models, in any letter case, and variants are suffixes of a model's name
	// after a colon.
	models, variants []string
	// brings are the tools that it uses if it has no list of its own.
	brings []string
	// runs is the member that names the models that the tool runs. Without one, it chooses them.
	runs string
	// isFunction tells that LiteLLM runs a function of this name itself.
	isFunction bool
}

// vendorNamespace is the prefix of the names of server tools.
const vendorNamespace = "openrouter:"

// serverTools are the known server tools. Another one can be disabled, too, and requests cannot use it
// where any is disabled.
var serverTools = []serverTool{
	{name: "openrouter:advisor", types: []string{"advisor"}, runs: "model"},
	{name: "openrouter:apply_patch", types: []string{"apply_patch"}},
	{name: "openrouter:bash", types: []string{"bash"}},
	{name: "openrouter:browser_use", types: []string{"browser", "browser_use", "browser_toolset", "computer", "computer_use", "computer_toolset"}},
	{name: "openrouter:code_interpreter", types: []string{"code_interpreter", "code_execution", "programmatic_tool_calling"}, fields: []string{"container"}},
	{name: "openrouter:datetime", types: []string{"datetime"}},
	{name: "openrouter:experimental__search_models", types: []string{"experimental__search_models"}},
	{name: "openrouter:file_search", types: []string{"file_search"}},
	{name: "openrouter:files", types: []string{"files"}},
	{
		name: "openrouter:fusion", types: []string{"fusion"}, plugins: []string{"fusion"}, models: []string{"openrouter/fusion"},
		brings: []string{"openrouter:web_search", "openrouter:web_fetch"}, runs: "analysis_models",
	},
	{name: "openrouter:image_generation", types: []string{"image_generation"}, runs: "model"},
	{name: "openrouter:mcp", types: []string{"mcp", "mcp_toolset"}, fields: []string{"mcp_servers"}},
	{name: "openrouter:memory", types: []string{"memory"}},
	{name: "openrouter:shell", types: []string{"shell", "local_shell"}},
	{name: "openrouter:subagent", types: []string{"subagent"}, fields: []string{"multi_agent"}, runs: "model"},
	{name: "openrouter:text_editor", types: []string{"text_editor"}},
	{name: "openrouter:tool_search", types: []string{"tool_search", "tool_search_tool_bm25", "tool_search_tool_regex"}},
	{name: "openrouter:web_fetch", types: []string{"web_fetch"}, plugins: []string{"web-fetch"}},
	{
		name: "openrouter:web_search", types: []string{"web_search"}, plugins: []string{"web"},
		fields: []string{"web_search_options"}, variants: []string{"online"}, isFunction: true,
	},
}

// callersTypes are the types of tools, and of choices, that belong to no server tool.
var callersTypes = []string{"", "function", "custom", "namespace", "allowed_tools", "auto", "any", "none", "tool"}

// pluginIDs are the plugins that there are.
var pluginIDs = []string{
	"auto-beta-router", "auto-router", "context-compression", "file-parser", "fusion", "moderation", "pareto-router",
	"response-healing", "switchyard-router", "web", "web-fetch",
}

// toolMembers are the members of tools of all dialects, of the choice of one, of the parameters of
// server tools, and of plugins. The parameters of a function are a JSON Schema.
var toolMembers = rawjson.NewNames(strings.Fields(`
	action algorithm allowed_callers allowed_domains allowed_models allowed_tools analysis_models aspect_ratio async
	authorization background blocked_domains cache_control caching citations complexity configs connector_id container
	cost_quality_tradeoff cost_tier custom default_config defer_loading description disable_parallel_tool_use display_height
	display_height_px display_number display_width display_width_px eager_input_streaming enable_zoom enabled engine
	environment exclude_domains excluded_domains excluded_models execution external_web_access filters format
	forward_transcript frame_count frame_duration_ms function headers id image_size include_domains inherit_functions
	inherited_function_names input_examples input_fidelity input_image_mask input_schema instructions max_characters
	max_completion_tokens max_content_tokens max_num_results max_price max_results max_tokens max_tool_calls
	max_total_results max_uses mcp_server_name min_coding_score mode model moderation name output_compression output_format
	output_schema parameters partial_images pdf pin_model preset price_source quality ranking_options reasoning
	require_approval response_inclusion search_content_types search_context_size search_prompt server_description
	server_label server_url size stream strict svg temperature timezone tools tunnel_id type url_sources use_cache
	user_location vector_store_ids x_search`)...)

// toolOfType returns the name of the server tool with a type, which may be an unknown one. Many types
// end in a date.
func toolOfType(kind string) (name string, known bool) {
	bare := strings.TrimPrefix(kind, vendorNamespace)
	undated := bare
	for i := strings.LastIndexByte(undated, '_'); i > 0 && strings.Trim(undated[i+1:], "0123456789") == ""; i = strings.LastIndexByte(undated, '_') {
		undated = undated[:i]
	}
	undated = strings.TrimSuffix(undated, "_preview")
	if found := findTool(func(t *serverTool) bool { return slices.Contains(t.types, undated) }); found != "" {
		return found, true
	}
	if strings.Contains(bare, ":") { // another namespace
		return bare, false
	}
	return vendorNamespace + bare, false
}

// toolOfPlugin returns the name of the server tool of a plugin, or "".
func toolOfPlugin(id string) string {
	return findTool(func(t *serverTool) bool { return slices.Contains(t.plugins, id) })
}

// toolOfField returns the name of the server tool that a request field switches on, or "".
func toolOfField(field string) string {
	return findTool(func(t *serverTool) bool { return slices.Contains(t.fields, field) })
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

// AllServerTools are the names of serverTools.
var AllServerTools = func() (names []string) {
	for _, t := range serverTools {
		names = append(names, t.name)
	}
	return names
}()

// toolNamed returns the server tool of a name, or a tool without any properties.
func toolNamed(name string) serverTool {
	if i := slices.IndexFunc(serverTools, func(t serverTool) bool { return t.name == name }); i >= 0 {
		return serverTools[i]
	}
	return serverTool{}
}

// toolOfFunction returns the name of the server tool that LiteLLM runs for a function's name, or "". Letter
// case and signs do not count, since that may be WebSearch.
func toolOfFunction(name jsontext.Value) string {
	text, _ := rawjson.Head(name, maxFunctionName)
	folded := foldName(text)
	return findTool(func(t *serverTool) bool {
		return t.isFunction && slices.ContainsFunc(t.types, func(kind string) bool { return foldName(kind) == folded })
	})
}

// maxFunctionName is more bytes than the types of server tools have.
const maxFunctionName = 128

// foldName returns the letters and digits of a name, in lower case.
func foldName(name string) string {
	return strings.Map(func(char rune) rune {
		if unicode.IsLetter(char) || unicode.IsDigit(char) {
			return unicode.ToLower(char)
		}
		return -1
	}, name)
}
