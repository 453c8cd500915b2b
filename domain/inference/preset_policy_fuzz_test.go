package inference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// spellings are all paths of a setting, in all dialects. They are written out here, and not
// taken from the tables of the package.
var spellings = map[string][]string{
	"provider":         {"provider"},
	"route":            {"route"},
	"tools":            {"tools", "web_search_options", "mcp_servers", "functions"},
	"tool_choice":      {"tool_choice"},
	"model":            {"model", "models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"},
	"response_format":  {"response_format", "text.format", "output_config.format"},
	"reasoning.effort": {"reasoning.effort", "reasoning_effort", "output_config.effort"},
	"reasoning":        {"reasoning", "reasoning_effort", "output_config.effort", "thinking"},
	"stop":             {"stop", "stop_sequences"},
	"max_tool_calls":   {"max_tool_calls"},
	"max steps":        {"stop_server_tools_when"},
	"max_tokens":       {"max_tokens", "max_completion_tokens", "max_output_tokens"},
	"thinking":         {"thinking", "reasoning.max_tokens"},
	"budget":           {"thinking.budget_tokens", "reasoning.max_tokens"},
	"verbosity":        {"verbosity", "text.verbosity"},
	"temperature":      {"temperature"},
	"service_tier":     {"service_tier"},
	"seed":             {"seed"},
	"logit_bias":       {"logit_bias"},
	"models":           {"models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"},
	"system":           {"system", "instructions", "prompt", "prompt_id", "prompt_version", "prompt_variables"},
}

// ruledCase is a policy, and what it says in words that the oracle knows.
type ruledCase struct {
	policy string
	locks  []string
	bounds map[string]func(value []byte) bool
	drops  []string
	models *regexp.Regexp
}

// atMost returns whether a value is a number from min to max.
func between(low, high int64) func([]byte) bool {
	return func(value []byte) bool {
		n, ok := new(big.Rat).SetString(string(value))
		return ok && n.Cmp(big.NewRat(low, 1)) >= 0 && n.Cmp(big.NewRat(high, 1)) <= 0
	}
}

func oneOf(values ...any) func([]byte) bool {
	return func(value []byte) bool {
		var v any
		return json.Unmarshal(value, &v) == nil && slices.Contains(values, v)
	}
}

var ruledCases = []ruledCase{
	{
		policy: `"lock":["provider","tools","response_format","output_config.effort","stop","system","tool_choice"],` +
			`"bounds":{"temperature":{"min":0,"max":1},"max_output_tokens":{"max":4096,"min":1},"thinking":{"min":10,"max":1000}},` +
			`"models":["openai/*","a","anthropic/*:online"],"drop":["logit_bias","seed"]`,
		locks:  []string{"provider", "route", "tools", "response_format", "reasoning.effort", "stop", "system", "tool_choice"},
		bounds: map[string]func([]byte) bool{"temperature": between(0, 1), "max_tokens": between(1, 4096), "budget": between(10, 1000)},
		models: regexp.MustCompile(`^(openai/[^:]*|a|anthropic/[^:]*:online)$`),
		drops:  []string{"logit_bias", "seed"},
	},
	{
		policy: `"lock":["model","reasoning","text.format","max_tokens"],"bounds":{"service_tier":{"in":["flex"]},"temperature":{"in":[0,0.7,1]},"verbosity":{"in":["low"]},"max_tool_calls":{"max":3}}`,
		locks:  []string{"max steps", "model", "reasoning", "reasoning.effort", "thinking", "response_format", "max_tokens"},
		bounds: map[string]func([]byte) bool{"service_tier": oneOf("flex"), "temperature": oneOf(0., 0.7, 1.), "verbosity": oneOf("low"), "max_tool_calls": between(-1000000000, 3)},
	},
	{
		policy: `"bounds":{"reasoning_effort":{"in":["low","medium"]},"max_tokens":{"max":100},"max_completion_tokens":{"min":50}},"drop":["tools","stop_sequences","models","thinking"],"models":[]`,
		bounds: map[string]func([]byte) bool{"reasoning.effort": oneOf("low", "medium"), "max_tokens": between(50, 100)},
		drops:  []string{"tools", "stop", "models", "thinking"},
		models: regexp.MustCompile(`^$`),
	},
	{
		policy: `"lock":["thinking","temperature","models","web_search_options"],"bounds":{"temperature":{"max":1}},"drop":["provider","reasoning"]`,
		locks:  []string{"thinking", "models"},
		bounds: map[string]func([]byte) bool{"temperature": between(-1000000000, 1)},
		drops:  []string{"provider", "reasoning", "reasoning.effort"},
	},
}

