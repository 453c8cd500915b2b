package schema_test

import "testing"

func TestMessagesRequest(t *testing.T) {
	const both = ": must not have both fallbacks and models"
	tool := func(members string) string { return `{"tools":[{` + members + `}]}` }
	fallbacks := func(n int) string { return list(n, `{"model":"m"}`) }
	checkRules(t, schemas(t).MessagesRequest, []rule{
		{"nothing", `{}`, nil},
		{"no object", `"text"`, refused(": must be an object")},
		{"session_id of 256", `{"session_id":` + text(256) + `}`, nil},
		{"session_id of 257", `{"session_id":` + text(257) + `}`, refused("/session_id: must be at most 256 characters")},
		{"user of 257", `{"user":` + text(257) + `}`, refused("/user: must be at most 256 characters")},
		{"metadata of any size", `{"metadata":` + pairs(17) + `}`, nil},
		{"cache for no time", `{"cache_ttl_seconds":0}`, refused("/cache_ttl_seconds: must be at least 1")},
		{"unknown member of provider", `{"provider":{"foo":1}}`, refused("/provider/foo: unknown field")},
		{"prose ranges are not enforced", `{"temperature":3,"top_p":2,"top_k":-1,"max_tokens":0,"thinking":{"type":"enabled","budget_tokens":0}}`, nil},
		{"fields of other APIs", `{"store":true,"previous_response_id":"r","max_tool_calls":99,"frequency_penalty":"x","reasoning_effort":"low","reasoning":{"effort":"high"}}`, nil},

		{"nested preset", `{"model":"@preset/a"}`, refused("/model: must not refer to a preset")},
		{"nested preset after a model", `{"models":["a/b","a/b@preset/c"]}`, refused("/models/1: must not refer to a preset")},
		{"nested preset to fall back on", `{"fallbacks":[{"model":"a/b"},{"model":"@preset/c"}]}`, refused("/fallbacks/1/model: must not refer to a preset")},
		{"3 fallbacks", `{"fallbacks":` + fallbacks(3) + `}`, nil},
		{"4 fallbacks", `{"fallbacks":` + fallbacks(4) + `}`, refused("/fallbacks: must have at most 3 items")},
		{"fallback without a model", `{"fallbacks":[{}]}`, refused("/fallbacks/0/model: required")},
		{"fallback that is a string", `{"fallbacks":["m"]}`, refused("/fallbacks/0: must be an object")},
		{"fallbacks and models", `{"fallbacks":` + fallbacks(1) + `,"models":["m"]}`, refused(both)},
		{"models and fallbacks, empty", `{"models":[],"fallbacks":[]}`, refused(both)},
		{"no fallbacks and models", `{"fallbacks":null,"models":["m"]}`, nil},

		{"a system prompt", `{"system":"You are brief."}`, nil},
		{"no blocks", `{"system":[]}`, nil},
		{"a block without a type", `{"system":[{"text":"t"}]}`, refused("/system/0/type: required")},
		{"a block without a text", `{"system":[{"type":"text","text":"t"},{"type":"text"}]}`, refused("/system/1/text: required")},
		{"a block of another type", `{"system":[{"type":"image","source":{}}]}`, refused("/system/0/text: required", "/system/0/type: must be text")},
		{"a block that is a string", `{"system":["t"]}`, refused("/system/0: must be an object")},
		{"cache control of a block", `{"system":[{"type":"text","text":"t","cache_control":{}}]}`, refused("/system/0/cache_control/type: required")},
		{"citations that are none", `{"system":[{"type":"text","text":"t","citations":[{},1]}]}`, refused("/system/0/citations/1: must be an object")},

		{"messages of every role", `{"messages":[{"role":"user"},{"role":"assistant"},{"role":"system"}]}`, nil},
		{"message of an unknown role", `{"messages":[{"role":"tool"}]}`, refused("/messages/0/role: must be one of assistant, system or user")},
		{"message that is none", `{"messages":[{"role":"user"},"text"]}`, refused("/messages/1: must be an object")},

		{"tool of the client", tool(`"name":"f","input_schema":{}`), nil},
		{"tool of the client by type", tool(`"type":"custom","name":"f","input_schema":{}`), nil},
		{"empty tool", tool(``), refused("/tools/0/input_schema: required", "/tools/0/name: required")},
		{"empty custom tool", tool(`"type":"custom"`), refused("/tools/0/input_schema: required", "/tools/0/name: required")},
		{"tool with its type last", tool(`"name":5,"input_schema":[],"type":"custom"`), refused("/tools/0/input_schema: must be an object", "/tools/0/name: must be a string")},
		{"tool that is a string", `{"tools":["f"]}`, refused("/tools/0: must be an object")},
		{"tool with a type that is no string", tool(`"type":5,"name":"f","input_schema":{}`), refused("/tools/0/type: must be a string")},
		{"tool with a type of null", tool(`"type":null,"name":"f","input_schema":{}`), refused("/tools/0/type: must be a string")},
		{"tool of the service", tool(`"type":"bash_20250124","name":"bash"`), nil},
		{"later tool of the service", tool(`"type":"later_20300101","anything":[null]`), nil},
		{"function of another API", tool(`"type":"function","function":{"name":"f"}`), nil},
		{"unknown vendor's tool", tool(`"type":"acme:web_search","parameters":5`), nil},
		{"server tool", tool(`"type":"openrouter:web_search","parameters":{"engine":"none"}`), refused("/tools/0/parameters/engine: must be one of native, exa, parallel, firecrawl, perplexity or auto")},
		{"tool of another API", tool(`"type":"openrouter:apply_patch"`), refused("/tools/0/type: is for requests of the responses API only")},
		{"subagent with functions", tool(`"type":"openrouter:subagent","parameters":{"inherit_functions":false}`), refused("/tools/0/parameters/inherit_functions: is for requests of the responses API only")},
		{
			"subagent's function", tool(`"type":"openrouter:subagent","parameters":{"tools":[{"type":"function"}]}`),
			refused("/tools/0/parameters/tools/0/type: must be the type of a server tool"),
		},
		{"deferred without a vendor's search", tool(`"name":"f","input_schema":{},"defer_loading":true`), nil},
		{"deferred function of another API", tool(`"type":"function","defer_loading":true`), nil},

		{"tool choice", `{"tool_choice":{}}`, refused("/tool_choice/type: required")},
		{"choice of a tool", `{"tool_choice":{"type":"tool"}}`, refused("/tool_choice/name: required")},
		{"choice by a word", `{"tool_choice":"auto"}`, refused("/tool_choice: must be an object or null")},
		{"thinking", `{"thinking":{}}`, refused("/thinking/type: required")},
		{"thinking without a budget", `{"thinking":{"type":"enabled"}}`, refused("/thinking/budget_tokens: required")},
		{"output format", `{"output_config":{"format":{}}}`, refused("/output_config/format/type: required")},
		{"output format without a schema", `{"output_config":{"format":{"type":"json_schema"}}}`, refused("/output_config/format/schema: required")},
		{"context edit", `{"context_management":{"edits":[{}]}}`, refused("/context_management/edits/0/type: required")},
		{"stop sequence that is a number", `{"stop_sequences":["s",1]}`, refused("/stop_sequences/1: must be a string")},
		{"patterns of more", `{"plugins":[{"id":"auto-router","allowed_models":` + list(129, text(512)) + `}]}`, refused("/plugins/0/allowed_models: must have at most 65536 characters in all")},
	})
}
