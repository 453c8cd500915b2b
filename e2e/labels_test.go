package e2e

import (
	"context"
	"net/http"
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

// TestUnknownLabels names labels that are not set. Each official client gets its own error.
func TestUnknownLabels(t *testing.T) {
	t.Parallel()
	s, ofOpenAI, ofAnthropic := startBoth(t)
	s.manage(t, http.MethodPost, "/v1/presets/writer/messages", `{"model": "acme/small", "max_tokens": 10, "messages": []}`)
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
