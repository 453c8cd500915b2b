package strictgateway

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	responses = domain.Responses
	chat      = domain.Chat
	messages  = domain.Messages
)

// A strict gateway refuses each pair, and takes what is beside it.
func TestRefusals(t *testing.T) {
	const (
		cached   = `"cache_control":{"type":"ephemeral"}`
		blocks   = `[{"type":"text","text":"a",` + cached + `},{"type":"text","text":"b",` + cached + `}]`
		function = `{"type":"function","function":{"name":"f"}}`
	)
	for _, tc := range []struct {
		dialect domain.Dialect
		body    string
		want    string // the beginnings of the reasons, with spaces between; none if empty
	}{
		{chat, `{"messages":[{"role":"system"},{"role":"user"},{"role":"assistant"}]}`, ""},
		{chat, `{"messages":[{"role":"system"},{"role":"system"}]}`, "messages:"},
		{chat, `{"messages":[{"role":"user"},{"role":"developer"}]}`, "messages:"},
		{messages, `{"messages":[{"role":"user"},{"role":"system"}]}`, ""},

		{chat, `{"tool_choice":"auto"}`, "tool_choice:"},
		{messages, `{"tool_choice":{"type":"auto"},"tools":[]}`, "tool_choice:"},
		{responses, `{"tool_choice":"none","parallel_tool_calls":true,"tools":null}`, "tool_choice: parallel_tool_calls:"},
		{responses, `{"tool_choice":null,"parallel_tool_calls":null}`, ""},
		{chat, `{"tool_choice":"required","parallel_tool_calls":false,"tools":[` + function + `]}`, ""},

		{chat, `{"tools":[` + function + `,{"type":"custom","custom":{"name":"f"}}]}`, "tools:"},
		{chat, `{"tools":[{"type":"function","name":"f","function":{"name":"a"}},{"type":"function","name":"f","function":{"name":"b"}}]}`, ""},
		{responses, `{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]}`, "tools:"},
		{responses, `{"tools":[{"type":"function","name":"f"},{"type":"namespace","name":"f"},{"type":"mcp","server_label":"f","name":"f"}]}`, ""},
		{responses, `{"tools":[{"type":"web_search"},{"type":"web_search_preview_2025_03_11"}]}`, "tools:"},
		{responses, `{"tools":[{"type":"web_search"},{"type":"file_search"},{"type":"shell"},{}]}`, ""},
		{messages, `{"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"web_search_20260209","name":"web_search"}]}`, "tools:"},
		{messages, `{"tools":[{"type":"bash_20250124","name":"bash"},{"name":"bash"}]}`, "tools:"},
		{messages, `{"tools":[{"name":"a"},{"name":"b"}]}`, ""},

		{messages, `{"thinking":{"type":"adaptive"},"temperature":0.9}`, "temperature:"},
		{messages, `{"thinking":{"type":"enabled"},"temperature":1.0,"top_k":4}`, "top_k:"},
		{messages, `{"thinking":{"type":"enabled"},"top_p":0.94}`, "top_p:"},
		{messages, `{"thinking":{"type":"enabled"},"top_p":0.95}`, ""},
		{messages, `{"thinking":{"type":"disabled"},"temperature":0.2,"top_k":1}`, ""},
		{messages, `{"temperature":1,"top_p":1}`, "temperature:"},
		{chat, `{"temperature":1,"top_p":1,"top_k":1,"thinking":{"type":"enabled"}}`, ""},

		{messages, `{"thinking":{"type":"enabled","budget_tokens":2048},"max_tokens":2048}`, "thinking.budget_tokens:"},
		{messages, `{"thinking":{"type":"enabled","budget_tokens":2048},"max_tokens":2049}`, ""},
		{messages, `{"thinking":{"type":"enabled","budget_tokens":1e400}}`, ""},

		{messages, `{` + cached + `,"tools":[{"name":"a",` + cached + `}],"system":` + blocks + `}`, ""},
		{messages, `{` + cached + `,"tools":[{"name":"a",` + cached + `}],"system":` + blocks + `,"messages":[{"content":` + blocks + `}]}`, "cache_control:"},
		{messages, `{"messages":[{"content":` + blocks + `},{"content":[{"type":"tool_result",` + cached + `,"content":` + blocks + `}]}]}`, "cache_control:"},
		{messages, `{"messages":[{"content":` + blocks + `},{"content":[{"type":"document","source":{"type":"content","content":` + blocks + `}},{"text":"c","cache_control":null}]}]}`, ""},

		{messages, `{"thinking":{"type":"enabled"},"tool_choice":{"type":"tool","name":"f"},"tools":[{"name":"f"}]}`, "thinking:"},
		{messages, `{"thinking":{"type":"enabled"},"tool_choice":{"type":"auto"},"tools":[{"name":"f"}]}`, ""},
		{messages, `{"thinking":{"type":"adaptive"},"tool_choice":{"type":"any"},"tools":[{"name":"f"}]}`, ""},

		{chat, `{"model":"openai/gpt-5.4-mini","reasoning_effort":"low","tools":[` + function + `]}`, "reasoning_effort:"},
		{chat, `{"model":"gpt-6","reasoning":{"effort":"low"},"tools":[` + function + `]}`, "reasoning_effort:"},
		{chat, `{"model":"gpt-5.6","reasoning_effort":"none","tools":[` + function + `]}`, ""},
		{chat, `{"model":"gpt-5.3","reasoning_effort":"low","tools":[` + function + `]}`, ""},
		{chat, `{"model":"gpt-5.4","reasoning_effort":"low","tools":[]}`, ""},
		{responses, `{"model":"gpt-5.4","reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f"}]}`, ""},

		{chat, `{"model":"openai/gpt-5-nano","max_tokens":1}`, "max_tokens:"},
		{chat, `{"model":"o3-mini","max_tokens":1}`, "max_tokens:"},
		{chat, `{"model":"gpt-4o","max_tokens":1}`, ""},
		{chat, `{"model":"gpt-5-nano","max_completion_tokens":1}`, ""},

		{chat, `{}`, ""},
		{chat, `[]`, "must"},
		{chat, `null`, "must"},
		{chat, ``, "must"},
	} {
		var got []string
		for _, reason := range Refusals(tc.dialect, []byte(tc.body)) {
			first, _, _ := strings.Cut(reason, " ")
			got = append(got, first)
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("%s %s: got %q, want %q", tc.dialect, tc.body, got, tc.want)
		}
	}
}
