package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
)

const withInferenceKey = ownkeys.TrialHeader + ": " + inferenceSecret

// try tries a version that is not stored.
func (s *server) try(query, body string, headers ...string) reply {
	s.t.Helper()
	return s.manage("POST", "/v1/presets/"+query, body, headers...)
}

// TestTry compares trials in each dialect with the same version that is stored, and with the same request to it.
func TestTry(t *testing.T) {
	s := start(t, inferring())
	const version = `{"model":"openai/gpt-5","temperature":0.70,"messages":[{"role":"system","content":"Be brief."}],"top_j":1}`
	for _, tc := range []struct{ dialect, path, query, version, request string }{
		{"chat", chatPath, "", version, `{"messages":[{"role":"user","content":"hi"}],"stream":true}`},
		{"chat", chatPath, "", version, `{"model":"openai/gpt-5-mini","messages":[]}`},
		{"chat", chatPath, "?template=true", `{"model":"m","messages":[{"role":"user","content":"In {{city}}"}]}`, `{"prompt":{"variables":{"city":"Rome"}}}`},
		{"responses", responsesPath, "", writer, `{"input":"hi"}`},
		{"messages", messagesPath, "", `{"model":"claude","max_tokens":10,"system":"Be brief."}`, `{"messages":[{"role":"user","content":"hi"}]}`},
	} {
		t.Run(tc.dialect, func(t *testing.T) {
			body := `{"dialect":"` + tc.dialect + `","version":` + tc.version + `,"request":` + tc.request + `}`
			tried := s.try("new/try"+tc.query, body, withInferenceKey)
			tried.want(t, 202, "from the gateway")
			got := s.upstream.one(t)
			s.manage("POST", "/v1/presets/stored"+strings.TrimPrefix(tc.path, "/v1")+tc.query, tc.version).want(t, 200)
			s.ask(tc.path, strings.Replace(tc.request, "{", `{"preset":"stored",`, 1)).want(t, 202)
			if want := s.upstream.one(t); got.body != want.body || got.uri != tc.path || got.method != "POST" {
				t.Errorf("the gateway got %s %s\n%s, want\n%s", got.method, got.uri, got.body, want.body)
			}
			if tried.header.Get("X-Preset") != "new@unsaved" || tried.header.Get("X-Preset-Request-Id") != "" {
				t.Errorf("got %v", tried.header)
			}
			if strings.Contains(tc.version, "top_j") && tried.header.Get("X-Preset-Ignored") != "top_j" {
				t.Errorf("got X-Preset-Ignored %q, want top_j", tried.header.Get("X-Preset-Ignored"))
			}
			for _, key := range []string{managementSecret, inferenceSecret} {
				if s.upstream.saw(key) || strings.Contains(s.logs(), key) {
					t.Error("the gateway or the log has a key")
				}
			}
			dry := s.try("new/try"+tc.query, body, "X-Preset-Dry-Run: true").described(t)
			if dry.Data.Body != got.body || dry.Data.Path != tc.path {
				t.Errorf("a dry run gives %v", dry)
			}
			s.upstream.none(t)
		})
	}
	s.manage("GET", "/v1/presets/new", "").want(t, 404) // nothing is stored
}

