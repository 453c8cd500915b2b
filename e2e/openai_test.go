package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// userText is the user's message in these tests.
const userText = "Zażółć “gęślą” jaźń \U0001F600"

// answerText is the text of the service's answers.
const answerText = "Zażółć “gęślą” jaźń \U0001F600 — done."

// openAI returns the client as users create it. It does not retry, so that no failure is
// hidden.
func (s *server) openAI(key string) openai.Client {
	return openai.NewClient(
		option.WithBaseURL(s.site+"/v1"),
		option.WithAPIKey(key),
		option.WithUnsafeAllowHTTP(), // the client requires it for a server without TLS
		option.WithMaxRetries(0),
	)
}

// openAIRoute is one of the two inference APIs of the client.
type openAIRoute struct {
	name string // the name of its files in testdata
	uri  string
	// upstream is the upstream request for version 1 or 2 of copywriter.
	upstream [2]string
	// send sends userText, and returns the answer's JSON and text.
	send func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (raw, text string, err error)
	// stream sends userText for a streamed answer. It returns functions for the stream's
	// current event and the text so far.
	stream func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (s sseStream, current, text func() string)
	// system sends userText with the request's own system prompt.
	system func(ctx context.Context, c openai.Client, own string) error
	// systemUpstream is the upstream request for the system prompt "Mine.".
	systemUpstream string
	// tools sends userText with the tools send_mail and weather. It returns the name and
	// arguments of the tool call in the answer.
	tools func(ctx context.Context, c openai.Client, model, choice string) (name, arguments string, err error)
	// toolsUpstream are the tools in the upstream request.
	toolsUpstream string
	// image sends an image.
	image func(ctx context.Context, c openai.Client, model, url string) error
}

func chatParams(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(userText)}}
}

func responsesParams(model string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(userText)}}
}

// weatherParameters are the parameters of the tool weather.
var weatherParameters = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}

const weatherJSON = `{"type": "object", "properties": {"city": {"type": "string"}}}`

var openAIChat = openAIRoute{
	name: "chat",
	uri:  "/v1/chat/completions",
	upstream: [2]string{
		`{"model": %q, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": %q}], "temperature": 0.1%s}`,
		`{"model": %q, "messages": [{"role": "system", "content": "You are a copywriter."}, {"role": "user", "content": %q}],
			"temperature": 0.2, "max_completion_tokens": 512, "reasoning_effort": "low", "verbosity": "low"%s}`,
	},
	send: func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (raw, text string, err error) {
		answer, err := c.Chat.Completions.New(ctx, chatParams(model), opts...)
		if err != nil || answer == nil { // it was read into something else
			return "", "", err
		}
		return answer.RawJSON(), answer.Choices[0].Message.Content, nil
	},
	stream: func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (s sseStream, current, text func() string) {
		stream := c.Chat.Completions.NewStreaming(ctx, chatParams(model), opts...)
		var all openai.ChatCompletionAccumulator
		current = func() string {
			chunk := stream.Current()
			if !all.AddChunk(chunk) {
				return "a chunk that does not fit: " + chunk.RawJSON()
			}
			return chunk.RawJSON()
		}
		return stream, current, func() string { return all.Choices[0].Message.Content }
	},
	system: func(ctx context.Context, c openai.Client, own string) error {
		params := chatParams("@preset/copywriter")
		params.Messages = slices.Insert(params.Messages, 0, openai.SystemMessage(own))
		_, err := c.Chat.Completions.New(ctx, params)
		return err
	},
	systemUpstream: `{"model": "acme/large", "messages": [{"role": "system", "content": "You are a copywriter.\n\nMine."}, {"role": "user", "content": %q}],
		"temperature": 0.2, "max_completion_tokens": 512, "reasoning_effort": "low", "verbosity": "low"}`,
	tools: func(ctx context.Context, c openai.Client, model, choice string) (name, arguments string, err error) {
		params := chatParams(model)
		params.Tools = []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "send_mail", Description: openai.String("The request's.")}),
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "weather", Parameters: weatherParameters}),
		}
		if choice != "" {
			params.ToolChoice.OfAuto = openai.String(choice)
		}
		answer, err := c.Chat.Completions.New(ctx, params)
		if err != nil {
			return "", "", err
		}
		call := answer.Choices[0].Message.ToolCalls[0].Function
		return call.Name, call.Arguments, nil
	},
	toolsUpstream: `[
		{"type": "function", "function": {"name": "find_customer", "description": "Finds a customer.", "strict": true,
		 "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}}},
		{"type": "function", "function": {"name": "send_mail", "description": "The request's."}},
		{"type": "function", "function": {"name": "weather", "parameters": ` + weatherJSON + `}}]`,
	image: func(ctx context.Context, c openai.Client, model, url string) error {
		params := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart(userText),
				openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url}),
			}),
		}}
		_, err := c.Chat.Completions.New(ctx, params)
		return err
	},
}

