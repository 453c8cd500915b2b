package caddymodule

import (
	"strings"
	"testing"
)

const tourBody = `{"model":"m","instructions":"You know {{city}}.","input":[{"role":"user","content":"Where is {{ city }}?"},{"role":"user","content":[{"type":"input_text","text":"{{photo}}"}]}]}`

// TestTemplateAnswers compares the answers about templates with golden files.
func TestTemplateAnswers(t *testing.T) {
	s := start(t, inferring("unknown_prompts refuse"))
	const tour = "/v1/presets/tour"
	golden(t, "template",
		s.manage("POST", tour+"/responses?template=true", tourBody),
		s.manage("POST", tour+"/responses?template=false", tourBody),
		s.manage("POST", tour+"/chat/completions?template=true", `{"messages":[{"role":"system","content":"{{a}}"},{"role":"user","content":"{{b}} \\{{c}}"}]}`),
		s.manage("POST", tour+"/messages?template=true", `{"system":"{{a}}"}`),
		s.manage("POST", tour+"/responses?template=yes", `{}`),
		s.manage("POST", tour+"/responses?template=true&template=true", `{}`),
		s.manage("POST", tour+"/responses?template=true", `{"input":["text"]}`),
		s.manage("GET", tour+"/versions/1", ""),
		s.manage("GET", tour+"/versions?fields=summary", ""),
		s.manage("GET", tour+"/diff?from=1&to=2", ""),
		s.manage("GET", tour+"/diff?from=1&to=3", ""),
		s.manage("GET", tour+"/diff?from=3&to=4", ""),
	)
	const values = `{"city":"Rome","photo":{"type":"input_image","image_url":"https://x.test/a.png"}}`
	prompt := `{"prompt":{"id":"tour","version":"1","variables":` + values + `}`
	golden(t, "template_dry_run",
		s.ask(responsesPath, prompt+`}`, "X-Preset-Dry-Run: true"),
		s.ask(chatPath, prompt+`,"messages":[{"role":"user","content":"Now?"}]}`, "X-Preset-Dry-Run: true"),
		s.ask(messagesPath, prompt+`,"max_tokens":5,"system":"Be brief."}`, "X-Preset-Dry-Run: true"),
		s.ask(messagesPath, `{"model":"m@preset/tour@4","prompt_variables":{"a":"1"},"messages":[]}`, "X-Preset-Dry-Run: true"),
	)
	s.upstream.none(t)
	for _, path := range inferencePaths {
		for _, body := range []string{
			prompt + `}`,
			`{"prompt":{"id":"tour","variables":{"a":"s3cret"},"version":4}}`,
			`{"prompt_id":"tour","prompt_version":"4","prompt_variables":{"a":"s3cret"},"model":"m"}`,
			`{"model":"m@preset/tour@4","prompt":{"variables":{"a":"s3cret"}}}`,
		} {
			if !strings.Contains(body, `"version":"1"`) && !strings.Contains(body, `"model"`) {
				body = body[:len(body)-1] + `,"model":"m"}`
			}
			s.ask(path, body).want(t, 202)
			if got := s.upstream.one(t).body; strings.Contains(got, "prompt") || strings.Contains(got, "{{") {
				t.Errorf("%s %s: the gateway got %s", path, body, got)
			}
		}
		for body, status := range map[string]int{
			`{"prompt":{"id":"tour","variables":{"a":"s3cret","z":"s3cret"},"version":4}}`:                   400,
			`{"prompt":{"id":"tour","version":4},"model":"m"}`:                                               400,
			`{"prompt":{"id":"tour","version":4,"variables":{"a":{"type":"input_text","text":"s3cret"}}}}`:   400,
			`{"prompt":{"variables":{"a":"s3cret"}},"model":"m"}`:                                            400,
			`{"prompt":{"id":"tour","version":4,"variables":{"a":"s3cret"}},"preset":"other"}`:               400,
			`{"prompt":{"id":"pmpt_theirs","variables":{"a":"s3cret"}},"model":"m"}`:                         404,
			`{"prompt_id":"pmpt_theirs","model":"m"}`:                                                        404,
			`{"prompt":{"id":"tour","version":9,"variables":{"a":"s3cret"}}}`:                                404,
			`{"prompt":{"id":"tour","version":2,"variables":{"a":"s3cret"}},"messages":[],"input":"s3cret"}`: 400,
		} {
			r := s.ask(path, body)
			r.want(t, status)
			if strings.Contains(r.body, "s3cret") {
				t.Errorf("%s %s: got a value in %s", path, body, r.body)
			}
		}
		s.upstream.none(t)
	}
	metrics := send(t, "GET", "http://"+s.admin+"/metrics", "").body
	for place, text := range map[string]string{"the log": s.logs(), "the metrics": metrics} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "Rome") {
			t.Errorf("%s has a value of a variable", place)
		}
	}
	// A prompt of another service passes as it is, unless it is a preset that is not active.
	s.manage("DELETE", tour, "").want(t, 200)
	s.reload(inferring("unknown_prompts pass"))
	for _, path := range inferencePaths {
		for _, body := range []string{`{"prompt": {"id":"pmpt_theirs","variables":{"a":1}} ,"model":"m"}`, `{"prompt_id":"theirs"}`} {
			s.ask(path, body).want(t, 202)
			if got := s.upstream.one(t).body; got != body {
				t.Errorf("%s: the gateway got %s, want %s", path, got, body)
			}
		}
		s.ask(path, `{"prompt":{"id":"tour"},"model":"m"}`).want(t, 404, "Preset not found: @preset/tour")
		s.upstream.none(t)
	}
}

// TestTemplatesAreCheckedWhole sends messages that no gateway takes. A template keeps messages,
// so it is refused. Another version drops them.
func TestTemplatesAreCheckedWhole(t *testing.T) {
	s := start(t, standard)
	for _, tc := range []struct{ route, body, issue string }{
		{"responses", `{"input":[{"role":"user","content":5}]}`, "/input/0/content"},
		{"responses", `{"input":[{"type":"function_call_output","call_id":"1","output":5}]}`, "/input/0/output"},
		{"chat/completions", `{"messages":[{"role":"user","content":5}]}`, "/messages/0/content"},
		{"chat/completions", `{"messages":[{"role":"user","content":"t"},{"role":"assistant","tool_calls":[5]}]}`, "/messages/1/tool_calls/0"},
		{"messages", `{"messages":[{"role":"user","content":5}]}`, "/messages/0/content"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"text","text":5}]}]}`, "/messages/0/content/0/text"},
	} {
		path := "/v1/presets/p/" + tc.route
		for _, query := range []string{"?template=true", "?template=true&designate=false", "?label=a&template=true"} {
			s.manage("POST", path+query, tc.body).want(t, 400, `"path":"`+tc.issue+`"`)
		}
		for _, query := range []string{"", "?template=false"} {
			s.manage("POST", path+query, tc.body).want(t, 200, `"template":null`)
		}
	}
}
