package inference_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// ruledTemplate stores a template with a policy, given as clients send it.
func (r *resolving) ruledTemplate(tb testing.TB, slug string, dialect domain.Dialect, body, policy string) {
	tb.Helper()
	r.ruled(tb, slug, version{dialect: dialect, config: `{"model":"m"}`}, policy)
	r.putTemplate(tb, slug, dialect, body)
}

// The rendered prompt and the template's messages stay, and the request's own prompts go.
func TestLockedPromptOfATemplate(t *testing.T) {
	r := newResolving(t)
	templates := map[domain.Dialect]string{
		responses: `{"model":"m","instructions":"Be {{tone}}.","input":[{"role":"user","content":"T {{x}}"},{"role":"developer","content":"D {{x}}"}]}`,
		chat:      `{"model":"m","messages":[{"role":"system","content":"Be {{tone}}."},{"role":"user","content":"T {{x}}"},{"role":"developer","content":"D {{x}}"}]}`,
		messages:  `{"model":"m","system":"Be {{tone}}.","messages":[{"role":"user","content":"T {{x}}"},{"role":"system","content":"D {{x}}"}]}`,
	}
	kept := `{"role":"user","content":"T 1"},{"role":"%s","content":"D 1"}`
	const locked = `"model":"m"`
	for from, body := range templates {
		slug := strings.ReplaceAll(string(from), "/", "-")
		r.ruledTemplate(t, slug, from, body, `{"lock":["system"]}`)
		ours := fmt.Sprintf(kept, "developer")
		if from == messages {
			ours = fmt.Sprintf(kept, "system")
		}
		const chatPrompt = `{"role":"system","content":"Be kind \"x\"."}`
		for _, tc := range []struct {
			to             domain.Dialect
			request        string
			want, enforced string
		}{
			{responses, `"instructions":"mine","input":"hi"`, `{"instructions":"Be kind \"x\".","input":[` + ours + `,{"role":"user","content":"hi"}],` + locked + `}`, "system"},
			{responses, `"instructions":"Be kind \u0022x\u0022.","input":"hi"`, `{"input":[` + ours + `,{"role":"user","content":"hi"}],"instructions":"Be kind \"x\".",` + locked + `}`, ""},
			{responses, `"input":[{"role":"system","content":"Be kind \"x\"."},{"role":"user","content":"hi"},{"role":"SYSTEM","content":"mine"}]`, `{"input":[` + ours + `,{"role":"user","content":"hi"}],"instructions":"Be kind \"x\".",` + locked + `}`, "system"},
			{responses, `"input":null`, `{"input":[` + ours + `],"instructions":"Be kind \"x\".",` + locked + `}`, ""},
			{chat, `"messages":[` + chatPrompt + `,{"role":"user","content":"hi"}]`, `{"messages":[` + chatPrompt + `,` + ours + `,{"role":"user","content":"hi"}],` + locked + `}`, ""},
			{chat, `"messages":[` + chatPrompt + `,{"role":"developer","content":"mine"},{"role":"user","content":"hi"}]`, `{"messages":[` + chatPrompt + `,` + ours + `,{"role":"user","content":"hi"}],` + locked + `}`, "system"},
			{chat, `"messages":[{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"mine"}]}],"system":"mine"`, `{"messages":[` + chatPrompt + `,` + ours + `,{"role":"user","content":"hi"}],` + locked + `}`, "system"},
			{messages, `"system":[{"type":"text","text":"mine"}],"messages":[{"role":"user","content":"hi"}]`, `{"messages":[` + ours + `,{"role":"user","content":"hi"}],"system":"Be kind \"x\".",` + locked + `}`, "system"},
			{messages, `"system":"Be kind \"x\"."`, `{"messages":[` + ours + `],"system":"Be kind \"x\".",` + locked + `}`, ""},
		} {
			t.Run(slug+" for "+string(tc.to)+" "+tc.request, func(t *testing.T) {
				want := tc.want
				if tc.to == messages {
					want = strings.ReplaceAll(want, `"developer"`, `"system"`)
				}
				body := namesWithPrompt(slug, `{"tone":"kind \"x\"","x":"1"}`, ","+tc.request)
				got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: tc.to, Body: []byte(body)})
				if err != nil {
					t.Fatal(err)
				}
				if a, b := canonical(t, got.Body.Bytes()), canonical(t, []byte(want)); a != b {
					t.Errorf("got %s\nwant %s", a, b)
				}
				if list := strings.Join(got.Enforced, " "); list != tc.enforced {
					t.Errorf("got enforced %q, want %q", list, tc.enforced)
				}
				fields, err := got.Fields()
				if err != nil {
					t.Fatal(err)
				}
				from := map[string]draft.Source{}
				enforced := false
				for _, f := range fields {
					from[f.Name] = f.From
					enforced = enforced || f.From == draft.FromPolicy
				}
				if enforced != (tc.enforced != "") || from["model"] != draft.FromPreset {
					t.Errorf("got %v, want the policy's field to be from it", from)
				}
			})
		}
	}
}

