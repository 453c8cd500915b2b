package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// agent is an agent that started "caddy presets mcp".
type agent struct {
	*mcp.ClientSession
	t     *testing.T
	tools map[string]*mcp.Tool
}

// startAgent starts the command and reads its tools. The test fails unless the command ends with
// its input, without an error, and writes nothing but the protocol, and no key.
func startAgent(t *testing.T, flags ...string) *agent {
	t.Helper()
	fromAgent, toServer := io.Pipe()
	fromServer, toAgent := io.Pipe()
	var written, errOut bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		defer toAgent.Close()
		ended <- runTo(io.MultiWriter(toAgent, &written), &errOut, fromAgent, append([]string{"presets", "mcp"}, flags...)...)
	}()
	c := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err, <-ended)
	}
	t.Cleanup(func() {
		_ = session.Close() // closes the pipe
		if err := <-ended; err != nil {
			t.Errorf("the command ends with %v", err)
		}
		for line := range bytes.Lines(written.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("%q is on standard output", line)
			}
		}
		for _, key := range []string{caddytest.ManagementSecret, caddytest.InferenceSecret} {
			if strings.Contains(written.String()+errOut.String(), key) {
				t.Error("a key is shown")
			}
		}
	})
	a := &agent{session, t, make(map[string]*mcp.Tool)}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		a.tools[tool.Name] = tool
	}
	return a
}

// call calls a tool with arguments in JSON, and returns its text.
func (a *agent) call(name, arguments string) (text string, isError bool) {
	a.t.Helper()
	result, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		a.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// must is call of a tool that succeeds.
func (a *agent) must(name, arguments string) object {
	a.t.Helper()
	text, isError := a.call(name, arguments)
	if isError {
		a.t.Fatalf("%s %s: %s", name, arguments, text)
	}
	return data[object](a.t, text)
}

// refuse calls a tool that fails with each of the texts.
func (a *agent) refuse(name, arguments string, want ...string) {
	a.t.Helper()
	text, isError := a.call(name, arguments)
	for _, part := range want {
		if !isError || !strings.Contains(text, part) {
			a.t.Errorf("%s %s: got %q, want an error with %q", name, arguments, text, part)
		}
	}
}

// TestAgentTools checks which tools an agent has, and what their hints promise.
func TestAgentTools(t *testing.T) {
	start(t, nil)
	const reading, drafting = "compare_versions list_presets list_versions read_usage show_preset", "draft_version"
	for _, tc := range []struct{ flags, keys, want string }{
		{"", "", reading + " " + drafting},
		{"", "inference", reading + " " + drafting + " try_version"},
		{"--allow-send", "inference", reading + " " + drafting + " try_version send_version"},
		{"--allow-live", "", reading + " " + drafting + " put_live set_label"},
	} {
		if tc.keys == "" {
			t.Setenv("PRESETS_INFERENCE_KEY", "")
		} else {
			t.Setenv("PRESETS_INFERENCE_KEY", caddytest.InferenceSecret)
		}
		a := startAgent(t, words(tc.flags)...)
		got, want := slices.Sorted(maps.Keys(a.tools)), words(tc.want)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("mcp %s: got the tools %v, want %v", tc.flags, got, want)
		}
		for name, tool := range a.tools {
			hints := tool.Annotations
			isReading := slices.Contains(words(reading+" try_version"), name)
			isDestructive := name == "put_live" || name == "set_label"
			if hints.ReadOnlyHint != isReading || !isReading && *hints.DestructiveHint != isDestructive || *hints.OpenWorldHint != (name == "send_version") {
				t.Errorf("%s has the hints %+v", name, hints)
			}
			schema := tool.InputSchema.(map[string]any)
			for argument, value := range schema["properties"].(map[string]any) {
				if property := value.(map[string]any); property["description"] == "" || property["description"] == nil {
					t.Errorf("%s: argument %s has no description", name, argument)
				} else if _, isOne := property["type"].(string); !isOne {
					t.Errorf("%s: argument %s has the type %v, and some models need one", name, argument, property["type"])
				}
			}
			if tool.Description == "" || tool.Title == "" || schema["additionalProperties"] == nil {
				t.Errorf("%s is not described: %+v", name, tool)
			}
		}
	}
}

