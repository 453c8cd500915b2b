package inference_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/inferencetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// toolsOf are tools with a function of a dialect, f.
var toolsOf = map[domain.Dialect]string{
	responses: `[{"type":"function","name":"f","parameters":{}}]`,
	chat:      `[{"type":"function","function":{"name":"f"}}]`,
	messages:  `[{"name":"f","input_schema":{}}]`,
}

// TestReconcile has pairs of settings that strict gateways refuse, one of the request and one of the
// preset. A strict gateway takes both alone, and what becomes of them.
func TestReconcile(t *testing.T) {
	const (
		thinking = `"thinking":{"type":"enabled","budget_tokens":2000}`
		cached   = `"cache_control":{"type":"ephemeral"}`
		system   = `"system":[{"type":"text","text":"a",` + cached + `},{"type":"text","text":"b",` + cached + `}]`
		talk     = `"messages":[{"role":"user","content":[{"type":"text","text":"c",` + cached + `},{"type":"tool_result","content":[{"type":"text","text":"d",` + cached + `}]}]}]`
		ours     = `"tools":[{"name":"f",` + cached + `,"input_schema":{}},{"name":"g","input_schema":{},` + cached + `}]`
	)
	cases := []merging{
		// On messages: sampling beside thinking.
		{
			name: "temperature beside thinking", to: messages, config: `{"model":"m","temperature":0.2,"max_tokens":9000}`,
			body: `{"preset":"p",` + thinking + `}`, want: `{` + thinking + `,"model":"m","max_tokens":9000}`, dropped: "temperature",
		},
		{
			name: "top_k and top_p beside adaptive thinking", to: messages, config: `{"model":"m","top_k":5,"top_p":0.9}`,
			body: `{"preset":"p","thinking":{"type":"adaptive"}}`, want: `{"thinking":{"type":"adaptive"},"model":"m"}`, dropped: "top_k,top_p",
		},
		{
			name: "what may be beside thinking", to: messages, config: `{"model":"m","top_p":0.95}`,
			body: `{"preset":"p",` + thinking + `}`, want: `{` + thinking + `,"model":"m","top_p":0.95}`,
		},
		{
			name: "a temperature of 1 beside thinking", to: messages, config: `{"model":"m","temperature":1.0}`,
			body: `{"preset":"p",` + thinking + `}`, want: `{` + thinking + `,"model":"m","temperature":1.0}`,
		},
		{
			name: "temperature beside disabled thinking", to: messages, config: `{"model":"m","temperature":0.2}`,
			body: `{"preset":"p","thinking":{"type":"disabled"}}`, want: `{"thinking":{"type":"disabled"},"model":"m","temperature":0.2}`,
		},
		{
			name: "the preset's thinking beside temperature", to: messages, config: `{"model":"m","thinking":{"type":"adaptive"}}`,
			body: `{"preset":"p","temperature":0}`, want: `{"temperature":0,"model":"m"}`, dropped: "thinking",
		},
		{
			name: "the preset's thinking beside top_k", to: messages, from: chat, config: `{"model":"m","reasoning":{"max_tokens":2000}}`,
			body: `{"preset":"p","top_k":3}`, want: `{"top_k":3,"model":"m"}`, dropped: "thinking",
		},
		{
			name: "temperature beside top_p", to: messages, config: `{"model":"m","temperature":0.2}`,
			body: `{"preset":"p","top_p":1}`, want: `{"top_p":1,"model":"m"}`, dropped: "temperature",
		},
		{
			name: "top_p beside temperature", to: messages, from: responses, config: `{"top_p":0.9,"model":"m"}`,
			body: `{"preset":"p","temperature":0.1}`, want: `{"temperature":0.1,"model":"m"}`, dropped: "top_p",
		},
		{
			name: "one of both in the request", to: messages, config: `{"model":"m"}`,
			body: `{"preset":"p","temperature":0.1}`, want: `{"temperature":0.1,"model":"m"}`,
		},
		{
			name: "temperature beside top_p in chat", to: chat, config: `{"model":"m","temperature":0.2}`,
			body: `{"preset":"p","top_p":1}`, want: `{"top_p":1,"model":"m","temperature":0.2}`,
		},

		// On messages: the budget of thinking.
		{
			name: "a budget above max_tokens", to: messages, config: `{"model":"m","max_tokens":20000,"thinking":{"budget_tokens":10000,"type":"enabled","display":"omitted"}}`,
			body: `{"preset":"p","max_tokens":4096}`, want: `{"max_tokens":4096,"model":"m","thinking":{"budget_tokens":4095,"type":"enabled","display":"omitted"}}`, dropped: "thinking.budget_tokens",
			fields: "max_tokens=request model=preset thinking=preset",
		},
		{
			name: "a budget of max_tokens", to: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","max_tokens":2e3}`, want: `{"max_tokens":2e3,"model":"m","thinking":{"type":"enabled","budget_tokens":1999}}`, dropped: "thinking.budget_tokens",
		},
		{
			name: "a budget below max_tokens", to: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","max_tokens":2001}`, want: `{"max_tokens":2001,"model":"m",` + thinking + `}`,
		},
		{
			name: "the least budget", to: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","max_tokens":1025}`, want: `{"max_tokens":1025,"model":"m","thinking":{"type":"enabled","budget_tokens":1024}}`, dropped: "thinking.budget_tokens",
		},
		{
			name: "no room for a budget", to: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","max_tokens":1024}`, want: `{"max_tokens":1024,"model":"m"}`, dropped: "thinking",
		},

		// On messages: cache breakpoints.
		{
			name: "four breakpoints", to: messages, config: `{"model":"m"}`,
			body: `{"preset":"p",` + system + `,` + talk + `}`, want: `{` + system + `,` + talk + `,"model":"m"}`,
		},
		{
			name: "breakpoints of the preset's tools", to: messages, config: `{"model":"m",` + ours + `}`,
			body: `{"preset":"p",` + system + `,"tools":[{"name":"h",` + cached + `}]}`,
			want: `{` + system + `,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{},` + cached + `},{"name":"h",` + cached + `}],"model":"m"}`, dropped: "tools.0.cache_control",
		},
		{
			name: "breakpoints of all the preset's tools", to: messages, config: `{"model":"m",` + ours + `}`,
			body: `{"preset":"p",` + system + `,` + talk + `}`,
			want: `{` + system + `,` + talk + `,"model":"m","tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}]}`, dropped: "tools.0.cache_control,tools.1.cache_control",
		},
		{
			name: "a breakpoint of a tool that the request has, too", to: messages, config: `{"model":"m",` + cached + `,` + ours + `}`,
			body: `{"preset":"p",` + system + `,"tools":[{"name":"f",` + cached + `,"input_schema":{}}]}`,
			want: `{` + system + `,"tools":[{"name":"f",` + cached + `,"input_schema":{}},{"name":"g","input_schema":{}}],"model":"m",` + cached + `}`, dropped: "tools.1.cache_control",
		},
		{
			name: "the breakpoint of the API", to: messages, config: `{"model":"m",` + cached + `}`,
			body: `{"preset":"p",` + system + `,` + talk + `}`, want: `{` + system + `,` + talk + `,"model":"m"}`, dropped: "cache_control",
		},
		{
			name: "the request's breakpoint of the API", to: messages, config: `{"model":"m",` + ours + `}`,
			body: `{"preset":"p",` + system + `,` + cached + `}`, want: `{` + system + `,` + cached + `,"model":"m","tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{},` + cached + `}]}`, dropped: "tools.0.cache_control",
		},

		// A choice that forces a tool, beside thinking.
		{
			name: "thinking beside any", to: messages, config: `{"model":"m","max_tokens":9000,` + thinking + `}`,
			body: `{"preset":"p","tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`, want: `{"tools":[{"name":"f"}],"tool_choice":{"type":"any"},"model":"m","max_tokens":9000}`, dropped: "thinking",
		},
		{
			name: "thinking beside a tool", to: messages, from: chat, config: `{"model":"m","reasoning":{"max_tokens":2000}}`,
			body: `{"preset":"p","tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"}}`, want: `{"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"},"model":"m"}`, dropped: "thinking",
		},
		{
			name: "adaptive thinking beside any", to: messages, config: `{"model":"m","thinking":{"type":"adaptive"}}`,
			body: `{"preset":"p","tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`, want: `{"tools":[{"name":"f"}],"tool_choice":{"type":"any"},"model":"m","thinking":{"type":"adaptive"}}`,
		},
		{
			name: "thinking beside auto", to: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","tools":[{"name":"f"}],"tool_choice":{"type":"auto"}}`, want: `{"tools":[{"name":"f"}],"tool_choice":{"type":"auto"},"model":"m",` + thinking + `}`,
		},
		{
			name: "any beside thinking", to: messages, config: `{"model":"m","tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`,
			body: `{"preset":"p",` + thinking + `}`, want: `{` + thinking + `,"model":"m","tools":[{"name":"f"}]}`, dropped: "tool_choice",
		},
		{
			name: "thinking of messages in chat beside required", to: chat, from: messages, config: `{"model":"m",` + thinking + `,"output_config":{"effort":"low"}}`,
			body: `{"preset":"p","tools":` + toolsOf[chat] + `,"tool_choice":"required"}`, want: `{"tools":` + toolsOf[chat] + `,"tool_choice":"required","model":"m","reasoning":{"effort":"low"}}`, dropped: "reasoning.max_tokens",
		},
		{
			name: "thinking of messages in responses beside a function", to: responses, from: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","tools":` + toolsOf[responses] + `,"tool_choice":{"type":"function","name":"f"}}`, want: `{"tools":` + toolsOf[responses] + `,"tool_choice":{"type":"function","name":"f"},"model":"m"}`, dropped: "reasoning.max_tokens",
		},
		{
			name: "thinking of messages in responses beside allowed tools", to: responses, from: messages, config: `{"model":"m",` + thinking + `}`,
			body: `{"preset":"p","tools":` + toolsOf[responses] + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`, want: `{"tools":` + toolsOf[responses] + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]},"model":"m","reasoning":{"max_tokens":2000}}`,
		},

		// In chat: the effort beside tools.
		{
			name: "an effort beside tools", to: chat, config: `{"model":"openai/gpt-5.4-mini","reasoning_effort":"high"}`,
			body: `{"preset":"p","tools":` + toolsOf[chat] + `}`, want: `{"tools":` + toolsOf[chat] + `,"model":"openai/gpt-5.4-mini"}`, dropped: "reasoning_effort",
		},
		{
			name: "an effort of responses beside tools", to: chat, from: responses, config: `{"model":"gpt-6","reasoning":{"effort":"high","summary":"auto"}}`,
			body: `{"preset":"p","tools":` + toolsOf[chat] + `,"reasoning":{"mode":"pro"}}`, want: `{"tools":` + toolsOf[chat] + `,"reasoning":{"mode":"pro","summary":"auto"},"model":"gpt-6"}`, dropped: "reasoning.effort",
		},
		{
			name: "an effort for another model", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"model":"gpt-5.6@preset/p","tools":` + toolsOf[chat] + `}`, want: `{"model":"gpt-5.6","tools":` + toolsOf[chat] + `}`, dropped: "reasoning_effort",
		},
		{
			name: "no effort beside tools", to: chat, config: `{"model":"gpt-5.4","reasoning_effort":"none"}`,
			body: `{"preset":"p","tools":` + toolsOf[chat] + `}`, want: `{"tools":` + toolsOf[chat] + `,"model":"gpt-5.4","reasoning_effort":"none"}`,
		},
		{
			name: "an effort without tools", to: chat, config: `{"model":"gpt-5.4","reasoning_effort":"low"}`,
			body: `{"preset":"p","tools":[]}`, want: `{"tools":[],"model":"gpt-5.4","reasoning_effort":"low"}`,
		},
		{
			name: "an effort beside tools for an earlier model", to: chat, config: `{"model":"gpt-5.2","reasoning_effort":"low"}`,
			body: `{"preset":"p","tools":` + toolsOf[chat] + `}`, want: `{"tools":` + toolsOf[chat] + `,"model":"gpt-5.2","reasoning_effort":"low"}`,
		},
		{
			name: "an effort beside tools in responses", to: responses, config: `{"model":"gpt-5.4","reasoning":{"effort":"low"}}`,
			body: `{"preset":"p","tools":` + toolsOf[responses] + `}`, want: `{"tools":` + toolsOf[responses] + `,"model":"gpt-5.4","reasoning":{"effort":"low"}}`,
		},

		// In chat: the name of the limit.
		{
			name: "litellm's limit", to: chat, config: `{"model":"openai/gpt-5-nano","max_completion_tokens":500}`,
			body: `{"model":"@preset/p","max_tokens":100}`, want: `{"model":"openai/gpt-5-nano","max_completion_tokens":100}`,
		},
		{
			name: "litellm's limit, and none in the preset", to: chat, config: `{"model":"openai/gpt-5-nano"}`,
			body: `{"model":"@preset/p","max_tokens":100}`, want: `{"model":"openai/gpt-5-nano","max_completion_tokens":100}`,
		},
		{
			name: "the preset's limit for another model", to: chat, config: `{"model":"m","max_tokens":100}`,
			body: `{"model":"o3@preset/p"}`, want: `{"model":"o3","max_completion_tokens":100}`,
		},
		{
			name: "a limit of the other model's name", to: chat, config: `{"model":"m","max_tokens":100}`,
			body: `{"model":"gpt-5@preset/p","max_completion_tokens":5}`, want: `{"model":"gpt-5","max_completion_tokens":5}`,
		},
	}
	for _, to := range allDialects {
		choice := map[domain.Dialect]string{responses: `"required"`, chat: `"required"`, messages: `{"type":"any"}`}[to]
		for _, none := range []string{``, `"tools":[]`, `"tools":null`, `"tools":[ ]`} {
			body := strings.Replace(`{"preset":"p",`+none+`}`, ",}", "}", 1)
			want := strings.Replace(`{`+none+`,"model":"m"}`, "{,", "{", 1)
			cases = append(cases, merging{
				name: fmt.Sprintf("a choice without tools: %s %s", to, none), to: to, config: `{"model":"m","tool_choice":` + choice + `}`,
				body: body, want: want, dropped: "tool_choice",
			})
			if to != messages {
				cases = append(cases, merging{
					name: fmt.Sprintf("parallel calls without tools: %s %s", to, none), to: to, config: `{"model":"m","parallel_tool_calls":false}`,
					body: body, want: want, dropped: "parallel_tool_calls",
				})
			}
		}
		cases = append(cases, merging{
			name: fmt.Sprintf("a choice with tools: %s", to), to: to, config: `{"model":"m","tool_choice":` + choice + `}`,
			body: `{"preset":"p","tools":` + toolsOf[to] + `}`, want: `{"tools":` + toolsOf[to] + `,"model":"m","tool_choice":` + choice + `}`,
		}, merging{
			name: fmt.Sprintf("a choice that the gateway has no tools for: %s", to), to: to, config: `{"model":"m","tools":` + toolsOf[to] + `}`, dropFields: []string{"tools"},
			body: `{"preset":"p","tool_choice":` + choice + `}`, want: `{"tool_choice":` + choice + `,"model":"m"}`, dropped: "tools", // the caller sent it
		})
	}
	testMerge(t, cases)
	for _, tc := range cases {
		if len(tc.dropFields) > 0 {
			continue
		}
		for what, body := range map[string]string{"the request": tc.body, "the result": tc.want} {
			if reasons := inferencetest.Refusals(tc.to, []byte(body)); reasons != nil {
				t.Errorf("%s: a strict gateway refuses %s: %q", tc.name, what, reasons)
			}
		}
	}
}

// What the caller sent stays, and so does a pair that the preset has by itself: some gateways take it.
func TestReconcileKeeps(t *testing.T) {
	testMerge(t, []merging{
		{
			name: "the request's pairs", to: messages, config: `{"model":"m"}`,
			body: `{"preset":"p","temperature":0.1,"top_p":0.5,"top_k":1,"thinking":{"type":"enabled","budget_tokens":9},"max_tokens":5,"tool_choice":{"type":"any"}}`,
			want: `{"temperature":0.1,"top_p":0.5,"top_k":1,"thinking":{"type":"enabled","budget_tokens":9},"max_tokens":5,"tool_choice":{"type":"any"},"model":"m"}`,
		},
		{
			name: "the request's settings without tools", to: chat, config: `{"model":"m","tool_choice":"auto"}`,
			body: `{"preset":"p","tool_choice":"none","parallel_tool_calls":true}`, want: `{"tool_choice":"none","parallel_tool_calls":true,"model":"m"}`,
		},
		{
			name: "the request's limit", to: chat, config: `{"model":"m"}`,
			body: `{"preset":"p","model":"gpt-5","max_tokens":5}`, want: `{"model":"gpt-5","max_tokens":5}`,
		},
		{
			name: "the request's effort", to: chat, config: `{"model":"gpt-5.4","tools":` + toolsOf[chat] + `}`,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"gpt-5.4","tools":` + toolsOf[chat] + `}`,
		},
		{
			name: "the request's budget beside the preset's max_tokens", to: messages, config: `{"model":"m","max_tokens":1000}`,
			body: `{"preset":"p","thinking":{"type":"enabled","budget_tokens":2000}}`, want: `{"thinking":{"type":"enabled","budget_tokens":2000},"model":"m","max_tokens":1000}`,
		},
		{
			name: "the preset's pairs", to: messages, config: `{"model":"m","temperature":0.1,"top_p":0.5,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`,
			body: `{"preset":"p"}`, want: `{"model":"m","temperature":0.1,"top_p":0.5,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`,
		},
		{
			name: "settings of another shape", to: messages, config: `{"model":"m","temperature":"hot","thinking":"much"}`,
			body: `{"preset":"p","top_p":"all","max_tokens":"9"}`, want: `{"top_p":"all","max_tokens":"9","model":"m","temperature":"hot","thinking":"much"}`,
		},
		{
			name: "the preset's limit", to: chat, config: `{"model":"gpt-5","max_tokens":5}`,
			body: `{"preset":"p"}`, want: `{"model":"gpt-5","max_tokens":5}`,
		},
		{
			name: "a limit that the gateway takes by no other name", to: chat, config: `{"model":"gpt-5"}`, dropFields: []string{"max_completion_tokens"},
			body: `{"preset":"p","max_tokens":5}`, want: `{"max_tokens":5,"model":"gpt-5"}`,
		},
	})
}

