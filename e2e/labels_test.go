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

// TestOwnErrors asks for what the module refuses before the service: each official client
// gets its own error.
func TestOwnErrors(t *testing.T) {
	t.Parallel()
	s, ofOpenAI, ofAnthropic := startBoth(t)
	s.manage(t, http.MethodPost, "/v1/presets/writer/messages", `{"model": "acme/small", "max_tokens": 10, "messages": []}`)
	s.manage(t, http.MethodPost, "/v1/presets/searcher/chat/completions", `{"model": "acme/small", "tools": [{"type": "openrouter:web_search"}]}`)
	s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"disabled_server_tools": ["openrouter:web_search", "openrouter:bash"]}`)

	search := map[string]any{"tools": []map[string]any{{"type": "openrouter:datetime"}, {"type": "openrouter:web_search"}}}
	for _, refused := range []struct {
		name    string
		request request
		status  int
		says    string
	}{
		{"no label", request{model: "@preset/writer@nobody"}, http.StatusNotFound, "@preset/writer@nobody"},
		{"no version", request{model: "@preset/writer@3"}, http.StatusNotFound, "@preset/writer@3"},
		{"tool of the request", request{model: "acme/large", fields: search}, http.StatusForbidden, "openrouter:web_search"},
		{"tool of the preset", request{model: "@preset/searcher"}, http.StatusForbidden, "openrouter:web_search"},
	} {
		for _, api := range s.askers(ofOpenAI, ofAnthropic) {
			_, before := api.behind.last()
			_, err := api.ask(deadline(t), refused.request)
			api.checkError(t, api.name+", "+refused.name, err, refused.status, refused.says)
			if _, after := api.behind.last(); after != before {
				t.Errorf("%s, %s: went upstream", api.name, refused.name)
			}
		}
	}
}
