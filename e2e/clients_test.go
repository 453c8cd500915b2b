package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The presets of these tests. Each has a prompt, a tool and settings of one family of models.
// python/clients.py knows their names.
var familyPresets = []struct{ slug, path, body string }{
	{"gpt", "responses", `{"model": "gpt-5-nano", "instructions": "Be brief.", "max_output_tokens": 2000,
		"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "tool_choice": "auto", "parallel_tool_calls": false,
		"tools": [{"type": "function", "name": "find_customer", "parameters": {"type": "object", "properties": {}}}]}`},
	{"qwen", "chat/completions", `{"model": "Qwen/Qwen3.5-35B-A3B", "messages": [{"role": "system", "content": "Be brief."}],
		"max_tokens": 2000, "temperature": 0.2, "top_p": 0.9, "tool_choice": "auto", "parallel_tool_calls": false,
		"tools": [{"type": "function", "function": {"name": "find_customer", "parameters": {"type": "object", "properties": {}}}}]}`},
	{"claude", "messages", `{"model": "claude-sonnet-4-6", "system": "Be brief.", "max_tokens": 8000, "temperature": 0.2,
		"tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
		"tools": [{"name": "find_customer", "input_schema": {"type": "object", "properties": {}}}],
		"messages": [{"role": "user", "content": "Hello"}]}`},
	{"claude-thinking", "messages", `{"model": "claude-sonnet-4-6", "system": "Be brief.", "max_tokens": 8000,
		"thinking": {"type": "enabled", "budget_tokens": 4000},
		"tools": [{"name": "find_customer", "input_schema": {"type": "object", "properties": {}}}],
		"messages": [{"role": "user", "content": "Hello"}]}`},
}

// familySettings are the settings of these presets as a request has them, by the last element of its
// path and the preset.
var familySettings = map[string]map[string]any{
	"completions/gpt":          {"model": "gpt-5-nano", "max_completion_tokens": 2000., "reasoning_effort": "low", "verbosity": "low", "parallel_tool_calls": false},
	"completions/qwen":         {"model": qwen, "max_tokens": 2000., "temperature": 0.2, "top_p": 0.9, "parallel_tool_calls": false},
	"responses/gpt":            {"model": "gpt-5-nano", "max_output_tokens": 2000., "reasoning.effort": "low", "text.verbosity": "low", "parallel_tool_calls": false},
	"responses/qwen":           {"model": qwen, "max_output_tokens": 2000., "temperature": 0.2, "top_p": 0.9, "parallel_tool_calls": false},
	"messages/claude":          {"model": "claude-sonnet-4-6", "max_tokens": 8000., "temperature": 0.2, "tool_choice.disable_parallel_tool_use": true},
	"messages/claude-thinking": {"model": "claude-sonnet-4-6", "max_tokens": 8000., "thinking.type": "enabled", "thinking.budget_tokens": 4000.},
}

const qwen = "Qwen/Qwen3.5-35B-A3B"

// startFamilies runs Caddy in front of a strict provider, with the presets of these tests.
func startFamilies(t *testing.T) (*server, *provider) {
	t.Helper()
	behind := newProvider(t)
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	for _, preset := range familyPresets {
		s.manage(t, "POST", "/v1/presets/"+preset.slug+"/"+preset.path, preset.body)
	}
	return s, behind
}

// check fails the test unless the provider took a request that names a preset, and the request has
// the preset's model, prompt, tool and settings. The client itself sends the settings own.
func (r judged) check(t *testing.T, preset string, own []string) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatal(err)
	}
	shown := maps.Clone(body)
	for _, long := range []string{"messages", "input", "system", "instructions", "tools"} {
		delete(shown, long)
	}
	t.Logf("%s with %s: %v", r.uri, preset, shown)
	if r.why != "" {
		t.Errorf("is refused: %s", r.why)
	}
	path, _, _ := strings.Cut(r.uri, "?")
	settings, ok := familySettings[filepath.Base(path)+"/"+preset]
	if !ok {
		t.Fatal("is not expected")
	}
	for name, want := range settings {
		if got := at(body, name); !slices.Contains(own, name) && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want the preset's %v", name, got, want)
		}
	}
	if first := firstPrompt(body); !strings.HasPrefix(first, "Be brief.") {
		t.Errorf("the prompt begins with %.100q, want the preset's", first)
	}
	if !strings.Contains(r.body, `"find_customer"`) {
		t.Error("lacks the preset's tool")
	}
}