// TestReconcileUnderAPolicy has policies that leave out what the preset's settings need, and policies
// that lock these settings.
func TestReconcileUnderAPolicy(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for name, tc := range map[string]struct {
		dialect                             domain.Dialect
		config, policy, request             string
		want, dropped, enforced, violations string
	}{
		"dropped tools":                    {chat, `{"model":"m","tools":` + toolsOf[chat] + `,"tool_choice":"required","parallel_tool_calls":false}`, `{"drop":["tools"]}`, `{}`, `{"model":"m"}`, "tool_choice,parallel_tool_calls", "", ""},
		"tools of the request":             {chat, `{"model":"m","tool_choice":"required"}`, `{"lock":["tools"]}`, `{"tools":` + toolsOf[chat] + `,"parallel_tool_calls":true}`, `{"model":"m"}`, "tool_choice", "tools", "/tools"},
		"a locked choice":                  {chat, `{"model":"m","tool_choice":"required"}`, `{"lock":["tool_choice"]}`, `{}`, `{"model":"m"}`, "tool_choice", "", ""},
		"a locked choice of the request":   {chat, `{"model":"m","tool_choice":"required"}`, `{"lock":["tool_choice"]}`, `{"tool_choice":"auto"}`, `{"model":"m"}`, "tool_choice", "tool_choice", "/tool_choice"},
		"a locked temperature":             {messages, `{"model":"m","temperature":0.2}`, `{"lock":["temperature"]}`, `{"top_p":1}`, `{"top_p":1,"model":"m","temperature":0.2}`, "", "", ""},
		"locked thinking":                  {messages, `{"model":"m","thinking":{"type":"enabled","budget_tokens":2000}}`, `{"lock":["thinking"]}`, `{"temperature":0.2,"max_tokens":1500}`, `{"temperature":0.2,"max_tokens":1500,"model":"m","thinking":{"type":"enabled","budget_tokens":2000}}`, "", "", ""},
		"a bounded temperature":            {messages, `{"model":"m","temperature":0.5}`, `{"bounds":{"temperature":{"max":0.2}}}`, `{"top_p":1}`, `{"top_p":1,"model":"m"}`, "temperature", "temperature", ""},
		"a bounded temperature as sent":    {messages, `{"model":"m","top_p":1}`, `{"bounds":{"temperature":{"max":0.2}}}`, `{"temperature":0.5}`, `{"temperature":0.2,"model":"m"}`, "top_p", "temperature", "/temperature"},
		"a budget within bounds":           {messages, `{"model":"m","thinking":{"type":"enabled","budget_tokens":5000}}`, `{"bounds":{"thinking":{"min":1100}}}`, `{"max_tokens":2000}`, `{"max_tokens":2000,"model":"m","thinking":{"type":"enabled","budget_tokens":1999}}`, "thinking.budget_tokens", "", ""},
		"a budget that no bound allows":    {messages, `{"model":"m","thinking":{"type":"enabled","budget_tokens":5000}}`, `{"bounds":{"thinking":{"min":3000}}}`, `{"max_tokens":2000}`, `{"max_tokens":2000,"model":"m"}`, "thinking", "", ""},
		"a bounded max_tokens":             {messages, `{"model":"m","thinking":{"type":"enabled","budget_tokens":5000}}`, `{"bounds":{"max_tokens":{"max":4096}}}`, `{"max_tokens":9000}`, `{"max_tokens":4096,"model":"m","thinking":{"type":"enabled","budget_tokens":4095}}`, "thinking.budget_tokens", "max_tokens", "/max_tokens"},
		"a bounded limit, respelled":       {chat, `{"model":"m","max_completion_tokens":50}`, `{"bounds":{"max_tokens":{"max":100}}}`, `{"max_tokens":9000}`, `{"max_completion_tokens":100,"model":"m"}`, "", "max_tokens", "/max_tokens"},
		"a bounded limit, as it was":       {chat, `{"model":"m","max_tokens":50}`, `{"bounds":{"max_output_tokens":{"max":100}}}`, `{"max_completion_tokens":60}`, `{"max_tokens":60,"model":"m"}`, "", "", ""},
		"a locked limit":                   {chat, `{"model":"m","max_completion_tokens":50}`, `{"lock":["max_tokens"]}`, `{"max_tokens":9000}`, `{"model":"m","max_completion_tokens":50}`, "", "max_tokens", "/max_tokens"},
		"the limit of a forbidden model":   {chat, `{"model":"m","max_completion_tokens":50}`, `{"models":[]}`, `{"model":"x","max_tokens":9}`, `{"model":"m","max_completion_tokens":9}`, "", "models", "/model"},
		"a locked effort beside tools":     {chat, `{"model":"gpt-5.4","reasoning_effort":"low"}`, `{"lock":["reasoning.effort"]}`, `{"tools":` + toolsOf[chat] + `}`, `{"tools":` + toolsOf[chat] + `,"model":"gpt-5.4","reasoning_effort":"low"}`, "", "", ""},
		"a dropped choice beside thinking": {messages, `{"model":"m","thinking":{"type":"enabled","budget_tokens":2000}}`, `{"drop":["tool_choice"]}`, `{"tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`, `{"tools":[{"name":"f"}],"model":"m","thinking":{"type":"enabled","budget_tokens":2000}}`, "", "", ""},
		"breakpoints of locked tools": {
			messages, `{"model":"m","cache_control":{"type":"ephemeral"},"tools":[{"name":"f","cache_control":{"type":"ephemeral"}}]}`, `{"lock":["tools"]}`, `{"system":` + blocksWithBreakpoints(4) + `}`,
			`{"system":` + blocksWithBreakpoints(4) + `,"model":"m","tools":[{"name":"f","cache_control":{"type":"ephemeral"}}]}`, "cache_control", "", "",
		},
		"breakpoints of tools that the policy leaves out": {
			messages, `{"model":"m","cache_control":{"type":"ephemeral"}}`, `{"lock":["tools"]}`, `{"system":` + blocksWithBreakpoints(3) + `,"tools":[{"name":"f","cache_control":{"type":"ephemeral"}}]}`,
			`{"system":` + blocksWithBreakpoints(3) + `,"model":"m","cache_control":{"type":"ephemeral"}}`, "", "tools", "/tools",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.ruled(t, "p", version{tc.dialect, tc.config, ""}, tc.policy)
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: withPreset([]byte(tc.request))})
			wantBody(t, got, err, tc.want)
			if dropped := strings.Join(got.Dropped, ","); dropped != tc.dropped {
				t.Errorf("got dropped %q, want %q", dropped, tc.dropped)
			}
			if enforced := strings.Join(got.Enforced, ","); enforced != tc.enforced {
				t.Errorf("got enforced %q, want %q", enforced, tc.enforced)
			}
			r.ruled(t, "p", version{tc.dialect, tc.config, ""}, strings.TrimSuffix(tc.policy, "}")+`,"violation":"refuse"}`)
			_, err = resolver.Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: withPreset([]byte(tc.request))})
			if tc.violations == "" {
				if err != nil {
					t.Errorf("got the refusal %v, want none", err)
				}
				return
			}
			wantKind(t, err, domain.Forbidden, tc.violations+": ")
		})
	}
}

