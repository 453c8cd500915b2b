package inference_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/strictgateway"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// toolsOf are tools with a function of a dialect, f.
var toolsOf = map[domain.Dialect]string{
	responses: `[{"type":"function","name":"f","parameters":{}}]`,
	chat:      `[{"type":"function","function":{"name":"f"}}]`,
	messages:  `[{"name":"f","input_schema":{}}]`,
}

// TestReconcile checks that a strict gateway takes the requests of a table alone, and what becomes of
// them. TestMerge has the rest.
func TestReconcile(t *testing.T) {
	for _, tc := range mergings(t, "testdata/merge/reconcile.txt") {
		if len(tc.dropFields) > 0 {
			continue
		}
		for what, body := range map[string]string{"the request": tc.body, "the result": tc.want} {
			if reasons := strictgateway.Refusals(tc.to, []byte(body)); reasons != nil {
				t.Errorf("%s: a strict gateway refuses %s: %q", tc.name, what, reasons)
			}
		}
	}
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

// TestBreakpointsOfATemplate has a template with breakpoints in its messages, which stay, and one of a tool,
// which yields to them and to those of the request.
func TestBreakpointsOfATemplate(t *testing.T) {
	const cached = `,"cache_control":{"type":"ephemeral"}`
	const question = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"kind"` + cached + `}]` + cached + `}]}`
	r := newResolving(t)
	r.putWithTemplate(t, r.home.ID, "p", version{messages, `{"model":"m","tools":[{"name":"f"` + cached + `}]}`, ""}, &domain.Template{
		Variables: []string{"tone"}, Messages: []byte(`[` + strings.ReplaceAll(question, "kind", "{{tone}}") + `]`),
	})
	for own, tool := range map[int]string{1: `{"name":"f"` + cached + `}`, 2: `{"name":"f"}`} {
		system := blocksWithBreakpoints(own)
		body := `{"prompt":{"id":"p","variables":{"tone":"kind"}},"system":` + system + `}`
		got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(body)})
		wantBody(t, got, err, `{"system":`+system+`,"model":"m","tools":[`+tool+`],"messages":[`+question+`]}`)
		if dropped := strings.Join(got.Dropped, ","); (dropped == "tools.0.cache_control") != (own == 2) {
			t.Errorf("with %d of the request: got dropped %q", own, dropped)
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
					if strictgateway.Refusals(from, []byte(config)) != nil || strictgateway.Refusals(to, alone) != nil || strictgateway.Refusals(to, []byte(request)) != nil {
						continue
					}
					judged++
					got := resolve(string(withPreset([]byte(request))))
					for _, reason := range strictgateway.Refusals(to, got.Body.Bytes()) {
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
