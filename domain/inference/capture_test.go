package inference_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// capture is captureIn of a responses request.
func capture(t *testing.T, body string) (domain.Capture, error) {
	t.Helper()
	return captureIn(t, responses, body)
}

// captureIn captures the members of a JSON object in order.
func captureIn(t *testing.T, dialect domain.Dialect, body string) (domain.Capture, error) {
	t.Helper()
	members, err := rawjson.Members([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return inference.Capture(dialect, members)
}

// storedSet has the fields that presets keep, each with the first letters of the
// dialects that have it.
var storedSet = map[string]string{
	"model": "rcm", "models": "rcm", "fallbacks": "m", "provider": "rcm", "route": "rcm", "plugins": "rcm",
	"tools": "rcm", "tool_choice": "rcm", "parallel_tool_calls": "rc", "max_tool_calls": "r", "stop_server_tools_when": "rcm",
	"temperature": "rcm", "top_p": "rcm", "top_k": "rcm", "frequency_penalty": "rc", "presence_penalty": "rc",
	"min_p": "c", "top_a": "c", "repetition_penalty": "c", "seed": "c", "logit_bias": "c", "logprobs": "c", "top_logprobs": "rc",
	"max_output_tokens": "r", "max_tokens": "cm", "max_completion_tokens": "c", "stop": "c", "stop_sequences": "m",
	"reasoning": "rc", "reasoning_effort": "c", "thinking": "m", "output_config": "m", "text": "r", "response_format": "c",
	"modalities": "rc", "image_config": "rc", "include": "r", "truncation": "r", "context_management": "m", "speed": "m",
	"service_tier": "rcm", "cache_control": "rcm", "prompt_cache_options": "rc",
	"verbosity": "c", "web_search_options": "c", "structured_outputs": "c", "include_reasoning": "c",
	"cache_enabled": "rcm", "cache_ttl_seconds": "rcm",
}

func isStored(dialect domain.Dialect, name string) bool {
	return strings.Contains(storedSet[name], string(dialect[:1]))
}

func TestCaptureKeepsExactlyTheStoredSet(t *testing.T) {
	names := []string{
		"input", "messages", "prompt", "prediction", "instructions", "system", "stream", "stream_options", "background",
		"store", "debug", "previous_response_id", "user", "safety_identifier", "session_id", "metadata", "trace",
		"prompt_cache_key", "preset", "name", "workspace_id", "nonsense", "Model", "safeguards", "mcp_servers", "functions",
	}
	for name := range storedSet {
		names = append(names, name)
	}
	const value = `[0.70, 1e3 ,12345678901234567890, "\u00e9<>",{"a" : null}]`
	for _, dialect := range []domain.Dialect{responses, chat, messages} {
		for _, name := range names {
			want := "{}"
			if isStored(dialect, name) {
				want = `{"` + name + `":` + value + `}`
			}
			in, err := captureIn(t, dialect, `{"`+name+`": `+value+` }`)
			if err != nil || string(in.Config) != want || in.SystemPrompt != nil || in.Dialect != dialect {
				t.Errorf("%s: %s: got %s, %v of %s, %v, want %s", dialect, name, in.Config, in.SystemPrompt, in.Dialect, err, want)
			}
			if in, err := captureIn(t, dialect, `{"`+name+`":null}`); err != nil || string(in.Config) != "{}" || in.SystemPrompt != nil {
				t.Errorf("%s: %s null: got %s, %v, want {}", dialect, name, in.Config, err)
			}
		}
		in, err := captureIn(t, dialect, `{"top_p":1,"input":"hi","t\u0065mperature":0.70,"messages":[],"top_k":null,"model":"m"}`)
		if want := `{"top_p":1,"temperature":0.70,"model":"m"}`; err != nil || string(in.Config) != want {
			t.Errorf("%s: got %s, %v, want %s, in the order sent", dialect, in.Config, err, want)
		}
	}
}

func TestCaptureOfSystemPrompts(t *testing.T) {
	system := func(content string) string { return `{"role":"system","content":` + content + `}` }
	developer := func(content string) string { return `{"content":` + content + `,"role":"developer"}` }
	const user = `{"role":"user","content":"hi"}`
	conversation := func(messages ...string) string { return `{"messages":[` + strings.Join(messages, ",") + `]}` }
	block := func(text string) string { return `{"type":"text","text":"` + text + `"}` }
	for _, test := range []struct {
		name    string
		dialect domain.Dialect
		body    string
		want    *string
	}{
		{"none", responses, `{}`, nil},
		{"null", responses, `{"instructions":null}`, nil},
		{"empty", responses, `{"instructions":""}`, new("")},
		{"text", responses, `{"instructions":"You \u00e9 <b>\n\ud83d\ude00"}`, new("You é <b>\n😀")},
		{"of other dialects", responses, `{"system":"s","messages":[` + system(`"m"`) + `]}`, nil},
		{"input", responses, `{"input":[` + system(`"m"`) + `]}`, nil},

		{"none", messages, `{}`, nil},
		{"null", messages, `{"system":null}`, nil},
		{"empty", messages, `{"system":""}`, new("")},
		{"text", messages, `{"system":"You \u00e9"}`, new("You é")},
		{"no blocks", messages, `{"system":[]}`, nil},
		{"a block", messages, `{"system":[` + block(`a\u0062`) + `]}`, new("ab")},
		{"blocks", messages, `{"system":[` + block("a") + `,{"text":"b\n","cache_control":{"type":"ephemeral"},"type":"text"},` + block("c") + `]}`, new("a\n\nb\n\n\nc")},
		{"an empty block", messages, `{"system":[` + block("") + `]}`, new("")},
		{"empty blocks", messages, `{"system":[` + block("") + `,` + block("a") + `,` + block("") + `]}`, new("\n\na\n\n")},
		{"system messages", messages, conversation(system(`"m"`), user), nil},
		{"of other dialects", messages, `{"instructions":"i"}`, nil},

		{"none", chat, `{}`, nil},
		{"null", chat, `{"messages":null}`, nil},
		{"no messages", chat, conversation(), nil},
		{"a user first", chat, conversation(user, system(`"m"`)), nil},
		{"text", chat, conversation(system(`"You \u00e9"`), user), new("You é")},
		{"alone", chat, conversation(system(`"a"`)), new("a")},
		{"empty", chat, conversation(system(`""`), user), new("")},
		{"of another type", chat, conversation(`{"role":"system","type":"x","content":"a"}`, `{"role":"system","type":null,"content":"b"}`, user), new("a\n\nb")},
		{"role in escapes", chat, conversation(`{"r\u006fle":"syst\u0065m","c\u006fntent":"a"}`, user), new("a")},
		{"of a developer", chat, conversation(developer(`"a"`), user), new("a")},
		{"of both, leading", chat, conversation(system(`"a"`), developer(`"b"`), system(`"c"`), user, system(`"d"`)), new("a\n\nb\n\nc")},
		{"parts", chat, conversation(system(`[`+block("a")+`,`+block("b")+`]`), developer(`"c"`)), new("a\n\nb\n\nc")},
		{"no parts", chat, conversation(system(`[]`), user), nil},
		{"no parts, then a text", chat, conversation(system(`[]`), developer(`"a"`), user), new("a")},
		{"empty, then a text", chat, conversation(system(`""`), developer(`"a"`), user), new("\n\na")},
		{"an assistant between", chat, conversation(system(`"a"`), `{"role":"assistant","content":"hi"}`, system(`"b"`)), new("a")},
		{"a tool first", chat, conversation(`{"role":"tool","content":"t"}`, system(`"b"`)), nil},
		{"of other dialects", chat, `{"instructions":"i","system":"s"}`, nil},
	} {
		in, err := captureIn(t, test.dialect, test.body)
		if err != nil || string(in.Config) != "{}" {
			t.Errorf("%s: %s: got %s, %v, want {}", test.dialect, test.name, in.Config, err)
		}
		switch got := in.SystemPrompt; {
		case got == nil && test.want == nil:
		case got == nil || test.want == nil:
			t.Errorf("%s: %s: got %v, want %v", test.dialect, test.name, got, test.want)
		case *got != *test.want:
			t.Errorf("%s: %s: got %q, want %q", test.dialect, test.name, *got, *test.want)
		}
	}
}

// promptIn returns the field of a request that has a prompt of two texts.
func promptIn(dialect domain.Dialect, first, second string) string {
	return fmt.Sprintf(map[domain.Dialect]string{
		responses: `"instructions":"%s\n\n%s"`,
		chat:      `"messages":[{"role":"system","content":"%s"},{"role":"developer","content":[{"type":"text","text":"%s"}]},{"role":"user","content":"hi"}]`,
		messages:  `"system":[{"type":"text","text":"%s"},{"type":"text","text":"%s"}]`,
	}[dialect], first, second)
}

func TestCaptureSizeLimit(t *testing.T) {
	// The stored prompt has its two line breaks as escapes.
	room := domain.MaxStoredSize - len(`{"model":""}`) - len(`"\n\n"`)
	for _, dialect := range []domain.Dialect{responses, chat, messages} {
		body := func(n int) string {
			return `{"model":"` + strings.Repeat("m", n/3) + `",` + promptIn(dialect, strings.Repeat("p", n/3), strings.Repeat("q", n-2*(n/3))) + `}`
		}
		if _, err := captureIn(t, dialect, body(room)); err != nil {
			t.Errorf("%s: exactly the largest: %v", dialect, err)
		}
		_, err := captureIn(t, dialect, body(room+1))
		wantKind(t, err, domain.Invalid, "must be at most 262144 bytes, is 262145")
		_, err = captureIn(t, dialect, body(10*domain.MaxStoredSize))
		wantKind(t, err, domain.Invalid, "must be at most 262144 bytes, is 2621")
		content := strings.Repeat("i", 2*domain.MaxStoredSize)
		if in, err := captureIn(t, dialect, `{"input":"`+content+`","messages":[{"role":"user","content":"`+content+`"}]}`); err != nil || string(in.Config) != "{}" {
			t.Errorf("%s: large content, which is not stored: %v", dialect, err)
		}
	}
	// Escapes count as they are stored, not as they were sent.
	in, err := capture(t, `{"instructions":"`+strings.Repeat(`\u0061`, domain.MaxStoredSize-4)+`"}`)
	if err != nil || len(*in.SystemPrompt) != domain.MaxStoredSize-4 {
		t.Errorf("escaped text: got error %v, want none", err)
	}
	_, err = capture(t, `{"instructions":"`+strings.Repeat(`\n`, domain.MaxStoredSize/2)+`"}`)
	wantKind(t, err, domain.Invalid, "must be at most 262144 bytes, is 262148")
}

// TestCaptureOfWholeRequests captures the requests that the schemas are tested
// with.
func TestCaptureOfWholeRequests(t *testing.T) {
	prompts := map[string]string{
		"responses.json":           "You answer questions about orders. Use the tools before you guess, keep answers short, and name your sources.",
		"chat.json":                "You answer questions about orders.\n\nUse the tools before you guess.\n\nKeep answers short, and name your sources.",
		"messages.json":            "You answer questions about orders.\n\nUse the tools before you guess, keep answers short, and name your sources.",
		"messages-every-tool.json": "You know every tool.",
	}
	for _, dialect := range []domain.Dialect{responses, chat, messages} {
		api, _, _ := strings.Cut(string(dialect), "/")
		for _, file := range []string{api + ".json", api + "-every-tool.json"} {
			body, err := os.ReadFile(filepath.Join("..", "..", "testdata", "requests", file))
			if err != nil {
				t.Fatal(err)
			}
			in, err := captureIn(t, dialect, string(body))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			sent, sentValues, _ := topLevel(body)
			var want []string
			for i, name := range sent {
				if isStored(dialect, name) && string(sentValues[i]) != "null" {
					want = append(want, name, string(sentValues[i]))
				}
			}
			var got []string
			names, values, _ := topLevel(in.Config)
			for i, name := range names {
				got = append(got, name, string(values[i]))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", file, got, want)
			}
			if prompt := in.SystemPrompt; prompt == nil && prompts[file] != "" || prompt != nil && *prompt != prompts[file] {
				t.Errorf("%s: got another prompt than %q", file, prompts[file])
			}
		}
	}
}

// A request that names the preset captured from it goes upstream unchanged: the prompt is
// not repeated.
func TestCapturedPromptsAreNotRepeated(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for _, dialect := range []domain.Dialect{responses, chat, messages} {
		for _, prompt := range []string{
			promptIn(dialect, "a", "b"), promptIn(dialect, "", "b"), promptIn(dialect, "a", ""), promptIn(dialect, `\u00e9`, `\"\n`),
			promptIn(dialect, strings.Repeat("a", 1000), "b"),
		} {
			body := `{"model":"m",` + prompt + `}`
			in, err := captureIn(t, dialect, body)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), "", "p", in, domain.Release{}); err != nil {
				t.Fatal(err)
			}
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: dialect, Body: withPreset([]byte(body))})
			if err != nil || got.Body.String() != body {
				t.Errorf("%s: got %s, %v\nwant %s", dialect, got.Body, err, body)
			}
		}
	}
}
