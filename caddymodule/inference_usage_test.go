package caddymodule

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/shopspring/decimal"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// usedAnswer is an answer of a gateway, and the tokens it tells of.
type usedAnswer struct {
	name, path, media, body string
	input, output           int
	cost                    string // empty if unknown
}

var usedAnswers = []usedAnswer{
	{"chat", chatPath, "application/json", `{"model":"openai/gpt-5","choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":30,"completion_tokens":7,"cost":0.25}}`, 30, 7, "0.25"},
	{"chat stream", chatPath, "text/event-stream", "data: {\"model\":\"priced/m\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000000,\"completion_tokens\":7}}\r\n\r\ndata: [DONE]\n\n", 1_000_000, 7, "0.500014"},
	{"responses", responsesPath, "application/json", `{"model":"m","status":"completed","usage":{"input_tokens":3,"output_tokens":4}}`, 3, 4, ""},
	{"responses stream", responsesPath, "text/event-stream; charset=utf-8", "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"" + strings.Repeat("x", 1<<20) + "\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"usage\":{\"input_tokens\":5,\"output_tokens\":6}}}", 5, 6, ""},
	{"compaction", compactPath, "application/json", `{"object":"response.compaction","output":[{"type":"compaction","encrypted_content":"x"}],"usage":{"input_tokens":20,"output_tokens":2}}`, 20, 2, ""},
	{"messages", messagesPath, "application/json", `{"type":"message","model":"m","usage":{"input_tokens":3,"cache_read_input_tokens":10,"output_tokens":4}}`, 13, 4, ""},
	{"messages stream", messagesPath, "text/event-stream", "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":8,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":null,\"output_tokens\":9}}\n\n", 8, 9, ""},
}

const usageBlock = "usage {\nprice priced/* {\ninput 0.50\noutput 2\n}\n}"

// series returns the name of a series of usage with its labels. version is a preset and its
// number in a workspace, as in "w/writer@1", or empty.
func series(name, version string, more ...string) string {
	workspace, version, _ := strings.Cut(version, "/")
	preset, number, _ := strings.Cut(version, "@")
	labels := []string{`preset="` + preset + `"`, `version="` + number + `"`, `workspace="` + workspace + `"`}
	return "caddy_presets_" + name + "{" + strings.Join(append(labels[:1:1], append(more, labels[1:]...)...), ",") + "}"
}

// TestUsage checks that answers in all shapes reach the client with every byte, and that
// their usage is counted.
func TestUsage(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	zip := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return out.String()
	}
	type seen struct {
		status        int
		header        http.Header
		body, trailer string
	}
	ask := func(a usedAnswer, coding string) seen {
		t.Helper()
		body := a.body
		if coding == "gzip" {
			body = zip(body)
		}
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.media)
			w.Header().Set("Trailer", "X-End")
			if coding != "" {
				w.Header().Set("Content-Encoding", coding)
			}
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, body[len(body)/2:])
			w.Header().Set("X-End", "yes")
			w.Header().Set(http.TrailerPrefix+"X-Late", " too")
		})
		client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
		got := s.open(client, a.path, strings.NewReader(`{"model":"@preset/writer"}`), "Accept-Encoding: gzip")
		text, err := io.ReadAll(got.Body)
		if err != nil || string(text) != body {
			t.Errorf("%s %s: got %d bytes, %v, want the gateway's %d", a.name, coding, len(text), err, len(body))
		}
		got.Header.Del("Date")
		got.Header.Del(requestIDHeader)
		return seen{got.StatusCode, got.Header, string(text), got.Trailer.Get("X-End") + got.Trailer.Get("X-Late")}
	}
	codings := []string{"", "gzip"}
	version := s.manage("GET", "/v1/workspaces/default", "").field(t, "id") + "/writer@1"
	var off []seen
	for _, a := range usedAnswers {
		for _, coding := range codings {
			off = append(off, ask(a, coding))
		}
	}
	if got := s.metric(series("input_tokens_total", "")); got != "" {
		t.Errorf("without usage %s input tokens were counted", got)
	}
	s.reload(inferring(usageBlock) + "\nmetrics per_preset")
	input, output, cost := 0, 0, decimal.Zero
	for i, a := range usedAnswers {
		for j, coding := range codings {
			got, want := ask(a, coding), off[i*len(codings)+j]
			if fmt.Sprint(got) != fmt.Sprint(want) || got.trailer != "yestoo" {
				t.Errorf("%s %s: with usage the answer is another: %v and %q, want %v and %q", a.name, coding, got.header, got.trailer, want.header, want.trailer)
			}
			input, output = input+a.input, output+a.output
			if a.cost != "" {
				cost = cost.Add(decimal.RequireFromString(a.cost))
			}
			if !s.eventually(func() bool {
				return s.metric(series("upstream_duration_seconds_count", version)) == fmt.Sprint(i*2+j+1)
			}) {
				t.Fatalf("%s %s: the request was not counted", a.name, coding)
			}
			for name, want := range map[string]string{
				"input_tokens_total": fmt.Sprint(float64(input)), "output_tokens_total": fmt.Sprint(float64(output)), "cost_total": cost.String(),
			} {
				if got := s.metric(series(name, version)); got != want {
					t.Errorf("%s %s: %s is %s, want %s", a.name, coding, name, got, want)
				}
			}
		}
	}
	if got := s.metric(series("time_to_first_chunk_seconds_count", version)); got != "6" {
		t.Errorf("%s streams had a first chunk, want 6", got)
	}
}

