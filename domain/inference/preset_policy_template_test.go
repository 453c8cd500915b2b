package inference_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
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
			{responses, `"input":[{"role":"system","content":"Be kind \"x\"."},{"role":"user","content":"hi"},{"Role":"SYSTEM","content":"mine"}]`, `{"input":[` + ours + `,{"role":"user","content":"hi"}],"instructions":"Be kind \"x\".",` + locked + `}`, "system"},
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
				from := map[string]inference.Source{}
				enforced := false
				for _, f := range fields {
					from[f.Name] = f.From
					enforced = enforced || f.From == inference.FromPolicy
				}
				if enforced != (tc.enforced != "") || from["model"] != inference.FromPreset {
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

func TestNestedReferencesUnderAPolicy(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "p", version{chat, `{"model":"m"}`, ""}, `{"lock":["seed"]}`)
	for body, place := range map[string]string{
		`{"preset":"p","extra_body":{"model":"@preset/a"}}`:                                                        "/extra_body/model: must not refer",
		`{"preset":"p","extra_body":{"Models":["m","n@preset/a"]}}`:                                                "/extra_body/Models/1: must not refer",
		`{"preset":"p","Models":["@pr\u0065set/a"]}`:                                                               "/Models/0: must not refer",
		`{"preset":"p","Model":"@preset/a"}`:                                                                       "/Model: must not refer",
		`{"preset":"p","fallbacks":[{"model":"n","extra_body":{"MODEL":"@preset/a"}}]}`:                            "/fallbacks/0/extra_body/MODEL: must not refer",
		`{"preset":"p","fallbacks":[{"a":["m","@preset/a"]}]}`:                                                     "/fallbacks/0/a/1: must not refer",
		`{"preset":"p","model":"text"}`:                                                                            "/model: must not have the name of a field",
		`{"model":"openai/a, openai/stop@preset/p"}`:                                                               "/model: must not have the name of a field",
		`{"preset":"p","fallbacks":[{"m":["n","openai/stop"]},{"stop":["x"]}]}`:                                    "/fallbacks/0/m/1: must not have the name of a field",
		`{"preset":"p","fallbacks":["` + strings.Repeat("openai/", 600) + `stop",{"stop":["x"]}]}`:                 "/fallbacks/0: must have at most 4096 bytes",
		`{"preset":"p","Context_window_fallbacks":["@preset/a"]}`:                                                  "/Context_window_fallbacks/0: must not refer",
		`{"preset":"p","router_settings_override":{"fallbacks":[{"a":[{"model":"@preset/a"}]}]}}`:                  "/router_settings_override/fallbacks/0/a/0/model: must not refer",
		`{"preset":"p","fallbacks":[{"a":` + strings.Repeat(`[{"a":`, 4) + `["m"]` + strings.Repeat("}]", 5) + `}`: "/fallbacks/0/a/0/a/0/a/0/a/0: is nested too deeply",
		`{"preset":"p"` + strings.Repeat(`,"extra_body":{"n":1`, 5) + strings.Repeat("}", 6):                       "/extra_body/extra_body/extra_body/extra_body/extra_body: is nested too deeply",
	} {
		_, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
		wantKind(t, err, domain.Invalid, place)
	}
}

// Plugins are searched for models, so they must be readable. Deep places are cut.
func TestPluginsUnderAPolicy(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "p", version{chat, `{"model":"m"}`, ""}, `{"models":[],"violation":"refuse"}`)
	for plugins, message := range map[string]string{
		`{"id":"fusion","model":"x"}`:                             "/extra_body/Plugins: must be an array where the preset's policy limits models",
		`[{"id":"web"},5]`:                                        "/extra_body/Plugins/1: must be an object where the preset's policy limits models",
		`[{"id":"web"},{"model":["x"]}]`:                          "/extra_body/Plugins/1/model: must be a string where the preset's policy limits models",
		`[{"model":"m@preset/a"}]`:                                "/extra_body/Plugins/0/model: must not refer to a preset",
		`[{"tools":[` + nestedTools(200, `{"model":"x"}`) + `]}]`: "/extra_body/Plugins/0: is a model that",
	} {
		_, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","extra_body":{"Plugins":` + plugins + `}}`)})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%.60s: got %v, want %s", plugins, err, message)
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

