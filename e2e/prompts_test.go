package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// promptID names a preset as OpenAI names a prompt, so clients need no other id.
const promptID = "pmpt_68f7a1c2d3e4819081f0"

const (
	sightsSchema = `{"type": "object", "properties": {"sights": {"type": "array", "items": {"type": "string"}}}, "required": ["sights"], "additionalProperties": false}`
	sightsFormat = `{"type": "json_schema", "name": "sights", "strict": true, "schema": ` + sightsSchema + `}`
	customerTool = `{"type": "function", "name": "find_customer", "description": "Finds a customer.", "strict": true,
		"parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}}`
)

// prompts are the templates of these tests, captured from requests to /responses.
var prompts = []struct{ slug, body string }{
	{promptID, `{"model": "acme/small", "temperature": 0.1, "instructions": "You know {{city}}.",
		"input": [{"role": "user", "content": "Name three sights in {{ city }}."}]}`},
	{promptID, `{"model": "acme/large", "temperature": 0.2, "instructions": "You know {{city}} well.",
		"input": [{"role": "user", "content": [{"type": "input_text", "text": "Where in {{city}} is this?"}]},
			{"role": "user", "content": [{"type": "input_text", "text": "{{photo}}"}]}]}`},
	{"pmpt_tools", `{"model": "acme/large", "tool_choice": "required", "tools": [` + customerTool + `],
		"input": [{"role": "user", "content": "Find {{customer}}."}]}`},
	{"pmpt_schema", `{"model": "acme/large", "text": {"format": ` + sightsFormat + `},
		"input": [{"role": "user", "content": "List the sights of {{city}}."}]}`},
	{"plain", `{"model": "acme/large"}`},
}

// makePrompts stores the prompts. The label staging points to version 1 of promptID.
func (s *server) makePrompts(t *testing.T) {
	t.Helper()
	for _, prompt := range prompts {
		query := "?template=true"
		if prompt.slug == "plain" {
			query = ""
		}
		s.manage(t, http.MethodPost, "/v1/presets/"+prompt.slug+"/responses"+query, prompt.body)
	}
	s.manage(t, http.MethodPut, "/v1/presets/"+promptID+"/labels/staging", `{"version": 1}`)
}

// quote returns a text as JSON.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// TestPromptsJavaScript runs the official OpenAI client for JavaScript with prompts, and with presets for images.
func TestPromptsJavaScript(t *testing.T) {
	t.Parallel()
	node := servertest.Node(t, "openai", "openai", "openai", "zod")
	behind := newService(t, "openai")
	s := startWith(t, "inference", behind.directives())
	s.makePrompts(t)
	s.manage(t, http.MethodPost, "/v1/presets/poster/chat/completions",
		`{"model": "gpt-image-2", "temperature": 1, "image_config": {"size": "1024x1024", "quality": "low", "aspect_ratio": "1:1"}}`)
	s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"default_image_model": "gpt-image-1-mini"}`)
	// The client's own variables name the server, so the script is as it was for OpenAI.
	out, errs, err := try(t, "openai", []string{
		"OPENAI_BASE_URL=" + s.site + "/v1", "OPENAI_API_KEY=" + inferenceKey,
		"PRESETS_CONTROL_URL=" + behind.control(t), "PRESETS_PROMPT_ID=" + promptID,
	}, node, "prompts.mjs")
	t.Logf("node prompts.mjs:\n%s%s", out, errs)
	if err != nil {
		t.Errorf("node prompts.mjs: %v", err)
	}
	behind.checkSecrets(t)
}

// TestPromptsPython runs the steps of docs/migrate/openai-prompts.md that store the prompt, and then its
// Python, in front of a strict provider.
func TestPromptsPython(t *testing.T) {
	t.Parallel()
	interpreter := pythonWith(t, filepath.Join("python", "requirements.txt"))
	behind := newProvider(t)
	s := startWith(t, "inference", behind.directives())
	commands := documentedCommands(t, "docs/migrate/openai-prompts.md")
	tried := slices.IndexFunc(commands, func(c documented) bool { return strings.Contains(c.command, "127.0.0.1:8080/v1/responses") })
	s.migrate(t, commands[:tried])
	var code strings.Builder
	for _, block := range pythonBlock.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "migrate", "openai-prompts.md")), -1) {
		code.WriteString(block[1])
	}
	run(t, "python", []string{"OPENAI_BASE_URL=" + s.site + "/v1", "OPENAI_API_KEY=" + inferenceKey}, interpreter, "prompts.py", code.String())

	const (
		settings = `"model": "gpt-5-mini", "instructions": "You know Rome.", "max_output_tokens": 2048, "truncation": "disabled", "text": {"format": {"type": "text"}, "verbosity": %q}`
		messages = `{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where in Rome is this?"}]},
			{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a dome"}]}`
		input    = `, "input": [` + messages + `]`
		churches = `, "include": [], "input": [` + messages + `, {"role": "user", "content": "And churches?"}]`
	)
	ofThePreset := fmt.Sprintf(settings, "medium")
	want := []string{
		ofThePreset + input,
		ofThePreset + `, "stream": true` + input,
		ofThePreset + churches,
		ofThePreset + `, "stream": true` + input,
		`"model": "gpt-5-mini", "max_completion_tokens": 2048, "response_format": {"type": "text"}, "verbosity": "medium", "messages": [
			{"role": "system", "content": "You know Rome."}, {"role": "user", "content": [{"type": "text", "text": "Where in Rome is this?"}]},
			{"role": "user", "content": [{"type": "text", "text": "a dome"}]}]`,
		fmt.Sprintf(settings, "low") + `, "reasoning": {"effort": "none"}` + churches,
	}
	sent := behind.take()
	if len(sent) != len(want) {
		t.Fatalf("the provider got %d requests, want %d", len(sent), len(want))
	}
	for i, r := range sent {
		if r.why != "" {
			t.Errorf("request %d is refused: %s", i, r.why)
		}
		checkJSON(t, fmt.Sprintf("request %d", i), r.body, "{"+want[i]+"}")
	}
}

var pythonBlock = regexp.MustCompile("(?ms)^```python\r?\n(.*?)^```")
