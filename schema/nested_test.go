package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestNestedTypes gives the members of nested objects a value of every type. A member
// accepts the listed types, joined by |. A type with a question mark is accepted only for
// some values, which other tests cover. Each object is tried in the requests of the APIs
// that have it, by their first letters.
func TestNestedTypes(t *testing.T) {
	tier.NoRace(t)
	const (
		stringsOrNull = "array|null"
		maxUses       = "max_uses:integer"
		webSearch     = "engine:string? filters:object|null max_results:integer max_uses:integer mode:string? " +
			"search_context_size:string? user_location:object|null x_search:object"
		preview  = "filters:object|null max_results:integer user_location:object?|null"
		location = "city:string|null country:string|null region:string|null timezone:string|null type:string?"
		xSearch  = "allowed_x_handles:array excluded_x_handles:array enable_image_understanding:boolean enable_video_understanding:boolean"
		search   = "engine:string? mode:string? max_results:integer max_total_results:integer max_uses:integer max_characters:integer " +
			"search_context_size:string? allowed_domains:array excluded_domains:array user_location:object|null x_search:object other:any"
		router = "enabled:boolean allowed_models:array excluded_models:array cost_tier:string? cost_quality_tradeoff:integer"
	)
	tool := func(kind, more string) string {
		return `{"tools":[{"type":"` + kind + `",` + more + `%s}]}`
	}
	server := func(kind string) string {
		return `{"tools":[{"type":"openrouter:` + kind + `","parameters":{%s}}]}`
	}
	plugin := func(id string) string {
		return `{"plugins":[{"id":"` + id + `",%s}]}`
	}
	for _, object := range []struct{ apis, path, body, members string }{
		{"rc", "/debug", `{"debug":{%s}}`, "echo_upstream_body:boolean other:any"},
		{"rc", "/image_config", `{"image_config":{%s}}`, "anything:string|number|array"},
		{"rcm", "/trace", `{"trace":{%s}}`, "trace_id:string trace_name:string span_name:string generation_name:string parent_span_id:string other:any"},
		{"rc", "/reasoning", `{"reasoning":{%s}}`, "enabled:boolean|null max_tokens:integer|null effort:string?|null summary:string?|null context:string?|null mode:string?|null other:any"},
		{"rc", "/prompt_cache_options", `{"prompt_cache_options":{"mode":"explicit",%s}}`, "ttl:string|null other:any"},
		{"r", "/prompt", `{"prompt":{"id":"p",%s}}`, "variables:object|null other:any"},
		{"r", "/prompt", `{"prompt":{%s}}`, "id:string"},
		{"r", "/prompt/variables", `{"prompt":{"id":"p","variables":{%s}}}`, "v:string|object?"},
		{"r", "/prompt/variables/v", `{"prompt":{"id":"p","variables":{"v":{"type":"input_text","text":"t",%s}}}}`, "prompt_cache_breakpoint:object?|null other:any"},
		{"r", "/prompt/variables/v", `{"prompt":{"id":"p","variables":{"v":{"type":"input_text",%s}}}}`, "text:string"},
		{"r", "/prompt/variables/v", `{"prompt":{"id":"p","variables":{"v":{"type":"input_image","detail":"auto",%s}}}}`, "image_url:string|null file_id:any"},
		{"r", "/prompt/variables/v", `{"prompt":{"id":"p","variables":{"v":{"type":"input_file",%s}}}}`, "file_data:string file_id:string|null file_url:string filename:string other:any"},
		{"r", "/text", `{"text":{%s}}`, "format:object? verbosity:string?|null other:any"},
		{"r", "/text/format", `{"text":{"format":{"type":"json_schema","name":"n","schema":{},%s}}}`, "description:string strict:boolean|null other:any"},
		{"r", "/text/format", `{"text":{"format":{"type":"json_schema","name":"n",%s}}}`, "schema:object"},
		{"r", "/text/format", `{"text":{"format":{"type":"json_schema","schema":{},%s}}}`, "name:string"},
		{"r", "/tool_choice", `{"tool_choice":{"type":"function",%s}}`, "name:string"},
		{"r", "/tool_choice", `{"tool_choice":{"type":"allowed_tools","mode":"auto",%s}}`, "tools:array"},

		{"rcm", "/provider", `{"provider":{%s}}`, "allow_fallbacks:boolean|null data_collection:string?|null enforce_distillable_text:boolean|null " +
			"ignore:" + stringsOrNull + " only:" + stringsOrNull + " order:" + stringsOrNull + " max_price:object " +
			"preferred_max_latency:number|object|null preferred_min_throughput:number|object|null quantizations:" + stringsOrNull +
			" require_parameters:boolean|null sort:string?|object|null zdr:boolean|null"},
		{"rcm", "/provider/max_price", `{"provider":{"max_price":{%s}}}`, "prompt:string|number completion:string|number image:string|number audio:string|number request:string|number other:any"},
		{"rcm", "/provider/preferred_max_latency", `{"provider":{"preferred_max_latency":{%s}}}`, "p50:number|null p75:number|null p90:number|null p99:number|null p100:any"},
		{"rcm", "/provider/preferred_min_throughput", `{"provider":{"preferred_min_throughput":{%s}}}`, "p50:number|null p75:number|null p90:number|null p99:number|null p100:any"},
		{"rcm", "/provider/sort", `{"provider":{"sort":{%s}}}`, "by:string?|null partition:string?|null other:any"},

		{"rcm", "/plugins/0", plugin("auto-router"), router + " pin_model:boolean other:any"},
		{"rcm", "/plugins/0", plugin("auto-beta-router"), router + " other:any"},
		{"rcm", "/plugins/0", plugin("moderation"), "enabled:any other:any"},
		{"rcm", "/plugins/0", plugin("web"), "enabled:boolean engine:string? exclude_domains:array include_domains:array max_results:integer " + maxUses + " mode:string? search_prompt:string user_location:object? x_search:object other:any"},
		{"rcm", "/plugins/0/user_location", `{"plugins":[{"id":"web","user_location":{"type":"approximate",%s}}]}`, "city:string|null country:string|null region:string|null timezone:string|null"},
		{"rcm", "/plugins/0/x_search", `{"plugins":[{"id":"web","x_search":{%s}}]}`, xSearch},
		{"rcm", "/plugins/0", plugin("web-fetch"), "enabled:boolean allowed_domains:array blocked_domains:array max_content_tokens:integer " + maxUses},
		{"rcm", "/plugins/0", plugin("file-parser"), "enabled:boolean pdf:object"},
		{"rcm", "/plugins/0", plugin("response-healing"), "enabled:boolean"},
		{"rcm", "/plugins/0", plugin("context-compression"), "enabled:boolean engine:string?"},
		{"rcm", "/plugins/0", plugin("pareto-router"), "enabled:boolean max_price:number? price_source:string?"},
		{"rcm", "/plugins/0", plugin("switchyard-router"), "algorithm:string other:any"},
		{"rcm", "/plugins/0", plugin("fusion"), "enabled:boolean analysis_models:array? model:string preset:string? max_tool_calls:integer tools:array"},
		{"rcm", "/plugins/0/tools/0", `{"plugins":[{"id":"fusion","tools":[{"type":"t",%s}]}]}`, "parameters:object other:any"},
		{"rcm", "/plugins/0/tools/0", `{"plugins":[{"id":"fusion","tools":[{%s}]}]}`, "type:string"},

		{"rcm", "/stop_server_tools_when/0", `{"stop_server_tools_when":[{"type":"step_count_is",%s}]}`, "step_count:integer"},
		{"rcm", "/stop_server_tools_when/0", `{"stop_server_tools_when":[{"type":"max_cost",%s}]}`, "max_cost_in_dollars:number"},
		{"rcm", "/stop_server_tools_when/0", `{"stop_server_tools_when":[{"type":"has_tool_call",%s}]}`, "tool_name:string"},
		{"rcm", "/stop_server_tools_when/0", `{"stop_server_tools_when":[{"type":"max_tokens_used",%s}]}`, "max_tokens:integer"},
		{"rcm", "/stop_server_tools_when/0", `{"stop_server_tools_when":[{"type":"finish_reason_is",%s}]}`, "reason:string"},

		{"r", "/tools/0", tool("function", `"name":"n","parameters":{},`), "description:string|null strict:boolean|null defer_loading:boolean async:boolean other:any"},
		{"r", "/tools/0", tool("function", `"name":"n",`), "parameters:object|null"},
		{"r", "/tools/0", tool("function", `"parameters":{},`), "name:string"},
		{"r", "/tools/0", tool("web_search", ""), webSearch + " other:any"},
		{"r", "/tools/0", tool("web_search_2025_08_26", ""), webSearch},
		{"r", "/tools/0", tool("web_search_preview", ""), preview},
		{"r", "/tools/0", tool("web_search_preview_2025_03_11", ""), preview},
		{"r", "/tools/0/filters", `{"tools":[{"type":"web_search","filters":{%s}}]}`, "allowed_domains:array|null blocked_domains:array|null excluded_domains:array|null other:any"},
		{"r", "/tools/0/user_location", `{"tools":[{"type":"web_search","user_location":{%s}}]}`, location},
		{"r", "/tools/0/x_search", `{"tools":[{"type":"web_search_preview","x_search":{%s}}]}`, xSearch},
		{"r", "/tools/0", tool("file_search", `"vector_store_ids":[],`), "max_num_results:integer filters:object?|null ranking_options:object"},
		{"r", "/tools/0", tool("file_search", ""), "vector_store_ids:array"},
		{"r", "/tools/0/filters", `{"tools":[{"type":"file_search","vector_store_ids":[],"filters":{"type":"eq","key":"k",%s}}]}`, "value:string|number|boolean|array"},
		{"r", "/tools/0/filters", `{"tools":[{"type":"file_search","vector_store_ids":[],"filters":{"type":"or",%s}}]}`, "filters:array"},
		{"r", "/tools/0/ranking_options", `{"tools":[{"type":"file_search","vector_store_ids":[],"ranking_options":{%s}}]}`, "ranker:string? score_threshold:number"},
		{"r", "/tools/0", tool("computer_use_preview", `"display_width":1,"environment":"mac",`), "display_height:integer"},
		{"r", "/tools/0", tool("computer_use_preview", `"display_height":1,"environment":"mac",`), "display_width:integer"},
		{"r", "/tools/0", tool("code_interpreter", ""), "container:string|object?"},
		{"r", "/tools/0/container", `{"tools":[{"type":"code_interpreter","container":{"type":"auto",%s}}]}`, "file_ids:array memory_limit:string?|null network_policy:object?"},
		{"r", "/tools/0", tool("mcp", `"server_label":"l",`), "server_url:string server_description:string authorization:string headers:object|null connector_id:string? allowed_tools:array|object|null require_approval:string?|object|null"},
		{"r", "/tools/0", tool("mcp", ""), "server_label:string"},
		{"r", "/tools/0/headers", `{"tools":[{"type":"mcp","server_label":"l","headers":{%s}}]}`, "any:string"},
		{"r", "/tools/0/allowed_tools", `{"tools":[{"type":"mcp","server_label":"l","allowed_tools":{%s}}]}`, "read_only:boolean tool_names:array"},
		{"r", "/tools/0/require_approval", `{"tools":[{"type":"mcp","server_label":"l","require_approval":{%s}}]}`, "always:object never:object other:any"},
		{"r", "/tools/0", tool("image_generation", ""), "input_image_mask:object model:string output_compression:integer partial_images:integer size:string"},
		{"r", "/tools/0/input_image_mask", `{"tools":[{"type":"image_generation","input_image_mask":{%s}}]}`, "file_id:string image_url:string"},
		{"r", "/tools/0", tool("local_shell", ""), "other:any"},
		{"r", "/tools/0", tool("shell", ""), "environment:any"},
		{"r", "/tools/0", tool("apply_patch", ""), "other:any"},
		{"r", "/tools/0", tool("custom", `"name":"n",`), "description:string format:object? async:boolean"},
		{"r", "/tools/0", tool("namespace", `"name":"n","tools":[],`), "description:string"},
		{"r", "/tools/0", tool("namespace", `"name":"n","description":"d",`), "tools:array"},
		{
			"r", "/tools/0/tools/0", `{"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"n",%s}]}]}`,
			"parameters:object|null description:string|null strict:boolean|null defer_loading:boolean output_schema:object|null allowed_callers:array|null async:boolean",
		},
		{"rcm", "/tools/0", tool("openrouter:files", ""), "parameters:object"},
		{"rcm", "/tools/0", tool("openrouter:tool_search", ""), "parameters:object"},
		{"rcm", "/tools/0", tool("vendor:anything", ""), "parameters:any"},
		{"rcm", "/tools/0/parameters", server("advisor"), "name:string model:string instructions:string forward_transcript:boolean stream:boolean temperature:number max_completion_tokens:integer reasoning:object other:any"},
		{"r", "/tools/0/parameters", server("subagent"), "name:string model:string instructions:string temperature:number max_completion_tokens:integer max_tool_calls:integer reasoning:object tools:array inherit_functions:boolean inherited_function_names:array"},
		{"rcm", "/tools/0/parameters/reasoning", `{"tools":[{"type":"openrouter:advisor","parameters":{"reasoning":{%s}}}]}`, "effort:string? max_tokens:integer"},
		{"rcm", "/tools/0/parameters", server("datetime"), "timezone:string"},
		{"rcm", "/tools/0/parameters", server("fusion"), "model:string max_tool_calls:integer max_completion_tokens:integer temperature:number reasoning:object cache_control:object? tools:array"},
		{"rcm", "/tools/0/parameters", server("image_generation"), "model:string other:any"},
		{"rcm", "/tools/0/parameters", server("experimental__search_models"), "max_results:integer"},
		{"rcm", "/tools/0/parameters", server("web_search"), "max_results:integer max_total_results:integer max_uses:integer max_characters:integer allowed_domains:array excluded_domains:array user_location:object|null x_search:object"},
		{"rcm", "/tools/0/parameters", server("web_fetch"), "max_uses:integer max_content_tokens:integer allowed_domains:array blocked_domains:array"},
		{"rcm", "/tools/0/parameters", server("bash"), "environment:object? sleep_after_seconds:integer"},
		{"rcm", "/tools/0/parameters", server("shell"), "environment:object? sleep_after_seconds:integer"},
		{"rcm", "/tools/0/parameters/environment", `{"tools":[{"type":"openrouter:shell","parameters":{"environment":{"type":"container_auto",%s}}}]}`, "file_ids:array network_policy:object?"},
		{"rcm", "/tools/0/parameters", server("tool_search"), "max_results:integer"},

		{"c", "/logit_bias", `{"logit_bias":{%s}}`, "50256:number"},
		{"c", "/stream_options", `{"stream_options":{%s}}`, "include_usage:boolean other:any"},
		{"c", "/web_search_options", `{"web_search_options":{%s}}`, "search_context_size:string? other:any"},
		{"c", "/messages/0", `{"messages":[{"role":"system",%s}]}`, "content:string|array"},
		{"c", "/messages/1", `{"messages":[{"role":"user"},{"role":"developer",%s}]}`, "content:string|array"},
		{"c", "/messages/0", `{"messages":[{"role":"developer","content":"",%s}]}`, "name:any other:any"},
		{"c", "/messages/0", `{"messages":[{"role":"user",%s}]}`, "content:any other:any"},
		{"c", "/messages/0", `{"messages":[{"role":"assistant",%s}]}`, "content:any tool_calls:any"},
		{"c", "/messages/0", `{"messages":[{"role":"tool",%s}]}`, "content:any tool_call_id:any"},
		{"c", "/messages/0", `{"messages":[{%s}]}`, "role:string?"},
		{"c", "/messages/0/content/0", `{"messages":[{"role":"system","content":[{"type":"text",%s}]}]}`, "text:string"},
		{"c", "/messages/0/content/0", `{"messages":[{"role":"system","content":[{"text":"",%s}]}]}`, "type:string?"},
		{"c", "/messages/0/content/0", `{"messages":[{"role":"system","content":[{"type":"text","text":"",%s}]}]}`, "cache_control:any other:any"},
		{"c", "/response_format", `{"response_format":{"type":"json_schema",%s}}`, "json_schema:object?"},
		{"c", "/response_format/json_schema", `{"response_format":{"type":"json_schema","json_schema":{"name":"n",%s}}}`, "schema:object|null description:string|null strict:boolean|null other:any"},
		{"c", "/response_format/json_schema", `{"response_format":{"type":"json_schema","json_schema":{%s}}}`, "name:string"},
		{"c", "/response_format", `{"response_format":{"type":"grammar",%s}}`, "grammar:string"},
		{"c", "/response_format", `{"response_format":{"type":"python",%s}}`, "json_schema:any grammar:any"},
		{"c", "/tool_choice", `{"tool_choice":{"type":"function",%s}}`, "function:object?"},
		{"c", "/tool_choice/function", `{"tool_choice":{"type":"function","function":{%s}}}`, "name:string"},
		{"c", "/tool_choice", `{"tool_choice":{"type":"openrouter:web_search",%s}}`, "name:any function:any"},
		{"c", "/tool_choice", `{"tool_choice":{%s}}`, "type:string?"},
		{"c", "/tools/0", tool("function", ""), "function:object?"},
		{"c", "/tools/0", tool("function", `"function":{"name":"n"},`), "cache_control:object? name:any parameters:any other:any"},
		{"c", "/tools/0/function", `{"tools":[{"type":"function","function":{%s}}]}`, "name:string"},
		{"c", "/tools/0/function", `{"tools":[{"type":"function","function":{"name":"n",%s}}]}`, "description:string|null parameters:object strict:boolean|null other:any"},
		{"c", "/tools/0", tool("custom", ""), "custom:object?"},
		{"c", "/tools/0/custom", `{"tools":[{"type":"custom","custom":{%s}}]}`, "name:string"},
		{"c", "/tools/0/custom", `{"tools":[{"type":"custom","custom":{"name":"n",%s}}]}`, "description:string format:object"},
		{"c", "/tools/0", tool("web_search", ""), search + " parameters:object filters:any"},
		{"c", "/tools/0", tool("web_search_2025_08_26", ""), search},
		{"c", "/tools/0", tool("web_search_preview", ""), search},
		{"c", "/tools/0", tool("web_search_preview_2025_03_11", ""), search},
		{"c", "/tools/0/parameters", `{"tools":[{"type":"web_search","parameters":{%s}}]}`, search},
		{"c", "/tools/0/user_location", `{"tools":[{"type":"web_search","user_location":{%s}}]}`, location},

		{"m", "/context_management", `{"context_management":{%s}}`, "edits:array|null other:any"},
		{"m", "/context_management/edits/0", `{"context_management":{"edits":[{%s}]}}`, "type:string"},
		{"m", "/context_management/edits/0", `{"context_management":{"edits":[{"type":"later",%s}]}}`, "keep:any trigger:any"},
		{"m", "/fallbacks/0", `{"fallbacks":[{%s}]}`, "model:string"},
		{"m", "/fallbacks/0", `{"fallbacks":[{"model":"m",%s}]}`, "other:any"},
		{"m", "/messages/0", `{"messages":[{%s}]}`, "role:string?"},
		{"m", "/messages/0", `{"messages":[{"role":"user",%s}]}`, "content:any other:any"},
		{"m", "/messages/0", `{"messages":[{"role":"assistant",%s}]}`, "content:any"},
		{"m", "/messages/0", `{"messages":[{"role":"system",%s}]}`, "content:any"},
		{"m", "/metadata", `{"metadata":{%s}}`, "user_id:string|null other:any"},
		{"m", "/output_config", `{"output_config":{%s}}`, "effort:string|null format:object?|null task_budget:object|null other:any"},
		{"m", "/output_config/format", `{"output_config":{"format":{"type":"json_schema",%s}}}`, "schema:object"},
		{"m", "/output_config/format", `{"output_config":{"format":{"type":"later",%s}}}`, "schema:any"},
		{"m", "/output_config/format", `{"output_config":{"format":{%s}}}`, "type:string?"},
		{"m", "/system/0", `{"system":[{"type":"text",%s}]}`, "text:string"},
		{"m", "/system/0", `{"system":[{"text":"",%s}]}`, "type:string?"},
		{"m", "/system/0", `{"system":[{"type":"text","text":"",%s}]}`, "cache_control:object?|null citations:array|null other:any"},
		{"m", "/thinking", `{"thinking":{"type":"enabled",%s}}`, "budget_tokens:integer"},
		{"m", "/thinking", `{"thinking":{"type":"enabled","budget_tokens":1,%s}}`, "display:string|null block_binding:any"},
		{"m", "/thinking", `{"thinking":{"type":"disabled",%s}}`, "budget_tokens:any display:string|null"},
		{"m", "/thinking", `{"thinking":{"type":"adaptive",%s}}`, "budget_tokens:any display:string|null"},
		{"m", "/tool_choice", `{"tool_choice":{"type":"tool",%s}}`, "name:string"},
		{"m", "/tool_choice", `{"tool_choice":{"type":"any",%s}}`, "name:any disable_parallel_tool_use:boolean|null"},
		{"m", "/tools/0", `{"tools":[{"name":"n",%s}]}`, "input_schema:object"},
		{"m", "/tools/0", `{"tools":[{"input_schema":{},%s}]}`, "name:string"},
		{"m", "/tools/0", `{"tools":[{"name":"n","input_schema":{},%s}]}`, "type:string? description:string|null cache_control:object?|null defer_loading:boolean|null strict:boolean|null other:any"},
		{"m", "/tools/0", tool("custom", `"name":"n",`), "input_schema:object"},
		{"m", "/tools/0", tool("custom", `"input_schema":{},`), "name:string"},
		{"m", "/tools/0", tool("custom", `"name":"n","input_schema":{},`), "description:string|null cache_control:object?|null"},
		{"m", "/tools/0", tool("bash_20250124", ""), "name:any input_schema:any description:any cache_control:any"},
		{"m", "/tools/0", tool("function", ""), "function:any parameters:any"},

		{"cm", "/tools/0/parameters", server("subagent"), "name:string model:string instructions:string temperature:number max_completion_tokens:integer max_tool_calls:integer reasoning:object tools:array"},
	} {
		for _, s := range requestsOf(t, object.apis) {
			checkNested(t, s, object.path, object.body, object.members)
		}
	}
}

