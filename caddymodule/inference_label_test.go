package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
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

// TestLabelsInReferences resolves labels in each style of reference on each route. Every
// change applies at once.
func TestLabelsInReferences(t *testing.T) {
	s := start(t, inferring())
	for n := 1; n <= 3; n++ {
		s.preset("writer", fmt.Sprintf(`{"model":"model-%d"}`, n))
	}
	for _, path := range inferencePaths {
		for _, tc := range []struct{ name, body, model string }{
			{"direct", `{"model":"@preset/writer@staging"}`, ""},
			{"combined", `{"model":"own/m@preset/writer@staging"}`, "own/m"},
			{"field", `{"preset":"writer@staging"}`, ""},
			{"field beside a model", `{"preset":"writer@staging","model":"own/m"}`, "own/m"},
			{"escaped", `{"model":"\u0040preset/writer\u0040st\u0061ging"}`, ""},
		} {
			s.manage("DELETE", "/v1/presets/writer/labels/staging", "")
			missing := s.ask(path, tc.body)
			missing.want(t, 404, "Preset version not found: @preset/writer@staging")
			if missing.header.Get("X-Preset") != "" {
				t.Errorf("%s%s: got X-Preset %q of no preset", tc.name, path, missing.header.Get("X-Preset"))
			}
			s.upstream.none(t)
			for _, n := range []int{2, 1, 3, 1} {
				s.put("writer", "staging", fmt.Sprintf(`{"version":%d}`, n))
				want := tc.model
				if want == "" {
					want = fmt.Sprint("model-", n)
				}
				r := s.ask(path, tc.body)
				r.want(t, http.StatusAccepted)
				if got := s.upstream.one(t).body; got != `{"model":"`+want+`"}` || r.header.Get("X-Preset") != fmt.Sprint("writer@", n) {
					t.Errorf("%s%s: the gateway got %s of %s, want %s of writer@%d", tc.name, path, got, r.header.Get("X-Preset"), want, n)
				}
				s.ask(path, `{"model":"@preset/writer"}`).want(t, http.StatusAccepted)
				if got := s.upstream.one(t).body; got != `{"model":"model-3"}` {
					t.Errorf("without a label: the gateway got %s, want what is designated", got)
				}
			}
		}
		for _, reference := range []string{"latest", "LATEST", "Staging", "4", "0", "2.0", "x"} {
			s.ask(path, `{"model":"@preset/writer@`+reference+`"}`).want(t, 404, "Preset version not found: @preset/writer@"+reference)
		}
	}
	s.upstream.none(t)
}

