package caddymodule

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// put sets a label of a preset in the workspace default. The target is JSON.
func (s *server) put(slug, label, target string) {
	s.t.Helper()
	if r := s.manage("PUT", "/v1/presets/"+slug+"/labels/"+label, target); r.status >= 300 {
		s.t.Fatalf("got status %d: %s", r.status, r.body)
	}
}

// disable sets a workspace's disabled server tools to a JSON list or null.
func (s *server) disable(workspace, tools string) {
	s.t.Helper()
	s.manage("PATCH", "/v1/workspaces/"+workspace, `{"disabled_server_tools":`+tools+`}`).want(s.t, 200)
}

// TestLabelsInReferences resolves a label in each style of reference on each route. Every change
// applies at once.
func TestLabelsInReferences(t *testing.T) {
	s := start(t, inferring())
	for n := 1; n <= 3; n++ {
		s.preset("writer", fmt.Sprintf(`{"model":"model-%d"}`, n))
	}
	for _, path := range inferencePaths {
		for body, model := range map[string]string{
			`{"model":"@preset/writer@staging"}`: "", `{"model":"own/m@preset/writer@staging"}`: "own/m", `{"preset":"writer@staging"}`: "",
		} {
			s.manage("DELETE", "/v1/presets/writer/labels/staging", "")
			s.ask(path, body).want(t, 404, "Preset version not found: @preset/writer@staging")
			s.upstream.none(t)
			for _, n := range []int{2, 1} {
				s.put("writer", "staging", fmt.Sprintf(`{"version":%d}`, n))
				r, want := s.ask(path, body), cmp.Or(model, fmt.Sprint("model-", n))
				r.want(t, http.StatusAccepted)
				if got := s.upstream.one(t).body; got != `{"model":"`+want+`"}` || r.header.Get("X-Preset") != fmt.Sprint("writer@", n) {
					t.Errorf("%s%s: the gateway got %s of %s, want %s of writer@%d", body, path, got, r.header.Get("X-Preset"), want, n)
				}
			}
		}
	}
	s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, http.StatusAccepted)
	if got := s.upstream.one(t).body; got != `{"model":"model-3"}` {
		t.Errorf("without a label: the gateway got %s, want what is designated", got)
	}
}

// TestSplits checks that the split's version is the same in all headers and logs. A session keeps it
// on all routes, whoever asks.
func TestSplits(t *testing.T) {
	tier.NoRace(t)
	const keys = "\ninference_key another-inference-secret carl"
	s := start(t, standard)
	s.preset("writer", `{"model":"model-1"}`)
	s.preset("writer", `{"model":"model-2"}`)
	s.put("writer", "live", `{"split":[{"version":1,"weight":50},{"version":2,"weight":50}]}`)
	s.reloadBehind("log_append served {http.presets.version}", inferring()+keys)
	serve := func(path, secret, fields string, headers ...string) (version string) {
		t.Helper()
		r := s.do("POST", path, `{"model":"@preset/writer@live"`+fields+`}`, append([]string{bearer(secret)}, headers...)...)
		r.want(t, http.StatusAccepted)
		version = strings.TrimPrefix(r.header.Get("X-Preset"), "writer@")
		if got := s.upstream.one(t).body; !strings.Contains(got, `"model":"model-`+version+`"`) {
			t.Errorf("X-Preset tells version %s, and the gateway got %s", version, got)
		}
		return version
	}
	served := map[string]int{}
	for n := range 24 {
		id := fmt.Sprint("session-", n)
		field := fmt.Sprintf(`,"session_id":%q`, id)
		want := serve(chatPath, inferenceSecret, field)
		served[want]++
		for _, path := range append(inferencePaths, countMessagesPath) {
			for name, got := range map[string]string{
				"in the body":      serve(path, inferenceSecret, field),
				"in the header":    serve(path, inferenceSecret, "", "X-Session-Id: "+id),
				"with another key": serve(path, "another-inference-secret", field, "X-Session-Id: another"),
			} {
				if got != want {
					t.Errorf("session %d %s%s: got version %s, want %s", n, name, path, got, want)
				}
			}
		}
		dry := s.ask(chatPath, `{"model":"@preset/writer@live"`+field+`}`, "X-Preset-Dry-Run: true").described(t)
		if got := dry.Data.Fields["model"]; got.Version == nil || fmt.Sprint(*got.Version) != want {
			t.Errorf("session %d: the dry run tells %+v, want version %s", n, got, want)
		}
	}
	if served["1"] == 0 || served["2"] == 0 {
		t.Errorf("got sessions served %v, want both versions", served)
	}
	var version string
	entry := s.logged(func() { version = serve(chatPath, inferenceSecret, `,"session_id":"logged"`) })
	if entry["served"] != version {
		t.Errorf("got {http.presets.version} %v, want %s", entry["served"], version)
	}
}

