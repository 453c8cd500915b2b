package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3/option"
)

// startBoth runs Caddy with a service for each client behind it.
func startBoth(t *testing.T) (s *server, ofOpenAI, ofAnthropic *service) {
	t.Helper()
	ofOpenAI, ofAnthropic = newService(t, "openai"), newService(t, "anthropic")
	return startWith(t, "inference", "reverse_proxy /v1/messages "+ofAnthropic.server.Listener.Addr().String()+` {
		header_up Authorization "Bearer {env.E2E_GATEWAY_KEY}"
	}
	`+ofOpenAI.directives()), ofOpenAI, ofAnthropic
}

// request has the parts of a client's request besides userText.
type request struct {
	model   string
	fields  map[string]any // of the body
	headers map[string]string
}

// asker is one inference API with its official client.
type asker struct {
	name   string
	behind *service
	// ask sends a request and returns the answer, whose body is already read. checkError
	// checks an error of ask.
	ask        func(ctx context.Context, r request) (*http.Response, error)
	checkError func(t *testing.T, name string, err error, status int, says string)
}

// askers returns an asker for each inference API.
func (s *server) askers(ofOpenAI, ofAnthropic *service) []asker {
	var all []asker
	openAIClient := s.openAI(inferenceKey)
	codes := map[int]string{http.StatusForbidden: "server_tool_disabled", http.StatusNotFound: "preset_version_not_found"}
	for _, route := range []openAIRoute{openAIChat, openAIResponses} {
		all = append(all, asker{
			name: route.name, behind: ofOpenAI,
			ask: func(ctx context.Context, r request) (response *http.Response, err error) {
				opts := []option.RequestOption{option.WithResponseInto(&response)}
				for name, value := range r.fields {
					opts = append(opts, option.WithJSONSet(name, value))
				}
				for name, value := range r.headers {
					opts = append(opts, option.WithHeader(name, value))
				}
				_, _, err = route.send(ctx, openAIClient, r.model, opts...)
				return response, err
			},
			checkError: func(t *testing.T, name string, err error, status int, says string) {
				t.Helper()
				checkOpenAIError(t, route, name, err, status, codes[status], says)
			},
		})
	}
	anthropicClient := s.anthropic(anthropicoption.WithAPIKey(inferenceKey))
	kinds := map[int]anthropic.ErrorType{http.StatusForbidden: anthropic.ErrorTypePermissionError, http.StatusNotFound: anthropic.ErrorTypeNotFoundError}
	return append(all, asker{
		name: "messages", behind: ofAnthropic,
		ask: func(ctx context.Context, r request) (response *http.Response, err error) {
			opts := []anthropicoption.RequestOption{anthropicoption.WithResponseInto(&response)}
			for name, value := range r.fields {
				opts = append(opts, anthropicoption.WithJSONSet(name, value))
			}
			for name, value := range r.headers {
				opts = append(opts, anthropicoption.WithHeader(name, value))
			}
			if r.model == "" {
				opts = append(opts, anthropicoption.WithJSONDel("model"))
			}
			_, err = anthropicClient.Messages.New(ctx, messageParams(r.model), opts...)
			return response, err
		},
		checkError: func(t *testing.T, name string, err error, status int, says string) {
			t.Helper()
			checkAnthropicError(t, name, err, status, kinds[status], says)
		},
	})
}

// The parameters of a tool and the schema of answers in these tests.
const draftSchema = `{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false}`

