package caddymodule

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/iolog"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// ioLine is a line of the log of content.
type ioLine struct {
	Logger, Begun, Workspace, Preset, Label, Dialect, Model, Cost string
	RequestID                                                     string `json:"request_id"`
	KeyID                                                         string `json:"key_id"`
	KeyName                                                       string `json:"key_name"`
	ModelAsked                                                    string `json:"model_asked"`
	Status                                                        int
	Failed, Aborted, Streamed                                     bool
	Tokens                                                        map[string]int64
	DurationMS                                                    *int64 `json:"duration_ms"`
	Sent, Request, Answer                                         json.RawMessage
	Cut, Files, Masked                                            []string
	NoMemory                                                      bool `json:"no_memory"`
}

// ioLog is the log of content of a server.
type ioLog struct {
	t    *testing.T
	s    *server
	file string
	read int
}

// startLogging starts a server with a log of content, whose workspace default logs by these fields.
func startLogging(t *testing.T, fields string, lines ...string) (*server, *ioLog) {
	t.Helper()
	s := start(t, standard)
	log := &ioLog{t: t, s: s, file: filepath.Join(t.TempDir(), "io.log")}
	s.options = fmt.Sprintf("log io {\ninclude %s\noutput file %s {\nmode 0600\n}\n}", iolog.LoggerName, log.file)
	s.reload(inferring(append([]string{"io_log"}, lines...)...))
	s.manage("PATCH", "/v1/workspaces/default", `{"is_observability_io_logging_enabled":true`+fields+`}`).want(t, 200)
	return s, log
}

// all returns the lines of the requests since the last call, whose handlers have returned.
func (l *ioLog) all() (lines []ioLine) {
	l.t.Helper()
	l.s.handler().content.Log.Close()
	text, err := os.ReadFile(l.file)
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	for line := range bytes.Lines(text[min(l.read, len(text)):]) {
		var got ioLine
		if err := json.Unmarshal(line, &got); err != nil {
			l.t.Fatalf("%v in %.300s", err, line)
		}
		lines = append(lines, got)
	}
	l.read = len(text)
	return lines
}

// take returns the lines of the requests since the last call, which are n.
func (l *ioLog) take(n int) []ioLine {
	l.t.Helper()
	var lines []ioLine
	l.s.eventually(func() bool { // the client may have a stream before its handler returns
		lines = append(lines, l.all()...)
		return len(lines) >= n
	})
	if len(lines) != n {
		l.t.Fatalf("got %d lines, want %d", len(lines), n)
	}
	return lines
}

const streamedHello = "data: {\"model\":\"openai/gpt-5\",\"choices\":[{\"delta\":{\"reasoning\":\"Hm.\"}}]}\n\n" +
	"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":7,\"cost\":0.25}}\n\ndata: [DONE]\n\n"