// valuesAt returns the values of a path in an object, except null, in the order of their
// text. Names count in any letter case, and each time.
func valuesAt(object []byte, path string) (values []string) {
	field, member, nested := strings.Cut(path, ".")
	names, list, _ := topLevel(object)
	for i, name := range names {
		switch {
		case !strings.EqualFold(name, field):
		case nested:
			values = append(values, valuesAt(list[i], member)...)
		case string(list[i]) != "null":
			values = append(values, string(list[i]))
		}
	}
	slices.Sort(values)
	return values
}

// listsOfFallbacks are the fields with models that replace another.
var listsOfFallbacks = []string{"fallbacks", "context_window_fallbacks", "content_policy_fallbacks"}

// replacements returns the models in an entry of fallbacks that is {"a-model":[…]}. The
// name has a character that no setting has.
func replacements(entry json.RawMessage) (models []json.RawMessage) {
	names, values, _ := topLevel(entry)
	for i, name := range names {
		if strings.ContainsAny(name, "-/") && strings.HasPrefix(string(values[i]), "[") {
			for _, model := range elements(values[i]) {
				if strings.ContainsAny(string(model[:1]), `"{`) {
					models = append(models, model)
				}
			}
		}
	}
	return models
}

// parts returns the objects in a request that gateways may merge into it, and those in them.
func parts(request []byte) (objects []json.RawMessage) {
	var direct []json.RawMessage
	for _, path := range []string{"extra_body", "router_settings_override"} {
		for _, value := range valuesAt(request, path) {
			direct = append(direct, json.RawMessage(value))
		}
	}
	for _, path := range listsOfFallbacks {
		for _, value := range valuesAt(request, path) {
			for _, entry := range elements(json.RawMessage(value)) {
				direct = append(append(direct, entry), replacements(entry)...)
			}
		}
	}
	for _, object := range direct {
		objects = append(append(objects, object), parts(object)...)
	}
	return objects
}

// fault returns what a policy forbids about a merged request, or "". alone is the request
// of the preset by itself. own are the preset's settings.
func (c ruledCase) fault(dialect domain.Dialect, merged, alone, own []byte) string {
	if _, _, ok := topLevel(merged); !ok {
		return "is no JSON object"
	}
	for _, name := range c.locks {
		for _, path := range spellings[name] {
			if got, want := valuesAt(merged, path), valuesAt(alone, path); !slices.Equal(got, want) {
				return fmt.Sprintf("has %q as %s, not the preset's %q", got, path, want)
			}
		}
	}
	if slices.Contains(c.locks, "system") {
		if got, want := systemTexts(merged), systemTexts(alone); got != want {
			return fmt.Sprintf("has the prompt %q, not the preset's %q", got, want)
		}
	}
	theirs := parts(alone)
	for i, object := range append([]json.RawMessage{merged}, parts(merged)...) {
		if i > 0 {
			if !slices.ContainsFunc(theirs, func(p json.RawMessage) bool { return bytes.Equal(p, object) }) {
				for _, name := range c.locks {
					for _, path := range spellings[name] {
						if name != "model" && len(valuesAt(object, path)) > 0 {
							return "has " + path + " in a part"
						}
					}
				}
			}
		}
		for _, name := range c.drops {
			for _, path := range spellings[name] {
				if len(valuesAt(object, path)) > 0 {
					return "has " + path
				}
			}
		}
		for name, meets := range c.bounds {
			for _, path := range spellings[name] {
				for _, value := range valuesAt(object, path) {
					if !meets([]byte(value)) {
						return fmt.Sprintf("has %s as %s", value, path)
					}
				}
			}
		}
	}
	if c.models == nil {
		return ""
	}
	names := namesOfModels(merged)
	for _, part := range parts(merged) {
		names = append(names, namesOfModels(part)...)
	}
	allowed := append(append(namesOfModels(own), namesOfModels(alone)...), "dm") // the workspace's
	for _, name := range names {
		if !c.models.MatchString(name) && !slices.Contains(allowed, name) {
			return "has the model " + name
		}
	}
	return ""
}

