package inference_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// captureTemplate captures a request as a template.
func captureTemplate(tb testing.TB, dialect domain.Dialect, body string) domain.Capture {
	tb.Helper()
	members, err := rawjson.Members([]byte(body))
	if err != nil {
		tb.Fatal(err)
	}
	in, err := inference.CaptureTemplate(dialect, members)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// putTemplate stores a request as the next version of a preset in the default workspace.
func (r *resolving) putTemplate(tb testing.TB, slug string, dialect domain.Dialect, body string) {
	tb.Helper()
	if _, err := r.ReleasePresetVersion(tb.Context(), domain.By(admin), "", slug, captureTemplate(tb, dialect, body), domain.Release{}); err != nil {
		tb.Fatal(err)
	}
}

// namesWithPrompt returns a request for a preset with values of its variables.
func namesWithPrompt(slug, variables, rest string) string {
	return `{"prompt":{"id":"` + slug + `","variables":` + variables + `}` + rest + `}`
}

func TestTemplateSyntax(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for i, tc := range []struct {
		text, want string
		variables  []string
	}{
		{"no variable", "no variable", nil},
		{"{{x}}", "<x>", []string{"x"}},
		{"{{ x }} and {{   y}}.", "<x> and <y>.", []string{"x", "y"}},
		{"{{y}}{{x}}{{y}}", "<y><x><y>", []string{"y", "x"}},
		{"{{_a.b-9}}", "<_a.b-9>", []string{"_a.b-9"}},
		{"{{{x}}}", "{<x>}", []string{"x"}},
		{"{{{{x}}}}", "{{<x>}}", []string{"x"}},
		{`\{{x}}`, "{{x}}", nil},
		{`\\{{x}}`, `\{{x}}`, nil},
		{`\{{{x}}}`, "{{{x}}}", nil},
		{`\{{ {{x}}`, "{{ <x>", []string{"x"}},
		{`\{x}`, `\{x}`, nil},
		{"{{", "{{", nil},
		{"{{x", "{{x", nil},
		{"{{x}", "{{x}", nil},
		{"{{x} }", "{{x} }", nil},
		{"{{}}", "{{}}", nil},
		{"{{ }}", "{{ }}", nil},
		{"{{9}} {{1st}} {{質問}}", "<9> <1st> <質問>", []string{"9", "1st", "質問"}},
		{"{{.x}}", "{{.x}}", nil},
		{"{{x y}}", "{{x y}}", nil},
		{"{{é}} {{prénom}} {{प्रश्न}} {{a\u200bb}}", "<é> <prénom> <प्रश्न> {{a\u200bb}}", []string{"é", "prénom", "प्रश्न"}},
		{"{{\tx}}", "{{\tx}}", nil},
		{"{{x\n}}", "{{x\n}}", nil},
		{"{{#if x}}{{x}}{{/if}}", "{{#if x}}<x>{{/if}}", []string{"x"}},
		{"{ {x} }", "{ {x} }", nil},
		{"é{{x}}\u2028\"", "é<x>\u2028\"", []string{"x"}},
	} {
		slug := fmt.Sprint("p", i)
		in := captureTemplate(t, responses, `{"model":"m","instructions":`+quoted(tc.text)+`,"input":`+quoted("in "+tc.text)+`}`)
		if !slices.Equal(in.Template.Variables, tc.variables) {
			t.Errorf("%q: got variables %q, want %q", tc.text, in.Template.Variables, tc.variables)
		}
		r.putTemplate(t, slug, responses, `{"model":"m","instructions":`+quoted(tc.text)+`,"input":`+quoted("in "+tc.text)+`}`)
		values := map[string]string{}
		for _, name := range tc.variables {
			values[name] = "<" + name + ">"
		}
		variables, _ := json.Marshal(values)
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(namesWithPrompt(slug, string(variables), ""))})
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		var body struct {
			Instructions string
			Input        []struct{ Content string }
		}
		if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil || body.Instructions != tc.want || body.Input[0].Content != "in "+tc.want {
			t.Errorf("%q: got %s, %v, want %q", tc.text, got.Body, err, tc.want)
		}
	}
}

// conversations are the same template in each dialect.
var conversations = map[domain.Dialect]string{
	responses: `{"model":"m","instructions":"You know {{city}}.","input":[` +
		`{"role":"user","content":"Where is {{city}}?"},` +
		`{"role":"assistant","content":[{"type":"output_text","text":"I look up {{city}}, {{fact}}."}]},` +
		`{"role":"user","content":[{"type":"input_text","text":"See:"},{"type":"input_text","text":"{{photo}}"},{"type":"input_image","detail":"low","image_url":"https://x.test/{{city}}.png"}]},` +
		`{"role":"user","content":"{{ doc }}"}]}`,
	chat: `{"model":"m","messages":[{"role":"system","content":"You know {{city}}."},` +
		`{"role":"user","content":"Where is {{city}}?"},` +
		`{"role":"assistant","content":[{"type":"text","text":"I look up {{city}}, {{fact}}."}]},` +
		`{"role":"user","content":[{"type":"text","text":"See:"},{"type":"text","text":"{{photo}}"},{"type":"image_url","image_url":{"url":"https://x.test/{{city}}.png","detail":"low"}}]},` +
		`{"role":"user","content":"{{ doc }}"}]}`,
	messages: `{"model":"m","system":"You know {{city}}.","messages":[` +
		`{"role":"user","content":"Where is {{city}}?"},` +
		`{"role":"assistant","content":[{"type":"text","text":"I look up {{city}}, {{fact}}."}]},` +
		`{"role":"user","content":[{"type":"text","text":"See:"},{"type":"text","text":"{{photo}}"},{"type":"image","source":{"type":"url","url":"https://x.test/{{city}}.png"}}]},` +
		`{"role":"user","content":"{{ doc }}"}]}`,
}

