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

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

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

// The values of variables in these tests. The text has characters that JSON escapes, and
// braces that must stay text.
const (
	cityValue = "Łódź \"{{photo}}\"\n\\{{city}}"
	photoURL  = "https://example.com/a.png?size=large&x={{city}}"
)

// quote returns a text as JSON.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// promptUpstream returns the upstream request to /responses for a version of promptID, with
// more fields.
func promptUpstream(version int, more string) string {
	if version == 1 {
		return fmt.Sprintf(`{"model": "acme/small", "temperature": 0.1, "instructions": %s, "input": [{"role": "user", "content": %s}]%s}`,
			quote("You know "+cityValue+"."), quote("Name three sights in "+cityValue+"."), more)
	}
	return fmt.Sprintf(`{"model": "acme/large", "temperature": 0.2, "instructions": %s, "input": [
		{"role": "user", "content": [{"type": "input_text", "text": %s}]},
		{"role": "user", "content": [{"type": "input_image", "image_url": %s, "detail": "auto"}]}]%s}`,
		quote("You know "+cityValue+" well."), quote("Where in "+cityValue+" is this?"), quote(photoURL), more)
}

func text(value string) responses.ResponsePromptVariableUnionParam {
	return responses.ResponsePromptVariableUnionParam{OfString: openai.String(value)}
}

type promptVariables = map[string]responses.ResponsePromptVariableUnionParam

