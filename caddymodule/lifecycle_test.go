package caddymodule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestPresetLifeAnswers compares each route's answer and main errors with a golden file.
// Tags are numbered, so a change has the same tag as the GET after it.
func TestPresetLifeAnswers(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	const mail = "/v1/presets/mail"
	golden(t, "preset_create",
		s.manage("POST", mail+"/responses", `{"model":"openai/gpt-5","temperature":0.70,"instructions":"Write <b>short</b> mails.","input":"hi"}`),
		s.manage("GET", mail, ""),
		s.manage("POST", mail+"/chat/completions", `{"model":"openai/gpt-5","max_completion_tokens":100,"messages":[{"role":"system","content":"Write\nmails."},{"role":"developer","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":"hi"}],"stop":["END"]}`),
		s.manage("POST", mail+"/messages", `{"model":"anthropic/claude-sonnet-4.5","max_tokens":100,"system":[{"type":"text","text":"Write mails."},{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"hi"}],"stop_sequences":["END"]}`),
		s.manage("POST", mail+"/chat/completions", `{"messages":"hi","stop":["a","b","c","d","e"]}`),
		s.manage("POST", mail+"/messages", `{"system":7,"max_tokens":"x"}`),
		s.manage("POST", mail+"/responses", `{"previous_response_id":"r"}`),
		s.manage("POST", mail+"/responses", `{`),
		s.manage("POST", mail+"/responses", `{}`, "If-None-Match: *"),
		s.manage("POST", mail+"/responses", `{}`, "Content-Type: text/plain"),
	)
	golden(t, "preset_read",
		s.manage("GET", mail, ""),
		s.manage("GET", "/v1/presets", ""),
		s.manage("GET", mail+"/versions", ""),
		s.manage("GET", mail+"/versions?offset=1&limit=1", ""),
		s.manage("GET", mail+"/versions?offset=3", ""),
		s.manage("GET", mail+"/versions/2", ""),
		s.do("GET", mail, "", bearer(inferenceSecret)),
		s.manage("GET", "/v1/presets/absent", ""),
		s.manage("GET", mail+"/versions/9", ""),
		s.manage("GET", mail+"/versions/x", ""),
		s.manage("GET", "/v1/presets?limit=0", ""),
		s.manage("GET", "/v1/presets?offset=-1", ""),
		s.manage("GET", "/v1/presets?workspace_id=absent", ""),
		s.do("GET", "/v1/presets?workspace_id=absent", "", bearer(inferenceSecret)),
		s.manage("GET", mail, "", "If-None-Match: *"),
		s.manage("GET", mail, "", "If-Match: "+otherTag),
		s.manage("GET", mail, "", "If-Match: x"),
	)
	golden(t, "label",
		s.manage("PUT", mail+"/labels/staging", `{"version":2}`),
		s.manage("GET", mail+"/labels/staging", ""),
		s.manage("PUT", mail+"/labels/staging", `{"split":[{"version":2,"weight":9},{"version":3,"weight":1}]}`),
		s.manage("GET", mail, ""),
		s.manage("DELETE", mail+"/labels/staging", ""),
		s.manage("GET", mail+"/labels/staging", ""),
		s.manage("DELETE", mail+"/labels/staging", ""),
		s.manage("PUT", mail+"/labels/staging", `{"version":1}`),
		s.manage("GET", mail+"/labels/staging?limit=1&offset=1", ""),
		s.manage("PUT", mail+"/labels/latest", `{"version":1}`),
		s.manage("PUT", mail+"/labels/7", `{"version":1}`),
		s.manage("PUT", mail+"/labels/a%20b", `{"version":1}`),
		s.manage("PUT", mail+"/labels/a", `{"version":9}`),
		s.manage("PUT", mail+"/labels/a", `{}`),
		s.manage("PUT", mail+"/labels/a", `{"version":1,"split":[{"version":1,"weight":1}]}`),
		s.manage("PUT", mail+"/labels/a", `{"split":[{"version":1,"weight":0},{"version":9,"weight":1}]}`),
		s.manage("PUT", mail+"/labels/a", `{"split":[{"version":1,"weight":1},{"version":1,"weight":1}]}`),
		s.manage("PUT", mail+"/labels/a", `{"split":[{"version":1,"weight":0}]}`),
		s.manage("PUT", mail+"/labels/a", `{"split":[]}`),
		s.manage("GET", mail+"/labels/absent", ""),
		s.manage("DELETE", mail+"/labels/absent", ""),
		s.do("PUT", mail+"/labels/a", `{"version":1}`, bearer(inferenceSecret)),
	)
	golden(t, "diff",
		s.manage("GET", mail+"/diff?from=1&to=2", ""),
		s.manage("GET", mail+"/diff?from=3&to=staging", ""),
		s.manage("GET", mail+"/diff?from=2&to=2", ""),
		s.manage("GET", mail+"/diff?from=1", ""),
		s.manage("GET", mail+"/diff?from=1&to=9", ""),
		s.manage("GET", mail+"/diff?from=absent&to=1", ""),
		s.manage("GET", "/v1/presets/absent/diff?from=1&to=1", ""),
	)
	s.manage("PUT", mail+"/labels/split", `{"split":[{"version":1,"weight":1}]}`).want(t, 200)
	golden(t, "preset_change",
		s.manage("POST", mail+"/designate", `{"version":1}`),
		s.manage("POST", mail+"/designate", `{"version":1}`),
		s.manage("POST", mail+"/designate", `{"label":"staging"}`),
		s.manage("POST", mail+"/designate", `{"version":9}`),
		s.manage("POST", mail+"/designate", `{"label":"absent"}`),
		s.manage("POST", mail+"/designate", `{"label":"split"}`),
		s.manage("POST", mail+"/designate", `{}`),
		s.manage("POST", mail+"/designate", `{"version":1,"label":"staging"}`),
		s.manage("PATCH", mail, `{"name":"Mail & more","description":"Zoë's","unknown":1}`),
		s.manage("GET", mail, ""),
		s.manage("PATCH", mail, `{"description":null,"status":"disabled"}`),
		s.manage("POST", mail+"/responses", `{}`),
		s.manage("DELETE", mail, ""),
		s.manage("POST", mail+"/restore", ""),
		s.manage("PATCH", mail, `{"name":"","description":7,"status":"archived"}`),
		s.manage("PATCH", mail, `{"name":"n"}`, "If-Match: "+otherTag),
		s.manage("PATCH", mail, `{"status":"active"}`, once("a")),
		s.manage("PATCH", mail, `{"status":"disabled"}`, once("a")),
	)
	golden(t, "preset_archive",
		s.manage("DELETE", mail, ""),
		s.manage("DELETE", mail, ""),
		s.manage("GET", mail, ""),
		s.manage("GET", "/v1/presets", ""),
		s.manage("POST", mail+"/responses", `{}`),
		s.manage("POST", mail+"/restore", ""),
		s.manage("POST", mail+"/restore", `{}`),
		s.manage("DELETE", "/v1/presets/absent", ""),
		s.manage("POST", "/v1/presets/absent/restore", ""),
		s.do("DELETE", mail, "", bearer(inferenceSecret)),
	)
}

