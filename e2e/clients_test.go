package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// The presets of these tests. Each has a prompt, a tool and settings of one family of models. Beside
// each is a template, whose slug ends in -prompt. python/clients.py knows their names.
var familyPresets = []struct{ slug, path, body string }{
	{"gpt", "responses", `{"model": "gpt-5-nano", "instructions": "Be brief.", "max_output_tokens": 2000,
		"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "tool_choice": "auto", "parallel_tool_calls": false,
		"tools": [{"type": "function", "name": "find_customer", "parameters": {"type": "object", "properties": {}}}], "input": "Hello"}`},
	{"qwen", "chat/completions", `{"model": "Qwen/Qwen3.5-35B-A3B",
		"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
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

// familyPolicy locks what no client of these tests sends. It refuses a request with a field that is not
// known, so what the clients always send is known.
const familyPolicy = `{"policy": {"violation": "refuse", "models": [], "lock": ["model", "provider", "route", "plugins", "stop", "seed", "top_k",
	"logit_bias", "web_search_options", "image_config", "modalities", "max_tool_calls", "min_p", "top_a", "repetition_penalty", "structured_outputs"]}}`

// startFamilies runs Caddy in front of a strict provider, with the presets of these tests.
func startFamilies(t *testing.T) (*server, *provider) {
	t.Helper()
	behind := newProvider(t)
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	for _, preset := range familyPresets {
		s.manage(t, "POST", "/v1/presets/"+preset.slug+"/"+preset.path, preset.body)
		s.manage(t, "POST", "/v1/presets/"+preset.slug+"-prompt/"+preset.path+"?template=true", strings.Replace(preset.body, "Hello", "Where in {{city}} is this?", 1))
		for _, slug := range []string{preset.slug, preset.slug + "-prompt"} {
			s.manage(t, "PATCH", "/v1/presets/"+slug, familyPolicy)
		}
	}
	return s, behind
}

// check fails the test unless the provider took a request that names a preset, and the request has
// the preset's model, prompt, tool and settings. The reference is the preset's slug, or what was named as
// the model. The client itself sends the settings own. check returns those that have not the preset's value.
func (r judged) check(t *testing.T, reference string, own []string) (sent []string) {
	t.Helper()
	model, slug, named := strings.Cut(reference, "@preset/")
	if !named {
		model, slug = "", reference
	}
	preset, label, _ := strings.Cut(slug, "@")
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
	preset, isTemplate := strings.CutSuffix(preset, "-prompt")
	if isTemplate && strings.Count(r.body, "Where in Rome is this?") != 1 {
		t.Errorf("lacks the template's message: %s", r.body)
	}
	path, _, _ := strings.Cut(r.uri, "?")
	settings, ok := familySettings[filepath.Base(path)+"/"+preset]
	if !ok {
		t.Fatal("is not expected")
	}
	if model != "" {
		settings = with(settings, "model", model)
	}
	if kind := at(body, "tool_choice.type"); kind == "any" || kind == "tool" { // of the client, as a whole
		own = append(slices.Clone(own), "tool_choice.disable_parallel_tool_use")
		settings = with(settings, "thinking.type", nil, "thinking.budget_tokens", nil) // which would be refused
	} else if limit, _ := body["max_tokens"].(float64); settings["thinking.budget_tokens"] != nil && limit <= 4000 {
		settings = with(settings, "thinking.budget_tokens", limit-1)
	}
	for name, want := range settings {
		if got := at(body, name); !reflect.DeepEqual(got, want) {
			sent = append(sent, name)
			if !slices.Contains(own, name) {
				t.Errorf("%s is %v, want the preset's %v", name, got, want)
			}
		}
	}
	if first := firstPrompt(body); !strings.HasPrefix(first, promptOf(label)) {
		t.Errorf("the prompt begins with %.100q, want the preset's", first)
	}
	if !strings.Contains(r.body, `"find_customer"`) {
		t.Error("lacks the preset's tool")
	}
	return sent
}

// promptOf returns the prompt of a preset's version, which may have a label.
func promptOf(label string) string {
	if label != "" {
		return "Be exact."
	}
	return "Be brief."
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

// pythonClients are the clients of python/clients.py, by the environments that they need, with the
// settings that each always sends itself.
var pythonClients = map[string]map[string][]string{
	"requirements.txt": {
		"openai_chat":           nil,
		"openai_responses":      nil,
		"anthropic":             {"max_tokens"},
		"openrouter_chat":       nil,
		"openrouter_responses":  nil,
		"agents_chat":           nil,
		"agents_responses":      nil,
		"litellm_chat":          {"max_tokens", "max_completion_tokens"},
		"litellm_responses":     nil,
		"litellm_anthropic":     {"max_tokens"},
		"pydantic_ai_chat":      nil,
		"pydantic_ai_responses": nil,
		"pydantic_ai_anthropic": {"max_tokens", "tool_choice.disable_parallel_tool_use"},
	},
	"requirements-long.txt": {
		"langchain_chat":      nil,
		"langchain_responses": nil,
		"langchain_anthropic": {"max_tokens"},
		"dspy_chat":           nil,
		"dspy_responses":      nil,
		"dspy_anthropic":      {"max_tokens"},
	},
	"requirements-older.txt": { // of an older client of OpenAI
		"instructor_tools":      nil,
		"instructor_json":       nil,
		"instructor_responses":  nil,
		"instructor_anthropic":  {"max_tokens"},
		"llama_index_chat":      {"temperature"},
		"llama_index_responses": {"temperature", "top_p"},
	},
}

// TestPythonClients runs Python's clients against the built binary, in front of a strict provider.
// Each sends requests that name presets, beside its own prompt, tools and settings.
func TestPythonClients(t *testing.T) {
	t.Parallel()
	for requirements, clients := range pythonClients {
		t.Run(requirements, func(t *testing.T) {
			if requirements != "requirements.txt" && !tier.EveryCase() {
				t.Skip("only .ci/run long has these clients")
			}
			interpreter := pythonWith(t, filepath.Join("python", requirements))
			s, behind := startFamilies(t)
			limited := startWith(t, "auth_failure_limit 1 24h\ninference", behind.directives())
			out, errs, err := try(t, "python", []string{
				"PRESETS_SITE=" + s.site, "PRESETS_LIMITED_SITE=" + limited.site, "PRESETS_CONTROL_URL=" + behind.control(t),
				"PRESETS_INFERENCE_KEY=" + inferenceKey, "PRESETS_MANAGEMENT_KEY=" + managementKey,
				"LITELLM_LOCAL_MODEL_COST_MAP=True", // it would ask GitHub
			}, interpreter, append([]string{"clients.py"}, slices.Sorted(maps.Keys(clients))...)...)
			t.Logf("clients.py:\n%s", out)
			if err != nil {
				for line := range strings.Lines(errs) { // one for each failure
					t.Errorf("clients.py: %v: %s", err, line)
				}
			}
			requests, sent := map[string]int{}, map[string][]string{}
			for _, request := range behind.take() {
				requests[request.client]++
				names := strings.SplitN(request.client, "/", 3)
				client, preset := names[0], names[1]
				t.Run(request.client, func(t *testing.T) { sent[client] = append(sent[client], request.check(t, preset, clients[client])...) })
			}
			for cell, count := range requests {
				want := count
				switch _, name, _ := strings.Cut(cell, "/"); {
				case strings.Contains(name, "/retry "):
					want = 2
				case strings.HasSuffix(name, "/error 429 of the gateway"):
					want = 1
				case strings.Contains(name, "/error "):
					want = 0
				}
				if count != want {
					t.Errorf("%s: the provider got %d requests, want %d", cell, count, want)
				}
			}
			for client, own := range clients {
				for _, name := range own {
					if !slices.Contains(sent[client], name) {
						t.Errorf("%s sends no %s of its own: docs/inference.md says so", client, name)
					}
				}
			}
		})
	}
}

// pythons are the environments of Python that tests share. TestMain removes them.
var pythons struct {
	mu     sync.Mutex
	folder string
	made   map[string]*python // by the file of requirements
}

// python is an environment of Python.
type python struct {
	mu          sync.Mutex
	interpreter string // "" until it is made
}

// pythonWith returns the interpreter of an environment with the packages of a file, made once for
// all tests. A test without Python or the packages lacks them.
func pythonWith(t *testing.T, requirements string) string {
	t.Helper()
	p, folder := sharedPython(t, requirements)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interpreter != "" {
		return p.interpreter
	}
	environment, err := os.MkdirTemp(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(wait.Command(t), servertest.Tool(t, "python3", "python3-venv"), "-m", "venv", environment).CombinedOutput(); err != nil {
		servertest.Lack(t, "python3-venv", "it needs Python's module venv, of Debian's package python3-venv: %v\n%s", err, out)
	}
	interpreter := filepath.Join(environment, "bin", "python")
	if runtime.GOOS == "windows" {
		interpreter = filepath.Join(environment, "Scripts", "python.exe")
	}
	if _, errs, err := try(t, ".", nil, interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--requirement", requirements); err != nil {
		servertest.Lack(t, "pip", "the packages of %s cannot be installed: %v\n%s", requirements, err, errs)
	}
	p.interpreter = interpreter
	return interpreter
}

func sharedPython(t *testing.T, requirements string) (p *python, folder string) {
	t.Helper()
	pythons.mu.Lock()
	defer pythons.mu.Unlock()
	if pythons.folder == "" {
		var err error
		if pythons.folder, err = os.MkdirTemp("", "presets-python-"); err != nil {
			t.Fatal(err)
		}
		pythons.made = map[string]*python{}
	}
	p = pythons.made[requirements]
	if p == nil {
		p = new(python)
		pythons.made[requirements] = p
	}
	return p, pythons.folder
}
