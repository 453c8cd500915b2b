package inference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// tries are fields with which callers got around locks, limits and disabled tools of real gateways.
var tries = []string{
	`"kwargs":{"instructions":"mine","tools":[{"type":"web_search"}]}`, `"custom_llm_provider":"llamafile"`,
	`"litellm_credential_name":"theirs"`, `"tags":["other"]`, `"supports_system_message":false`, `"vector_store_ids":["v"]`,
	`"guardrails":[]`, `"api_key":"k"`, `"api_base":"http://x"`, `"extra_headers":{"x":"y"}`, `"azure":true`, `"litellm_params":{"model":"x"}`,
	`"organization":"o"`, `"use_chat_completions_api":true`, `"metadata":{"tags":["other"]}`, `"extra_body":{"generationConfig":{"topP":1}}`,
	`"providerOptions":{"gateway":{"models":["x"]}}`, `"container":{"skills":[{"type":"anthropic","skill_id":"x","version":"1"}]}`,
	`"topP":1`, `"Temperature":2`, `"temper\u0061ture":2`, `"TOOLS":[{"type":"web_search"}]`, `"router_settings_override":{"fallbacks":["x"]}`,
	`"fallbacks":[{"m":["x"]}]`, `"fallbacks":[{"model":"m","temperature":2}]`, `"fallbacks":"default"`, `"deployment_id":"x"`, `"model_id":"x"`,
	`"mock_response":"x"`, `"additional_drop_params":["temperature"]`, `"user_config":{"model_list":[]}`, `"litellm_system_prompt":"mine"`,
	`"prompt_id":"theirs"`, `"Prompt":{"id":"theirs"}`, `"tools":[{"googleSearch":{}}]`, `"tools":[{"type":"function","name":"litellm_web_search"}]`,
	`"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}]`, `"tools":[{"type":"function","Type":"web_search"}]`,
	`"tool_choice":{"type":"web_search"}`, `"plugins":[{"id":"auto-router","allowed_models":["x"]}]`, `"plugins":[{"id":"web"}]`,
	`"reasoning":{"effort":"low","Effort":"high"}`, `"reasoning":{"effort":"high"}`, `"reasoning_effort":"high"`, `"output_config":{"effort":"max"}`,
	`"temperature":2`, `"temperature":"2"`, `"logit_bias":{"1":1}`, `"models":["x"]`, `"model":"x"`, `"system":"mine"`, `"instructions":"mine"`,
	`"messages":[{"role":"system","content":"mine"},{"role":"user","content":"x"}]`, `"messages":[{"Role":"system","content":"mine"}]`,
	`"input":[{"role":"developer","content":"mine"},{"type":"additional_tools","role":"developer","tools":[{"type":"web_search"}]}]`,
	`"context_management":{"edits":[{"type":"compact_20260112","instructions":"mine"}]}`, `"moderation":{"model":"x"}`, `"personality":"mine"`,
	`"reasoning":{"enabled":false}`, `"include_reasoning":false`, `"thinking":{"type":"disabled"}`, `"plugins":[{"id":"fusion"}]`,
	`"context_management":{"edits":[{"type":"compact_20260112","Instructions":"mine"}]}`, `"tools":[{"type":"function","name":"WebSearch"}]`,
	`"output_format":{"type":"json_schema","schema":{}}`, `"stop_server_tools_when":[{"type":"step_count_is","step_count":99}]`,
}

// The policy of the proof, and what it says in words that the proof knows.
const provedPolicy = `"lock":["tools","system","reasoning.effort","provider","response_format"],"bounds":{"temperature":{"max":1}},"models":[],"drop":["logit_bias"]`

// allowedToDiffer are the known fields that the policy leaves to the caller, in any API.
var allowedToDiffer = strings.Fields(`access_programs audio background billing_policy cache_control client_metadata compaction container
	context_management conversation debug diagnostics fallback_credit_token frequency_penalty image image_config include include_reasoning
	inference_geo logprobs max_completion_tokens max_output_tokens max_tokens max_tool_calls messages metadata min_p modalities input n
	parallel_tool_calls personality plugins prediction presence_penalty previous_response_id prompt_cache_key prompt_cache_options
	prompt_cache_retention repetition_penalty safeguards safety_identifier seed service_tier session_id speed stop stop_sequences
	stop_server_tools_when store stream stream_options structured_outputs text thinking output_config reasoning reasoning_effort
	temperature thread tool_choice top_a top_k top_logprobs top_p trace truncation user verbosity moderation model models fallbacks`)

