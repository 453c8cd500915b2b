package inference_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// TestToolsOfConversations defines tools in the items of a conversation. They count as those of the
// field tools do.
func TestToolsOfConversations(t *testing.T) {
	r := newResolving(t)
	for slug, policy := range map[string]string{
		"tools":  `{"lock":["tools"],"violation":"refuse"}`,
		"models": `{"models":["openai/*"],"violation":"refuse"}`,
		"left":   `{"lock":["tools"],"models":["openai/*"]}`,
	} {
		r.ruled(t, slug, version{dialect: chat, config: `{"model":"openai/x"}`}, policy)
	}
	resolver := r.resolver(t, inference.Config{})
	added := func(definition string) string {
		return `{"type":"tool_addition","tool":{"type":"tool_definition","definition":` + definition + `}}`
	}
	const user0 = `{"role":"user","content":"x"}`
	const webSearch, advisor = `{"type":"web_search_20250305","name":"web_search"}`, `{"type":"advisor_20260301","name":"advisor","model":"anthropic/opus"}`
	for name, tc := range map[string]struct {
		dialect domain.Dialect
		member  string
		models  bool // it names a model
	}{
		"added":      {messages, `"messages":[` + user0 + `,{"role":"system","content":[` + added(webSearch) + `]}]`, false},
		"advisor":    {messages, `"messages":[` + user0 + `,{"role":"system","content":[` + added(advisor) + `]}]`, true},
		"compacted":  {messages, `"messages":[{"role":"assistant","content":[{"type":"compaction","content":"s","tool_changes":[` + added(advisor) + `]}]},` + user0 + `]`, true},
		"additional": {responses, `"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"openrouter:advisor","parameters":{"model":"anthropic/opus"}}]}]`, true},
	} {
		ask := func(who domain.Principal, naming string) (string, error) {
			got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: tc.dialect, Body: []byte("{" + naming + "," + tc.member + "}")})
			if err != nil {
				return "", err
			}
			return string(got.Body.Bytes()), nil
		}
		if _, err := ask(user, `"preset":"tools"`); domain.KindOf(err) != domain.Forbidden {
			t.Errorf("%s: with locked tools: got error %v, want Forbidden", name, err)
		}
		if _, err := ask(user, `"preset":"models"`); (domain.KindOf(err) == domain.Forbidden) != tc.models {
			t.Errorf("%s: with rules for models: got error %v, want one: %t", name, err, tc.models)
		}
		if body, err := ask(user, `"preset":"left"`); err != nil || strings.Contains(body, "opus") || strings.Contains(body, "web_search") {
			t.Errorf("%s: got %s, %v, want no tool left", name, body, err)
		}
		if _, err := ask(limitedBy(domain.Scope{Models: []string{"openai/*"}}), `"model":"openai/x"`); (err != nil) != tc.models {
			t.Errorf("%s: a key with models: got error %v, want one: %t", name, err, tc.models)
		}
	}
	strict := r.strict(t, "strict", search)
	_, err := resolver.Resolve(t.Context(), strict, inference.Request{Dialect: messages, Body: []byte(`{"model":"m","messages":[{"role":"system","content":[` + added(webSearch) + `]}]}`)})
	if domain.KindOf(err) != domain.Forbidden {
		t.Errorf("where the tool is disabled: got error %v, want Forbidden", err)
	}
}