// rendered are the upstream bodies of conversations. %s is the detail of an image, which
// messages does not have.
var rendered = map[domain.Dialect]string{
	responses: `{"input":[` +
		`{"role":"user","content":"Where is R{{fact}}\"?"},` +
		`{"role":"assistant","content":[{"type":"output_text","text":"I look up R{{fact}}\", true."}]},` +
		`{"role":"user","content":[{"type":"input_text","text":"See:"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"},{"type":"input_image","detail":"%s","image_url":"https://x.test/{{city}}.png"}]},` +
		`{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_url":"https://x.test/a.pdf"}]},` +
		`{"role":"user","content":"Now?"}],"model":"m","instructions":"You know R{{fact}}\"."}`,
	chat: `{"messages":[{"role":"system","content":"You know R{{fact}}\"."},` +
		`{"role":"user","content":"Where is R{{fact}}\"?"},` +
		`{"role":"assistant","content":[{"type":"text","text":"I look up R{{fact}}\", true."}]},` +
		`{"role":"user","content":[{"type":"text","text":"See:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://x.test/{{city}}.png"%s}}]},` +
		`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"https://x.test/a.pdf"}}]},` +
		`{"role":"user","content":"Now?"}],"model":"m"}`,
	messages: `{"messages":[` +
		`{"role":"user","content":"Where is R{{fact}}\"?"},` +
		`{"role":"assistant","content":[{"type":"text","text":"I look up R{{fact}}\", true."}]},` +
		`{"role":"user","content":[{"type":"text","text":"See:"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://x.test/{{city}}.png"}}]},` +
		`{"role":"user","content":[{"type":"document","title":"a.pdf","source":{"type":"url","url":"https://x.test/a.pdf"}}]},` +
		`{"role":"user","content":"Now?"}],"model":"m","system":"You know R{{fact}}\"."}`,
}

const conversationValues = `{"city":"R{{fact}}\"","fact":"true","photo":{"type":"input_image","image_url":"data:image/png;base64,AAAA"},` +
	`"doc":{"filename":"a.pdf","type":"input_file","file_url":"https:\/\/x.test/a.pdf","file_id":null}}`

// own is a request's own conversation.
func own(dialect domain.Dialect) string {
	return `,"` + map[domain.Dialect]string{responses: "input", chat: "messages", messages: "messages"}[dialect] + `":[{"role":"user","content":"Now?"}]`
}

func TestTemplatesBetweenDialects(t *testing.T) {
	for _, from := range allDialects {
		for _, to := range allDialects {
			t.Run(string(from)+" for "+string(to), func(t *testing.T) {
				r := newResolving(t)
				resolver := r.resolver(t, inference.Config{})
				r.putTemplate(t, "tour", from, conversations[from])
				want := rendered[to]
				switch {
				case to == messages:
				case from != messages && to == responses:
					want = fmt.Sprintf(want, "low")
				case from != messages:
					want = fmt.Sprintf(want, `,"detail":"low"`)
				case to == responses:
					want = fmt.Sprintf(want, "auto")
				default:
					want = fmt.Sprintf(want, "")
				}
				body := namesWithPrompt("tour", conversationValues, own(to))
				got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(body)})
				wantBody(t, got, err, want)
				if got.Preset != "tour" || len(got.Dropped) > 0 {
					t.Errorf("got preset %q, dropped %q", got.Preset, got.Dropped)
				}
				litellm := `{"prompt_id":"tour","prompt_version":1,"prompt_variables":` + conversationValues + own(to) + `}`
				got, err = resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(litellm)})
				wantBody(t, got, err, want)
				beside := `{"model":"@preset/tour","prompt":{"variables":` + conversationValues + `}` + own(to) + `}`
				if got, err = resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(beside)}); err != nil || got.Preset != "tour" {
					t.Errorf("got %s, %v", got.Body, err)
				}
				// Values have no place in the answer about a mistake.
				missing := namesWithPrompt("tour", `{"city":"s3cret"}`, own(to))
				_, err = resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(missing)})
				wantKind(t, err, domain.Invalid, "/prompt/variables: lacks variables of the template: fact, photo, doc")
				if strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got a value in %v", err)
				}
			})
		}
	}
}

