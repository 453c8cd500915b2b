package caddymodule

import (
	"net/http"
	"testing"
)

// The routes for images, of OpenAI and of OpenRouter.
const (
	generationsPath = "/v1/images/generations"
	imagesPath      = "/v1/images"
)

// TestImageRoutes generates images with a preset, and with the workspace's model. Keys, limits, policies and dry runs
// act as on the other routes.
func TestImageRoutes(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("poster", `{"model":"openai/gpt-image-2","instructions":"Be brief.","temperature":0.70,"provider":{"sort":"price"},"image_config":{"aspect_ratio":"3:4","quality":"high"}}`)
	for path, tc := range map[string]struct{ want, dropped string }{
		generationsPath: {`{"model":"openai/gpt-image-2","prompt":"a","quality":"high"}`, "temperature, system_prompt, provider, aspect_ratio"},
		imagesPath:      {`{"model":"openai/gpt-image-2","prompt":"a","provider":{"sort":"price"},"aspect_ratio":"3:4","quality":"high"}`, "temperature, system_prompt"},
	} {
		const body = `{"model":"@preset/poster","prompt":"a"}`
		r := s.ask(path, body, "X-Session-Id: s")
		r.want(t, 202)
		got := s.upstream.one(t)
		if got.body != tc.want || got.uri != path || got.header.Get("Authorization") != "" || got.header.Get("X-Session-Id") != "s" {
			t.Errorf("%s: the gateway got %s %v\n%s, want\n%s", path, got.uri, got.header, got.body, tc.want)
		}
		if r.header.Get("X-Preset") != "poster@1" || r.header.Get("X-Preset-Dropped") != tc.dropped || r.header.Get("X-Preset-Request-Id") == "" {
			t.Errorf("%s: got the headers %v, want dropped %q", path, r.header, tc.dropped)
		}
		dry := s.ask(path, body, "X-Preset-Dry-Run: true").described(t)
		if dry.Data.Body != tc.want || dry.Data.Path != path || dry.Data.Fields["quality"].From != "preset" {
			t.Errorf("%s: a dry run gives %v", path, dry)
		}
		s.do("POST", path, body).want(t, http.StatusUnauthorized)
		s.do("POST", path, body, bearer(managementSecret)).want(t, http.StatusForbidden)
		s.ask(path, `{"model":"@preset/absent"}`).want(t, http.StatusNotFound, `{"error":{"code":404,"message":"Preset not found: @preset/absent"`)
		s.upstream.none(t)

		const plain = `{"prompt" : "a" }`
		s.ask(path, plain).want(t, 202)
		if got := s.upstream.one(t).body; got != plain {
			t.Errorf("%s: the gateway got %s, want %s", path, got, plain)
		}
		s.manage("PATCH", "/v1/workspaces/default", `{"default_image_model":"google/draw"}`).want(t, 200)
		s.ask(path, plain).want(t, 202)
		const filled = `{"model":"google/draw","prompt" : "a" }`
		if got := s.upstream.one(t); got.body != filled || got.header.Get("Content-Length") != "39" {
			t.Errorf("%s: the gateway got %s of the length %s, want %s", path, got.body, got.header.Get("Content-Length"), filled)
		}
		if dry := s.ask(path, plain, "X-Preset-Dry-Run: true").described(t); dry.Data.Body != filled || dry.Data.Fields["model"].From != "workspace" {
			t.Errorf("%s: a dry run gives %v", path, dry)
		}
		s.ask(chatPath, `{"messages":[],"modalities":["image","text"]}`).want(t, 202)
		if got := s.upstream.one(t).body; got != `{"model":"google/draw","messages":[],"modalities":["image","text"]}` {
			t.Errorf("the gateway got %s", got)
		}
		s.manage("PATCH", "/v1/workspaces/default", `{"default_image_model":null}`).want(t, 200)
	}

	s.setPolicy("poster", `{"lock":["image_config"],"violation":"refuse"}`)
	s.ask(imagesPath, `{"model":"@preset/poster","size":"4K"}`).want(t, http.StatusForbidden, "/size")
	limited := bearer(s.issue(`{"kind":"inference","models":["a"]}`).secret)
	s.do("POST", generationsPath, `{"model":"a","svg":{"model":"b"}}`, limited).want(t, http.StatusForbidden, "/svg/model")
	s.do("POST", generationsPath, `{"model":"a","deployment_id":"b"}`, limited).want(t, http.StatusBadRequest, "/deployment_id")
	for _, path := range []string{"/v1/images/edits", "/v1/images/models"} {
		s.do("POST", path, `{"model":"a"}`, limited).want(t, http.StatusForbidden)
	}
	s.do("GET", imagesPath+"/models", "", limited).want(t, http.StatusForbidden)
	s.upstream.none(t)
	s.do("GET", imagesPath+"/models", "", bearer(inferenceSecret)).want(t, 202)
	s.do("POST", generationsPath, `{"model":"a","prompt":"p","n":1}`, limited).want(t, 202)
}