// blocksWithBreakpoints returns a system prompt of n blocks.
func blocksWithBreakpoints(n int) string {
	blocks := slices.Repeat([]string{`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`}, n)
	return `[` + strings.Join(blocks, ",") + `]`
}

// TestBreakpointsOfATemplate has a template with breakpoints in its messages, one of them behind a
// variable and one in the result of a tool.
func TestBreakpointsOfATemplate(t *testing.T) {
	const cached = `,"cache_control":{"type":"ephemeral"}`
	question := func(caching string) string {
		return `{"role":"user","content":[{"type":"text","text":"Hi"` + caching + `},{"type":"text","text":"be kind"` + cached + `}]}`
	}
	result := func(inner, outer string) string {
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"kind"` + inner + `}]` + outer + `}]}`
	}
	template := `[` + strings.ReplaceAll(question(cached)+`,`+result(cached, cached), "kind", "{{tone}}") + `]`
	r := newResolving(t)
	r.putWithTemplate(t, r.home.ID, "p", version{messages, `{"model":"m"}`, "Be {{tone}}."}, &domain.Template{Variables: []string{"tone"}, Messages: []byte(template)})
	resolver := r.resolver(t, inference.Config{})
	const own = `{"role":"user","content":"x"}`
	for own5, tc := range map[int]struct{ template, dropped string }{
		0: {question(cached) + `,` + result(cached, cached), ""},
		1: {question("") + `,` + result(cached, cached), "messages.0.content.0.cache_control"},
		3: {`{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":"be kind"}]},` + result("", cached), "messages.0.content.0.cache_control,messages.0.content.1.cache_control,messages.1.content.0.content.0.cache_control"},
		5: {`{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":"be kind"}]},` + result("", ""), "messages.0.content.0.cache_control,messages.0.content.1.cache_control,messages.1.content.0.content.0.cache_control,messages.1.content.0.cache_control"},
	} {
		system := blocksWithBreakpoints(own5)
		body := `{"prompt":{"id":"p","variables":{"tone":"kind"}},"system":` + system + `,"messages":[` + own + `]}`
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(body)})
		block := strings.TrimSuffix(`{"type":"text","text":"Be kind."},`+system[1:], ",]")
		if own5 == 0 {
			block += "]"
		}
		wantBody(t, got, err, `{"system":[`+block+`,"messages":[`+tc.template+`,`+own+`],"model":"m"}`)
		if dropped := strings.Join(got.Dropped, ","); dropped != tc.dropped {
			t.Errorf("with %d of the request: got dropped %q, want %q", own5, dropped, tc.dropped)
		}
		if told, _ := got.Fields(); !slices.Contains(told, inference.Field{Name: "messages", From: draft.FromVariable}) {
			t.Errorf("with %d of the request: got fields %v, want messages with a variable", own5, told)
		}
	}
}