// Each entry and member takes much more memory than its bytes. Each model is compared with
// all patterns.
func TestPartsUnderAPolicyAreBounded(t *testing.T) {
	r := newResolving(t)
	const config = `{"model":"m","plugins":[{"id":"fusion","model":"own"}]}`
	r.ruled(t, "p", version{chat, config, ""}, `{"lock":["seed","reasoning.effort","system"],"models":["n"],"violation":"refuse"}`)
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	for _, tc := range []struct{ rest, message string }{
		{`"models":[` + list(1025, `"n"`) + `]`, "/models/1024: must not bring the request above 1024 models"},
		{`"extra_body":{"Fallbacks":[` + list(1025, `{}`) + `]}`, "/extra_body/Fallbacks/1024: must not bring the request above 1024 models"},
		{`"models":[` + list(1000, `"n"`) + `],"extra_body":{"model":"n","Models":[` + list(24, `"n"`) + `]}`, "/extra_body/Models/23: must not bring"},
		{`"fallbacks":[` + list(2, `{"a":[`+list(600, `"n"`)+`]}`) + `]`, "/fallbacks/1/a/424: must not bring"},
		{`"models":["` + list(1025, "n") + `"]`, "/models/0: must not bring the request above 1024 models"},
		{`"fallbacks":[` + list(2, `{`+list(600, `"Model":"n"`)+`}`) + `]`, "/fallbacks/1/Model: must not bring"},
		{`"plugins":[` + list(1025, `{"id":"web"}`) + `]`, "/plugins/1024: must not bring"},
		{`"plugins":[{"id":"web"},{"analysis_models":[` + list(1024, `"n"`) + `]}]`, "/plugins/1: must not bring"},
		{`"plugins":[` + list(1025, `{"id":"fusion", "model":"own"}`) + `]`, "/plugins/1024: must not bring"},
		{`"extra_body":{` + list(1025, `"a":1`) + `}`, "/extra_body: must have at most 1024 fields"},
		{`"fallbacks":[{` + list(1025, `"a":1`) + `}]`, "/fallbacks/0: must have at most 1024 fields"},
		{`"models":[` + list(1024, `1`) + `]`, "/models/19: must be the name of a model"},
	} {
		resolver := r.resolver(t, inference.Config{})
		_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p",` + tc.rest + `}`)})
		if err == nil || !strings.Contains(err.Error(), tc.message) || strings.Contains(err.Error(), "/models/20") {
			t.Errorf("%.40s: got %v, want %s", tc.rest, err, tc.message)
		}
	}
	resolver := r.resolver(t, inference.Config{DropFields: []string{"models"}})
	_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","models":[` + list(1025, `"n"`) + `]}`)})
	wantKind(t, err, domain.Invalid, "/models/1024: must not bring the request above 1024 models")
	_, err = resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","models":[` + list(2, `{`+list(600, `"model":"n"`)+`}`) + `]}`)})
	wantKind(t, err, domain.Invalid, "/models/1/model: must not bring the request above 1024 models")
	most := `"plugins":[` + list(512, `{"id":"web"}`) + `],"models":[` + list(511, `"n"`) + `],"model":"m"}`
	got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p",` + most)})
	wantBody(t, got, err, `{`+most)
	own := `{"model":"m","models":[` + list(1025, `"o"`) + `]}`
	r.ruled(t, "many", version{chat, own, ""}, `{"models":[]}`)
	got, err = r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"many"}`)})
	wantBody(t, got, err, own)
	got, err = r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","reasoning":{` + list(5000, `"a":1`) + `},"messages":[{"role":"user","content":"u"}]}`)})
	wantBody(t, got, err, `{"reasoning":{`+list(5000, `"a":1`)+`},"messages":[{"role":"user","content":"u"}],"model":"m","plugins":[{"id":"fusion","model":"own"}]}`)
}