// A part that a dialect does not have is left out and named.
func TestTranslationOfMessagesTellsWhatItDrops(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for i, tc := range []struct {
		from, to   domain.Dialect
		list, want string
		dropped    []string
	}{
		{responses, chat, `[{"type":"reasoning","id":"r","summary":[]},{"role":"user","content":"u","phase":"commentary"}]`, `[{"role":"user","content":"u"}]`, []string{"input.0", "input.1.phase"}},
		{responses, messages, `[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}},{"type":"input_text","text":"t"}]}]`, `[{"role":"system","content":"d"},{"role":"user","content":[{"type":"text","text":"t"}]}]`, []string{"input.1.content.0"}},
		{responses, chat, `[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"1"},{"role":"user","content":"u"}]`, `[{"role":"user","content":"u"}]`, []string{"input.0", "input.1"}},
		{chat, responses, `[{"role":"user","name":"n","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}]}]`, `[{"role":"user","content":[{"type":"input_text","text":"t"}]}]`, []string{"messages.0.name", "messages.0.content.0.cache_control"}},
		{chat, messages, `[{"role":"user","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral"}},{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}]`, `[{"role":"user","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral"}},{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}]}]`, []string{"messages.0.content.1"}},
		{chat, messages, `[{"role":"assistant","content":"c","tool_calls":[{"id":"a","type":"function","function":{}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"function","content":"old"}]`, `[{"role":"assistant","content":"c"}]`, []string{"messages.0.tool_calls", "messages.1", "messages.2"}},
		{messages, chat, `[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"f"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"t"}]}]`, `[{"role":"user","content":[{"type":"text","text":"t"}]}]`, []string{"messages.0.content.0", "messages.0.content.1", "messages.1.content.0"}},
		{messages, responses, `[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://x.test/a.pdf"},"title":"t"},{"type":"image","source":{"type":"file","file_id":"f"}}]}]`, `[{"role":"user","content":[{"type":"input_file","filename":"t","file_url":"https://x.test/a.pdf"},{"type":"input_image","detail":"auto","file_id":"f"}]}]`, nil},
		{messages, chat, `[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]},{"role":"user","content":"u"}]`, `[{"role":"user","content":"u"}]`, []string{"messages.0.content.0"}},
	} {
		slug := fmt.Sprint("p", i)
		r.putTemplate(t, slug, tc.from, `{"model":"m","`+map[bool]string{true: "input", false: "messages"}[tc.from == responses]+`":`+tc.list+`}`)
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: tc.to, Body: []byte(`{"preset":"` + slug + `"}`)})
		if err != nil {
			t.Errorf("%s for %s: %s: %v", tc.from, tc.to, tc.list, err)
			continue
		}
		var body map[string]json.RawMessage
		_ = json.Unmarshal(got.Body.Bytes(), &body)
		list := body["input"]
		if list == nil {
			list = body["messages"]
		}
		if string(list) != tc.want || !slices.Equal(got.Dropped, tc.dropped) {
			t.Errorf("%s for %s: %s\ngot  %s\nwant %s\ngot dropped %q, want %q", tc.from, tc.to, tc.list, list, tc.want, got.Dropped, tc.dropped)
		}
	}
}

func TestPlaceOfATemplatesMessages(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	r.putTemplate(t, "p", chat, `{"model":"m","messages":[{"role":"system","content":"P {{x}}"},{"role":"user","content":"T {{x}}"},{"role":"developer","content":"D"}]}`)
	r.putTemplate(t, "silent", chat, `{"model":"m","messages":[{"role":"system","content":"P {{x}}"}]}`)
	const template = `{"role":"user","content":"T 1"},{"role":"developer","content":"D"}`
	const system = `{"role":"system","content":"P 1"}`
	for _, tc := range []struct {
		dialect    domain.Dialect
		slug       string
		rest, want string
	}{
		{responses, "p", ``, `{"model":"m","input":[` + template + `],"instructions":"P 1"}`},
		{responses, "p", `,"input":null`, `{"input":[` + template + `],"model":"m","instructions":"P 1"}`},
		{responses, "p", `,"input":[]`, `{"input":[` + template + `],"model":"m","instructions":"P 1"}`},
		{responses, "p", `,"input":[ ]`, `{"input":[ ` + template + `],"model":"m","instructions":"P 1"}`},
		{responses, "p", `,"input":"Hi \u00e9"`, `{"input":[` + template + `,{"role":"user","content":"Hi \u00e9"}],"model":"m","instructions":"P 1"}`},
		{responses, "p", `,"instructions":"Own","input":[ {"role":"developer","content":"S"} , {"role":"user","content":"U"} ]`, `{"instructions":"P 1\n\nOwn","input":[ {"role":"developer","content":"S"} , ` + template + `,{"role":"user","content":"U"} ],"model":"m"}`},
		{responses, "p", `,"input":[ {"role":"developer","content":"S"} ]`, `{"input":[ {"role":"developer","content":"S"} ,` + template + `],"model":"m","instructions":"P 1"}`},
		{chat, "p", ``, `{"model":"m","messages":[` + system + `,` + template + `]}`},
		{chat, "p", `,"messages":[{"role":"system","content":"S"},{"role":"developer","content":"S2"},{"role":"user","content":"U"},{"role":"system","content":"late"}]`, `{"messages":[{"role":"system","content":"P 1\n\nS"},{"role":"developer","content":"S2"},` + template + `,{"role":"user","content":"U"},{"role":"system","content":"late"}],"model":"m"}`},
		{chat, "p", `,"messages":[{"role":"system","content":"S"}]`, `{"messages":[{"role":"system","content":"P 1\n\nS"},` + template + `],"model":"m"}`},
		{chat, "p", `,"messages":[ {"role":"developer","content":[{"type":"text","text":"S"}]} ]`, `{"messages":[ {"role":"developer","content":[{"type":"text","text":"P 1"},{"type":"text","text":"S"}]} ,` + template + `],"model":"m"}`},
		{chat, "p", `,"messages":[ ]`, `{"messages":[` + system + `, ` + template + `],"model":"m"}`},
		{chat, "p", `,"messages":[{"role":"user","content":"U"}]`, `{"messages":[` + system + `,` + template + `,{"role":"user","content":"U"}],"model":"m"}`},
		{chat, "p", `,"messages":[{"role":"system"},{"role":"user","content":"U"}]`, `{"messages":[` + system + `,{"role":"system"},` + template + `,{"role":"user","content":"U"}],"model":"m"}`},
		{chat, "silent", `,"messages":[{"role":"system","content":"S"},{"role":"user","content":"U"}]`, `{"messages":[{"role":"system","content":"P 1\n\nS"},{"role":"user","content":"U"}],"model":"m"}`},
		{chat, "p", `,"messages":[` + system + `,{"role":"user","content":"U"}]`, `{"messages":[` + system + `,` + template + `,{"role":"user","content":"U"}],"model":"m"}`},
		{messages, "p", `,"messages":[{"role":"user","content":"U"}]`, `{"messages":[{"role":"user","content":"T 1"},{"role":"system","content":"D"},{"role":"user","content":"U"}],"model":"m","system":"P 1"}`},
		{messages, "p", `,"system":[{"type":"text","text":"S"}],"messages":[]`, `{"system":[{"type":"text","text":"P 1"},{"type":"text","text":"S"}],"messages":[{"role":"user","content":"T 1"},{"role":"system","content":"D"}],"model":"m"}`},
		{chat, "silent", `,"messages":[{"role":"user","content":"U"}]`, `{"messages":[` + system + `,{"role":"user","content":"U"}],"model":"m"}`},
		{chat, "silent", ``, `{"model":"m","messages":[` + system + `]}`},
		{responses, "silent", `,"input":"U"`, `{"input":"U","model":"m","instructions":"P 1"}`},
	} {
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: []byte(namesWithPrompt(tc.slug, `{"x":"1"}`, tc.rest))})
		wantBody(t, got, err, tc.want)
		fields, _ := got.Fields()
		for _, f := range fields {
			want := draft.FromPreset
			if f.Name != "model" && (f.Name != "input" || tc.slug == "p") {
				want = draft.FromVariable
			} else if f.Name == "input" {
				want = draft.FromRequest
			}
			if f.From != want {
				t.Errorf("%s: got field %s from %s, want %s", tc.rest, f.Name, f.From, want)
			}
		}
	}
	for _, tc := range []struct {
		dialect     domain.Dialect
		rest, place string
	}{
		{responses, `,"input":7`, "/input: must be a string or an array"},
		{chat, `,"messages":"U"`, "/messages: must be an array"},
		{messages, `,"messages":{"a":1}`, "/messages: must be an array"},
	} {
		_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: tc.dialect, Body: []byte(namesWithPrompt("p", `{"x":"1"}`, tc.rest))})
		wantKind(t, err, domain.Invalid, tc.place)
	}
	// The routes that count tokens take the messages, too.
	got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: responses, Takes: []string{"tools"}, Body: []byte(namesWithPrompt("p", `{"x":"1"}`, ""))})
	wantBody(t, got, err, `{"model":"m","input":[`+template+`],"instructions":"P 1"}`)
}

