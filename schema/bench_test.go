package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema"
)

// request reads a file of the repository's testdata/requests.
func request(tb testing.TB, name string) []byte {
	tb.Helper()
	body, err := os.ReadFile(filepath.Join("..", "testdata", "requests", name))
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func schemas(tb testing.TB) *schema.Schemas {
	tb.Helper()
	s, err := schema.Load()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// largeRequest is a body of about 50 KB with tools of three kinds. function is the format
// of the client's own tools, whose name and description come first.
func largeRequest(function string) []byte {
	const parameters = `{"type":"object","properties":{"id":{"type":"integer","minimum":1},"label":{"type":"string"},` +
		`"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]}}},"required":["id"]}`
	var b strings.Builder
	b.WriteString(`{"model":"openai/gpt-5","temperature":0.2,"tools":[`)
	for i := 0; b.Len() < 50_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, function, i, i, parameters)
		b.WriteString(`,{"type":"web_search","max_results":5,"filters":{"allowed_domains":["example.com","example.org"]}},` +
			`{"type":"openrouter:web_fetch","parameters":{"engine":"auto","max_uses":3}}`)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// longRequest is a body of about 50 KB with a conversation.
func longRequest() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"openai/gpt-5","temperature":0.2,"messages":[{"role":"user","content":"Hello."}`)
	for i := 0; b.Len() < 50_000; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"That is answer number %d, and a short one."}]}`+
			`,{"role":"user","content":"Thank you. I have another question, which is number %d."}`, i, i+2)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// cost is a valid body for a benchmark of its check.
type cost struct {
	name  string
	check *schema.Schema
	body  []byte
}

func costs(tb testing.TB) []cost {
	tb.Helper()
	s := schemas(tb)
	return []cost{
		{"responses/2KB", s.ResponsesRequest, request(tb, "responses.json")},
		{"responses/50KB", s.ResponsesRequest, largeRequest(`{"type":"function","name":"f%d","description":"Does the thing with number %d.","strict":true,"parameters":%s}`)},
		{"chat/2KB", s.ChatRequest, request(tb, "chat.json")},
		{"chat/50KB", s.ChatRequest, largeRequest(`{"type":"function","function":{"name":"f%d","description":"Does the thing with number %d.","strict":true,"parameters":%s}}`)},
		{"chat/50KB of messages", s.ChatRequest, longRequest()},
		{"messages/2KB", s.MessagesRequest, request(tb, "messages.json")},
		{"messages/50KB", s.MessagesRequest, largeRequest(`{"name":"f%d","description":"Does the thing with number %d.","input_schema":%s}`)},
		{"messages/50KB of messages", s.MessagesRequest, longRequest()},
		{"create-workspace", s.CreateWorkspace, request(tb, "workspace.json")},
		{"create-workspace/small", s.CreateWorkspace, []byte(`{"name":"Team of support","slug":"team-of-support","description":"Answers customers in Europe.","default_provider_sort":"price"}`)},
		{"update-workspace", s.UpdateWorkspace, request(tb, "workspace-update.json")},
		{"label", s.Label, []byte(`{"split":[{"version":1,"weight":90},{"version":2,"weight":10}]}`)},
	}
}

// BenchmarkCheck compares a check with decoding the same body into any. The goal is at most
// three times that cost.
func BenchmarkCheck(b *testing.B) {
	for _, c := range costs(b) {
		b.Run(c.name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.check.Check(c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
