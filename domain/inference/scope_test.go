package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// limitedBy returns user with the limits of an issued key.
func limitedBy(scope domain.Scope) domain.Principal {
	who := user
	who.Scope = &scope
	return who
}

// TestModelsOfAKey sends models in every place and spelling, in each dialect, with and
// without a preset.
func TestModelsOfAKey(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"other/theirs","models":["other/too"]}`})
	r.put(t, r.home.ID, "text", version{dialect: domain.Responses, config: `{"model":"other/theirs"}`})
	resolver := r.resolver(t, inference.Config{})
	who := limitedBy(domain.Scope{Models: []string{"openai/*", "anthropic/x:online"}})
	for _, body := range []string{
		`{}`,
		`{"model":"openai/gpt-5"}`,
		`{"model":"anthropic/x:online","models":["openai/a","openai/b"],"fallbacks":[{"model":"openai/c"},"openai/d"]}`,
		`{"model":"@preset/p"}`,
		`{"preset":"p"}`,
		`{"model":"@preset/text"}`,
		`{"model":"openai/gpt-5@preset/text"}`,
		`{"model":"openai/gpt-5@preset/p"}`,
		`{"model":"other/theirs@preset/text"}`, // the preset's own
		`{"model":"anthropic/@preset/text"}`,
		`{"preset":"p","model":null}`,
		`{"tools":[{"type":"openrouter:advisor","parameters":{"model":"openai/x"}}],"metadata":{"model":"other/m"},"user":"other/m"}`,
		`{"tools":[{"name":"WebSearch","input_schema":{}},{"type":"function","name":"web_search"}]}`,
	} {
		for _, dialect := range allDialects {
			if _, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: []byte(body)}); err != nil {
				t.Errorf("%s %s: %v", dialect, body, err)
			}
		}
	}
	for body, place := range map[string]string{
		`{"model":"other/m"}`:                                                         "/model",
		`{"model":"openai/gpt-5:online"}`:                                             "/model",
		`{"model":"openai/a,other/m"}`:                                                "/model",
		`{"model":"openai/a,openai/b"}`:                                               "/model",
		`{"model":"openai/a,other/m@preset/p"}`:                                       "/model",
		`{"models":["openai/a\u002cother/m"]}`:                                        "/models/0",
		`{"model":" openai/gpt-5 "}`:                                                  "/model",
		`{"model":"OpenAI/gpt-5"}`:                                                    "/model",
		`{"m\u006fdel":"other\u002fm"}`:                                               "/model",
		`{"model":"other/m@preset/p"}`:                                                "/model",
		`{"model":"other/too@preset/p"}`:                                              "/model",
		`{"model":"openai/a:online@preset/p"}`:                                        "/model",
		`{"preset":"p","model":"other/m"}`:                                            "/model",
		`{"preset":"p","models":["openai/a","other/m"]}`:                              "/models/1",
		`{"fallbacks":[{"model":"openai/a"},{"model":"o/m"}]}`:                        "/fallbacks/1/model",
		`{"fallbacks":["other/m"]}`:                                                   "/fallbacks/0",
		`{"tools":[{"type":"openrouter:subagent","parameters":{"model":"other/m"}}]}`: "/tools/0/parameters/model",
		`{"tools":[{"type":"image_generation","svg":{"model":"other/m"}}]}`:           "/tools/0/type",
		`{"tools":[{"svg":{"model":"other/m"},"type":"image_generation"}]}`:           "/tools/0/svg/model",
		`{"plugins":[{"id":"auto-router","allowed_models":["other/*"]}]}`:             "/plugins/0/allowed_models/0",
		`{"plugins":[{"id":"fusion","model":"openai/x"}]}`:                            "/plugins/0/id",
		`{"tools":[{"type":"openrouter:advisor","parameters":{}}]}`:                   "/tools/0/type",
	} {
		for _, dialect := range allDialects {
			_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: []byte(body)})
			if domain.KindOf(err) != domain.Forbidden || !strings.Contains(err.Error(), place+": ") || !strings.Contains(err.Error(), "is not a model that the key may name") {
				t.Errorf("%s %s: got %v, want a refusal of %s", dialect, body, err, place)
			}
			if _, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(body)}); domain.KindOf(err) == domain.Forbidden {
				t.Errorf("%s %s: %v without limits", dialect, body, err)
			}
		}
	}
	_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: domain.Chat, Body: []byte(`{"moderation":{"model":"other/m"}}`)})
	wantKind(t, err, domain.Forbidden, "/moderation/model: is not a model that the key may name")
	// A request that a gateway may read in another way is refused.
	for name, sent := range map[string]inference.Request{
		"a type":        {OtherType: true, Body: []byte(`{}`)},
		"nothing":       {},
		"no JSON":       {Body: []byte(`{"model":"openai/a"`)},
		"two objects":   {Body: []byte(`{"model":"openai/a"} {"model":"other/m"}`)},
		"an array":      {Body: []byte(`[{"model":"other/m"}]`)},
		"a number":      {Body: []byte(`{"model":1}`)},
		"two models":    {Body: []byte(`{"model":"openai/a","model":"openai/a"}`)},
		"a letter case": {Body: []byte(`{"model":"openai/a","MODEL":"openai/a"}`)},
		"no list":       {Body: []byte(`{"models":{"0":"other/m"}}`)},
		"a fallback":    {Body: []byte(`{"model":"openai/a","fallbacks":[{"openai/a":["openai/b"]}]}`)},
		"a field":       {Body: []byte(`{"model":"openai/a","extra_body":{}}`)},
		"tags":          {Body: []byte(`{"model":"openai/a","metadata":{"tags":["a"]}}`)},
	} {
		sent.Dialect = domain.Chat
		if _, err := resolver.Resolve(t.Context(), who, sent); domain.KindOf(err) != domain.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := resolver.Resolve(t.Context(), user, sent); err != nil {
			t.Errorf("%s: %v without limits", name, err)
		}
	}
}

func TestPresetsOfAKey(t *testing.T) {
	r := newResolving(t)
	for _, slug := range []string{"in", "out"} {
		r.put(t, r.home.ID, slug, version{dialect: domain.Responses, config: `{"model":"a/b"}`})
		r.label(t, slug, "live", domain.Target{Version: 1})
	}
	resolver := r.resolver(t, inference.Config{})
	resolve := func(who domain.Principal, dialect domain.Dialect, body string) error {
		_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: []byte(body)})
		return err
	}
	who := limitedBy(domain.Scope{Presets: []string{"in", "none"}})
	required := limitedBy(domain.Scope{PresetRequired: true})
	for _, dialect := range allDialects {
		for _, reference := range []string{`"model":"@preset/%"`, `"preset":"%"`, `"model":"a/b@preset/%@1"`, `"preset":"%@live"`, `"preset":"%@absent"`, `"preset":"%@9"`} {
			body := func(slug string) string { return "{" + strings.ReplaceAll(reference, "%", slug) + "}" }
			_ = resolve(user, dialect, body("out")) // caches it
			missing, hidden := resolve(who, dialect, body("missing")), resolve(who, dialect, body("out"))
			if domain.KindOf(hidden) != domain.NotFound || strings.ReplaceAll(hidden.Error(), "out", "missing") != missing.Error() {
				t.Errorf("%s: got %v out of reach and %v for none", body("out"), hidden, missing)
			}
			if !strings.Contains(reference, "absent") && !strings.Contains(reference, "@9") {
				if err := resolve(who, dialect, body("in")); err != nil {
					t.Error(err)
				}
				if err := resolve(required, dialect, body("out")); err != nil {
					t.Error(err)
				}
			}
		}
		for _, body := range []string{``, `{}`, `{"model":"a/b"}`, `{"preset":null}`, `no JSON`, `{"Preset":"in"}`} {
			if err := resolve(who, dialect, body); (err == nil) != (body != "" && body == strings.ToLower(body)) {
				t.Errorf("%s: %v", body, err)
			}
			if err := resolve(required, dialect, body); domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), "/preset: must name a preset") {
				t.Errorf("%s: got %v", body, err)
			}
		}
	}
}

// TestFieldsInTheQuery has fields of a request in the query string, from which LiteLLM takes
// the model. They are refused where anything is limited.
func TestFieldsInTheQuery(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "free", version{dialect: domain.Responses, config: `{"model":"a/b"}`})
	r.ruled(t, "ruled", version{dialect: domain.Responses, config: `{"model":"a/b"}`}, `{"models":[]}`)
	strict := r.strict(t, "strict", search)
	resolver := r.resolver(t, inference.Config{AllowFields: []string{"a", "x-opened"}})
	for name, limited := range map[string]struct {
		who         domain.Principal
		body, where string
	}{
		"a key with models":        {limitedBy(domain.Scope{Models: []string{"a/*"}}), `{"model":"a/b"}`, "for a key of some presets or models"},
		"a key that needs presets": {limitedBy(domain.Scope{PresetRequired: true}), `{"preset":"free"}`, "for a key of some presets or models"},
		"disabled tools":           {strict, `{"model":"a/b"}`, "where server tools are disabled"},
		"a policy":                 {user, `{"preset":"ruled"}`, "where the preset has a policy"},
	} {
		for _, dialect := range allDialects {
			ask := func(who domain.Principal, body, query string) error {
				_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: []byte(body), Query: query})
				return err
			}
			for query, name := range map[string]string{
				"model=x": "model", "a=b&MODEL=x": "MODEL", "mo%64el": "model", "model[]=x": "model__", "beta=true&kwargs=x": "kwargs",
			} {
				wantKind(t, ask(limited.who, limited.body, query), domain.Invalid, "query: "+name+" is not a parameter that passes "+limited.where)
				if err := ask(user, `{"preset":"free"}`, query); err != nil {
					t.Errorf("%s without limits: %v", query, err)
				}
			}
			wantKind(t, ask(limited.who, limited.body, "a=b;model=x"), domain.Invalid, "query: is malformed, which it must not be "+limited.where)
			for _, query := range []string{"", "beta=true", "api-version=2026-01-01&x-opened"} {
				if err := ask(limited.who, limited.body, query); err != nil {
					t.Errorf("%s with %s: %v", query, name, err)
				}
			}
		}
	}
}

// TestUnknownPromptsOfLimits has a prompt that no preset has. A gateway's prompt brings its own
// model and tools, so it passes neither for a key of some presets or models nor where tools are disabled.
func TestUnknownPromptsOfLimits(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "known", version{dialect: domain.Responses, config: `{"model":"a/b"}`})
	strict := r.strict(t, "strict", search)
	resolver := r.resolver(t, inference.Config{PassUnknownPrompts: true})
	for name, tc := range map[string]struct {
		who    domain.Principal
		passes bool
	}{
		"no limits":       {user, true},
		"models":          {limitedBy(domain.Scope{Models: []string{"a/*"}}), false},
		"presets":         {limitedBy(domain.Scope{Presets: []string{"known"}}), false},
		"a preset needed": {limitedBy(domain.Scope{PresetRequired: true}), false},
		"disabled tools":  {strict, false},
	} {
		for _, prompt := range []string{
			`"prompt":{"id":"unknown"}`, `"prompt":{"id":"no slug!"}`, `"prompt":{"id":7}`, `"prompt_id":"unknown"`,
			`"prompt_id":"unknown","prompt":{"variables":{"x":"1"}}`, `"model":"a/b","prompt":{"id":"unknown","version":"x y"}`,
		} {
			for _, dialect := range allDialects {
				_, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: dialect, Body: []byte(`{` + prompt + `}`)})
				if kind := domain.KindOf(err); tc.passes != (err == nil) || err != nil && kind != domain.NotFound && kind != domain.Invalid {
					t.Errorf("%s: %s: got %v, want that it passes: %t", name, prompt, err, tc.passes)
				}
			}
		}
		if tc.who.WorkspaceID != strict.WorkspaceID {
			if _, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: domain.Responses, Body: []byte(`{"prompt":{"id":"known"}}`)}); err != nil {
				t.Errorf("%s: known: %v", name, err)
			}
		}
	}
}