func TestIOLogLine(t *testing.T) {
	s, log := startLogging(t, "")
	s.preset("writer", writer)
	s.manage("PUT", "/v1/presets/writer/labels/live", `{"version":1}`).want(t, 200)
	s.upstream.answers(replyWith(200, "text/event-stream", streamedHello))
	key := s.issue(`{"kind":"inference","name":"the team's bot"}`)
	image := strings.Repeat("iVBO", 1000)
	sent := `{"model":"@preset/writer@live","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"a caddypresets_inf_x key"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}}]}]}`
	r := s.do("POST", chatPath, sent, bearer(key.secret))
	r.want(t, 200)
	if r.body != streamedHello || !strings.Contains(s.upstream.one(t).body, image) {
		t.Errorf("got %s", r.body)
	}
	got := log.take(1)[0]
	wants := map[string][2]any{
		"logger": {got.Logger, iolog.LoggerName}, "preset": {got.Preset, "writer@1"}, "label": {got.Label, "live"}, "dialect": {got.Dialect, "chat"},
		"key_id": {got.KeyID, key.id}, "key_name": {got.KeyName, "the team's bot"}, "model_asked": {got.ModelAsked, "openai/gpt-5"},
		"model": {got.Model, "openai/gpt-5"}, "status": {got.Status, 200}, "streamed": {got.Streamed, true}, "cost": {got.Cost, "0.25"},
		"tokens":    {fmt.Sprint(got.Tokens["input_tokens"], got.Tokens["output_tokens"]), "30 7"},
		"workspace": {got.Workspace, s.manage("GET", "/v1/workspaces/default", "").field(t, "id")},
		"files":     {fmt.Sprint(got.Files), "[sent request]"}, "masked": {fmt.Sprint(got.Masked), "[sent request]"}, "cut": {len(got.Cut), 0},
		"answer": {string(got.Answer), `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"Hello"}],"finish_reason":"stop"}]`},
	}
	for name, pair := range wants {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
	if got.RequestID == "" || got.DurationMS == nil || got.Begun == "" {
		t.Errorf("got %+v", got)
	}
	kept := strings.NewReplacer(image, "[3000 bytes]", "caddypresets_inf_x", "[key]").Replace(sent)
	if string(got.Sent) != kept {
		t.Errorf("sent: got %s, want %s", got.Sent, kept)
	}
	if up := string(got.Request); !strings.Contains(up, "Be brief.") || !strings.Contains(up, "[3000 bytes]") || strings.Contains(up, "@preset") {
		t.Errorf("request: got %s", up)
	}
	if info, err := os.Stat(log.file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and %v", info.Mode(), err)
	}

	// A request without a preset goes up as it was sent, and an error has no answer.
	s.upstream.answers(replyWith(500, "application/json", `{"error":{"message":"no"}}`))
	s.ask(messagesPath, `{"model":"m","max_tokens":1,"messages":[]}`).want(t, 500)
	got = log.take(1)[0]
	if got.Sent != nil || string(got.Request) != `{"model":"m","max_tokens":1,"messages":[]}` || got.Preset != "" || got.Status != 500 || string(got.Answer) != "[]" || got.KeyName != "" {
		t.Errorf("got %+v", got)
	}

	// Nothing else is logged: dry runs, refusals and routes that count.
	s.ask(chatPath, `{"model":"@preset/writer"}`, "X-Preset-Dry-Run: true").want(t, 200)
	s.ask(chatPath, `{"model":"@preset/missing"}`).want(t, 404)
	s.upstream.answers(replyWith(200, "application/json", `{"input_tokens":3}`))
	s.ask("/v1/messages/count_tokens", `{"model":"m","messages":[]}`).want(t, 200)
	s.manage("PATCH", "/v1/workspaces/default", `{"is_observability_io_logging_enabled":false}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
	s.manage("PATCH", "/v1/workspaces/default", `{"is_observability_io_logging_enabled":true}`).want(t, 200)
	s.ask(chatPath, `{"model":"last"}`).want(t, 200)
	if got := log.take(1)[0]; got.ModelAsked != "last" {
		t.Errorf("got a line of %s", got.Request)
	}
}

// TestIOLogSamples samples sessions and requests, and filters keys.
func TestIOLogSamples(t *testing.T) {
	s, log := startLogging(t, `,"io_logging_sampling_rate":0.5`)
	s.upstream.answers(replyWith(200, "application/json", `{}`))
	ask := func(secret, model string, headers ...string) {
		s.do("POST", chatPath, fmt.Sprintf(`{"model":%q}`, model), append(headers, bearer(secret))...).want(t, 200)
	}
	const sessions = 40
	for range 2 {
		for i := range sessions {
			ask(inferenceSecret, fmt.Sprint("s", i), fmt.Sprint("X-Session-Id: session-", i))
		}
	}
	counts := map[string]int{}
	for _, line := range log.all() {
		counts[line.ModelAsked]++
	}
	s.manage("PATCH", "/v1/workspaces/default", `{"io_logging_sampling_rate":1}`).want(t, 200)
	for model, n := range counts {
		if n != 2 {
			t.Errorf("session %s: got %d lines of 2 requests", model, n)
		}
	}
	if len(counts) < sessions/5 || len(counts) > sessions*4/5 {
		t.Errorf("got lines of %d sessions of %d, want about half", len(counts), sessions)
	}

	// The filter takes ids and hashes. A key with the right asks not to be logged.
	first, second := s.issue(`{"kind":"inference"}`), s.issue(`{"kind":"inference","may":["skip-logging"]}`)
	s.manage("PATCH", "/v1/workspaces/default", fmt.Sprintf(`{"io_logging_api_key_ids":[%q,7,%q]}`, first.id, sha256Of(second.secret))).want(t, 200)
	const noLog = "X-Preset-No-Log: true"
	ask(inferenceSecret, "other key")
	ask(second.secret, "skipped", noLog)
	ask(second.secret, "second")
	r := s.do("POST", chatPath, `{"model":"no right"}`, bearer(first.secret), noLog)
	if r.want(t, 200); r.header.Get("X-Preset-Ignored") != "X-Preset-No-Log" {
		t.Errorf("without the right: got %q", r.header.Get("X-Preset-Ignored"))
	}
	for _, up := range s.upstream.all() {
		if up.header.Get("X-Preset-No-Log") != "" {
			t.Error("the header went up")
		}
	}
	var models []string
	for _, line := range log.take(2) {
		models = append(models, line.ModelAsked)
	}
	slices.Sort(models)
	if fmt.Sprint(models) != "[no right second]" {
		t.Errorf("got lines of %v", models)
	}
	s.manage("PATCH", "/v1/workspaces/default", `{"io_logging_api_key_ids":null}`).want(t, 200)
	ask(inferenceSecret, "all keys")
	if got := log.take(1)[0]; got.ModelAsked != "all keys" {
		t.Errorf("got a line of %s", got.ModelAsked)
	}
}

// TestIOLogChangesNoAnswer compares answers of all shapes with and without the log, byte by byte.
func TestIOLogChangesNoAnswer(t *testing.T) {
	s, log := startLogging(t, "")
	s.preset("writer", writer)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	answers := append([]usedAnswer{
		{name: "stream", path: chatPath, media: "text/event-stream", body: streamedHello},
		{name: "image", path: generationsPath, media: "application/json", body: `{"data":[{"b64_json":"` + strings.Repeat("iVBO", 1<<18) + `"}],"usage":{"input_tokens":1,"output_tokens":2}}`},
		{name: "image stream", path: imagesPath, media: "text/event-stream", body: `data: {"type":"image_generation.completed","b64_json":"` + strings.Repeat("iVBO", 1<<18) + "\"}\n\ndata: [DONE]\n\n"},
	}, usedAnswers...)
	ask := func(a usedAnswer) string {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.media)
			for piece := range slices.Chunk([]byte(a.body), len(a.body)/3+1) {
				_, _ = w.Write(piece)
				_ = http.NewResponseController(w).Flush()
			}
		})
		got := s.open(client, a.path, strings.NewReader(`{"model":"@preset/writer"}`))
		text, err := io.ReadAll(got.Body)
		if err != nil || string(text) != a.body {
			t.Errorf("%s: got %d bytes and %v, want the gateway's %d", a.name, len(text), err, len(a.body))
		}
		got.Header.Del("Date")
		got.Header.Del(requestIDHeader)
		return fmt.Sprint(got.StatusCode, got.Header, got.TransferEncoding, string(text))
	}
	var on []string
	for _, a := range answers {
		on = append(on, ask(a))
	}
	log.take(len(answers))
	s.reload(inferring(usageBlock))
	for i, a := range answers {
		if off := ask(a); off != on[i] {
			t.Errorf("%s: with the log the answer is another: %.300s, want %.300s", a.name, on[i], off)
		}
	}
}