var openAIResponses = openAIRoute{
	name: "responses",
	uri:  "/v1/responses",
	upstream: [2]string{
		`{"model": %q, "input": %q, "instructions": "Be brief.", "temperature": 0.1%s}`,
		`{"model": %q, "input": %q, "instructions": "You are a copywriter.", "temperature": 0.2,
			"max_output_tokens": 512, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}%s}`,
	},
	send: func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (raw, text string, err error) {
		answer, err := c.Responses.New(ctx, responsesParams(model), opts...)
		if err != nil || answer == nil { // it was read into something else
			return "", "", err
		}
		return answer.RawJSON(), answer.OutputText(), nil
	},
	stream: func(ctx context.Context, c openai.Client, model string, opts ...option.RequestOption) (s sseStream, current, text func() string) {
		stream := c.Responses.NewStreaming(ctx, responsesParams(model), opts...)
		var deltas strings.Builder
		var completed string
		current = func() string {
			switch event := stream.Current().AsAny().(type) {
			case nil:
				return "an event the client does not know: " + stream.Current().RawJSON()
			case responses.ResponseTextDeltaEvent:
				deltas.WriteString(event.Delta)
			case responses.ResponseCompletedEvent:
				completed = event.Response.OutputText()
			}
			return stream.Current().RawJSON()
		}
		return stream, current, func() string {
			if deltas.String() != completed {
				return fmt.Sprintf("%q in pieces, %q in the end", deltas.String(), completed)
			}
			return completed
		}
	},
	system: func(ctx context.Context, c openai.Client, own string) error {
		params := responsesParams("@preset/copywriter")
		params.Instructions = openai.String(own)
		_, err := c.Responses.New(ctx, params)
		return err
	},
	systemUpstream: `{"model": "acme/large", "input": %q, "instructions": "You are a copywriter.\n\nMine.", "temperature": 0.2,
		"max_output_tokens": 512, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}`,
	tools: func(ctx context.Context, c openai.Client, model, choice string) (name, arguments string, err error) {
		params := responsesParams(model)
		params.Tools = []responses.ToolUnionParam{
			{OfFunction: &responses.FunctionToolParam{Name: "send_mail", Description: openai.String("The request's."), Strict: openai.Bool(false)}},
			responses.ToolParamOfFunction("weather", weatherParameters, true),
		}
		if choice != "" {
			params.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptions(choice))
		}
		answer, err := c.Responses.New(ctx, params)
		if err != nil {
			return "", "", err
		}
		call := answer.Output[0].AsFunctionCall()
		return call.Name, call.Arguments, nil
	},
	toolsUpstream: `[
		{"type": "function", "name": "find_customer", "description": "Finds a customer.", "strict": true,
		 "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}},
		{"type": "function", "name": "send_mail", "description": "The request's.", "strict": false},
		{"type": "function", "name": "weather", "strict": true, "parameters": ` + weatherJSON + `}]`,
	image: func(ctx context.Context, c openai.Client, model, url string) error {
		picture := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		picture.OfInputImage.ImageURL = openai.String(url)
		params := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{
			OfInputItemList: responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(
				responses.ResponseInputMessageContentListParam{responses.ResponseInputContentParamOfInputText(userText), picture}, "user",
			)},
		}}
		_, err := c.Responses.New(ctx, params)
		return err
	},
}

// openAI returns the model and the options for a style.
func (st style) openAI() (model string, opts []option.RequestOption) {
	if st.preset != "" {
		opts = append(opts, option.WithJSONSet("preset", st.preset))
	}
	return st.model, opts
}

// expected returns the upstream request for a style.
func (route openAIRoute) expected(st style, more string) string {
	text := route.upstream[1]
	if st.v1 {
		text = route.upstream[0]
	}
	return fmt.Sprintf(text, st.runs, userText, more)
}

