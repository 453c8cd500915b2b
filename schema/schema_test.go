package schema_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
)

// violations checks body and returns its violations as "path: message".
func violations(t *testing.T, s *schema.Schema, body string) []string {
	t.Helper()
	_, err := s.Check([]byte(body))
	compareInFull(t, s, body, err)
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[*schema.Error](err)
	if !ok {
		t.Fatalf("%s: got error %v, want an *Error", body, err)
	}
	var got []string
	for _, v := range found.Violations {
		got = append(got, v.Path+": "+v.Message)
	}
	return got
}

// compareInFull compares Check's result with the validator's findings on the whole body.
// Check may stop in an object or array with too many members. It may also stop in a body
// beyond a limit that is in no schema.
func compareInFull(t *testing.T, s *schema.Schema, body string, got error) {
	t.Helper()
	if got != nil && strings.Contains(got.Error(), ": has ") {
		return
	}
	want := s.CheckInFull([]byte(body))
	if all, ok := errors.AsType[*schema.Error](want); ok && got != nil && strings.Contains(fmt.Sprint(all.Violations), "must have at most") {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%.200s\n got %v\nwant %v as in full", body, got, want)
	}
}

// rule is a body and its violations, none if it is valid.
type rule struct {
	name string
	body string
	want []string
}

func checkRules(t *testing.T, s *schema.Schema, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if got := violations(t, s, r.body); !slices.Equal(got, r.want) {
				t.Errorf("%.200s\n got %q\nwant %q", r.body, got, r.want)
			}
		})
	}
}

func refused(violations ...string) []string { return violations }

// text returns a JSON string of n characters, of more bytes than that.
func text(n int) string { return `"` + strings.Repeat("é", n) + `"` }