// namesOfModels returns the models of a request. One that is no text has its JSON.
func namesOfModels(request []byte) (names []string) {
	add := func(value json.RawMessage) {
		if models := replacements(value); models != nil {
			for _, model := range models {
				names = append(names, namesOfModels([]byte(`{"model":`+string(model)+`}`))...)
			}
			return
		}
		var entry struct{ Model json.RawMessage }
		if bytes.HasPrefix(value, []byte("{")) && json.Unmarshal(value, &entry) == nil && entry.Model != nil {
			value = entry.Model
		}
		var name string
		if json.Unmarshal(value, &name) != nil {
			name = string(value)
		}
		names = append(names, name)
	}
	for _, value := range valuesAt(request, "model") {
		if value != `""` {
			add(json.RawMessage(value))
		}
	}
	for _, value := range valuesAt(request, "plugins") {
		for _, plugin := range elements(json.RawMessage(value)) {
			for _, model := range valuesAt(plugin, "model") {
				add(json.RawMessage(model))
			}
			for _, list := range append(valuesAt(plugin, "analysis_models"), valuesAt(plugin, "allowed_models")...) {
				for _, model := range elements(json.RawMessage(list)) {
					add(model)
				}
			}
		}
	}
	for _, path := range append([]string{"models"}, listsOfFallbacks...) {
		for _, value := range valuesAt(request, path) {
			if !strings.HasPrefix(value, "[") {
				if value != "{}" {
					add(json.RawMessage(value))
				}
				continue
			}
			for _, item := range elements(json.RawMessage(value)) {
				add(item)
			}
		}
	}
	return names
}

// systemTexts returns all contents of system messages in a request.
func systemTexts(request []byte) string {
	var texts []string
	for _, path := range []string{"messages", "input"} {
		for _, value := range valuesAt(request, path) {
			if !strings.HasPrefix(value, "[") {
				continue
			}
			for _, message := range elements(json.RawMessage(value)) {
				for _, role := range valuesAt(message, "role") {
					var text string
					_ = json.Unmarshal([]byte(role), &text)
					if text == "system" || text == "developer" {
						texts = append(texts, string(message))
					}
				}
			}
		}
	}
	return strings.Join(texts, "\n")
}

// checkRuled resolves a request for the presets p-override and p-refuse, which differ in
// their policy's violation alone. naming stands behind their names. checkRuled returns the
// fault, or "".
func (c ruledCase) checkRuled(resolve func(body []byte) (inference.Resolution, error), dialect domain.Dialect, naming string, body, config []byte) (fault string, accepted bool) {
	ask := func(mode string, body []byte) (inference.Resolution, error) {
		return resolve(bytes.Replace(body, []byte(`"preset":"p"`), []byte(`"preset":"p-`+mode+`"`+naming), 1))
	}
	alone, err := ask("override", []byte(`{"preset":"p"}`))
	if err != nil {
		return "", false // the config is damaged
	}
	got, err := ask("override", body)
	refused, refusal := ask("refuse", body)
	if err != nil {
		if domain.KindOf(err) == domain.Forbidden || domain.KindOf(err) == domain.Internal {
			return "gives the error " + err.Error(), false
		}
		return "", false
	}
	if got.Preset == "" {
		return "", false
	}
	switch {
	case refusal == nil && !bytes.Equal(refused.Body.Bytes(), got.Body.Bytes()):
		return fmt.Sprintf("gives %s in the mode refuse", refused.Body), true
	case refusal != nil && domain.KindOf(refusal) != domain.Forbidden:
		return "gives in the mode refuse the error " + refusal.Error(), true
	case refusal != nil && len(got.Enforced) == 0:
		return "is refused, but nothing is enforced", true
	}
	return c.fault(dialect, got.Body.Bytes(), alone.Body.Bytes(), config), true
}