// An input_text stands for its text inside a text, and is a part where the variable is all of one.
func TestInputTextInsideAText(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	r.putTemplate(t, "p", responses, `{"model":"m","instructions":"Know {{x}}.","input":[{"role":"user","content":"{{x}}, again {{x}}"},{"role":"user","content":"{{x}}"},{"role":"user","content":[{"type":"input_text","text":"{{x}}"},{"type":"input_text","text":" {{x}} "}]}]}`)
	const value = `{"x":{"type":"input_text","text":"\u0041 \"b\"\/{{x}}","prompt_cache_breakpoint":{"mode":"explicit"}}}`
	const text = `A \"b\"/{{x}}`
	for dialect, want := range map[domain.Dialect]string{
		responses: `{"model":"m","input":[{"role":"user","content":"` + text + `, again ` + text + `"},` +
			`{"role":"user","content":[{"type":"input_text","text":"` + text + `","prompt_cache_breakpoint":{"mode":"explicit"}}]},` +
			`{"role":"user","content":[{"type":"input_text","text":"` + text + `","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"input_text","text":" ` + text + ` "}]}],"instructions":"Know ` + text + `."}`,
		chat: `{"model":"m","messages":[{"role":"system","content":"Know ` + text + `."},{"role":"user","content":"` + text + `, again ` + text + `"},` +
			`{"role":"user","content":[{"type":"text","text":"` + text + `"}]},{"role":"user","content":[{"type":"text","text":"` + text + `"},{"type":"text","text":" ` + text + ` "}]}]}`,
		messages: `{"model":"m","messages":[{"role":"user","content":"` + text + `, again ` + text + `"},` +
			`{"role":"user","content":[{"type":"text","text":"` + text + `"}]},{"role":"user","content":[{"type":"text","text":"` + text + `"},{"type":"text","text":" ` + text + ` "}]}],"system":"Know ` + text + `."}`,
	} {
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(namesWithPrompt("p", value, ""))})
		wantBody(t, got, err, want)
	}
	got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(namesWithPrompt("p", `{"x":{"type":"input_text","text":""}}`, ""))})
	if err != nil || !strings.Contains(got.Body.String(), `"Know ."`) {
		t.Errorf("an empty text: got %s, %v", got.Body, err)
	}
}

