package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/strictgateway"
)

// provider is an AI provider for clients whose requests a test does not write. It refuses what
// strict providers refuse, and answers any other request with a text, or with a call of the tool
// that the request forces. It records all requests.
type provider struct {
	server *httptest.Server

	mu       sync.Mutex
	client   string
	errand   errand
	failure  string // of the next request: a status, or "break"
	requests []judged
}

// errand is what an agent does before it gets a text: calls of one of its own tools.
type errand struct {
	tools map[string]string // the arguments of the tools that may be called, by name; {call} is the number of the call
	calls int               // results of tools in the conversation until the text
	model string            // that the answers name, if not empty
}

// judged is a request as it reached the provider.
type judged struct {
	client string // that a script named before it, see control
	uri    string // the path with the query
	header http.Header
	body   string
	why    string // it was refused, or empty
	stream string // that it got, or empty
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := new(provider)
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

// directives returns the directives of a site whose gateway is p.
func (p *provider) directives() string {
	return `reverse_proxy ` + p.server.Listener.Addr().String() + ` {
		header_up Authorization "Bearer {env.E2E_GATEWAY_KEY}"
	}`
}

// take returns the inference requests since the last call.
func (p *provider) take() []judged {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.requests
	p.requests = nil
	return all
}

// send sends the agents of the next requests on an errand.
func (p *provider) send(e errand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errand = e
}

// failNext lets the next request fail, as control says, or succeed.
func (p *provider) failNext(failure string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = failure
}

// control lets a script name the client of its next requests, with POST /client/<name>, and let the
// next one fail, with POST /fail/<status>. After POST /fail/break the connection breaks off.
func (p *provider) control(t *testing.T) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /client/{name...}", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.client, p.failure = r.PathValue("name"), ""
	})
	mux.HandleFunc("POST /fail/{failure}", func(_ http.ResponseWriter, r *http.Request) { p.failNext(r.PathValue("failure")) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// providerRoutes are the inference routes by the last element of their paths, each with functions
// that make the whole answer, and the events of the same answer as a stream.
var providerRoutes = map[string]struct {
	dialect domain.Dialect
	answer  func(asked) (whole map[string]any, events []map[string]any)
}{
	"completions": {domain.Chat, chatAnswerTo},
	"responses":   {domain.Responses, responsesAnswerTo},
	"messages":    {domain.Messages, messagesAnswerTo},
	// Gemini's routes end in the model and one of these.
	"generateContent":       {"", geminiAnswerTo},
	"streamGenerateContent": {"", geminiAnswerTo},
}

// ServeHTTP answers a request.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	name := path.Base(r.URL.Path)
	name = name[strings.LastIndex(name, ":")+1:]
	route, ok := providerRoutes[name]
	if r.Method != http.MethodPost || !ok {
		p.serveOther(w, r)
		return
	}
	request := judged{uri: r.RequestURI, header: r.Header.Clone(), body: string(body)}
	var sent asked
	if err := json.Unmarshal(body, &sent); err != nil {
		request.why = err.Error()
	} else {
		request.why = strings.Join(strictgateway.Refusals(route.dialect, body), "; ")
	}
	p.mu.Lock()
	request.client, sent.errand = p.client, p.errand
	if sent.errand.model != "" {
		sent.Model = sent.errand.model
	}
	sent.whole, sent.Stream = string(body), sent.Stream || name == "streamGenerateContent"
	var stream []string
	if request.why == "" && sent.Stream {
		_, events := route.answer(sent)
		stream = encodeStream(events, route.dialect)
		request.stream = strings.Join(stream, "")
	}
	p.requests = append(p.requests, request)
	failure := p.failure
	p.failure = ""
	p.mu.Unlock()

	if failure == "break" {
		panic(http.ErrAbortHandler)
	}
	status, kind, reason := http.StatusOK, "invalid_request_error", request.why
	if reason != "" {
		status = http.StatusBadRequest
	}
	if failure != "" {
		status, _ = strconv.Atoi(failure)
		kind, reason = "rate_limit_error", "not now"
		w.Header().Set("Retry-After-Ms", "10")
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case reason != "":
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{
			"type": kind, "message": reason, "param": nil, "code": status,
		}})
	case !sent.Stream:
		whole, _ := route.answer(sent)
		_ = json.NewEncoder(w).Encode(whole)
	default:
		sendStream(w, stream)
	}
}