// TestSplits checks that the split's version is the same in all headers and logs. A session
// keeps it on all routes.
func TestSplits(t *testing.T) {
	s := start(t, inferring()+"\ninference_key another-inference-secret carl")
	s.preset("writer", `{"model":"model-1"}`)
	s.preset("writer", `{"model":"model-2"}`)
	s.put("writer", "live", `{"split":[{"version":1,"weight":50},{"version":2,"weight":50}]}`)
	s.options = "" // the log below shows the headers as header_up sees them
	site := s.siteAt(s.address, fmt.Sprintf("log_append served {http.presets.version}\npresets {\nstorage badger %s\n%s\n}", s.folder, inferring()+"\ninference_key another-inference-secret carl"))
	if err := s.load(site); err != nil {
		t.Fatal(err)
	}
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
	for n := range 40 {
		id := fmt.Sprint("session-", n)
		field := fmt.Sprintf(`,"session_id":%q`, id)
		want := serve(chatPath, inferenceSecret, field)
		served[want]++
		for _, path := range inferencePaths {
			for name, got := range map[string]string{
				"in the body":               serve(path, inferenceSecret, field),
				"in the header":             serve(path, inferenceSecret, "", "X-Session-Id: "+id),
				"in both":                   serve(path, inferenceSecret, field, "X-Session-Id: another"),
				"with another key":          serve(path, "another-inference-secret", field),
				"in the header, not usable": serve(path, inferenceSecret, `,"session_id":"a\n"`, "X-Session-Id: "+id),
				"in the header, not null":   serve(path, inferenceSecret, `,"session_id":null`, "X-Session-Id: "+id),
			} {
				if got != want {
					t.Errorf("session %d %s%s: got version %s, want %s", n, name, path, got, want)
				}
			}
			dry := s.ask(path, `{"model":"@preset/writer@live"`+field+`}`, "X-Preset-Dry-Run: true").described(t)
			if got := dry.Data.Fields["model"]; got.Version == nil || fmt.Sprint(*got.Version) != want {
				t.Errorf("session %d%s: the dry run tells %+v, want version %s", n, path, got, want)
			}
		}
	}
	if served["1"] < 8 || served["2"] < 8 {
		t.Errorf("got sessions served %v, want both versions", served)
	}
	// Without a session the key selects the version.
	for _, secret := range []string{inferenceSecret, "another-inference-secret"} {
		want := serve(chatPath, secret, "")
		for _, path := range inferencePaths {
			if got := serve(path, secret, "", "X-Session-Id: a\xff"); got != want {
				t.Errorf("%s: got version %s of a key, want %s", path, got, want)
			}
		}
	}
	var version string
	entry := s.logged(func() { version = serve(chatPath, inferenceSecret, `,"session_id":"logged"`) })
	if entry["served"] != version {
		t.Errorf("got {http.presets.version} %v, want %s", entry["served"], version)
	}
	// A new weight applies at once, except to those that already have its version.
	s.put("writer", "live", `{"split":[{"version":1,"weight":0},{"version":2,"weight":1}]}`)
	for n := range 20 {
		if got := serve(chatPath, inferenceSecret, fmt.Sprintf(`,"session_id":"session-%d"`, n)); got != "2" {
			t.Errorf("session %d: got version %s, which has no weight", n, got)
		}
	}
	// Requests without a key are not split.
	s.put("writer", "live", `{"split":[{"version":1,"weight":1},{"version":2,"weight":1}]}`)
	for _, mode := range []string{"optional", "off"} {
		s.reload(inferring("keys " + mode))
		clear(served)
		for range 60 {
			served[serve(chatPath, "sk-foreign", "")]++
		}
		if served["1"] == 0 || served["2"] == 0 {
			t.Errorf("keys %s: got requests served %v, want both versions", mode, served)
		}
	}
}

// TestDisabledTools sends disabled tools to each route. Each refuses them in its own
// envelope, and nothing reaches the gateway.
func TestDisabledTools(t *testing.T) {
	s := start(t, inferring())
	s.preset("searcher", `{"model":"m","tools":[{"type":"openrouter:web_search"}]}`)
	s.preset("plain", `{"model":"m"}`)
	const use = `{"model":"m","tools":[{"type":"openrouter:datetime"},{"type":"openrouter:web_search"}]}`
	for _, path := range inferencePaths {
		for _, body := range []string{use, `{"model":"@preset/searcher"}`} {
			s.ask(path, body).want(t, http.StatusAccepted)
		}
	}
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
			if dry := s.ask(path, body, "X-Preset-Dry-Run: true"); dry.status != live.status || dry.body != live.body {
				t.Errorf("%s: a dry run gives %d %s, want %s", name, dry.status, dry.body, live.body)
			}
			if live.header.Get("X-Preset") != "" || live.header.Get("X-Gateway") != "" {
				t.Errorf("%s: got headers %v of an answer from elsewhere", name, live.header)
			}
			responses = append(responses, live)
			for coding, sent := range map[string]string{"gzip": caddytest.Gzip(body), "zstd": caddytest.Encode(t, "zstd", body), "identity": body} {
				for _, request := range []string{
					post(path, sent, bearer(inferenceSecret), "Content-Encoding: "+coding),
					postChunked(path, sent, nil, bearer(inferenceSecret), "Content-Encoding: "+coding),
				} {
					if got := exchange(t, s.address, request); got.status != live.status || got.body != live.body {
						t.Errorf("%s, %s: got %d %s, want %s", name, coding, got.status, got.body, live.body)
					}
				}
			}
		}
		for _, body := range []string{
			`{"tools":[{"type":"openrouter:web_search"}],"tools":[]}`, `{"Tools":[{"Type":"openrouter:web_search"}]}`, `{"tools":[{"type":"openrouter:web_search"}],`,
		} {
			s.ask(path, body).want(t, http.StatusBadRequest)
		}
		golden(t, "inference_disabled_"+name, responses...)
		// Bodies that cannot be parsed are refused.
		for _, request := range []string{
			post(path, use, bearer(inferenceSecret), "Content-Encoding: br"),
			post(path, use, bearer(inferenceSecret), "Content-Encoding: gzip"),
			post(path, caddytest.Gzip(use)+"x", bearer(inferenceSecret), "Content-Encoding: gzip"),
		} {
			exchange(t, s.address, request).want(t, http.StatusUnsupportedMediaType, "Unsupported content encoding: the body is not valid ")
		}
		s.upstream.none(t)
		exchange(t, s.address, post(path, "", bearer(inferenceSecret), "Content-Encoding: br")).want(t, http.StatusBadRequest)
		s.upstream.none(t)
		// Requests without disabled tools pass unchanged.
		for _, body := range []string{
			` {"model":"m" ,"tools":[ {"type":"openrouter\u003adatetime"}],"user":"openrouter:web_search"}` + "\n", `{}`,
		} {
			s.ask(path, body).want(t, http.StatusAccepted)
			if got := s.upstream.one(t).body; got != body {
				t.Errorf("%s: the gateway got %q, want %q", name, got, body)
			}
		}
		s.ask(path, `{"preset":"plain","tools":[{"type":"openrouter:datetime"}]}`).want(t, http.StatusAccepted)
		if got, want := s.upstream.one(t).body, `{"tools":[{"type":"openrouter:datetime"}],"model":"m"}`; got != want {
			t.Errorf("%s: the gateway got %s, want %s", name, got, want)
		}
	}
	s.disable("default", "null")
	s.ask(chatPath, use).want(t, http.StatusAccepted)
}

