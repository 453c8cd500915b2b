package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropic returns the client as users create it: with the key in X-Api-Key. It does not
// retry, so that no failure is hidden.
func (s *server) anthropic(credential option.RequestOption) anthropic.Client {
	return anthropic.NewClient(
		option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(s.site),
		credential,
		option.WithMaxRetries(0),
	)
}

// messageParams returns a request with userText. The client always sends max_tokens.
func messageParams(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(userText))},
	}
}

// messagesUpstream is the upstream request for version 1 or 2 of copywriter.
var messagesUpstream = [2]string{
	`{"model": %q, "max_tokens": 100, "messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}],
		"system": "Be brief.", "temperature": 0.1%s}`,
	`{"model": %q, "max_tokens": 100, "messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}],
		"system": "You are a copywriter.", "temperature": 0.2, "output_config": {"effort": "low"}%s}`,
}

// anthropic returns the model and the options for a style. It also returns the expected
// upstream request, with more members.
func (st style) anthropic(more string) (model string, opts []option.RequestOption, upstream, dropped string) {
	text, dropped := messagesUpstream[1], "text.verbosity"
	if st.v1 {
		text, dropped = messagesUpstream[0], ""
	}
	if st.preset != "" {
		opts = append(opts, option.WithJSONSet("preset", st.preset))
	}
	if st.model == "" {
		opts = append(opts, option.WithJSONDel("model"))
	}
	return st.model, opts, fmt.Sprintf(text, st.runs, userText, more), dropped
}

// textOf returns the text of a message.
func textOf(message *anthropic.Message) string {
	var all strings.Builder
	for _, block := range message.Content {
		if text, ok := block.AsAny().(anthropic.TextBlock); ok {
			all.WriteString(text.Text)
		}
	}
	return all.String()
}