// System messages with which a template's messages begin join the system prompt of a chat. So it has
// one system message more than the request at most, and none more where the request has one.
func TestSystemMessagesOfATemplateInChat(t *testing.T) {
	const user = `{"role":"user","content":"T"}`
	for name, tc := range map[string]struct {
		from             domain.Dialect
		instructions     string
		list             string
		prompt, messages string
	}{
		"a developer's":         {responses, `"P {{x}}"`, `[{"role":"developer","content":"D {{x}}"},` + user + `]`, `P 1\n\nD 1`, user},
		"alone":                 {responses, `null`, `[{"type":"message","role":"system","content":[{"type":"input_text","text":"D"},{"type":"input_text","text":"{{x}}"}]},` + user + `]`, `D\n\n1`, user},
		"beside an empty one":   {responses, `""`, `[{"role":"developer","content":"D"},` + user + `]`, `D`, user},
		"several":               {responses, `"P"`, `[{"role":"developer","content":"D"},{"role":"system","content":"\\{{x}}"}]`, `P\n\nD\n\n{{x}}`, ``},
		"later ones stay":       {responses, `"P"`, `[` + user + `,{"role":"developer","content":"D"}]`, `P`, user + `,{"role":"developer","content":"D"}`},
		"one with an image":     {responses, `"P"`, `[{"role":"developer","content":[{"type":"input_image","image_url":"u"}]},` + user + `]`, `P`, `{"role":"developer","content":[{"type":"image_url","image_url":{"url":"u"}}]},` + user},
		"of the messages API":   {messages, `"P"`, `[{"role":"system","content":[{"type":"text","text":"D","cache_control":{"type":"ephemeral"}}]},` + user + `]`, `P\n\nD`, user},
		"a template of nothing": {responses, `null`, `[]`, ``, ``},
	} {
		r := newResolving(t)
		resolver := r.resolver(t, inference.Config{})
		r.putTemplate(t, "p", tc.from, `{"model":"m","`+promptFields[tc.from]+`":`+tc.instructions+`,"`+map[domain.Dialect]string{responses: "input", messages: "messages"}[tc.from]+`":`+tc.list+`}`)
		values := `null`
		if strings.Contains(strings.ReplaceAll(tc.instructions+tc.list, `\\{{`, ""), "{{") {
			values = `{"x":"1"}`
		}
		join := func(items ...string) string {
			return strings.Join(slices.DeleteFunc(items, func(item string) bool { return item == "" }), ",")
		}
		ask := `{"role":"user","content":"U"}`
		for own, leading := range map[string]string{
			ask: map[bool]string{true: `{"role":"system","content":"` + tc.prompt + `"}`}[tc.prompt != ""],
			`{"role":"system","content":"S"},` + ask: map[bool]string{
				true: `{"role":"system","content":"` + tc.prompt + `\n\nS"}`, false: `{"role":"system","content":"S"}`,
			}[tc.prompt != ""],
		} {
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: []byte(namesWithPrompt("p", values, `,"messages":[`+own+`]`))})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if want := `{"messages":[` + join(leading, tc.messages, ask) + `],"model":"m"}`; got.Body.String() != want || len(got.Dropped) > 0 {
				t.Errorf("%s: got  %s, dropped %q\nwant %s", name, got.Body, got.Dropped, want)
			}
		}
	}
}