// TestAgentEditsByDraft lets an agent read a preset and improve it, and checks that requests get
// the same version as before.
func TestAgentEditsByDraft(t *testing.T) {
	s := start(t, nil)
	s.fill()
	a := startAgent(t)

	for _, tc := range []struct{ tool, arguments, path string }{
		{"list_presets", `{}`, "/v1/presets"},
		{"list_presets", `{"query": "newsletter", "status": "all", "limit": 1}`, "/v1/presets?q=newsletter&status=all&limit=1"},
		{"show_preset", `{"slug": "email-copywriter"}`, "/v1/presets/email-copywriter"},
		{"list_versions", `{"slug": "email-copywriter", "offset": 1}`, "/v1/presets/email-copywriter/versions?fields=summary&offset=1"},
		{"read_usage", `{"slug": "summary", "from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z", "by": "model", "step": "day"}`, "/v1/presets/summary/usage?from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z&by=model&step=day"},
		{"compare_versions", `{"slug": "email-copywriter", "from": "1", "to": "staging"}`, "/v1/presets/email-copywriter/diff?from=1&to=staging"},
	} {
		got, isError := a.call(tc.tool, tc.arguments)
		if want := s.Manage("GET", tc.path, "").Body; isError || got != want {
			t.Errorf("%s %s: got %s, want the API's %s", tc.tool, tc.arguments, got, want)
		}
	}
	staging := a.must("show_preset", `{"slug": "email-copywriter", "version": "staging"}`)
	if v := staging["version"].(object); v["version"] != 3.0 || v["system_prompt"] != "Write short emails.\nBe very friendly.\n" || staging["data"].(object)["policy"] == nil {
		t.Errorf("got %v, want version 3 and the preset", staging)
	}

	prompt := strings.Repeat("Grüße, „kurz“ \\n <b> \u2028\n", 4000)
	arguments, err := json.Marshal(map[string]any{
		"slug": "email-copywriter", "prompt": prompt, "message": "warmer", "api": "chat/completions",
		"settings": json.RawMessage(`{"model":"openai/gpt-5","temperature":0.70,"seed":9007199254740993}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	made := a.must("draft_version", string(arguments))
	if made["draft_version"] != 4.0 || made["live_version"] != 2.0 {
		t.Errorf("got %v, want the draft 4 while 2 is live", made)
	}
	var stored struct {
		Data struct {
			Config  json.RawMessage `json:"config"`
			Prompt  string          `json:"system_prompt"`
			Message string          `json:"message"`
			Dialect string          `json:"dialect"`
			IsLive  bool            `json:"designated"`
			Labels  []string        `json:"labels"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(s.Manage("GET", "/v1/presets/email-copywriter/versions/4", "").Body), &stored); err != nil {
		t.Fatal(err)
	}
	if v := stored.Data; v.Prompt != prompt || v.Message != "warmer" || v.Dialect != "chat" || v.IsLive || len(v.Labels) > 0 ||
		string(v.Config) != `{"model":"openai/gpt-5","temperature":0.70,"seed":9007199254740993}` {
		t.Errorf("stored is %+v", v)
	}
	if v := a.must("show_preset", `{"slug": "email-copywriter", "version": "4"}`)["version"].(object); v["system_prompt"] != prompt {
		t.Error("the prompt is shown differently")
	}
	// What presets do not keep is named, so that the agent stores no second draft.
	kept := a.must("draft_version", `{"slug": "email-copywriter", "message": "x", "settings": {"model": "m", "temprature": 1}}`)
	if kept["draft_version"] != 5.0 || kept["stored_without"] != "temprature" || kept["live_version"] != 2.0 {
		t.Errorf("got %v, want the draft 5 without temprature", kept)
	}
	// What is left out is that of the version to begin with, also messages.
	if made := a.must("draft_version", `{"slug": "tour-guide", "prompt": "You love {{city}}.", "message": "love"}`); made["draft_version"] != 2.0 {
		t.Errorf("got %v, want version 2", made)
	}
	was, is := s.Manage("GET", "/v1/presets/tour-guide/versions/1", "").Body, s.Manage("GET", "/v1/presets/tour-guide/versions/2", "").Body
	if get := func(text string) string {
		return string(mustMember(t, text, "config")) + string(mustMember(t, text, "template"))
	}; get(was) != get(is) {
		t.Errorf("got %s, want the settings and messages of %s", is, was)
	}

	s.Manage("PUT", "/v1/presets/email-copywriter/labels/mix", `{"split": [{"version": 1, "weight": 50}, {"version": 2, "weight": 50}]}`)
	// The API's errors, with the place that is wrong.
	for _, tc := range []struct {
		tool, arguments string
		want            []string
	}{
		{"show_preset", `{"slug": "nowhere"}`, []string{"Preset not found"}},
		{"show_preset", `{"slug": "../workspaces"}`, []string{"slug"}},
		{"list_versions", `{"slug": ".."}`, []string{"slug"}},
		{"show_preset", `{"slug": "old", "number": "1"}`, []string{"number"}},
		{"compare_versions", `{"slug": "email-copywriter", "from": "1", "to": "9"}`, []string{"version not found", "to: "}},
		{"draft_version", `{"slug": "email-copywriter", "message": "x", "settings": {"model": "m", "temperature": "hot"}}`, []string{"/temperature: "}},
		{"draft_version", `{"slug": "email-copywriter", "message": "x", "from": "mix"}`, []string{"label mix is a split"}}, // of both halves
		{"draft_version", `{"slug": "new", "message": "x", "prompt": "x"}`, []string{"Preset not found"}},
		{"draft_version", `{"slug": "old", "message": "x", "prompt": "x"}`, []string{"disabled"}},
		{"read_usage", `{"slug": "summary", "from": "soon"}`, []string{"from: "}},
	} {
		a.refuse(tc.tool, tc.arguments, tc.want...)
	}
	t.Setenv("PRESETS_KEY", caddytest.InferenceSecret)
	startAgent(t).refuse("draft_version", `{"slug": "summary", "message": "x", "prompt": "x"}`, "PRESETS_KEY may not do that")
}

// TestAgentTries checks that an agent sees a request, and sends it if that is allowed.
func TestAgentTries(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		answer, _ := json.Marshal(map[string]any{
			"output": []any{object{"content": []any{object{"type": "output_text", "text": string(body) + r.Header.Get("Authorization")}}}},
			"usage":  object{"input_tokens": 7, "output_tokens": 5},
		})
		_, _ = w.Write(answer)
	})
	s.fill()
	a := startAgent(t, "--allow-send")
	for _, tc := range []struct{ arguments, want string }{
		{`{"slug": "email-copywriter", "version": "staging", "input": "We open."}`, "very friendly"},
		{`{"slug": "email-copywriter", "version": "canary"}`, "Hello"},
		{`{"slug": "tour-guide", "variables": {"city": "Rome"}}`, "You know Rome."},
	} {
		result := a.must("try_version", tc.arguments)
		if body, _ := result["data"].(object)["body"].(string); !strings.Contains(body, tc.want) {
			t.Errorf("try_version %s: got %v, want a body with %q", tc.arguments, result, tc.want)
		}
	}
	a.refuse("try_version", `{"slug": "tour-guide"}`, "city")
	sent := a.must("send_version", `{"slug": "email-copywriter", "version": "1", "input": "We open."}`)
	text, _ := sent["text"].(string)
	if usage, _ := sent["usage"].(object); sent["preset"] != "email-copywriter@1" || !strings.Contains(text, "We open.") || usage["input_tokens"] != 7.0 {
		t.Errorf("got %v, want the answer", sent)
	}
	s.Manage("POST", "/v1/workspaces", `{"name": "Team", "slug": "team"}`)
	s.Manage("POST", "/v1/presets/email-copywriter/responses?workspace_id=team", `{"model": "team-model", "input": "x"}`)
	startAgent(t, "--workspace", "team").refuse("try_version", `{"slug": "email-copywriter"}`, "the keys are of two workspaces")
	s.Upstream.Close()
	a.refuse("send_version", `{"slug": "email-copywriter"}`, "502")
}