// TestTokensByKey checks that tokens are counted by the id of a key if that is configured, beside those by
// version. No metric has a secret.
func TestTokensByKey(t *testing.T) {
	s := start(t, inferring("usage")+"\nmetrics per_key 1\nmetrics per_preset 1")
	s.preset("writer", writer)
	version := s.manage("GET", "/v1/workspaces/default", "").field(t, "id") + "/writer@1"
	s.costs("0.5")
	first, second := s.issue(`{"kind":"inference"}`), s.issue(`{"kind":"inference"}`)
	for _, k := range []issued{first, second, first} {
		s.as(k, chatPath, `{"model":"@preset/writer"}`).want(t, 200)
	}
	s.awaitMetric(series("upstream_duration_seconds_count", version), "3")
	s.awaitMetric(`caddy_presets_key_tokens_total{key="`+first.id+`"}`, "20")
	s.awaitMetric(`caddy_presets_key_tokens_total{key="other"}`, "10")
	all := send(t, "GET", "http://"+s.admin+"/metrics", "").body
	for _, k := range []issued{first, second} {
		if strings.Contains(all, k.secret) {
			t.Error("a metric has the secret of a key")
		}
	}
}

// TestUsageThatIsUnknown checks that answers without usage are counted with the reason, and
// that errors are not.
func TestUsageThatIsUnknown(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	for _, tc := range []struct {
		name   string
		reason string // empty if it is known: none
		answer http.HandlerFunc
	}{
		{"absent", "absent", replyWith(200, "application/json", `{"model":"m"}`)},
		{"of another type", "media_type", replyWith(200, "text/html", `<p>`)},
		{"broken", "malformed", replyWith(200, "application/json", `{"usage":`)},
		{"empty", "absent", replyWith(200, "application/json", "")},
		{"cut", "aborted", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"an error", "", replyWith(429, "application/json", `{"error":{"message":"slow down"}}`)},
		{"an error in a stream", "", replyWith(200, "text/event-stream", "data: {\"error\":{}}\n\n")},
	} {
		s.upstream.answers(tc.answer)
		counted := s.metric(series("upstream_duration_seconds_count", ""))
		was := s.metric(series("usage_unknown_total", "", `reason="`+tc.reason+`"`))
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		got := s.open(client, chatPath, strings.NewReader(`{"model":"@preset/writer"}`))
		if _, err := io.ReadAll(got.Body); err != nil && tc.name != "cut" {
			t.Errorf("%s: %v", tc.name, err)
		}
		if !s.eventually(func() bool { return s.metric(series("upstream_duration_seconds_count", "")) != counted }) {
			t.Fatalf("%s: the request was not counted", tc.name)
		}
		is := s.metric(series("usage_unknown_total", "", `reason="`+tc.reason+`"`))
		if (is != was) != (tc.reason != "") {
			t.Errorf("%s: unknown for the reason %q: %q before and %q after", tc.name, tc.reason, was, is)
		}
	}
}