// faultOf returns what a request that went up breaks of provedPolicy, or "". alone is what the preset
// dictates by itself.
func faultOf(dialect domain.Dialect, body, alone []byte) string {
	got, want := fieldsByName(body), fieldsByName(alone)
	if got == nil {
		return "is no JSON object without repeated names"
	}
	known := policy.KnownFields(dialect)
	for name, value := range got {
		switch {
		case bytes.Equal(value, want[name]), string(value) == "null" && slices.Contains(known, name):
		case !slices.Contains(known, name) || !slices.Contains(allowedToDiffer, name):
			return "has " + name + " of the caller"
		}
	}
	at := func(fields map[string]json.RawMessage, path ...string) string {
		value := fields[path[0]]
		if len(path) > 1 {
			value = fieldsByName(value)[path[1]]
		}
		return strings.TrimSpace(string(value))
	}
	for _, path := range [][]string{
		{"tools"},
		{"provider"},
		{"route"},
		{"response_format"},
		{"text", "format"},
		{"output_config", "format"},
		{"reasoning", "effort"},
		{"reasoning_effort"},
		{"output_config", "effort"},
		{"instructions"},
		{"system"},
		{"model"},
		{"models"},
		{"fallbacks"},
		{"moderation", "model"},
	} {
		if a, b := at(got, path...), at(want, path...); a != b && a != "null" && a != "[]" {
			return fmt.Sprintf("has %s as %v, not the preset's %s", a, path, b)
		}
	}
	for _, path := range [][]string{{"reasoning", "enabled"}, {"include_reasoning"}, {"thinking", "type"}} {
		if value := at(got, path...); value == "false" || value == `"disabled"` {
			return fmt.Sprintf("has %s as %v, which switches reasoning off", value, path)
		}
	}
	var temperature float64
	if value := got["temperature"]; value != nil && string(value) != "null" && (json.Unmarshal(value, &temperature) != nil || temperature > 1) {
		return "has a temperature out of bounds"
	}
	for name, member := range map[string]string{"container": `"skills"`, "plugins": `"id"`, "context_management": `"instructions"`, "compaction": `"instructions"`} {
		if bytes.Contains(bytes.ToLower(got[name]), []byte(member)) && !bytes.Equal(got[name], want[name]) && !bytes.Contains(got[name], []byte(`"skills":[]`)) && !bytes.Contains(got[name], []byte(`"instructions":null`)) && !onlyHarmlessPlugins(got[name]) {
			return "has " + member + " in " + name
		}
	}
	for _, name := range []string{"messages", "input"} {
		for i, item := range elements(got[name]) {
			var lower map[string]json.RawMessage
			if json.Unmarshal(bytes.ToLower(item), &lower) != nil {
				continue
			}
			var role string
			_ = json.Unmarshal(lower["role"], &role)
			isOurs := i < len(elements(want[name])) && bytes.Equal(item, elements(want[name])[i])
			if !isOurs && (role == "system" || role == "developer" || len(lower["tools"]) > 2 && string(lower["tools"]) != "null" && !bytes.Contains(item, []byte("mcp_list_tools"))) {
				return "has a prompt or tools in " + name
			}
		}
	}
	return ""
}

// noModels matches a list without the name of a model.
var noModels = regexp.MustCompile(`"allowed_models":\s*(?:null|\[(?:[\s,]|""|null)*\])`)

// onlyHarmlessPlugins reports whether plugins bring neither tools nor models.
func onlyHarmlessPlugins(plugins json.RawMessage) bool {
	plugins = noModels.ReplaceAll(plugins, nil)
	return !slices.ContainsFunc([]string{"web", "fusion", "models"}, func(word string) bool { return bytes.Contains(plugins, []byte(word)) })
}

// fieldsByName returns the members of an object, nil for another value and for repeated names.
func fieldsByName(object []byte) map[string]json.RawMessage {
	names, values, ok := topLevel(object)
	fields := make(map[string]json.RawMessage, len(names))
	for i, name := range names {
		fields[name] = values[i]
	}
	if !ok || len(fields) != len(names) {
		return nil
	}
	return fields
}

// proof checks requests: each is refused, or what goes up breaks no rule.
type proof struct {
	*resolving
	resolver        *inference.Resolver
	limited, strict domain.Principal
	alone           map[domain.Dialect][]byte
}

func newProof(tb testing.TB) *proof {
	tb.Helper()
	r, stop, err := openResolving(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = stop() })
	p := &proof{resolving: r, resolver: inference.NewResolver(r.fixture, inference.Config{}), alone: map[domain.Dialect][]byte{}}
	const config = `{"model":"m","temperature":0.5,"provider":{"zdr":true},"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"json_object"}},"tools":[{"type":"function","name":"f","parameters":{}}]}`
	for _, mode := range []string{"override", "refuse"} {
		r.ruled(tb, mode, version{responses, config, "Be brief."}, `{`+provedPolicy+`,"violation":"`+mode+`"}`)
	}
	p.limited = limitedBy(domain.Scope{Models: []string{"openai/*"}})
	p.strict = r.strict(tb, "strict", search, fetch)
	for _, dialect := range allDialects {
		got, err := p.resolver.Resolve(tb.Context(), user, inference.Request{Dialect: dialect, Body: []byte(`{"preset":"override"}`)})
		if err != nil {
			tb.Fatal(err)
		}
		p.alone[dialect] = got.Body.Bytes()
	}
	return p
}

