package schema_test

import (
	"encoding/json"
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

// largeRequest is a body of about 50 KB with tools of three kinds.
func largeRequest() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"openai/gpt-5","instructions":"Be brief.","temperature":0.2,"tools":[`)
	for i := 0; b.Len() < 50_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","name":"f%d","description":"Does the thing with number %d.","strict":true,`+
			`"parameters":{"type":"object","properties":{"id":{"type":"integer","minimum":1},"label":{"type":"string"},`+
			`"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]}}},"required":["id"]}},`+
			`{"type":"web_search","max_results":5,"filters":{"allowed_domains":["example.com","example.org"]}},`+
			`{"type":"openrouter:web_fetch","parameters":{"engine":"auto","max_uses":3}}`, i, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// BenchmarkCheck stands next to what decoding the same body into any costs;
// three times that is the goal.
func BenchmarkCheck(b *testing.B) {
	check := schemas(b).ResponsesRequest
	for _, test := range []struct {
		name string
		body []byte
	}{
		{"2KB", request(b, "responses.json")},
		{"50KB", largeRequest()},
	} {
		name, body := test.name, test.body
		b.Run(name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := check.Check(body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/unmarshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if err := json.Unmarshal(body, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