// TestToolsOfOfficialClients has tools with members that are no tools.
func TestToolsOfOfficialClients(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for _, tool := range []string{
		`{"type":"tool_search","execution":"client","description":"d","parameters":{"type":"object","properties":{"query":{"type":"string"}}}}`,
		`{"type":"mcp","server_label":"s","server_url":"https://x","require_approval":"never","allowed_tools":["search"]}`,
		`{"type":"mcp","server_label":"s","server_url":"https://x","allowed_tools":{"tool_names":["search"],"read_only":true}}`,
	} {
		body := []byte(`{"model":"openai/x","input":"x","tools":[` + tool + `]}`)
		if _, err := resolver.Resolve(t.Context(), limitedBy(domain.Scope{Models: []string{"openai/*"}}), inference.Request{Dialect: responses, Body: body}); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
	body := []byte(`{"model":"openai/x","messages":[],"usage":{"include":true},"transforms":["middle-out"]}`)
	if _, err := resolver.Resolve(t.Context(), limitedBy(domain.Scope{Models: []string{"openai/*"}}), inference.Request{Dialect: chat, Body: body}); err != nil {
		t.Error(err)
	}
}

// TestLockedModelsOfOtherGateways has a gateway that knows no list of models, so that its first one is
// the model.
func TestLockedModelsOfOtherGateways(t *testing.T) {
	r := newResolving(t)
	config := version{dialect: responses, config: `{"models":["openai/a","openai/b"]}`}
	r.ruled(t, "model", config, `{"lock":["model"]}`)
	r.ruled(t, "models", config, `{"lock":["models"],"violation":"refuse"}`)
	resolver := r.resolver(t, inference.Config{DropFields: []string{"models"}})
	for _, dialect := range allDialects {
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(`{"preset":"model","models":["evil"]}`)})
		if err != nil || strings.Contains(string(got.Body.Bytes()), "evil") {
			t.Errorf("%s: got %s, %v, want the preset's model", dialect, got.Body.Bytes(), err)
		}
		if _, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: dialect, Body: []byte(`{"preset":"models","models":["evil"]}`)}); domain.KindOf(err) != domain.Forbidden {
			t.Errorf("%s: got error %v, want Forbidden", dialect, err)
		}
	}
}

// TestOpenedFieldsOfAPreset opens fields in a preset's policy. The limits of a key still hold in those
// that are known.
func TestOpenedFieldsOfAPreset(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "open", version{dialect: responses, config: `{"model":"openai/x"}`}, `{"allow_fields":["plugins","models","model"]}`)
	resolver := r.resolver(t, inference.Config{})
	who := limitedBy(domain.Scope{Models: []string{"openai/*"}})
	for _, request := range []inference.Request{
		{Body: []byte(`{"preset":"open","input":"x","models":["anthropic/opus"]}`)},
		{Body: []byte(`{"preset":"open","input":"x","plugins":[{"id":"fusion","analysis_models":["anthropic/opus"]}]}`)},
		{Body: []byte(`{"preset":"open","input":"x"}`), Query: "model=anthropic/opus"},
	} {
		request.Dialect = responses
		if _, err := resolver.Resolve(t.Context(), who, request); err == nil {
			t.Errorf("%s?%s passes", request.Body, request.Query)
		}
		if request.Query == "" {
			if _, err := resolver.Resolve(t.Context(), user, request); err != nil {
				t.Errorf("without limits: %s: %v", request.Body, err)
			}
		}
	}
}

// TestEffortOfMessages has messages with an effort of their own, which a rule for the effort leaves out.
func TestEffortOfMessages(t *testing.T) {
	r := newResolving(t)
	config := version{dialect: messages, config: `{"model":"m","output_config":{"effort":"low"}}`}
	r.ruled(t, "locked", config, `{"lock":["reasoning.effort"]}`)
	r.ruled(t, "bounded", config, `{"bounds":{"reasoning.effort":{"in":["low"]}},"violation":"refuse"}`)
	resolver := r.resolver(t, inference.Config{})
	const members = `"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"system","content":"go on","output_config":{"effort":"max"}}]`
	got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(`{"preset":"locked",` + members + `}`)})
	if err != nil || strings.Contains(string(got.Body.Bytes()), `"max"`) || !strings.Contains(string(got.Body.Bytes()), "go on") {
		t.Errorf("got %s, %v, want the message without its effort", got.Body.Bytes(), err)
	}
	if _, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: messages, Body: []byte(`{"preset":"bounded",` + members + `}`)}); domain.KindOf(err) != domain.Forbidden {
		t.Errorf("got error %v, want Forbidden", err)
	}
}