// The prompt is compared without being put together, before its memory is granted.
func TestLockedPromptIsBounded(t *testing.T) {
	r := newResolving(t)
	r.ruledTemplate(t, "p", responses, `{"model":"m","instructions":"`+strings.Repeat("{{x}}", 20_000)+`"}`, `{"lock":["system"]}`)
	body := []byte(namesWithPrompt("p", `{"x":"`+strings.Repeat("v", 1<<20)+`"}`, `,"instructions":"v"`)) // 20 GiB
	for _, to := range allDialects {
		_, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: to, Body: body, Memory: memoryLimit(1 << 30)})
		if !errors.Is(err, errTooMuch) {
			t.Errorf("%s: got %v, want %v", to, err, errTooMuch)
		}
	}
}

// canonical returns JSON without differences of notation.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	value := jsontext.Value(bytes.Clone(text))
	if err := value.Canonicalize(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(value)
}

// TestLargeRequestsUnderAPolicy resolves requests that would take minutes if each of many parts of
// them were compared with a large preset, or read many times.
func TestLargeRequestsUnderAPolicy(t *testing.T) {
	tier.Slow(t)
	r := newResolving(t)
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	large := `"format":{"type":"json_schema","name":"n","schema":{"enum":[` + list(10_000, `"a word"`) + `]}}`
	r.ruled(t, "p", version{responses, `{"model":"m","models":[` + list(1000, `"`+strings.Repeat("a", 100)+`"`) + `],"plugins":[` + list(5_000, `{"id":"fusion","model":"own"}`) + `],"text":{` + large + `}}`, ""},
		`{"lock":["text.format","system"],"bounds":{"text.verbosity":{"in":["low"]}},"models":["n","`+strings.Join(strings.Split(strings.Repeat("x", 58), ""), `","`)+`"]}`)
	r.ruled(t, "toolless", version{responses, `{"model":"m"}`, ""}, `{"lock":["tools"]}`)
	for _, tc := range []struct{ slug, rest, enforced string }{
		{"p", `"models":[` + list(1024, `"n,n"`) + `]`, "models"},
		{"p", `"plugins":[{"id":"fusion","analysis_models":[` + list(1_000_000, `"n"`) + `]}]`, ""},
		{"p", `"plugins":[` + list(1_000_000, `{}`) + `]`, "models"},
		{"p", `"plugins":[` + list(10_000, `{"id":"fusion","model":"y"}`) + `]`, "models"},
		{"p", `"tools":[` + list(4000, `{"type":"x"}`) + `]`, "models"},
		{"p", `"text":{` + list(100_000, `"verbosity":"high"`) + `}`, "text"},
		{"p", `"text":{"verbosity":"high","format":{"x":"` + strings.Repeat("x", 8<<20) + `"}}`, "text.format text.verbosity"},
		{"p", `"metadata":{` + list(1_000_000, `"a":"b"`) + `}`, "metadata"},
		{"p", `"input":[` + list(500_000, `{"role":"x"}`) + `]`, ""},
		{"toolless", `"input":[` + list(500_000, `{"tools":[1]}`) + `]`, "tools"},
	} {
		body := `{"preset":"` + tc.slug + `",` + tc.rest + `}`
		got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(body)})
		if err != nil || strings.Join(got.Enforced, " ") != tc.enforced {
			t.Errorf("%.60s: got %v, enforced %q, want %q", tc.rest, err, got.Enforced, tc.enforced)
		}
	}
}