// TestAnthropic runs the official Anthropic client against the built binary.
func TestAnthropic(t *testing.T) {
	t.Parallel()
	behind := newService(t, "anthropic")
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	s.makePresets(t)
	client := s.anthropic(option.WithAPIKey(inferenceKey))

	for _, st := range styles {
		t.Run(st.name, func(t *testing.T) {
			var response *http.Response
			model, opts, upstream, dropped := st.anthropic("")
			message, err := client.Messages.New(deadline(t), messageParams(model), append(opts, option.WithResponseInto(&response))...)
			if err != nil {
				t.Fatal(err)
			}
			sent, _ := behind.last()
			if sent.URI != "/v1/messages" || sent.Header.Get("Anthropic-Version") == "" {
				t.Errorf("got %s with anthropic-version %q upstream", sent.URI, sent.Header.Get("Anthropic-Version"))
			}
			checkJSON(t, "upstream", sent.Body, upstream)
			want, err := behind.file("messages.json", st.runs)
			if err != nil {
				t.Fatal(err)
			}
			if got := message.RawJSON(); strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("the answer changed on its way:\n got %s\nwant %s", got, want)
			}
			if got := textOf(message); got != answerText || message.StopReason != anthropic.StopReasonEndTurn {
				t.Errorf("the client read %q and stop reason %q, want %q", got, message.StopReason, answerText)
			}
			checkAnswer(t, response, st.header, dropped)
		})
		t.Run(st.name+", streaming", func(t *testing.T) {
			var response *http.Response
			model, opts, upstream, dropped := st.anthropic(`, "stream": true`)
			stream := client.Messages.NewStreaming(deadline(t), messageParams(model), append(opts, option.WithResponseInto(&response))...)
			var message anthropic.Message
			readPaced(t, behind, stream, func() string {
				event := stream.Current()
				if event.AsAny() == nil {
					return "an event the client does not know: " + event.RawJSON()
				}
				if err := message.Accumulate(event); err != nil {
					return err.Error()
				}
				return event.RawJSON()
			}, behind.payloads(t, "messages.sse", st.runs))
			sent, _ := behind.last()
			checkJSON(t, "upstream", sent.Body, upstream)
			if got := textOf(&message); got != answerText || message.StopReason != anthropic.StopReasonEndTurn {
				t.Errorf("the client read %q and stop reason %q, want %q", got, message.StopReason, answerText)
			}
			checkAnswer(t, response, st.header, dropped)
		})
	}

	t.Run("no preset", func(t *testing.T) {
		var response *http.Response
		if _, err := client.Messages.New(deadline(t), messageParams("acme/plain"), option.WithResponseInto(&response)); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(`{"model": "acme/plain", "max_tokens": 100,
			"messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}]}`, userText))
		checkAnswer(t, response, "", "")
	})

	t.Run("bearer token", func(t *testing.T) {
		bearer := s.anthropic(option.WithAuthToken(inferenceKey))
		for _, opts := range [][]option.RequestOption{nil, {option.WithHeader("X-Api-Key", inferenceKey)}} {
			if _, err := bearer.Messages.New(deadline(t), messageParams("@preset/copywriter"), opts...); err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("beta", func(t *testing.T) {
		params := anthropic.BetaMessageNewParams{
			Model: "@preset/copywriter", MaxTokens: 100, Betas: []anthropic.AnthropicBeta{anthropic.AnthropicBetaTokenEfficientTools2025_02_19},
			Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(userText))},
		}
		message, err := client.Beta.Messages.New(deadline(t), params)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := message.Content[0].AsAny().(anthropic.BetaTextBlock); !ok || text.Text != answerText {
			t.Errorf("the client read %s", message.RawJSON())
		}
		sent, _ := behind.last()
		if sent.URI != "/v1/messages?beta=true" || sent.Header.Get("Anthropic-Beta") != "token-efficient-tools-2025-02-19" {
			t.Errorf("got %s with anthropic-beta %q upstream", sent.URI, sent.Header.Get("Anthropic-Beta"))
		}
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(messagesUpstream[1], "acme/large", userText, ""))

		stream := client.Beta.Messages.NewStreaming(deadline(t), params)
		readPaced(t, behind, stream, func() string { return stream.Current().RawJSON() }, behind.payloads(t, "messages.sse", "acme/large"))
		if sent, _ := behind.last(); sent.URI != "/v1/messages?beta=true" {
			t.Errorf("got %s upstream", sent.URI)
		}
	})

	t.Run("max_tokens of the preset", func(t *testing.T) {
		if _, err := client.Messages.New(deadline(t), messageParams("@preset/copywriter"), option.WithJSONDel("max_tokens")); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkJSON(t, "max_tokens upstream", member(t, sent.Body, "max_tokens"), "512")
	})

	t.Run("system prompt", func(t *testing.T) {
		params := messageParams("@preset/copywriter")
		params.System = []anthropic.TextBlockParam{{Text: "Mine.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
		if _, err := client.Messages.New(deadline(t), params); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkJSON(t, "system upstream", member(t, sent.Body, "system"),
			`[{"type": "text", "text": "You are a copywriter."}, {"type": "text", "text": "Mine.", "cache_control": {"type": "ephemeral"}}]`)

		if _, err := client.Messages.New(deadline(t), messageParams("@preset/copywriter"), option.WithJSONSet("system", "Mine.")); err != nil {
			t.Fatal(err)
		}
		sent, _ = behind.last()
		checkJSON(t, "system upstream", member(t, sent.Body, "system"), `"You are a copywriter.\n\nMine."`)
	})

	t.Run("tools", func(t *testing.T) {
		for _, test := range []struct {
			choice anthropic.ToolChoiceUnionParam
			want   string
		}{
			{anthropic.ToolChoiceUnionParam{}, `{"type": "any"}`},
			{anthropic.ToolChoiceParamOfTool("weather"), `{"type": "tool", "name": "weather"}`},
		} {
			params := messageParams("@preset/assistant")
			params.ToolChoice = test.choice
			params.Tools = []anthropic.ToolUnionParam{
				{OfTool: &anthropic.ToolParam{Name: "send_mail", Description: anthropic.String("The request's."), InputSchema: anthropic.ToolInputSchemaParam{Required: []string{"to"}}}},
				anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: weatherParameters["properties"]}, "weather"),
			}
			message, err := client.Messages.New(deadline(t), params)
			if err != nil {
				t.Fatal(err)
			}
			call, ok := message.Content[1].AsAny().(anthropic.ToolUseBlock)
			if !ok || call.Name != "find_customer" || string(call.Input) == "" || message.StopReason != anthropic.StopReasonToolUse {
				t.Errorf("the client read %s, want a call of the preset's tool", message.RawJSON())
			}
			sent, _ := behind.last()
			checkJSON(t, "tools upstream", member(t, sent.Body, "tools"), `[
				{"name": "find_customer", "description": "Finds a customer.", "strict": true,
				 "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}},
				{"name": "send_mail", "description": "The request's.", "input_schema": {"type": "object", "required": ["to"]}},
				{"name": "weather", "input_schema": `+weatherJSON+`}]`)
			checkJSON(t, "tool_choice upstream", member(t, sent.Body, "tool_choice"), test.want)
		}
	})

	t.Run("large body", func(t *testing.T) {
		mediaType, data, _ := image(8 << 20)
		params := messageParams("@preset/copywriter")
		params.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewImageBlockBase64(mediaType, data), anthropic.NewTextBlock(userText))}
		if _, err := client.Messages.New(deadline(t), params); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		if !strings.Contains(sent.Body, `"`+data+`"`) {
			t.Errorf("the image of %d bytes is not in the %d bytes that went up", len(data), len(sent.Body))
		}
		checkJSON(t, "system upstream", member(t, sent.Body, "system"), `"You are a copywriter."`)
	})

	t.Run("dry run", func(t *testing.T) {
		_, before := behind.last()
		var dry dryRun
		if _, err := client.Messages.New(deadline(t), messageParams("@preset/copywriter"),
			option.WithHeader("X-Preset-Dry-Run", "true"), option.WithResponseBodyInto(&dry)); err != nil {
			t.Fatal(err)
		}
		if _, after := behind.last(); after != before {
			t.Error("a dry run went upstream")
		}
		if !slices.Equal(dry.Data.Dropped, []string{"text.verbosity"}) {
			t.Errorf("dry run: got dropped %q", dry.Data.Dropped)
		}
		if _, err := client.Messages.New(deadline(t), messageParams("@preset/copywriter")); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkDryRun(t, dry, sent)
	})

	t.Run("client leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(deadline(t))
		defer leave()
		stream := client.Messages.NewStreaming(ctx, messageParams("@preset/copywriter"))
		if !stream.Next() {
			t.Fatalf("the first event did not arrive: %v", stream.Err())
		}
		if err := stream.Close(); err != nil { // the context is not cancelled
			t.Error(err)
		}
		if err := behind.hungUp(); err != nil {
			t.Error(err)
		}
	})

	t.Run("refused", func(t *testing.T) {
		_, before := behind.last()
		manager, stranger := s.anthropic(option.WithAPIKey(managementKey)), s.anthropic(option.WithAPIKey("sk-ant-nobody-knows-this-one"))
		for _, test := range []struct {
			name   string
			client anthropic.Client
			model  string
			status int
			kind   anthropic.ErrorType
			says   string
		}{
			{"unknown preset", client, "@preset/nobody", http.StatusNotFound, anthropic.ErrorTypeNotFoundError, "Preset not found: @preset/nobody"},
			{"unknown version", client, "acme/other@preset/copywriter@3", http.StatusNotFound, anthropic.ErrorTypeNotFoundError, "Preset version not found: @preset/copywriter@3"},
			{"bad reference", client, "@preset/", http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError, "/model"},
			{"bad key", stranger, "@preset/copywriter", http.StatusUnauthorized, anthropic.ErrorTypeAuthenticationError, "Invalid credentials"},
			{"management key", manager, "@preset/copywriter", http.StatusForbidden, anthropic.ErrorTypePermissionError, ""},
		} {
			_, err := test.client.Messages.New(deadline(t), messageParams(test.model))
			checkAnthropicError(t, test.name, err, test.status, test.kind, test.says)
			stream := test.client.Messages.NewStreaming(deadline(t), messageParams(test.model))
			if stream.Next() {
				t.Errorf("%s, streaming: got an event", test.name)
			}
			checkAnthropicError(t, test.name+", streaming", stream.Err(), test.status, test.kind, test.says)
		}
		_, err := client.Messages.New(deadline(t), messageParams("@preset/copywriter"), option.WithJSONSet("preset", "assistant"))
		checkAnthropicError(t, "two presets", err, http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError, "/preset")
		_, err = client.Messages.New(deadline(t), messageParams("@preset/copywriter"), option.WithHeaderAdd("X-Api-Key", managementKey))
		checkAnthropicError(t, "two keys", err, http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError, "x-api-key")
		if _, after := behind.last(); after != before {
			t.Errorf("%d refused requests went upstream", after-before)
		}
	})

	t.Run("upstream error", func(t *testing.T) {
		for _, streaming := range []bool{false, true} {
			var err error
			if streaming {
				stream := client.Messages.NewStreaming(deadline(t), messageParams(overloaded+"@preset/copywriter"))
				stream.Next()
				err = stream.Err()
			} else {
				_, err = client.Messages.New(deadline(t), messageParams(overloaded+"@preset/copywriter"))
			}
			checkAnthropicError(t, "overloaded", err, overloadedStatus["anthropic"], anthropic.ErrorTypeOverloadedError, "Overloaded")
			if typed, ok := errors.AsType[*anthropic.Error](err); ok {
				if typed.RequestID != "req_of_the_service" {
					t.Errorf("got request id %q, want the service's", typed.RequestID)
				}
				checkAnswer(t, typed.Response, "copywriter@2", "text.verbosity")
			}
		}
	})

	t.Run("models", func(t *testing.T) {
		pages := client.Models.ListAutoPaging(deadline(t), anthropic.ModelListParams{})
		var ids []string
		for pages.Next() {
			model := pages.Current()
			if model.Type != "model" || model.DisplayName == "" || model.CreatedAt.IsZero() {
				t.Errorf("got %s, want an entry like the others", model.RawJSON())
			}
			ids = append(ids, model.ID)
		}
		if want := []string{"claude-acme-1", "anthropic/@preset/assistant", "anthropic/@preset/copywriter"}; pages.Err() != nil || !slices.Equal(ids, want) {
			t.Errorf("got models %q, %v, want %q", ids, pages.Err(), want)
		}
	})

	behind.checkSecrets(t)
}

// checkAnthropicError fails the test unless err is the client's own error.
func checkAnthropicError(t *testing.T, name string, err error, status int, kind anthropic.ErrorType, says string) {
	t.Helper()
	typed, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		t.Errorf("%s: got %v, want the client's own error", name, err)
		return
	}
	if typed.StatusCode != status || typed.Type() != kind || !strings.Contains(typed.RawJSON(), says) {
		t.Errorf("%s: got %d %s %s; want %d %s about %q", name, typed.StatusCode, typed.Type(), typed.RawJSON(), status, kind, says)
	}
}