// TestTryRefused has trials that are refused, and where their errors are.
func TestTryRefused(t *testing.T) {
	s := start(t, inferring())
	s.preset("strict", writer)
	s.manage("PATCH", "/v1/presets/strict", `{"policy":{"models":["openai/*"],"violation":"refuse"}}`).want(t, 200)
	s.manage("POST", "/v1/workspaces", `{"name":"n","slug":"elsewhere"}`).want(t, 201)
	s.preset("gone", writer)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	outsider := s.issue(`{"kind":"inference","workspace":"elsewhere"}`)
	narrow := s.issue(`{"kind":"inference","presets":["other"]}`)
	const chat = `{"dialect":"chat","version":{"model":"openai/m"},"request":{"messages":[]}}`
	for _, tc := range []struct {
		name, path, body string
		headers          []string
		status           int
		want             string
	}{
		{"no inference key", "strict/try", chat, nil, 401, "X-Inference-Key"},
		{"a management key", "strict/try", chat, []string{ownkeys.TrialHeader + ": " + managementSecret}, 403, "Management keys cannot be used for inference"},
		{"two inference keys", "strict/try", chat, []string{withInferenceKey, withInferenceKey}, 400, `"path":"x-inference-key"`},
		{"a key of another workspace", "strict/try", chat, []string{ownkeys.TrialHeader + ": " + outsider.secret}, 400, `"path":"x-inference-key"`},
		{"a key of other presets", "strict/try", chat, []string{ownkeys.TrialHeader + ": " + narrow.secret}, 404, "preset/strict"},
		{"another workspace", "strict/try?workspace_id=elsewhere", chat, []string{withInferenceKey}, 400, `"path":"x-inference-key"`},
		{"no workspace", "strict/try?workspace_id=absent", chat, []string{withInferenceKey}, 404, "Workspace not found"},
		{"archived", "gone/try", chat, []string{withInferenceKey}, 404, "preset/gone"},
		{"a wrong version", "strict/try", `{"dialect":"chat","version":{"temperature":"x"},"request":{}}`, []string{withInferenceKey}, 400, `"path":"/version/temperature"`},
		{"no version", "strict/try", `{"dialect":"chat","version":null}`, []string{withInferenceKey}, 400, `"path":"/request"`},
		{"no dialect", "strict/try", `{"dialect":"chat/completions","version":{},"request":{}}`, []string{withInferenceKey}, 400, `"path":"/dialect"`},
		{"another preset", "strict/try", `{"dialect":"chat","version":{},"request":{"model":"@preset/gone"}}`, []string{withInferenceKey}, 400, `"path":"/request/model"`},
		{"a version of it", "strict/try", `{"dialect":"chat","version":{},"request":{"preset":"strict@1"}}`, []string{withInferenceKey}, 400, `"path":"/request/preset"`},
		{"a wrong request", "strict/try", `{"dialect":"messages","version":{},"request":{"prompt":3}}`, []string{withInferenceKey}, 400, "/request/prompt"},
		{"policy", "strict/try", `{"dialect":"chat","version":{"model":"openai/m"},"request":{"model":"other/m"}}`, []string{withInferenceKey}, 403, "model"},
		{"a wrong dry run", "strict/try", chat, []string{"X-Preset-Dry-Run: 1"}, 400, "x-preset-dry-run"},
		{"no management key", "strict/try", chat, []string{"Authorization: Bearer " + inferenceSecret}, 400, "authorization"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.try(tc.path, tc.body, tc.headers...).want(t, tc.status, tc.want)
			s.upstream.none(t)
		})
	}
	s.do("POST", "/v1/presets/strict/try", chat, bearer(inferenceSecret), withInferenceKey).want(t, 403, "Only management keys")
	s.try("strict/try", `{"dialect":"chat","version":{"model":"openai/m"},"request":{"model":"@preset/strict"}}`, withInferenceKey).want(t, 202)
	s.reload(inferring("keys off"))
	s.try("strict/try", chat).want(t, 202)
	s.try("strict/try?workspace_id=elsewhere", chat).want(t, 400, "x-inference-key")
	s.reload(inferring("keys optional"))
	s.try("strict/try", chat, ownkeys.TrialHeader+": foreign-key-of-the-gateway").want(t, 401)
	s.reload(standard)
	s.try("strict/try", chat, withInferenceKey).want(t, 404, "inference block")
}

// TestTryCounts checks that a trial counts for the limits of its preset and its key, and in usage as unsaved.
func TestTryCounts(t *testing.T) {
	s := start(t, inferring(usageBlock))
	s.preset("writer", `{"model":"m"}`)
	s.upstream.answers(replyWith(http.StatusOK, "application/json", `{"model":"m","usage":{"prompt_tokens":3,"completion_tokens":2}}`))
	const chat = `{"dialect":"chat","version":{"model":"m"},"request":{"messages":[]}}`
	s.try("writer/try", chat, withInferenceKey).want(t, 200)
	s.try("new/try", chat, withInferenceKey).want(t, 200)
	s.ask(chatPath, `{"preset":"writer","messages":[]}`).want(t, 200)
	const want = "{\"version\":1} 1/0 3+2\n{\"version\":null} 1/0 3+2"
	var got report
	if !s.eventually(func() bool { got = s.usage("/v1/presets/writer/usage"); return got.summary() == want }) {
		t.Errorf("got %s, want %s", got.summary(), want)
	}
	if got := s.usage("/v1/workspaces/default/usage?by=preset").summary(); got != "{\"preset\":\"writer\"} 2/0 6+4\n{\"preset\":null} 1/0 3+2" {
		t.Errorf("got %s", got)
	}
	s.manage("PATCH", "/v1/presets/writer", `{"limits":{"requests_per_minute":1}}`).want(t, 200)
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerMinute: 2}}, "")
	s.ask(chatPath, `{"preset":"writer","messages":[]}`).want(t, 200)
	s.try("writer/try", chat, ownkeys.TrialHeader+": "+k.secret).want(t, 429, "for this preset")
	s.try("writer/try", chat, ownkeys.TrialHeader+": "+k.secret, "X-Preset-Dry-Run: true").want(t, 200)
	s.try("new/try", chat, ownkeys.TrialHeader+": "+k.secret).want(t, 200)
	s.try("new/try", chat, ownkeys.TrialHeader+": "+k.secret).want(t, 200)
	r := s.try("new/try", chat, ownkeys.TrialHeader+": "+k.secret)
	r.want(t, 429)
	var body struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Error.Code != 429 {
		t.Errorf("got %s", r.body)
	}
}
