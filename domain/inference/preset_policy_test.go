package inference_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// ruled stores a preset with a policy, given as clients send it.
func (r *resolving) ruled(tb testing.TB, slug string, in version, policy string) domain.Preset {
	tb.Helper()
	p := r.put(tb, r.home.ID, slug, in)
	var patch domain.PresetPatch
	if err := json.Unmarshal([]byte(`{"policy":`+policy+`}`), &patch); err != nil {
		tb.Fatal(err)
	}
	if _, err := r.UpdatePreset(tb.Context(), domain.By(admin), "", slug, patch); err != nil {
		tb.Fatal(err)
	}
	return p
}

// captured is one preset, captured from each dialect. promptedIn has the beginning of the
// merged request that its prompt makes.
var captured = map[domain.Dialect]string{
	responses: `{"model":"m","max_output_tokens":100,"reasoning":{"effort":"low"},"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},"tools":[{"type":"function","name":"f","parameters":{}}]}`,
	chat:      `{"model":"m","max_tokens":100,"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`,
	messages:  `{"model":"m","max_tokens":100,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},"tools":[{"name":"f","input_schema":{}}]}`,
}

// TestPolicyInAllDialects enforces one policy, in the names of each dialect, on requests of
// each dialect for presets captured from each.
func TestPolicyInAllDialects(t *testing.T) {
	r := newResolving(t)
	policies := map[domain.Dialect]string{
		responses: `{"lock":["reasoning.effort","text.format","tools"],"bounds":{"max_output_tokens":{"max":200},"temperature":{"max":1}}}`,
		chat:      `{"lock":["reasoning_effort","response_format","tools"],"bounds":{"max_completion_tokens":{"max":200},"temperature":{"max":1}}}`,
		messages:  `{"lock":["output_config.effort","output_config.format","tools"],"bounds":{"max_tokens":{"max":200},"temperature":{"max":1}}}`,
	}
	requests := map[domain.Dialect]string{
		responses: `{"model":"@preset/p","input":"x","temperature":2,"max_output_tokens":9000,"reasoning":{"effort":"high"},"text":{"format":{"type":"text"}},"tools":[{"type":"function","name":"g"}]}`,
		chat: `{"model":"@preset/p","messages":[],"temperature":2,"max_tokens":9000,"max_completion_tokens":8000,"reasoning":{"effort":"high"},"reasoning_effort":"high",` +
			`"response_format":{"type":"text"},"tools":[{"type":"function","function":{"name":"g"}}]}`,
		messages: `{"model":"@preset/p","messages":[],"temperature":2,"max_tokens":9000,"output_config":{"effort":"high","format":{"type":"other"}},"tools":[{"name":"g","input_schema":{}}]}`,
	}
	for from, config := range captured {
		for names, policy := range policies {
			slug := strings.ReplaceAll(string(from)+"."+string(names), "/", "-")
			r.ruled(t, slug, version{dialect: from, config: config}, policy)
			for to, request := range requests {
				t.Run(string(from)+" to "+string(to)+" by "+string(names), func(t *testing.T) {
					resolver := r.resolver(t, inference.Config{})
					ask := func(body string) (inference.Resolution, map[string]any) {
						got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(strings.Replace(body, "@preset/p", "@preset/"+slug, 1))})
						if err != nil {
							t.Fatal(err)
						}
						var fields map[string]any
						if err := json.Unmarshal(got.Body.Bytes(), &fields); err != nil {
							t.Fatalf("%v: %s", err, got.Body)
						}
						return got, fields
					}
					_, alone := ask(`{"model":"@preset/p","messages":[],"input":"x"}`)
					got, fields := ask(request)
					text := got.Body.String()
					for _, name := range []string{"reasoning", "reasoning_effort", "text", "response_format", "output_config", "tools"} {
						if a, b := mustJSON(t, alone[name]), mustJSON(t, fields[name]); a != b {
							t.Errorf("%s: got %s, want the preset's %s", name, b, a)
						}
					}
					if strings.Contains(text, "9000") || strings.Contains(text, "8000") || !strings.Contains(text, `"temperature":1`) || !strings.Contains(text, `_tokens":200`) {
						t.Errorf("got %s, want it within the bounds", text)
					}
					if len(got.Enforced) != 5 || !slices.Contains(got.Enforced, "temperature") || !slices.Contains(got.Enforced, "tools") {
						t.Errorf("got enforced %q, want the five settings of %s", got.Enforced, policy)
					}
					for _, name := range got.Enforced {
						if !strings.Contains(policy, `"`+name+`"`) {
							t.Errorf("got enforced %q, want names of the policy", name)
						}
					}
				})
			}
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPolicies has the whole merged request for each rule. Each case names the preset's
// config, the policy and the request without its reference.
func TestPolicies(t *testing.T) {
	r := newResolving(t)
	r.changeWorkspace(t, r.home.ID, func(w *domain.Workspace) { w.DefaultTextModel = new("fallback") })
	for name, tc := range map[string]struct {
		dialect                 domain.Dialect
		config, policy, request string
		prompt                  string
		want                    string
		enforced                string
		// refused are the places that a refusal names, if the policy says refuse.
		refused string
	}{
		"a locked field of the preset":           {chat, `{"top_k":1}`, `{"lock":["top_k"]}`, `{"top_k":2}`, "", `{"top_k":1}`, "top_k", "/top_k"},
		"a locked field that the preset lacks":   {chat, `{}`, `{"lock":["top_k"]}`, `{"top_k":2,"seed":1}`, "", `{"seed":1}`, "top_k", "/top_k"},
		"a locked field, sent as it is":          {chat, `{"provider":{"zdr":true,"sort":"price"}}`, `{"lock":["provider"]}`, `{"provider":{ "sort":"price", "zdr":true}}`, "", `{"provider":{"zdr":true,"sort":"price"}}`, "", ""},
		"a locked field, null":                   {chat, `{"top_k":1}`, `{"lock":["top_k"]}`, `{"top_k":null}`, "", `{"top_k":1}`, "", ""},
		"another dialect's field":                {chat, `{"max_tokens":1}`, `{"lock":["max_tokens"]}`, `{"max_output_tokens":2}`, "", `{"max_tokens":1}`, "max_output_tokens", "/max_output_tokens"},
		"a synonym that overrides":               {chat, `{"max_tokens":1}`, `{"lock":["max_output_tokens"]}`, `{"max_completion_tokens":2}`, "", `{"max_tokens":1}`, "max_output_tokens", "/max_completion_tokens"},
		"a synonym of a part":                    {chat, `{"reasoning":{"effort":"low","summary":"auto"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning_effort":"high"}`, "", `{"reasoning":{"summary":"auto","effort":"low"}}`, "reasoning.effort", "/reasoning_effort"},
		"a part that the request overrides":      {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"effort":"high","summary":"auto"}}`, "", `{"reasoning":{"effort":"low","summary":"auto"}}`, "reasoning.effort", "/reasoning/effort"},
		"a part that the request leaves out":     {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"summary":"auto"}}`, "", `{"reasoning":{"summary":"auto","effort":"low"}}`, "", ""},
		"a part twice":                           {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"effort":"low","effort":"high"}}`, "", `{"reasoning":{"effort":"low"}}`, "reasoning", "/reasoning"},
		"a part that the preset lacks":           {responses, `{"top_k":1}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"effort":"high"}}`, "", `{"top_k":1}`, "reasoning.effort", "/reasoning/effort"},
		"a part of what is no object":            {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":"high"}`, "", `{"reasoning":{"effort":"low"}}`, "reasoning", "/reasoning"},
		"the preset's value, by a synonym":       {chat, `{"max_tokens":1024}`, `{"lock":["max_tokens"]}`, `{"max_completion_tokens":1024}`, "", `{"max_tokens":1024}`, "", ""},
		"the preset's value, in a part":          {chat, `{"reasoning_effort":"low"}`, `{"lock":["reasoning_effort"]}`, `{"reasoning":{"effort":"\u006cow","summary":"auto"}}`, "", `{"reasoning":{"summary":"auto"},"reasoning_effort":"low"}`, "", ""},
		"the preset's value, no longer in it":    {chat, `{"reasoning":{"effort":"low","summary":"auto"}}`, `{"lock":["reasoning"]}`, `{"reasoning_effort":"low"}`, "", `{"reasoning":{"effort":"low","summary":"auto"}}`, "", ""},
		"the preset's value beside another":      {chat, `{"reasoning_effort":"low"}`, `{"lock":["reasoning"]}`, `{"reasoning":{"effort":"low","summary":"auto"}}`, "", `{"reasoning_effort":"low"}`, "reasoning", "/reasoning"},
		"the preset's value and another":         {chat, `{"reasoning_effort":"low"}`, `{"lock":["reasoning_effort"]}`, `{"reasoning":{"effort":"low","effort":"high"}}`, "", `{"reasoning_effort":"low"}`, "reasoning", "/reasoning"},
		"the preset's value twice":               {chat, `{"reasoning_effort":"low"}`, `{"lock":["reasoning_effort"]}`, `{"reasoning":{"effort":"low","effort":"low"}}`, "", `{"reasoning_effort":"low"}`, "reasoning", "/reasoning"},
		"a part beside its synonym":              {chat, `{"reasoning":{"max_tokens":9,"effort":"low"}}`, `{"lock":["reasoning.max_tokens"]}`, `{"reasoning_effort":"high"}`, "", `{"reasoning_effort":"high","reasoning":{"max_tokens":9}}`, "", ""},
		"a locked part, merged":                  {responses, `{"reasoning":{"effort":"low","summary":"auto"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"mode":"pro","effort":"high"}}`, "", `{"reasoning":{"mode":"pro","effort":"low","summary":"auto"}}`, "reasoning.effort", "/reasoning/effort"},
		"a locked field, merged":                 {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning"]}`, `{"reasoning":{"summary":"auto"}}`, "", `{"reasoning":{"effort":"low"}}`, "reasoning", "/reasoning"},
		"a locked field, its parts null":         {responses, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning"]}`, `{"reasoning":{"effort":null}}`, "", `{"reasoning":{"effort":"low"}}`, "", ""},
		"a bounded part of the preset, merged":   {responses, `{"reasoning":{"effort":"high"}}`, `{"bounds":{"reasoning.effort":{"in":["low"]}}}`, `{"reasoning":{"summary":"auto"}}`, "", `{"reasoning":{"summary":"auto"}}`, "reasoning.effort", ""},
		"a bounded part of the request, merged":  {responses, `{"reasoning":{"effort":"low","summary":"auto"}}`, `{"bounds":{"reasoning.effort":{"in":["low"]}}}`, `{"reasoning":{"effort":"high"}}`, "", `{"reasoning":{"effort":"low","summary":"auto"}}`, "reasoning.effort", "/reasoning/effort"},
		"a dropped part, merged":                 {responses, `{"text":{"format":{"type":"text"},"verbosity":"low"}}`, `{"drop":["verbosity"]}`, `{"text":{"verbosity":"high"}}`, "", `{"text":{"format":{"type":"text"}}}`, "", ""},
		"a locked budget beside an effort":       {chat, `{"reasoning":{"max_tokens":9}}`, `{"lock":["reasoning.max_tokens"]}`, `{"reasoning":{"effort":"high"}}`, "", `{"reasoning":{"effort":"high","max_tokens":9}}`, "", ""},
		"no parallel calls":                      {messages, `{"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, `{"lock":["parallel_tool_calls"]}`, `{"tool_choice":{"type":"any","disable_parallel_tool_use":false}}`, "", `{"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"f"}]}`, "parallel_tool_calls", "/tool_choice/disable_parallel_tool_use"},
		"no parallel calls, left out":            {messages, `{"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, `{"lock":["parallel_tool_calls"]}`, `{"tool_choice":{"type":"any"}}`, "", `{"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"f"}]}`, "", ""},
		"no parallel calls of no tool":           {messages, `{"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, `{"lock":["parallel_tool_calls"]}`, `{"tool_choice":{"type":"none"}}`, "", `{"tool_choice":{"type":"none"},"tools":[{"name":"f"}]}`, "", ""},
		"no parallel calls, by the other name":   {chat, `{"tools":[{"type":"x"}],"parallel_tool_calls":false}`, `{"lock":["tool_choice.disable_parallel_tool_use"]}`, `{"tool_choice":"auto","parallel_tool_calls":true}`, "", `{"tool_choice":"auto","parallel_tool_calls":false,"tools":[{"type":"x"}]}`, "tool_choice.disable_parallel_tool_use", "/parallel_tool_calls"},
		"no parallel calls, bounded":             {messages, `{"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, `{"bounds":{"parallel_tool_calls":{"in":[false]}}}`, `{"tool_choice":{"type":"any","disable_parallel_tool_use":false}}`, "", `{"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"f"}]}`, "parallel_tool_calls", "/tool_choice/disable_parallel_tool_use"},
		"a choice leaves parallel calls alone":   {chat, `{"tools":[{"type":"x"}],"tool_choice":"auto"}`, `{"lock":["tool_choice"]}`, `{"tool_choice":"none","parallel_tool_calls":false}`, "", `{"tool_choice":"auto","parallel_tool_calls":false,"tools":[{"type":"x"}]}`, "tool_choice", "/tool_choice"},
		"all parts":                              {chat, `{"reasoning":{"effort":"low"}}`, `{"lock":["reasoning"]}`, `{"reasoning":{"summary":"auto"},"thinking":{"type":"enabled","budget_tokens":9}}`, "", `{"reasoning":{"effort":"low"}}`, "thinking reasoning", "/reasoning /thinking"},
		"the model":                              {chat, `{"model":"m"}`, `{"lock":["model"]}`, `{"preset":"p","model":"other"}`, "", `{"model":"m"}`, "model", "/model"},
		"the model and a list":                   {messages, `{"model":"m"}`, `{"lock":["model"]}`, `{"fallbacks":[{"model":"n"}]}`, "", `{"model":"m"}`, "model", "/fallbacks"},
		"tools":                                  {chat, `{"tools":[{"type":"openrouter:datetime"}]}`, `{"lock":["tools"]}`, `{"tools":[{"type":"openrouter:web_search"}]}`, "", `{"tools":[{"type":"openrouter:datetime"}]}`, "tools", "/tools"},
		"tools, as they are":                     {chat, `{"tools":[{"type":"openrouter:datetime"}]}`, `{"lock":["tools"]}`, `{"tools":[{"type":"openrouter:datetime"}]}`, "", `{"tools":[{"type":"openrouter:datetime"}]}`, "", ""},
		"tools that the preset lacks":            {chat, `{}`, `{"lock":["tools"]}`, `{"tools":[{"type":"x"}],"tool_choice":"auto"}`, "", `{}`, "tools", "/tools"},
		"tools by a field":                       {chat, `{}`, `{"lock":["tools"]}`, `{"web_search_options":{"search_context_size":"low"}}`, "", `{}`, "tools", "/web_search_options"},
		"tools by a plugin":                      {chat, `{}`, `{"lock":["tools"]}`, `{"plugins":[{"id":"web"}]}`, "", `{}`, "tools", "/plugins"},
		"a plugin that is no tool":               {chat, `{}`, `{"lock":["tools"]}`, `{"plugins":[{"id":"moderation"}]}`, "", `{"plugins":[{"id":"moderation"}]}`, "", ""},
		"tools by the model's name":              {chat, `{"model":"m"}`, `{"lock":["tools"]}`, `{"preset":"p","model":"n:online"}`, "", `{"model":"m"}`, "tools", "/model"},
		"a bounded number":                       {chat, `{}`, `{"bounds":{"temperature":{"min":0.5,"max":1}}}`, `{"temperature":1.5}`, "", `{"temperature":1}`, "temperature", "/temperature"},
		"a bounded number, too small":            {chat, `{}`, `{"bounds":{"temperature":{"min":0.5,"max":1}}}`, `{"temperature":-1e400}`, "", `{"temperature":0.5}`, "temperature", "/temperature"},
		"a bounded number at the bound":          {chat, `{}`, `{"bounds":{"temperature":{"min":0.5,"max":1}}}`, `{"temperature":1.00}`, "", `{"temperature":1.00}`, "", ""},
		"a number beyond by one digit":           {chat, `{}`, `{"bounds":{"seed":{"max":9007199254740992}}}`, `{"seed":9007199254740993}`, "", `{"seed":9007199254740992}`, "seed", "/seed"},
		"a bounded field that nobody sets":       {chat, `{"top_k":1}`, `{"bounds":{"temperature":{"min":0.5}}}`, `{"temperature":null}`, "", `{"temperature":null,"top_k":1}`, "", ""},
		"a text where a number belongs":          {chat, `{"temperature":0.7}`, `{"bounds":{"temperature":{"max":1}}}`, `{"temperature":"2"}`, "", `{"temperature":0.7}`, "temperature", "/temperature"},
		"a text, and nothing in the preset":      {chat, `{}`, `{"bounds":{"temperature":{"max":1}}}`, `{"temperature":"2","seed":1}`, "", `{"seed":1}`, "temperature", "/temperature"},
		"a word that is not allowed":             {chat, `{"reasoning":{"effort":"low"}}`, `{"bounds":{"reasoning.effort":{"in":["low","medium"]}}}`, `{"reasoning_effort":"high"}`, "", `{"reasoning_effort":"low"}`, "reasoning.effort", "/reasoning_effort"},
		"a word that is allowed":                 {responses, `{}`, `{"bounds":{"reasoning.effort":{"in":["low","medium"]}}}`, `{"reasoning":{"effort":"\u006cow"}}`, "", `{"reasoning":{"effort":"\u006cow"}}`, "", ""},
		"a word of the preset is not allowed":    {responses, `{"reasoning":{"effort":"high"}}`, `{"bounds":{"reasoning_effort":{"in":["low"]}}}`, `{"top_k":1}`, "", `{"top_k":1}`, "reasoning_effort", ""},
		"a number of the preset":                 {responses, `{"temperature":2}`, `{"bounds":{"temperature":{"max":1}}}`, `{}`, "", `{"temperature":1}`, "temperature", ""},
		"the nearest of some numbers":            {chat, `{}`, `{"bounds":{"top_k":{"in":[1,10,20]}}}`, `{"top_k":14}`, "", `{"top_k":10}`, "top_k", "/top_k"},
		"the nearest number within min":          {chat, `{}`, `{"bounds":{"top_k":{"in":[1,10,20],"min":12}}}`, `{"top_k":4}`, "", `{"top_k":20}`, "top_k", "/top_k"},
		"two names of one setting":               {chat, `{}`, `{"bounds":{"max_tokens":{"max":20},"max_output_tokens":{"min":10,"max":30}}}`, `{"max_tokens":25}`, "", `{"max_tokens":20}`, "max_tokens", "/max_tokens"},
		"a budget in an object":                  {messages, `{}`, `{"bounds":{"reasoning.max_tokens":{"max":100}}}`, `{"thinking":{"type":"enabled","budget_tokens":500}}`, "", `{"thinking":{"type":"enabled","budget_tokens":100}}`, "reasoning.max_tokens", "/thinking/budget_tokens"},
		"a field that overrides a bound":         {responses, `{"max_tool_calls":2}`, `{"bounds":{"max_tool_calls":{"max":3}}}`, `{"stop_server_tools_when":[{"type":"step_count_is","step_count":1000}]}`, "", `{"max_tool_calls":2}`, "max_tool_calls", "/stop_server_tools_when"},
		"the preset's field that overrides":      {responses, `{"stop_server_tools_when":[{"type":"step_count_is","step_count":2}]}`, `{"bounds":{"max_tool_calls":{"max":3}}}`, `{"max_tool_calls":9,"stop_server_tools_when":[{"type":"step_count_is","step_count":1000}]}`, "", `{"max_tool_calls":3,"stop_server_tools_when":[{"type":"step_count_is","step_count":2}]}`, "max_tool_calls", "/max_tool_calls /stop_server_tools_when"},
		"the preset's field, sent as it is":      {responses, `{"stop_server_tools_when":[{"type":"step_count_is","step_count":2}]}`, `{"lock":["max_tool_calls"]}`, `{"stop_server_tools_when":[{"type":"step_count_is","step_count":2}]}`, "", `{"stop_server_tools_when":[{"type":"step_count_is","step_count":2}]}`, "", ""},
		"an alias of a part of a locked field":   {chat, `{"provider":{"zdr":true}}`, `{"lock":["provider"]}`, `{"route":"sort"}`, "", `{"provider":{"zdr":true}}`, "provider", "/route"},
		"the preset's alias of a locked field":   {chat, `{"route":"fallback"}`, `{"lock":["provider"]}`, `{"route":"sort"}`, "", `{"route":"fallback"}`, "provider", "/route"},
		"booleans":                               {chat, `{"logprobs":false}`, `{"bounds":{"logprobs":{"in":[false]}}}`, `{"logprobs":true}`, "", `{"logprobs":false}`, "logprobs", "/logprobs"},
		"a dropped field":                        {chat, `{"seed":1,"top_k":1}`, `{"drop":["seed","logit_bias"]}`, `{"logit_bias":{"1":1}}`, "", `{"top_k":1}`, "", ""},
		"a dropped part":                         {responses, `{"reasoning":{"effort":"low"}}`, `{"drop":["reasoning_effort"]}`, `{"reasoning":{"effort":"high"},"reasoning_effort":"x","top_k":1}`, "", `{"top_k":1}`, "", ""},
		"a dropped field in another letter case": {chat, `{"seed":1,"temperature":1}`, `{"drop":["Seed","TEXT.verbosity"]}`, `{"seed":2,"verbosity":"low"}`, "", `{"temperature":1}`, "", ""},
		"dropped tools":                          {chat, `{"tools":[{"type":"x"}],"tool_choice":"auto"}`, `{"drop":["tools"]}`, `{}`, "", `{}`, "", ""},
		"allowed models":                         {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":"openai/x"}`, "", `{"model":"openai/x"}`, "", ""},
		"a model of the preset":                  {chat, `{"model":"m","models":["n"]}`, `{"models":[]}`, `{"preset":"p","model":"n","models":["m"]}`, "", `{"model":"n","models":["m"]}`, "", ""},
		"a model that is not allowed":            {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":"x"}`, "", `{"model":"m"}`, "models", "/model"},
		"a suffix":                               {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":"openai/x:online"}`, "", `{"model":"m"}`, "models", "/model"},
		"a list of models in a text":             {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":"openai/x,y"}`, "", `{"model":"m"}`, "models", "/model"},
		"tools in a list of models":              {chat, `{"model":"m"}`, `{"lock":["tools"]}`, `{"preset":"p","model":"n:online,o"}`, "", `{"model":"m"}`, "tools", "/model"},
		"a suffix of the preset's model":         {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":"m:online"}`, "", `{"model":"m"}`, "models", "/model"},
		"an allowed suffix":                      {chat, `{"model":"m"}`, `{"models":["openai/*:online"]}`, `{"preset":"p","model":"openai/x:online"}`, "", `{"model":"openai/x:online"}`, "", ""},
		"models in a list":                       {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"models":["openai/x","y"]}`, "", `{"models":["openai/x"],"model":"m"}`, "models", "/models/1"},
		"only wrong models in a list":            {chat, `{"model":"m","models":["n"]}`, `{"models":["openai/*"]}`, `{"models":["y"]}`, "", `{"models":["n"],"model":"m"}`, "models", "/models/0"},
		"fallbacks":                              {messages, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"fallbacks":[{"model":"y"},{"model":"openai/x"},"z"]}`, "", `{"fallbacks":[{"model":"openai/x"}],"model":"m"}`, "models", "/fallbacks/0 /fallbacks/2"},
		"fallbacks instead of the preset's list": {messages, `{"model":"m","models":["n"]}`, `{"models":["openai/*"]}`, `{"fallbacks":[{"model":"y"}]}`, "", `{"model":"m","models":["n"]}`, "models", "/fallbacks/0"},
		"models of a plugin":                     {chat, `{"model":"m"}`, `{"models":[]}`, `{"plugins":[{"id":"fusion","model":"openai/o1-pro","analysis_models":["x/y"]}]}`, "", `{"model":"m"}`, "models", "/plugins/0"},
		"models of the preset's plugins":         {chat, `{"model":"m","plugins":[{"id":"fusion","model":"n"}]}`, `{"models":[]}`, `{"plugins":[{"id":"fusion", "model":"n"}]}`, "", `{"plugins":[{"id":"fusion", "model":"n"}],"model":"m"}`, "", ""},
		"other models than the plugins'":         {chat, `{"model":"m","plugins":[{"id":"fusion","model":"n"}]}`, `{"models":[]}`, `{"plugins":[{"id":"fusion","model":"o"}]}`, "", `{"plugins":[{"id":"fusion","model":"n"}],"model":"m"}`, "models", "/plugins/0"},
		"a plugin beside the preset's":           {chat, `{"model":"m","plugins":[{"id":"fusion","model":"n"}]}`, `{"models":[]}`, `{"plugins":[{"id":"web"},{"model":"n", "id":"fusion"},{"id":"fusion","model":"o"}]}`, "", `{"plugins":[{"id":"web"},{"model":"n", "id":"fusion"}],"model":"m"}`, "models", "/plugins/2"},
		"only plugins of the preset":             {chat, `{"model":"m","plugins":["web",{"id":"fusion","model":"n"}]}`, `{"models":[]}`, `{"plugins":[{"id":"fusion","model":"n"}]}`, "", `{"plugins":[{"id":"fusion","model":"n"}],"model":"m"}`, "", ""},
		"a model that is an object":              {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","model":{"model":"openai/x"}}`, "", `{"model":"m"}`, "model", "/model"},
		"a prompt in responses":                  {responses, `{}`, `{"lock":["system"]}`, `{"instructions":"mine","input":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"Role":" Developer ","content":"c"}]}`, "Be brief.", `{"input":[{"role":"user","content":"b"}],"instructions":"Be brief."}`, "system", "/input/0 /instructions"},
		"a prompt in chat":                       {chat, `{}`, `{"lock":["instructions"]}`, `{"messages":[{"role":"user","content":"b"},{"role":"system","content":"a"}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"b"}]}`, "instructions", "/messages/1"},
		"a prompt in messages":                   {messages, `{}`, `{"lock":["system"]}`, `{"system":[{"type":"text","text":"a"}],"messages":[]}`, "", `{"messages":[]}`, "system", "/system"},
		"the same prompt":                        {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"b"}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"b"}]}`, "", ""},
		"the same prompt in messages":            {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":"Be"},{"role":"developer","content":""},{"role":"user","content":"b"},{"role":"system","content":"bri\u0065f."}]}`, "Be\n\nbrief.", `{"messages":[{"role":"system","content":"Be\n\nbrief."},{"role":"user","content":"b"}]}`, "", ""},
		"the same prompt in parts":               {messages, `{}`, `{"lock":["system"]}`, `{"system":[{"type":"text","text":"Be"},{"type":"image"},{"type":"text","text":"brief."}],"messages":[]}`, "Be\n\nbrief.", `{"messages":[],"system":"Be\n\nbrief."}`, "", ""},
		"a part of the prompt":                   {messages, `{}`, `{"lock":["system"]}`, `{"system":[{"type":"text","text":"Be"}],"messages":[]}`, "Be\n\nbrief.", `{"messages":[],"system":"Be\n\nbrief."}`, "system", "/system"},
		"empty prompts":                          {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":""},{"role":"system","content":[{"type":"text","text":""}]},{"role":"user","content":"b"}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"b"}]}`, "", ""},
		"a prompt of empty parts":                {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":[{"type":"text","text":""},{"type":"text","text":""}]}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."}]}`, "system", "/messages/0"},
		"a prompt that is not UTF-8":             {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":"\ud800"}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."}]}`, "system", "/messages/0"},
		"a role behind much space":               {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"` + strings.Repeat(" ", 2000) + `system","content":"a"}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."}]}`, "system", "/messages/0"},
		"a longer prompt":                        {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"system","content":"Be brief.\n\nNot."}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."}]}`, "system", "/messages/0"},
		"tools in their old form":                {chat, `{}`, `{"lock":["tools"]}`, `{"functions":[{"name":"f"}],"function_call":"auto"}`, "", `{}`, "tools", "/function_call /functions"},
		"tools of an item":                       {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"additional_tools","role":"user","tools":[{"type":"openrouter:web_search"}]},{"role":"user","content":"a","Too\u006c\u017f":[1],"x":1},{"role":"user","content":"b"}]}`, "", `{"input":[{"role":"user","content":"a","x":1},{"role":"user","content":"b"}]}`, "tools", "/input/0/tools /input/1/tools"},
		"dropped tools of an item":               {chat, `{}`, `{"drop":["tools"]}`, `{"messages":[{"role":"assistant","content":null,"tool_calls":[],"tools":[{}]},{"tools":[{}]}]}`, "Be brief.", `{"messages":[{"role":"system","content":"Be brief."},{"role":"assistant","content":null,"tool_calls":[]}]}`, "", ""},
		"a choice without tools of an item":      {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"additional_tools","tools":[1]}],"tool_choice":"auto"}`, "", `{"input":[]}`, "tools", "/input/0/tools"},
		"tools that were listed or found":        {responses, `{"tools":[{"type":"openrouter:tool_search"}]}`, `{"lock":["tools"]}`, `{"input":[{"type":"mcp_list_tools","tools":[{"name":"a"}]},{"type":"tool_search_output","tools":[{"type":"function"}]},{"type":"x","tools":[]}]}`, "", `{"input":[{"type":"mcp_list_tools","tools":[{"name":"a"}]},{"type":"x","tools":[]}],"tools":[{"type":"openrouter:tool_search"}]}`, "tools", "/input/1/tools"},
		"tools with the type of a list":          {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"mcp_list_tools","tools":[{"type":"web_search"}]}]}`, "", `{"input":[]}`, "tools", "/input/0/tools"},
		"tools with two types":                   {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"mcp_list_tools","type":"additional_tools","tools":[{"name":"a"}]}]}`, "", `{"input":[]}`, "tools", "/input/0/tools"},
		"tools with a type in two spellings":     {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"mcp_list_tools","Type":"x","tools":[{"name":"a"}]}]}`, "", `{"input":[]}`, "tools", "/input/0/tools"},
		"tools of an item that are many":         {responses, `{}`, `{"lock":["tools"]}`, `{"input":[{"type":"mcp_list_tools"` + strings.Repeat(`,"tools":[{}]`, 100_000) + `}]}`, "", `{"input":[{"type":"mcp_list_tools"` + strings.Repeat(`,"tools":[{}]`, 100_000) + `}]}`, "", ""},
		"tools of a message with a type":         {chat, `{}`, `{"lock":["tools"]}`, `{"messages":[{"type":"mcp_list_tools","role":"user","content":"a","tools":[{"name":"a"}]}]}`, "", `{"messages":[{"type":"mcp_list_tools","role":"user","content":"a"}]}`, "tools", "/messages/0/tools"},
		"a field that no policy is about":        {chat, `{"top_k":1}`, `{"lock":["seed"]}`, `{"top_k":2,"stream":true}`, "", `{"top_k":2,"stream":true}`, "", ""},
		"a field that no list has":               {chat, `{"top_k":1}`, `{"lock":["top_k"]}`, `{"kwargs":{"top_k":2},"n":1,"supports_system_message":null}`, "", `{"n":1,"top_k":1}`, "kwargs supports_system_message", "/kwargs /supports_system_message"},
		"a field of another API":                 {chat, `{"top_k":1}`, `{}`, `{"max_output_tokens":1,"thinking":{},"Seed":1}`, "", `{"top_k":1}`, "max_output_tokens thinking Seed", "/Seed /max_output_tokens /thinking"},
		"a field in a form of a gateway's own":   {chat, `{"top_k":1}`, `{}`, `{"metadata":{"tags":["a"]},"user":["u"],"stream_options":{"include_usage":true,"x":1},"fallbacks":[{"a":["b"]}],"temperature":"2"}`, "", `{"top_k":1}`, "metadata user stream_options fallbacks temperature", "/fallbacks /metadata /stream_options /temperature /user"},
		"what allow_fields opens":                {chat, `{"top_k":1}`, `{"allow_fields":["kwargs","metadata","fallbacks"],"models":[],"lock":["top_k"]}`, `{"kwargs":{"top_k":2},"metadata":{"tags":["a"]},"fallbacks":[{"a":["b"]}],"top_k":3}`, "", `{"kwargs":{"top_k":2},"metadata":{"tags":["a"]},"fallbacks":[{"a":["b"]}],"top_k":1}`, "top_k", "/top_k"},
		"what is opened and locked":              {chat, `{"model":"m"}`, `{"allow_fields":["fallbacks"],"lock":["model"]}`, `{"fallbacks":[{"a":["b"]}]}`, "", `{"model":"m"}`, "model", "/fallbacks"},
		"a dropped field that no list has":       {chat, `{"top_k":1}`, `{"drop":["Kwargs"]}`, `{"Kwargs":1,"kwargs":1}`, "", `{"top_k":1}`, "", ""},
		"skills beside locked tools":             {messages, `{"max_tokens":9}`, `{"lock":["tools"]}`, `{"container":{"id":"c","skills":[{"type":"custom","skill_id":"s"}]}}`, "", `{"max_tokens":9}`, "tools", "/container"},
		"a container beside locked tools":        {messages, `{"max_tokens":9}`, `{"lock":["tools"]}`, `{"container":{"id":"c"}}`, "", `{"container":{"id":"c"},"max_tokens":9}`, "", ""},
		"instructions for what is cleared":       {messages, `{"max_tokens":9}`, `{"lock":["system"]}`, `{"context_management":{"edits":[{"type":"compact_20260112","instructions":"x"}]},"compaction":{"type":"summarize","instructions":"x"}}`, "", `{"max_tokens":9}`, "system", "/compaction /context_management"},
		"what is cleared without instructions":   {messages, `{"max_tokens":9}`, `{"lock":["system"]}`, `{"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}}`, "", `{"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"max_tokens":9}`, "", ""},
		"a role that no list has":                {chat, `{}`, `{"lock":["system"]}`, `{"messages":[{"role":"SYSTEM","content":"a"},{"Role":"user","content":"b"},{"role":"user","content":"c"}]}`, "", `{"messages":[{"role":"user","content":"c"}]}`, "system", "/messages/0"},
		"a tool with a model":                    {responses, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"tools":[{"type":"function","name":"f"},{"type":"openrouter:advisor","parameters":{"model":"x"}},{"type":"image_generation","model":"openai/i"}]}`, "", `{"tools":[{"type":"function","name":"f"},{"type":"image_generation","model":"openai/i"}],"model":"m"}`, "models", "/tools/1"},
		"another's moderation":                   {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"moderation":{"model":"x"}}`, "", `{"model":"m"}`, "models", "/moderation"},
		"a panel that a plugin brings":           {chat, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"preset":"p","plugins":[{"id":"fusion"},{"id":"fusion","preset":"general-high","model":"openai/x"},{"id":"fusion","analysis_models":["openai/x"]},{"id":"fusion","enabled":false}]}`, "", `{"plugins":[{"id":"fusion","analysis_models":["openai/x"]},{"id":"fusion","enabled":false}],"model":"m"}`, "models", "/plugins/0 /plugins/1"},
		"models that tools bring":                {responses, `{"model":"m"}`, `{"models":["openai/*"]}`, `{"tools":[{"type":"openrouter:fusion","parameters":{"analysis_models":[]}},{"type":"image_generation"},{"type":"openrouter:advisor","parameters":{"model":""}},{"type":"openrouter:subagent","parameters":{"model":"openai/x"}}]}`, "", `{"tools":[{"type":"openrouter:subagent","parameters":{"model":"openai/x"}}],"model":"m"}`, "models", "/tools/0 /tools/1 /tools/2"},
		"models that an allowed tool brings":     {responses, `{"model":"m"}`, `{"models":["openrouter/fusion"]}`, `{"tools":[{"type":"openrouter:fusion"}]}`, "", `{"tools":[{"type":"openrouter:fusion"}],"model":"m"}`, "", ""},
		"no reasoning beside a locked effort":    {responses, `{"reasoning":{"effort":"high","summary":"auto"}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"enabled":false,"max_tokens":0,"mode":"pro"}}`, "", `{"reasoning":{"mode":"pro","effort":"high","summary":"auto"}}`, "reasoning.effort", "/reasoning/enabled /reasoning/max_tokens"},
		"no reasoning beside a locked one":       {chat, `{"reasoning":{"effort":"high"}}`, `{"lock":["reasoning"]}`, `{"reasoning_effort":"none","include_reasoning":false}`, "", `{"reasoning":{"effort":"high"}}`, "reasoning", "/include_reasoning /reasoning_effort"},
		"no reasoning beside a locked budget":    {chat, `{"reasoning":{"max_tokens":2000}}`, `{"lock":["reasoning.max_tokens"]}`, `{"reasoning":{"effort":"none","enabled":false}}`, "", `{"reasoning":{"max_tokens":2000}}`, "reasoning.max_tokens", "/reasoning/effort /reasoning/enabled"},
		"no thinking beside a locked effort":     {messages, `{"output_config":{"effort":"high"}}`, `{"lock":["reasoning.effort"]}`, `{"thinking":{"type":"disabled"}}`, "", `{"output_config":{"effort":"high"}}`, "reasoning.effort", "/thinking/type"},
		"thinking beside a locked effort":        {messages, `{"output_config":{"effort":"high"}}`, `{"lock":["reasoning.effort"]}`, `{"thinking":{"type":"adaptive"}}`, "", `{"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, "", ""},
		"no reasoning of the preset":             {chat, `{"reasoning":{"enabled":false}}`, `{"lock":["reasoning.effort"]}`, `{"reasoning":{"enabled":false,"summary":"auto"}}`, "", `{"reasoning":{"enabled":false,"summary":"auto"}}`, "", ""},
		"no reasoning beside a bounded effort":   {chat, `{}`, `{"bounds":{"reasoning.effort":{"in":["low"]}}}`, `{"reasoning":{"enabled":false}}`, "", `{"reasoning":{"enabled":false}}`, "", ""},
		"instructions in another letter case":    {messages, `{"max_tokens":9}`, `{"lock":["system"]}`, `{"context_management":{"edits":[{"type":"compact_20260112","In\u0073tructions":"x"}]}}`, "", `{"max_tokens":9}`, "system", "/context_management"},
		"a prompt of a plugin":                   {chat, `{}`, `{"lock":["system"]}`, `{"plugins":[{"id":"web","Search_prompt":"mine","max_results":1},{"id":"moderation"},{"id":"web","search_prompt":null}]}`, "", `{"plugins":[{"id":"web","max_results":1},{"id":"moderation"},{"id":"web","search_prompt":null}]}`, "system", "/plugins/0/search_prompt"},
		"a prompt of the preset's plugin":        {chat, `{"plugins":[{"id":"web","search_prompt":"ours"}]}`, `{"lock":["system"]}`, `{"plugins":[{"id":"web","search_prompt":"ours"}]}`, "", `{"plugins":[{"id":"web","search_prompt":"ours"}]}`, "", ""},
		"an empty policy":                        {chat, `{"top_k":1}`, `{}`, `{"top_k":2}`, "", `{"top_k":2}`, "", ""},
		"a lock and a bound of one setting":      {chat, `{"temperature":1.5}`, `{"lock":["temperature"],"bounds":{"temperature":{"max":1}}}`, `{"temperature":0.2}`, "", `{"temperature":1}`, "temperature", "/temperature"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []string{"override", "refuse"} {
				slug := "p"
				policy := strings.TrimSuffix(tc.policy, "}")
				if policy != "{" {
					policy += ","
				}
				r.ruled(t, slug, version{dialect: tc.dialect, config: tc.config, prompt: tc.prompt}, policy+`"violation":"`+mode+`"}`)
				body := tc.request
				if !strings.Contains(body, `"preset"`) {
					body = strings.Replace(`{"preset":"p",`+body[1:], ",}", "}", 1)
				}
				got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: []byte(body)})
				if mode == "refuse" && tc.refused != "" {
					wantKind(t, err, domain.Forbidden, "Request breaks the policy of the preset")
					var places []string
					if e, ok := errors.AsType[*domain.Error](err); ok {
						for _, issue := range e.Issues {
							places = append(places, issue.Path)
						}
						slices.Sort(places)
					}
					if strings.Join(places, " ") != tc.refused {
						t.Errorf("got a refusal of %q, want %s", places, tc.refused)
					}
					continue
				}
				want := tc.want
				if !strings.Contains(want, `"model`) {
					want = strings.Replace(strings.TrimSuffix(want, "}")+`,"model":"fallback"}`, "{,", "{", 1)
				}
				wantBody(t, got, err, want)
				if list := strings.Join(got.Enforced, " "); list != tc.enforced {
					t.Errorf("got enforced %q, want %q", list, tc.enforced)
				}
			}
		})
	}
}
