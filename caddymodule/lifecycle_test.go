package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestPresetLifeAnswers compares each route's answer and main errors with a golden file.
// Tags are numbered, so a change has the same tag as the GET after it.
func TestPresetLifeAnswers(t *testing.T) {
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

// TestWorkspaceReferences sends operations without required bodies. The body may be
// missing, empty or a workspace reference.
func TestWorkspaceReferences(t *testing.T) {
	s := start(t, standard+"\nmax_body_size 1KB")
	team := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	const path = "/v1/presets/p"
	for _, workspace := range []string{"default", "team"} {
		s.manage("POST", path+"/responses?workspace_id="+workspace, `{}`).want(t, 200)
		s.manage("PUT", path+"/labels/a?workspace_id="+workspace, `{"version":1}`).want(t, 200)
	}
	// archive, restore and removal of a label, each with its inverse.
	for _, op := range []struct{ method, path string }{{"DELETE", path}, {"POST", path + "/restore"}, {"DELETE", path + "/labels/a"}} {
		t.Run(op.method+op.path, func(t *testing.T) {
			chunked := func(body string) string {
				text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n", op.method, op.path, bearer(managementSecret))
				if body != "" {
					text += fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
				}
				return text + "0\r\n\r\n"
			}
			do := func(query, body string, headers ...string) func() reply {
				return func() reply { return s.manage(op.method, op.path+query, body, headers...) }
			}
			raw := func(request string) func() reply { return func() reply { return s.raw(request, 1)[0] } }
			for name, tc := range map[string]struct {
				ask       func() reply
				status    int
				workspace string // the workspace in which it acted
			}{
				"nothing":                     {do("", ""), 200, "default"},
				"nothing, with a type":        {do("", "", "Content-Type: text/plain"), 200, "default"},
				"empty object":                {do("", "{}"), 200, "default"},
				"other members":               {do("", `{"workspace":"team"}`), 200, "default"},
				"chunked and empty":           {raw(chunked("")), 200, "default"},
				"chunked":                     {raw(chunked(`{"workspace_id":"team"}`)), 200, "team"},
				"slug in the body":            {do("", `{"workspace_id":"team"}`), 200, "team"},
				"id in the body":              {do("", `{"workspace_id":"`+team+`"}`), 200, "team"},
				"in the query":                {do("?workspace_id=team", ""), 200, "team"},
				"in both":                     {do("?workspace_id=team", `{"workspace_id":"team"}`), 200, "team"},
				"escaped":                     {do("?workspace_id=te%61m", `{"workspace_id":"\u0074eam"}`), 200, "team"},
				"in both, of different names": {do("?workspace_id=team", `{"workspace_id":"`+team+`"}`), 200, "team"},
				"in both, different":          {do("?workspace_id=team", `{"workspace_id":"default"}`), 400, ""},
				"unknown":                     {do("", `{"workspace_id":"nowhere"}`), 404, ""},
				"empty text":                  {do("", `{"workspace_id":""}`), 400, ""},
				"null":                        {do("", `{"workspace_id":null}`), 400, ""},
				"number":                      {do("", `{"workspace_id":1}`), 400, ""},
				"twice":                       {do("", `{"workspace_id":"team","workspace_id":"team"}`), 400, ""},
				"array":                       {do("", `[]`), 400, ""},
				"no JSON":                     {do("", `workspace_id=team`), 400, ""},
				"blank":                       {do("", ` `), 400, ""},
				"chunked and blank":           {raw(chunked("\n")), 400, ""},
				"wrong media type":            {do("", `{}`, "Content-Type: text/plain"), 415, ""},
				"compressed":                  {do("", `{}`, "Content-Encoding: gzip"), 415, ""},
				"too large":                   {do("", `{"x":"`+strings.Repeat("x", 1000)+`"}`), 413, ""},
				"too large, chunked":          {raw(chunked(`{"x":"` + strings.Repeat("x", 1000) + `"}`)), 413, ""},
				"broken chunks":               {raw(strings.Replace(chunked("{}"), "\r\n2\r\n", "\r\nzz\r\n", 1)), 400, ""},
			} {
				// These fields would make the operation a change, and show that it was one.
				for _, workspace := range []string{"default", "team"} {
					query := "?workspace_id=" + workspace
					s.manage("POST", path+"/restore"+query, "").want(t, 200)
					if strings.Contains(op.path, "labels") {
						s.manage("PUT", path+"/labels/a"+query, `{"version":1}`).want(t, 200)
					}
					if op.method == "POST" {
						s.manage("DELETE", path+query, "").want(t, 200)
					}
				}
				state := func(workspace string) string {
					query := "?workspace_id=" + workspace
					return fmt.Sprint(s.manage("GET", path+query, "").status, strings.Contains(s.manage("GET", path+"/labels/a"+query, "").body, `"version":null`))
				}
				before := map[string]string{"default": state("default"), "team": state("team")}
				r := tc.ask()
				if r.status != tc.status {
					t.Errorf("%s: got %d %s, want %d", name, r.status, r.body, tc.status)
				}
				for workspace, was := range before {
					if changed := state(workspace) != was; changed != (workspace == tc.workspace) {
						t.Errorf("%s: workspace %s changed: %v", name, workspace, changed)
					}
				}
			}
		})
	}
	s.manage("HEAD", path+"/restore", "").want(t, 405)
	s.manage("OPTIONS", path, "").want(t, 405)
	// Operations that read no body accept any body.
	s.manage("GET", path, `{"workspace_id":"team"}`).want(t, 200)
	s.manage("DELETE", "/v1/workspaces/absent", `{"workspace_id":"team"`).want(t, 404)
	responses := s.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\nTransfer-Encoding: chunked\r\n\r\n", 1)
	responses[0].want(t, 200) // though the body never arrives
}

// TestVersionNumbers checks that a version number has only one spelling.
func TestVersionNumbers(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	for segment, status := range map[string]int{
		"1": 200, "%31": 200, "2": 404, "9223372036854775807": 404, "2147483648": 404,
		"01": 400, "+1": 400, "%2B1": 400, "1.0": 400, "1e0": 400, "0": 400, "-1": 400, "0x1": 400, "1%20": 400, "%D9%A1": 400, "x": 400, "1%2F1": 400,
		"9223372036854775808": 400, "99999999999999999999": 400, "01890000-0000-7000-8000-000000000000": 400,
	} {
		r := s.manage("GET", "/v1/presets/p/versions/"+segment, "")
		if r.status != status {
			t.Errorf("versions/%s: got %d %s, want %d", segment, r.status, r.body, status)
		}
		if status == 400 {
			r.wantError(t, 400, "Version must be a positive integer")
		}
	}
	for number, status := range map[string]int{
		`1`: 200, `2`: 404, `9007199254740991`: 404, `0`: 400, `-1`: 400, `1.5`: 400, `"1"`: 400, `null`: 400, `true`: 400, `1e99`: 400, `99999999999999999999`: 400, `9223372036854775807`: 400, `-0`: 400,
		// Every integer of a JSON Schema is one for us, such as 1.0.
		`1.0`: 200, `1e0`: 200, `10e-1`: 200, `2.0`: 404,
	} {
		for _, r := range []reply{
			s.manage("POST", "/v1/presets/p/designate", `{"version":`+number+`}`),
			s.manage("PUT", "/v1/presets/p/labels/a", `{"version":`+number+`}`),
			s.manage("PUT", "/v1/presets/p/labels/b", `{"split":[{"version":`+number+`,"weight":1}]}`),
		} {
			if r.status != status {
				t.Errorf("version %s: got %d %s, want %d", number, r.status, r.body, status)
			}
		}
	}
	for weight, status := range map[string]int{`1`: 200, `10000`: 200, `1e4`: 200, `5.0`: 200, `10001`: 400, `-1`: 400, `0.5`: 400, `"1"`: 400} {
		if r := s.manage("PUT", "/v1/presets/p/labels/b", `{"split":[{"version":1,"weight":`+weight+`}]}`); r.status != status {
			t.Errorf("weight %s: got %d %s, want %d", weight, r.status, r.body, status)
		}
	}
}

// TestOddRequests sends requests that no normal client sends. Each is refused with a clear
// message. They reach no gateway and change nothing.
func TestOddRequests(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{"instructions":"i"}`).want(t, 200)
	s.manage("PUT", "/v1/presets/p/labels/a", `{"version":1}`).want(t, 200)
	before := s.changesRecorded()
	long, longer := strings.Repeat("x", 200), strings.Repeat("x", 12<<10)
	var deep strings.Builder
	for range 5000 {
		deep.WriteString(`{"a":`)
	}
	for _, tc := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/presets/" + long, "", 400},
		{"GET", "/v1/presets/" + longer, "", 400},
		{"GET", "/v1/presets/%00", "", 400},
		{"GET", "/v1/presets/p%00", "", 400},
		{"GET", "/v1/presets/p%0A", "", 400},
		{"GET", "/v1/presets/%C3%A9", "", 400},
		{"GET", "/v1/presets/%FF", "", 400},
		{"GET", "/v1/presets/%2E%2E", "", 400},
		{"GET", "/v1/presets/..", "", 400},
		{"GET", "/v1/presets/%2F", "", 400},
		{"GET", "/v1/presets/p@1", "", 400},
		{"GET", "/v1/presets/p/labels/%00", "", 400},
		{"GET", "/v1/presets/p/labels/a%00", "", 400},
		{"GET", "/v1/presets/p/labels/" + longer, "", 404},
		{"GET", "/v1/presets/p/labels/a%2Fb", "", 404},
		{"GET", "/v1/presets/p/labels/latest", "", 404},
		{"GET", "/v1/presets/p/labels/A", "", 404},
		{"DELETE", "/v1/presets/p/labels/%FF", "", 404},
		{"PUT", "/v1/presets/p/labels/a%2Fb", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/..", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/%2E%2E", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/%C3%A9", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/%E1%84%80", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/a%00", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/" + long, `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/" + longer, `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/LaTeSt", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/0", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/-a", `{"version":1}`, 400},
		{"PUT", "/v1/presets/p/labels/a%40b", `{"version":1}`, 400},
		{"POST", "/v1/presets/p/designate", `{"label":"` + longer + `"}`, 404},
		{"POST", "/v1/presets/p/designate", `{"label":""}`, 400},
		{"POST", "/v1/presets/p/designate", `{"label":null}`, 400},
		{"POST", "/v1/presets/p/designate", `{"label":"\u0000"}`, 404},
		{"POST", "/v1/presets/p/designate", `{"Version":1}`, 400},
		{"POST", "/v1/presets/p/designate", deep.String(), 400},
		{"GET", "/v1/presets/p/diff?from=01&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=0&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=-1&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=99999999999999999999&to=1", "", 404},
		{"GET", "/v1/presets/p/diff?from=1&from=1&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=a%00&to=1", "", 400},
		{"GET", "/v1/presets/p/diff?from=" + longer + "&to=1", "", 400},
		{"GET", "/v1/workspaces/%00", "", 400},
		{"GET", "/v1/workspaces/" + longer, "", 404},
		{"GET", "/v1/workspaces/%FF%FE", "", 404},
		{"PATCH", "/v1/workspaces/" + longer, `{"name":"n"}`, 404},
		{"DELETE", "/v1/workspaces/" + longer, ``, 404},
		{"DELETE", "/v1/workspaces/absent?confirm_default_workspace_deletion=1", ``, 400},
		{"DELETE", "/v1/workspaces/absent?confirm_default_workspace_deletion=true&confirm_default_workspace_deletion=true", ``, 400},
		{"GET", "/v1/presets?workspace_id=" + longer, "", 404},
		{"GET", "/v1/presets?workspace_id=%00", "", 404},
		{"GET", "/v1/presets?workspace_id=%FF", "", 404},
		{"GET", "/v1/presets?workspace_id=default%00", "", 404},
		{"GET", "/v1/presets?workspace_id=DEFAULT", "", 404},
		{"DELETE", "/v1/presets/p", `{"workspace_id":"` + longer + `"}`, 404},
		{"DELETE", "/v1/presets/p", `{"workspace_id":"\u0000"}`, 404},
		{"POST", "/v1/presets/p/responses", `{"session_id":7}`, 400},
		{"POST", "/v1/presets/p/chat/completions", `{"session_id":7}`, 400},
		{"POST", "/v1/presets/p/messages", `{"session_id":7}`, 400},
		{"POST", "/v1/presets/p/messages", `{"session_id":null}`, 400},
		{"PATCH", "/v1/presets/p", `{"name":null}`, 400},
		{"PATCH", "/v1/presets/p", `{"name":"` + long + `"}`, 400},
		{"PATCH", "/v1/presets/p", `{"name":{}}`, 400},
		{"PATCH", "/v1/presets/p", `{"status":"archived"}`, 400},
		{"PATCH", "/v1/presets/p", `{"Name":"other"}`, 200}, // an unknown member, which is ignored
		{"PATCH", "/v1/presets/p", ``, 400},
		{"PATCH", "/v1/presets/p", `{"name":"\ud800"}`, 400},
		{"PATCH", "/v1/workspaces/default", `{"io_logging_sampling_rate":1e-400}`, 400},
		{"PATCH", "/v1/workspaces/default", `{"io_logging_sampling_rate":1e400}`, 400},
		{"PATCH", "/v1/workspaces/default", `{"disabled_server_tools":[null]}`, 400},
		{"PATCH", "/v1/workspaces/default", `{"disabled_server_tools":{}}`, 400},
		{"PATCH", "/v1/workspaces/default", `{"disabled_server_tools":[]}`, 200},
	} {
		r := s.manage(tc.method, tc.path, tc.body)
		name := fmt.Sprintf("%s %.80s %.80s", tc.method, tc.path, tc.body)
		if r.status != tc.status {
			t.Errorf("%s: got %d %.300s, want %d", name, r.status, r.body, tc.status)
		}
		if !json.Valid([]byte(r.body)) || r.header.Get("X-Gateway") != "" {
			t.Errorf("%s: got %.300s, want an answer of ours", name, r.body)
		}
		if strings.Contains(r.body, long) {
			t.Errorf("%s: the answer echoes what was sent", name)
		}
	}
	if got := s.changesRecorded() - before; got != 0 {
		t.Errorf("%d changes were made", got)
	}
	s.upstream.none(t)
}