// A preset that a strict gateway accepts never breaks a request that it accepts.
func TestPresetsBreakNoRequest(t *testing.T) {
	tier.NoRace(t)
	const rounds = 400
	for _, from := range allDialects {
		for _, to := range allDialects {
			t.Run(string(from)+" for "+string(to), func(t *testing.T) {
				r := newResolving(t)
				resolver := r.resolver(t, inference.Config{})
				judged := 0
				for round := range rounds {
					g := strictGen{gen{rand.New(rand.NewPCG(uint64(len(from)), uint64(len(to)*rounds+round)))}}
					config, request := g.request(from, false), g.request(to, true)
					r.put(t, r.home.ID, "p", version{from, config, pick(g.gen, []string{"", "Be brief."})})
					resolve := func(body string) inference.Resolution {
						got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(body)})
						if err != nil {
							t.Fatalf("round %d: %v\nrequest %s\npreset %s", round, err, body, config)
						}
						return got
					}
					alone := resolve(`{"preset":"p","max_tokens":8192}`).Body.Bytes()
					if inferencetest.Refusals(from, []byte(config)) != nil || inferencetest.Refusals(to, alone) != nil || inferencetest.Refusals(to, []byte(request)) != nil {
						continue
					}
					judged++
					got := resolve(string(withPreset([]byte(request))))
					for _, reason := range inferencetest.Refusals(to, got.Body.Bytes()) {
						// The preset has to lose its model or its tools, which are no settings of the request's.
						if strings.HasPrefix(reason, "reasoning_effort:") && strings.Contains(request, `effort":"low"`) {
							continue
						}
						t.Fatalf("round %d: a strict gateway refuses %s\nbecause of %s\nrequest %s\npreset %s\ndropped %q", round, got.Body, reason, request, config, got.Dropped)
					}
					checkSent(t, to, request, got)
				}
				if judged < rounds/3 {
					t.Errorf("got %d pairs that a strict gateway accepts of %d", judged, rounds)
				}
			})
		}
	}
}