// captured are presets made from requests to the other two APIs. The label staging points
// to version 1. Each entry has the upstream request of each API, and the dropped fields.
// Version 2 is the designated one.
var captured = []struct {
	slug, api string
	versions  [2]string
	upstream  map[string]string // by asker
	dropped   map[string]string
}{
	{
		slug: "drafter", api: "chat/completions",
		versions: [2]string{
			`{"model": "acme/small", "messages": [{"role": "system", "content": "Draft."},
				{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "content": "Not kept."}],
				"temperature": 0.1, "max_completion_tokens": 64, "reasoning_effort": "low", "stop": "END", "seed": 7,
				"response_format": {"type": "json_schema", "json_schema": {"name": "draft", "schema": ` + draftSchema + `, "strict": true}},
				"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "find_customer", "parameters": ` + draftSchema + `}}],
				"stream": true, "user": "not kept"}`,
			`{"model": "acme/large", "messages": [{"role": "system", "content": "Draft at length."}], "temperature": 0.2}`,
		},
		upstream: map[string]string{
			"chat": `{"model": %q, "messages": [{"role": "system", "content": "Draft.\n\nBe brief."}, {"role": "user", "content": %q}],
				"temperature": 0.1, "max_completion_tokens": 64, "reasoning_effort": "low", "stop": "END", "seed": 7,
				"response_format": {"type": "json_schema", "json_schema": {"name": "draft", "schema": ` + draftSchema + `, "strict": true}},
				"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "find_customer", "parameters": ` + draftSchema + `}}]}`,
			"responses": `{"model": %q, "input": %q, "instructions": "Draft.\n\nBe brief.",
				"temperature": 0.1, "max_output_tokens": 64, "reasoning": {"effort": "low"},
				"text": {"format": {"type": "json_schema", "name": "draft", "schema": ` + draftSchema + `, "strict": true}},
				"tool_choice": "required", "tools": [{"type": "function", "name": "find_customer", "parameters": ` + draftSchema + `}]}`,
			"messages": `{"model": %q, "messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}], "system": "Draft.\n\nBe brief.",
				"temperature": 0.1, "max_tokens": 100, "stop_sequences": ["END"],
				"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": ` + draftSchema + `}},
				"tool_choice": {"type": "any"}, "tools": [{"name": "find_customer", "input_schema": ` + draftSchema + `}]}`,
		},
		dropped: map[string]string{
			"responses": "stop, seed",
			"messages":  "seed, response_format.json_schema.name, response_format.json_schema.strict",
		},
	},
	{
		slug: "writer", api: "messages",
		versions: [2]string{
			`{"model": "acme/small", "system": [{"type": "text", "text": "Write."}, {"type": "text", "text": "Be kind."}],
				"messages": [{"role": "user", "content": "Not kept."}], "max_tokens": 32, "temperature": 0.1, "top_k": 5,
				"stop_sequences": ["END"], "output_config": {"effort": "low"}, "fallbacks": [{"model": "acme/spare"}],
				"tool_choice": {"type": "any"}, "tools": [{"name": "find_customer", "input_schema": ` + draftSchema + `}],
				"metadata": {"user_id": "not kept"}}`,
			`{"model": "acme/large", "system": "Write at length.", "max_tokens": 64, "messages": [], "temperature": 0.2}`,
		},
		upstream: map[string]string{
			"chat": `{"model": %q, "messages": [{"role": "system", "content": "Write.\n\nBe kind."}, {"role": "user", "content": %q}],
				"max_completion_tokens": 32, "temperature": 0.1, "top_k": 5, "stop": ["END"], "reasoning_effort": "low", "models": ["acme/spare"],
				"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "find_customer", "parameters": ` + draftSchema + `}}]}`,
			"responses": `{"model": %q, "input": %q, "instructions": "Write.\n\nBe kind.",
				"max_output_tokens": 32, "temperature": 0.1, "top_k": 5, "reasoning": {"effort": "low"}, "models": ["acme/spare"],
				"tool_choice": "required", "tools": [{"type": "function", "name": "find_customer", "parameters": ` + draftSchema + `}]}`,
			"messages": `{"model": %q, "messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}], "system": "Write.\n\nBe kind.",
				"max_tokens": 100, "temperature": 0.1, "top_k": 5, "stop_sequences": ["END"], "output_config": {"effort": "low"},
				"fallbacks": [{"model": "acme/spare"}],
				"tool_choice": {"type": "any"}, "tools": [{"name": "find_customer", "input_schema": ` + draftSchema + `}]}`,
		},
		dropped: map[string]string{"responses": "stop_sequences"},
	},
}