// TestDeletedWorkspaces deletes a workspace with its contents. A new workspace with its
// name is another one.
func TestDeletedWorkspaces(t *testing.T) {
	s := start(t, standard)
	const query = "?workspace_id=team"
	old := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	inside := bearer(s.issue(`{"kind":"inference","workspace":"team"}`).secret)
	for i := range 60 {
		s.manage("POST", fmt.Sprintf("/v1/presets/p%d/responses%s", i, query), `{}`).want(t, 200)
	}
	s.do("GET", "/v1/presets/p0", "", inside).want(t, 200)
	s.manage("DELETE", "/v1/workspaces/team", "").wantError(t, 400, "Invalid request parameters: id: the workspace has live keys")
	var keys struct{ Keys []struct{ ID string } }
	if err := json.Unmarshal([]byte(send(t, "GET", "http://"+s.admin+"/presets/keys", "").body), &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+k.ID, "").want(t, 200)
	}
	s.manage("DELETE", "/v1/workspaces/"+old, "").want(t, 200, `{"deleted":true}`)
	gone := func() {
		t.Helper()
		for _, workspace := range []string{old, "team"} {
			s.manage("GET", "/v1/workspaces/"+workspace, "").wantError(t, 404, "Workspace not found")
			s.manage("GET", "/v1/presets?workspace_id="+workspace, "").wantError(t, 404, "Workspace not found")
			s.manage("GET", "/v1/presets/p0?workspace_id="+workspace, "").wantError(t, 404, "Workspace not found")
			s.manage("POST", "/v1/presets/p0/responses?workspace_id="+workspace, `{}`).wantError(t, 404, "Workspace not found")
		}
		s.manage("GET", "/v1/workspaces", "").want(t, 200, `"total_count":1`)
	}
	gone()
	s.reload(standard)
	gone()
	if id := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id"); id == old {
		t.Error("the new workspace has the id of the old")
	}
	s.manage("GET", "/v1/presets"+query, "").want(t, 200, `{"data":[],"total_count":0}`)
	s.manage("GET", "/v1/presets/p0"+query, "").wantError(t, 404, "Preset not found")
	s.manage("POST", "/v1/presets/p0/responses"+query, `{}`).want(t, 200, `"version":1`)
	s.manage("GET", "/v1/workspaces/"+old, "").wantError(t, 404, "Workspace not found")

	// The default workspace is created again. Keys that act in it find it empty.
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	first := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	s.manage("DELETE", "/v1/workspaces/"+first, "").wantError(t, 400, "Invalid request parameters: confirm_default_workspace_deletion")
	s.manage("DELETE", "/v1/workspaces/"+first+"?confirm_default_workspace_deletion=false", "").want(t, 400)
	s.manage("DELETE", "/v1/workspaces/"+first+"?confirm_default_workspace_deletion=true", "").want(t, 200, `{"deleted":true}`)
	if second := s.manage("GET", "/v1/workspaces/default", "").field(t, "id"); second == first {
		t.Error("the default workspace has its old id")
	}
	s.manage("GET", "/v1/presets", "").want(t, 200, `{"data":[],"total_count":0}`)
	s.do("GET", "/v1/presets/p", "", bearer(inferenceSecret)).wantError(t, 404, "Preset not found")
	s.manage("GET", "/v1/workspaces/"+first, "").wantError(t, 404, "Workspace not found")
	// On other workspaces the confirmation has no effect.
	s.manage("DELETE", "/v1/workspaces/team?confirm_default_workspace_deletion=false", "").want(t, 200)
}