// TestPrompts runs the official OpenAI client with prompts, as for OpenAI's own. Only the
// base URL differs.
func TestPrompts(t *testing.T) {
	t.Parallel()
	s, behind, ofAnthropic := startBoth(t)
	s.makePrompts(t)
	client := s.openAI(inferenceKey)

	picture := responses.ResponsePromptVariableUnionParam{OfInputImage: &responses.ResponseInputImageParam{
		Detail: responses.ResponseInputImageDetailAuto, ImageURL: openai.String(photoURL),
	}}
	both := promptVariables{"city": text(cityValue), "photo": picture}
	city := promptVariables{"city": text(cityValue)}
	served := func(version int) string { return fmt.Sprintf("%s@%d", promptID, version) }

	for _, test := range []struct {
		name    string
		prompt  responses.ResponsePromptParam
		version int
	}{
		{"designated, with an image", responses.ResponsePromptParam{ID: promptID, Variables: both}, 2},
		{"version", responses.ResponsePromptParam{ID: promptID, Version: openai.String("1"), Variables: city}, 1},
		{"label", responses.ResponsePromptParam{ID: promptID, Version: openai.String("staging"), Variables: city}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var response *http.Response
			answer, err := client.Responses.New(deadline(t), responses.ResponseNewParams{Prompt: test.prompt}, option.WithResponseInto(&response))
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.OutputText(); got != answerText {
				t.Errorf("the client read %q, want %q", got, answerText)
			}
			sent, _ := behind.last()
			checkJSON(t, "upstream", sent.Body, promptUpstream(test.version, ""))
			checkAnswer(t, response, served(test.version), "")
		})
		t.Run(test.name+", streaming", func(t *testing.T) {
			var response *http.Response
			stream := client.Responses.NewStreaming(deadline(t), responses.ResponseNewParams{Prompt: test.prompt}, option.WithResponseInto(&response))
			model := map[int]string{1: "acme/small", 2: "acme/large"}[test.version]
			readPaced(t, behind, stream, func() string { return stream.Current().RawJSON() }, behind.payloads(t, "responses.sse", model))
			sent, _ := behind.last()
			checkJSON(t, "upstream", sent.Body, promptUpstream(test.version, `, "stream": true`))
			checkAnswer(t, response, served(test.version), "")
		})
	}

	t.Run("input and settings of the request", func(t *testing.T) {
		params := responsesParams("acme/other")
		params.Prompt = responses.ResponsePromptParam{ID: promptID, Version: openai.String("1"), Variables: city}
		params.Temperature = openai.Float(0.5)
		params.Instructions = openai.String("Mine.")
		if _, err := client.Responses.New(deadline(t), params); err != nil {
			t.Fatal(err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(`{"model": "acme/other", "temperature": 0.5, "instructions": %s,
			"input": [{"role": "user", "content": %s}, {"role": "user", "content": %s}]}`,
			quote("You know "+cityValue+".\n\nMine."), quote("Name three sights in "+cityValue+"."), quote(userText)))
	})

	t.Run("tools", func(t *testing.T) {
		answer, err := client.Responses.New(deadline(t), responses.ResponseNewParams{
			Prompt: responses.ResponsePromptParam{ID: "pmpt_tools", Variables: promptVariables{"customer": text("Łukasz")}},
			Tools:  []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", weatherParameters, true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if call := answer.Output[0].AsFunctionCall(); call.Name != "find_customer" || call.Arguments != `{"name": "Łukasz"}` {
			t.Errorf("the answer calls %s(%s), want the prompt's tool", call.Name, call.Arguments)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, `{"model": "acme/large", "tool_choice": "required", "input": [{"role": "user", "content": "Find Łukasz."}],
			"tools": [`+customerTool+`, {"type": "function", "name": "weather", "strict": true, "parameters": `+weatherJSON+`}]}`)
	})

	t.Run("structured output", func(t *testing.T) {
		// The format is the prompt's, or the request's.
		var schema map[string]any
		if err := json.Unmarshal([]byte(sightsSchema), &schema); err != nil {
			t.Fatal(err)
		}
		format := responses.ResponseFormatTextConfigParamOfJSONSchema("sights", schema)
		format.OfJSONSchema.Strict = openai.Bool(true)
		for _, test := range []struct {
			params   responses.ResponseNewParams
			upstream string
		}{
			{
				responses.ResponseNewParams{Prompt: responses.ResponsePromptParam{ID: "pmpt_schema", Variables: promptVariables{"city": text("Rome")}}},
				`{"model": "acme/large", "input": [{"role": "user", "content": "List the sights of Rome."}], "text": {"format": ` + sightsFormat + `}}`,
			},
			{
				responses.ResponseNewParams{
					Prompt: responses.ResponsePromptParam{ID: promptID, Version: openai.String("1"), Variables: city},
					Text:   responses.ResponseTextConfigParam{Format: format},
				},
				promptUpstream(1, `, "text": {"format": `+sightsFormat+`}`),
			},
		} {
			answer, err := client.Responses.New(deadline(t), test.params)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Sights []string }
			if err := json.Unmarshal([]byte(answer.OutputText()), &got); err != nil || len(got.Sights) != 1 {
				t.Errorf("the client read %q, %v", answer.OutputText(), err)
			}
			sent, _ := behind.last()
			checkJSON(t, "upstream", sent.Body, test.upstream)
		}
	})

	t.Run("refused", func(t *testing.T) {
		_, before := behind.last()
		for _, test := range []struct {
			name   string
			prompt responses.ResponsePromptParam
			status int
			cause  string
			says   string
		}{
			{"missing variables", responses.ResponsePromptParam{ID: promptID}, 400, "invalid_prompt", "/prompt/variables: lacks variables of the template: city, photo"},
			{"unknown variable", responses.ResponsePromptParam{ID: promptID, Version: openai.String("1"), Variables: both}, 400, "invalid_prompt", "/prompt/variables/photo: "},
			{"image inside a text", responses.ResponsePromptParam{ID: promptID, Version: openai.String("1"), Variables: promptVariables{"city": picture}}, 400, "invalid_prompt", "/prompt/variables/city: "},
			{"no template", responses.ResponsePromptParam{ID: "plain", Variables: city}, 400, "invalid_prompt", "/prompt/variables: "},
			{"unknown id", responses.ResponsePromptParam{ID: "pmpt_nobody", Variables: city}, 404, "preset_not_found", "Preset not found: @preset/pmpt_nobody"},
			{"unknown version", responses.ResponsePromptParam{ID: promptID, Version: openai.String("9"), Variables: city}, 404, "preset_version_not_found", "@preset/" + promptID + "@9"},
		} {
			_, err := client.Responses.New(deadline(t), responses.ResponseNewParams{Prompt: test.prompt})
			checkOpenAIError(t, openAIResponses, test.name, err, test.status, test.cause, test.says)
			if err != nil && strings.Contains(err.Error(), "Łódź") {
				t.Errorf("%s: the error has a value: %v", test.name, err)
			}
			stream := client.Responses.NewStreaming(deadline(t), responses.ResponseNewParams{Prompt: test.prompt})
			if stream.Next() {
				t.Errorf("%s, streaming: got an event", test.name)
			}
			checkOpenAIError(t, openAIResponses, test.name+", streaming", stream.Err(), test.status, test.cause, test.says)
			_ = stream.Close()
		}
		if _, after := behind.last(); after != before {
			t.Errorf("%d refused requests went upstream", after-before)
		}
	})

	// Other APIs take the prompt as an extra field, and have it translated.
	t.Run("other APIs", func(t *testing.T) {
		variables := map[string]any{"city": cityValue, "photo": map[string]any{"type": "input_image", "image_url": photoURL}}
		system, question := quote("You know "+cityValue+" well."), quote("Where in "+cityValue+" is this?")
		expected := map[string]string{
			"chat": fmt.Sprintf(`{"model": "acme/large", "temperature": 0.2, "messages": [{"role": "system", "content": %s},
				{"role": "user", "content": [{"type": "text", "text": %s}]},
				{"role": "user", "content": [{"type": "image_url", "image_url": {"url": %s}}]},
				{"role": "user", "content": %s}]}`, system, question, quote(photoURL), quote(userText)),
			"messages": fmt.Sprintf(`{"model": "acme/large", "temperature": 0.2, "max_tokens": 100, "system": %s, "messages": [
				{"role": "user", "content": [{"type": "text", "text": %s}]},
				{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": %s}}]},
				{"role": "user", "content": [{"type": "text", "text": %s}]}]}`, system, question, quote(photoURL), quote(userText)),
		}
		for _, api := range s.askers(behind, ofAnthropic) {
			want, ok := expected[api.name]
			if !ok {
				continue
			}
			for _, fields := range []map[string]any{
				{"prompt": map[string]any{"id": promptID, "version": 2, "variables": variables}},
				{"preset": promptID, "prompt": map[string]any{"variables": variables}},
				{"prompt_id": promptID, "prompt_version": 2, "prompt_variables": variables},
			} {
				response, err := api.ask(deadline(t), request{fields: fields})
				if err != nil {
					t.Errorf("%s: %v", api.name, err)
					continue
				}
				sent, _ := api.behind.last()
				checkJSON(t, api.name+" upstream", sent.Body, want)
				checkAnswer(t, response, served(2), "")
			}
			_, err := api.ask(deadline(t), request{fields: map[string]any{"prompt": map[string]any{"id": promptID, "version": 9, "variables": variables}}})
			api.checkError(t, api.name, err, http.StatusNotFound, "@9")
		}
	})

	behind.checkSecrets(t)
	ofAnthropic.checkSecrets(t)
}

// TestPromptsJavaScript runs the official OpenAI client for JavaScript with prompts.
func TestPromptsJavaScript(t *testing.T) {
	t.Parallel()
	node := servertest.Node(t, "openai", "openai", "openai", "zod")
	behind := newService(t, "openai")
	s := startWith(t, "inference", behind.directives())
	s.makePrompts(t)
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