// TestIOLogIsTheOnlyOne searches for what was asked and answered in all other logs, in metrics, reports, events, spans and
// errors. A log that takes everything is refused.
func TestIOLogIsTheOnlyOne(t *testing.T) {
	c, receiver := collect(t), receives(t)
	s, log := startLogging(t, "")
	s.reloadBehind("tracing", inferring("io_log", "max_memory 4MiB", "max_body_size 1MiB")+receiver.directive())
	s.preset("writer", writer)
	s.setPolicy("writer", `{"lock":["temperature"],"violation":"refuse"}`)
	key := s.issue(`{"kind":"inference","models":["a"]}`)
	limited := s.limitedKey(domain.KeyLimits{Limit: new(0.5)}, "")
	const asked, answered = "a-canary-of-the-request", "a-canary-of-the-answer"
	request := func(model, more string) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, asked, more)
	}
	answer := `{"choices":[{"message":{"content":"` + answered + `"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":1}}`
	var errors strings.Builder
	refuse := func(status int, secret, body string, headers ...string) {
		t.Helper()
		got := s.do("POST", chatPath, body, append(headers, bearer(secret))...)
		got.want(t, status)
		fmt.Fprint(&errors, got.header, got.body)
	}
	s.upstream.answers(replyWith(200, "application/json", answer))
	s.ask(chatPath, request("@preset/writer", "")).want(t, 200)
	s.as(limited, chatPath, request("m", "")).want(t, 200)
	s.upstream.answers(replyWith(500, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\""+answered+"\"}}]}\n\ndata: "))
	s.ask(chatPath, request("m", "")).want(t, 500)
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	refuse(502, inferenceSecret, request("@preset/writer", ""))
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, _ = io.Copy(io.Discard, s.open(http.DefaultClient, chatPath, strings.NewReader(request("m", ""))).Body) // which breaks off
	refuse(403, inferenceSecret, request("@preset/writer", `,"temperature":1`))
	refuse(404, inferenceSecret, request("@preset/absent", ""))
	refuse(400, inferenceSecret, request("@preset/writer", `,"preset":{"`+asked+`":1}`))
	refuse(400, inferenceSecret, request("@preset/writer", `,"messages":`))
	refuse(403, key.secret, request("b", ""))
	refuse(400, key.secret, request("a", `,"`+asked+`":1`)[:80])
	refuse(403, limited.secret, request("m", ""))
	refuse(401, "nobody", request("m", ""))
	refuse(413, inferenceSecret, request("m", `,"x":"`+strings.Repeat("x", 1<<20)+`"`))
	lines, answers := log.take(5), 0
	for _, line := range lines {
		if strings.Contains(string(line.Answer), answered) {
			answers++
		}
		if !strings.Contains(string(line.Request), asked) {
			t.Errorf("got the request %s", line.Request)
		}
	}
	if answers != 4 {
		t.Errorf("got the answer in %d lines, want 4", answers)
	}
	elsewhere := s.logs() + send(t, "GET", "http://"+s.admin+"/metrics", "").body + errors.String() + fmt.Sprint(s.trail("").Records) +
		s.manage("GET", "/v1/workspaces/default/usage", "").body + s.manage("GET", "/v1/presets/writer", "").body
	s.reload(inferring()) // sends the spans that are left
	elsewhere += fmt.Sprint(receiver.await(1), c.spans)
	for _, canary := range []string{asked, answered} {
		if at := strings.Index(elsewhere, canary); at >= 0 {
			t.Errorf("%s is elsewhere: …%s…", canary, elsewhere[max(at-200, 0):at+50])
		}
	}
	if len(c.spans) == 0 {
		t.Error("got no spans")
	}
	s.options = ""
	if err := s.load(s.site(inferring("io_log"))); err == nil || !strings.Contains(err.Error(), "include "+iolog.LoggerName) {
		t.Errorf("with a log of everything: got %v", err)
	}
}