func checkNested(t *testing.T, s *schema.Schema, at, body, members string) {
	t.Helper()
	for entry := range strings.FieldsSeq(members) {
		name, takes, _ := strings.Cut(entry, ":")
		types := strings.Split(takes, "|")
		for kind, value := range samples {
			body := fmt.Sprintf(body, fmt.Sprintf("%q:%s", name, value))
			got := violations(t, s, body)
			path := at + "/" + name
			ok := slices.Contains(types, kind) || slices.Contains(types, "any") ||
				kind == "integer" && slices.ContainsFunc(types, func(s string) bool { return strings.HasPrefix(s, "number") })
			switch {
			case slices.Contains(types, kind+"?"):
			case ok && got != nil:
				t.Errorf("%s\n got %q, want none", body, got)
			case !ok && (len(got) != 1 || !strings.HasPrefix(got[0], path+": must be ")):
				t.Errorf("%s\n got %q, want one for %s", body, got, path)
			}
		}
	}
}

// requestsOf returns the schemas of the inference requests that letters name. r stands for
// responses, c for chat, m for messages.
func requestsOf(t *testing.T, letters string) (requests []*schema.Schema) {
	t.Helper()
	s := schemas(t)
	for _, letter := range letters {
		requests = append(requests, map[rune]*schema.Schema{'r': s.ResponsesRequest, 'c': s.ChatRequest, 'm': s.MessagesRequest}[letter])
	}
	return requests
}