// TestLabels uses presets with the official OpenAI and Anthropic clients, by their labels.
// The presets were made from requests to other APIs.
func TestLabels(t *testing.T) {
	t.Parallel()
	s, ofOpenAI, ofAnthropic := startBoth(t)
	for _, preset := range captured {
		for _, version := range preset.versions {
			s.manage(t, http.MethodPost, "/v1/presets/"+preset.slug+"/"+preset.api, version)
		}
		s.manage(t, http.MethodPut, "/v1/presets/"+preset.slug+"/labels/staging", `{"version": 1}`)
	}

	for _, preset := range captured {
		for _, api := range s.askers(ofOpenAI, ofAnthropic) {
			for _, r := range []struct {
				request
				runs string
			}{
				{request{model: "@preset/" + preset.slug + "@staging"}, "acme/small"},
				{request{model: "acme/other@preset/" + preset.slug + "@staging"}, "acme/other"},
				{request{fields: map[string]any{"preset": preset.slug + "@staging"}}, "acme/small"},
				{request{model: "acme/other", fields: map[string]any{"preset": preset.slug + "@staging"}}, "acme/other"},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s,%v", preset.slug, api.name, r.model, r.fields["preset"]), func(t *testing.T) {
					response, err := api.ask(deadline(t), r.request)
					if err != nil {
						t.Fatal(err)
					}
					sent, _ := api.behind.last()
					checkJSON(t, "upstream", sent.Body, fmt.Sprintf(preset.upstream[api.name], r.runs, userText))
					checkAnswer(t, response, preset.slug+"@1", preset.dropped[api.name])
				})
			}
		}
	}

	t.Run("moved", func(t *testing.T) {
		for _, api := range s.askers(ofOpenAI, ofAnthropic) {
			for _, version := range []int{2, 1} {
				s.manage(t, http.MethodPut, "/v1/presets/writer/labels/staging", fmt.Sprintf(`{"version": %d}`, version))
				response, err := api.ask(deadline(t), request{model: "@preset/writer@staging"})
				if err != nil {
					t.Fatal(err)
				}
				if got, want := response.Header.Get("X-Preset"), fmt.Sprintf("writer@%d", version); got != want {
					t.Errorf("%s, right after the label was moved: got X-Preset %q, want %q", api.name, got, want)
				}
			}
		}
	})

	t.Run("unknown", func(t *testing.T) {
		for _, api := range s.askers(ofOpenAI, ofAnthropic) {
			for _, label := range []string{"nobody", "latest", "Staging", "3"} {
				_, before := api.behind.last()
				_, err := api.ask(deadline(t), request{model: "@preset/writer@" + label})
				api.checkError(t, label, err, http.StatusNotFound, "@preset/writer@"+label)
				if _, after := api.behind.last(); after != before {
					t.Errorf("%s: went upstream", label)
				}
			}
		}
	})

	t.Run("split", func(t *testing.T) {
		s.manage(t, http.MethodPut, "/v1/presets/writer/labels/canary", `{"split": [{"version": 1, "weight": 1}, {"version": 2, "weight": 1}]}`)
		askers := s.askers(ofOpenAI, ofAnthropic)
		served := func(api asker, r request) string {
			t.Helper()
			r.model = "@preset/writer@canary"
			response, err := api.ask(deadline(t), r)
			if err != nil {
				t.Fatal(err)
			}
			return response.Header.Get("X-Preset")
		}
		sessions := map[string]int{} // by served version
		for i := range 32 {
			id := fmt.Sprintf("session %d", i)
			first := served(askers[0], request{fields: map[string]any{"session_id": id}})
			sessions[first]++
			for _, api := range askers {
				for name, r := range map[string]request{
					"in the body":   {fields: map[string]any{"session_id": id}},
					"in the header": {headers: map[string]string{"X-Session-Id": id}},
					"in both":       {fields: map[string]any{"session_id": id}, headers: map[string]string{"X-Session-Id": "another"}},
				} {
					if got := served(api, r); got != first {
						t.Errorf("%s, %s %s: got %s, its first request %s", api.name, id, name, got, first)
					}
				}
			}
		}
		if want := []string{"writer@1", "writer@2"}; !slices.Equal(slices.Sorted(maps.Keys(sessions)), want) {
			t.Errorf("32 sessions were served %v, want both versions", sessions)
		}
		byKey := served(askers[0], request{})
		for _, api := range askers {
			if got := served(api, request{}); got != byKey {
				t.Errorf("%s without a session: got %s, the key's first request %s", api.name, got, byKey)
			}
		}
	})

	ofOpenAI.checkSecrets(t)
	ofAnthropic.checkSecrets(t)
}

// TestDisabledTools disables a server tool in a workspace. The official OpenAI and
// Anthropic clients get their own errors.
func TestDisabledTools(t *testing.T) {
	t.Parallel()
	s, ofOpenAI, ofAnthropic := startBoth(t)
	s.manage(t, http.MethodPost, "/v1/presets/searcher/chat/completions", `{"model": "acme/small", "tools": [{"type": "openrouter:web_search"}]}`)
	s.manage(t, http.MethodPost, "/v1/presets/plain/messages", `{"model": "acme/small", "max_tokens": 10, "messages": []}`)

	tools := func(types ...string) map[string]any {
		var list []map[string]any
		for _, name := range types {
			list = append(list, map[string]any{"type": name})
		}
		return map[string]any{"tools": list}
	}
	refused := map[string]request{
		"of the request":               {model: "acme/large", fields: tools("openrouter:datetime", "openrouter:web_search")},
		"of the request with a preset": {model: "@preset/plain", fields: tools("openrouter:web_search")},
		"of the preset":                {model: "@preset/searcher"},
		"of the preset, with another":  {model: "acme/large@preset/searcher", fields: tools("openrouter:datetime")},
	}
	passed := map[string]request{
		"another tool": {model: "acme/large", fields: tools("openrouter:datetime")},
		"no tool":      {model: "@preset/plain"},
	}
	pass := func(t *testing.T, api asker, name string, r request) {
		t.Helper()
		_, before := api.behind.last()
		if _, err := api.ask(deadline(t), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, after := api.behind.last(); after != before+1 {
			t.Errorf("%s: %d requests went upstream, want 1", name, after-before)
		}
	}

	for _, api := range s.askers(ofOpenAI, ofAnthropic) {
		t.Run(api.name, func(t *testing.T) {
			s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"disabled_server_tools": ["openrouter:web_search", "openrouter:bash"]}`)
			for name, r := range refused {
				_, before := api.behind.last()
				_, err := api.ask(deadline(t), r)
				api.checkError(t, name, err, http.StatusForbidden, "openrouter:web_search")
				if _, after := api.behind.last(); after != before {
					t.Errorf("%s: went upstream", name)
				}
			}
			for name, r := range passed {
				pass(t, api, name, r)
			}
			s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"disabled_server_tools": null}`)
			for name, r := range refused {
				pass(t, api, name+", switched on again", r)
			}
		})
	}
	ofOpenAI.checkSecrets(t)
	ofAnthropic.checkSecrets(t)
}
