package caddymodule

import (
	"net/http"
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