// TestItemTypes gives lists of strings an item of another type.
func TestItemTypes(t *testing.T) {
	s := schemas(t)
	for _, test := range []struct{ path, body string }{
		{"/models", `{"models":%s}`},
		{"/include", `{"include":%s}`},
		{"/modalities", `{"modalities":%s}`},
		{"/provider/order", `{"provider":{"order":%s}}`},
		{"/provider/only", `{"provider":{"only":%s}}`},
		{"/provider/ignore", `{"provider":{"ignore":%s}}`},
		{"/provider/quantizations", `{"provider":{"quantizations":%s}}`},
		{"/plugins/0/allowed_models", `{"plugins":[{"id":"auto-router","allowed_models":%s}]}`},
		{"/plugins/0/include_domains", `{"plugins":[{"id":"web","include_domains":%s}]}`},
		{"/plugins/0/blocked_domains", `{"plugins":[{"id":"web-fetch","blocked_domains":%s}]}`},
		{"/plugins/0/analysis_models", `{"plugins":[{"id":"fusion","analysis_models":%s}]}`},
		{"/tools/0/filters/allowed_domains", `{"tools":[{"type":"web_search","filters":{"allowed_domains":%s}}]}`},
		{"/tools/0/vector_store_ids", `{"tools":[{"type":"file_search","vector_store_ids":%s}]}`},
		{"/tools/0/allowed_tools", `{"tools":[{"type":"mcp","server_label":"l","allowed_tools":%s}]}`},
	} {
		for i, items := range []string{`[null]`, `["text",5]`, `["text","text",{}]`} {
			got := violations(t, s.ResponsesRequest, fmt.Sprintf(test.body, items))
			want := fmt.Sprintf("%s/%d: must be a string", test.path, i)
			if !slices.Contains(got, want) {
				t.Errorf("%s %s: got %q, want %q among them", test.path, items, got, want)
			}
		}
	}
	const ids = `{"name":"n","slug":"s","io_logging_api_key_ids":%s}`
	checkRules(t, s.CreateWorkspace, []rule{
		{"key ids of both types", fmt.Sprintf(ids, `["a",1,2.0]`), nil},
		{"key id with a fraction", fmt.Sprintf(ids, `["a",1.5]`), refused("/io_logging_api_key_ids/1: must be a string or an integer")},
		{"key id that is null", fmt.Sprintf(ids, `[null]`), refused("/io_logging_api_key_ids/0: must be a string or an integer")},
		{"disabled tool that is a number", `{"name":"n","slug":"s","disabled_server_tools":[1]}`, refused("/disabled_server_tools/0: must be a string")},
	})
}