// TestLargeRequestsUnderAPolicy resolves requests that would take minutes if each of many
// parts of them were compared with a large preset.
func TestLargeRequestsUnderAPolicy(t *testing.T) {
	tier.Slow(t)
	r := newResolving(t)
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	large := `"format":{"type":"json_schema","name":"n","schema":{"enum":[` + list(10_000, `"a word"`) + `]}}`
	r.ruled(t, "models", version{responses, `{"model":"m","models":[` + list(1000, `"`+strings.Repeat("a", 100)+`"`) + `]}`, ""}, `{"models":["n","`+strings.Join(strings.Split(strings.Repeat("x", 60), ""), `","`)+`"]}`)
	r.ruled(t, "part", version{responses, `{"model":"m","text":{` + large + `,"verbosity":"low"}}`, ""}, `{"lock":["text.format"]}`)
	r.ruled(t, "bound", version{responses, `{"model":"m","text":{` + large + `,"verbosity":"low"}}`, ""}, `{"bounds":{"text.verbosity":{"in":["low"]}}}`)
	r.ruled(t, "plugins", version{responses, `{"model":"m","plugins":[` + list(5_000, `{"id":"fusion","model":"own"}`) + `]}`, ""}, `{"models":[]}`)
	lists := list(1000, `{"a":[`+list(1000, `"n"`)+`]}`)
	for _, tc := range []struct{ slug, rest, want, message string }{
		{"models", `"extra_body":{"fallbacks":[` + lists + `]}`, "", "/extra_body/fallbacks/1/a/24: must not bring the request above 1024 models"},
		{"models", `"plugins":[{"analysis_models":[` + list(1_000_000, `"n"`) + `]}]`, "", "/plugins/0/analysis_models/1024: must not bring the request above 1024 models"},
		{"models", `"plugins":[` + list(1_000_000, `{}`) + `]`, "", "/plugins/1024: must not bring"},
		{"models", `"extra_body":{"model":` + strings.Repeat(`{"model":`, 9000) + `"` + strings.Repeat("n", 8<<20) + `"` + strings.Repeat("}", 9001), `"extra_body":{}`, ""},
		{"part", `"extra_body":{` + list(1024, `"text":{"format":{}}`) + `}`, `"extra_body":{}`, ""},
		{"part", `"fallbacks":[` + list(1000, `{`+list(1000, `"text":{"format":0}`)+`}`) + `]`, "", "/fallbacks/65: must not bring the parts of the request above 65536 fields"},
		{"plugins", `"plugins":[` + list(1000, `{"id":"fusion","model":"x"}`) + `]`, "", ""},
		{"part", `"text":{` + list(100_000, `"Format":1`) + `}`, "", ""},
		{"bound", `"text":{` + list(100_000, `"verbosity":"high"`) + `}`, `"text":{` + list(100_000, `"verbosity":"low"`) + `}`, ""},
	} {
		t.Run(tc.slug+" "+tc.rest[:30], func(t *testing.T) {
			ask := func(rest string) (inference.Resolution, error) {
				body := strings.TrimSuffix(`{"preset":"`+tc.slug+`",`+rest, ",") + `}`
				return r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(body)})
			}
			got, err := ask(tc.rest)
			if tc.message != "" {
				wantKind(t, err, domain.Invalid, tc.message)
				return
			}
			want, wantErr := ask(tc.want)
			if err != nil || wantErr != nil || len(got.Enforced) != 1 {
				t.Fatalf("got %v and %v, enforced %q, want one rule enforced", err, wantErr, got.Enforced)
			}
			if a, b := sortFields(t, got.Body.Bytes()), sortFields(t, want.Body.Bytes()); a != b {
				t.Errorf("got %.200s, want %.200s", a, b)
			}
		})
	}
}

// sortFields returns an object with its members in the order of their names.
func sortFields(t *testing.T, object []byte) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		t.Fatal(err)
	}
	return mustJSON(t, fields)
}
