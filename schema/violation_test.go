package schema_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func TestMessages(t *testing.T) {
	const (
		tools   = "must be a known tool type, or have the form <vendor>:<name>"
		plugins = "must be one of auto-beta-router, auto-router, context-compression, file-parser, fusion, moderation, pareto-router, response-healing, switchyard-router, web or web-fetch"
	)
	checkRules(t, schemas(t).ResponsesRequest, []rule{
		{"unknown tool", `{"tools":[{"type":"no_such"}]}`, refused("/tools/0/type: " + tools)},
		{"unknown tool with a colon first", `{"tools":[{"type":":x"}]}`, refused("/tools/0/type: " + tools)},
		{"unknown tool with a colon last", `{"tools":[{"type":"x:"}]}`, refused("/tools/0/type: " + tools)},
		{"tool with a type that is no string", `{"tools":[{"type":5}]}`, refused("/tools/0/type: must be a string")},
		{"tool that is no object", `{"tools":["function"]}`, refused("/tools/0: must be an object")},
		{"unknown vendor's tool", `{"tools":[{"type":"acme:web_search","parameters":5}]}`, nil},
		{"later tool of a known vendor", `{"tools":[{"type":"openrouter:later"}]}`, nil},
		{"unknown plugin", `{"plugins":[{"id":"web"},{"id":"no-such"}]}`, refused("/plugins/1/id: " + plugins)},
		{"vendor's plugin", `{"plugins":[{"id":"acme:web"}]}`, refused("/plugins/0/id: " + plugins)},
		{"plugin with an id that is no string", `{"plugins":[{"id":null}]}`, refused("/plugins/0/id: " + plugins)},
		{"unknown member of provider", `{"provider":{"zdr":true,"foo":null,"bar":{"a":1}}}`, refused("/provider/bar: unknown field", "/provider/foo: unknown field")},
		{"unknown members elsewhere", `{"foo":1,"reasoning":{"foo":1},"text":{"foo":1},"tools":[{"type":"shell","foo":1}],"plugins":[{"id":"web","foo":1}]}`, nil},
		{"unknown members inside provider", `{"provider":{"max_price":{"foo":1},"sort":{"foo":1},"preferred_max_latency":{"foo":1}}}`, nil},
		{"store", `{"store":true}`, refused("/store: must be false")},
		{"previous response", `{"previous_response_id":"resp_1"}`, refused("/previous_response_id: is not supported: the service keeps no responses")},
		{"nested preset", `{"model":"@preset/a"}`, refused("/model: must not refer to a preset")},
		{"nested preset after a model", `{"models":["a/b","a/b@preset/c"]}`, refused("/models/1: must not refer to a preset")},
		{"a preset's name elsewhere", `{"model":"a@presets/b","preset":"c","user":"@preset/d"}`, nil},
		{"tool choice", `{"tool_choice":"always"}`, refused("/tool_choice: must be one of auto, none or required")},
		{"one value", `{"cache_control":{"type":"x"}}`, refused("/cache_control/type: must be ephemeral")},
		{"a value or null", `{"route":"x"}`, refused("/route: must be one of fallback, sort or null")},
		{
			"domains both ways", `{"tools":[{"type":"openrouter:web_search","parameters":{"allowed_domains":[],"excluded_domains":[]}}]}`,
			refused("/tools/0/parameters: must not have both allowed_domains and excluded_domains"),
		},
		{"input that is an object", `{"input":{}}`, refused("/input: must be a string, an array or null")},
		{
			"input items", `{"input":[{},1,[],{"type":5},null,"text",true]}`,
			refused("/input/1: must be an object", "/input/2: must be an object", "/input/4: must be an object", "/input/5: must be an object", "/input/6: must be an object"),
		},
		{
			"several", `{"top_k":1.5,"stream":"yes","models":[1],"model":null}`,
			refused("/model: must be a string", "/models/0: must be a string", "/stream: must be a boolean", "/top_k: must be an integer"),
		},
		{"integers in other forms", `{"top_k":1.0,"max_output_tokens":1e3,"top_logprobs":-0}`, nil},
		{"numbers far out", `{"top_k":1e308,"temperature":1e-999999999,"max_tool_calls":-1e308}`, nil},
		{"a number too far up", `{"max_tool_calls":1e308}`, refused("/max_tool_calls: must be at most 30")},
		{"prose ranges are not enforced", `{"temperature":3,"top_p":2,"top_k":-1,"top_logprobs":99,"frequency_penalty":-9}`, nil},
		{"a long number", `{"temperature":0.` + strings.Repeat("1", 1024) + `}`, nil},
	})
}