// TestUsageInAccessLogs checks the placeholders of usage.
func TestUsageInAccessLogs(t *testing.T) {
	s := start(t, inferring(usageBlock))
	s.preset("writer", writer)
	names := []string{"model", "input_tokens", "output_tokens", "cost", "cost_estimated", "unknown"}
	var appended strings.Builder
	for _, name := range names {
		fmt.Fprintf(&appended, "log_append %s {http.presets.usage.%s}\n", name, name)
	}
	s.reload(inferring(usageBlock) + "\n}\n" + appended.String() + "handle /never {\nrespond never")
	for _, tc := range []struct{ answer, want string }{
		{`{"model":"priced/m","usage":{"prompt_tokens":1000000,"completion_tokens":500000}}`, "[priced/m 1000000 500000 1.5 true ]"},
		{`{"model":"m"}`, "[m     absent]"},
	} {
		s.upstream.answers(replyWith(200, "application/json", tc.answer))
		entry := s.logged(func() { s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 200) })
		var got []any
		for _, name := range names {
			got = append(got, entry[name])
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("got %v, want %s", got, tc.want)
		}
	}
}

// TestStreamsThatClientsLeave checks that a stream counts as aborted if its client leaves before
// the last event, and not if it leaves with it.
func TestStreamsThatClientsLeave(t *testing.T) {
	s := start(t, inferring("usage"))
	streams := []struct {
		path, first, last string
	}{
		{chatPath, "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: [DONE]\n\n"},
		{responsesPath, "data: {\"type\":\"response.created\",\"response\":{\"model\":\"m\"}}\n\n", "data: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\"}}\n\n"},
		{messagesPath, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
	}
	for i, stream := range streams {
		for _, whole := range []bool{true, false} {
			slug := fmt.Sprintf("p%d-%t", i, whole)
			s.preset(slug, writer)
			sent, aborted := stream.first, 1
			if whole {
				sent, aborted = sent+stream.last, 0
			}
			s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, sent)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // it would go on
			})
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			got := s.open(client, stream.path, strings.NewReader(`{"model":"@preset/`+slug+`","stream":true}`))
			if _, err := io.ReadFull(got.Body, make([]byte, len(sent))); err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			want := fmt.Sprintf(`"requests":1,"errors":0,"aborted":%d,`, aborted)
			body := ""
			if !s.eventually(func() bool {
				s.storeUsage()
				body = s.manage("GET", "/v1/presets/"+slug+"/usage", "").body
				return strings.Contains(body, `"requests":1`)
			}) || !strings.Contains(body, want) {
				t.Errorf("%s, the last event: %t: got %s, want %s", stream.path, whole, body, want)
			}
		}
	}
}

// awayStore is a store that a test can take away. Nothing that was read from it stays cached.
type awayStore struct {
	domain.Store
	away bool
}

func (s *awayStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	if s.away {
		return domain.ErrUnavailable
	}
	return s.Store.View(ctx, fn)
}

func (*awayStore) Stamps() *domain.Stamps { return domain.NewStamps() }

// TestUsageIsCountedWithoutStore has a store that is away when the answer to a request without a preset
// ends. The answer does not wait for it, and the request counts.
func TestUsageIsCountedWithoutStore(t *testing.T) {
	opened := openInMemory(t)
	store, use := &awayStore{Store: opened}, &usagerecorder.Use{Store: opened, Logger: zap.NewNop()}
	h := newBareHandler(t, opened)
	h.shared = newShared(t.Name())
	h.Inference = &Inference{Usage: &Usage{recording: use}, resolver: inference.NewResolver(store, inference.Config{})}
	h.shared.usage.Start(use)
	defer h.shared.usage.End(use)
	c := &inferenceCall{call: h.newCall(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, chatPath, nil)), route: inferenceRouteOf("chat/completions")}
	workspace, err := h.service.Workspace(t.Context(), domain.Principal{Kind: domain.ManagementKey}, "default")
	if err != nil {
		t.Fatal(err)
	}
	c.who = domain.Principal{Kind: domain.InferenceKey, WorkspaceID: workspace.WorkspaceID}
	err = c.serveMeasured(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		store.away = true
		_, err := io.WriteString(w, "{}")
		return err
	}))
	if err = errors.Join(err, h.shared.usage.Flush(t.Context(), use)); err != nil {
		t.Fatal(err)
	}
	rows := 0
	err = opened.View(t.Context(), func(r domain.Reader) error {
		for _, err := range r.UsageRows(domain.UsageRange{WorkspaceID: workspace.WorkspaceID, To: time.Now().Add(time.Hour)}) {
			if err != nil {
				return err
			}
			rows++
		}
		return nil
	})
	if err != nil || rows != 1 {
		t.Errorf("got %d rows and %v, want one", rows, err)
	}
}
