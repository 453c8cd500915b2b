package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	countMessagesPath  = "/v1/messages/count_tokens"
	countResponsesPath = "/v1/responses/input_tokens"
	compactPath        = "/v1/responses/compact"
)

// TestCounts checks that a count or a compaction gets the preset's fields as its inference route
// does. It gets only the fields that it accepts.
func TestCounts(t *testing.T) {
	s := start(t, inferring("drop_fields speed"))
	s.preset("writer", `{"model":"openai/gpt-5","instructions":"Be brief.","temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],
		"provider":{"sort":"price"},"reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{}}],"truncation":"auto"}`)
	s.manage("PATCH", "/v1/workspaces/default", `{"default_provider_sort":"price"}`).want(t, 200)
	for path, tc := range map[string]struct{ body, want, dropped string }{
		countResponsesPath: {
			`{"model":"@preset/writer","input":"hi","max_output_tokens":5}`,
			`{"model":"openai/gpt-5","input":"hi","max_output_tokens":5,"reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{}}],"truncation":"auto","instructions":"Be brief."}`,
			"",
		},
		compactPath: {
			`{"model":"gpt-5-mini@preset/writer","instructions":"Own.","input":[{"role":"user","content":"hi"}],"prompt_cache_key":"k"}`,
			`{"model":"gpt-5-mini","instructions":"Be brief.\n\nOwn.","input":[{"role":"user","content":"hi"}],"prompt_cache_key":"k","reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{}}]}`,
			"",
		},
		countMessagesPath: {
			`{"preset":"writer@1","messages":[],"speed":"fast"}`,
			`{"messages":[],"model":"openai/gpt-5","output_config":{"effort":"low"},"tools":[{"name":"f","input_schema":{}}],"system":"Be brief."}`,
			"include, truncation, speed",
		},
	} {
		r := s.ask(path, tc.body)
		r.want(t, 202)
		got := s.upstream.one(t)
		if got.body != tc.want || got.uri != path || got.header.Get("Authorization") != "" {
			t.Errorf("%s: the gateway got %s %v\n%s, want\n%s", path, got.uri, got.header, got.body, tc.want)
		}
		if r.header.Get("X-Preset") != "writer@1" || r.header.Get("X-Preset-Dropped") != tc.dropped {
			t.Errorf("%s: got X-Preset %q and X-Preset-Dropped %q, want %q", path, r.header.Get("X-Preset"), r.header.Get("X-Preset-Dropped"), tc.dropped)
		}
		dry := s.ask(path, tc.body, "X-Preset-Dry-Run: true").described(t)
		if dry.Data.Body != tc.want || dry.Data.Path != path {
			t.Errorf("%s: a dry run gives %v", path, dry)
		}
		s.upstream.none(t)

		const plain = `{"model" : "m" }`
		s.ask(path, plain).want(t, 202)
		if got := s.upstream.one(t).body; got != plain {
			t.Errorf("%s: the gateway got %s, want %s", path, got, plain)
		}
		s.do("POST", path, tc.body).want(t, 401)
		s.do("POST", path, tc.body, bearer(managementSecret)).want(t, 403)
		s.ask(path, `{"model":"@preset/absent"}`).want(t, 404)
		s.upstream.none(t)
	}

	// Each refusal has the envelope of its route's clients.
	s.ask(countMessagesPath, `{"model":"@preset/absent"}`).want(t, 404, `{"type":"error","error":{"type":"not_found_error"`)
	s.ask(countResponsesPath, `{"model":"@preset/absent"}`).want(t, 404, `{"error":{"code":404,"type":"preset_not_found",`)
	s.ask(compactPath, `{"model":"@preset/absent"}`).want(t, 404, `{"error":{"code":404,"type":"preset_not_found",`)
	s.manage("PATCH", "/v1/workspaces/default", `{"disabled_server_tools":["openrouter:web_search"]}`).want(t, 200)
	for _, path := range []string{countMessagesPath, countResponsesPath, compactPath} {
		s.ask(path, `{"model":"@preset/writer","tools":[{"type":"openrouter:web_search"}]}`).want(t, 403, "openrouter:web_search")
		s.ask(path, `{"model":"m","tools":[{"type":"openrouter:web_search"}]}`).want(t, 403, "openrouter:web_search")
	}
	s.upstream.none(t)
	send(t, "GET", "http://"+s.admin+"/metrics", "").want(t, 200,
		`caddy_presets_resolutions_total{operation="inference_messages_count",result="resolved"} 2`,
		`caddy_presets_resolutions_total{operation="inference_responses_count",result="passed"} 1`,
	)
	s.ask(countMessagesPath, `{"model":"@preset/writer"}`, "X-Session-Id: s").want(t, 202)
	if got := s.upstream.one(t).header.Get("X-Session-Id"); got != "s" {
		t.Errorf("got session %q", got)
	}
}

