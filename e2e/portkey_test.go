package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// exchange is a request of one dialect, what a provider answers, and what that used.
type exchange struct {
	name, path, provider string
	translated           string // the path at the provider, if Portkey translates
	body                 string // its model is missing
	status               int    // of the answer, or 0 for 200
	answer               string // JSON, or events
	used                 map[string]float64
}

// pathAtProvider is the path of the request that Portkey sends.
func (e exchange) pathAtProvider() string { return "/v1/" + cmp.Or(e.translated, e.path) }

// isStream reports whether the answer has events.
func (e exchange) isStream() bool { return strings.HasSuffix(e.name, "-stream") }

// The answers of the provider anthropic.
const (
	message = `{"id": "m1", "type": "message", "role": "assistant", "model": "provided", "content": [{"type": "text", "text": "pong"}], "stop_reason": "end_turn", "stop_sequence": null,
		"usage": {"input_tokens": 20, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 6, "output_tokens": 16}}`
	messageEvents = "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"id\": \"m1\", \"type\": \"message\", \"role\": \"assistant\", \"model\": \"provided\", \"content\": [], \"stop_reason\": null, \"stop_sequence\": null, " +
		"\"usage\": {\"input_tokens\": 21, \"cache_read_input_tokens\": 9, \"cache_creation_input_tokens\": 5, \"output_tokens\": 1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": {\"type\": \"text\", \"text\": \"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"pong\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\": \"content_block_stop\", \"index\": 0}\n\n" +
		"event: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\", \"stop_sequence\": null}, \"usage\": {\"output_tokens\": 18}}\n\n" +
		"event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n"
)

// addedUsage is what the provider of an exchange sends only if usage was asked for.
const addedUsage = "data: {\"id\": \"c1\", \"object\": \"chat.completion.chunk\", \"created\": 1, \"model\": \"provided\", \"choices\": [], " +
	"\"usage\": {\"prompt_tokens\": 31, \"completion_tokens\": 17, \"total_tokens\": 48, \"prompt_tokens_details\": {\"cached_tokens\": 5}}}\n\n"

var exchanges = []exchange{{
	name: "chat", path: "chat/completions", provider: "openai",
	body: `"messages": [{"role": "user", "content": "ping"}]`,
	answer: `{"id": "c1", "object": "chat.completion", "created": 1, "model": "provided", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "pong"}}],
		"usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}}`,
	used: map[string]float64{"input_tokens": 30, "output_tokens": 12, "cache_read_input_tokens": 4, "reasoning_output_tokens": 2},
}, {
	name: "chat-stream", path: "chat/completions", provider: "openai",
	body: `"stream": true, "messages": [{"role": "user", "content": "ping"}]`,
	answer: "data: {\"id\": \"c1\", \"object\": \"chat.completion.chunk\", \"created\": 1, \"model\": \"provided\", \"choices\": [{\"index\": 0, \"delta\": {\"role\": \"assistant\", \"content\": \"pong\"}}]}\n\n" +
		"data: {\"id\": \"c1\", \"object\": \"chat.completion.chunk\", \"created\": 1, \"model\": \"provided\", \"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n" +
		addedUsage + "data: [DONE]\n\n",
	used: map[string]float64{"input_tokens": 31, "output_tokens": 17, "cache_read_input_tokens": 5},
}, {
	name: "responses", path: "responses", provider: "openai",
	body: `"input": "ping"`,
	answer: `{"id": "r1", "object": "response", "status": "completed", "model": "provided", "output": [{"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "pong", "annotations": []}]}],
		"usage": {"input_tokens": 32, "input_tokens_details": {"cached_tokens": 6}, "output_tokens": 14, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 46}}`,
	used: map[string]float64{"input_tokens": 32, "output_tokens": 14, "cache_read_input_tokens": 6, "reasoning_output_tokens": 3},
}, {
	name: "responses-stream", path: "responses", provider: "openai",
	body: `"stream": true, "input": "ping"`,
	answer: "event: response.created\ndata: {\"type\": \"response.created\", \"sequence_number\": 0, \"response\": {\"id\": \"r1\", \"object\": \"response\", \"status\": \"in_progress\", \"model\": \"provided\", \"output\": [], \"usage\": null}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"sequence_number\": 1, \"item_id\": \"m1\", \"output_index\": 0, \"content_index\": 0, \"delta\": \"pong\"}\n\n" +
		"event: response.completed\ndata: {\"type\": \"response.completed\", \"sequence_number\": 2, \"response\": {\"id\": \"r1\", \"object\": \"response\", \"status\": \"completed\", \"model\": \"provided\", \"output\": [], " +
		"\"usage\": {\"input_tokens\": 33, \"input_tokens_details\": {\"cached_tokens\": 7}, \"output_tokens\": 15, \"output_tokens_details\": {\"reasoning_tokens\": 4}, \"total_tokens\": 48}}}\n\n",
	used: map[string]float64{"input_tokens": 33, "output_tokens": 15, "cache_read_input_tokens": 7, "reasoning_output_tokens": 4},
}, {
	name: "messages", path: "messages", provider: "anthropic",
	body:   `"max_tokens": 64, "messages": [{"role": "user", "content": "ping"}]`,
	answer: message,
	used:   map[string]float64{"input_tokens": 34, "output_tokens": 16, "cache_read_input_tokens": 8, "cache_write_input_tokens": 6},
}, {
	name: "messages-stream", path: "messages", provider: "anthropic",
	body:   `"stream": true, "max_tokens": 64, "messages": [{"role": "user", "content": "ping"}]`,
	answer: messageEvents,
	used:   map[string]float64{"input_tokens": 35, "output_tokens": 18, "cache_read_input_tokens": 9, "cache_write_input_tokens": 5},
}, {
	// Portkey translates Anthropic's usage. Its prompt_tokens leave out those of a cache, and
	// it names those that were written only as Anthropic does. The report has what it says.
	name: "translated", path: "chat/completions", provider: "anthropic", translated: "messages",
	body:   `"max_tokens": 64, "messages": [{"role": "user", "content": "ping"}]`,
	answer: message,
	used:   map[string]float64{"input_tokens": 20, "output_tokens": 16, "cache_read_input_tokens": 8, "cache_write_input_tokens": 0},
}, {
	// Portkey tells the usage without being asked, in the chunk with the finish_reason.
	name: "translated-stream", path: "chat/completions", provider: "anthropic", translated: "messages",
	body:   `"stream": true, "max_tokens": 64, "messages": [{"role": "user", "content": "ping"}]`,
	answer: messageEvents,
	used:   map[string]float64{"input_tokens": 21, "output_tokens": 18, "cache_read_input_tokens": 9, "cache_write_input_tokens": 0},
}, {
	name: "error", path: "chat/completions", provider: "openai",
	body:   `"messages": [{"role": "user", "content": "ping"}]`,
	status: http.StatusTooManyRequests,
	answer: `{"error": {"message": "no pong", "type": "requests", "param": null, "code": "rate_limit_exceeded"}}`,
	used:   map[string]float64{"input_tokens": 0, "output_tokens": 0, "errors": 1},
}, {
	name: "error-stream", path: "messages", provider: "anthropic",
	body: `"stream": true, "max_tokens": 64, "messages": [{"role": "user", "content": "ping"}]`,
	answer: "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"id\": \"m1\", \"type\": \"message\", \"role\": \"assistant\", \"model\": \"provided\", \"content\": [], \"usage\": {\"input_tokens\": 22, \"output_tokens\": 1}}}\n\n" +
		"event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"no pong\"}}\n\n",
	used: map[string]float64{"input_tokens": 22, "output_tokens": 1, "errors": 1},
}}

// provide answers like the provider behind Portkey. The model names the exchange.
func provide(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Model         string `json:"model"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	err := json.NewDecoder(r.Body).Decode(&sent)
	for _, e := range exchanges {
		if err != nil || e.name != sent.Model || r.URL.Path != e.pathAtProvider() {
			continue
		}
		answer := e.answer
		if !sent.StreamOptions.IncludeUsage {
			answer = strings.Replace(answer, addedUsage, "", 1)
		}
		if !e.isStream() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(cmp.Or(e.status, http.StatusOK))
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range strings.SplitAfterSeq(answer, "\n\n") {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush() // else the client gets fewer pieces
		}
		return
	}
	http.Error(w, fmt.Sprintf("an unknown request to %s: %v", r.URL.Path, err), http.StatusBadRequest)
}

// startPortkey runs Portkey's gateway until the test ends, and returns its address.
func startPortkey(t *testing.T) string {
	t.Helper()
	node := servertest.Node(t, "portkey", "@portkey-ai/gateway")
	script := filepath.Join("node_modules", "@portkey-ai", "gateway", "build", "start-server.js")
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(wait.Command(t), node, "--import", "./preload.mjs", script, "--headless", "--port="+port)
	cmd.Dir = "portkey"
	servertest.Serve(t, cmd, address)
	return address
}

// generated matches what Portkey makes anew for each answer that it translates.
var generated = regexp.MustCompile(`"(id|created)":("[^"]*"|\d+)`)

// TestPortkey measures the answers of Portkey's gateway. A client gets the bytes that Portkey
// gives without this server.
func TestPortkey(t *testing.T) {
	t.Parallel()
	portkey := startPortkey(t)
	provider := httptest.NewServer(http.HandlerFunc(provide))
	t.Cleanup(provider.Close)
	s := startWith(t, `inference {
			usage {
				stream_usage add
			}
		}`, "reverse_proxy "+portkey+" {\nheader_up Authorization \"Bearer of-the-operator\"\n}")
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ask := func(site, model string) []byte {
				request, err := http.NewRequestWithContext(deadline(t), http.MethodPost, site+"/v1/"+e.path, strings.NewReader(fmt.Sprintf(`{"model": %q, %s}`, model, e.body)))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer "+inferenceKey)
				request.Header.Set("X-Portkey-Provider", e.provider)
				request.Header.Set("X-Portkey-Custom-Host", provider.URL+"/v1")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if want := cmp.Or(e.status, http.StatusOK); err != nil || response.StatusCode != want {
					t.Fatalf("%s gives %d %s, %v, want %d", site, response.StatusCode, body, err, want)
				}
				if e.translated != "" {
					body = generated.ReplaceAll(body, []byte(`"$1":…`))
				}
				return body
			}
			s.manage(t, http.MethodPost, "/v1/presets/"+e.name+"/"+e.path, fmt.Sprintf(`{"model": %q, %s}`, e.name, e.body))
			direct, through := ask("http://"+portkey, e.name), ask(s.site, "@preset/"+e.name)
			if !bytes.Equal(through, direct) {
				t.Errorf("got %s\nwithout this server %s", through, direct)
			}
			if !bytes.Contains(through, []byte("pong")) {
				t.Errorf("got %s, want the provider's text", through)
			}
			model := "provided"
			if e.status != 0 {
				model = e.name // the model asked, since none answered
			}
			total := s.usageOf(t, e.name, model)
			want := map[string]float64{"requests": 1, "streamed": 0, "unknown": 0, "errors": 0}
			if e.isStream() {
				want["streamed"] = 1
			}
			maps.Copy(want, e.used)
			for name, want := range want {
				if got := total[name]; got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if got, want := total["first_content_ms"] != nil, e.isStream() && want["errors"] == 0; got != want {
				t.Errorf("first_content_ms is %v, want one only for a stream with text", total["first_content_ms"])
			}
		})
	}
}

// usageOf returns the totals of a preset's requests by one model, once they are stored.
func (s *server) usageOf(t *testing.T, slug, model string) (total map[string]any) {
	t.Helper()
	wait.Until(t, "the request is in a report", func() bool {
		status, answer := s.send(t, http.MethodGet, "/v1/presets/"+slug+"/usage?by=model", managementKey, "")
		var report struct {
			Data struct {
				Series []struct {
					Key   map[string]any `json:"key"`
					Total map[string]any `json:"total"`
				} `json:"series"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(answer), &report); err != nil || status != http.StatusOK {
			t.Fatalf("the report is %d %s: %v", status, answer, err)
		}
		if series := report.Data.Series; len(series) == 1 {
			if got := series[0].Key["model"]; got != model {
				t.Errorf("the model is %v, want %s", got, model)
			}
			total = series[0].Total
		}
		return total != nil
	})
	return total
}