// TestIOLogCuts cuts each side of a request at 256 KiB, apart from the others. A key at the cut is not seen.
func TestIOLogCuts(t *testing.T) {
	s, log := startLogging(t, "")
	s.preset("writer", writer)
	long := strings.Repeat("lorem ipsum ", 22_000) // 264,000 bytes
	s.upstream.answers(replyWith(200, "application/json", `{"choices":[{"message":{"content":"`+long+`"}}]}`))
	body := `{"model":"@preset/writer","messages":[{"role":"user","content":"%s"}]}`
	s.ask(chatPath, fmt.Sprintf(body, long)).want(t, 200)
	got := log.take(1)[0]
	if fmt.Sprint(got.Cut) != "[sent request answer]" {
		t.Errorf("got cut %v", got.Cut)
	}
	for name, side := range map[string]json.RawMessage{"sent": got.Sent, "request": got.Request, "answer": got.Answer} {
		if text := string(side); len(text) < 250<<10 || len(text) > 257<<10 || !strings.Contains(text, "lorem ipsum lorem") {
			t.Errorf("%s: got %d bytes of %.100s", name, len(text), text)
		}
	}
	s.upstream.answers(replyWith(200, "application/json", `{"choices":[]}`))
	s.ask(chatPath, fmt.Sprintf(body, "short")).want(t, 200)
	if got := log.take(1)[0]; got.Cut != nil || !strings.Contains(string(got.Request), "short") {
		t.Errorf("got %+v", got)
	}
	s.wantNothingHeld()
}

