package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// Streams as gateways write them, of "Hello," and "\nworld".
const (
	chatStream = `data: {"model":"m-1","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"choices":[{"delta":{"content":"Hello,"},"finish_reason":null}]}

: a comment

data: {"choices":[{"delta":{"content":"\nworld","tool_calls":[{"function":{"name":"weather","arguments":""}}]},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}

data: [DONE]

`
	responsesStream = `event: response.created
data: {"type":"response.created","response":{"model":"m-1"}}

event: response.output_item.added
data: {"type":"response.output_item.added","item":{"type":"function_call","name":"weather"}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hello,"}

data: {"type":"response.output_text.delta",
data: "delta":"\nworld"}

data: {"type":"response.completed","response":{"model":"m-1","usage":{"input_tokens":12,"output_tokens":3}}}

`
	messagesStream = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\r\n\r\n" +
		"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"name\":\"weather\"}}\r\n\r\n" +
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello,\"}}\r\n\r\n" +
		"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"\\nworld\"}}\r\n\r\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":3}}\r\n\r\n" +
		"data: {\"type\":\"message_stop\"}\r\n\r\n"
)

// gateway answers with a stream, and keeps the last request.
type gateway struct {
	status      int
	contentType string
	body        string
	got         string
	cut         bool // the connection after the body
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.got = r.URL.Path + " " + string(body)
	w.Header().Set("Content-Type", g.contentType)
	w.WriteHeader(g.status)
	_, _ = io.WriteString(w, g.body)
	if g.cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// presets makes a preset for each API.
func (s *server) presets() {
	s.T.Helper()
	for slug, route := range map[string]string{"r": "responses", "c": "chat/completions", "m": "messages"} {
		s.Manage("POST", "/v1/presets/"+slug+"/"+route, `{"model":"acme/large","max_tokens":100,"messages":[]}`).Want(s.T, 200)
	}
}

// TestTrySends prints the streamed answers of the three APIs.
func TestTrySends(t *testing.T) {
	g := &gateway{status: 200, contentType: "text/event-stream; charset=utf-8"}
	s := start(t, g.ServeHTTP)
	s.presets()
	for _, tc := range []struct{ slug, stream, path string }{
		{"c", chatStream, `/v1/chat/completions {"model":"acme/large","messages":[{"role":"user","content":"<Hi>"}]`},
		{"r", responsesStream, `/v1/responses {"model":"acme/large","input":"<Hi>","stream":true`},
		{"m", messagesStream, `/v1/messages {"model":"acme/large","messages":[{"role":"user","content":"<Hi>"}],"stream":true`},
	} {
		g.body = tc.stream
		out, errOut, err := run("try", tc.slug, "--send", "--input", "<Hi>")
		if err != nil || out != "Hello,\nworld\n" {
			t.Errorf("%s: got %q, %v, want the text", tc.slug, out, err)
		}
		if !strings.HasPrefix(g.got, tc.path) {
			t.Errorf("%s: the gateway got %s, want %s", tc.slug, g.got, tc.path)
		}
		want := tc.slug + "@1; m-1; 12 tokens in, 3 out; first text after 0.12 s; 0.12 s in all\nThe model calls the tools: weather\n"
		if got := s.normal(errOut); got != want {
			t.Errorf("%s: got %q, want %q", tc.slug, got, want)
		}
		report := data[object](t, mustRun(t, "try", tc.slug, "--send", "--json", "--version", "1"))
		delete(report, "milliseconds")
		delete(report, "first_text_milliseconds")
		if got, want := fmt.Sprint(report), "map[dropped:[] enforced:[] model:m-1 preset:"+tc.slug+"@1 text:Hello,\nworld tool_calls:[weather] usage:map[input_tokens:12 output_tokens:3]]"; got != want {
			t.Errorf("%s: got %s, want %s", tc.slug, got, want)
		}
		// A stream that ends early is an error, wherever it ends.
		for _, g.cut = range []bool{false, true} {
			g.body = tc.stream[:strings.Index(tc.stream, "world")]
			out, _, err = run("try", tc.slug, "--send")
			if err == nil || out != "Hello,\n" {
				t.Errorf("%s, cut off: got %q, %v, want an error after the text", tc.slug, out, err)
			}
		}
		g.cut = false
	}
}

// TestTryPrintsAsItComes checks that text is printed before the answer ends.
func TestTryPrintsAsItComes(t *testing.T) {
	printed := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		first, rest, _ := strings.Cut(chatStream, ": a comment")
		_, _ = io.WriteString(w, first)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-printed:
			_, _ = io.WriteString(w, rest)
		case <-time.After(wait.Limit):
		}
	})
	s.presets()
	seen := &watcher{wanted: "Hello,", seen: printed}
	if err := runTo(seen, io.Discard, strings.NewReader(""), "presets", "try", "c", "--send"); err != nil {
		t.Error(err)
	}
	if seen.text != "Hello,\nworld\n" {
		t.Errorf("got %q", seen.text)
	}
}

// watcher closes seen when it has the wanted text.
type watcher struct {
	wanted, text string
	seen         chan struct{}
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.text += string(p); w.seen != nil && strings.Contains(w.text, w.wanted) {
		close(w.seen)
		w.seen = nil
	}
	return len(p), nil
}

