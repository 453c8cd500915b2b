package inference_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// benchConfig is a preset as teams keep them, in each dialect.
var benchConfig = map[domain.Dialect]string{
	responses: `{"model":"openai/gpt-5","temperature":0.7,"max_output_tokens":2048,"reasoning":{"effort":"low"},"provider":{"zdr":true},` +
		`"tools":[{"type":"function","name":"look_up","parameters":{"type":"object","properties":{"q":{"type":"string"}}}},{"type":"openrouter:datetime"}]}`,
	chat: `{"model":"openai/gpt-5","temperature":0.7,"max_completion_tokens":2048,"reasoning":{"effort":"low"},"provider":{"zdr":true},` +
		`"tools":[{"type":"function","function":{"name":"look_up","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}},{"type":"openrouter:datetime"}]}`,
}

// benchBody returns a chat request of a size. head comes first in it, and each
// of its messages has text.
func benchBody(size int, head, text string) []byte {
	var body strings.Builder
	body.WriteString(`{` + head + `"stream":true,"temperature":0.20,"tools":[{"type":"function","function":{"name":"send","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"Answer in French."}`)
	for i := 0; body.Len() < size-200; i++ {
		role := [2]string{"user", "assistant"}[i%2]
		content := strings.Repeat(text+" ", max(1, min(300, size-100-body.Len())/(len(text)+1)))
		fmt.Fprintf(&body, `,{"role":%q,"content":"%s"}`, role, content)
	}
	body.WriteString(`]}`)
	if !json.Valid([]byte(body.String())) {
		panic("a body that is no JSON")
	}
	return []byte(body.String())
}

var benchSizes = []struct {
	name  string
	bytes int
}{{"2KB", 2 << 10}, {"64KB", 64 << 10}}

const (
	plainText   = `Some plain \"text\" of a conversation,\nas it was sent.`
	presetText  = `Some text about a preset,\nwith \"its name\" in it.`
	escapedText = `Some text with an \u0026 in it,\nwhich \"escapes\" need.`
)

func BenchmarkWithoutAReference(b *testing.B) {
	r := newResolving(b)
	resolver := r.resolver(b, inference.Config{})
	for _, size := range benchSizes {
		for _, text := range []struct{ name, text string }{{"plain", plainText}, {"mentions", presetText}, {"escapes", escapedText}} {
			b.Run(size.name+"/"+text.name, func(b *testing.B) {
				body := benchBody(size.bytes, `"model":"openai/gpt-5",`, text.text)
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if got, err := resolver.Resolve(b.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: body}); err != nil || got.Preset != "" {
						b.Fatalf("got %q, %v", got.Preset, err)
					}
				}
			})
		}
	}
}

// A workspace with disabled tools has each request read.
func BenchmarkWhereToolsAreDisabled(b *testing.B) {
	r := newResolving(b)
	resolver := r.resolver(b, inference.Config{})
	who := r.strict(b, "strict", search)
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			body := benchBody(size.bytes, `"model":"openai/gpt-5",`, plainText)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := resolver.Resolve(b.Context(), who, inference.Request{Dialect: chat, Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWithAReference resolves requests for 100 presets in rotation.
func BenchmarkWithAReference(b *testing.B) {
	for _, from := range []domain.Dialect{chat, responses} {
		r := newResolving(b)
		for i := range 100 {
			r.put(b, r.home.ID, fmt.Sprint("preset-", i), version{from, benchConfig[from], strings.Repeat("You write short and friendly e-mails. ", 12)})
		}
		resolver := r.resolver(b, inference.Config{})
		for _, size := range benchSizes {
			b.Run(size.name+"/from_"+strings.ReplaceAll(string(from), "/", "_"), func(b *testing.B) {
				var bodies [100][]byte
				for i := range bodies {
					bodies[i] = benchBody(size.bytes, fmt.Sprintf(`"model":"%s@preset/preset-%d",`, strings.Repeat("x", i%3), i), plainText)
				}
				step := 0
				resolve := func() {
					if _, err := resolver.Resolve(b.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: bodies[step%len(bodies)]}); err != nil {
						b.Fatal(err)
					}
					step++
				}
				for range 5 * len(bodies) { // the cache fills gradually
					resolve()
				}
				b.ReportAllocs()
				b.SetBytes(int64(size.bytes))
				for b.Loop() {
					resolve()
				}
			})
		}
	}
}

// A policy with each kind of rule, on requests that keep it and that break it.
func BenchmarkPolicy(b *testing.B) {
	const rules = `{"lock":["provider","response_format","reasoning.effort"],"bounds":{"temperature":{"max":1},"max_output_tokens":{"max":4096}},"models":["openai/*"],"drop":["logit_bias"]}`
	for _, policy := range []struct{ name, policy, head string }{
		{"none", "", `"temperature":0.2,`},
		{"kept", rules, `"temperature":0.2,`},
		{"broken", rules, `"temperature":2,"reasoning_effort":"high","logit_bias":{},`},
	} {
		b.Run(policy.name, func(b *testing.B) {
			r := newResolving(b)
			in := version{chat, benchConfig[chat], "Answer briefly."}
			if policy.policy == "" {
				r.put(b, r.home.ID, "p", in)
			} else {
				r.ruled(b, "p", in, policy.policy)
			}
			resolver := r.resolver(b, inference.Config{})
			body := []byte(strings.Replace(string(benchBody(2<<10, `"model":"@preset/p",`+policy.head, plainText)), `"temperature":0.20,`, "", 1))
			resolve := func() {
				if _, err := resolver.Resolve(b.Context(), user, inference.Request{Dialect: chat, Body: body}); err != nil {
					b.Fatal(err)
				}
			}
			for range 5 { // the cache fills gradually
				resolve()
			}
			b.ReportAllocs()
			for b.Loop() {
				resolve()
			}
		})
	}
}

// A template of 2 KB with five variables, beside the same text.
func BenchmarkTemplate(b *testing.B) {
	text := func(variable func(i int) string) string {
		var body strings.Builder
		for i := range 5 {
			body.WriteString(strings.Repeat("Write short and friendly e-mails. ", 6) + variable(i))
		}
		return body.String()
	}
	body := func(variable func(i int) string) string {
		return `{"model":"m","messages":[{"role":"system","content":"` + text(variable) + `"},{"role":"user","content":"` + text(variable) + `"}]}`
	}
	value := func(i int) string { return fmt.Sprintf("value number %d, in quotes", i) }
	r := newResolving(b)
	r.putTemplate(b, "template", chat, body(func(i int) string { return fmt.Sprintf("{{name%d}}", i) }))
	r.putTemplate(b, "text", chat, body(value))
	var variables []string
	for i := range 5 {
		variables = append(variables, fmt.Sprintf(`"name%d":%q`, i, value(i)))
	}
	requests := map[string]string{
		"text":     namesWithPrompt("text", "null", own(chat)),
		"template": namesWithPrompt("template", "{"+strings.Join(variables, ",")+"}", own(chat)),
	}
	bodies := map[string]string{}
	for _, name := range []string{"text", "template"} {
		b.Run(name, func(b *testing.B) {
			resolver := r.resolver(b, inference.Config{})
			request := inference.Request{Dialect: chat, Body: []byte(requests[name])}
			b.ReportAllocs()
			for b.Loop() {
				got, err := resolver.Resolve(b.Context(), domain.Principal{}, request)
				if err != nil {
					b.Fatal(err)
				}
				bodies[name] = got.Body.String()
			}
		})
	}
	if bodies["text"] != bodies["template"] && len(bodies) == 2 {
		b.Errorf("got %s\nwant %s", bodies["template"], bodies["text"])
	}
}