// collector is an OTLP collector.
type collector struct {
	t     *testing.T
	mu    sync.Mutex
	spans []*tracepb.Span
}

// collect begins to collect the spans of Caddy's tracing.
func collect(t *testing.T) *collector {
	c := &collector{t: t}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch coltracepb.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
			t.Errorf("the collector got %d bytes for %s: %v", len(body), r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range batch.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	return c
}

// textsOf returns attributes as texts.
func textsOf(attributes []*commonpb.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range attributes {
		texts[a.GetKey()] = a.GetValue().GetStringValue()
		for _, item := range a.GetValue().GetArrayValue().GetValues() {
			texts[a.GetKey()] += item.GetStringValue() + ";"
		}
	}
	return texts
}

// content returns the attributes of each span that has content, in the order of the requests. An event of the
// span has the same.
func (c *collector) content() (list []map[string]string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.spans, func(a, b *tracepb.Span) int { return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()) })
	for _, span := range c.spans {
		of := textsOf(span.GetAttributes())
		for _, event := range span.GetEvents() {
			if event.GetName() != "gen_ai.client.inference.operation.details" {
				c.t.Errorf("got an event %s", event.GetName())
			}
			for name, text := range textsOf(event.GetAttributes()) {
				if of[name] != text {
					c.t.Errorf("%s: the event has %s, and the span %s", name, text, of[name])
				}
			}
		}
		if _, ok := of["gen_ai.input.messages"]; ok != (len(span.GetEvents()) == 1) {
			c.t.Errorf("got %d events and the attributes %v", len(span.GetEvents()), of)
		} else if ok {
			list = append(list, of)
		}
	}
	return list
}

