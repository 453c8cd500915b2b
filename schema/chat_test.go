package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func TestChatRequest(t *testing.T) {
	const (
		roles  = "must be one of assistant, developer, system, tool or user"
		tools  = "must be a known tool type, or have the form <vendor>:<name>"
		effort = "/reasoning_effort: must be the same as the effort of reasoning"
	)
	function := func(name string) string {
		return `{"tools":[{"type":"function","function":{"name":` + name + `}}]}`
	}
	messages := func(messages ...string) string {
		return `{"messages":[` + strings.Join(messages, ",") + `]}`
	}
	checkRules(t, schemas(t).ChatRequest, []rule{
		{"nothing", `{}`, nil},
		{"no object", `[]`, refused(": must be an object")},
		{"a function's name of 64", function(text(64)), nil},
		{"a function's name of 65", function(text(65)), refused("/tools/0/function/name: must be at most 64 characters")},
		{"4 stops", `{"stop":` + list(4, `"s"`) + `}`, nil},
		{"5 stops", `{"stop":` + list(5, `"s"`) + `}`, refused("/stop: must have at most 4 items")},
		{"no stop", `{"stop":[]}`, nil},
		{"a stop that is a number", `{"stop":["s",1]}`, refused("/stop/1: must be a string")},
		{"session_id of 256", `{"session_id":` + text(256) + `}`, nil},
		{"session_id of 257", `{"session_id":` + text(257) + `}`, refused("/session_id: must be at most 256 characters")},
		{"user of 257", `{"user":` + text(257) + `}`, refused("/user: must be at most 256 characters")},
		{"17 pairs of metadata", `{"metadata":` + pairs(17) + `}`, refused("/metadata: must have at most 16 members")},
		{"metadata key with [", `{"metadata":{"[":"v"}}`, refused("/metadata/[: name must not contain brackets")},
		{"metadata value that is a number", `{"metadata":{"k":1}}`, refused("/metadata/k: must be a string")},
		{"cache for longer", `{"cache_ttl_seconds":86401}`, refused("/cache_ttl_seconds: must be at most 86400")},
		{"no stop condition", `{"stop_server_tools_when":[]}`, refused("/stop_server_tools_when: must have at least 1 item")},
		{"unknown member of provider", `{"provider":{"foo":1}}`, refused("/provider/foo: unknown field")},
		{"prose ranges are not enforced", `{"temperature":3,"top_p":2,"min_p":-1,"top_a":9,"repetition_penalty":5,"top_logprobs":99,"max_tokens":0,"seed":-1}`, nil},
		{"fields of other APIs", `{"store":true,"previous_response_id":"r","max_tool_calls":99,"input":1,"fallbacks":1,"system":1}`, nil},

		{"nested preset", `{"model":"@preset/a"}`, refused("/model: must not refer to a preset")},
		{"nested preset after a model", `{"models":["a/b","a/b@preset/c"]}`, refused("/models/1: must not refer to a preset")},

		{"one effort", `{"reasoning_effort":"low","reasoning":{"summary":"auto"}}`, nil},
		{"the same effort", `{"reasoning_effort":"low","reasoning":{"effort":"l\u006fw"}}`, nil},
		{"the same effort in escapes", `{"reasoning_effort":"l\u006fw","reasoning":{"effort":"low"}}`, nil},
		{"two efforts", `{"reasoning_effort":"low","reasoning":{"effort":"high"}}`, refused(effort)},
		{"two efforts the other way round", `{"reasoning":{"effort":"none"},"reasoning_effort":"minimal"}`, refused(effort)},
		{"an effort and null", `{"reasoning_effort":null,"reasoning":{"effort":"high"}}`, nil},
		{"null and an effort", `{"reasoning_effort":"low","reasoning":{"effort":null}}`, nil},
		{"an effort and no reasoning", `{"reasoning_effort":"low","reasoning":null}`, nil},
		{"an effort beside something else", `{"reasoning_effort":"low","reasoning":["high"]}`, refused("/reasoning: must be an object or null")},

		{"no messages", messages(), nil},
		{"messages of every role", messages(`{"role":"system","content":""}`, `{"role":"developer","content":[]}`, `{"role":"user"}`, `{"role":"assistant"}`, `{"role":"tool"}`), nil},
		{"roles last", messages(`{"content":"","role":"system"}`, `{"content":[{"a":[{}]}],"role":"user"}`), nil},
		{"roles in escapes", messages(`{"r\u006fle":"us\u0065r"}`, `{"r\u006fle":"syst\u0065m","content":5}`), refused("/messages/1/content: must be a string or an array")},
		{"message without a role", messages(`{"role":"user"}`, `{"content":""}`), refused("/messages/1/role: required")},
		{"message of an unknown role", messages(`{"role":"function"}`, `{"role":"User"}`, `{"role":5}`), refused("/messages/0/role: "+roles, "/messages/1/role: "+roles, "/messages/2/role: "+roles)},
		{"messages that are none", messages(`{"role":"user"}`, `1`, `null`, `[]`, `"text"`), refused("/messages/1: must be an object", "/messages/2: must be an object", "/messages/3: must be an object", "/messages/4: must be an object")},
		{"system message without content", messages(`{"role":"system"}`), refused("/messages/0/content: required")},
		{"developer message without content", messages(`{"role":"user"}`, `{"role":"developer","content":null}`), refused("/messages/1/content: must be a string or an array")},
		{"image in a system message", messages(`{"role":"system","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{}}]}`), refused("/messages/0/content/1/text: required", "/messages/0/content/1/type: must be text")},
		{"system message of texts", messages(`{"role":"system","content":["t"]}`), refused("/messages/0/content/0: must be an object")},
		{"system message later on", messages(`{"role":"user"}`, `{"role":"system","content":[{"type":"text"}]}`), refused("/messages/1/content/0/text: required")},

		{"tool", `{"tools":[{}]}`, refused("/tools/0/type: required")},
		{"function", `{"tools":[{"type":"function"}]}`, refused("/tools/0/function: required")},
		{"function of another API", `{"tools":[{"type":"function","name":"f","parameters":{}}]}`, refused("/tools/0/function: required")},
		{"function without a name", `{"tools":[{"type":"function","function":{}}]}`, refused("/tools/0/function/name: required")},
		{"function of name and no more", function(`"f"`), nil},
		{"custom tool", `{"tools":[{"type":"custom"}]}`, refused("/tools/0/custom: required")},
		{"custom tool without a name", `{"tools":[{"type":"custom","custom":{}}]}`, refused("/tools/0/custom/name: required")},
		{"cache control of a function", `{"tools":[{"type":"function","function":{"name":"f"},"cache_control":{}}]}`, refused("/tools/0/cache_control/type: required")},
		{"unknown tool", `{"tools":[{"type":"mcp"},{"type":"shell"}]}`, refused("/tools/0/type: "+tools, "/tools/1/type: "+tools)},
		{"tool with a type that is no string", `{"tools":[{"type":5}]}`, refused("/tools/0/type: must be a string")},
		{"unknown vendor's tool", `{"tools":[{"type":"acme:web_search","parameters":5}]}`, nil},
		{
			"domains both ways", `{"tools":[{"type":"web_search","allowed_domains":[],"excluded_domains":[]}]}`,
			refused("/tools/0: must not have both allowed_domains and excluded_domains"),
		},
		{
			"domains both ways in parameters", `{"tools":[{"type":"web_search","parameters":{"allowed_domains":[],"excluded_domains":[]}}]}`,
			refused("/tools/0/parameters: must not have both allowed_domains and excluded_domains"),
		},
		{"tool of another API", `{"tools":[{"type":"openrouter:apply_patch"}]}`, refused("/tools/0/type: is for requests of the responses API only")},
		{
			"subagent with functions", `{"tools":[{"type":"openrouter:subagent","parameters":{"inherit_functions":true,"inherited_function_names":["f"]}}]}`,
			refused("/tools/0/parameters/inherit_functions: is for requests of the responses API only", "/tools/0/parameters/inherited_function_names: is for requests of the responses API only"),
		},
		{"subagent calls of 26", `{"tools":[{"type":"openrouter:subagent","parameters":{"max_tool_calls":26}}]}`, refused("/tools/0/parameters/max_tool_calls: must be at most 25")},
		{"patterns of more", `{"plugins":[{"id":"auto-router","allowed_models":` + list(129, text(512)) + `}]}`, refused("/plugins/0/allowed_models: must have at most 65536 characters in all")},

		{"tool choice", `{"tool_choice":{}}`, refused("/tool_choice/type: required")},
		{"function choice", `{"tool_choice":{"type":"function"}}`, refused("/tool_choice/function: required")},
		{"function choice of another API", `{"tool_choice":{"type":"function","name":"f"}}`, refused("/tool_choice/function: required")},
		{"function choice without a name", `{"tool_choice":{"type":"function","function":{}}}`, refused("/tool_choice/function/name: required")},
		{"choice of a server tool", `{"tool_choice":{"type":"openrouter:web_search"}}`, nil},
		{"choice of allowed tools", `{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`, nil},

		{"response format", `{"response_format":{}}`, refused("/response_format/type: required")},
		{"response format of JSON Schema", `{"response_format":{"type":"json_schema"}}`, refused("/response_format/json_schema: required")},
		{"response format of a JSON Schema without a name", `{"response_format":{"type":"json_schema","json_schema":{}}}`, refused("/response_format/json_schema/name: required")},
		{"response format of another API", `{"response_format":{"type":"json_schema","name":"n","schema":{}}}`, refused("/response_format/json_schema: required")},
		{"response format of a grammar", `{"response_format":{"type":"grammar"}}`, refused("/response_format/grammar: required")},
		{"prompt cache options", `{"prompt_cache_options":{}}`, refused("/prompt_cache_options/mode: required")},
		{"logit bias", `{"logit_bias":{"1":"2"}}`, refused("/logit_bias/1: must be a number")},
	})
}