func TestWorkspaceLifeAnswers(t *testing.T) {
	s := start(t, standard+"\ninference_key kept-by-the-configuration bob kept")
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	s.manage("POST", "/v1/workspaces", `{"name":"Kept","slug":"kept"}`).want(t, 201)
	k := s.issue(`{"kind":"inference","workspace":"team"}`)
	responses := []reply{
		s.manage("GET", "/v1/workspaces", ""),
		s.manage("GET", "/v1/workspaces?offset=1&limit=1", ""),
		s.manage("PATCH", "/v1/workspaces/team", `{"name":"Zoë's","slug":"crew","description":"d","default_text_model":"m","default_image_model":"i","default_provider_sort":"price",
			"io_logging_api_key_ids":["a",1],"io_logging_sampling_rate":0.5,"is_data_discount_logging_enabled":false,"is_observability_broadcast_enabled":true,
			"is_observability_io_logging_enabled":true,"disabled_server_tools":["openrouter:web_search"],"id":"mine","created_by":"mallory"}`),
		s.manage("GET", "/v1/workspaces/crew", ""),
		s.manage("PATCH", "/v1/workspaces/crew", `{}`),
		s.manage("PATCH", "/v1/workspaces/crew", `{"description":null,"default_text_model":null,"default_image_model":null,"default_provider_sort":null,"io_logging_api_key_ids":null,"disabled_server_tools":null}`),
		s.manage("PATCH", "/v1/workspaces/crew", `{"name":null,"slug":null,"io_logging_sampling_rate":null,"is_data_discount_logging_enabled":null,"is_observability_broadcast_enabled":null,"is_observability_io_logging_enabled":null}`),
		s.manage("PATCH", "/v1/workspaces/crew", `{"slug":"default"}`),
		s.manage("PATCH", "/v1/workspaces/default", `{"slug":"other"}`),
		s.manage("PATCH", "/v1/workspaces/team", `{"name":"n"}`),
		s.manage("PATCH", "/v1/workspaces/crew", `{"name":"n"}`, "If-Match: "+otherTag),
		s.do("PATCH", "/v1/workspaces/crew", `{"name":"n"}`, bearer(inferenceSecret)),
		s.manage("DELETE", "/v1/workspaces/crew", ""),
		s.manage("DELETE", "/v1/workspaces/kept", ""),
	}
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+k.id, "").want(t, 200)
	golden(t, "workspace_life", append(responses,
		s.manage("DELETE", "/v1/workspaces/crew", ""),
		s.manage("DELETE", "/v1/workspaces/crew", ""),
		s.manage("DELETE", "/v1/workspaces/default", ""),
		s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=yes", ""),
		s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=true", ""),
		s.manage("GET", "/v1/workspaces", ""),
		s.manage("GET", "/v1/workspaces?limit=101", ""),
		s.do("GET", "/v1/workspaces", "", bearer(inferenceSecret)),
		s.manage("PUT", "/v1/workspaces", ""),
		s.manage("GET", "/v1/workspaces/a/b", ""),
		s.do("GET", "/v1/workspaces", ""),
		s.manage("GET", "/v1/workspaces", "", bearer(managementSecret)),
	)...)
}