// TestBroadcast has the content of requests in spans, which a collector gets from Caddy's tracing. Its attributes
// name the preset for Langfuse, as docs/usage.md has it.
func TestBroadcast(t *testing.T) {
	c := collect(t)
	const tracing = "tracing {\nspan_attributes {\nlangfuse.trace.name {http.presets.slug}\nlangfuse.version {http.presets.version}\n}\n}"
	s := start(t, standard)
	s.preset("writer", writer)
	s.reloadBehind(tracing, inferring("broadcast"))
	second, skipping := s.issue(`{"kind":"inference"}`), s.issue(`{"kind":"inference","may":["skip-logging"]}`)
	user := func(text string) string {
		return `{"model":"@preset/writer","messages":[{"role":"user","content":"` + text + `"}]}`
	}
	s.upstream.answers(replyWith(200, "text/event-stream", streamedHello))
	s.ask(chatPath, user("none: before the switch")).want(t, 200)
	s.manage("PATCH", "/v1/workspaces/default", `{"is_observability_broadcast_enabled":true,"io_logging_sampling_rate":1}`).want(t, 200)
	wants := []map[string]string{{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "openai/gpt-5", "gen_ai.conversation.id": "session-1",
		"gen_ai.prompt.name": "writer", "gen_ai.prompt.version": "1", "langfuse.trace.name": "writer", "langfuse.version": "1", "gen_ai.response.finish_reasons": "stop;",
		"gen_ai.input.messages":   `[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"Hi [key]"}]}]`,
		"gen_ai.output.messages":  `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"Hello"}],"finish_reason":"stop"}]`,
		"gen_ai.tool.definitions": `[{"type":"function","name":"f"}]`, "gen_ai.system_instructions": "",
	}, {
		"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "openai/gpt-5", "gen_ai.system_instructions": `[{"type":"text","content":"Be brief."}]`,
		"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]`, "gen_ai.response.finish_reasons": "error;",
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Hel"}],"finish_reason":"error"}]`,
	}, {
		"gen_ai.operation.name": "generate_content", "gen_ai.provider.name": "openai", "gen_ai.prompt.name": "", "langfuse.trace.name": "", "gen_ai.response.finish_reasons": "stop;",
		"gen_ai.input.messages":  `[{"role":"user","parts":[{"type":"text","content":"a cat"}]}]`,
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"image","content":"{\"b64_json\":\"[75 bytes]\",\"output_format\":\"png\"}"}],"finish_reason":"stop"}]`,
	}, {
		"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"of the key"}]}]`, "gen_ai.output.messages": "", "gen_ai.response.finish_reasons": "",
	}}
	s.ask(chatPath, `{"model":"@preset/writer","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"Hi caddypresets_inf_x"}]}`, "X-Session-Id: session-1").want(t, 200)
	s.upstream.answers(replyWith(200, "text/event-stream", "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hel\"}}\n\n")) // and breaks off
	s.ask(messagesPath, strings.Replace(user("Hi"), "{", `{"max_tokens":9,`, 1)).want(t, 200)
	s.upstream.answers(replyWith(200, "application/json", `{"data":[{"b64_json":"`+strings.Repeat("iVBO", 25)+`"}],"output_format":"png"}`))
	s.ask(generationsPath, `{"model":"m","prompt":"a cat"}`).want(t, 200)

	// Keys are filtered and sessions sampled as in the log.
	s.upstream.answers(replyWith(429, "application/json", `{"error":{"message":"no"}}`))
	s.do("POST", chatPath, user("none: may skip"), bearer(skipping.secret), "X-Preset-No-Log: true").want(t, 429)
	s.manage("PATCH", "/v1/workspaces/default", fmt.Sprintf(`{"io_logging_api_key_ids":[%q]}`, second.id)).want(t, 200)
	s.ask(chatPath, user("none: another key")).want(t, 429)
	s.do("POST", chatPath, `{"model":"m","messages":[{"role":"user","content":"of the key"}]}`, bearer(second.secret)).want(t, 429)
	s.manage("PATCH", "/v1/workspaces/default", `{"io_logging_sampling_rate":0.0001}`).want(t, 200)
	s.do("POST", chatPath, user("none: another session"), bearer(second.secret), "X-Session-Id: s").want(t, 429)
	s.manage("PATCH", "/v1/workspaces/default", `{"io_logging_sampling_rate":1}`).want(t, 200)
	s.reloadBehind("tracing", inferring(usageBlock)) // sends what is left
	s.do("POST", chatPath, user("none: without the setting"), bearer(second.secret)).want(t, 429)
	s.reload(inferring())

	got := c.content()
	if len(got) != len(wants) {
		t.Fatalf("got content in %d spans, want %d: %v", len(got), len(wants), got)
	}
	for i, want := range wants {
		for name, text := range want {
			if got[i][name] != text {
				t.Errorf("span %d: got %s %q, want %q", i, name, got[i][name], text)
			}
		}
	}
	for _, none := range []string{"none: ", "caddypresets_inf_x"} {
		if text := fmt.Sprint(c.spans) + s.logs(); strings.Contains(text, none) {
			t.Errorf("%s is in a span or a log", none)
		}
	}
	if strings.Contains(s.logs(), "of the key") {
		t.Error("a log has the content")
	}
}