// TestOpenAI runs the official OpenAI client against the built binary.
func TestOpenAI(t *testing.T) {
	t.Parallel()
	behind := newService(t, "openai")
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	s.makePresets(t)

	for _, route := range []openAIRoute{openAIChat, openAIResponses} {
		t.Run(route.name, func(t *testing.T) { testOpenAIRoute(t, s, behind, route) })
	}

	t.Run("models", func(t *testing.T) {
		client := s.openAI(inferenceKey)
		page, err := client.Models.List(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, model := range page.Data {
			if model.Object != "model" || model.Created == 0 || model.OwnedBy == "" {
				t.Errorf("got %s, want an entry like the others", model.RawJSON())
			}
			ids = append(ids, model.ID)
		}
		if want := []string{"acme/large", "acme/small", "@preset/assistant", "@preset/copywriter"}; !slices.Equal(ids, want) {
			t.Errorf("got models %q, want %q", ids, want)
		}
	})

	behind.checkSecrets(t)
}

func testOpenAIRoute(t *testing.T, s *server, behind *service, route openAIRoute) {
	client := s.openAI(inferenceKey)

	for _, st := range styles {
		t.Run(st.name, func(t *testing.T) {
			var response *http.Response
			model, opts := st.openAI()
			raw, text, err := route.send(deadline(t), client, model, append(opts, option.WithResponseInto(&response))...)
			if err != nil {
				t.Fatal(err)
			}
			sent, _ := behind.last()
			if sent.URI != route.uri {
				t.Errorf("got %s upstream, want %s", sent.URI, route.uri)
			}
			checkJSON(t, "upstream", sent.Body, route.expected(st, ""))
			want, err := behind.file(route.name+".json", st.runs)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(raw) != strings.TrimSpace(want) {
				t.Errorf("the answer changed on its way:\n got %s\nwant %s", raw, want)
			}
			if text != answerText {
				t.Errorf("the client read %q, want %q", text, answerText)
			}
			checkAnswer(t, response, st.header, "")
		})
		t.Run(st.name+", streaming", func(t *testing.T) {
			var response *http.Response
			model, opts := st.openAI()
			stream, current, text := route.stream(deadline(t), client, model, append(opts, option.WithResponseInto(&response))...)
			readPaced(t, behind, stream, current, behind.payloads(t, route.name+".sse", st.runs))
			sent, _ := behind.last()
			checkJSON(t, "upstream", sent.Body, route.expected(st, `, "stream": true`))
			if got := text(); got != answerText {
				t.Errorf("the client read %q, want %q", got, answerText)
			}
			checkAnswer(t, response, st.header, "")
		})
	}

	t.Run("no preset", func(t *testing.T) {
		var response *http.Response
		if _, _, err := route.send(deadline(t), client, "acme/plain", option.WithResponseInto(&response)); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		if strings.Contains(sent.Body, "temperature") || !strings.Contains(sent.Body, `"acme/plain"`) {
			t.Errorf("got %s upstream", sent.Body)
		}
		checkAnswer(t, response, "", "")
	})

	t.Run("system prompt", func(t *testing.T) {
		if err := route.system(deadline(t), client, "Mine."); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(route.systemUpstream, userText))
	})

	t.Run("tools", func(t *testing.T) {
		for _, test := range []struct{ choice, want string }{{"", `"required"`}, {"auto", `"auto"`}} {
			name, arguments, err := route.tools(deadline(t), client, "@preset/assistant", test.choice)
			if err != nil {
				t.Fatal(err)
			}
			if name != "find_customer" || arguments != `{"name": "Łukasz"}` {
				t.Errorf("the answer calls %s(%s), want the preset's tool", name, arguments)
			}
			sent, _ := behind.last()
			checkJSON(t, "tools upstream", member(t, sent.Body, "tools"), route.toolsUpstream)
			checkJSON(t, "tool_choice upstream", member(t, sent.Body, "tool_choice"), test.want)
		}
	})

	t.Run("large body", func(t *testing.T) {
		size := 8 << 20
		if route.name == "chat" {
			size = 30 << 20
		}
		_, _, url := image(size)
		if err := route.image(deadline(t), client, "@preset/copywriter", url); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		if !strings.Contains(sent.Body, `"`+url+`"`) {
			t.Errorf("the image of %d bytes is not in the %d bytes that went up", len(url), len(sent.Body))
		}
		checkJSON(t, "model upstream", member(t, sent.Body, "model"), `"acme/large"`)
	})

	t.Run("client leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(deadline(t))
		defer leave()
		stream, _, _ := route.stream(ctx, client, "@preset/copywriter")
		if !stream.Next() {
			t.Fatalf("the first event did not arrive: %v", stream.Err())
		}
		leave()
		if err := behind.hungUp(); err != nil {
			t.Error(err)
		}
		if stream.Next() || !errors.Is(stream.Err(), context.Canceled) {
			t.Errorf("after leaving: got %v, want the client's own context.Canceled", stream.Err())
		}
	})

	t.Run("refused", func(t *testing.T) {
		_, before := behind.last()
		manager, stranger := s.openAI(managementKey), s.openAI("sk-nobody-knows-this-one")
		for _, test := range []struct {
			name   string
			client openai.Client
			model  string
			status int
			cause  string // in errors of POST /responses
			says   string
		}{
			{"unknown preset", client, "@preset/nobody", http.StatusNotFound, "preset_not_found", "Preset not found: @preset/nobody"},
			{"unknown version", client, "acme/other@preset/copywriter@3", http.StatusNotFound, "preset_version_not_found", "Preset version not found: @preset/copywriter@3"},
			{"bad reference", client, "@preset/", http.StatusBadRequest, "invalid_prompt", "/model"},
			{"bad key", stranger, "@preset/copywriter", http.StatusUnauthorized, "invalid_api_key", "Invalid credentials"},
			{"bad key, no preset", stranger, "acme/plain", http.StatusUnauthorized, "invalid_api_key", "Invalid credentials"},
			{"management key", manager, "@preset/copywriter", http.StatusForbidden, "insufficient_permissions", ""},
		} {
			_, _, err := route.send(deadline(t), test.client, test.model)
			checkOpenAIError(t, route, test.name, err, test.status, test.cause, test.says)
			stream, _, _ := route.stream(deadline(t), test.client, test.model)
			if stream.Next() {
				t.Errorf("%s, streaming: got an event", test.name)
			}
			checkOpenAIError(t, route, test.name+", streaming", stream.Err(), test.status, test.cause, test.says)
			_ = stream.Close()
		}
		_, _, err := route.send(deadline(t), client, "@preset/copywriter", option.WithJSONSet("preset", "assistant"))
		checkOpenAIError(t, route, "two presets", err, http.StatusBadRequest, "invalid_prompt", "/preset")
		_, _, err = route.send(deadline(t), client, "acme/large", option.WithJSONSet("models", []string{"acme/small", "@preset/copywriter"}))
		checkOpenAIError(t, route, "reference in models", err, http.StatusBadRequest, "invalid_prompt", "/models/1")
		if _, after := behind.last(); after != before {
			t.Errorf("%d refused requests went upstream", after-before)
		}
	})

	t.Run("upstream error", func(t *testing.T) {
		for _, streaming := range []bool{false, true} {
			var err error
			if streaming {
				stream, _, _ := route.stream(deadline(t), client, overloaded+"@preset/copywriter")
				stream.Next()
				err = stream.Err()
			} else {
				_, _, err = route.send(deadline(t), client, overloaded+"@preset/copywriter")
			}
			typed, ok := errors.AsType[*openai.Error](err)
			if !ok {
				t.Fatalf("got %v, want the client's own error", err)
			}
			if typed.StatusCode != http.StatusTooManyRequests || typed.Code != "rate_limit_exceeded" || typed.Type != "requests" ||
				!strings.Contains(typed.Message, "Rate limit reached for "+overloaded) {
				t.Errorf("got %d %s", typed.StatusCode, typed.RawJSON())
			}
			checkAnswer(t, typed.Response, "copywriter@2", "")
		}
	})
}

// checkOpenAIError fails the test unless err is the client's own error, with our id of
// the request. cause is the error's type on POST /responses. The code is the status.
func checkOpenAIError(t *testing.T, route openAIRoute, name string, err error, status int, cause, says string) {
	t.Helper()
	typed, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Errorf("%s: got %v, want the client's own error", name, err)
		return
	}
	if route.name != "responses" {
		cause = ""
	}
	// The client accepts a number for a string.
	if typed.StatusCode != status || !strings.Contains(typed.Message, says) || typed.Message == "" || typed.Code != fmt.Sprint(status) || typed.Type != cause {
		t.Errorf("%s: got %d, code %q, type %q, %s; want %d as the code, type %q, about %q", name, typed.StatusCode, typed.Code, typed.Type, typed.RawJSON(), status, cause, says)
	}
	if id := typed.Response.Header.Get("X-Request-Id"); len(id) != len("00000000-0000-0000-0000-000000000000") {
		t.Errorf("%s: got X-Request-Id %q, want a UUID", name, id)
	}
}
