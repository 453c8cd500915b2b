package caddymodule

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
)

// report is the part of a report that tests look at.
type report struct {
	Data struct {
		From, To, Step, By string
		Series             []struct {
			Key    map[string]any
			Total  figures
			Points []figures
		}
	}
}

// figures are those of a report.
type figures struct {
	Requests     int `json:"requests"`
	Errors       int `json:"errors"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	Cost         *string
	Estimated    bool                             `json:"cost_estimated"`
	CostUnknown  int                              `json:"cost_unknown"`
	Duration     *struct{ P50, P95, P99 float64 } `json:"duration_ms"`
}

// usage returns a report.
func (s *server) usage(path string) (r report) {
	s.t.Helper()
	s.storeUsage()
	got := s.manage("GET", path, "")
	if got.status != 200 {
		s.t.Fatalf("%s: got %d %s", path, got.status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// summary returns the keys of a report with their requests, errors and tokens.
func (r report) summary() string {
	var lines []string
	for _, s := range r.Data.Series {
		key, _ := json.Marshal(s.Key)
		lines = append(lines, fmt.Sprintf("%s %d/%d %d+%d", key, s.Total.Requests, s.Total.Errors, s.Total.InputTokens, s.Total.OutputTokens))
	}
	return strings.Join(lines, "\n")
}

// TestUsageOfLiteLLM has the answers of LiteLLM 1.108.7. The cost is in a header unless the answer
// is a stream. A stream of messages tells none. The model is its own name of it, in all of them.
func TestUsageOfLiteLLM(t *testing.T) {
	s := start(t, inferring("usage {\nstream_usage add\n}"))
	s.preset("writer", `{"model":"cheap"}`)
	recorded := func(file string) string {
		text, err := os.ReadFile("../domain/usage/answer/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const json, events = "application/json", "text/event-stream; charset=utf-8"
	for _, a := range []struct{ path, media, cost, body, hidden string }{
		{chatPath, json, "0.000125", `{"model":"cheap","choices":[],"usage":{"completion_tokens":50,"prompt_tokens":100}}`, ""},
		{chatPath, events, "", recorded("chat/litellm.sse"), `"cost":0.000125`},
		{responsesPath, json, "0.000125", `{"model":"cheap","status":"completed","usage":{"input_tokens":100,"output_tokens":50,"cost":null}}`, ""},
		{responsesPath, events, "", recorded("responses/litellm.sse"), ""},
		{messagesPath, json, "2.4999999999999998e-05", `{"model":"cheap","usage":{"input_tokens":100,"output_tokens":50}}`, ""},
		{messagesPath, events, "", "data: {\"type\":\"message_start\",\"message\":{\"model\":\"cheap\",\"usage\":{\"input_tokens\":100,\"output_tokens\":0}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n", ""},
		{chatPath, json, "None", `{"model":"cheap","choices":[],"usage":{"completion_tokens":50,"prompt_tokens":100}}`, ""},
	} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.media)
			if a.cost != "" {
				w.Header().Set("x-litellm-response-cost", a.cost)
			}
			_, _ = io.WriteString(w, a.body)
		})
		got := s.ask(a.path, fmt.Sprintf(`{"preset":"writer","stream":%t}`, a.media == events))
		if got.status != 200 || (got.body == a.body) == (a.hidden != "") || a.hidden != "" && strings.Contains(got.body, a.hidden) || !strings.Contains(got.body, "[DONE]") && strings.Contains(a.body, "[DONE]") {
			t.Errorf("%s %s: got %d %s", a.path, a.media, got.status, got.body)
		}
	}
	const want = `{"model":"cheap"} 7/0 700+350`
	var got report
	if !s.eventually(func() bool { got = s.usage("/v1/presets/writer/usage?by=model"); return got.summary() == want }) {
		t.Fatalf("got %s, want %s", got.summary(), want)
	}
	if total := got.Data.Series[0].Total; total.Cost == nil || *total.Cost != "0.000525" || total.CostUnknown != 2 {
		t.Errorf("got a cost of %v and %d unknown, want 4 of 0.000125, one of 0.000025 and 2", total.Cost, total.CostUnknown)
	}
	if got := s.metric(series("cost_unknown_total", "")); got != "2" {
		t.Errorf("the metric has %q unknown costs, want 2", got)
	}
	r := s.manage("GET", "/v1/presets/writer/usage?by=model", "", "Accept: text/csv")
	r.want(t, 200, ",cost_estimated,cost_unknown,")
}

// TestUsageReports compares reports with the requests that were made, across a reload and a restart. How
// they are grouped is the subject of domain/usage.
func TestUsageReports(t *testing.T) {
	s := start(t, inferring(usageBlock))
	s.preset("writer", `{"model":"priced/m"}`)
	s.preset("writer", `{"model":"other"}`)
	s.put("writer", "first", `{"version":1}`)
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		replyWith(200, "application/json", `{"choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)(w, r)
	})
	shows := func(path, want string) {
		t.Helper()
		var got string
		if !s.eventually(func() bool { got = s.usage(path).summary(); return got == want }) {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", path, got, want)
		}
	}
	const path = "/v1/presets/writer/usage"
	shows(path, "")
	for _, model := range []string{"@preset/writer@first", "@preset/writer@first", "@preset/writer", "plain", "plain"} {
		s.ask(chatPath, `{"model":"`+model+`"}`).want(t, 200)
	}
	s.ask(chatPath, `{"model":"@preset/writer@1"}`, "X-Fail: 1").want(t, 502)
	shows(path, "{\"version\":1} 3/1 2000+20\n{\"version\":2} 1/0 1000+10")
	s.reload(inferring(usageBlock))
	s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 200)
	s.stop() // stores the last request
	s.reload(inferring(usageBlock))
	for query, want := range map[string]string{
		"?step=day":    "{\"version\":1} 3/1 2000+20\n{\"version\":2} 2/0 2000+20",
		"?by=label":    "{\"label\":\"first\"} 2/0 2000+20\n{\"label\":null} 3/1 2000+20",
		"?label=first": `{"version":1} 2/0 2000+20`,
		"?label=first&since=9000-01-01T00:00:00Z": "",
		"?by=model": "{\"model\":\"other\"} 2/0 2000+20\n{\"model\":\"priced/m\"} 3/1 2000+20",
	} {
		shows(path+query, want)
	}
	shows("/v1/workspaces/default/usage?by=preset", "{\"preset\":\"writer\"} 5/1 4000+40\n{\"preset\":null} 2/0 2000+20")
	r := s.usage(path)
	first := r.Data.Series[0].Total
	if first.Cost == nil || *first.Cost != "0.00104" || !first.Estimated || first.Duration == nil {
		t.Errorf("got %+v, want an estimated cost of 0.00104 and durations", first)
	}
	if points := len(r.Data.Series[0].Points); points < 24 || points > 25 {
		t.Errorf("got %d points, want one for each hour", points)
	}
	for _, wrong := range []string{"step=week", "by=key", "label=latest", "since=yesterday", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"} {
		s.manage("GET", path+"?"+wrong, "").want(t, 400)
	}
}

