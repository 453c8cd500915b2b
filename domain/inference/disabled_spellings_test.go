package inference_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// Web search under other names than its own, in requests without a preset.
func TestDisabledToolsByOtherNames(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", search)
	for name, tc := range map[string]struct{ body, place string }{
		"a variant of the model":          {`{"model":"openai/gpt-5:online","input":"x"}`, "/model"},
		"a variant in capitals":           {`{"model":"openai/gpt-5:ONLINE"}`, "/model"},
		"a variant among others":          {`{"model":"openai/gpt-5:free:online"}`, "/model"},
		"a variant before another":        {`{"model":"openai/gpt-5:online:free"}`, "/model"},
		"a variant, escaped":              {`{"model":"openai/gpt-5\u003a\u006fnline"}`, "/model"},
		"models":                          {`{"models":["a","b:online"]}`, "/models/1"},
		"fallbacks":                       {`{"fallbacks":[{"model":"a"},{"model":"b:online"}]}`, "/fallbacks/1/model"},
		"fallbacks by name":               {`{"fallbacks":["b:online"]}`, "/fallbacks/0"},
		"a fallback with tools":           {`{"fallbacks":[{"model":"a","tools":[{"type":"web_search"}]}]}`, "/fallbacks/0/tools/0/type"},
		"the first of two models":         {`{"model":"a:online","model":"a"}`, "/model"},
		"the model of a subagent":         {`{"tools":[{"type":"openrouter:subagent","parameters":{"model":"a:online"}}]}`, "/tools/0/parameters/model"},
		"a model of fusion":               {`{"tools":[{"type":"openrouter:fusion","parameters":{"tools":[],"analysis_models":["a","b:online"]}}]}`, "/tools/0/parameters/analysis_models/1"},
		"a model of the fusion plugin":    {`{"plugins":[{"id":"fusion","tools":[],"model":"a:online"}]}`, "/plugins/0/model"},
		"a model of a tool's own":         {`{"tools":[{"type":"x","analysis_models":["a","b:online"]}]}`, "/tools/0/analysis_models/1"},
		"a fallback of a tool":            {`{"tools":[{"type":"x","fallbacks":[{"model":"b:online"}]}]}`, "/tools/0/fallbacks/0/model"},
		"models of a plugin":              {`{"plugins":[{"id":"x","models":["b:online"]}]}`, "/plugins/0/models/0"},
		"a tool in a plugin's parameters": {`{"plugins":[{"id":"x","parameters":{"tools":[{"type":"web_search"}]}}]}`, "/plugins/0/parameters/tools/0/type"},
		"options of the chat API":         {`{"web_search_options":{}}`, "/web_search_options"},
		"options in another letter case":  {`{"Web_Search_Options":{"search_context_size":"low"}}`, "/Web_Search_Options"},
		"options for LiteLLM to add":      {`{"extra_body":{"web_search_options":{}}}`, "/extra_body/web_search_options"},
		"a plugin for LiteLLM to add":     {`{"extra_body":{"plugins":[{"id":"web"}]}}`, "/extra_body/plugins/0/id"},
		"Gemini's":                        {`{"tools":[{"googleSearch":{}}]}`, "/tools/0/googleSearch"},
		"Gemini's with a long s":          {`{"tools":[{"google\u017fearch":{}}]}`, "/tools/0/google\u017fearch"},
		"Gemini's older":                  {`{"tools":[{"googleSearchRetrieval":{}}]}`, "/tools/0/googleSearchRetrieval"},
		"Gemini's with underscores":       {`{"tools":[{"google_search_retrieval":{}}]}`, "/tools/0/google_search_retrieval"},
		"letter case of a type":           {`{"tools":[{"type":" Web_Search_2025_08_26"}]}`, "/tools/0/type"},
		"letter case of a namespace":      {`{"tools":[{"type":"OpenRouter:web_search"}]}`, "/tools/0/type"},
		"letter case of a plugin":         {`{"plugins":[{"id":"Web "}]}`, "/plugins/0/id"},
		"a type alone":                    {`{"tools":["web_search"]}`, "/tools/0"},
		"a plugin's id alone":             {`{"plugins":["web"]}`, "/plugins/0"},
		"a plugin half switched off":      {`{"plugins":[{"id":"web","Enabled":false}]}`, "/plugins/0/id"},
		"within a namespace":              {`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"web_search"}]}]}`, "/tools/0/tools/0/type"},
		"a choice":                        {`{"tool_choice":{"type":"web_search_preview"}}`, "/tool_choice/type"},
		"a choice of several":             {`{"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function"},{"type":"web_search"}]}}`, "/tool_choice/tools/1/type"},
		"a message's":                     {`{"messages":[{"role":"system","tools":[{"type":"web_search"}]}]}`, "/messages/0/tools/0/type"},

		"what fusion brings":                           {`{"tools":[{"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what fusion brings, with parameters":          {`{"tools":[{"parameters":{"max_tool_calls":2},"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what fusion brings, with null":                {`{"tools":[{"parameters":{"tools":null},"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what fusion brings, in another letter case":   {`{"tools":[{"parameters":{"Tools":[]},"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what fusion brings, with and without":         {`{"tools":[{"parameters":{"tools":[],"tools":null},"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what fusion brings, with parameters and none": {`{"tools":[{"parameters":{"tools":[]},"parameters":{},"type":"openrouter:fusion"}]}`, "/tools/0/type"},
		"what a subagent's fusion brings":              {`{"tools":[{"type":"openrouter:subagent","parameters":{"tools":[{"type":"openrouter:fusion"}]}}]}`, "/tools/0/parameters/tools/0/type"},
		"what the fusion plugin brings":                {`{"plugins":[{"id":"fusion","enabled":true}]}`, "/plugins/0/id"},
		"what the fusion plugin brings, with null":     {`{"plugins":[{"id":"fusion","tools":null}]}`, "/plugins/0/id"},
		"what the fusion router brings":                {`{"model":"openrouter/fusion"}`, "/model"},
	} {
		for _, dialect := range allDialects {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				sent := inference.Request{Dialect: dialect, Body: []byte(tc.body)}
				_, err := resolver.Resolve(t.Context(), who, sent)
				wantKind(t, err, domain.Forbidden, "Server tool openrouter:web_search is disabled in this workspace")
				if e, ok := errors.AsType[*domain.Error](err); ok && (len(e.Issues) != 1 || e.Issues[0].Path != tc.place ||
					strings.Contains(e.Issues[0].Message, "unless it is given other tools") != strings.HasPrefix(name, "what ")) {
					t.Errorf("got issues %q, want one at %s", e.Issues, tc.place)
				}
				elsewhere, err := resolver.Resolve(t.Context(), domain.Principal{}, sent)
				wantBody(t, elsewhere, err, tc.body)
			})
		}
	}
}

// Any other disabled tool by its short types.
func TestDisabledToolsByShortTypes(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for kind, tool := range map[string]string{
		"image_generation": "openrouter:image_generation", "shell": "openrouter:shell", "local_shell": "openrouter:shell",
		"apply_patch": "openrouter:apply_patch", "bash_20250124": "openrouter:bash", "tool_search_tool_regex_20251119": "openrouter:tool_search",
		"web_fetch_20250910": "openrouter:web_fetch", "text_editor_20250728": "openrouter:text_editor", "advisor_20260301": "openrouter:advisor",
		"code_interpreter": "openrouter:code_interpreter", "code_execution_20250825": "openrouter:code_interpreter",
		"file_search": "openrouter:file_search", "mcp": "openrouter:mcp", "mcp_toolset": "openrouter:mcp", "memory_20250818": "openrouter:memory",
		"browser_search": "openrouter:web_search", "computer_use_preview": "openrouter:browser_use", "later": "openrouter:later",
	} {
		t.Run(kind, func(t *testing.T) {
			who := r.strict(t, strings.ReplaceAll(kind, "_", "-"), tool)
			sent := inference.Request{Dialect: responses, Body: []byte(`{"tools":[{"type":"` + kind + `"}]}`)}
			_, err := resolver.Resolve(t.Context(), who, sent)
			wantDisabled(t, err, tool, "/tools/0/type")
			r.disable(t, who.WorkspaceID, "openrouter:datetime")
			got, err := resolver.Resolve(t.Context(), who, sent)
			wantBody(t, got, err, string(sent.Body))
		})
	}
}

// A value of the wrong type may be read by a gateway as it likes.
func TestShapesWhereToolsAreDisabled(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", "openrouter:datetime"), r.team(t, "free", "", "")
	const array, object, text = "must be an array", "must be an object", "must be a string"
	for body, want := range map[string]string{
		`[{"tools":[]}]`:                "body: " + object,
		`"x"`:                           "body: " + object,
		`null`:                          "body: " + object,
		`{"plugins":{"web":{}}}`:        "/plugins: " + array,
		`{"tools":{"type":"function"}}`: "/tools: " + array,
		`{"tools":"x"}`:                 "/tools: " + array,
		`{"Tools":5}`:                   "/Tools: " + array,
		`{"tools":[],"tools":{}}`:       "/tools: " + array,
		`{"tools":[5]}`:                 "/tools/0: " + object,
		`{"tools":[{},[]]}`:             "/tools/1: " + object,
		`{"tools":[{"type":5}]}`:        "/tools/0/type: " + text,
		`{"tools":[{"type":["x"]}]}`:    "/tools/0/type: " + text,
		`{"tools":[{"tools":{}}]}`:      "/tools/0/tools: " + array,
		`{"tools":[{"type":"openrouter:subagent","parameters":{"tools":{}}}]}`: "/tools/0/parameters/tools: " + array,
		`{"tool_choice":{"type":["x"]}}`:                                       "/tool_choice/type: " + text,
		`{"plugins":[["web"]]}`:                                                "/plugins/0: " + object,
		`{"plugins":[{"id":["web"]}]}`:                                         "/plugins/0/id: " + text,
		`{"plugins":[{"id":"fusion","tools":"x"}]}`:                            "/plugins/0/tools: " + array,
		`{"input":{"tools":[]}}`:                                               "/input: " + array,
		`{"input":5}`:                                                          "/input: " + array,
		`{"input":[[{"tools":[]}]]}`:                                           "/input/0: " + object,
		`{"input":[{"tools":{}}]}`:                                             "/input/0/tools: " + array,
		`{"messages":{"role":"user"}}`:                                         "/messages: " + array,
		`{"models":"a:online"}`:                                                "/models: " + array,
		`{"models":[["a"]]}`:                                                   "/models/0: " + text,
		`{"model":["a"]}`:                                                      "/model: " + text,
		`{"model":{"name":"a"}}`:                                               "/model: " + text,
		`{"fallbacks":{"model":"a"}}`:                                          "/fallbacks: " + array,
		`{"fallbacks":[["a"]]}`:                                                "/fallbacks/0: " + text,
		`{"tools":[{"parameters":{"analysis_models":{}}}]}`:                    "/tools/0/parameters/analysis_models: " + array,
		`{"tools":[{"type":"x","models":{}}]}`:                                 "/tools/0/models: " + array,
		`{"plugins":[{"id":"x","analysis_models":{}}]}`:                        "/plugins/0/analysis_models: " + array,
		`{"plugins":[{"id":"x","parameters":{"model":"@preset/x"}}]}`:          "/plugins/0/parameters/model: must not refer to a preset",
		`{"tools":[{"parameters":{"model":"@preset/x"}}]}`:                     "/tools/0/parameters/model: must not refer to a preset",
		`{"tools":[{"parameters":{"analysis_models":["a@preset/x"]}}]}`:        "/tools/0/parameters/analysis_models/0: must not refer to a preset",
		`{"Model":"a@preset/x"}`:                                               "/Model: must not refer to a preset",
		`{"tools":[` + nestedTools(2000, `5`) + `]}`:                           "body: a value whose place is too long to name must be an object",
	} {
		for _, dialect := range allDialects {
			sent := inference.Request{Dialect: dialect, Body: []byte(body)}
			_, err := resolver.Resolve(t.Context(), strict, sent)
			wantKind(t, err, domain.Invalid, "Invalid request parameters: "+want+" where server tools are disabled")
			got, err := resolver.Resolve(t.Context(), free, sent)
			wantBody(t, got, err, body)
		}
	}
}

// Tools of a preset or a workspace count like those of the request.
func TestDisabledToolsOfPresetsByOtherNames(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect             domain.Dialect
		config, body, place string
	}{
		"the preset's model":              {chat, `{"model":"a:online"}`, `{"preset":"p"}`, ""},
		"the preset's models":             {chat, `{"models":["a:online"]}`, `{"preset":"p"}`, ""},
		"the preset's fallbacks":          {messages, `{"fallbacks":[{"model":"a:online"}]}`, `{"preset":"p"}`, ""},
		"the preset's options":            {chat, `{"web_search_options":{}}`, `{"preset":"p"}`, ""},
		"the preset's fusion":             {responses, `{"plugins":[{"id":"fusion"}]}`, `{"preset":"p"}`, ""},
		"the preset's short type":         {responses, `{"tools":[{"type":"web_search_preview"}]}`, `{"preset":"p"}`, ""},
		"the request's model":             {responses, `{}`, `{"model":"a:online@preset/p"}`, "/model"},
		"the request's model, in a field": {responses, `{}`, `{"model":"a:online","preset":"p"}`, "/model"},
		"the request's plugin":            {responses, `{}`, `{"model":"@preset/p","plugins":[{"id":"web"}]}`, "/plugins/0/id"},
		"the workspace's model":           {responses, `{}`, `{"preset":"p","input":"x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResolving(t)
			resolver := r.resolver(t, inference.Config{})
			textModel := "dm"
			if name == "the workspace's model" {
				textModel = "dm:online"
			}
			who := r.team(t, "strict", textModel, "")
			r.put(t, who.WorkspaceID, "p", version{dialect: tc.dialect, config: tc.config})
			sent := inference.Request{Dialect: tc.dialect, Body: []byte(tc.body)}
			if got, err := resolver.Resolve(t.Context(), who, sent); err != nil || got.Preset != "p" {
				t.Fatalf("got preset %q, %v, want it applied while nothing is disabled", got.Preset, err)
			}
			r.disable(t, who.WorkspaceID, search)
			got, err := resolver.Resolve(t.Context(), who, sent)
			wantDisabled(t, err, search, tc.place)
			if got.Preset != "" || got.Body != nil {
				t.Errorf("got preset %q and %s, want neither", got.Preset, got.Body)
			}
		})
	}
}

// A gateway that goes by another type or charset reads another text.
func TestOtherTypesWhereToolsAreDisabled(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", search), r.team(t, "free", "dm", "")
	for _, who := range []domain.Principal{strict, free} {
		r.put(t, who.WorkspaceID, "p", version{responses, `{}`, ""})
	}
	for body, passes := range map[string]bool{
		`{"model":"m","+AHQ-ools":[]}`:                       false,
		`{"model":"m","user":"&model=m:online&input=x&z="}`:  false,
		`{"preset":"p","+AHQ-ools":[]}`:                      true, // it goes upstream as JSON
		`{"preset":"p","user":"&model=m:online&input=x&z="}`: true,
	} {
		sent := inference.Request{Dialect: responses, Body: []byte(body), OtherType: true}
		_, err := resolver.Resolve(t.Context(), strict, sent)
		if passes {
			if err != nil {
				t.Errorf("%s: got error %v, want none", body, err)
			}
			continue
		}
		wantKind(t, err, domain.Invalid, ": content-type: must be application/json, with no parameter but charset=utf-8, where server tools are disabled")
		if _, err := resolver.Resolve(t.Context(), free, sent); err != nil {
			t.Errorf("%s where nothing is disabled: got error %v, want none", body, err)
		}
		sent.OtherType = false
		if _, err := resolver.Resolve(t.Context(), strict, sent); err != nil {
			t.Errorf("%s as JSON: got error %v, want none", body, err)
		}
	}
}

// A request that is not searched is permitted if nothing is disabled.
func TestCheckUnresolvedRoute(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", search), r.team(t, "free", "", "")
	const message = "This route cannot be used in a workspace where server tools are disabled"
	for range 20 { // cold, then warm
		wantKind(t, resolver.CheckUnresolvedRoute(t.Context(), strict), domain.Forbidden, message)
		for _, who := range []domain.Principal{free, {}, {WorkspaceSlug: "nowhere"}} {
			if err := resolver.CheckUnresolvedRoute(t.Context(), who); err != nil {
				t.Errorf("%v: got error %v, want none", who, err)
			}
		}
	}
	r.disable(t, "default", search)
	wantKind(t, resolver.CheckUnresolvedRoute(t.Context(), domain.Principal{}), domain.Forbidden, message)
	r.disable(t, "strict")
	if err := resolver.CheckUnresolvedRoute(t.Context(), strict); err != nil {
		t.Errorf("none disabled any more: got error %v, want none", err)
	}
	down := inference.NewResolver(unreadable{domain.ErrUnavailable}, inference.Config{})
	if err := down.CheckUnresolvedRoute(t.Context(), free); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("without a store: got error %v, want %v", err, domain.ErrUnavailable)
	}
}
