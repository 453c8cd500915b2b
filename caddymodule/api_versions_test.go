package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A list of summaries is small, however large the versions are.
func TestVersionSummaries(t *testing.T) {
	s := start(t, standard)
	prompt := strings.Repeat("é", 50_000)
	for n := range 3 {
		s.manage("POST", "/v1/presets/p/chat/completions", fmt.Sprintf(`{"model":"m%d","messages":[{"role":"system","content":%q}]}`, n, prompt)).want(t, 200)
	}
	s.manage("PUT", "/v1/presets/p/labels/both", `{"split":[{"version":1,"weight":1},{"version":2,"weight":0}]}`).want(t, 200)
	r := s.manage("GET", "/v1/presets/p/versions?fields=summary&offset=1&limit=1", "")
	var page struct {
		Data  []map[string]any
		Total int `json:"total_count"`
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != 200 || page.Total != 3 || len(page.Data) != 1 || len(r.body) > 1000 {
		t.Fatalf("got %d %s, %v", r.status, r.body, err)
	}
	v := page.Data[0]
	if v["version"] != 2.0 || v["dialect"] != "chat" || v["system_prompt_bytes"] != 100_000.0 || v["config_bytes"] != float64(len(`{"model":"m1"}`)) ||
		v["designated"] != false || fmt.Sprint(v["labels"]) != "[both]" || v["message"] != nil {
		t.Errorf("got %v", v)
	}
	for _, member := range []string{"config", "system_prompt"} {
		if _, there := v[member]; there {
			t.Errorf("got %s in %v", member, v)
		}
	}
	again := s.manage("GET", "/v1/presets/p/versions?fields=summary&offset=1&limit=1", "", "If-None-Match: "+r.header.Get("ETag"))
	again.want(t, 304)
	s.manage("PUT", "/v1/presets/p/labels/both", `{"version":3}`).want(t, 200)
	s.manage("GET", "/v1/presets/p/versions?fields=summary&offset=1&limit=1", "", "If-None-Match: "+r.header.Get("ETag")).want(t, 200, `"labels":[]`)
	for query, says := range map[string]string{
		"fields=all":                    "fields: must be summary",
		"fields=":                       "fields: must not be empty",
		"fields=summary&fields=summary": "fields: given more than once",
	} {
		s.manage("GET", "/v1/presets/p/versions?"+query, "").wantError(t, 400, "Invalid request parameters: "+says)
	}
}

// TestReleases checks that the query of the three POSTs says how the new version is published.
func TestReleases(t *testing.T) {
	s := start(t, standard+"\npreset_creators any")
	const path = "/v1/presets/p/"
	apis := []string{"responses", "chat/completions", "messages"}
	for _, api := range apis {
		s.manage("POST", path+api+"?designate=false", `{}`).wantError(t, 409, "Preset does not exist: its first version must be designated")
	}
	s.manage("POST", path+"responses?designate=true&label=live&message=first%20try", `{}`).
		want(t, 200, `"message":"first try"`, `"designated":true,"labels":["live"]`, `"labels":{"live":{"version":1}}`)
	for i, api := range apis {
		r := s.manage("POST", path+api+"?designate=false&message=%E2%98%83", `{}`)
		r.want(t, 200, `"designated_version":{`, `"designated":true,"labels":["live"],"last_served_at":null},"created_version":{`, fmt.Sprintf(`"version":%d,`, i+2), `"message":"☃"`)
		if preset := s.manage("GET", "/v1/presets/p", ""); preset.tag(t) != r.tag(t) {
			t.Errorf("got tag %s, want that of the preset, %s", r.tag(t), preset.tag(t))
		}
	}
	// A key that may create presets may make drafts, but not set labels.
	s.do("POST", path+"responses?designate=false", `{}`, bearer(inferenceSecret)).want(t, 200, `"created_version":{`)
	s.do("POST", path+"responses?designate=false&label=live", `{}`, bearer(inferenceSecret)).wantError(t, 403, "Only management keys can perform this operation")
	// The Idempotency-Key is for one query.
	draft := s.manage("POST", path+"responses?designate=false&label=next", `{}`, once("a"))
	wantReplay(t, "draft", draft, s.manage("POST", path+"responses?designate=false&label=next", `{}`, once("a")))
	s.manage("POST", path+"responses?designate=false", `{}`, once("a")).wantError(t, 422, "Idempotency-Key was already used for another request")

	for query, says := range map[string]string{
		"designate=no":                        "designate: must be true or false",
		"designate=":                          "designate: must not be empty",
		"label=7":                             "label: is reserved: latest and numbers cannot be labels",
		"message=a%0Ab":                       "message: must not have control characters, such as line breaks",
		"message=%FF":                         "message: must be UTF-8",
		"message=" + strings.Repeat("x", 501): "message: must be 1 to 500 characters",
	} {
		s.manage("POST", path+"responses?"+query, `{}`).wantError(t, 400, "Invalid request parameters: "+says)
	}
}