// TestUsageAsCSV asks for a report with several Accept headers.
func TestUsageAsCSV(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	s.do("POST", chatPath, `{"model":"@preset/writer"}`, bearer(inferenceSecret))
	if !s.eventually(func() bool { return len(s.usage("/v1/presets/writer/usage").Data.Series) == 1 }) {
		t.Fatal("the request shows in no report")
	}
	for accept, want := range map[string]string{
		"text/csv": mediatype.CSV, "text/csv, */*;q=0.1": mediatype.CSV, "application/json;q=0.2,text/csv;q=0.3": mediatype.CSV, "Text/CSV; charset=utf-8": mediatype.CSV,
		"": mediatype.JSON, "*/*": mediatype.JSON, "text/*": mediatype.JSON, "text/csv;q=0": mediatype.JSON, "text/csv;q=0.5, application/json": mediatype.JSON, "text/csv;q=x": mediatype.JSON,
		"text/csv, application/json": mediatype.JSON, "application/json;q=0.5, text/csv;q=0.5": mediatype.JSON, "text/csv, */*": mediatype.CSV, "text/csv, application/*": mediatype.CSV,
		"*/*, application/json;q=0, text/csv;q=0.1": mediatype.CSV, "*/*, text/csv;q=0": mediatype.JSON,
	} {
		got := s.manage("GET", "/v1/presets/writer/usage", "", "Accept: "+accept)
		if got.status != 200 || got.header.Get("Content-Type") != want || got.header.Get("Vary") != "Accept" {
			t.Errorf("%q: got %d %s, want %s", accept, got.status, got.header.Get("Content-Type"), want)
		}
		if want != mediatype.CSV {
			continue
		}
		records, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
		if err != nil || len(records) < 25 || records[0][0] != "version" {
			t.Errorf("%q: got %d lines, %v: %.100s", accept, len(records), err, got.body)
		}
	}
}

// TestLargeReports asks for a large report while other large answers are being sent.
func TestLargeReports(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	s.do("POST", chatPath, `{"model":"@preset/writer"}`, bearer(inferenceSecret))
	if !s.eventually(func() bool { return len(s.usage("/v1/presets/writer/usage").Data.Series) == 1 }) {
		t.Fatal("the request shows in no report")
	}
	const room = 1 << 20
	if !versionPages.TryAcquire(maxVersionPages - room) {
		t.Fatal("pages of other tests are still being sent")
	}
	t.Cleanup(func() { versionPages.Release(maxVersionPages - room) })
	const large = "/v1/presets/writer/usage?step=day&from=1970-01-01T00:00:00Z"
	s.manage("GET", large, "").want(t, 503, "Service temporarily unavailable")
	for range 200 { // each gives its room back
		s.manage("GET", "/v1/presets/writer/usage", "").want(t, 200)
	}
}