func TestRequired(t *testing.T) {
	s := schemas(t)
	tool := func(members string) string { return `{"tools":[` + members + `]}` }
	checkRules(t, s.CreateWorkspace, []rule{
		{"workspace", `{}`, refused("/name: required", "/slug: required")},
		{"workspace with null", `{"name":null,"slug":"s"}`, refused("/name: must be a string")},
	})
	checkRules(t, s.ResponsesRequest, []rule{
		{"nothing", `{}`, nil},
		{"cache control", `{"cache_control":{}}`, refused("/cache_control/type: required")},
		{"prompt", `{"prompt":{}}`, refused("/prompt/id: required")},
		{"prompt cache options", `{"prompt_cache_options":{}}`, refused("/prompt_cache_options/mode: required")},
		{"prompt variable", `{"prompt":{"id":"p","variables":{"v":{}}}}`, refused("/prompt/variables/v/type: required")},
		{"text variable", `{"prompt":{"id":"p","variables":{"v":{"type":"input_text"}}}}`, refused("/prompt/variables/v/text: required")},
		{"cache breakpoint", `{"prompt":{"id":"p","variables":{"v":{"type":"input_text","text":"t","prompt_cache_breakpoint":{}}}}}`, refused("/prompt/variables/v/prompt_cache_breakpoint/mode: required")},
		{"image variable", `{"prompt":{"id":"p","variables":{"v":{"type":"input_image"}}}}`, refused("/prompt/variables/v/detail: required")},
		{"text format", `{"text":{"format":{}}}`, refused("/text/format/type: required")},
		{"JSON Schema format", `{"text":{"format":{"type":"json_schema"}}}`, refused("/text/format/name: required", "/text/format/schema: required")},
		{"tool choice", `{"tool_choice":{}}`, refused("/tool_choice/type: required")},
		{"function choice", `{"tool_choice":{"type":"function"}}`, refused("/tool_choice/name: required")},
		{"allowed tools", `{"tool_choice":{"type":"allowed_tools"}}`, refused("/tool_choice/mode: required", "/tool_choice/tools: required")},
		{"stop condition", `{"stop_server_tools_when":[{}]}`, refused("/stop_server_tools_when/0/type: required")},
		{"step count", `{"stop_server_tools_when":[{"type":"step_count_is"}]}`, refused("/stop_server_tools_when/0/step_count: required")},
		{"cost", `{"stop_server_tools_when":[{"type":"max_cost"}]}`, refused("/stop_server_tools_when/0/max_cost_in_dollars: required")},
		{"tool call", `{"stop_server_tools_when":[{"type":"has_tool_call"}]}`, refused("/stop_server_tools_when/0/tool_name: required")},
		{"tokens used", `{"stop_server_tools_when":[{"type":"max_tokens_used"}]}`, refused("/stop_server_tools_when/0/max_tokens: required")},
		{"finish reason", `{"stop_server_tools_when":[{"type":"finish_reason_is"}]}`, refused("/stop_server_tools_when/0/reason: required")},
		{"plugin", `{"plugins":[{}]}`, refused("/plugins/0/id: required")},
		{"location of the web plugin", `{"plugins":[{"id":"web","user_location":{}}]}`, refused("/plugins/0/user_location/type: required")},
		{"tool of the fusion plugin", `{"plugins":[{"id":"fusion","tools":[{}]}]}`, refused("/plugins/0/tools/0/type: required")},
		{"tool", tool(`{}`), refused("/tools/0/type: required")},
		{"tool with another case", tool(`{"Type":"function"}`), refused("/tools/0/type: required")},
		{"function", tool(`{"type":"function"}`), refused("/tools/0/name: required", "/tools/0/parameters: required")},
		{"function with its type last", tool(`{"name":5,"parameters":[],"type":"function"}`), refused("/tools/0/name: must be a string", "/tools/0/parameters: must be an object or null")},
		{"preview location", tool(`{"type":"web_search_preview","user_location":{}}`), refused("/tools/0/user_location/type: required")},
		{"web search location", tool(`{"type":"web_search","user_location":{}}`), nil},
		{"file search", tool(`{"type":"file_search"}`), refused("/tools/0/vector_store_ids: required")},
		{"file search filter", tool(`{"type":"file_search","vector_store_ids":[],"filters":{}}`), refused("/tools/0/filters/type: required")},
		{"comparison", tool(`{"type":"file_search","vector_store_ids":[],"filters":{"type":"eq"}}`), refused("/tools/0/filters/key: required", "/tools/0/filters/value: required")},
		{"compound", tool(`{"type":"file_search","vector_store_ids":[],"filters":{"type":"and"}}`), refused("/tools/0/filters/filters: required")},
		{"computer use", tool(`{"type":"computer_use_preview"}`), refused("/tools/0/display_height: required", "/tools/0/display_width: required", "/tools/0/environment: required")},
		{"code interpreter", tool(`{"type":"code_interpreter"}`), refused("/tools/0/container: required")},
		{"container", tool(`{"type":"code_interpreter","container":{}}`), refused("/tools/0/container/type: required")},
		{"mcp", tool(`{"type":"mcp"}`), refused("/tools/0/server_label: required")},
		{"custom", tool(`{"type":"custom"}`), refused("/tools/0/name: required")},
		{"custom format", tool(`{"type":"custom","name":"n","format":{}}`), refused("/tools/0/format/type: required")},
		{"grammar", tool(`{"type":"custom","name":"n","format":{"type":"grammar"}}`), refused("/tools/0/format/definition: required", "/tools/0/format/syntax: required")},
		{"namespace", tool(`{"type":"namespace"}`), refused("/tools/0/description: required", "/tools/0/name: required", "/tools/0/tools: required")},
		{
			"tools of a namespace", tool(`{"type":"namespace","name":"n","description":"d","tools":[{},{"type":"function"},{"type":"custom"}]}`),
			refused("/tools/0/tools/0/type: required", "/tools/0/tools/1/name: required", "/tools/0/tools/2/name: required"),
		},
		{"function of a namespace without parameters", tool(`{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"n"}]}`), nil},
		{"server tools without parameters", tool(`{"type":"openrouter:advisor"},{"type":"openrouter:subagent"},{"type":"openrouter:web_search"}`), nil},
		{"tool of a subagent", tool(`{"type":"openrouter:subagent","parameters":{"tools":[{}]}}`), refused("/tools/0/parameters/tools/0/type: required")},
		{"environment", tool(`{"type":"openrouter:bash","parameters":{"environment":{}}}`), refused("/tools/0/parameters/environment/type: required")},
		{"container reference", tool(`{"type":"openrouter:shell","parameters":{"environment":{"type":"container_reference"}}}`), refused("/tools/0/parameters/environment/container_id: required")},
	})
}