// TestModelOfAPreset requests a preset as a model. The answer is its entry in the list.
func TestModelOfAPreset(t *testing.T) {
	s := start(t, inferring("list_models on"))
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	key := s.issue(`{"kind":"inference","workspace":"team"}`).secret
	s.preset("writer", `{"model":"a/b"}`)
	s.preset("gone", `{"model":"a/b"}`)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	s.manage("POST", "/v1/presets/in-team/responses?workspace_id=team", writer).want(t, 200)

	response := func(status int, media, body string) {
		s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("ETag", `"the-lists"`)
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
	}
	get := func(path string, headers ...string) reply {
		t.Helper()
		return s.do("GET", path, "", append(headers, "If-None-Match: *", "Accept-Encoding: gzip")...)
	}
	const openAI = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}`
	const openRouter = `{"id": "a/b","canonical_slug":"a/b-2026","name":"A: B","created":1741818122,"context_length":131072.0,"pricing":{"prompt":"1E-6"}}`
	for _, list := range []string{openAI, `{"data":[` + openRouter + `]}`, `{"data":[` + openRouter + `],"links":{"next":"/2"}}`} {
		response(200, "application/json; charset=utf-8", list)
		shown := get("/v1/models?x=y", bearer(inferenceSecret)).body
		s.upstream.all()
		for _, path := range []string{
			"/v1/models/@preset%2Fwriter?x=y", "/v1/models/@preset/writer?x=y", "/v1/models/%40preset%2fwriter?x=y", "/v1//models/@preset/writer/?x=y", "/v1/models/@preset%252Fwriter?x=y",
		} {
			r := get(path, bearer(inferenceSecret))
			r.want(t, 200, `{"id":"@preset/writer",`)
			if !strings.Contains(list, "next") && !strings.Contains(shown, r.body) {
				t.Errorf("%s: got %s, want what is in %s", path, r.body, shown)
			}
			if r.header.Get("Content-Type") != "application/json" || r.header.Get("Content-Length") != fmt.Sprint(len(r.body)) || r.header.Get("ETag") != "" || r.header.Get("Vary") != "Authorization, X-Api-Key" {
				t.Errorf("%s: got headers %v", path, r.header)
			}
			got := s.upstream.one(t)
			if got.method != "GET" || got.uri != "/v1/models?x=y" || got.header.Get("Authorization") != "" || got.header.Get("If-None-Match") != "" {
				t.Errorf("%s: the gateway got %v", path, got)
			}
		}
		for _, slug := range []string{"in-team", "gone", "absent", "writer@1", "Writer"} {
			r := get("/v1/models/@preset%2F"+slug, bearer(inferenceSecret))
			r.wantError(t, 404, "Preset not found: @preset/"+slug)
			if r.header.Get("ETag") != "" {
				t.Errorf("%s: got headers %v", slug, r.header)
			}
		}
		get("/v1/models/@preset%2Fin-team", "X-Api-Key: "+key).want(t, 200, `{"id":"@preset/in-team",`)
		get("/v1/models/@preset%2Fwriter", "X-Api-Key: "+key).wantError(t, 404, "Preset not found: @preset/writer")
	}
	// If the gateway has a model of that name, the list shows the gateway's.
	own := `{"id":"@preset/writer" , "object":"model"}`
	response(200, "application/json", `{"object":"list","data":[ `+own+` ]}`)
	if r := get("/v1/models/@preset%2Fwriter", bearer(inferenceSecret)); r.status != 200 || r.body != own {
		t.Errorf("got %v, want %s", r, own)
	}
	response(200, "application/json", `{"models":["m"]}`)
	get("/v1/models/@preset%2Fwriter", bearer(inferenceSecret)).wantError(t, 404, "Model not found: @preset/writer. The gateway's list of models has a form to which no presets are added")
	for status, media := range map[int]string{503: "application/json", 401: "application/json", 200: "text/html"} {
		response(status, media, "the gateway's")
		if r := get("/v1/models/@preset%2Fwriter", bearer(inferenceSecret)); r.status != status || r.body != "the gateway's" {
			t.Errorf("got %v, want %d and the gateway's", r, status)
		}
	}
	s.upstream.all()
	get("/v1/models/@preset%2Fwriter").wantError(t, 401, "Missing Authentication header")
	get("/v1/models/@preset%2Fwriter", bearer(managementSecret)).wantError(t, 403, "")
	s.upstream.none(t)
	response(200, "application/json", openAI)
	passes := func(path string) {
		t.Helper()
		get(path, bearer(inferenceSecret)).want(t, 200, openAI)
		if got := s.upstream.one(t).uri; got != path {
			t.Errorf("the gateway got %s, want %s", got, path)
		}
	}
	for _, path := range []string{"/v1/models/m", "/v1/models/a%2Fb@preset%2Fwriter", "/v1/models/@preset", "/v1/models/@preset/writer/endpoints", "/models/@preset%2Fwriter"} {
		passes(path)
	}
	s.reload(inferring("list_models on", "keys off"))
	get("/v1/models/@preset%2Fwriter").want(t, 200, `{"id":"@preset/writer",`)
	s.upstream.all()
	s.reload(inferring("list_models off"))
	passes("/v1/models/@preset%2Fwriter")
	s.reload(standard)
	passes("/v1/models/@preset/writer")
}

// TestWebSocketsOnInferenceRoutes asks for WebSockets on inference routes. They are refused with
// 426 in the route's form, unless the setting hands them on. Then they need a key, as a POST does.
func TestWebSocketsOnInferenceRoutes(t *testing.T) {
	s := start(t, inferring("keys required"))
	ask := func(path string, headers ...string) reply {
		return exchange(t, s.address, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n"+lines(headers)+"\r\n")
	}
	key := bearer(inferenceSecret)
	for _, mode := range []string{"everywhere", "required", "optional", "off"} {
		s.reload(inferring("keys " + mode))
		for path, parts := range map[string]string{
			"/v1/responses":                `{"error":{"code":426,"type":"invalid_prompt","message":"This route serves no WebSocket: send a POST over HTTP"},"metadata":null}`,
			"/v1/responses?model=m":        `{"error":{"code":426,"type":"invalid_prompt",`,
			"/v1/responses/input_tokens":   `{"error":{"code":426,"type":"invalid_prompt",`,
			"/v1/chat%2Fcompletions":       `{"error":{"code":426,"message":"This route serves no WebSocket: send a POST over HTTP"}}`,
			"/v1//messages/":               `{"type":"error","error":{"type":"invalid_request_error","message":"This route serves no WebSocket: send a POST over HTTP"}}`,
			"/v1/messages/count_tokens;a=": `{"type":"error",`,
		} {
			for _, header := range []string{"X-None: 1", key, bearer("caddypresets_inf_x"), bearer(managementSecret)} {
				r := ask(path, header)
				r.want(t, http.StatusUpgradeRequired, parts)
				if r.header.Get("Upgrade") != "HTTP/1.1" || r.header.Get("Connection") != "Upgrade" || uuids.FindString(r.header.Get("X-Request-Id")) == "" {
					t.Errorf("%s: got headers %v", path, r.header)
				}
			}
		}
	}
	s.upstream.none(t)
	if got := s.metric(`caddy_presets_resolutions_total{operation="inference_messages",result="refused"}`); got != "4" { // since the last reload
		t.Errorf("got %s refusals in the metrics, want 4", got)
	}
	s.reload(inferring("keys required"))
	ask("/v1/realtime").want(t, 202)
	if r := s.do("GET", "/v1/responses", ""); r.status != 202 { // a list, which no preset concerns
		t.Errorf("a plain GET got %d", r.status)
	}
	s.upstream.all()

	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	for _, pass := range []string{"keys required\nwebsockets pass", "keys everywhere\nwebsockets pass"} {
		s.reload(inferring(pass))
		for _, path := range []string{"/v1/responses", "/v1/chat%2Fcompletions"} {
			ask(path).want(t, 401)
			ask(path, limited).want(t, 403)
			s.upstream.none(t)
			ask(path, key).want(t, 202)
			if got := s.upstream.one(t); got.header.Get("Upgrade") != "websocket" || got.uri != path {
				t.Errorf("%s: the gateway got %v", path, got)
			}
		}
	}
	s.reload(standard)
	ask("/v1/responses").want(t, 202)
}

// TestHeadOfModels checks that a HEAD of the lists of models is answered like a GET.
func TestHeadOfModels(t *testing.T) {
	s := start(t, inferring("list_models on"))
	s.preset("p", `{"model":"m"}`)
	s.upstream.answers(replyWith(200, "application/json", `{"object":"list","data":[]}`))
	for _, path := range []string{"/v1/models", "/v1/models/@preset%2Fp"} {
		get, head := s.do("GET", path, "", bearer(inferenceSecret)), s.do("HEAD", path, "", bearer(inferenceSecret))
		if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") || head.header.Get("Vary") != get.header.Get("Vary") {
			t.Errorf("%s: got %d %v %q, want the headers of %v", path, head.status, head.header, head.body, get.header)
		}
	}
}
