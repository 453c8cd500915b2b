package schema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
)

// TestTemplates checks that the conversation of a template is checked whole, and that of
// another version is not.
func TestTemplates(t *testing.T) {
	s := schemas(t)
	const (
		parts  = "must be a string or an array"
		opened = "must be a string, an array or null"
	)
	for _, api := range []struct {
		name              string
		template, request *schema.Schema
		list              string
		rules             []rule // of one message
	}{
		{"chat", s.ChatTemplate, s.ChatRequest, "messages", []rule{
			{"text", `{"role":"user","content":"{{x}}","name":"n","other":5}`, nil},
			{"parts", `{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"u"}},{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{}},{"type":"video_url","video_url":5}]}`, nil},
			{"a number", `{"role":"user","content":5}`, refused("/content: " + parts)},
			{"null", `{"role":"user","content":null}`, refused("/content: " + parts)},
			{"nothing", `{"role":"user"}`, refused("/content: required")},
			{"a part that is a text", `{"role":"user","content":["t"]}`, refused("/content/0: must be an object")},
			{"a part without a type", `{"role":"user","content":[{"text":"t"}]}`, refused("/content/0/type: required")},
			{"a part with a wrong type", `{"role":"user","content":[{"type":5}]}`, refused("/content/0/type: must be a string")},
			{"a text that is none", `{"role":"user","content":[{"type":"text","text":5}]}`, refused("/content/0/text: must be a string")},
			{"an image without an address", `{"role":"user","content":[{"type":"image_url","image_url":"u"},{"type":"image_url","image_url":{}}]}`, refused("/content/0/image_url: must be an object", "/content/1/image_url/url: required")},
			{"an audio", `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"d"}}]}`, refused("/content/0/input_audio/format: required")},
			{"a file", `{"role":"user","content":[{"type":"file"}]}`, refused("/content/0/file: required")},
			{"an assistant", `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"custom","custom":{}}]}`, nil},
			{"an assistant without content", `{"role":"assistant"}`, nil},
			{"an assistant with a number", `{"role":"assistant","content":5}`, refused("/content: " + opened)},
			{"calls", `{"role":"assistant","tool_calls":[5,{},{"id":1,"type":"function","function":{"name":"f","arguments":{}}}]}`, refused(
				"/tool_calls/0: must be an object", "/tool_calls/1/id: required", "/tool_calls/1/type: required",
				"/tool_calls/2/function/arguments: must be a string", "/tool_calls/2/id: must be a string")},
			{"a result", `{"role":"tool","tool_call_id":"1","content":"r"}`, nil},
			{"a result of nothing", `{"role":"tool","content":{}}`, refused("/content: "+parts, "/tool_call_id: required")},
			{"a later prompt", `{"role":"system","content":[{"type":"image_url"}]}`, refused("/content/0/text: required", "/content/0/type: must be text")},
			{"an unknown role", `{"role":"x"}`, refused("/role: must be one of assistant, developer, system, tool or user")},
			{"no object", `5`, refused(": must be an object")},
		}},
		{"messages", s.MessagesTemplate, s.MessagesRequest, "messages", []rule{
			{"text", `{"role":"user","content":"{{x}}"}`, nil},
			{"blocks", `{"role":"user","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"url"}},{"type":"document"},{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"t"}]}]}`, nil},
			{"calls", `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"thinking"}]}`, nil},
			{"a number", `{"role":"user","content":5}`, refused("/content: " + parts)},
			{"null", `{"role":"assistant","content":null}`, refused("/content: " + parts)},
			{"nothing", `{"role":"user"}`, refused("/content: required")},
			{"a block without a type", `{"role":"user","content":[{},5]}`, refused("/content/0/type: required", "/content/1: must be an object")},
			{"a text that is none", `{"role":"user","content":[{"type":"text"}]}`, refused("/content/0/text: required")},
			{"a wrong breakpoint", `{"role":"user","content":[{"type":"text","text":"t","cache_control":{}}]}`, refused("/content/0/cache_control/type: required")},
			{"an image", `{"role":"user","content":[{"type":"image","source":"u"}]}`, refused("/content/0/source: must be an object")},
			{"a call", `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":"{}"}]}`, refused("/content/0/input: must be an object")},
			{"a result", `{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":5}]}]}`, refused("/content/0/content/0/text: must be a string", "/content/0/tool_use_id: required")},
			{"an unknown role", `{"role":"tool","content":"t"}`, refused("/role: must be one of assistant, system or user")},
		}},
		{"responses", s.ResponsesTemplate, s.ResponsesRequest, "input", []rule{
			{"text", `{"role":"user","content":"{{x}}"}`, nil},
			{"parts", `{"type":"message","role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":null},{"type":"input_file","filename":"f"},{"type":"later"}]}`, nil},
			{"another item", `{"type":"later","content":5}`, nil},
			{"a call", `{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}`, nil},
			{"a number", `{"role":"user","content":5}`, refused("/content: " + opened)},
			{"a number in a message", `{"type":"message","role":"user","content":5}`, refused("/content: " + opened)},
			{"nothing", `{}`, refused("/role: required")},
			{"a wrong type", `{"type":5}`, refused("/type: must be a string")},
			{"a role that is none", `{"role":5}`, refused("/role: must be a string")},
			{"parts that are none", `{"role":"user","content":["t",{},{"type":"input_text"}]}`, refused("/content/0: must be an object", "/content/1/type: required", "/content/2/text: required")},
			{"an image", `{"role":"user","content":[{"type":"input_image","image_url":{}}]}`, refused("/content/0/image_url: must be a string or null")},
			{"arguments that are no text", `{"type":"function_call","call_id":"1","name":"f","arguments":{}}`, refused("/arguments: must be a string")},
			{"a result", `{"type":"function_call_output","output":5}`, refused("/call_id: required", "/output: "+parts)},
		}},
	} {
		t.Run(api.name, func(t *testing.T) {
			for i, r := range api.rules {
				api.rules[i].body = `{"` + api.list + `":[{"role":"user","content":"t"},` + r.body + `]}`
				for j, violation := range r.want {
					r.want[j] = "/" + api.list + "/1" + violation
				}
			}
			checkRules(t, api.template, api.rules)
			checkRules(t, api.template, []rule{
				{"a list that is none", `{"` + api.list + `":{}}`, violations(t, api.request, `{"`+api.list+`":{}}`)},
				{"another setting", `{"` + api.list + `":[],"models":5}`, refused("/models: must be an array")},
				{"none", `{}`, nil},
			})
			turn := `{"role":"user","content":5}`
			if got := violations(t, api.request, `{"`+api.list+`":[`+turn+`]}`); got != nil {
				t.Errorf("a message that is not kept: got %q, want none", got)
			}
			files, err := filepath.Glob(filepath.Join("..", "testdata", "requests", api.name+"*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("there are no requests: %v", err)
			}
			for _, file := range files {
				body, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := violations(t, api.template, string(body)); got != nil || !strings.Contains(string(body), `"model"`) {
					t.Errorf("%s: got %q, want none", file, got)
				}
			}
		})
	}
}