// TestPaths checks that paths are JSON Pointers, whatever clients call things.
func TestPaths(t *testing.T) {
	s := schemas(t).ResponsesRequest
	for name, want := range map[string]string{
		`plain`:       "plain",
		`a/b`:         "a~1b",
		`m~n`:         "m~0n",
		`~1`:          "~01",
		`100%`:        "100%",
		`%2F`:         "%2F",
		`é`:           "é",
		`日本 語`:        "日本 語",
		`\"`:          `"`,
		`\\`:          `\`,
		`\u0000`:      "\x00",
		`a\u002fb`:    "a~1b",
		`it's`:        "it's",
		`'a', 'b'`:    "'a', 'b'",
		`?x#y`:        "?x#y",
		``:            "",
		`properties`:  "properties",
		`$ref/0`:      "$ref~10",
		`not+allowed`: "not+allowed",
	} {
		t.Run(name, func(t *testing.T) {
			for body, path := range map[string]string{
				`{"provider":{"%s":1}}`:                      "/provider/",
				`{"metadata":{"%s":1}}`:                      "/metadata/",
				`{"prompt":{"id":"p","variables":{"%s":1}}}`: "/prompt/variables/",
				`{"image_config":{"%s":null}}`:               "/image_config/",
				`{"x":{"%[1]s":1,"%[1]s":2}}`:                "/x/",
			} {
				_, err := s.Check(fmt.Appendf(nil, body, name))
				found, ok := errors.AsType[*schema.Error](err)
				if !ok || len(found.Violations) != 1 {
					t.Fatalf("%s: got %v, want one violation", body, err)
				}
				if got := found.Violations[0].Path; got != path+want {
					t.Errorf("%s: got %q, want %q", body, got, path+want)
				}
			}
		})
	}
}

func TestLongPathsAreCut(t *testing.T) {
	s := schemas(t).ResponsesRequest
	long := strings.Repeat("é", 1<<18)
	for _, body := range []string{
		`{"provider":{"` + long + `":1}}`,
		`{"metadata":{"` + long + `":"v"}}`,
		`{"` + long + `":1,"` + long + `":2}`,
		strings.Repeat(`{"deep":`, 100) + `{"a":1,"a":2}` + strings.Repeat("}", 100),
	} {
		_, err := s.Check([]byte(body))
		found, ok := errors.AsType[*schema.Error](err)
		if !ok {
			t.Fatalf("%.20s: got %v, want an *Error", body, err)
		}
		path := found.Violations[0].Path
		if got := utf8.RuneCountInString(path); got != schema.MaxPathLength || !strings.HasSuffix(path, "…") {
			t.Errorf("%.20s: got %d characters, want %d with an ellipsis", body, got, schema.MaxPathLength)
		}
	}
}

// TestManyViolations checks that the first ones are shown, in an order that
// does not change from call to call.
func TestManyViolations(t *testing.T) {
	tier.NoRace(t)
	s := schemas(t).ResponsesRequest
	for _, test := range []struct{ member, body, message string }{
		{"/input", `{"input":` + list(3000, "0") + `}`, "must be an object"},
		{"/tools", `{"tools":` + list(3000, "0") + `}`, "must be an object"},
		{"/models", `{"models":` + list(3000, "0") + `}`, "must be a string"},
	} {
		var want []string
		for i := range schema.MaxViolations {
			want = append(want, fmt.Sprintf("%s/%d: %s", test.member, i, test.message))
		}
		for range 5 {
			if got := violations(t, s, test.body); !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	mixed := `{"provider":{"c":1,"a":1,"b":1,"10":1,"9":1},"metadata":{"[":1},"top_k":"x"}`
	want := refused(
		"/metadata/[: must be a string",
		"/metadata/[: name must not contain brackets",
		"/provider/a: unknown field", "/provider/b: unknown field", "/provider/c: unknown field",
		"/provider/9: unknown field", "/provider/10: unknown field", "/top_k: must be an integer",
	)
	for range 20 {
		if got := violations(t, s, mixed); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, test := range []struct {
		violations []schema.Violation
		want       string
	}{
		{[]schema.Violation{{Path: "", Message: "must be an object"}}, "must be an object"},
		{[]schema.Violation{{Path: "/a", Message: "required"}, {Path: "/b", Message: "required"}}, "/a: required (and 1 more)"},
	} {
		if got := (&schema.Error{Violations: test.violations}).Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestBudget checks that only values some rule looks at count.
func TestBudget(t *testing.T) {
	tier.Slow(t)
	const tooMany = "has too much to check: more than 16384 values"
	s := schemas(t).ResponsesRequest
	checkRules(t, s, []rule{
		{"within", `{"models":` + list(schema.MaxValues-1, `"m"`) + `}`, nil},
		{"beyond", `{"models":` + list(schema.MaxValues, `"m"`) + `}`, refused("/models: " + tooMany)},
		{"in all", `{"models":` + list(schema.MaxValues-1, `"m"`) + `,"temperature":1}`, refused("/temperature: " + tooMany)},
		{"with a value that has the right type", `{"models":` + list(schema.MaxValues-1, `"m"`) + `,"stream":true}`, nil},
		{"names", `{"provider":{` + text(64*schema.MaxValues) + `:1}}`, refused("/provider: " + tooMany)},
		{"unseen", `{"input":` + list(100_000, `{}`) + `,"x":` + list(100_000, `1`) +
			`,"tools":[{"type":"function","name":"f","parameters":{"x":` + list(100_000, `1`) + `},"y":` + list(100_000, `1`) + `}]}`, nil},
	})
}