func TestPromptsAsReferences(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	passing := r.resolver(t, inference.Config{PassUnknownPrompts: true})
	r.putTemplate(t, "pmpt_68", responses, `{"model":"one","instructions":"{{x}}"}`)
	r.putTemplate(t, "pmpt_68", responses, `{"model":"two","instructions":"{{x}}"}`)
	if _, err := r.PutLabel(t.Context(), domain.By(admin), "", "pmpt_68", "stable", domain.Target{Version: 1}, nil); err != nil {
		t.Fatal(err)
	}
	r.put(t, r.home.ID, "text", version{responses, `{"model":"text"}`, "{{x}}"})
	r.put(t, r.home.ID, "archived", version{responses, `{"model":"a"}`, ""})
	if _, err := r.ArchivePreset(t.Context(), domain.By(admin), "", "archived"); err != nil {
		t.Fatal(err)
	}
	const x = `"variables":{"x":"s3cret"}`
	for _, tc := range []struct{ body, model string }{
		{`{"prompt":{"id":"pmpt_68",` + x + `}}`, "two"},
		{`{"prompt":{"id":"pmpt_68","version":null,` + x + `},"preset":null}`, "two"},
		{`{"prompt":{"id":"pmpt_68","version":"1",` + x + `}}`, "one"},
		{`{"prompt":{"id":"pmpt_68","version":1,` + x + `}}`, "one"},
		{`{"prompt":{"id":"pmpt_68","version":"stable",` + x + `}}`, "one"},
		{`{"\u0070rompt":{"\u0069d":"pmpt_6\u0038",` + x + `}}`, "two"},
		{`{"model":"own","prompt":{"id":"pmpt_68",` + x + `}}`, "own"},
		{`{"prompt":{` + x + `},"preset":"pmpt_68@1"}`, "one"},
		{`{"prompt":{` + x + `},"model":"@preset/pmpt_68"}`, "two"},
		{`{"prompt":{"id":"pmpt_68",` + x + `},"model":"own@preset/pmpt_68"}`, "own"},
		{`{"prompt_id":"pmpt_68","prompt_version":2,"prompt_variables":{"x":""}}`, "two"},
		{`{"prompt_id":"pmpt_68","prompt":null,"prompt_version":"stable","prompt_variables":{"x":""}}`, "one"},
		{`{"prompt_id":"pmpt_68","prompt":{"id":"pmpt_68","variables":{"x":"1"}}}`, "two"},
		{`{"prompt":{"id":"text"}}`, "text"},
		{`{"prompt":{"id":"text","variables":null}}`, "text"},
		{`{"prompt":{"id":"text","variables":{}}}`, "text"},
		{`{"prompt":{},"preset":"text"}`, "text"},
	} {
		for _, resolver := range []*inference.Resolver{resolver, passing} {
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(tc.body)})
			if err != nil || !strings.Contains(got.Body.String(), `"model":"`+tc.model+`"`) || strings.Contains(got.Body.String(), "prompt") {
				t.Errorf("%s: got %s, %v, want model %s", tc.body, got.Body, err, tc.model)
			}
		}
	}
	for _, tc := range refusals(t, "testdata/prompts_refused.txt") {
		for _, resolver := range []*inference.Resolver{resolver, passing} {
			_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(tc.body)})
			wantKind(t, err, tc.kind, tc.says)
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got a value in %v", tc.body, err)
			}
		}
	}
	for _, tc := range []struct{ body, refused string }{
		{`{"prompt":{"id":"theirs","version":"2","variables":{"x":7}}}`, "Preset not found: @preset/theirs@2"},
		{`{"prompt":{"id":"theirs","more":1}}`, "/prompt/more: is no member"},
		{`{"prompt":{"id":"no slug"},"model":"m"}`, `Preset not found: "no slug"`},
		{`{"prompt":{"id":7}}`, "/prompt/id: must be a string"},
		{`{"prompt_id":"theirs","prompt_variables":{"x":"1"}}`, "Preset not found: @preset/theirs"},
	} {
		_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(tc.body)})
		if err == nil || !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: got %v, want %q", tc.body, err, tc.refused)
		}
		got, err := passing.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(tc.body)})
		if err != nil || got.Preset != "" || got.Body.String() != tc.body {
			t.Errorf("%s: got %s, %v, want it unchanged", tc.body, got.Body, err)
		}
	}
	for _, body := range []string{
		`{"prompt":"text of a completion"}`, `{"prompt":null}`, `{"prompt":{}}`, `{"prompt":{"id":null,"variables":{}}}`, `{"prompt_id":null}`,
		`{"prompt_version":"1"}`, `{"prompt_cache_key":"k","messages":[]}`, `{"messages":[{"role":"user","content":"\"prompt\":{\"id\":\"text\"}"}]}`,
	} {
		for _, resolver := range []*inference.Resolver{resolver, passing} {
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
			if err != nil || got.Preset != "" || got.Body.String() != body {
				t.Errorf("%s: got %s, %v, want it unchanged", body, got.Body, err)
			}
		}
	}
}

func TestEqualValuesHaveEqualBytes(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for _, dialect := range allDialects {
		r.putTemplate(t, "p", dialect, conversations[dialect])
		for _, to := range allDialects {
			var first string
			for i, values := range []string{
				`{"city":"é/\"","fact":"f","photo":{"type":"input_image","image_url":"data:image/png;base64,A/A=","detail":"high"},"doc":{"type":"input_text","text":"a/b"}}`,
				`{ "doc":{"text":"a\/b","type":"input_text"}, "photo":{"file_id":null,"detail":"hi\u0067h","image_url":"data:image\/png;base64,A\/A=","type":"input_image"},"f\u0061ct":"\u0066","city":"\u00e9\/\u0022"}`,
			} {
				got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: to, Body: []byte(namesWithPrompt("p", values, fmt.Sprintf(`,"user":"%d"`, i)))})
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Replace(got.Body.String(), `"user":"1"`, `"user":"0"`, 1)
				if first == "" {
					first = text
				}
				if text != first {
					t.Errorf("%s for %s: got  %s\nwant %s", dialect, to, text, first)
				}
			}
		}
	}
}

