package inference_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
)

// ruled stores a preset with a policy, given as clients send it.
func (r *resolving) ruled(tb testing.TB, slug string, in version, policy string) domain.Preset {
	tb.Helper()
	p := r.put(tb, r.home.ID, slug, in)
	var patch domain.PresetPatch
	if err := jsonv2.Unmarshal([]byte(`{"policy":`+policy+`}`), &patch); err != nil {
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

// TestPolicies has the whole merged request for each rule, in testdata/policies.txt. The requests have no
// reference, unless they have a field preset.
func TestPolicies(t *testing.T) {
	r := newResolving(t)
	r.changeWorkspace(t, r.home.ID, func(w *domain.Workspace) { w.DefaultTextModel = new("fallback") })
	cases := table.Read(t, "testdata/policies.txt", "dialect", "preset", "policy", "request", "prompt", "upstream", "enforced", "refused")
	cases = append(cases, table.Case{
		"=": "a role behind much space", "dialect": "chat/completions", "preset": `{}`, "policy": `{"lock":["system"]}`, "prompt": `"Be brief."`,
		"request":  `{"messages":[{"role":"` + strings.Repeat(" ", 2000) + `system","content":"a"}]}`,
		"upstream": `{"messages":[{"role":"system","content":"Be brief."}]}`, "enforced": "system", "refused": "/messages/0",
	})
	for _, tc := range cases {
		t.Run(tc["="], func(t *testing.T) {
			dialect, prompt := domain.Dialect(tc["dialect"]), ""
			if tc["prompt"] != "" {
				if err := json.Unmarshal([]byte(tc["prompt"]), &prompt); err != nil {
					t.Fatal(err)
				}
			}
			for _, mode := range []string{"override", "refuse"} {
				slug := "p"
				policy := strings.TrimSuffix(tc["policy"], "}")
				if policy != "{" {
					policy += ","
				}
				r.ruled(t, slug, version{dialect: dialect, config: tc["preset"], prompt: prompt}, policy+`"violation":"`+mode+`"}`)
				body := tc["request"]
				if !strings.Contains(body, `"preset"`) {
					body = strings.Replace(`{"preset":"p",`+body[1:], ",}", "}", 1)
				}
				got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(body)})
				if mode == "refuse" && tc["refused"] != "" {
					wantKind(t, err, domain.Forbidden, "Request breaks the policy of the preset")
					var places []string
					if e, ok := errors.AsType[*domain.Error](err); ok {
						for _, issue := range e.Issues {
							places = append(places, issue.Path)
						}
						slices.Sort(places)
					}
					if strings.Join(places, " ") != tc["refused"] {
						t.Errorf("got a refusal of %q, want %s", places, tc["refused"])
					}
					continue
				}
				want := tc["upstream"]
				if !strings.Contains(want, `"model`) {
					want = strings.Replace(strings.TrimSuffix(want, "}")+`,"model":"fallback"}`, "{,", "{", 1)
				}
				wantBody(t, got, err, want)
				if list := strings.Join(got.Enforced, " "); list != tc["enforced"] {
					t.Errorf("got enforced %q, want %q", list, tc["enforced"])
				}
			}
		})
	}
}