// TestDisabledTools sends disabled tools, also by other names, to each route. Each refuses them in its
// own envelope, in dry runs and in each encoding, and nothing reaches the gateway. What a gateway may
// read differently is refused, too.
func TestDisabledTools(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring())
	s.preset("searcher", `{"model":"m","tools":[{"type":"openrouter:web_search"}]}`)
	s.preset("plain", `{"model":"m"}`)
	const use = `{"model":"m","tools":[{"type":"openrouter:datetime"},{"type":"openrouter:web_search"}]}`
	s.ask(chatPath, use).want(t, http.StatusAccepted)
	s.upstream.all()
	s.disable("default", `["openrouter:web_fetch","openrouter:web_search"]`)
	for name, path := range map[string]string{"chat": chatPath, "responses": responsesPath, "messages": messagesPath} {
		var responses []reply
		for _, body := range []string{
			use,
			`{"model":"@preset/searcher"}`,
			`{"model":"@preset/plain","tools":[{"type":"openrouter:subagent","parameters":{"tools":[{"type":"openrouter:web_fetch"}]}}]}`,
			`{"model":"m","plugins":[{"id":"fusion","tools":[{"type":"openrouter\u003aweb_search"}]}]}`,
		} {
			live := s.ask(path, body, "X-Session-Id: s")
			live.want(t, http.StatusForbidden)
			if live.header.Get("X-Preset") != "" || live.header.Get("X-Gateway") != "" {
				t.Errorf("%s: got headers %v of an answer from elsewhere", name, live.header)
			}
			responses = append(responses, live)
			for _, request := range []string{
				post(path, body, bearer(inferenceSecret), "X-Preset-Dry-Run: true"), postChunked(path, body, nil, bearer(inferenceSecret)),
				post(path, caddytest.Encode(t, "zstd", body), bearer(inferenceSecret), "Content-Encoding: zstd"),
			} {
				if got := exchange(t, s.address, request); got.status != live.status || got.body != live.body {
					t.Errorf("%s: got %d %s, want %s of %.200q", name, got.status, got.body, live.body, request)
				}
			}
		}
		golden(t, "inference_disabled_"+name, responses...)
		for _, tc := range []struct {
			body, message string
			status        int
			header        string
		}{
			{`{"model":"openai/gpt-5:online"}`, "Server tool openrouter:web_search is disabled in this workspace", 403, ""},
			{`{"tool_choice":{"type":"web_search_preview"}}`, "Server tool openrouter:web_search is disabled in this workspace", 403, ""},
			{`{"tools":[{"type":"openrouter:web_search"}],"tools":[]}`, "/tools: ", 400, ""},
			{`{"plugins":{"web":{}}}`, "/plugins: must be an array of objects", 400, ""},
			{`{"+AHQ-ools":[]}`, "content-type: must be application/json, with no parameter but charset=utf-8, where server tools are disabled", 400, "Content-Type: application/json; charset=utf-7"},
			{use, "Unsupported content encoding: the body is not valid ", 415, "Content-Encoding: zstd"},
			{"", "body", 400, "Content-Encoding: zstd"},
		} {
			s.ask(path, tc.body, cmp.Or(tc.header, "X-None: 1")).want(t, tc.status, tc.message)
		}
		s.upstream.none(t)
		// Requests without disabled tools pass unchanged.
		const free = ` {"model":"m" ,"tools":[ {"type":"openrouter\u003adatetime"}],"user":"openrouter:web_search"}` + "\n"
		s.ask(path, free, "Content-Type: application/json; charset=UTF-8").want(t, http.StatusAccepted)
		if got := s.upstream.one(t).body; got != free {
			t.Errorf("%s: the gateway got %q, want %q", name, got, free)
		}
	}
}

// TestWhereToolsAreDisabled checks which workspace's settings apply: those of the key's workspace, and
// for strangers those of the default one.
func TestWhereToolsAreDisabled(t *testing.T) {
	s := start(t, inferring("keys optional")+"\ninference_key team-inference-secret carl team")
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	issued := s.issue(`{"kind":"inference","workspace":"team"}`).secret
	for workspace, want := range map[string]map[string]int{
		"team":    {inferenceSecret: 202, "sk-foreign": 202, "team-inference-secret": 403, issued: 403},
		"default": {inferenceSecret: 403, "sk-foreign": 403, "team-inference-secret": 202, issued: 202},
	} {
		s.disable(workspace, `["openrouter:bash"]`)
		for secret, status := range want {
			s.do("POST", messagesPath, `{"tools":[{"type":"openrouter:bash"}]}`, bearer(secret)).want(t, status)
		}
		s.disable(workspace, "null")
	}
	s.disable("default", `["openrouter:bash"]`)
	s.reload(inferring("keys off"))
	for _, secret := range []string{inferenceSecret, "sk-foreign", issued} {
		s.do("POST", messagesPath, `{"tools":[{"type":"openrouter:bash"}]}`, bearer(secret)).want(t, 403)
	}
}