// TestPolicyProperties resolves random requests for random presets.
func TestPolicyProperties(t *testing.T) {
	tier.Slow(t)
	rounds := 30 / tier.Sample(3)
	r := newResolving(t)
	who := r.team(t, "team", "dm", "latency")
	resolver := r.resolver(t, inference.Config{})
	for number, c := range ruledCases {
		for _, from := range allDialects {
			for _, to := range allDialects {
				t.Run(fmt.Sprintf("%d/%s for %s", number, from, to), func(t *testing.T) {
					accepted, config, naming := 0, "", ""
					for round := range rounds {
						g := gen{rand.New(rand.NewPCG(uint64(number), uint64(round)))}
						if round%10 == 0 {
							config = g.object(g.settings(from), func(name string) string { return g.setting(from, name) })
							prompt := pick(g, genPrompts)
							naming = r.ruledTwice(t, who.WorkspaceID, version{from, config, prompt}, c.policy, round%20 == 10)
						}
						body := withPreset([]byte(g.misspelt(g.request(to, ""))))
						fault, ok := c.checkRuled(func(body []byte) (inference.Resolution, error) {
							return resolver.Resolve(t.Context(), who, inference.Request{Dialect: to, Body: body})
						}, to, naming, body, []byte(config))
						if fault != "" {
							t.Fatalf("round %d: %s\n%s\npreset %s\npolicy %s", round, body, fault, config, c.policy)
						}
						if ok {
							accepted++
						}
					}
					if accepted < rounds/4 {
						t.Errorf("got %d requests of %d that were merged, want at least a quarter", accepted, rounds)
					}
				})
			}
		}
	}
}

// misspelt adds fields to a request that get around a careless policy.
func (g gen) misspelt(request string) string {
	odd := []string{
		`"Prompt":{"id":"pmpt_1"}`, `"extra_body":{"prompt_id":"a","extra_body":{"Temperature":5,"SYSTEM":"x","fallbacks":[{"model":"z","stop":"x"}]}}`,
		`"instructions":"Be mine. "`, `"functions":[{"name":"f"}]`, `"Temperature":5`, `"TOOLS":[{"type":"web_search"}]`, `"extra_body":{"temperature":5,"tools":[],"provider":{},"model":"z","system":"x"}`,
		`"max_output_tokens":99999`, `"max_completion_tokens":"9"`, `"reaſoning":{"effort":"high"}`, `"output_config":{"effort":"max","effort":"high","Effort":1}`,
		`"thinking":{"type":"enabled","budget_tokens":1e400}`, `"thinking":"a lot"`, `"reasoning":"high"`, `"stop_sequences":["x"]`, `"System":"mine"`,
		`"Models":["z","a"]`, `"Fallbacks":[{"model":"z","temperature":3,"Stop":"x"}]`, `"input":[{"role":"developer","content":"x"},{"role":"user","content":"y"}]`,
		`"context_window_fallbacks":[{"a-b":["z","a",{"model":"y,a","temperature":5,"seed":1}]},"openai/a,z"]`,
		`"Content_Policy_Fallbacks":{"a-b":["z"]}`, `"router_settings_override":{"Fallbacks":[{"a-b":[{"model":"z","fallbacks":[{"model":"z"}]}]}]}`,
		`"Plugins":[{"id":"fusion","model":"z"},{"id":"auto-router","allowed_models":["a","z"]}]`,
		`"Route":"sort"`, `"stop_server_tools_when":[{"type":"step_count_is","step_count":1000}]`, `"max_tool_calls":9`,
		`"web_search_options":{"a":1}`, `"plugins":[{"id":"web"}]`, `"text":{"format":{"type":"text"}}`, `"verbosity":"high"`, `"mcp_servers":[{"a":1}]`,
	}
	g.Shuffle(len(odd), func(i, j int) { odd[i], odd[j] = odd[j], odd[i] })
	for _, field := range odd[:g.IntN(4)] {
		if name, _, _ := strings.Cut(field, ":"); !strings.Contains(request, name) {
			request = strings.Replace(strings.TrimSuffix(request, "}")+","+field+"}", "{,", "{", 1)
		}
	}
	return request
}