// TestWorkspaceReferences sends an operation without a required body, which may be missing, empty or a
// workspace reference.
func TestWorkspaceReferences(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard+"\nmax_body_size 1KB")
	team := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	const path = "/v1/presets/p"
	workspaces := []string{"default", "team"}
	for _, workspace := range workspaces {
		s.manage("POST", path+"/responses?workspace_id="+workspace, `{}`).want(t, 200)
	}
	chunked := func(body string) string {
		return strings.Replace(postChunked(path, body, nil, bearer(managementSecret)), "POST", "DELETE", 1)
	}
	for _, tc := range []struct {
		query, body, header string
		status              int
		workspace           string // the workspace in which it acted
	}{
		{"", "", "", 200, "default"},
		{"", "", "Content-Type: text/plain", 200, "default"},
		{"", "{}", "", 200, "default"},
		{"", `{"workspace":"team"}`, "", 200, "default"},
		{"", `{"workspace_id":"team"}`, "", 200, "team"},
		{"", `{"workspace_id":"` + team + `"}`, "", 200, "team"},
		{"?workspace_id=team", "", "", 200, "team"},
		{"?workspace_id=te%61m", `{"workspace_id":"\u0074eam"}`, "", 200, "team"},
		{"?workspace_id=" + strings.ToUpper(team), `{"workspace_id":"team"}`, "", 200, "team"},
		{"?workspace_id=team", `{"workspace_id":"default"}`, "", 400, ""},
		{"?workspace_id=team", `{"workspace_id":"nowhere"}`, "", 404, ""},
		{"", `{"workspace_id":"nowhere"}`, "", 404, ""},
		{"", `{"workspace_id":""}`, "", 400, ""},
		{"", `{"workspace_id":null}`, "", 400, ""},
		{"", `{"workspace_id":"team","workspace_id":"team"}`, "", 400, ""},
		{"", `workspace_id=team`, "", 400, ""},
		{"", ` `, "", 400, ""},
		{"", `{}`, "Content-Type: text/plain", 415, ""},
		{"", `{"x":"` + strings.Repeat("x", 1000) + `"}`, "", 413, ""},
		{"chunked", "", "", 200, "default"},
		{"chunked", `{"workspace_id":"team"}`, "", 200, "team"},
		{"chunked", "\n", "", 400, ""},
		{"chunked", `{"x":"` + strings.Repeat("x", 1000) + `"}`, "", 413, ""},
	} {
		for _, workspace := range workspaces {
			s.manage("POST", path+"/restore?workspace_id="+workspace, "").want(t, 200)
		}
		var r reply
		if tc.query == "chunked" {
			r = exchange(t, s.address, chunked(tc.body))
		} else {
			r = s.manage("DELETE", path+tc.query, tc.body, cmp.Or(tc.header, "X-None: 1"))
		}
		if r.status != tc.status {
			t.Errorf("%s %.50s %s: got %d %s, want %d", tc.query, tc.body, tc.header, r.status, r.body, tc.status)
		}
		for _, workspace := range workspaces {
			if archived := s.manage("GET", path+"?workspace_id="+workspace, "").status == 404; archived != (workspace == tc.workspace) {
				t.Errorf("%s %.50s: workspace %s changed: %t", tc.query, tc.body, workspace, archived)
			}
		}
	}
	// Operations that read no body accept any body.
	s.manage("GET", path, `{"workspace_id":"team"}`).want(t, 200)
	s.manage("DELETE", "/v1/workspaces/absent", `{"workspace_id":"team"`).want(t, 404)
	responses := s.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\nTransfer-Encoding: chunked\r\n\r\n", 1)
	responses[0].want(t, 200) // though the body never arrives
}