// TestWhereToolsAreDisabled checks which workspace's settings apply. It is the key's
// workspace. For strangers it is default.
func TestWhereToolsAreDisabled(t *testing.T) {
	s := start(t, inferring("keys optional")+"\ninference_key team-inference-secret carl team")
	const use = `{"tools":[{"type":"openrouter:bash"}]}`
	ask := func(secret string) int { return s.do("POST", messagesPath, use, bearer(secret)).status }
	for _, secret := range []string{inferenceSecret, "team-inference-secret", "sk-foreign"} {
		if got := ask(secret); got != http.StatusAccepted {
			t.Errorf("got status %d, want 202 where nothing is disabled", got)
		}
	}
	s.manage("POST", "/v1/workspaces", `{"name":"Team","slug":"team","disabled_server_tools":["openrouter:bash"]}`).want(t, 201)
	issued := s.issue(`{"kind":"inference","workspace":"team"}`).secret
	for secret, want := range map[string]int{inferenceSecret: 202, "sk-foreign": 202, "team-inference-secret": 403, issued: 403} {
		if got := ask(secret); got != want {
			t.Errorf("disabled in team: got status %d, want %d", got, want)
		}
	}
	s.disable("team", "null")
	s.disable("default", `["openrouter:bash"]`)
	for secret, want := range map[string]int{inferenceSecret: 403, "sk-foreign": 403, "team-inference-secret": 202, issued: 202} {
		if got := ask(secret); got != want {
			t.Errorf("disabled in default: got status %d, want %d", got, want)
		}
	}
	s.reload(inferring("keys off"))
	for _, secret := range []string{inferenceSecret, "sk-foreign", issued} {
		if got := ask(secret); got != 403 {
			t.Errorf("keys off: got status %d, want 403", got)
		}
	}
	s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=true", "").want(t, 200)
	if got := ask("sk-foreign"); got != 202 {
		t.Errorf("the default workspace made anew: got status %d, want 202", got)
	}
	var response struct {
		Data struct {
			Tools *[]string `json:"disabled_server_tools"`
		}
	}
	if err := json.Unmarshal([]byte(s.manage("GET", "/v1/workspaces/team", "").body), &response); err != nil || response.Data.Tools != nil {
		t.Errorf("got %v, %v, want no disabled tools of the team", response.Data.Tools, err)
	}
}