// at returns the value of a member, whose name has a dot before that of an inner one.
func at(object map[string]any, name string) any {
	outer, inner, _ := strings.Cut(name, ".")
	if inner == "" {
		return object[outer]
	}
	next, _ := object[outer].(map[string]any)
	return at(next, inner)
}

// firstPrompt returns the first text of the system prompt, behind the attribution of Claude Code.
func firstPrompt(body map[string]any) string {
	prompt := body["system"]
	if text, ok := body["instructions"].(string); ok {
		return text
	}
	if messages, ok := body["messages"].([]any); ok && prompt == nil {
		prompt = messages[0].(map[string]any)["content"]
	}
	blocks, ok := prompt.([]any)
	if !ok {
		text, _ := prompt.(string)
		return text
	}
	for _, block := range blocks {
		if text, _ := block.(map[string]any)["text"].(string); !strings.HasPrefix(text, "x-anthropic-billing-header:") {
			return text
		}
	}
	return ""
}

// pythonClient is a client of python/clients.py.
type pythonClient struct {
	own    []string // settings that the client always sends itself
	inLong bool     // only .ci/run long installs it
}

// pythonClients are in two environments, because some need an older version of openai.
var pythonClients = map[string]map[string]pythonClient{
	"current": {
		"openai_chat":           {},
		"openai_responses":      {},
		"anthropic":             {own: []string{"max_tokens"}},
		"openrouter_chat":       {},
		"openrouter_responses":  {},
		"agents_chat":           {},
		"agents_responses":      {},
		"litellm_chat":          {},
		"litellm_responses":     {},
		"litellm_anthropic":     {own: []string{"max_tokens"}},
		"pydantic_ai_chat":      {},
		"pydantic_ai_responses": {},
		"pydantic_ai_anthropic": {own: []string{"max_tokens"}},
		"langchain_chat":        {inLong: true},
		"langchain_responses":   {inLong: true},
		"langchain_anthropic":   {own: []string{"max_tokens"}, inLong: true},
		"dspy":                  {inLong: true},
	},
	"older": {
		"instructor_tools":      {inLong: true},
		"instructor_json":       {inLong: true},
		"instructor_anthropic":  {own: []string{"max_tokens"}, inLong: true},
		"llama_index_chat":      {own: []string{"temperature"}, inLong: true},
		"llama_index_responses": {own: []string{"temperature", "top_p"}, inLong: true},
	},
}

// python returns the interpreter of an environment, in the folder that PRESETS_PYTHON names.
func python(t *testing.T, environment string) string {
	t.Helper()
	found := filepath.Join(os.Getenv("PRESETS_PYTHON"), environment, "bin", "python")
	if runtime.GOOS == "windows" {
		found = filepath.Join(os.Getenv("PRESETS_PYTHON"), environment, "Scripts", "python.exe")
	}
	if _, err := os.Stat(found); err != nil {
		skipOrFail(t, "Python's clients are not installed: see CONTRIBUTING.md")
	}
	return found
}

// TestPythonClients runs Python's clients against the built binary, in front of a strict provider.
// Each sends requests that name presets, beside its own prompt, tools and settings.
func TestPythonClients(t *testing.T) {
	for environment, clients := range pythonClients {
		t.Run(environment, func(t *testing.T) {
			maps.DeleteFunc(clients, func(_ string, c pythonClient) bool { return c.inLong && !everyCase() })
			if len(clients) == 0 {
				t.Skip("only .ci/run long has these clients")
			}
			interpreter := python(t, environment)
			s, behind := startFamilies(t)
			out, errs, err := try(t, "python", []string{
				"OPENAI_BASE_URL=" + s.site + "/v1", "OPENAI_API_KEY=" + inferenceKey,
				"ANTHROPIC_BASE_URL=" + s.site, "ANTHROPIC_API_KEY=" + inferenceKey,
				"LITELLM_LOCAL_MODEL_COST_MAP=True", // it would ask GitHub
				"PRESETS_CONTROL_URL=" + behind.control(t),
			}, interpreter, append([]string{"clients.py"}, slices.Sorted(maps.Keys(clients))...)...)
			t.Logf("clients.py:\n%s", out)
			if err != nil {
				t.Errorf("clients.py: %v\n%s", err, errs)
			}
			requests := map[string]int{}
			for _, request := range behind.take() {
				client, preset, _ := strings.Cut(request.client, "/")
				requests[client]++
				t.Run(request.client, func(t *testing.T) { request.check(t, preset, clients[client].own) })
			}
			for client := range clients {
				if requests[client] < 2 {
					t.Errorf("%s sent %d requests, want one or more for each of two presets", client, requests[client])
				}
			}
		})
	}
}