// fault sends the members of a request with both presets, and without one for a key of some presets or models and
// where tools are disabled. It returns what is wrong, and how many were not refused.
func (p *proof) fault(tb testing.TB, dialect domain.Dialect, members string) (fault string, passed int) {
	ask := func(who domain.Principal, naming string) (inference.Resolution, error) {
		body := "{" + strings.TrimSuffix(naming+","+members, ",") + "}"
		if naming == "" {
			body = "{" + members + "}"
		}
		return p.resolver.Resolve(tb.Context(), who, inference.Request{Dialect: dialect, Body: []byte(body)})
	}
	for _, mode := range []string{"override", "refuse"} {
		got, err := ask(user, `"preset":"`+mode+`"`)
		switch {
		case err != nil:
			if kind := domain.KindOf(err); kind != domain.Invalid && kind != domain.NotFound && (kind != domain.Forbidden || mode == "override") {
				return mode + " gives the error " + err.Error(), passed
			}
			continue
		case got.Preset != mode:
			return mode + " is not applied", passed
		}
		passed++
		if fault := faultOf(dialect, got.Body.Bytes(), p.alone[dialect]); fault != "" {
			return fmt.Sprintf("%s sends %s, which %s", mode, got.Body, fault), passed
		}
	}
	for who, limit := range map[string]domain.Principal{"a key with limits": p.limited, "disabled tools": p.strict} {
		got, err := ask(limit, "")
		if err != nil || got.Preset != "" {
			continue
		}
		passed++
		fields := fieldsByName(got.Body.Bytes())
		for name := range fields {
			if !slices.Contains(policy.KnownFields(dialect), name) {
				return who + " sends " + name, passed
			}
		}
		if model := string(fields["model"]); who == "a key with limits" && model != "" && model != "null" && model != `""` && !strings.Contains(strings.ReplaceAll(model, `\/`, `/`), "openai/") && !strings.Contains(model, `\u`) {
			return who + " sends the model " + model, passed
		}
	}
	return "", passed
}

// TestKnownFieldsHold is the proof for tries, each alone and with others, in all dialects.
func TestKnownFieldsHold(t *testing.T) {
	p := newProof(t)
	for _, dialect := range allDialects {
		total := 0
		for _, try := range append([]string{`"user":"u"`}, tries...) {
			fault, passed := p.fault(t, dialect, try)
			if fault != "" {
				t.Errorf("%s: %s: %s", dialect, try, fault)
			}
			total += passed
		}
		for round := range 3000 / tier.Sample(20) {
			g := gen{rand.New(rand.NewPCG(48, uint64(round)))}
			members := slices.Clone(tries)
			g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			names := policy.KnownFields(dialect)
			for range g.IntN(3) {
				members[g.IntN(3)] = `"` + pick(g, names) + `":` + g.value(2)
			}
			list := strings.Join(members[:1+g.IntN(3)], ",")
			if fault, _ := p.fault(t, dialect, list); fault != "" {
				t.Fatalf("%s: %s: %s", dialect, list, fault)
			}
		}
		if total < len(tries) {
			t.Errorf("%s: got %d requests that were not refused, want as many as there are tries", dialect, total)
		}
	}
}

// FuzzKnownFields is the proof for any request.
func FuzzKnownFields(f *testing.F) {
	for i, try := range tries {
		f.Add([]byte(try), byte(i%3))
		f.Add([]byte(try+`,"model":"openai/x","messages":[{"role":"user","content":"x"}]`), byte(i%3))
	}
	p := newProof(f)
	f.Fuzz(func(t *testing.T, members []byte, number byte) {
		if fault, _ := p.fault(t, allDialects[number%3], string(members)); fault != "" {
			t.Fatalf("%q: %s", members, fault)
		}
	})
}

// TestKnownFieldsOfSettings checks that each setting is known with its form, and that no API knows
// fields that are for presets alone.
func TestKnownFieldsOfSettings(t *testing.T) {
	known := map[string]bool{}
	for _, dialect := range allDialects {
		for _, name := range policy.KnownFields(dialect) {
			known[name] = true
		}
		for name := range maps.Keys(known) {
			if inference.IsKept(dialect, name) && !slices.Contains(policy.KnownFields(dialect), name) {
				t.Errorf("%s keeps %s, which is not known", dialect, name)
			}
		}
	}
	for _, name := range policyNames(t).Lock {
		if field, _, _ := strings.Cut(name, "."); !known[field] {
			t.Errorf("%s is the name of a setting that no API knows", name)
		}
	}
	if known["cache_enabled"] || known["cache_ttl_seconds"] {
		t.Error("settings of presets alone are known in requests")
	}
}