// TestConversations checks that the length of a conversation does not count, and
// that wrong messages are found wherever they are.
func TestConversations(t *testing.T) {
	tier.NoRace(t)
	const turn = `{"role":"user","content":[{"type":"text","text":"t"}]}`
	for i, s := range requestsOf(t, "cm") {
		roles := []string{"must be one of assistant, developer, system, tool or user", "must be one of assistant, system or user"}[i]
		conversation := func(last string) string {
			return `{"messages":` + strings.TrimSuffix(list(6000, turn), "]") + `,` + last + `]}`
		}
		checkRules(t, s, []rule{
			{"long", conversation(turn), nil},
			{"long with a wrong type", conversation(`5`), refused("/messages/6000: must be an object")},
			{"long with no role", conversation(`{}`), refused("/messages/6000/role: required")},
		})
		for _, wrong := range []struct{ item, path, message string }{
			{`7`, "", "must be an object"},
			{`{}`, "/role", "required"},
			{`{"role":null}`, "/role", roles},
		} {
			var want []string
			for i := range schema.MaxViolations {
				want = append(want, fmt.Sprintf("/messages/%d%s: %s", i, wrong.path, wrong.message))
			}
			checkRules(t, s, []rule{{"all wrong " + wrong.item, `{"messages":` + list(schema.MaxValues, wrong.item) + `}`, want}})
		}
	}
	const tooMany = "/messages: has too much to check: more than 16384 values"
	const prompt = `{"role":"system","content":""}`
	checkRules(t, schemas(t).ChatRequest, []rule{
		{"many prompts", `{"messages":` + list((schema.MaxValues-1)/4, prompt) + `}`, nil},
		{"too many prompts", `{"messages":` + list(schema.MaxValues/4, prompt) + `}`, refused(tooMany)},
		{"a long wrong number", `{"messages":[0.` + strings.Repeat("1", 1024) + `]}`, refused("/messages/0: must be an object")},
	})
	checkRules(t, schemas(t).MessagesRequest, []rule{
		{"many messages of the system", `{"messages":` + list(6000, prompt) + `}`, nil},
	})
}