func TestCaptureOfTemplates(t *testing.T) {
	for _, tc := range []struct {
		dialect                   domain.Dialect
		body, messages, variables string
	}{
		{responses, `{}`, `[]`, ``},
		{responses, `{"input":null,"messages":[{"role":"user"}]}`, `[]`, ``},
		{responses, `{"input":"Hi {{ b }}","instructions":"{{a}}"}`, `[{"role":"user","content":"Hi {{ b }}"}]`, `a b`},
		{responses, `{"input":[ {"role" : "user", "content":"\u007b{x}}"} , {"type":"reasoning","summary":[{"text":"{{no}}"}]}, {"type":"message","role":"user","content":[{"type":"refusal","text":"{{no}}"},{"type":"input_text","text":"{{yes}}"}]}]}`, `[{"role" : "user", "content":"\u007b{x}}"},{"type":"reasoning","summary":[{"text":"{{no}}"}]},{"type":"message","role":"user","content":[{"type":"refusal","text":"{{no}}"},{"type":"input_text","text":"{{yes}}"}]}]`, `x yes`},
		{responses, `{"input":[{"type":"function_call","call_id":"{{no}}","name":"{{no}}","arguments":"{{no}}"},{"type":"function_call_output","call_id":"{{no}}","output":[{"type":"input_text","text":"{{yes}}"}]}]}`, `[{"type":"function_call","call_id":"{{no}}","name":"{{no}}","arguments":"{{no}}"},{"type":"function_call_output","call_id":"{{no}}","output":[{"type":"input_text","text":"{{yes}}"}]}]`, `yes`},
		{chat, `{"messages":[{"role":"system","content":"{{a}}"},{"role":"developer","content":"b"}]}`, `[]`, `a`},
		{chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"{{u}}"},{"role":"system","content":"{{l}}"},{"role":"user","name":"{{no}}","content":[{"type":"image_url","image_url":{"url":"{{no}}"}}]}]}`, `[{"role":"user","content":"{{u}}"},{"role":"system","content":"{{l}}"},{"role":"user","name":"{{no}}","content":[{"type":"image_url","image_url":{"url":"{{no}}"}}]}]`, `u l`},
		{messages, `{"system":[{"type":"text","text":"{{a}}"},{"type":"text","text":"{{b}}"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"{{no}}":"{{no}}"}},{"type":"text","text":"{{a}}{{c}}"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"{{d}}"}]}]}]}`, `[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"{{no}}":"{{no}}"}},{"type":"text","text":"{{a}}{{c}}"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"{{d}}"}]}]}]`, `a b c d`},
	} {
		in := captureTemplate(t, tc.dialect, tc.body)
		if got := strings.Join(in.Template.Variables, " "); string(in.Template.Messages) != tc.messages || got != tc.variables {
			t.Errorf("%s: %s:\ngot  %s with %q\nwant %s with %q", tc.dialect, tc.body, in.Template.Messages, got, tc.messages, tc.variables)
		}
		if err := in.Template.Check(); err != nil {
			t.Errorf("%s: %v", tc.body, err)
		}
		plain, err := captureIn(t, tc.dialect, tc.body)
		if err != nil || plain.Template != nil || string(plain.Config) != string(in.Config) {
			t.Errorf("%s: got %+v, %v without a template", tc.body, plain, err)
		}
	}
	large := `{"input":"` + strings.Repeat("x", domain.MaxStoredSize) + `"}`
	members, err := rawjson.Members([]byte(large))
	if err != nil {
		t.Fatal(err)
	}
	_, err = inference.CaptureTemplate(responses, members)
	wantKind(t, err, domain.Invalid, "must be at most")
}

// memoryLimit is a Memory of a size.
type memoryLimit int

var errTooMuch = errors.New("too much memory")

func (m memoryLimit) Reserve(size int) error {
	if size > int(m) {
		return errTooMuch
	}
	return nil
}

func (memoryLimit) Release(int) {}

func (memoryLimit) Buffer(size int) []byte { return make([]byte, 0, size) }

// A short request can make a long one. The memory for that is asked for first.
func TestRenderingIsBounded(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	r.putTemplate(t, "p", responses, `{"model":"m","instructions":"`+strings.Repeat("{{x}}", 20_000)+`","input":"`+strings.Repeat("{{x}}", 20_000)+`"}`)
	body := []byte(namesWithPrompt("p", `{"x":"`+strings.Repeat("v", 1<<20)+`"}`, "")) // 40 GiB
	_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: body, Memory: memoryLimit(1 << 30)})
	if !errors.Is(err, errTooMuch) {
		t.Errorf("got %v, want %v", err, errTooMuch)
	}
}

// templatePattern matches what a template's text has besides itself.
var templatePattern = regexp.MustCompile(`\\\{\{|\{\{ *([A-Za-z_][A-Za-z0-9_.-]*) *\}\}`)

// renderSimply returns a text of a template with values in it. names are its variables.
func renderSimply(text string, value func(name string) string) (rendered string, names []string) {
	rendered = templatePattern.ReplaceAllStringFunc(text, func(match string) string {
		if match == `\{{` {
			return "{{"
		}
		name := strings.Trim(match, "{ }")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		return value(name)
	})
	return rendered, names
}

// checkRendering stores texts as a template of one dialect, and resolves a request of
// another with values. rest is the request's other fields. None of them may be left. It
// returns what is wrong with the result, or "".
func checkRendering(tb testing.TB, r *resolving, resolver *inference.Resolver, slug, rest string, from, to domain.Dialect, prompt, text string, value func(name string) string) string {
	tb.Helper()
	var body string
	switch from {
	case responses:
		body = `{"model":"m","instructions":` + quoted(prompt) + `,"input":[{"role":"user","content":` + quoted(text) + `},{"role":"user","content":[{"type":"input_text","text":` + quoted(text) + `}]}]}`
	case chat:
		body = `{"model":"m","messages":[{"role":"system","content":` + quoted(prompt) + `},{"role":"user","content":` + quoted(text) + `},{"role":"user","content":[{"type":"text","text":` + quoted(text) + `}]}]}`
	default:
		body = `{"model":"m","system":` + quoted(prompt) + `,"messages":[{"role":"user","content":` + quoted(text) + `},{"role":"user","content":[{"type":"text","text":` + quoted(text) + `}]}]}`
	}
	r.putTemplate(tb, slug, from, body)
	wantPrompt, names := renderSimply(prompt, value)
	wantText, more := renderSimply(text, value)
	variables := map[string]string{}
	for _, name := range append(names, more...) {
		variables[name] = value(name)
	}
	values, err := json.Marshal(variables)
	if err != nil {
		tb.Fatal(err)
	}
	got, err := resolver.Resolve(tb.Context(), user, inference.Request{Dialect: to, Body: []byte(namesWithPrompt(slug, string(values), rest))})
	if err != nil {
		return err.Error()
	}
	if !json.Valid(got.Body.Bytes()) {
		return "is no JSON: " + got.Body.String()
	}
	type item struct {
		Role    string
		Content any
	}
	var sent struct {
		Instructions, System *string
		Input, Messages      []item
	}
	if err := json.Unmarshal(got.Body.Bytes(), &sent); err != nil {
		return err.Error() + ": " + got.Body.String()
	}
	list := append(sent.Input, sent.Messages...)
	gotPrompt := ""
	switch {
	case to == chat && len(list) == 3:
		gotPrompt, _ = list[0].Content.(string)
		list = list[1:]
	case sent.Instructions != nil:
		gotPrompt = *sent.Instructions
	case sent.System != nil:
		gotPrompt = *sent.System
	}
	if gotPrompt != wantPrompt {
		return fmt.Sprintf("got prompt %q, want %q", gotPrompt, wantPrompt)
	}
	if len(list) != 2 || list[0].Content != any(wantText) {
		return fmt.Sprintf("got %s, want %q", got.Body, wantText)
	}
	parts, _ := list[1].Content.([]any)
	part, _ := append(parts, nil)[0].(map[string]any)
	if part["text"] != any(wantText) {
		return fmt.Sprintf("got part %v, want %q", part, wantText)
	}
	return ""
}

func TestRenderingProperties(t *testing.T) {
	tier.NoRace(t)
	bits := []string{"{{", "}}", "{", "}", `\`, " ", "x", "y1", "_", "a.b", "{{x}}", "{{ y1 }}", `\{{`, "é", "\n", `"`, "\u2028", "\x00", "😀", "{{x", "{{{x}}}"}
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for round := range 900 {
		g := rand.New(rand.NewPCG(11, uint64(round)))
		text := func() string {
			var b strings.Builder
			for range g.IntN(8) {
				b.WriteString(bits[g.IntN(len(bits))])
			}
			return b.String()
		}
		values := map[string]string{}
		value := func(name string) string {
			if _, ok := values[name]; !ok {
				values[name] = text()
			}
			return values[name]
		}
		prompt, message := text(), text()
		from, to := allDialects[round%3], allDialects[round/3%3]
		if fault := checkRendering(t, r, resolver, "p", "", from, to, prompt, message, value); fault != "" {
			t.Fatalf("round %d, %s for %s: %q and %q with %q: %s", round, from, to, prompt, message, values, fault)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	r := newResolving(f)
	resolver := r.resolver(f, inference.Config{})
	f.Add("You know {{city}}.", "{{{city}}} \\{{x}}", "R{{city}}\"\n", byte(0))
	f.Add("{{a}}{{b}}", "{{", "}}", byte(4))
	f.Add("", "{{x}}", "\u2028\\", byte(8))
	f.Add("{{x}}", "{{x}}", "mine", byte(128))
	f.Add("Be {{x}}.", "{{x}}", "{{x}}", byte(255))
	r.ruled(f, "locked", version{dialect: chat, config: `{"model":"m"}`}, `{"lock":["system"]}`)
	f.Fuzz(func(t *testing.T, prompt, text, value string, pair byte) {
		prompt, text, value = strings.ToValidUTF8(prompt, "?"), strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(value, "?")
		from, to := allDialects[pair%3], allDialects[pair/3%3]
		slug, rest := "p", ""
		if pair >= 128 { // all prompts of the request go
			slug = "locked"
			own := `[{"role":"developer","content":` + quoted(value) + `},{"role":"system","content":` + quoted(prompt) + `}]`
			rest = `,"instructions":` + quoted(prompt) + `,"system":` + quoted(value) + `,"messages":` + own + `,"input":` + own
		}
		if fault := checkRendering(t, r, resolver, slug, rest, from, to, prompt, text, func(string) string { return value }); fault != "" {
			t.Errorf("%s for %s: %q and %q with %q: %s", from, to, prompt, text, value, fault)
		}
	})
}

// FuzzPrompt sends any prompt with any values. The answer is an Invalid or NotFound error,
// or JSON without the prompt.
func FuzzPrompt(f *testing.F) {
	r := newResolving(f)
	resolver := r.resolver(f, inference.Config{})
	for _, dialect := range allDialects {
		r.putTemplate(f, "tour-"+string(dialect[:1]), dialect, conversations[dialect])
	}
	f.Add(`{"id":"tour-r","variables":`+conversationValues+`}`, byte(0))
	f.Add(`{"id":"tour-c","version":1,"variables":`+conversationValues+`}`, byte(1))
	f.Add(`{"id":"tour-m","version":"1","variables":{"city":"","fact":"","photo":{"type":"input_file","file_data":"data:text/plain;base64,aGk="},"doc":{"type":"input_text","text":"t","prompt_cache_breakpoint":{"mode":"explicit"}}}}`, byte(2))
	f.Add(`{"id":"tour-m","variables":{"city":"\ud800"}}`, byte(2))
	f.Add(`null`, byte(2))
	f.Fuzz(func(t *testing.T, prompt string, to byte) {
		body := []byte(`{"prompt":` + prompt + `,"user":"u"}`)
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: allDialects[to%3], Body: body})
		switch kind := domain.KindOf(err); {
		case err != nil && kind != domain.Invalid && kind != domain.NotFound:
			t.Errorf("got %v for %s", err, body)
		case err != nil || got.Preset == "":
		case !json.Valid(got.Body.Bytes()):
			t.Errorf("got %s of %s", got.Body, body)
		default:
			if names, _, ok := topLevel(got.Body.Bytes()); !ok || slices.Contains(names, "prompt") || !slices.Contains(names, "user") {
				t.Errorf("got %s of %s", got.Body, body)
			}
		}
	})
}
