package dialects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var allDialects = []domain.Dialect{domain.Responses, domain.Chat, domain.Messages}

// settingsOf returns the members of an object that a test wrote.
func settingsOf(t testing.TB, text string) []rawjson.Member {
	t.Helper()
	members, err := rawjson.Members(jsontext.Value(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return members
}

// unknownSet returns the set of the words in names.
func unknownSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

func TestTranslate(t *testing.T) {
	const (
		fn  = `{"type":"function","name":"f","description":"d","parameters":{"type": "object"},"strict":true}`
		cfn = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type": "object"},"strict":true}}`
		mfn = `{"name":"f","description":"d","input_schema":{"type": "object"},"strict":true}`
	)
	for _, c := range []struct {
		name     string
		from, to domain.Dialect
		settings string
		unknown  string
		want     string
		dropped  string
	}{
		// Settings that stay the same, and settings without a name.
		{"same dialect keeps all as it is", domain.Chat, domain.Chat, `{"seed": 1.0,"max_tokens":1,"max_completion_tokens":2,"reasoning_effort":"low","reasoning":{ "effort":"high"},"tools":[ 7 ],"tool_choice":"required","text":1}`, "", `{"seed":1.0,"max_tokens":1,"max_completion_tokens":2,"reasoning_effort":"low","reasoning":{ "effort":"high"},"tools":[ 7 ],"tool_choice":"required"}`, "text"},
		{"same dialect less unknown and preset-only", domain.Messages, domain.Messages, `{"cache_enabled":true,"top_k":1,"speed":"fast","cache_ttl_seconds":5,"model":"m"}`, "speed", `{"top_k":1,"model":"m"}`, "cache_enabled speed cache_ttl_seconds"},
		{"preset-only is never sent", domain.Responses, domain.Chat, `{"cache_enabled":true,"model":"m","cache_ttl_seconds":5}`, "", `{"model":"m"}`, "cache_enabled cache_ttl_seconds"},
		{"same name keeps its bytes and place", domain.Responses, domain.Messages, `{"top_k":40,"model":"m","provider":{ "order": ["a"] },"route":"sort","plugins":[ ],"temperature":1.0}`, "", `{"top_k":40,"model":"m","provider":{ "order": ["a"] },"route":"sort","plugins":[ ],"temperature":1.0}`, ""},
		{"no name in responses", domain.Chat, domain.Responses, `{"min_p":1,"seed":2,"model":"m","logit_bias":{}}`, "", `{"model":"m"}`, "min_p seed logit_bias"},
		{"no name in messages", domain.Responses, domain.Messages, `{"parallel_tool_calls":true,"include":[],"truncation":"auto","max_tool_calls":1}`, "", `{}`, "parallel_tool_calls include truncation max_tool_calls"},
		{"no name outside messages", domain.Messages, domain.Chat, `{"speed":"fast","context_management":{}}`, "", `{}`, "speed context_management"},
		{"parallel tool calls", domain.Chat, domain.Responses, `{"parallel_tool_calls":false}`, "", `{"parallel_tool_calls":false}`, ""},
		{"null is not there", domain.Chat, domain.Messages, `{"seed":null,"stop":null,"model":null,"reasoning":{"effort":null,"summary":null,"max_tokens":1}}`, "", `{"thinking":{"type":"enabled","budget_tokens":1}}`, ""},
		{"null is not there in the same dialect", domain.Chat, domain.Chat, `{"seed":null,"cache_enabled":null,"model":"m"}`, "", `{"model":"m"}`, ""},
		{"unknown field", domain.Responses, domain.Chat, `{"model":"m","top_k":1}`, "top_k", `{"model":"m"}`, "top_k"},
		{"unknown is a name of the other dialect", domain.Responses, domain.Chat, `{"max_output_tokens":1,"text":{"verbosity":"low"}}`, "max_output_tokens text", `{"max_completion_tokens":1,"verbosity":"low"}`, ""},
		{"unknown under its new name", domain.Chat, domain.Messages, `{"stop":"x","model":"m"}`, "stop_sequences", `{"model":"m"}`, "stop_sequences"},

		// Tokens.
		{"tokens responses to chat", domain.Responses, domain.Chat, `{"max_output_tokens":5}`, "", `{"max_completion_tokens":5}`, ""},
		{"tokens responses to messages", domain.Responses, domain.Messages, `{"max_output_tokens":5}`, "", `{"max_tokens":5}`, ""},
		{"tokens chat to responses", domain.Chat, domain.Responses, `{"max_completion_tokens":5}`, "", `{"max_output_tokens":5}`, ""},
		{"old tokens chat to responses", domain.Chat, domain.Responses, `{"max_tokens":5}`, "", `{"max_output_tokens":5}`, ""},
		{"old tokens chat to messages", domain.Chat, domain.Messages, `{"max_tokens":5}`, "", `{"max_tokens":5}`, ""},
		{"tokens messages to chat", domain.Messages, domain.Chat, `{"max_tokens":5}`, "", `{"max_completion_tokens":5}`, ""},
		{"tokens messages to responses", domain.Messages, domain.Responses, `{"max_tokens":5}`, "", `{"max_output_tokens":5}`, ""},
		{"both tokens", domain.Chat, domain.Responses, `{"max_tokens":6,"model":"m","max_completion_tokens":5}`, "", `{"model":"m","max_output_tokens":5}`, "max_tokens"},
		{"both tokens to messages", domain.Chat, domain.Messages, `{"max_completion_tokens":5,"max_tokens":5}`, "", `{"max_tokens":5}`, "max_tokens"},
		{"new tokens unknown", domain.Responses, domain.Chat, `{"max_output_tokens":5}`, "max_completion_tokens", `{"max_tokens":5}`, ""},
		{"new tokens unknown, from messages", domain.Messages, domain.Chat, `{"max_tokens":5}`, "max_completion_tokens", `{"max_tokens":5}`, ""},
		{"old tokens unknown", domain.Responses, domain.Chat, `{"max_output_tokens":5}`, "max_tokens", `{"max_completion_tokens":5}`, ""},
		{"both tokens unknown", domain.Responses, domain.Chat, `{"max_output_tokens":5}`, "max_tokens max_completion_tokens", `{}`, "max_completion_tokens"},
		{"same dialect, new tokens unknown", domain.Chat, domain.Chat, `{"max_completion_tokens":5,"seed":1}`, "max_completion_tokens", `{"max_tokens":5,"seed":1}`, ""},
		{"same dialect, old tokens unknown", domain.Chat, domain.Chat, `{"max_tokens":5}`, "max_tokens", `{"max_completion_tokens":5}`, ""},
		{"same dialect, both tokens unknown", domain.Chat, domain.Chat, `{"max_tokens":5}`, "max_tokens max_completion_tokens", `{}`, "max_tokens"},
		{"same dialect, both tokens there and one unknown", domain.Chat, domain.Chat, `{"max_completion_tokens":5,"max_tokens":6}`, "max_completion_tokens", `{"max_tokens":6}`, "max_completion_tokens"},
		{"messages has no other tokens", domain.Chat, domain.Messages, `{"max_completion_tokens":5}`, "max_tokens", `{}`, "max_tokens"},

		// Reasoning.
		{"reasoning responses to chat", domain.Responses, domain.Chat, `{"reasoning":{ "effort":"none","summary":"auto"}}`, "", `{"reasoning":{ "effort":"none","summary":"auto"}}`, ""},
		{"reasoning that is an effort", domain.Responses, domain.Chat, `{"reasoning":{ "effort":"none","x":null}}`, "", `{"reasoning_effort":"none"}`, ""},
		{"reasoning that is an effort, whose own name is unknown", domain.Responses, domain.Chat, `{"reasoning":{"effort":"none"}}`, "reasoning_effort", `{"reasoning":{"effort":"none"}}`, ""},
		{"reasoning chat to responses", domain.Chat, domain.Responses, `{"reasoning":{ "summary":"auto"}}`, "", `{"reasoning":{ "summary":"auto"}}`, ""},
		{"effort chat to responses", domain.Chat, domain.Responses, `{"reasoning_effort":"minimal"}`, "", `{"reasoning":{"effort":"minimal"}}`, ""},
		{"effort joins reasoning", domain.Chat, domain.Responses, `{"reasoning_effort":"low","model":"m","reasoning":{"effort":null,"summary": "auto"}}`, "", `{"reasoning":{"effort":"low","summary":"auto"},"model":"m"}`, ""},
		{"effort joins reasoning before it", domain.Chat, domain.Responses, `{"reasoning":{"summary":"auto"},"model":"m","reasoning_effort":"low"}`, "", `{"reasoning":{"summary":"auto","effort":"low"},"model":"m"}`, ""},
		{"effort that contradicts reasoning", domain.Chat, domain.Responses, `{"reasoning_effort":"low","reasoning":{"effort":"high"}}`, "", `{"reasoning":{"effort":"high"}}`, "reasoning_effort"},
		{"effort that agrees with reasoning", domain.Chat, domain.Responses, `{"reasoning_effort":"high","reasoning":{ "effort":"high"}}`, "", `{"reasoning":{ "effort":"high"}}`, ""},
		{"effort cannot join", domain.Chat, domain.Responses, `{"reasoning_effort":"high","reasoning":"x"}`, "", `{"reasoning":"x"}`, "reasoning_effort"},
		{"reasoning to messages", domain.Responses, domain.Messages, `{"reasoning":{"enabled":true,"effort":"xhigh","max_tokens":9,"summary":"auto","context":"all_turns","mode":"pro"}}`, "", `{"output_config":{"effort":"xhigh"},"thinking":{"type":"enabled","budget_tokens":9}}`, "reasoning.enabled reasoning.summary reasoning.context reasoning.mode"},
		{"minimal to messages", domain.Responses, domain.Messages, `{"reasoning":{"effort":"minimal"}}`, "", `{}`, "reasoning.effort"},
		{"no effort to messages", domain.Chat, domain.Messages, `{"reasoning":{"effort":"none","max_tokens":1}}`, "", `{"thinking":{"type":"enabled","budget_tokens":1}}`, "reasoning.effort"},
		{"effort to messages", domain.Chat, domain.Messages, `{"reasoning_effort":"max"}`, "", `{"output_config":{"effort":"max"}}`, ""},
		{"effort without counterpart to messages", domain.Chat, domain.Messages, `{"reasoning_effort":"minimal"}`, "", `{}`, "reasoning_effort"},
		{"contradicting efforts to messages", domain.Chat, domain.Messages, `{"reasoning_effort":"low","reasoning":{"effort":"high"}}`, "", `{"output_config":{"effort":"high"}}`, "reasoning_effort"},
		{"agreeing efforts to messages", domain.Chat, domain.Messages, `{"reasoning_effort":"low","reasoning":{"effort":"low"}}`, "", `{"output_config":{"effort":"low"}}`, ""},
		{"reasoning that says nothing", domain.Responses, domain.Messages, `{"reasoning":{"effort":null}}`, "", `{}`, "reasoning"},
		{"reasoning of another shape", domain.Chat, domain.Messages, `{"reasoning":["high"]}`, "", `{}`, "reasoning"},
		{"budget of another shape", domain.Chat, domain.Messages, `{"reasoning":{"max_tokens":"9","effort":["low"]}}`, "", `{}`, "reasoning.max_tokens reasoning.effort"},
		{"effort from messages", domain.Messages, domain.Responses, `{"output_config":{"effort":"high","x":1}}`, "", `{"reasoning":{"effort":"high"}}`, "output_config.x"},
		{"thinking from messages", domain.Messages, domain.Chat, `{"thinking":{"type":"enabled","budget_tokens":9,"display":"full"}}`, "", `{"reasoning":{"max_tokens":9}}`, "thinking.display"},
		{"thinking and effort meet", domain.Messages, domain.Responses, `{"output_config":{"effort":"low"},"model":"m","thinking":{"type":"enabled","budget_tokens":9}}`, "", `{"reasoning":{"effort":"low","max_tokens":9},"model":"m"}`, ""},
		{"adaptive thinking", domain.Messages, domain.Responses, `{"thinking":{"type":"adaptive","budget_tokens":9}}`, "", `{}`, "thinking"},
		{"disabled thinking", domain.Messages, domain.Chat, `{"thinking":{"type":"disabled"}}`, "", `{}`, "thinking"},
		{"thinking without budget", domain.Messages, domain.Chat, `{"thinking":{"type":"enabled","display":"x"}}`, "", `{}`, "thinking"},
		{"output_config of another shape", domain.Messages, domain.Chat, `{"output_config":"x"}`, "", `{}`, "output_config"},
		{"reasoning unknown", domain.Responses, domain.Chat, `{"model":"m","reasoning":{"summary":"auto","effort":"high","max_tokens":3}}`, "reasoning", `{"model":"m","reasoning_effort":"high"}`, "reasoning.summary reasoning.max_tokens"},
		{"reasoning unknown and without effort", domain.Responses, domain.Chat, `{"reasoning":{"summary":"auto"}}`, "reasoning", `{}`, "reasoning"},
		{"reasoning and effort unknown", domain.Responses, domain.Chat, `{"reasoning":{"effort":"low","summary":"auto"}}`, "reasoning reasoning_effort", `{}`, "reasoning"},
		{"reasoning unknown in responses", domain.Chat, domain.Responses, `{"reasoning_effort":"low","reasoning":{"summary":"auto"}}`, "reasoning", `{}`, "reasoning"},
		{"reasoning unknown, from messages", domain.Messages, domain.Chat, `{"output_config":{"effort":"low"},"thinking":{"type":"enabled","budget_tokens":9}}`, "reasoning", `{"reasoning_effort":"low"}`, "reasoning.max_tokens"},
		{"thinking alone, reasoning unknown", domain.Messages, domain.Chat, `{"thinking":{"type":"enabled","budget_tokens":9}}`, "reasoning", `{}`, "reasoning"},
		{"unknown is a name of the other dialect, part of it dropped", domain.Responses, domain.Messages, `{"reasoning":{"effort":"minimal"}}`, "reasoning", `{}`, "reasoning.effort"},
		{"output_config unknown", domain.Responses, domain.Messages, `{"reasoning":{"effort":"low","max_tokens":9},"text":{"format":{"type":"json_schema","name":"n","schema":{}}}}`, "output_config thinking", `{}`, "output_config thinking"},
		{"same dialect, reasoning unknown", domain.Chat, domain.Chat, `{"reasoning":{"effort":"high","summary":"auto"}}`, "reasoning", `{"reasoning_effort":"high"}`, "reasoning.summary"},
		{"same dialect, effort unknown", domain.Chat, domain.Chat, `{"reasoning_effort":"high","seed":1,"reasoning":{"summary":"auto"}}`, "reasoning_effort", `{"reasoning":{"summary":"auto","effort":"high"},"seed":1}`, ""},
		{"same dialect, effort unknown and contradicting", domain.Chat, domain.Chat, `{"reasoning_effort":"high","reasoning":{"effort":"low"}}`, "reasoning_effort", `{"reasoning":{"effort":"low"}}`, "reasoning_effort"},
		{"same dialect, reasoning unknown and contradicting", domain.Chat, domain.Chat, `{"reasoning":{"effort":"low"},"reasoning_effort":"high"}`, "reasoning", `{"reasoning_effort":"high"}`, "reasoning.effort"},
		{"same dialect, both efforts unknown", domain.Chat, domain.Chat, `{"reasoning_effort":"high"}`, "reasoning_effort reasoning", `{}`, "reasoning_effort"},
		{"same dialect without alternatives", domain.Responses, domain.Responses, `{"reasoning":{"effort":"low"},"text":{"verbosity":"low"}}`, "reasoning text", `{}`, "reasoning text"},

		// Format and verbosity.
		{"schema responses to chat", domain.Responses, domain.Chat, `{"text":{"format":{"type":"json_schema","name":"n","schema":{ "a":null},"description":"d","strict":true},"verbosity":"low"}}`, "", `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "a":null},"description":"d","strict":true}},"verbosity":"low"}`, ""},
		{"schema chat to responses", domain.Chat, domain.Responses, `{"verbosity":"low","model":"m","response_format":{"json_schema":{"strict":null,"schema":{ },"name":"n","x":1},"type":"json_schema","y":1}}`, "", `{"text":{"verbosity":"low","format":{"type":"json_schema","schema":{ },"name":"n"}},"model":"m"}`, "response_format.json_schema.x response_format.y"},
		{"schema responses to messages", domain.Responses, domain.Messages, `{"text":{"format":{"type":"json_schema","name":"n","schema":{},"description":"d","strict":true},"verbosity":"low"}}`, "", `{"output_config":{"format":{"type":"json_schema","schema":{}}}}`, "text.format.name text.format.description text.format.strict text.verbosity"},
		{"schema chat to messages", domain.Chat, domain.Messages, `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"verbosity":"low"}`, "", `{"output_config":{"format":{"type":"json_schema","schema":{}}}}`, "response_format.json_schema.name verbosity"},
		{"schema messages to responses", domain.Messages, domain.Responses, `{"output_config":{"format":{"type":"json_schema","schema":{}}}}`, "", `{"text":{"format":{"type":"json_schema","schema":{},"name":"response"}}}`, ""},
		{"schema messages to chat", domain.Messages, domain.Chat, `{"output_config":{"format":{"type":"json_schema","schema":{},"x":1},"effort":"low"}}`, "", `{"response_format":{"type":"json_schema","json_schema":{"schema":{},"name":"response"}},"reasoning_effort":"low"}`, "output_config.format.x"},
		{"effort and format meet", domain.Responses, domain.Messages, `{"reasoning":{"effort":"low"},"model":"m","text":{"format":{"type":"json_schema","name":"n","schema":{}}}}`, "", `{"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},"model":"m"}`, "text.format.name"},
		{"text responses to chat", domain.Responses, domain.Chat, `{"text":{"format":{"type":"text"}}}`, "", `{"response_format":{"type":"text"}}`, ""},
		{"json_object chat to responses", domain.Chat, domain.Responses, `{"response_format":{"type":"json_object","x":1}}`, "", `{"text":{"format":{"type":"json_object"}}}`, "response_format.x"},
		{"text to messages", domain.Responses, domain.Messages, `{"text":{"format":{"type":"text"}}}`, "", `{}`, "text.format"},
		{"json_object to messages", domain.Chat, domain.Messages, `{"response_format":{"type":"json_object"}}`, "", `{}`, "response_format"},
		{"json_object is no format of messages", domain.Messages, domain.Chat, `{"output_config":{"format":{"type":"json_object"}}}`, "", `{}`, "output_config.format"},
		{"grammar", domain.Chat, domain.Responses, `{"response_format":{"type":"grammar","grammar":"g"}}`, "", `{}`, "response_format"},
		{"python", domain.Chat, domain.Messages, `{"response_format":{"type":"python"}}`, "", `{}`, "response_format"},
		{"schema that is none", domain.Chat, domain.Responses, `{"response_format":{"type":"json_schema","json_schema":{"name":"n"}}}`, "", `{}`, "response_format"},
		{"format of another shape", domain.Responses, domain.Chat, `{"text":{"format":"text","x y":1}}`, "", `{}`, "text.format text.x_y"},
		{"text without parts", domain.Responses, domain.Chat, `{"text":{}}`, "", `{}`, "text"},
		{"format unknown", domain.Responses, domain.Chat, `{"text":{"format":{"type":"text"},"verbosity":"low"}}`, "response_format", `{"verbosity":"low"}`, "response_format"},

		// Stop and models.
		{"one stop", domain.Chat, domain.Messages, `{"stop":"x"}`, "", `{"stop_sequences":["x"]}`, ""},
		{"stops", domain.Chat, domain.Messages, `{"stop":[ "x","y"]}`, "", `{"stop_sequences":[ "x","y"]}`, ""},
		{"stop of another shape", domain.Chat, domain.Messages, `{"stop":7}`, "", `{}`, "stop"},
		{"stop sequences", domain.Messages, domain.Chat, `{"stop_sequences":[ "x"]}`, "", `{"stop":[ "x"]}`, ""},
		{"stop sequence that is none", domain.Messages, domain.Chat, `{"stop_sequences":{}}`, "", `{}`, "stop_sequences"},
		{"no stop in responses", domain.Chat, domain.Responses, `{"stop":"x"}`, "", `{}`, "stop"},
		{"no stop sequences in responses", domain.Messages, domain.Responses, `{"stop_sequences":["x"]}`, "", `{}`, "stop_sequences"},
		{"models", domain.Responses, domain.Messages, `{"models":[ "a"]}`, "", `{"models":[ "a"]}`, ""},
		{"models from messages", domain.Messages, domain.Chat, `{"models":[ "a"]}`, "", `{"models":[ "a"]}`, ""},
		{"fallbacks", domain.Messages, domain.Chat, `{"fallbacks":[{"model":"a"},{"x":1,"model":"b","y":null},{"model":7},{}]}`, "", `{"models":["a","b"]}`, "fallbacks.1.x fallbacks.2 fallbacks.3"},
		{"fallbacks to responses", domain.Messages, domain.Responses, `{"fallbacks":[{"model":"a"}]}`, "", `{"models":["a"]}`, ""},
		{"fallbacks beside models", domain.Messages, domain.Chat, `{"fallbacks":[{"model":"a","x":1}],"model":"m","models":["b"]}`, "", `{"model":"m","models":["b"]}`, "fallbacks"},
		{"no fallbacks", domain.Messages, domain.Chat, `{"fallbacks":[]}`, "", `{}`, "fallbacks"},
		{"fallbacks of another shape", domain.Messages, domain.Chat, `{"fallbacks":{"model":"a"}}`, "", `{}`, "fallbacks"},
		{"models unknown", domain.Messages, domain.Chat, `{"fallbacks":[{"model":"a"}]}`, "models", `{}`, "models"},
		{"same dialect, models unknown", domain.Messages, domain.Messages, `{"models":["a"]}`, "models", `{}`, "models"},
		{"same dialect, fallbacks unknown", domain.Messages, domain.Messages, `{"fallbacks":[{"model":"a"}]}`, "fallbacks", `{}`, "fallbacks"},

		// Tools.
		{"function responses to chat", domain.Responses, domain.Chat, `{"tools":[` + fn + `]}`, "", `{"tools":[` + cfn + `]}`, ""},
		{"function responses to messages", domain.Responses, domain.Messages, `{"tools":[` + fn + `]}`, "", `{"tools":[` + mfn + `]}`, ""},
		{"function chat to responses", domain.Chat, domain.Responses, `{"tools":[` + cfn + `]}`, "", `{"tools":[` + fn + `]}`, ""},
		{"function chat to messages", domain.Chat, domain.Messages, `{"tools":[` + cfn + `]}`, "", `{"tools":[` + mfn + `]}`, ""},
		{"function messages to responses", domain.Messages, domain.Responses, `{"tools":[` + mfn + `]}`, "", `{"tools":[` + fn + `]}`, ""},
		{"function messages to chat", domain.Messages, domain.Chat, `{"tools":[` + mfn + `]}`, "", `{"tools":[` + cfn + `]}`, ""},
		{"custom function of messages", domain.Messages, domain.Chat, `{"tools":[{"name":"f","type":"custom","input_schema":{}}]}`, "", `{"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`, ""},
		{"parameters null to chat", domain.Responses, domain.Chat, `{"tools":[{"type":"function","name":"f","parameters":null,"strict":null,"description":null}]}`, "", `{"tools":[{"type":"function","function":{"name":"f"}}]}`, ""},
		{"parameters null to messages", domain.Responses, domain.Messages, `{"tools":[{"type":"function","name":"f","parameters":null}]}`, "", `{"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`, ""},
		{"parameters absent to responses", domain.Chat, domain.Responses, `{"tools":[{"type":"function","function":{"name":"f"}}]}`, "", `{"tools":[{"type":"function","name":"f","parameters":null}]}`, ""},
		{"cache control", domain.Chat, domain.Messages, `{"tools":[{"type":"function","function":{"name":"f","parameters":{}},"cache_control":{ }}]}`, "", `{"tools":[{"name":"f","input_schema":{},"cache_control":{ }}]}`, ""},
		{"cache control back", domain.Messages, domain.Chat, `{"tools":[{"name":"f","input_schema":{},"cache_control":{ }}]}`, "", `{"tools":[{"type":"function","function":{"name":"f","parameters":{}},"cache_control":{ }}]}`, ""},
		{"no cache control in responses", domain.Messages, domain.Responses, `{"tools":[{"name":"f","input_schema":{},"cache_control":{ }}]}`, "", `{"tools":[{"type":"function","name":"f","parameters":{}}]}`, "tools.0.cache_control"},
		{"deferred", domain.Responses, domain.Messages, `{"tools":[{"type":"function","name":"f","parameters":{},"defer_loading":true}]}`, "", `{"tools":[{"name":"f","input_schema":{},"defer_loading":true}]}`, ""},
		{"deferred back", domain.Messages, domain.Responses, `{"tools":[{"name":"f","input_schema":{},"defer_loading":true}]}`, "", `{"tools":[{"type":"function","name":"f","parameters":{},"defer_loading":true}]}`, ""},
		{"not deferred in chat", domain.Responses, domain.Chat, `{"tools":[{"type":"function","name":"f","parameters":{},"defer_loading":true}]}`, "", `{"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`, "tools.0.defer_loading"},
		{"other members of functions", domain.Chat, domain.Responses, `{"tools":["x",{"type":"function","function.strict":1,"a":1,"function":{"name":"f","parameters":{},"b c":1,"name":"g"},"models":[]}]}`, "", `{"tools":[{"type":"function","name":"f","parameters":{}}]}`, "tools.0 tools.1.function.strict tools.1.a tools.1.function.b_c tools.1.function.name tools.1.models"},
		{"functions without a name", domain.Chat, domain.Responses, `{"tools":[{"type":"function"},{"type":"function","function":"f"},{"type":"function","function":{"name":7}},{"type":"function","name":"f"}]}`, "", `{}`, "tools.0 tools.1 tools.2 tools.3"},
		{"server tools", domain.Responses, domain.Messages, `{"tools":[ {"type":"openrouter:web_search", "parameters":{}} ]}`, "", `{"tools":[ {"type":"openrouter:web_search", "parameters":{}} ]}`, ""},
		{"apply_patch to chat", domain.Responses, domain.Chat, `{"tools":[{"type":"openrouter:apply_patch"},{"type":"openrouter:bash"}]}`, "", `{"tools":[{"type":"openrouter:bash"}]}`, "tools.0"},
		{"apply_patch to messages", domain.Responses, domain.Messages, `{"tools":[{"type":"openrouter:apply_patch"}]}`, "", `{}`, "tools.0"},
		{"search responses to chat", domain.Responses, domain.Chat, `{"tools":[ {"type":"web_search_preview"},{"type":"web_search_preview_2025_03_11"},{"type":"web_search"},{"type":"web_search_2025_08_26", "x":1}]}`, "", `{"tools":[ {"type":"web_search_preview"},{"type":"web_search_preview_2025_03_11"},{"type":"web_search"},{"type":"web_search_2025_08_26", "x":1}]}`, ""},
		{"search chat to messages", domain.Chat, domain.Messages, `{"tools":[{"type":"web_search"},{"type":"web_search_preview"}]}`, "", `{}`, "tools.0 tools.1"},
		{"search of messages", domain.Messages, domain.Responses, `{"tools":[{"type":"web_search","name":"web_search"},{"type":"web_search_20250305","name":"web_search"}]}`, "", `{}`, "tools.0 tools.1"},
		{"other tools", domain.Responses, domain.Chat, `{"tools":[{"type":"mcp","server_label":"s"},{"type":"custom","name":"c"},` + fn + `,{"type":"namespace","name":"n"},{"type":"file_search"},{"type":7,"name":"f"},{"name":"f"}]}`, "", `{"tools":[` + cfn + `]}`, "tools.0 tools.1 tools.3 tools.4 tools.5 tools.6"},
		{"type of another shape in messages", domain.Messages, domain.Chat, `{"tools":[{"type":7,"name":"f"},{"type":null,"name":"g"}]}`, "", `{"tools":[{"type":"function","function":{"name":"g"}}]}`, "tools.0"},
		{"tools of another shape", domain.Chat, domain.Messages, `{"tools":{"a":1}}`, "", `{}`, "tools"},
		{"no tools", domain.Chat, domain.Messages, `{"tools":[ ],"tool_choice":"required"}`, "", `{"tools":[ ],"tool_choice":{"type":"any"}}`, ""},
		{"tools unknown", domain.Messages, domain.Chat, `{"tools":[{"type":"bash_20250124"},{"name":"f"}],"tool_choice":{"type":"auto"}}`, "tools", `{}`, "tools tool_choice"},

		// Tool choice.
		{"auto to messages", domain.Responses, domain.Messages, `{"tool_choice":"auto"}`, "", `{"tool_choice":{"type":"auto"}}`, ""},
		{"none to messages", domain.Chat, domain.Messages, `{"tool_choice":"none"}`, "", `{"tool_choice":{"type":"none"}}`, ""},
		{"required to messages", domain.Chat, domain.Messages, `{"tool_choice":"required"}`, "", `{"tool_choice":{"type":"any"}}`, ""},
		{"required to chat", domain.Responses, domain.Chat, `{"tool_choice":"required"}`, "", `{"tool_choice":"required"}`, ""},
		{"auto from messages", domain.Messages, domain.Chat, `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true,"x":null}}`, "", `{"tool_choice":"auto","parallel_tool_calls":false}`, ""},
		{"none from messages", domain.Messages, domain.Responses, `{"tool_choice":{"type":"none"}}`, "", `{"tool_choice":"none"}`, ""},
		{"any from messages", domain.Messages, domain.Responses, `{"tool_choice":{"type":"any"}}`, "", `{"tool_choice":"required"}`, ""},
		{"choice responses to chat", domain.Responses, domain.Chat, `{"tool_choice":{"type":"function","name":"f"}}`, "", `{"tool_choice":{"type":"function","function":{"name":"f"}}}`, ""},
		{"choice responses to messages", domain.Responses, domain.Messages, `{"tool_choice":{"name":"f","type":"function"}}`, "", `{"tool_choice":{"type":"tool","name":"f"}}`, ""},
		{"choice chat to responses", domain.Chat, domain.Responses, `{"tool_choice":{"type":"function","function":{"name":"f","strict":true}}}`, "", `{"tool_choice":{"type":"function","name":"f"}}`, "tool_choice.function.strict"},
		{"choice chat to messages", domain.Chat, domain.Messages, `{"tool_choice":{"type":"function","function":{"name":"f"}}}`, "", `{"tool_choice":{"type":"tool","name":"f"}}`, ""},
		{"choice messages to responses", domain.Messages, domain.Responses, `{"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`, "", `{"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false}`, ""},
		{"parallel calls are what messages does", domain.Messages, domain.Chat, `{"tool_choice":{"type":"any","disable_parallel_tool_use":false}}`, "", `{"tool_choice":"required"}`, "tool_choice.disable_parallel_tool_use"},
		{"no parallel calls of no tool", domain.Messages, domain.Responses, `{"tool_choice":{"type":"none","disable_parallel_tool_use":true}}`, "", `{"tool_choice":"none"}`, "tool_choice.disable_parallel_tool_use"},
		{"no parallel calls, and a choice that is lost", domain.Messages, domain.Chat, `{"tool_choice":{"type":"new","disable_parallel_tool_use":true}}`, "", `{"parallel_tool_calls":false}`, "tool_choice"},
		{"no parallel calls, null", domain.Messages, domain.Chat, `{"tool_choice":{"type":"any","disable_parallel_tool_use":null}}`, "", `{"tool_choice":"required"}`, ""},
		{"no parallel calls to messages", domain.Chat, domain.Messages, `{"parallel_tool_calls":false}`, "", `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, ""},
		{"no parallel calls to messages, before a choice", domain.Responses, domain.Messages, `{"parallel_tool_calls":false,"model":"m","tool_choice":"required"}`, "", `{"tool_choice":{"type":"any","disable_parallel_tool_use":true},"model":"m"}`, ""},
		{"no parallel calls to messages, beside a function", domain.Chat, domain.Messages, `{"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false}`, "", `{"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`, ""},
		{"no parallel calls to messages, beside none", domain.Chat, domain.Messages, `{"tool_choice":"none","parallel_tool_calls":false}`, "", `{"tool_choice":{"type":"none"}}`, "parallel_tool_calls"},
		{"no parallel calls to messages, no tools left", domain.Responses, domain.Messages, `{"tools":[{"type":"shell"}],"parallel_tool_calls":false}`, "", `{}`, "tools.0 parallel_tool_calls"},
		{"no parallel calls to messages, tool_choice unknown", domain.Chat, domain.Messages, `{"parallel_tool_calls":false}`, "tool_choice", `{}`, "tool_choice"},
		{"no parallel calls of another shape", domain.Chat, domain.Messages, `{"parallel_tool_calls":"no"}`, "", `{}`, "parallel_tool_calls"},
		{"no parallel calls, unknown", domain.Messages, domain.Chat, `{"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`, "parallel_tool_calls", `{"tool_choice":"required"}`, "parallel_tool_calls"},
		{"no parallel calls, same dialect", domain.Messages, domain.Messages, `{"tool_choice":{"type":"none", "disable_parallel_tool_use":true}}`, "", `{"tool_choice":{"type":"none", "disable_parallel_tool_use":true}}`, ""},

		// The tier.
		{"tier to messages", domain.Chat, domain.Messages, `{"service_tier":"flex","model":"m"}`, "", `{"model":"m"}`, "service_tier"},
		{"tier that all have", domain.Responses, domain.Messages, `{"service_tier":"auto"}`, "", `{"service_tier":"auto"}`, ""},
		{"tier of messages to messages", domain.Messages, domain.Messages, `{"service_tier":"priority"}`, "", `{"service_tier":"priority"}`, ""},
		{"tier of Anthropic alone", domain.Messages, domain.Chat, `{"service_tier":"standard_only"}`, "", `{}`, "service_tier"},
		{"tier of messages that others have", domain.Messages, domain.Responses, `{"service_tier":"priority"}`, "", `{"service_tier":"priority"}`, ""},
		{"tier to chat", domain.Responses, domain.Chat, `{"service_tier":"flex"}`, "", `{"service_tier":"flex"}`, ""},
		{"choice messages to chat", domain.Messages, domain.Chat, `{"tool_choice":{"type":"tool","name":"f"}}`, "", `{"tool_choice":{"type":"function","function":{"name":"f"}}}`, ""},
		{"choice without a name", domain.Messages, domain.Chat, `{"tool_choice":{"type":"tool","x":1}}`, "", `{}`, "tool_choice"},
		{"search choice to chat", domain.Responses, domain.Chat, `{"tool_choice":{"type": "web_search_preview"}}`, "", `{"tool_choice":{"type": "web_search_preview"}}`, ""},
		{"search choice to responses", domain.Chat, domain.Responses, `{"tool_choice":{"type": "web_search_preview_2025_03_11"}}`, "", `{"tool_choice":{"type": "web_search_preview_2025_03_11"}}`, ""},
		{"search choice to messages", domain.Chat, domain.Messages, `{"tool_choice":{"type":"web_search_preview"}}`, "", `{}`, "tool_choice"},
		{"server tool choice to responses", domain.Chat, domain.Responses, `{"tool_choice":{"type": "openrouter:bash"}}`, "", `{"tool_choice":{"type": "openrouter:bash"}}`, ""},
		{"server tool choice to chat", domain.Responses, domain.Chat, `{"tool_choice":{"type": "openrouter:bash"}}`, "", `{"tool_choice":{"type": "openrouter:bash"}}`, ""},
		{"server tool choice messages to chat", domain.Messages, domain.Chat, `{"tool_choice":{"type": "openrouter:bash"}}`, "", `{"tool_choice":{"type": "openrouter:bash"}}`, ""},
		{"server tool choice to messages", domain.Chat, domain.Messages, `{"tool_choice":{"type":"openrouter:bash"}}`, "", `{}`, "tool_choice"},
		{"server tool choice messages to responses", domain.Messages, domain.Responses, `{"tool_choice":{"type":"openrouter:bash"}}`, "", `{}`, "tool_choice"},
		{"allowed tools", domain.Responses, domain.Chat, `{"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`, "", `{}`, "tool_choice"},
		{"shell choice", domain.Responses, domain.Chat, `{"tool_choice":{"type":"shell"}}`, "", `{}`, "tool_choice"},
		{"choice by another word", domain.Chat, domain.Responses, `{"tool_choice":"any"}`, "", `{}`, "tool_choice"},
		{"choice of another shape", domain.Messages, domain.Chat, `{"tool_choice":"auto"}`, "", `{}`, "tool_choice"},
		{"required without tools left", domain.Responses, domain.Chat, `{"tool_choice":"required","tools":[{"type":"shell"}]}`, "", `{}`, "tool_choice tools.0"},
		{"any without tools left", domain.Responses, domain.Messages, `{"tools":[{"type":"shell"}],"model":"m","tool_choice":"required"}`, "", `{"model":"m"}`, "tools.0 tool_choice"},
		{"named without tools left", domain.Messages, domain.Chat, `{"tools":[{"type":"bash_1","name":"b"}],"tool_choice":{"type":"tool","name":"b"}}`, "", `{}`, "tools.0 tool_choice"},
		{"auto without tools left", domain.Responses, domain.Messages, `{"tools":[{"type":"shell"}],"tool_choice":"auto"}`, "", `{}`, "tools.0 tool_choice"},
		{"none without tools left", domain.Responses, domain.Chat, `{"tools":[{"type":"shell"}],"tool_choice":"none","parallel_tool_calls":true}`, "", `{}`, "tools.0 tool_choice parallel_tool_calls"},
		{"required with a tool left", domain.Responses, domain.Chat, `{"tools":[{"type":"shell"},{"type":"web_search"}],"tool_choice":"required"}`, "", `{"tools":[{"type":"web_search"}],"tool_choice":"required"}`, "tools.0"},
		{"required without tools", domain.Responses, domain.Chat, `{"tool_choice":"required"}`, "", `{"tool_choice":"required"}`, ""},
		{"required with tools unknown", domain.Chat, domain.Chat, `{"tools":[{"type":"shell"}],"tool_choice":"required"}`, "tools", `{}`, "tools tool_choice"},

		// Impossible settings: capture checks them.
		{"field that is there twice", domain.Responses, domain.Chat, `{"model":"a","model":"b","max_output_tokens":1,"max_output_tokens":2}`, "", `{"model":"a","max_completion_tokens":1}`, "model max_output_tokens"},
		// Text that is no Unicode.
		{"half characters stay", domain.Chat, domain.Responses, `{"reasoning_effort":"low","reasoning":{"\ud800":1,"a":"\ud800"},"model":"\ud800"}`, "", `{"reasoning":{"\ud800":1,"a":"\ud800","effort":"low"},"model":"\ud800"}`, ""},
		{"half characters in what is converted", domain.Chat, domain.Messages, `{"stop":"\ud800","reasoning":{"effort":"\ud800","\ud800":1},"tools":[{"type":"function","function":{"name":"\ud800","description":"\ud800"}},{"type":"\ud800"}]}`, "", `{"stop_sequences":["\ud800"],"tools":[{"name":"\ud800","description":"\ud800","input_schema":{"type":"object","properties":{}}}]}`, "reasoning.effort reasoning.___ tools.1"},

		// The list of dropped settings.
		{"dropped in the order of settings", domain.Chat, domain.Messages, `{"seed":1,"max_tokens":2,"verbosity":"low","tools":[{"type":"x"}],"max_completion_tokens":3,"min_p":1}`, "", `{"max_tokens":3}`, "seed max_tokens verbosity tools.0 min_p"},
		{"dropped names fit a header", domain.Responses, domain.Messages, `{"reasoning":{"a\r\nb: c":1,"ü":1,"A-z_9:.":1,"":1,"a,b":1,"a;b":2}}`, "", `{}`, "reasoning.a__b:_c reasoning.__ reasoning.A-z_9:. reasoning. reasoning.a_b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := settingsOf(t, c.settings)
			fields, dropped := Translate(settings, c.from, c.to, unknownSet(c.unknown))
			if got := string(rawjson.ObjectOf(fields...)); got != c.want {
				t.Errorf("%s to %s: got\n%s, want\n%s", c.from, c.to, got, c.want)
			}
			if got := strings.Join(dropped, " "); got != c.dropped {
				t.Errorf("%s to %s: dropped %q, want %q", c.from, c.to, got, c.dropped)
			}
			if got := string(rawjson.ObjectOf(settings...)); got != string(rawjson.ObjectOf(settingsOf(t, c.settings)...)) {
				t.Errorf("settings became %s", got)
			}
		})
	}
}

// A field without a rule stays as it is or is listed.
func TestTranslateFieldsWithoutRule(t *testing.T) {
	ruled := unknownSet(`max_output_tokens max_completion_tokens max_tokens reasoning reasoning_effort thinking output_config
		text response_format verbosity stop stop_sequences fallbacks tools tool_choice parallel_tool_calls service_tier`)
	for name, in := range SettingFields {
		for _, from := range allDialects {
			for _, to := range allDialects {
				if in&SetOf(from) == 0 || ruled[name] {
					continue
				}
				fields, dropped := Translate([]rawjson.Member{rawjson.NewMember(name, jsontext.Value(`[ ]`))}, from, to, nil)
				want, wantDropped := `{"`+name+`":[ ]}`, []string(nil)
				if PresetOnly[name] || in&SetOf(to) == 0 {
					want, wantDropped = `{}`, []string{name}
				}
				if got := string(rawjson.ObjectOf(fields...)); got != want || !slices.Equal(dropped, wantDropped) {
					t.Errorf("%s from %s to %s: got %s, dropped %q, want %s, %q", name, from, to, got, dropped, want, wantDropped)
				}
			}
		}
	}
}

// generator makes plausible settings.
type generator struct{ *rand.Rand }

func (g generator) pick(values ...string) string { return values[g.IntN(len(values))] }

func (g generator) some(n int) bool { return g.IntN(n) == 0 }

// object returns an object of a random part of members, "name:value" each, in
// random order. Those that begin with + are always there.
func (g generator) object(members ...string) string {
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var parts []string
	for _, m := range members {
		always := strings.HasPrefix(m, "+")
		if always || g.some(2) {
			name, value, _ := strings.Cut(strings.TrimPrefix(m, "+"), ":")
			parts = append(parts, strconv.Quote(name)+g.pick(":", ": ")+value)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g generator) array(element func() string) string {
	var elements []string
	for range 1 + g.IntN(4) {
		elements = append(elements, element())
	}
	return "[" + strings.Join(elements, g.pick(",", " , ")) + "]"
}

func (g generator) schema() string {
	return g.pick(`{"type":"object","properties":{"a":{"type": "string"}}}`, `{"type":"object","properties":{"x":{"enum":[1.0,2]}},"required":["x"]}`, `{}`)
}

func (g generator) effort() string {
	return g.pick(`"minimal"`, `"none"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`)
}

func (g generator) number() string { return strconv.Itoa(1 + g.IntN(9)) }

func (g generator) tool(d domain.Dialect) string {
	switch g.IntN(6) {
	case 0:
		if d == domain.Responses && g.some(3) {
			return `{"type":"openrouter:apply_patch"}`
		}
		return g.object(`+type:"openrouter:`+g.pick("web_search", "bash")+`"`, `parameters:{}`)
	case 1:
		return g.object(`+type:"`+g.pick("web_search_preview", "web_search", "mcp", "custom_", "shell", "web_search_20250305")+`"`, `+name:"w"`, `max_uses:1`)
	}
	name, strict, description := `+name:"`+g.pick("f", "g")+`"`, `strict:`+g.pick("true", "false", "null"), `description:`+g.pick(`"d"`, "null", `"\u00fc"`)
	switch d {
	case domain.Responses:
		return g.object(`+type:"function"`, name, strict, description, `+parameters:`+g.pick(g.schema(), "null"), `defer_loading:true`, `async:true`)
	case domain.Chat:
		return g.object(`+type:"function"`, `+function:`+g.object(name, strict, description, `parameters:`+g.schema(), `x:1`), `cache_control:{"type":"ephemeral"}`, `y:1`)
	}
	return g.object(`type:"custom"`, name, strict, description, `+input_schema:`+g.schema(), `cache_control:{"type":"ephemeral"}`, `defer_loading:true`, `input_examples:[]`)
}

func (g generator) toolChoice(d domain.Dialect) string {
	switch d {
	case domain.Responses:
		return g.pick(`"auto"`, `"none"`, `"required"`, `{"type":"function","name":"f"}`, `{"type":"web_search_preview"}`, `{"type":"shell"}`)
	case domain.Chat:
		return g.pick(`"auto"`, `"none"`, `"required"`, `{"type":"function","function":{"name":"f"}}`, `{"type":"openrouter:bash"}`)
	}
	return g.object(g.pick(`+type:"auto"`, `+type:"none"`, `+type:"any"`), `disable_parallel_tool_use:true`)
}

func (g generator) settings(d domain.Dialect) string {
	tool := func() string { return g.tool(d) }
	name := func() string { return g.pick(`"a"`, `"b"`, `"c"`) }
	tier := g.pick(`"auto"`, `"flex"`)
	if d == domain.Messages {
		tier = g.pick(`"auto"`, `"standard_only"`)
	}
	members := []string{
		`model:"m"`, `models:` + g.array(name), `provider:{"zdr": true}`, `plugins:[{"id":"web"}]`, `temperature:1.0`, `top_p:0.5`, `top_k:3`,
		`tools:` + g.array(tool), `tool_choice:` + g.toolChoice(d), `service_tier:` + tier, `route:"sort"`, `stop_server_tools_when:[{"type":"max_cost"}]`,
		`cache_control:{"type":"ephemeral"}`, `cache_enabled:true`, `cache_ttl_seconds:4`,
	}
	if d != domain.Messages {
		members = append(members, `parallel_tool_calls:`+g.pick("true", "false"), `frequency_penalty:1`, `presence_penalty:1`, `top_logprobs:1`, `modalities:["text"]`, `image_config:{"a":1}`, `prompt_cache_options:{"mode":"explicit"}`)
	}
	reasoning := g.object(`effort:`+g.effort(), `max_tokens:`+g.number(), `summary:`+g.pick(`"auto"`, `null`), `enabled:true`, `mode:"pro"`)
	format := g.pick(`{"type":"text"}`, `{"type":"json_object"}`)
	schema := []string{`+name:"n"`, `+schema:` + g.schema(), `description:"d"`, `strict:` + g.pick(`true`, `null`)}
	switch d {
	case domain.Responses:
		if g.some(2) {
			format = g.object(append(schema, `+type:"json_schema"`)...)
		}
		members = append(members, `max_output_tokens:`+g.number(), `reasoning:`+reasoning, `max_tool_calls:1`, `include:[]`, `truncation:"auto"`,
			`text:`+g.object(`format:`+format, `verbosity:"low"`))
	case domain.Chat:
		if g.some(2) {
			format = g.object(`+type:"json_schema"`, `+json_schema:`+g.object(schema...))
		} else if g.some(4) {
			format = `{"type":"grammar","grammar":"g"}`
		}
		members = append(members, `max_completion_tokens:`+g.number(), `max_tokens:`+g.number(), `reasoning:`+reasoning, `reasoning_effort:`+g.effort(),
			`stop:`+g.pick(`"s"`, `["s","t"]`), `verbosity:"low"`, `response_format:`+format, `min_p:1`, `top_a:1`, `seed:7`, `logit_bias:{}`, `logprobs:true`,
			`repetition_penalty:1`, `web_search_options:{}`, `structured_outputs:true`, `include_reasoning:true`)
	case domain.Messages:
		members = append(members, `max_tokens:`+g.number(), `stop_sequences:["s","t"]`, `fallbacks:`+g.array(func() string { return g.object(`+model:`+name(), `x:1`) }),
			`thinking:`+g.pick(`{"type":"adaptive"}`, `{"type":"disabled"}`, g.object(`+type:"enabled"`, `+budget_tokens:`+g.number(), `display:"x"`)),
			`output_config:`+g.object(`effort:`+g.pick(`"low"`, `"max"`), `format:`+g.object(`+type:"json_schema"`, `+schema:`+g.schema(), `x:1`), `task_budget:{}`),
			`context_management:{}`, `speed:"fast"`)
	}
	return g.object(members...)
}

// checkTranslation fails unless fields and dropped have the form that every
// translation has.
func checkTranslation(t *testing.T, fields []rawjson.Member, dropped []string, to domain.Dialect, unknown map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range fields {
		if !f.Value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) || f.Value.Kind() == 'n' {
			t.Errorf("%s is %s, want JSON other than null", f.Name, f.Value)
		}
		if SettingFields[f.Name]&SetOf(to) == 0 || PresetOnly[f.Name] || unknown[f.Name] {
			t.Errorf("got field %s, want fields that a request of %s may have", f.Name, to)
		}
		if seen[f.Name] {
			t.Errorf("got %s twice", f.Name)
		}
		seen[f.Name] = true
	}
	names := map[string]bool{}
	for _, name := range dropped {
		if names[name] || !regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`).MatchString(name) {
			t.Errorf("dropped %q has %q, want each name once and fit for a header", dropped, name)
		}
		names[name] = true
	}
}

// tree returns the meaning of fields.
func tree(t *testing.T, fields []rawjson.Member) map[string]any {
	t.Helper()
	var meaning map[string]any
	d := json.NewDecoder(bytes.NewReader(rawjson.ObjectOf(fields...)))
	d.UseNumber()
	if err := d.Decode(&meaning); err != nil {
		t.Fatal(err)
	}
	return meaning
}

// without returns the value at path without the parts that names list and
// without nulls, nil when nothing is left.
func without(value any, path string, names []string) any {
	if slices.Contains(names, path) {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, part := range v {
			if part = without(part, strings.TrimPrefix(path+"."+name, "."), names); part != nil {
				left[name] = part
			}
		}
		if len(left) > 0 || len(v) == 0 {
			return left
		}
		return nil
	case []any:
		left := []any{}
		for i, part := range v {
			if part = without(part, path+"."+strconv.Itoa(i), names); part != nil {
				left = append(left, part)
			}
		}
		if len(left) > 0 || len(v) == 0 {
			return left
		}
		return nil
	}
	return value
}

// canonical changes settings of dialect d into a canonical form: equivalent settings become
// equal.
func canonical(settings map[string]any, d domain.Dialect) map[string]any {
	rename := func(from, to string, convert func(any) any) {
		if v, ok := settings[from]; ok && d != domain.Responses {
			delete(settings, from)
			settings[to] = convert(v)
		}
	}
	if d == domain.Chat {
		rename("max_tokens", "max_completion_tokens", func(v any) any { return v })
		rename("reasoning_effort", "reasoning", func(v any) any {
			reasoning, _ := settings["reasoning"].(map[string]any)
			if reasoning == nil {
				reasoning = map[string]any{}
			}
			reasoning["effort"] = v
			return reasoning
		})
		rename("stop", "stop", func(v any) any {
			if _, ok := v.(string); ok {
				return []any{v}
			}
			return v
		})
	}
	rename("fallbacks", "models", func(v any) any {
		var models []any
		for _, entry := range v.([]any) {
			models = append(models, entry.(map[string]any)["model"])
		}
		return models
	})
	if settings["parallel_tool_calls"] == false && settings["tool_choice"] == nil {
		settings["tool_choice"] = "auto" // which has it in messages
	}
	format, _ := settings["response_format"].(map[string]any)
	format, _ = format["json_schema"].(map[string]any)
	if text, ok := settings["text"].(map[string]any); ok {
		format, _ = text["format"].(map[string]any)
		if format["type"] != "json_schema" {
			format = nil
		}
	}
	if format != nil && format["name"] == nil {
		format["name"] = "response"
	}
	tools, _ := settings["tools"].([]any)
	for _, tool := range tools {
		tool := tool.(map[string]any)
		if tool["type"] == "custom" {
			delete(tool, "type")
		}
		// Chat has its function's members one level down.
		inner, _ := tool["function"].(map[string]any)
		for _, function := range []map[string]any{tool, inner} {
			for _, name := range []string{"parameters", "input_schema"} {
				if reflect.DeepEqual(function[name], map[string]any{"type": "object", "properties": map[string]any{}}) {
					delete(function, name)
				}
			}
		}
	}
	return settings
}

// eachGenerated calls check with settings of each dialect on the way to each
// other one.
func eachGenerated(t *testing.T, rounds int, check func(t *testing.T, g generator, settings []rawjson.Member, from, to domain.Dialect)) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for i := range rounds {
		for _, from := range allDialects {
			text := g.settings(from)
			for _, to := range allDialects {
				ok := t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
					check(t, g, settingsOf(t, text), from, to)
					if t.Failed() {
						t.Logf("%s to %s: %s", from, to, text)
					}
				})
				if !ok {
					return
				}
			}
		}
	}
}

// Settings that are not listed as dropped come back from the other dialect.
func TestTranslateRoundTrip(t *testing.T) {
	tier.NoRace(t)
	eachGenerated(t, 500/tier.Sample(4), func(t *testing.T, _ generator, settings []rawjson.Member, from, to domain.Dialect) {
		there, dropped := Translate(settings, from, to, nil)
		checkTranslation(t, there, dropped, to, nil)
		back, droppedBack := Translate(there, to, from, nil)
		checkTranslation(t, back, droppedBack, from, nil)
		if from == to {
			if got, want := rawjson.ObjectOf(there...), rawjson.ObjectOf(slices.DeleteFunc(settings, func(m rawjson.Member) bool { return PresetOnly[m.Name] })...); !bytes.Equal(got, want) {
				t.Errorf("got %s, want it unchanged: %s", got, want)
			}
			return
		}
		for _, name := range droppedBack {
			// Messages has no name for a schema, so it gets one elsewhere.
			if name != "text.format.name" && name != "response_format.json_schema.name" {
				t.Errorf("dropped %q on the way back, want nothing that %s had not", droppedBack, from)
			}
		}
		left, _ := without(tree(t, settings), "", dropped).(map[string]any)
		want := canonical(left, from)
		got, _ := without(tree(t, back), "", nil).(map[string]any)
		if got = canonical(got, from); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("got back %v,\nwant %v,\ndropped %q\nin between %s", got, want, dropped, rawjson.ObjectOf(there...))
		}
	})
}

// A setting that the gateway does not know is listed or takes another name.
func TestTranslateUnknown(t *testing.T) {
	names := slices.Sorted(maps.Keys(SettingFields))
	others := map[string]string{
		"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens",
		"reasoning": "reasoning_effort", "reasoning_effort": "reasoning",
	}
	// A dropped setting may be listed under the name it would have been sent with.
	sentAs := map[string]string{
		"fallbacks": "models", "max_tokens": "max_output_tokens", "reasoning": "output_config thinking", "reasoning_effort": "reasoning output_config",
		"thinking": "reasoning", "output_config": "reasoning text response_format", "text": "response_format verbosity output_config",
		"response_format": "text output_config", "verbosity": "text", "parallel_tool_calls": "tool_choice", "tool_choice": "parallel_tool_calls",
	}
	eachGenerated(t, 500/tier.Sample(4), func(t *testing.T, g generator, settings []rawjson.Member, from, to domain.Dialect) {
		unknown := map[string]bool{}
		for range g.IntN(20) {
			unknown[names[g.IntN(len(names))]] = true
		}
		all, allDropped := Translate(settings, from, to, nil)
		known, dropped := Translate(settings, from, to, unknown)
		checkTranslation(t, known, dropped, to, unknown)
		listed := func(name string) bool {
			return slices.ContainsFunc(dropped, func(d string) bool { return d == name || strings.HasPrefix(d, name+".") })
		}
		for _, f := range all {
			got := rawjson.Find(known, f.Name)
			other := others[f.Name]
			switch {
			case bytes.Equal(got, f.Value):
			case got == nil && slices.Contains(ToolUseFields, f.Name) && unknown["tools"]:
				if !slices.ContainsFunc(ToolUseFields, listed) { // by the name that it was captured with
					t.Errorf("%s is gone, want it in %q", f.Name, dropped)
				}
			case got == nil && unknown[f.Name]:
				if !listed(f.Name) && (to != domain.Chat || rawjson.Find(known, other) == nil && (!unknown[other] || !listed(other))) {
					t.Errorf("%s is gone, want it in %q or under another name", f.Name, dropped)
				}
			case to == domain.Chat && got != nil && unknown[other]: // its other name joined it
			default:
				t.Errorf("%s became %s, want %s", f.Name, got, f.Value)
			}
		}
		for _, f := range known {
			if rawjson.Find(all, f.Name) == nil && (to != domain.Chat || !unknown[others[f.Name]]) {
				t.Errorf("%s appeared, want no more than %s", f.Name, rawjson.ObjectOf(all...))
			}
		}
		for _, name := range allDropped {
			field, _, _ := strings.Cut(name, ".")
			if !slices.Contains(dropped, name) && !listed(field) && !slices.ContainsFunc(strings.Fields(sentAs[field]), listed) {
				t.Errorf("%s is not in %q, want it there also with unknown %v", name, dropped, unknown)
			}
		}
		if t.Failed() {
			t.Logf("unknown %v, got %s", unknown, rawjson.ObjectOf(known...))
		}
	})
}

// FuzzTranslate takes the settings as an object of one member for each field.
// A member named by a number is the field of that number, so that any value
// meets any rule.
func FuzzTranslate(f *testing.F) {
	names := slices.Sorted(maps.Keys(SettingFields))
	g := generator{rand.New(rand.NewPCG(3, 4))}
	for i := range 30 {
		f.Add(g.settings(allDialects[i%3]), uint8(i%3), uint8(i/3), uint64(i))
	}
	f.Add(`{"tools":[{"type":"function","function":{"name":1,"name":"a"}},null,[]],"tool_choice":{"type":{}},"reasoning":[1]}`, uint8(1), uint8(2), uint64(0))
	f.Add(`{"thinking":{"type":"enabled","budget_tokens":[]},"output_config":{"format":{"type":"json_schema"},"format":7},"fallbacks":[[]]}`, uint8(2), uint8(0), uint64(1))
	f.Fuzz(func(t *testing.T, text string, from, to uint8, unknownBits uint64) {
		source, target := allDialects[from%3], allDialects[to%3]
		members, err := rawjson.Members(jsontext.Value(text))
		if err != nil {
			return
		}
		var settings []rawjson.Member
		seen, unknown := map[string]bool{}, map[string]bool{}
		for _, m := range members {
			if n, err := strconv.Atoi(m.Name); err == nil && n >= 0 {
				m.Name = names[n%len(names)]
			}
			if SettingFields[m.Name]&SetOf(source) != 0 && !seen[m.Name] {
				seen[m.Name] = true
				settings = append(settings, m)
			}
		}
		for i, name := range names {
			if unknownBits>>i&1 == 1 {
				unknown[name] = true
			}
		}
		before := string(rawjson.ObjectOf(settings...))
		fields, dropped := Translate(settings, source, target, unknown)
		checkTranslation(t, fields, dropped, target, unknown)
		if after := string(rawjson.ObjectOf(settings...)); after != before {
			t.Errorf("settings became %s, want %s", after, before)
		}
		if len(fields)+len(dropped) == 0 {
			for _, s := range settings {
				if s.Value.Kind() != 'n' {
					t.Errorf("nothing is left of %s and nothing listed", before)
				}
			}
		}
	})
}