// checkSent fails unless all that a request sent is in what goes upstream.
func checkSent(t *testing.T, dialect domain.Dialect, request string, got inference.Resolution) {
	t.Helper()
	var sent, merged map[string]any
	if err := json.Unmarshal([]byte(request), &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got.Body.Bytes(), &merged); err != nil {
		t.Fatal(err)
	}
	for name, value := range sent {
		its := merged[name]
		if name == promptFields[dialect] {
			continue // with the preset's
		}
		if other := synonymOf(dialect, name); its == nil && strings.HasPrefix(name, "max_") {
			its = merged[other]
		}
		want, text := mustJSON(t, value), mustJSON(t, its)
		if members, isObject := value.(map[string]any); isObject && (name == "reasoning" || name == "output_config" || name == "text") {
			object, _ := its.(map[string]any)
			for member, value := range members {
				if a, b := mustJSON(t, value), mustJSON(t, object[member]); a != b {
					t.Errorf("%s.%s: got %s, want %s\nrequest %s\ngot %s", name, member, b, a, request, got.Body)
				}
			}
			continue
		}
		if list, isList := value.([]any); isList && name == "tools" {
			for _, tool := range list {
				if !strings.Contains(text, mustJSON(t, tool)) {
					t.Errorf("got tools %s, want %s", text, mustJSON(t, tool))
				}
			}
			continue
		}
		if text != want {
			t.Errorf("%s: got %s, want %s\nrequest %s\ngot %s", name, text, want, request, got.Body)
		}
	}
}