// encodeStream returns the events of a stream as they are sent.
func encodeStream(events []map[string]any, dialect domain.Dialect) (stream []string) {
	for _, event := range events {
		data, _ := json.Marshal(event)
		text := fmt.Sprintf("data: %s\n\n", data)
		if kind, ok := event["type"]; ok {
			text = fmt.Sprintf("event: %s\n%s", kind, text)
		}
		stream = append(stream, text)
	}
	if dialect == domain.Chat {
		stream = append(stream, "data: [DONE]\n\n")
	}
	return stream
}

// sendStream answers with a stream of events, each by itself.
func sendStream(w http.ResponseWriter, stream []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range stream {
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
	}
}

// serveOther answers what clients ask beside inference.
func (p *provider) serveOther(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Upgrade") != "" { // it has no WebSockets
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	switch path.Base(r.URL.Path) {
	case "models":
		_, _ = io.WriteString(w, `{"object": "list", "data": []}`)
	case "count_tokens", "input_tokens":
		_, _ = io.WriteString(w, `{"object": "response.input_tokens", "input_tokens": 23}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error": {"message": "there is nothing here"}}`)
	}
}

// asked has what a provider needs of a request to answer it, in any of the three APIs.
type asked struct {
	Model         string          `json:"model"`
	Stream        bool            `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Tools         []struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat format `json:"response_format"`
	Text           struct {
		Format format `json:"format"`
	} `json:"text"`
	OutputConfig struct {
		Format format `json:"format"`
	} `json:"output_config"`
	Thinking struct{ Type string }
	Include  []string
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Input json.RawMessage

	errand errand
	whole  string // of the request
}

type format struct {
	Type string `json:"type"`
}

// The one answer of the provider: as text, and as values of a format or a tool.
const (
	providerText = "Rome has many sights."
	providerJSON = `{"city": "Rome"}`
)

// providerSignature is what a model signs or encrypts of its thoughts.
const providerSignature = "EqoBCkgIARABGAIiQL+/8f0=="

// text is the text of the answer.
func (a asked) text() string {
	switch {
	case strings.HasPrefix(a.ResponseFormat.Type+a.Text.Format.Type+a.OutputConfig.Format.Type, "json_"), strings.Contains(a.whole, "Outputs will be a JSON object"):
		return providerJSON
	case strings.Contains(a.whole, "[[ ## city ## ]]"): // of dspy
		return "[[ ## city ## ]]\nRome\n\n[[ ## completed ## ]]"
	}
	return providerText
}

// call returns the name and the arguments of the tool that must be called, or nothing. Clients that
// force any tool want their own, which is the last one.
func (a asked) call() (name, arguments string) {
	if strings.Contains(a.whole, "Call sights.") && a.results() == 0 {
		return "sights", providerJSON
	}
	var choice struct {
		Type, Name string
		Function   struct{ Name string }
	}
	_ = json.Unmarshal(a.ToolChoice, &choice)
	if name := choice.Name + choice.Function.Name; name != "" {
		return name, providerJSON
	}
	if bytes.Equal(a.ToolChoice, []byte(`"required"`)) || choice.Type == "any" {
		last := a.Tools[len(a.Tools)-1]
		return last.Name + last.Function.Name, providerJSON
	}
	for _, tool := range a.Tools {
		name := tool.Name + tool.Function.Name
		if arguments, ok := a.errand.tools[name]; ok && a.results() < a.errand.calls {
			return name, strings.ReplaceAll(arguments, "{call}", strconv.Itoa(1+a.results()))
		}
	}
	return "", ""
}

// results returns how many results of tools the conversation has.
func (a asked) results() int {
	type item struct{ Type, Role string }
	var items []item
	_ = json.Unmarshal(a.Input, &items) // a text has none
	for _, message := range a.Messages {
		var blocks []item
		_ = json.Unmarshal(message.Content, &blocks)
		items = append(append(items, item{Role: message.Role}), blocks...)
	}
	count := 0
	for _, item := range items {
		if item.Role == "tool" || item.Type == "tool_result" || item.Type == "function_call_output" {
			count++
		}
	}
	return count
}

// id returns the id of the next call of a tool.
func (a asked) id(prefix string) string { return fmt.Sprintf("%s_%d", prefix, 1+a.results()) }

// base returns an answer of testdata.
func base(file, model string) (object map[string]any) {
	text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(file)))
	if err == nil {
		err = json.Unmarshal(bytes.ReplaceAll(text, []byte("{{model}}"), []byte(model)), &object)
	}
	if err != nil {
		panic(err)
	}
	return object
}

func chatAnswerTo(a asked) (map[string]any, []map[string]any) {
	message := map[string]any{"role": "assistant", "content": a.text()}
	reason := "stop"
	if tool, arguments := a.call(); tool != "" {
		message["content"], reason = nil, "tool_calls"
		message["tool_calls"] = []any{map[string]any{
			"index": 0, "id": a.id("call"), "type": "function", "function": map[string]any{"name": tool, "arguments": arguments},
		}}
	}
	whole := base("openai/chat.json", a.Model)
	whole["choices"] = []any{map[string]any{"index": 0, "message": message, "finish_reason": reason, "logprobs": nil}}
	chunk := func(choices ...any) map[string]any {
		c := map[string]any{"id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": a.Model, "choices": choices}
		if choices == nil {
			c["choices"], c["usage"] = []any{}, whole["usage"]
		}
		return c
	}
	events := []map[string]any{
		chunk(map[string]any{"index": 0, "delta": message, "finish_reason": nil}),
		chunk(map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}),
	}
	if a.StreamOptions != nil {
		events = append(events, chunk())
	}
	return whole, events
}

func responsesAnswerTo(a asked) (map[string]any, []map[string]any) {
	part := map[string]any{"type": "output_text", "text": a.text(), "annotations": []any{}, "logprobs": []any{}}
	item := map[string]any{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []any{part}}
	place := map[string]any{"item_id": "msg_1", "output_index": 0, "content_index": 0}
	pieces := []map[string]any{
		with(place, "type", "response.content_part.added", "part", with(part, "text", "")),
		with(place, "type", "response.output_text.delta", "delta", a.text(), "logprobs", []any{}),
		with(place, "type", "response.output_text.done", "text", a.text(), "logprobs", []any{}),
		with(place, "type", "response.content_part.done", "part", part),
	}
	begun := with(item, "status", "in_progress", "content", []any{})
	if tool, arguments := a.call(); tool != "" {
		id := a.id("fc")
		item = map[string]any{"type": "function_call", "id": id, "call_id": a.id("call"), "name": tool, "arguments": arguments, "status": "completed"}
		begun = with(item, "status", "in_progress", "arguments", "")
		pieces = []map[string]any{
			{"type": "response.function_call_arguments.delta", "item_id": id, "output_index": 0, "delta": arguments},
			{"type": "response.function_call_arguments.done", "item_id": id, "output_index": 0, "name": tool, "arguments": arguments},
		}
	}
	whole := base("openai/responses.json", a.Model)
	output := []any{item}
	events := []map[string]any{{"type": "response.created", "response": with(whole, "status", "in_progress", "output", []any{}, "usage", nil)}}
	if a.errand.calls > 0 && slices.Contains(a.Include, "reasoning.encrypted_content") { // what is encrypted must come back
		thought := map[string]any{"type": "reasoning", "id": a.id("rs"), "summary": []any{}, "encrypted_content": providerSignature}
		output = []any{thought, item}
		events = append(events, map[string]any{"type": "response.output_item.added", "output_index": 0, "item": with(thought, "encrypted_content", "")},
			map[string]any{"type": "response.output_item.done", "output_index": 0, "item": thought})
	}
	events = append(events, map[string]any{"type": "response.output_item.added", "output_index": len(output) - 1, "item": begun})
	for _, piece := range pieces {
		events = append(events, with(piece, "output_index", len(output)-1))
	}
	whole["output"] = output
	events = append(events, map[string]any{"type": "response.output_item.done", "output_index": len(output) - 1, "item": item},
		map[string]any{"type": "response.completed", "response": whole})
	for i := range events {
		events[i]["sequence_number"] = i
	}
	return whole, events
}

func messagesAnswerTo(a asked) (map[string]any, []map[string]any) {
	block := map[string]any{"type": "text", "text": a.text()}
	if tool, arguments := a.call(); tool != "" {
		block = toolUse(a.id("toolu"), tool, arguments)
	}
	if a.errand.calls == 0 || a.Thinking.Type != "enabled" && a.Thinking.Type != "adaptive" {
		return messageOf(a.Model, block)
	}
	// The client sends the signature back.
	return messageOf(a.Model, map[string]any{"type": "thinking", "thinking": "I look <into> it.", "signature": providerSignature}, block)
}

// toolUse returns a block with which a model calls a tool.
func toolUse(id, name, input string) map[string]any {
	return map[string]any{"type": "tool_use", "id": id, "name": name, "input": json.RawMessage(input)}
}

// messageOf returns an answer of the Messages API with blocks, which are texts, thoughts or of toolUse.
func messageOf(model string, blocks ...map[string]any) (whole map[string]any, events []map[string]any) {
	whole = base("anthropic/messages.json", model)
	events = []map[string]any{{"type": "message_start", "message": with(whole, "content", []any{}, "stop_reason", nil)}}
	reason, content := "end_turn", []any{}
	for i, block := range blocks {
		begun, deltas := with(block, "text", ""), []map[string]any{{"type": "text_delta", "text": block["text"]}}
		switch block["type"] {
		case "tool_use":
			reason, begun = "tool_use", with(block, "input", map[string]any{})
			deltas[0] = map[string]any{"type": "input_json_delta", "partial_json": string(block["input"].(json.RawMessage))}
		case "thinking":
			begun = with(block, "thinking", "", "signature", "")
			deltas = []map[string]any{{"type": "thinking_delta", "thinking": block["thinking"]}, {"type": "signature_delta", "signature": block["signature"]}}
		}
		events = append(events, map[string]any{"type": "content_block_start", "index": i, "content_block": begun})
		for _, delta := range deltas {
			events = append(events, map[string]any{"type": "content_block_delta", "index": i, "delta": delta})
		}
		events = append(events, map[string]any{"type": "content_block_stop", "index": i})
		content = append(content, block)
	}
	whole["content"], whole["stop_reason"] = content, reason
	return whole, append(events,
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": whole["usage"]},
		map[string]any{"type": "message_stop"})
}

func geminiAnswerTo(a asked) (map[string]any, []map[string]any) {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": []any{map[string]any{"text": a.text()}}}}
	whole := map[string]any{"responseId": "gemini-1", "modelVersion": "gemini-2.5-flash"}
	end := with(whole, "candidates", []any{with(candidate, "finishReason", "STOP")},
		"usageMetadata", map[string]any{"promptTokenCount": 31, "candidatesTokenCount": 12, "totalTokenCount": 43})
	return end, []map[string]any{
		with(whole, "candidates", []any{candidate}),
		with(end, "candidates", []any{with(candidate, "finishReason", "STOP", "content", map[string]any{"role": "model", "parts": []any{}})}),
	}
}

// with returns a copy of an object with other members.
func with(object map[string]any, members ...any) map[string]any {
	object = maps.Clone(object)
	for i := 0; i < len(members); i += 2 {
		object[members[i].(string)] = members[i+1]
	}
	return object
}
