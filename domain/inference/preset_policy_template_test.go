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

// Each entry and member takes much more memory than its bytes.
func TestPartsUnderAPolicyAreBounded(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "p", version{chat, `{"model":"m"}`, ""}, `{"lock":["seed","reasoning.effort","system"],"models":["n"],"violation":"refuse"}`)
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	for _, tc := range []struct{ rest, message string }{
		{`"models":[` + list(1025, `"n"`) + `]`, "/models: must have at most 1024 entries"},
		{`"extra_body":{"Fallbacks":[` + list(1025, `{}`) + `]}`, "/extra_body/Fallbacks: must have at most 1024 entries"},
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
	wantKind(t, err, domain.Invalid, "/models: must have at most 1024 entries")
	got, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","reasoning":{` + list(5000, `"a":1`) + `},"messages":[{"role":"user","content":"u"}]}`)})
	wantBody(t, got, err, `{"reasoning":{`+list(5000, `"a":1`)+`},"messages":[{"role":"user","content":"u"}],"model":"m"}`)
}