// strictGen makes requests of fields that gateways refuse together.
type strictGen struct{ gen }

func (g strictGen) some(n int) bool { return g.IntN(n) == 0 }

func (g strictGen) request(d domain.Dialect, isRequest bool) string {
	cached := func() string { return pick(g.gen, []string{"", `,"cache_control":{"type":"ephemeral"}`}) }
	var fields []string
	add := func(name string, values ...string) {
		if g.some(3) {
			fields = append(fields, `"`+name+`":`+pick(g.gen, values))
		}
	}
	if isRequest && g.some(2) || !isRequest {
		fields = append(fields, `"model":`+pick(g.gen, []string{`"m"`, `"gpt-5-nano"`, `"openai/gpt-5.4"`, `"o3"`, `"claude-opus-4"`}))
	}
	var tools []string
	for _, name := range []string{"f", "g", "web_search"} {
		if !g.some(3) {
			continue
		}
		switch {
		case name == "web_search" && d == responses:
			tools = append(tools, pick(g.gen, []string{`{"type":"web_search"}`, `{"type":"web_search_preview"}`}))
		case name == "web_search" && d == messages:
			tools = append(tools, pick(g.gen, []string{`{"type":"web_search_20250305","name":"web_search"`, `{"type":"web_search_20260209","name":"web_search"`, `{"name":"web_search"`})+cached()+`}`)
		case d == responses:
			tools = append(tools, `{"type":"`+pick(g.gen, []string{"function", "custom"})+`","name":"`+name+`"}`)
		case d == chat:
			kind := pick(g.gen, []string{"function", "custom"})
			tools = append(tools, `{"type":"`+kind+`","`+kind+`":{"name":"`+name+`"}}`)
		default:
			tools = append(tools, `{"name":"`+name+`"`+cached()+`}`)
		}
	}
	if tools != nil || g.some(4) {
		fields = append(fields, `"tools":[`+strings.Join(tools, ",")+`]`)
	}
	add("temperature", `0.2`, `1`, `0`)
	add("top_p", `0.9`, `1`)
	switch d {
	case messages:
		add("tool_choice", `{"type":"any"}`, `{"type":"auto"}`, `{"type":"tool","name":"f"}`, `{"type":"none"}`)
		add("thinking", `{"type":"adaptive"}`, `{"type":"disabled"}`, `{"type":"enabled","budget_tokens":2048}`, `{"type":"enabled","budget_tokens":20000}`)
		add("top_k", `5`)
		add("output_config", `{"effort":"low"}`, `{"format":{"type":"json_schema","schema":{}}}`)
		if isRequest || g.some(2) { // Anthropic's API requires it of a request
			fields = append(fields, `"max_tokens":`+pick(g.gen, []string{"1024", "4096", "64000"}))
		}
		add("cache_control", `{"type":"ephemeral"}`)
		if isRequest {
			text := func() string { return `{"type":"text","text":"a"` + cached() + `}` }
			fields = append(fields, `"system":`+g.list(g.IntN(4), text), `"messages":[{"role":"user","content":`+g.list(g.IntN(3), text)+`}]`)
		}
	case chat:
		add(pick(g.gen, []string{"max_tokens", "max_completion_tokens"}), "1024", "64000")
		if isRequest {
			first := pick(g.gen, []string{``, `{"role":"system","content":"a"},`, `{"role":"developer","content":[{"type":"text","text":"a"}]},`})
			fields = append(fields, `"messages":[`+first+`{"role":"user","content":"b"}]`)
		}
		add("reasoning_effort", `"low"`, `"none"`)
		add("reasoning", `{"effort":"low"}`, `{"max_tokens":2048}`, `{"summary":"auto"}`)
	case responses:
		add("max_output_tokens", "4096")
		add("reasoning", `{"effort":"low"}`, `{"max_tokens":2048}`, `{"summary":"auto"}`)
		add("text", `{"verbosity":"low"}`, `{"format":{"type":"text"}}`)
	}
	if d != messages {
		add("tool_choice", `"required"`, `"auto"`, `"none"`)
		add("parallel_tool_calls", `true`, `false`)
	}
	return `{` + strings.Join(fields, ",") + `}`
}
