package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/schema"
)

// FuzzCheck holds Check to its contract for any body. The first byte of the input selects the schema.
func FuzzCheck(f *testing.F) {
	s := schemas(f)
	bodies := []*schema.Schema{
		s.ResponsesRequest, s.ChatRequest, s.MessagesRequest, s.ResponsesTemplate, s.ChatTemplate, s.MessagesTemplate,
		s.UpdateWorkspace, s.UpdatePreset, s.Designate, s.Label, s.WorkspaceReference, s.Feedback, s.CreateWorkspace,
	}
	seeds := []string{
		`{"tools":[{"type":"no_such"},{"name":1,"type":"function"}],"provider":{"":1,"a/b~%":2}}`,
		`{"metadata":{"[":1,"":"","é":null},"top_k":1e999999999,"temperature":-1E-999999}`,
		`{"input":[1,{}],"models":["@preset/x"],"store":true,"previous_response_id":0}`,
		`{"a":{"b":1,"\u0062":2}}`,
		`{"a":"\ud800"}`,
		"{\"a\":\"\xff\"}",
		strings.Repeat(`{"a":[`, 70),
		`{"messages":[{"role":"x"},5,{"content":1,"role":"system"},{"role":"developer","content":[{"type":"text"},1]},{}]}`,
		`{"messages":[{"role":"user","role":"user"}],"messages":[]}`,
		`{"reasoning":{"effort":"low"},"reasoning_effort":"high","stop":["a",1,"","",""],"logit_bias":{"":null}}`,
		`{"tools":[{"type":"function","function":{"name":1}},{"type":"web_search","allowed_domains":[1],"excluded_domains":0}]}`,
		`{"response_format":{"type":"grammar"},"tool_choice":{"type":5}}`,
		`{"messages":[{}],"system":[{"type":"text","text":1},"",{"cache_control":{"ttl":0}}]}`,
		`{"fallbacks":[{"model":"@preset/x"},{},1,null],"models":["m"]}`,
		`{"tools":[{},{"type":null},{"type":"bash_1","name":1},{"name":1,"input_schema":[],"type":"custom"},{"type":"openrouter:subagent","parameters":{"inherit_functions":0}}]}`,
		`{"thinking":{"type":"enabled"},"tool_choice":{"type":"tool"},"output_config":{"format":{"type":""}}}`,
		`{"name":"","slug":"-","disabled_server_tools":["x",1,null],"status":"archived","description":5}`,
		`{"version":1e999999999,"label":"","split":[{"version":0.5,"weight":-1},{},1]}`,
		`{"version":1,"label":"l"}`, `{"version":null,"split":[]}`, `{"workspace_id":""}`,
		`{"request_id":"","session_id":"s","score":1.5,"name":" "}`,
		`{"name":"","slug":"-","io_logging_sampling_rate":0.00009999999999999999999}`,
		`{"name":null,"default_provider_sort":"x","io_logging_api_key_ids":[1.5,"a",null]}`,
		`{"messages":[{"role":"user","content":5},{"role":"tool","content":[{"type":"text"},1]},{"role":"assistant","tool_calls":[{"type":"function"}]}],"input":[{"content":[{"type":5}]}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"t"}]},{"type":"function_call","name":1}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{}]}]}]}`,
	}
	for _, name := range []string{
		"responses.json", "responses-every-tool.json", "chat.json", "chat-every-tool.json", "messages.json", "messages-every-tool.json", "workspace.json", "workspace-update.json",
	} {
		seeds = append(seeds, string(request(f, name)))
	}
	suite, err := filepath.Glob("testdata/jsontestsuite/test_parsing/*_object_*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range suite {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, string(text))
	}
	for i := range bodies {
		for _, seed := range seeds {
			f.Add(append([]byte{byte(i)}, seed...))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 0 {
			checkBody(t, bodies[int(body[0])%len(bodies)], body[1:])
		}
	})
}

func checkBody(t *testing.T, s *schema.Schema, body []byte) {
	t.Helper()
	before := bytes.Clone(body)
	object, err := s.Check(body)
	compareInFull(t, s, string(body), err)
	if !bytes.Equal(body, before) {
		t.Fatal("the body was changed")
	}
	if err != nil {
		checkError(t, body, err)
		if _, again := s.Check(body); !reflect.DeepEqual(again, err) {
			t.Errorf("got %v, then %v", err, again)
		}
		return
	}
	var want map[string]any
	if err := decode(body, &want); err != nil {
		t.Fatalf("accepted, but %v", err)
	}
	got := make(map[string]any)
	for _, m := range object {
		name, text := m.Name, m.Value
		var value any
		if err := decode(text, &value); err != nil {
			t.Fatalf("member %q: %v", name, err)
		}
		got[name] = value
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("members: got %v, want %v", got, want)
	}
}

func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

func checkError(t *testing.T, body []byte, err error) {
	t.Helper()
	found, ok := errors.AsType[*schema.Error](err)
	if !ok {
		t.Fatalf("got error %v, want an *Error", err)
	}
	if n := len(found.Violations); n < 1 || n > schema.MaxViolations {
		t.Fatalf("got %d violations, want 1 to %d", n, schema.MaxViolations)
	}
	var values any
	if decode(body, &values) != nil {
		values = nil
	}
	for _, v := range found.Violations {
		if v.Path != "" && v.Path[0] != '/' || utf8.RuneCountInString(v.Path) > schema.MaxPathLength || !utf8.ValidString(v.Path) {
			t.Errorf("got path %q", v.Path)
		}
		if v.Message == "" || !utf8.ValidString(v.Message) {
			t.Errorf("got message %q", v.Message)
		}
		eachString(values, func(value string) {
			// A short value, or one of only these characters, may be a word of the
			// messages.
			if len(value) > 8 && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz _-,.:<>()[]0123456789") != "" && strings.Contains(v.Message, value) {
				t.Errorf("message %q repeats %q", v.Message, value)
			}
		})
	}
}

func eachString(value any, visit func(string)) {
	switch value := value.(type) {
	case string:
		visit(value)
	case []any:
		for _, item := range value {
			eachString(item, visit)
		}
	case map[string]any:
		for _, member := range value {
			eachString(member, visit)
		}
	}
}