// TestInertFieldsOfWorkspaces changes workspaces where nothing is logged.
func TestInertFieldsOfWorkspaces(t *testing.T) {
	s := start(t, inferring())
	for _, tc := range []struct{ fields, want string }{
		{`"is_observability_io_logging_enabled":true`, "is_observability_io_logging_enabled"},
		{`"is_observability_io_logging_enabled":true,"io_logging_sampling_rate":0.5,"io_logging_api_key_ids":["a"]`, "is_observability_io_logging_enabled, io_logging_sampling_rate, io_logging_api_key_ids"},
		{`"is_data_discount_logging_enabled":false`, "is_data_discount_logging_enabled"},
		{`"is_observability_broadcast_enabled":true`, "is_observability_broadcast_enabled"},
		{`"is_observability_io_logging_enabled":false,"is_data_discount_logging_enabled":true,"io_logging_sampling_rate":0.5`, ""},
	} {
		for i, r := range []reply{
			s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"x","slug":"w%d",%s}`, len(tc.want)+len(tc.fields), tc.fields)),
			s.manage("PATCH", "/v1/workspaces/default", "{"+tc.fields+"}"),
		} {
			if got := r.header.Get("X-Preset-Ignored"); r.status >= 300 || got != tc.want {
				t.Errorf("%s (%d): got %d and %q, want %q", tc.fields, i, r.status, got, tc.want)
			}
		}
	}
	s, _ = startLogging(t, "")
	if got := s.manage("PATCH", "/v1/workspaces/default", `{"is_observability_io_logging_enabled":true}`).header.Get("X-Preset-Ignored"); got != "" {
		t.Errorf("with io_log: got %q", got)
	}
}

// TestIOLogIsBounded logs a gigabyte of answers, eight at once, and requests with large files.
func TestIOLogIsBounded(t *testing.T) {
	tier.Slow(t)
	s, log := startLogging(t, "")
	event := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("lorem ipsum ", 1000) + "\"}}]}\n\n")
	const each, atOnce = 32 << 20, 8
	total := 256 << 20
	if tier.EveryCase() {
		total = 1 << 30
	}
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	var mu sync.Mutex
	var most uint64
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for sent := 0; sent < each; sent += len(event) {
			_, _ = w.Write(event)
		}
		s.upstream.taken() // which the test holds
		mu.Lock()
		defer mu.Unlock()
		most = max(most, heap())
	})
	before, begun := heap(), time.Now()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	var clients sync.WaitGroup
	for range atOnce {
		clients.Go(func() {
			for range total / each / atOnce {
				r, err := client.Do(newRequest(t, "POST", s.url+chatPath, strings.NewReader(bodyOf("m", 1<<20)), bearer(inferenceSecret)))
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := io.Copy(io.Discard, r.Body); err != nil || n < each {
					t.Errorf("got %d bytes and %v", n, err)
				}
				r.Body.Close()
			}
		})
	}
	clients.Wait()
	for _, line := range log.take(total / each) {
		if fmt.Sprint(line.Cut) != "[request answer]" || line.Files != nil {
			t.Errorf("got cut %v and files %v", line.Cut, line.Files)
		}
	}
	s.wantNothingHeld()
	t.Logf("%d MiB of answers and %d MiB of requests in %v: the heap grew from %d to at most %d MiB", total>>20, total/each, time.Since(begun).Round(time.Millisecond), before>>20, most>>20)
	if most > before+(160<<20) { // max_memory has 128 MiB
		t.Errorf("the heap grew from %d to %d MiB", before>>20, most>>20)
	}
}

func TestIOLogOfATrial(t *testing.T) {
	s, log := startLogging(t, "")
	s.preset("writer", writer)
	s.try("writer/try", `{"dialect":"chat","version":{"model":"openai/gpt-5","messages":[]},"request":{"messages":[{"role":"user","content":"hi"}]}}`, withInferenceKey).want(t, 202)
	if got := log.take(1)[0]; got.Preset != "writer@unsaved" || !strings.Contains(string(got.Request), "openai/gpt-5") || !strings.Contains(string(got.Sent), `"hi"`) {
		t.Errorf("got %+v", got)
	}
}
