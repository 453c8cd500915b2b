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