// TestVersionNumbers checks that a version number has one spelling in a path. In JSON every integer of a
// JSON Schema is one, such as 1.0.
func TestVersionNumbers(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	for segment, status := range map[string]int{
		"1": 200, "%31": 200, "2": 404, "9223372036854775807": 404, "2147483648": 404,
		"01": 400, "+1": 400, "%2B1": 400, "1.0": 400, "1e0": 400, "0": 400, "-1": 400, "0x1": 400, "1%20": 400, "%D9%A1": 400, "x": 400, "1%2F1": 400,
		"9223372036854775808": 400, "99999999999999999999": 400, "01890000-0000-7000-8000-000000000000": 400,
	} {
		r := s.manage("GET", "/v1/presets/p/versions/"+segment, "")
		if r.want(t, status); status == 400 {
			r.wantError(t, 400, "Version must be a positive integer")
		}
	}
	for number, status := range map[string]int{`1.0`: 200, `10e-1`: 200, `2.0`: 404, `9007199254740991`: 404, `1.5`: 400, `9223372036854775807`: 400, `-0`: 400} {
		s.manage("POST", "/v1/presets/p/designate", `{"version":`+number+`}`).want(t, status)
		s.manage("PUT", "/v1/presets/p/labels/a", `{"version":`+number+`}`).want(t, status)
		s.manage("PUT", "/v1/presets/p/labels/b", `{"split":[{"version":`+number+`,"weight":1e4}]}`).want(t, status)
	}
}

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