// TestTryGatewayErrors shows the errors of gateways.
func TestTryGatewayErrors(t *testing.T) {
	g := new(gateway)
	s := start(t, g.ServeHTTP)
	s.presets()
	for _, tc := range []struct {
		status            int
		contentType, body string
		want              string
	}{
		{401, "application/json", `{"error":{"message":"no \u001b[2Jkey"}}`, `the gateway answered 401 Unauthorized: no \x1b[2Jkey`},
		{400, "application/json", `{"error":"no such model"}`, "the gateway answered 400 Bad Request: no such model"},
		{422, "application/json", `{"detail":"wrong"}`, "422 Unprocessable Entity: wrong"},
		{500, "text/html", "<h1>oops</h1>", "500 Internal Server Error: <h1>oops</h1>"},
		{503, "text/plain", "", "the gateway answered 503 Service Unavailable"},
		{200, "text/event-stream", "data: {\"error\":{\"message\":\"overloaded\"}}\n\n", "the gateway reports an error: overloaded"},
		{200, "text/event-stream", "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", "reports an error: busy"},
		{200, "text/event-stream", "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"bad\"}}}\n\n", "reports an error: bad"},
		{200, "text/event-stream", "", "the answer ended before it was complete"},
		{200, "text/event-stream", "data: nonsense\n\n", "the answer ended before it was complete"},
	} {
		g.status, g.contentType, g.body = tc.status, tc.contentType, tc.body
		wantError(t, tc.want, "try", "c", "--send")
		wantError(t, tc.want, "try", "c", "--send", "--json")
	}
}

// TestTryCut ends a stream early. The text that came is printed, as JSON too.
func TestTryCut(t *testing.T) {
	g := &gateway{status: 200, contentType: "text/event-stream", body: "data: {\"choices\":[{\"delta\":{\"content\":\"Once upon\"}}]}\n\n"}
	s := start(t, g.ServeHTTP)
	s.presets()
	for _, arg := range []string{"--send=true", "--json"} {
		out, _, err := run("try", "c", "--send", arg)
		if err == nil || !strings.Contains(err.Error(), "the answer ended before it was complete") || !strings.Contains(out, "Once upon") {
			t.Errorf("%s: got %q, %v", arg, out, err)
		}
	}
}

// TestTryWhole prints answers that are no streams.
func TestTryWhole(t *testing.T) {
	g := &gateway{status: 200, contentType: "application/json"}
	s := start(t, g.ServeHTTP)
	s.presets()
	g.body = "{\"a\":\"Hi \u202e!\"}"
	if out, _, err := run("try", "c", "--send"); err != nil || out != "{\"a\":\"Hi \\u202e!\"}\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestTryEndsStreams ends answers whose text cannot be kept or printed.
func TestTryEndsStreams(t *testing.T) {
	event := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n"
	g := &gateway{status: 200, contentType: "text/event-stream", body: strings.Repeat(event, 17) + "data: [DONE]\n\n"}
	s := start(t, g.ServeHTTP)
	s.presets()
	wantError(t, "the answer has more than 16777216 bytes", "try", "c", "--send", "--json")
	g.body = event + "data: [DONE]\n\n"
	err := runTo(closed{}, io.Discard, strings.NewReader(""), "presets", "try", "c", "--send")
	if err == nil || !strings.Contains(err.Error(), io.ErrClosedPipe.Error()) {
		t.Errorf("got %v, want the error of the output", err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestTryInput checks where the input comes from, and which version is tried.
func TestTryInput(t *testing.T) {
	s := start(t, nil)
	s.fill()
	try := func(stdin io.Reader, args ...string) string {
		t.Helper()
		var out, errOut strings.Builder
		if err := runTo(&out, &errOut, stdin, append([]string{"presets", "try", "--json"}, args...)...); err != nil {
			t.Fatalf("%v: %v %s", args, err, errOut.String())
		}
		return data[struct{ Body string }](t, out.String()).Body
	}
	file := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(file, []byte("From a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *os.File {
		t.Helper()
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, tc := range []struct {
		stdin io.Reader
		args  []string
		want  string
	}{
		{strings.NewReader(""), nil, `"input":"Hello"`},
		{strings.NewReader("  from a pipe\n\n"), nil, `"input":"  from a pipe"`},
		{open(file), nil, `"input":"From a file"`},
		{open(os.DevNull), nil, `"input":"Hello"`},
		{strings.NewReader("pipe"), []string{"--input", "text"}, `"input":"text"`},
		{strings.NewReader(""), []string{"--version", "staging"}, "Be very friendly."},
		{strings.NewReader(""), []string{"--version", "1"}, "Write emails."},
		{strings.NewReader(""), []string{"--version", "canary"}, "Write short emails."},
		{strings.NewReader(caddytest.InferenceSecret), []string{"--inference-key-file", "-"}, `"input":"Hello"`},
	} {
		if got := try(tc.stdin, append([]string{"email-copywriter"}, tc.args...)...); !strings.Contains(got, tc.want) {
			t.Errorf("%v: got %s, want %s in it", tc.args, got, tc.want)
		}
	}
	if got := try(strings.NewReader("And two more."), "tour-guide", "--var", "city=Rome"); !strings.Contains(got, `sights in Rome."},{"role":"user","content":"And two more."}`) {
		t.Errorf("got %s, want the messages of the template and the input", got)
	}
	err := runTo(io.Discard, io.Discard, io.LimitReader(zeros{}, 2<<20), "presets", "try", "summary")
	if err == nil || !strings.Contains(err.Error(), "standard input has more than 1048576 bytes") {
		t.Errorf("got %v, want an error about the size", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