// TestAgentPutsLive checks the tools of --allow-live.
func TestAgentPutsLive(t *testing.T) {
	s := start(t, nil)
	s.fill()
	a := startAgent(t, "--allow-live")
	for _, tc := range []struct {
		version      string
		live, before float64
	}{{"staging", 3, 2}, {"1", 1, 3}} {
		got := a.must("put_live", `{"slug": "email-copywriter", "version": "`+tc.version+`"}`)
		if got["live_version"] != tc.live || got["before"] != tc.before {
			t.Errorf("%s: got %v", tc.version, got)
		}
	}
	a.must("set_label", `{"slug": "email-copywriter", "label": "stable", "to": "2:90,3:10"}`)
	a.must("set_label", `{"slug": "email-copywriter", "label": "staging", "to": "1"}`)
	preset := data[object](t, s.Manage("GET", "/v1/presets/email-copywriter", "").Body)["data"].(object)
	if labels := preset["labels"].(object); preset["designated_version_number"] != 1.0 || labels["staging"].(object)["version"] != 1.0 || len(labels["stable"].(object)["split"].([]any)) != 2 {
		t.Errorf("got %v", preset)
	}
	a.refuse("put_live", `{"slug": "email-copywriter", "version": "9"}`, "version not found", "version: ")
	a.refuse("put_live", `{"slug": "email-copywriter", "version": "0"}`, "is no version")
	a.refuse("set_label", `{"slug": "email-copywriter", "label": "latest", "to": "1"}`, "label")
	a.refuse("set_label", `{"slug": "summary", "label": "live", "to": "1"}`, "managed by files")

	// Someone else changes the preset at the same time.
	s.before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			s.Manage("PATCH", "/v1/presets/email-copywriter", `{"description": "changed"}`)
		}
		return false
	})
	a.refuse("put_live", `{"slug": "email-copywriter", "version": "2"}`, "someone else changed the preset")
}

// TestAgentCommandRefuses checks what keeps the command from serving.
func TestAgentCommandRefuses(t *testing.T) {
	start(t, nil)
	wantError(t, "a key cannot be on standard input", "mcp", "--key-file", "-")
	wantError(t, "a key cannot be on standard input", "mcp", "--inference-key-file", "-")
	t.Setenv("PRESETS_INFERENCE_KEY", "")
	wantError(t, "there is no key: set PRESETS_INFERENCE_KEY, or name a file with --inference-key-file", "mcp", "--allow-send")
	t.Setenv("PRESETS_KEY", "")
	wantError(t, "there is no key: set PRESETS_KEY", "mcp")
}

// mustMember returns a member of the data in an answer.
func mustMember(t *testing.T, text, name string) json.RawMessage {
	t.Helper()
	return data[struct {
		Data map[string]json.RawMessage `json:"data"`
	}](t, text).Data[name]
}