// ruledTwice stores a version of p-override and p-refuse. It may be a template. Then the
// result has the values of its variables, for requests.
func (r *resolving) ruledTwice(tb testing.TB, workspace string, in version, policy string, isTemplate bool) (naming string) {
	tb.Helper()
	var template *domain.Template
	if isTemplate {
		in.prompt = "Be {{tone}}. " + in.prompt
		template = &domain.Template{Variables: []string{"tone"}, Messages: []byte(`[{"role":"user","content":"{{tone}}?"},{"role":"system","content":"T {{tone}}"}]`)}
		naming = `,"prompt":{"variables":{"tone":"\u006bind \"{{x}}\""}}`
	}
	for _, mode := range []string{"override", "refuse"} {
		var rules domain.Policy
		if err := json.Unmarshal([]byte(`{`+policy+`,"violation":"`+mode+`"}`), &rules); err != nil {
			tb.Fatal(err)
		}
		r.change(tb, r.putWithTemplate(tb, workspace, "p-"+mode, in, template), func(p *domain.Preset) { p.Policy = &rules })
	}
	return naming
}

func FuzzPolicy(f *testing.F) {
	const config = `{"model":"m","temperature":0.7,"provider":{"zdr":true},"reasoning":{"effort":"low"},"max_tokens":100,"tools":[{"type":"openrouter:datetime"}]}`
	for number := range byte(len(ruledCases)) {
		for pair := range byte(9) {
			g := gen{rand.New(rand.NewPCG(uint64(number), uint64(pair)))}
			to := allDialects[pair%3]
			f.Add(withPreset([]byte(g.misspelt(g.request(to, "")))), []byte(config), pair, number)
			f.Add([]byte(`{"preset":"p","temperature":2,"provider":{},"tools":[{"type":"a"}],"fallbacks":[{"model":"x","temperature":9}]}`), []byte(`{}`), pair, number)
			f.Add([]byte(`{"preset":"p","messages":[{"role":"system","content":"Be mine."},{"role":"user","content":"u"}],"input":"i","extra_body":{"prompt":{},"extra_body":{"Seed":1}}}`), []byte(config), pair, 128+number)
		}
	}
	var r *resolving
	var resolver *inference.Resolver
	var who domain.Principal
	stop := func() {
		if r != nil {
			_ = r.store.(interface{ Close() error }).Close() // of no use any more
			r = nil
		}
	}
	f.Cleanup(stop)
	executions := 0
	f.Fuzz(func(t *testing.T, body, config []byte, pair, number byte) {
		from, to := allDialects[int(pair/3)%3], allDialects[pair%3]
		if _, _, ok := topLevel(config); !ok || len(config) > domain.MaxStoredSize || !utf8.Valid(body) {
			return
		}
		if executions%4096 == 0 { // the store is in memory, with all versions
			stop()
			var err error
			if r, _, err = openResolving(t.Context()); err != nil {
				t.Fatal(err)
			}
			resolver = inference.NewResolver(r.fixture, inference.Config{Memory: domain.NewMemory(1 << 20)})
			who = r.team(t, "team", "dm", "latency")
		}
		executions++
		c := ruledCases[int(number)%len(ruledCases)]
		naming := r.ruledTwice(t, who.WorkspaceID, version{from, string(config), "Be brief."}, c.policy, number >= 128)
		fault, _ := c.checkRuled(func(body []byte) (inference.Resolution, error) {
			return resolver.Resolve(t.Context(), who, inference.Request{Dialect: to, Body: body})
		}, to, naming, body, config)
		if fault != "" {
			t.Errorf("%s\n%s\npreset %s\npolicy %s", body, fault, config, c.policy)
		}
	})
}
