package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// feedbackOf returns the feedback of a report as lines of key, name, count and mean.
func (s *server) feedbackOf(path string) string {
	s.t.Helper()
	s.storeUsage()
	got := s.manage("GET", path, "")
	var r struct {
		Data struct {
			Series []struct {
				Key   json.RawMessage
				Total struct {
					Feedback map[string]struct {
						Count int
						Mean  json.Number
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(got.body), &r); got.status != 200 || err != nil {
		s.t.Fatalf("%s: got %d %s, %v", path, got.status, got.body, err)
	}
	var lines []string
	for _, series := range r.Data.Series {
		for _, name := range []string{"score", "solved"} {
			if of, ok := series.Total.Feedback[name]; ok {
				lines = append(lines, fmt.Sprintf("%s %s %d %s", series.Key, name, of.Count, of.Mean))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// wantFeedback waits until a report has some feedback.
func (s *server) wantFeedback(path string, lines ...string) {
	s.t.Helper()
	want, got := strings.Join(lines, "\n"), ""
	if !s.eventually(func() bool { got = s.feedbackOf(path); return got == want }) {
		s.t.Errorf("%s:\ngot\n%s\nwant\n%s", path, got, want)
	}
}

// handled sends an inference request until its answer has a handle of ours, and returns the
// answer and the handle.
func (s *server) handled(path, body string, headers ...string) (got reply, handle string) {
	s.t.Helper()
	if !s.eventually(func() bool {
		got = s.ask(path, body, headers...)
		handle = got.header.Get(requestIDHeader)
		return handle != "" && handle != "of the gateway"
	}) {
		s.t.Fatalf("%s: the answer %d has the handle %q, want one of ours", path, got.status, handle)
	}
	return got, handle
}

// recorder returns that of the server's store.
func (s *server) recorder() *usagerecorder.Recorder {
	s.t.Helper()
	return registry.All()[s.canonicalFolder()].Shared(nil).(*shared).usage
}

// answersOf lets the upstream answer in JSON, with a header that is ours.
func (u *upstream) answersOf(model string) {
	u.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(requestIDHeader, "of the gateway")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, `{"model":"`+model+`","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	})
}

const feedbackPath = "/v1/presets/writer/feedback"

// score returns a body of feedback.
func score(handle, value string, more ...string) string {
	return `{"request_id":"` + handle + `","score":` + value + strings.Join(more, "") + `}`
}

// TestFeedback gives feedback by handles, across a reload and a restart.
func TestFeedback(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", `{"model":"a"}`)
	s.preset("writer", `{"model":"b"}`)
	s.manage("PUT", "/v1/presets/writer/labels/split", `{"split":[{"version":1,"weight":1},{"version":2,"weight":0}]}`).want(t, 200)
	s.upstream.answersOf("lab/a")
	give := func(body string) reply {
		t.Helper()
		return s.do("POST", feedbackPath, body, bearer(inferenceSecret))
	}

	got, first := s.handled(chatPath, `{"model":"@preset/writer@split"}`)
	if all := got.header.Values(requestIDHeader); got.status != 200 || len(all) != 1 {
		t.Errorf("got %d with the handles %q, want one", got.status, all)
	}
	_, second := s.handled(chatPath, `{"model":"@preset/writer"}`)
	_, third := s.handled(chatPath, `{"model":"@preset/writer@1"}`)
	taken := give(score(first, "true"))
	taken.want(t, 202, `{"data":{"version":1,"label":"split","name":"score","score":1}}`)
	give(score(second, "-0.5", `,"name":"solved"`)).want(t, 202, `{"data":{"version":2,"label":null,"name":"solved","score":-0.5}}`)
	give(score(third, "false")).want(t, 202)
	const byVersion = "/v1/presets/writer/usage"
	s.wantFeedback(byVersion, `{"version":1} score 2 0.5`, `{"version":2} solved 1 -0.5`)
	s.wantFeedback(byVersion+"?by=label", `{"label":"split"} score 1 1`, `{"label":null} score 1 0`, `{"label":null} solved 1 -0.5`)
	s.wantFeedback(byVersion+"?by=model&step=day", `{"model":null} score 2 0.5`, `{"model":null} solved 1 -0.5`)
	s.wantFeedback("/v1/workspaces/default/usage?by=key", `{"key":"config-inference-1"} score 2 0.5`, `{"key":"config-inference-1"} solved 1 -0.5`)

	// Another score of the same name replaces the first. One of another name does not.
	give(score(first, "0")).want(t, 202)
	give(score(first, "0.25")).want(t, 202)
	give(score(second, "1")).want(t, 202)
	s.wantFeedback(byVersion, `{"version":1} score 2 0.125`, `{"version":2} score 1 1`, `{"version":2} solved 1 -0.5`)
	s.reload(inferring("usage {\nkeep 7d 100d\n}"))
	give(score(first, "-1")).want(t, 202)
	s.wantFeedback(byVersion, `{"version":1} score 2 -0.5`, `{"version":2} score 1 1`, `{"version":2} solved 1 -0.5`)

	// Handles outlive the process. The scores that could be replaced do not.
	_, fourth := s.handled(chatPath, `{"model":"@preset/writer@1"}`)
	s.stop()
	s.reload(inferring("usage"))
	var after reply
	if !s.eventually(func() bool { after = give(score(fourth, "1")); return after.status != 503 }) { // until the secret is read
		t.Error("the secret is not read after a restart")
	}
	after.want(t, 202)
	s.wantFeedback(byVersion, `{"version":1} score 3 0`, `{"version":2} score 1 1`, `{"version":2} solved 1 -0.5`)

	// An archived preset still gets feedback, as it has reports.
	s.manage("DELETE", "/v1/presets/writer", "").want(t, 200)
	give(score(fourth, "-1")).want(t, 202)
	s.wantFeedback(byVersion, `{"version":1} score 3 -0.666667`, `{"version":2} score 1 1`, `{"version":2} solved 1 -0.5`)
}

// TestFeedbackRefused gives feedback that belongs to no request of the preset.
func TestFeedbackRefused(t *testing.T) {
	s := start(t, inferring("usage"))
	s.manage("POST", "/v1/workspaces", `{"name":"Elsewhere","slug":"elsewhere"}`).want(t, 201)
	for _, path := range []string{"writer/responses", "reader/responses", "writer/responses?workspace_id=elsewhere"} {
		s.manage("POST", "/v1/presets/"+path, writer).want(t, 200)
	}
	elsewhere := bearer(s.issue(`{"kind":"inference","workspace":"elsewhere"}`).secret)
	blind := bearer(s.issue(`{"kind":"inference","presets":["reader"]}`).secret)
	s.upstream.answersOf("lab/a")
	_, handle := s.handled(chatPath, `{"model":"@preset/writer"}`)
	refused := func(want int, message, path, body string, headers ...string) {
		t.Helper()
		if headers == nil {
			headers = []string{bearer(inferenceSecret)}
		}
		s.do("POST", path, body, headers...).wantError(t, want, message)
	}
	unknown := usagerecorder.ErrRequestUnknown.Message
	refused(404, unknown, feedbackPath, score(handle, "1"), elsewhere)
	refused(404, "Preset not found", feedbackPath, score(handle, "1"), blind)
	refused(404, unknown, "/v1/presets/reader/feedback", score(handle, "1"))
	refused(404, "Preset not found", "/v1/presets/absent/feedback", score(handle, "1"))
	last := map[bool]string{true: "A", false: "B"}[handle[len(handle)/2] == 'B']
	refused(404, unknown, feedbackPath, score(handle[:len(handle)/2]+last+handle[len(handle)/2+1:], "1"))
	refused(404, unknown, feedbackPath, score(handle[1:], "1"))
	refused(404, unknown, feedbackPath, score("of the gateway", "1"))
	refused(404, usagerecorder.ErrSessionUnknown.Message, feedbackPath, `{"session_id":"unknown","score":1}`)
	refused(401, "Missing Authentication header", feedbackPath, score(handle, "1"), "X-Other: 1")
	refused(400, "Invalid request parameters: /score: must be at most 1", feedbackPath, score(handle, "2"))
	refused(400, "Invalid request parameters: /name: must consist of letters, digits, _ . and -", feedbackPath, score(handle, "1", `,"name":"a b"`))

	handles := s.recorder().Handles.Load()
	of, err := handles.Read(handle, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	of.Start = of.Start.Add(time.Minute - usage.FeedbackAge)
	s.do("POST", feedbackPath, score(handles.New(of), "0", `,"name":"solved"`), bearer(inferenceSecret)).want(t, 202)
	of.Start = of.Start.Add(-2 * time.Minute)
	refused(404, usagerecorder.ErrRequestOld.Message, feedbackPath, score(handles.New(of), "1"))
	s.wantFeedback("/v1/presets/writer/usage?from="+time.Now().UTC().Add(-48*time.Hour).Format(time.RFC3339), `{"version":1} solved 1 0`)

	s.reload(inferring())
	refused(409, usagerecorder.ErrNotMeasured.Message, feedbackPath, score(handle, "1"))
	s.reload(standard)
	refused(409, usagerecorder.ErrNotMeasured.Message, feedbackPath, score(handle, "1"))
	refused(404, "Preset not found", "/v1/presets/absent/feedback", score(handle, "1"))
}

// TestFeedbackOfSessions gives feedback on the latest answer of a session. Which answer that is, is the
// subject of domain/usage.
func TestFeedbackOfSessions(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", `{"model":"a"}`)
	s.preset("writer", `{"model":"b"}`)
	s.upstream.answersOf("lab/a")
	give := func(session, value string) reply {
		return s.do("POST", feedbackPath, `{"session_id":"`+session+`","score":`+value+`}`, bearer(inferenceSecret))
	}
	s.ask(chatPath, `{"model":"@preset/writer@1","session_id":"body"}`, "X-Session-Id: header").want(t, 200)
	if !s.eventually(func() bool { return give("body", "1").status == 202 }) { // when the answer has ended
		t.Fatal("the session gets no feedback")
	}
	give("header", "1").want(t, 404) // the body's wins
	s.ask(chatPath, `{"model":"lab/a"}`, "X-Session-Id: header").want(t, 200)
	_, handle := s.handled(chatPath, `{"model":"@preset/writer","session_id":"body"}`)
	if !s.eventually(func() bool { return strings.Contains(give("body", "0").body, `"version":2`) }) {
		t.Error("the session's last answer is not that of version 2")
	}
	give("header", "1").want(t, 404) // of no preset
	// The handle of the same request replaces the session's score.
	s.do("POST", feedbackPath, score(handle, "0.5"), bearer(inferenceSecret)).want(t, 202, `"version":2`)
	if !s.eventually(func() bool {
		return strings.HasSuffix(s.feedbackOf("/v1/presets/writer/usage"), `{"version":2} score 1 0.5`)
	}) {
		t.Errorf("got %s, want one score of version 2", s.feedbackOf("/v1/presets/writer/usage"))
	}
}

// TestHandlesOfAnswers looks at the handles of answers of every kind.
func TestHandlesOfAnswers(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	s.upstream.answersOf("lab/a")
	seen := make(map[string]bool)
	classOf := func(path, body string, headers ...string) int {
		t.Helper()
		_, handle := s.handled(path, body, headers...)
		of, err := s.recorder().Handles.Load().Read(handle, time.Now())
		if err != nil || seen[handle] || of.Key.Version != 1 || of.Key.KeyID != "config-inference-1" || time.Since(of.Start) > time.Minute {
			t.Errorf("%s: got %+v, %v, seen before: %v", path, of, err, seen[handle])
		}
		seen[handle] = true
		return of.Key.StatusClass
	}
	const named = `{"model":"@preset/writer","max_tokens":5}`
	for _, path := range inferencePaths {
		if got := classOf(path, named); got != 2 {
			t.Errorf("%s: got the status class %d, want 2", path, got)
		}
	}
	for what, h := range map[string]http.HandlerFunc{
		"an error":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no body":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"a stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
		},
		"its own ids": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Request-Id", "of the gateway") },
	} {
		s.upstream.answers(h)
		want := map[string]int{"an error": 4, "no answer": 5}[what]
		if want == 0 {
			want = 2
		}
		if got := classOf(chatPath, named); got != want {
			t.Errorf("%s: got the status class %d, want %d", what, got, want)
		}
	}
	s.upstream.answersOf("lab/a")
	without := map[string]reply{
		"no preset": s.ask(chatPath, `{"model":"lab/a"}`),
		"a count":   s.ask("/v1/messages/count_tokens", `{"model":"@preset/writer"}`),
	}
	for what, got := range without {
		if id := got.header.Get(requestIDHeader); id != "of the gateway" {
			t.Errorf("%s: got %d with the handle %q, want the gateway's", what, got.status, id)
		}
	}
	if id := s.ask(chatPath, named, "X-Preset-Dry-Run: true").header.Get(requestIDHeader); id != "" {
		t.Errorf("a dry run has the handle %q", id)
	}
	s.recorder().Handles.Store(nil) // as while the store is not available
	if got := s.ask(chatPath, named); got.header.Get(requestIDHeader) == "of the gateway" {
		t.Error("without a secret, the gateway's header passes")
	}
}