func list(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func pairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":"v"`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestExampleRequests(t *testing.T) {
	s := schemas(t)
	for name, schema := range map[string]*schema.Schema{
		"responses.json":            s.ResponsesRequest,
		"responses-every-tool.json": s.ResponsesRequest,
		"chat.json":                 s.ChatRequest,
		"chat-every-tool.json":      s.ChatRequest,
		"messages.json":             s.MessagesRequest,
		"messages-every-tool.json":  s.MessagesRequest,
		"workspace.json":            s.CreateWorkspace,
		"workspace-update.json":     s.UpdateWorkspace,
	} {
		if got := violations(t, schema, string(request(t, name))); got != nil {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

func TestCheckReturnsMembers(t *testing.T) {
	object, err := schemas(t).ResponsesRequest.Check([]byte(`{"model":"m","x":{"y": 1.0},"temperature":1e308}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range object {
		name, value := m.Name, m.Value
		got = append(got, name+"="+string(value))
	}
	want := []string{`model="m"`, `x={"y": 1.0}`, "temperature=1e308"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCheckConcurrently is for the race detector.
func TestCheckConcurrently(t *testing.T) {
	s := schemas(t).ResponsesRequest
	body := request(t, "responses-every-tool.json")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, err := s.Check(body); err != nil {
					t.Errorf("got %v, want no error", err)
				}
			}
		})
	}
	group.Wait()
}

// TestLimits has every row of the specification's table of limits, at the
// bound and just outside it. Characters are code points.
func TestLimits(t *testing.T) {
	workspace := func(member, value string) string {
		fields := map[string]string{"name": `"n"`, "slug": `"s"`}
		fields[member] = value
		var b []string
		for name, value := range fields {
			b = append(b, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(b, ",") + "}"
	}
	slug := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	const slugPattern = "must be lowercase letters and digits, in groups joined by single hyphens"
	s := schemas(t)
	checkRules(t, s.CreateWorkspace, []rule{
		{"name of 1", workspace("name", text(1)), nil},
		{"name of 100", workspace("name", text(100)), nil},
		{"name of 101", workspace("name", text(101)), refused("/name: must be at most 100 characters")},
		{"name of 0", workspace("name", text(0)), refused("/name: must be at least 1 character")},
		{"name of 100 escapes", workspace("name", `"`+strings.Repeat(`\ud83d\ude00`, 100)+`"`), nil},
		{"slug of 1", workspace("slug", slug(1)), nil},
		{"slug of 50", workspace("slug", slug(50)), nil},
		{"slug of 51", workspace("slug", slug(51)), refused("/slug: must be at most 50 characters")},
		{"slug of 0", workspace("slug", slug(0)), refused("/slug: must be at least 1 character", "/slug: "+slugPattern)},
		{"slug with a hyphen", workspace("slug", `"a-1-b"`), nil},
		{"slug with two hyphens", workspace("slug", `"a--b"`), refused("/slug: " + slugPattern)},
		{"slug that begins with a hyphen", workspace("slug", `"-a"`), refused("/slug: " + slugPattern)},
		{"slug that ends with a hyphen", workspace("slug", `"a-"`), refused("/slug: " + slugPattern)},
		{"slug in capitals", workspace("slug", `"A"`), refused("/slug: " + slugPattern)},
		{"slug that is a UUID", workspace("slug", `"01a22347-9214-7ab2-a75c-71d348648854"`), refused("/slug: must not be a UUID")},
		{"slug that is a UUID without hyphens", workspace("slug", `"01a2234792147ab2a75c71d348648854"`), refused("/slug: must not be a UUID")},
		{"slug with a newline", workspace("slug", `"a\n"`), refused("/slug: " + slugPattern)},
		{"description of 500", workspace("description", text(500)), nil},
		{"description of 0", workspace("description", text(0)), nil},
		{"description of 501", workspace("description", text(501)), refused("/description: must be at most 500 characters")},
		{"rate of 0.0001", workspace("io_logging_sampling_rate", "0.0001"), nil},
		{"rate of 1e-4", workspace("io_logging_sampling_rate", "1e-4"), nil},
		{"rate of 1", workspace("io_logging_sampling_rate", "1"), nil},
		{"rate of 1.0", workspace("io_logging_sampling_rate", "1.0"), nil},
		{"rate of 0", workspace("io_logging_sampling_rate", "0"), refused("/io_logging_sampling_rate: must be at least 0.0001")},
		{"rate far too large", workspace("io_logging_sampling_rate", "1e308"), refused("/io_logging_sampling_rate: must be at most 1")},
		{"rate too small for float64", workspace("io_logging_sampling_rate", "1e-999999999"), refused("/io_logging_sampling_rate: must be at least 0.0001")},
	})

	plugin := func(id, members string) string {
		return fmt.Sprintf(`{"plugins":[{"id":%q,%s}]}`, id, members)
	}
	const bracket = "name must not contain brackets"
	checkRules(t, s.ResponsesRequest, []rule{
		{"session_id of 256", `{"session_id":` + text(256) + `}`, nil},
		{"session_id of 257", `{"session_id":` + text(257) + `}`, refused("/session_id: must be at most 256 characters")},
		{"user of 256", `{"user":` + text(256) + `}`, nil},
		{"user of 257", `{"user":` + text(257) + `}`, refused("/user: must be at most 256 characters")},
		{"16 pairs of metadata", `{"metadata":` + pairs(16) + `}`, nil},
		{"17 pairs of metadata", `{"metadata":` + pairs(17) + `}`, refused("/metadata: must have at most 16 members")},
		{"no metadata", `{"metadata":{}}`, nil},
		{"metadata key of 64", `{"metadata":{` + text(64) + `:"v"}}`, nil},
		{"metadata key of 65", `{"metadata":{` + text(65) + `:"v"}}`, refused("/metadata/" + strings.Repeat("é", 65) + ": name must be at most 64 characters")},
		{"metadata value of 512", `{"metadata":{"k":` + text(512) + `}}`, nil},
		{"metadata value of 513", `{"metadata":{"k":` + text(513) + `}}`, refused("/metadata/k: must be at most 512 characters")},
		{"metadata key with [", `{"metadata":{"a[b":"v"}}`, refused("/metadata/a[b: " + bracket)},
		{"metadata key with ]", `{"metadata":{"]":"v"}}`, refused("/metadata/]: " + bracket)},
		{"metadata value that is a number", `{"metadata":{"k":1}}`, refused("/metadata/k: must be a string")},
		{"metadata value that is null", `{"metadata":{"k":null}}`, refused("/metadata/k: must be a string")},
		{"max_tool_calls of 30", `{"max_tool_calls":30}`, nil},
		{"max_tool_calls of 31", `{"max_tool_calls":31}`, refused("/max_tool_calls: must be at most 30")},
		{"max_tool_calls has no lower bound", `{"max_tool_calls":-1}`, nil},
		{"max_tool_calls of 30.5", `{"max_tool_calls":30.5}`, refused("/max_tool_calls: must be an integer or null")},
		{"1 analysis model", plugin("fusion", `"analysis_models":["m"]`), nil},
		{"8 analysis models", plugin("fusion", `"analysis_models":`+list(8, `"m"`)), nil},
		{"9 analysis models", plugin("fusion", `"analysis_models":`+list(9, `"m"`)), refused("/plugins/0/analysis_models: must have at most 8 items")},
		{"no analysis model", plugin("fusion", `"analysis_models":[]`), refused("/plugins/0/analysis_models: must have at least 1 item")},
		{"fusion max_tool_calls of 1", plugin("fusion", `"max_tool_calls":1`), nil},
		{"fusion max_tool_calls of 16", plugin("fusion", `"max_tool_calls":16`), nil},
		{"fusion max_tool_calls of 0", plugin("fusion", `"max_tool_calls":0`), refused("/plugins/0/max_tool_calls: must be at least 1")},
		{"fusion max_tool_calls of 17", plugin("fusion", `"max_tool_calls":17`), refused("/plugins/0/max_tool_calls: must be at most 16")},
		{"8 fusion tools", plugin("fusion", `"tools":`+list(8, `{"type":"t"}`)), nil},
		{"9 fusion tools", plugin("fusion", `"tools":`+list(9, `{"type":"t"}`)), refused("/plugins/0/tools: must have at most 8 items")},
		{"no fusion tools", plugin("fusion", `"tools":[]`), nil},
		{"web search results above 20", `{"tools":[{"type":"web_search","max_results":21}]}`, nil},
		{"tradeoff of 0", plugin("auto-router", `"cost_quality_tradeoff":0`), nil},
		{"tradeoff of 10", plugin("auto-router", `"cost_quality_tradeoff":10`), nil},
		{"tradeoff of -1", plugin("auto-router", `"cost_quality_tradeoff":-1`), refused("/plugins/0/cost_quality_tradeoff: must be at least 0")},
		{"tradeoff of 11", plugin("auto-router", `"cost_quality_tradeoff":11`), refused("/plugins/0/cost_quality_tradeoff: must be at most 10")},
		{"tradeoff of 1.5", plugin("auto-router", `"cost_quality_tradeoff":1.5`), refused("/plugins/0/cost_quality_tradeoff: must be an integer")},
		{"beta tradeoff of 10", plugin("auto-beta-router", `"cost_quality_tradeoff":10`), nil},
		{"beta tradeoff of 11", plugin("auto-beta-router", `"cost_quality_tradeoff":11`), refused("/plugins/0/cost_quality_tradeoff: must be at most 10")},
		{"1024 model patterns", plugin("auto-router", `"allowed_models":`+list(1024, `"a/*"`)), nil},
		{"1025 model patterns", plugin("auto-router", `"allowed_models":`+list(1025, `"a/*"`)), refused("/plugins/0/allowed_models: must have at most 1024 items")},
		{"model pattern of 1024", plugin("auto-beta-router", `"excluded_models":[`+text(1024)+`]`), nil},
		{"model pattern of 1025", plugin("auto-beta-router", `"excluded_models":[`+text(1025)+`]`), refused("/plugins/0/excluded_models/0: must be at most 1024 characters")},
		{"coding score of 0", plugin("pareto-router", `"min_coding_score":0`), nil},
		{"coding score of 1", plugin("pareto-router", `"min_coding_score":1`), nil},
		{"coding score above 1", plugin("pareto-router", `"min_coding_score":1.01`), refused("/plugins/0/min_coding_score: must be at most 1")},
		{"coding score below 0", plugin("pareto-router", `"min_coding_score":-0.01`), refused("/plugins/0/min_coding_score: must be at least 0")},
		{"router price of 0", plugin("pareto-router", `"max_price":0`), nil},
		{"router price below 0", plugin("pareto-router", `"max_price":-0.01`), refused("/plugins/0/max_price: must be at least 0")},
		{"a stop condition", `{"stop_server_tools_when":[{"type":"max_cost","max_cost_in_dollars":0.1}]}`, nil},
		{"no stop condition", `{"stop_server_tools_when":[]}`, refused("/stop_server_tools_when: must have at least 1 item")},
		{"tool name of a stop condition", `{"stop_server_tools_when":[{"type":"has_tool_call","tool_name":""}]}`, refused("/stop_server_tools_when/0/tool_name: must be at least 1 character")},
		{"reason of a stop condition", `{"stop_server_tools_when":[{"type":"finish_reason_is","reason":""}]}`, refused("/stop_server_tools_when/0/reason: must be at least 1 character")},
		{"cache for a second", `{"cache_ttl_seconds":1}`, nil},
		{"cache for a day", `{"cache_ttl_seconds":86400}`, nil},
		{"cache for no time", `{"cache_ttl_seconds":0}`, refused("/cache_ttl_seconds: must be at least 1")},
		{"cache for longer", `{"cache_ttl_seconds":86401}`, refused("/cache_ttl_seconds: must be at most 86400")},
		{"subagent calls of 25", `{"tools":[{"type":"openrouter:subagent","parameters":{"max_tool_calls":25}}]}`, nil},
		{"subagent calls of 26", `{"tools":[{"type":"openrouter:subagent","parameters":{"max_tool_calls":26}}]}`, refused("/tools/0/parameters/max_tool_calls: must be at most 25")},
		{"subagent calls of 0", `{"tools":[{"type":"openrouter:subagent","parameters":{"max_tool_calls":0}}]}`, refused("/tools/0/parameters/max_tool_calls: must be at least 1")},
		{"advisor name of 64", `{"tools":[{"type":"openrouter:advisor","parameters":{"name":"` + strings.Repeat("a", 64) + `"}}]}`, nil},
		{"advisor name of 65", `{"tools":[{"type":"openrouter:advisor","parameters":{"name":"` + strings.Repeat("a", 65) + `"}}]}`, refused("/tools/0/parameters/name: must be at most 64 characters")},
		{"advisor name of 0", `{"tools":[{"type":"openrouter:advisor","parameters":{"name":""}}]}`, refused("/tools/0/parameters/name: must be at least 1 character")},
		{"advisor name with a dot", `{"tools":[{"type":"openrouter:advisor","parameters":{"name":"a.b"}}]}`, refused("/tools/0/parameters/name: must be letters, digits, spaces, underscores and hyphens")},
		{"container id of 20", `{"tools":[{"type":"openrouter:bash","parameters":{"environment":{"type":"container_reference","container_id":"` + strings.Repeat("a", 20) + `"}}}]}`, nil},
		{"container id of 21", `{"tools":[{"type":"openrouter:bash","parameters":{"environment":{"type":"container_reference","container_id":"` + strings.Repeat("a", 21) + `"}}}]}`, refused("/tools/0/parameters/environment/container_id: must be at most 20 characters")},
		{"8 models of the fusion tool", `{"tools":[{"type":"openrouter:fusion","parameters":{"analysis_models":` + list(8, `"m"`) + `}}]}`, nil},
		{"9 models of the fusion tool", `{"tools":[{"type":"openrouter:fusion","parameters":{"analysis_models":` + list(9, `"m"`) + `}}]}`, refused("/tools/0/parameters/analysis_models: must have at most 8 items")},
		{"9 tools of the fusion tool", `{"tools":[{"type":"openrouter:fusion","parameters":{"tools":` + list(9, `{"type":"t"}`) + `}}]}`, refused("/tools/0/parameters/tools: must have at most 8 items")},
	})
}

// Sample values, one of each type.
var samples = map[string]string{
	"null":    "null",
	"boolean": "false",
	"integer": "7",
	"number":  "0.5",
	"string":  `"s"`,
	"array":   "[]",
	"object":  "{}",
}

// TestTypes gives every member a value of every type. A member's entry has the types that
// it accepts, in the order of the message. A type in parentheses is accepted only for some
// values, which other tests cover. Members that accept any value are ignored.
func TestTypes(t *testing.T) {
	every := map[string]string{
		"Model":                  "any",
		"cache_control":          "(object)",
		"cache_enabled":          "boolean null",
		"cache_ttl_seconds":      "integer null",
		"model":                  "string",
		"models":                 "array",
		"name":                   "any",
		"no_such":                "any",
		"plugins":                "array",
		"preset":                 "any",
		"provider":               "object null",
		"route":                  "(string) null",
		"session_id":             "string",
		"stop_server_tools_when": "(array)",
		"stream":                 "boolean",
		"temperature":            "number null",
		"top_p":                  "number null",
		"trace":                  "object",
		"user":                   "string",
		"workspace_id":           "any",
	}
	responses := map[string]string{
		"background":           "boolean null",
		"debug":                "object",
		"frequency_penalty":    "number null",
		"image_config":         "object",
		"include":              "array null",
		"input":                "string array null",
		"instructions":         "string null",
		"max_output_tokens":    "integer null",
		"max_tokens":           "any",
		"max_tool_calls":       "integer null",
		"messages":             "any",
		"metadata":             "object null",
		"modalities":           "array",
		"parallel_tool_calls":  "boolean null",
		"presence_penalty":     "number null",
		"previous_response_id": "null",
		"prompt":               "(object) null",
		"prompt_cache_key":     "string null",
		"prompt_cache_options": "(object) null",
		"reasoning":            "object null",
		"safety_identifier":    "string null",
		"service_tier":         "(string) null",
		"stop":                 "any",
		"store":                "boolean",
		"text":                 "object",
		"tool_choice":          "(string) (object)",
		"tools":                "array",
		"top_k":                "integer",
		"top_logprobs":         "integer null",
		"truncation":           "(string) null",
	}
	chat := map[string]string{
		"debug":                 "object",
		"fallbacks":             "any",
		"frequency_penalty":     "number null",
		"functions":             "any",
		"image_config":          "object",
		"include_reasoning":     "boolean null",
		"input":                 "any",
		"instructions":          "any",
		"logit_bias":            "object null",
		"logprobs":              "boolean null",
		"max_completion_tokens": "integer null",
		"max_output_tokens":     "any",
		"max_tokens":            "integer null",
		"max_tool_calls":        "any",
		"messages":              "array",
		"metadata":              "object null",
		"min_p":                 "number null",
		"modalities":            "array",
		"parallel_tool_calls":   "boolean null",
		"prediction":            "object null",
		"presence_penalty":      "number null",
		"previous_response_id":  "any",
		"prompt_cache_key":      "string null",
		"prompt_cache_options":  "(object) null",
		"reasoning":             "object null",
		"reasoning_effort":      "(string) null",
		"repetition_penalty":    "number null",
		"response_format":       "(object) null",
		"safety_identifier":     "any",
		"seed":                  "integer null",
		"service_tier":          "(string) null",
		"stop":                  "string array null",
		"store":                 "any",
		"stream_options":        "object null",
		"structured_outputs":    "boolean null",
		"system":                "any",
		"text":                  "any",
		"tool_choice":           "(string) (object)",
		"tools":                 "array",
		"top_a":                 "number null",
		"top_k":                 "integer null",
		"top_logprobs":          "integer null",
		"verbosity":             "(string) null",
		"web_search_options":    "object null",
	}
	messages := map[string]string{
		"container":            "any",
		"context_management":   "object null",
		"fallbacks":            "array null",
		"frequency_penalty":    "any",
		"input":                "any",
		"instructions":         "any",
		"max_tokens":           "integer null",
		"max_tool_calls":       "any",
		"mcp_servers":          "any",
		"messages":             "array null",
		"metadata":             "object null",
		"output_config":        "object null",
		"parallel_tool_calls":  "any",
		"previous_response_id": "any",
		"reasoning":            "any",
		"safeguards":           "any",
		"service_tier":         "string null",
		"speed":                "string null",
		"stop":                 "any",
		"stop_sequences":       "array null",
		"store":                "any",
		"system":               "string array",
		"thinking":             "(object) null",
		"tool_choice":          "(object) null",
		"tools":                "array",
		"top_k":                "integer null",
	}
	workspace := map[string]string{
		"name":                                "string",
		"slug":                                "string",
		"description":                         "string null",
		"default_text_model":                  "string null",
		"default_image_model":                 "string null",
		"default_provider_sort":               "(string) null",
		"disabled_server_tools":               "array null",
		"io_logging_api_key_ids":              "array null",
		"io_logging_sampling_rate":            "number",
		"is_data_discount_logging_enabled":    "boolean",
		"is_observability_broadcast_enabled":  "boolean",
		"is_observability_io_logging_enabled": "boolean",
		"workspace_id":                        "any",
	}
	s := schemas(t)
	alone := func(name, value string) string { return fmt.Sprintf("{%q:%s}", name, value) }
	for _, s := range requestsOf(t, "rcm") {
		checkTypes(t, s, every, alone)
	}
	checkTypes(t, s.ResponsesRequest, responses, alone)
	checkTypes(t, s.ChatRequest, chat, alone)
	checkTypes(t, s.MessagesRequest, messages, alone)
	checkTypes(t, s.UpdateWorkspace, workspace, alone)
	checkTypes(t, s.UpdatePreset, map[string]string{"name": "string", "description": "string null", "status": "(string)", "slug": "any", "id": "any"}, alone)
	checkTypes(t, s.WorkspaceReference, map[string]string{"workspace_id": "string", "other": "any"}, alone)
	checkTypes(t, s.Designate, map[string]string{"version": "integer"}, alone)
	checkTypes(t, s.Designate, map[string]string{"label": "string"}, alone)
	checkTypes(t, s.Label, map[string]string{"version": "integer"}, alone)
	checkTypes(t, s.Label, map[string]string{"split": "(array)"}, alone)
	checkTypes(t, s.CreateWorkspace, workspace, func(name, value string) string {
		body := fmt.Sprintf("{%q:%s", name, value)
		for _, required := range []string{"name", "slug"} {
			if required != name {
				body += fmt.Sprintf(",%q:\"s\"", required)
			}
		}
		return body + "}"
	})
}

func checkTypes(t *testing.T, s *schema.Schema, members map[string]string, body func(name, value string) string) {
	t.Helper()
	for name, takes := range members {
		types := strings.Fields(takes)
		for kind, value := range samples {
			t.Run(name+"/"+kind, func(t *testing.T) {
				if slices.Contains(types, "("+kind+")") {
					t.Skip("depends on the value")
				}
				got := violations(t, s, body(name, value))
				ok := slices.Contains(types, kind) || takes == "any" ||
					// Every integer is a number; 7 is no sampling rate.
					kind == "integer" && slices.Contains(types, "number") && name != "io_logging_sampling_rate"
				if ok && got != nil {
					t.Errorf("%s: got %q, want none", value, got)
				}
				if !ok && (len(got) != 1 || !strings.HasPrefix(got[0], "/"+name+": ")) {
					t.Errorf("%s: got %q, want one for /%s", value, got, name)
				}
			})
		}
	}
}

// TestEnums tries every listed value, an unlisted one, and null if it is listed as <null>.
func TestEnums(t *testing.T) {
	const (
		efforts  = "max xhigh high medium low minimal none"
		engines  = "native exa parallel firecrawl perplexity auto"
		modes    = "instant fast auto deep-lite deep deep-reasoning turbo basic advanced"
		sorts    = "price throughput latency exacto"
		tiers    = "low medium high xhigh max"
		sizes    = "low medium high"
		approval = "always never"
	)
	tool := func(kind, members string) string {
		return fmt.Sprintf(`{"tools":[{"type":%q,%s}]}`, kind, members)
	}
	server := func(kind, members string) string {
		return tool("openrouter:"+kind, `"parameters":{`+members+`}`)
	}
	plugin := func(id, members string) string {
		return fmt.Sprintf(`{"plugins":[{"id":%q,%s}]}`, id, members)
	}
	for _, enum := range []struct{ apis, body, path, values string }{
		{"rcm", `{"cache_control":{"type":%s}}`, "/cache_control/type", "ephemeral"},
		{"rcm", `{"cache_control":{"type":"ephemeral","ttl":%s}}`, "/cache_control/ttl", "5m 1h"},
		{"r", `{"include":[%s]}`, "/include/0", "file_search_call.results message.input_image.image_url computer_call_output.output.image_url reasoning.encrypted_content code_interpreter_call.outputs"},
		{"r", `{"modalities":[%s]}`, "/modalities/0", "text image"},
		{"rc", `{"prompt_cache_options":{"mode":%s}}`, "/prompt_cache_options/mode", "explicit"},
		{"rcm", `{"route":%s}`, "/route", "fallback sort <null>"},
		{"rc", `{"service_tier":%s}`, "/service_tier", "auto default flex priority scale fast <null>"},
		{"r", `{"truncation":%s}`, "/truncation", "auto disabled <null>"},
		{"rc", `{"reasoning":{"effort":%s}}`, "/reasoning/effort", efforts + " <null>"},
		{"rc", `{"reasoning":{"summary":%s}}`, "/reasoning/summary", "auto concise detailed <null>"},
		{"rc", `{"reasoning":{"context":%s}}`, "/reasoning/context", "auto all_turns current_turn <null>"},
		{"rc", `{"reasoning":{"mode":%s}}`, "/reasoning/mode", "standard pro <null>"},
		{"r", `{"text":{"verbosity":%s}}`, "/text/verbosity", tiers + " <null>"},
		{"r", `{"text":{"format":{"type":%s,"name":"n","schema":{}}}}`, "/text/format/type", "text json_object json_schema"},
		{"r", `{"tool_choice":%s}`, "/tool_choice", "auto none required"},
		{"r", `{"tool_choice":{"type":%s,"name":"n","mode":"auto","tools":[]}}`, "/tool_choice/type", "function web_search_preview web_search_preview_2025_03_11 allowed_tools apply_patch shell"},
		{"r", `{"tool_choice":{"type":"allowed_tools","mode":%s,"tools":[]}}`, "/tool_choice/mode", "auto required"},
		{"r", `{"prompt":{"id":"p","variables":{"v":{"type":%s,"text":"t","detail":"auto"}}}}`, "/prompt/variables/v/type", "input_text input_image input_file"},
		{"r", `{"prompt":{"id":"p","variables":{"v":{"type":"input_image","detail":%s}}}}`, "/prompt/variables/v/detail", "auto high low original"},
		{"r", `{"prompt":{"id":"p","variables":{"v":{"type":"input_text","text":"t","prompt_cache_breakpoint":{"mode":%s}}}}}`, "/prompt/variables/v/prompt_cache_breakpoint/mode", "explicit"},
		{"rcm", `{"stop_server_tools_when":[{"type":%s,"step_count":1,"max_cost_in_dollars":1,"tool_name":"t","max_tokens":1,"reason":"r"}]}`, "/stop_server_tools_when/0/type", "step_count_is max_cost has_tool_call max_tokens_used finish_reason_is"},
		{"rcm", `{"provider":{"data_collection":%s}}`, "/provider/data_collection", "allow deny <null>"},
		{"rcm", `{"provider":{"quantizations":[%s]}}`, "/provider/quantizations/0", "int4 int8 fp4 mxfp4 nvfp4 fp6 fp8 mxfp8 fp16 bf16 fp32 unknown"},
		{"rcm", `{"provider":{"sort":%s}}`, "/provider/sort", sorts + " <null>"},
		{"rcm", `{"provider":{"sort":{"by":%s}}}`, "/provider/sort/by", sorts + " <null>"},
		{"rcm", `{"provider":{"sort":{"partition":%s}}}`, "/provider/sort/partition", "model none <null>"},
		{"rcm", `{"plugins":[{"id":%s}]}`, "/plugins/0/id", "auto-router auto-beta-router moderation web web-fetch file-parser response-healing context-compression pareto-router fusion"},
		{"rcm", plugin("auto-router", `"cost_tier":%s`), "/plugins/0/cost_tier", tiers},
		{"rcm", plugin("auto-beta-router", `"cost_tier":%s`), "/plugins/0/cost_tier", tiers},
		{"rcm", plugin("web", `"engine":%s`), "/plugins/0/engine", "native exa firecrawl parallel perplexity"},
		{"rcm", plugin("web", `"mode":%s`), "/plugins/0/mode", modes},
		{"rcm", plugin("web", `"user_location":{"type":%s}`), "/plugins/0/user_location/type", "approximate"},
		{"rcm", plugin("file-parser", `"pdf":{"engine":%s}`), "/plugins/0/pdf/engine", "mistral-ocr native cloudflare-ai pdf-text"},
		{"rcm", plugin("context-compression", `"engine":%s`), "/plugins/0/engine", "middle-out"},
		{"rcm", plugin("pareto-router", `"price_source":%s`), "/plugins/0/price_source", "prompt weighted_avg"},
		{"rcm", plugin("fusion", `"preset":%s`), "/plugins/0/preset", "general-high general-budget general-fast"},
		{"r", tool("web_search", `"engine":%s`), "/tools/0/engine", engines},
		{"r", tool("web_search_2025_08_26", `"mode":%s`), "/tools/0/mode", modes},
		{"r", tool("web_search_preview", `"search_context_size":%s`), "/tools/0/search_context_size", sizes},
		{"r", tool("web_search_preview_2025_03_11", `"user_location":{"type":%s}`), "/tools/0/user_location/type", "approximate"},
		{"r", tool("file_search", `"vector_store_ids":[],"ranking_options":{"ranker":%s}`), "/tools/0/ranking_options/ranker", "auto default-2024-11-15"},
		{"r", tool("file_search", `"vector_store_ids":[],"filters":{"type":%s,"key":"k","value":1,"filters":[]}`), "/tools/0/filters/type", "eq ne gt gte lt lte and or"},
		{"r", tool("computer_use_preview", `"display_height":1,"display_width":1,"environment":%s`), "/tools/0/environment", "windows mac linux ubuntu browser"},
		{"r", tool("code_interpreter", `"container":{"type":%s}`), "/tools/0/container/type", "auto"},
		{"r", tool("code_interpreter", `"container":{"type":"auto","memory_limit":%s}`), "/tools/0/container/memory_limit", "1g 4g 16g 64g <null>"},
		{"r", tool("mcp", `"server_label":"s","connector_id":%s`), "/tools/0/connector_id", "connector_dropbox connector_gmail connector_googlecalendar connector_googledrive connector_microsoftteams connector_outlookcalendar connector_outlookemail connector_sharepoint"},
		{"r", tool("mcp", `"server_label":"s","require_approval":%s`), "/tools/0/require_approval", approval + " <null>"},
		{"r", tool("image_generation", `"background":%s`), "/tools/0/background", "transparent opaque auto"},
		{"r", tool("image_generation", `"input_fidelity":%s`), "/tools/0/input_fidelity", "high low <null>"},
		{"r", tool("image_generation", `"moderation":%s`), "/tools/0/moderation", "auto low"},
		{"r", tool("image_generation", `"output_format":%s`), "/tools/0/output_format", "png webp jpeg"},
		{"r", tool("image_generation", `"quality":%s`), "/tools/0/quality", "low medium high auto"},
		{"r", tool("custom", `"name":"n","format":{"type":%s,"definition":"d","syntax":"lark"}`), "/tools/0/format/type", "text grammar"},
		{"r", tool("custom", `"name":"n","format":{"type":"grammar","definition":"d","syntax":%s}`), "/tools/0/format/syntax", "lark regex"},
		{"r", tool("namespace", `"name":"n","description":"d","tools":[{"type":%s,"name":"n"}]`), "/tools/0/tools/0/type", "function custom"},
		{"r", tool("namespace", `"name":"n","description":"d","tools":[{"type":"function","name":"n","allowed_callers":[%s]}]`), "/tools/0/tools/0/allowed_callers/0", "direct programmatic"},
		{"rcm", server("advisor", `"reasoning":{"effort":%s}`), "/tools/0/parameters/reasoning/effort", efforts},
		{"rcm", server("fusion", `"cache_control":{"type":%s}`), "/tools/0/parameters/cache_control/type", "ephemeral"},
		{"rcm", server("web_search", `"engine":%s`), "/tools/0/parameters/engine", engines},
		{"rcm", server("web_search", `"mode":%s`), "/tools/0/parameters/mode", modes},
		{"rcm", server("web_search", `"search_context_size":%s`), "/tools/0/parameters/search_context_size", sizes},
		{"rcm", server("web_fetch", `"engine":%s`), "/tools/0/parameters/engine", "auto native openrouter exa parallel firecrawl"},
		{"r", server("apply_patch", `"engine":%s`), "/tools/0/parameters/engine", "auto native openrouter"},
		{"rcm", server("bash", `"engine":%s`), "/tools/0/parameters/engine", "auto native openrouter"},
		{"rcm", server("shell", `"engine":%s`), "/tools/0/parameters/engine", "auto openrouter"},
		{"rcm", server("shell", `"environment":{"type":%s,"container_id":"c"}`), "/tools/0/parameters/environment/type", "container_auto container_reference"},
		{"c", `{"modalities":[%s]}`, "/modalities/0", "text image audio"},
		{"c", `{"verbosity":%s}`, "/verbosity", tiers + " <null>"},
		{"c", `{"reasoning_effort":%s}`, "/reasoning_effort", efforts + " <null>"},
		{"c", `{"response_format":{"type":%s,"json_schema":{"name":"n"},"grammar":"g"}}`, "/response_format/type", "text json_object json_schema grammar python"},
		{"c", `{"tool_choice":%s}`, "/tool_choice", "auto none required"},
		{"c", `{"web_search_options":{"search_context_size":%s}}`, "/web_search_options/search_context_size", sizes},
		{"c", `{"messages":[{"role":"user"},{"role":%s,"content":""}]}`, "/messages/1/role", "system developer user assistant tool"},
		{"c", `{"messages":[{"role":"system","content":[{"type":%s,"text":""}]}]}`, "/messages/0/content/0/type", "text"},
		{"c", tool("web_search", `"engine":%s`), "/tools/0/engine", engines},
		{"c", tool("web_search_preview", `"mode":%s`), "/tools/0/mode", modes},
		{"c", tool("web_search_2025_08_26", `"search_context_size":%s`), "/tools/0/search_context_size", sizes},
		{"c", tool("web_search_preview_2025_03_11", `"user_location":{"type":%s}`), "/tools/0/user_location/type", "approximate"},
		{"c", tool("web_search", `"parameters":{"engine":%s}`), "/tools/0/parameters/engine", engines},
		{"c", tool("function", `"function":{"name":"n"},"cache_control":{"type":%s}`), "/tools/0/cache_control/type", "ephemeral"},
		{"m", `{"messages":[{"role":"user"},{"role":%s}]}`, "/messages/1/role", "user assistant system"},
		{"m", `{"system":[{"type":%s,"text":""}]}`, "/system/0/type", "text"},
		{"m", `{"system":[{"type":"text","text":"","cache_control":{"type":%s}}]}`, "/system/0/cache_control/type", "ephemeral"},
		{"m", `{"system":[{"type":"text","text":"","cache_control":{"type":"ephemeral","ttl":%s}}]}`, "/system/0/cache_control/ttl", "5m 1h"},
		{"m", `{"thinking":{"type":%s,"budget_tokens":1}}`, "/thinking/type", "enabled disabled adaptive"},
		{"m", `{"tool_choice":{"type":%s,"name":"n"}}`, "/tool_choice/type", "auto any none tool"},
		{"m", `{"tools":[{"name":"n","input_schema":{},"cache_control":{"type":%s}}]}`, "/tools/0/cache_control/type", "ephemeral"},
	} {
		for _, s := range requestsOf(t, enum.apis) {
			checkEnum(t, s, enum.body, enum.path, enum.values)
		}
	}
	s := schemas(t)
	checkEnum(t, s.CreateWorkspace, `{"name":"n","slug":"s","default_provider_sort":%s}`, "/default_provider_sort", sorts+" <null>")
	checkEnum(t, s.UpdateWorkspace, `{"default_provider_sort":%s}`, "/default_provider_sort", sorts+" <null>")
	checkEnum(t, s.UpdatePreset, `{"status":%s}`, "/status", "active disabled")
}

func checkEnum(t *testing.T, s *schema.Schema, body, path, values string) {
	t.Helper()
	t.Run(path, func(t *testing.T) {
		var listed []string
		for value := range strings.FieldsSeq(values) {
			value, isNull := strings.CutPrefix(value, "<null>")
			listed = append(listed, value)
			text := fmt.Sprintf("%q", value)
			if isNull {
				text, listed[len(listed)-1] = "null", "null"
			}
			if got := violations(t, s, fmt.Sprintf(body, text)); got != nil {
				t.Errorf("%s: got %q, want none", text, got)
			}
		}
		others := []string{`"no such value"`, `""`, `"` + strings.ToUpper(listed[0]) + `"`, "5"}
		if !slices.Contains(listed, "null") {
			others = append(others, "null")
		}
		for _, other := range others {
			got := violations(t, s, fmt.Sprintf(body, other))
			if len(got) == 0 || !strings.HasPrefix(got[0], path+": must be ") {
				t.Errorf("%s: got %q, want one for %s", other, got, path)
				continue
			}
			if other[0] == '"' {
				for _, value := range listed {
					// A member that is more than an enum does not list null.
					if value != "null" && !strings.Contains(got[0], value) {
						t.Errorf("got %q, want it to list %s", got, value)
					}
				}
			}
		}
	})
}
