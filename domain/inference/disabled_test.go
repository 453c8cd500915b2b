package inference_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// strict stores a workspace where some server tools are disabled and returns who
// acts in it.
func (r *resolving) strict(tb testing.TB, slug string, tools ...string) domain.Principal {
	tb.Helper()
	who := r.team(tb, slug, "dm", "")
	r.disable(tb, who.WorkspaceID, tools...)
	return who
}

// disable disables no other server tools of a workspace than these.
func (r *resolving) disable(tb testing.TB, workspace string, tools ...string) {
	tb.Helper()
	patch := domain.WorkspacePatch{DisabledServerTools: domain.Settable[[]string]{Given: true}}
	if len(tools) > 0 {
		patch.DisabledServerTools.Value = &tools
	}
	if _, err := r.UpdateWorkspace(tb.Context(), domain.By(admin), workspace, patch, nil); err != nil {
		tb.Fatal(err)
	}
}

// wantDisabled checks the refusal of a tool. place is empty if the tool is not in the
// request.
func wantDisabled(t *testing.T, err error, tool, place string) {
	t.Helper()
	wantKind(t, err, domain.Forbidden, "Server tool "+tool+" is disabled in this workspace")
	var issues []domain.Issue
	if place != "" {
		issues = []domain.Issue{{Path: place, Message: "is disabled in this workspace"}}
	}
	if e, ok := errors.AsType[*domain.Error](err); ok && !slices.Equal(e.Issues, issues) {
		t.Errorf("got issues %q, want %q", e.Issues, issues)
	}
}

const (
	search = "openrouter:web_search"
	fetch  = "openrouter:web_fetch"
)

// nestedTools is a tool within so many others.
func nestedTools(n int, tool string) string {
	return strings.Repeat(`{"type":"openrouter:subagent","parameters":{"tools":[`, n) + tool + strings.Repeat(`]}}`, n)
}

func TestDisabledTools(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", fetch, search)
	for name, tc := range map[string]struct {
		body, place string
		tool        string // search if empty
	}{
		"the only tool":          {body: `{"model":"m","tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"with parameters":        {body: `{"tools":[{"parameters":{"max_results":5},"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"behind others":          {body: `{"tools":[{"type":"function","function":{"name":"f"}},{"type":"openrouter:datetime"},{"type":"openrouter:web_search"}]}`, place: "/tools/2/type"},
		"the first of two":       {body: `{"tools":[{"type":"openrouter:web_fetch"},{"type":"openrouter:web_search"}]}`, place: "/tools/0/type", tool: fetch},
		"behind what is no tool": {body: `{"tools":[null,"x",{},{"type":null},{"type":"","parameters":[{}]},{"type":"x","parameters":"x"},{"type":"openrouter:web_search"}]}`, place: "/tools/6/type"},
		"white space":            {body: "\n{ \"tools\" : [ { \"type\"\t:\r\n\"openrouter:web_search\" } ] } ", place: "/tools/0/type"},

		"of a subagent":                   {body: `{"tools":[{"type":"openrouter:subagent","parameters":{"name":"x","tools":[{"type":"openrouter:datetime"},{"type":"openrouter:web_search"}]}}]}`, place: "/tools/0/parameters/tools/1/type"},
		"of a fusion":                     {body: `{"tools":[{"parameters":{"tools":[{"type":"openrouter:web_search","parameters":{}}]},"type":"openrouter:fusion"}]}`, place: "/tools/0/parameters/tools/0/type"},
		"of a subagent's fusion":          {body: `{"tools":[` + nestedTools(2, `{"type":"openrouter:web_search"}`) + `]}`, place: "/tools/0/parameters/tools/0/parameters/tools/0/type"},
		"too deep to tell where":          {body: `{"tools":[` + nestedTools(2000, `{"type":"openrouter:web_search"}`) + `]}`},
		"of the fusion plugin":            {body: `{"plugins":[{"id":"moderation"},{"id":"fusion","tools":[{"type":"openrouter:web_fetch"}]}]}`, place: "/plugins/1/tools/0/type", tool: fetch},
		"of a plugin's subagent":          {body: `{"plugins":[{"tools":[` + nestedTools(1, `{"type":"openrouter:web_search"}`) + `],"id":"fusion"}]}`, place: "/plugins/0/tools/0/parameters/tools/0/type"},
		"added by an input item":          {body: `{"input":[{"role":"user","content":"x"},{"type":"additional_tools","role":"developer","tools":[{"type":"openrouter:web_search"}]}]}`, place: "/input/1/tools/0/type"},
		"in plugins, none of it in tools": {body: `{"tools":[],"plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, place: "/plugins/0/tools/0/type"},

		"without the namespace":   {body: `{"tools":[{"type":"web_search"}]}`, place: "/tools/0/type"},
		"a preview":               {body: `{"tools":[{"type":"web_search_preview_2025_03_11"}]}`, place: "/tools/0/type"},
		"a vendor's, with a date": {body: `{"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]}`, place: "/tools/0/type", tool: fetch},
		"a plugin":                {body: `{"plugins":[{"id":"moderation"},{"max_results":1,"id":"web"}]}`, place: "/plugins/1/id"},
		"a plugin switched on":    {body: `{"plugins":[{"id":"web-fetch","enabled":true}]}`, place: "/plugins/0/id", tool: fetch},
		"a plugin on and off":     {body: `{"plugins":[{"enabled":true,"id":"web","enabled":false}]}`, place: "/plugins/0/id"},
		"a plugin with three ids": {body: `{"plugins":[{"id":"moderation","id":"web","id":"fusion"}]}`, place: "/plugins/0/id"},
		"a plugin with two ids":   {body: `{"plugins":[{"id":"web","id":"moderation"}]}`, place: "/plugins/0/id"},

		"an escape":               {body: `{"tools":[{"type":"openrouter\u003aweb_search"}]}`, place: "/tools/0/type"},
		"an escape in capitals":   {body: `{"tools":[{"type":"openrouter\u003Aweb_search"}]}`, place: "/tools/0/type"},
		"all escapes":             {body: `{"tools":[{"type":"` + escaped(search) + `"}]}`, place: "/tools/0/type"},
		"escaped names":           {body: `{"` + escaped("tools") + `":[{"` + escaped("type") + `":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"tools twice, the first":  {body: `{"tools":[{"type":"openrouter:web_search"}],"tools":[]}`, place: "/tools/0/type"},
		"tools twice, the last":   {body: `{"tools":null,"tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"type twice, the first":   {body: `{"tools":[{"type":"openrouter:web_search","type":"function"}]}`, place: "/tools/0/type"},
		"type twice, the last":    {body: `{"tools":[{"type":"function","type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"parameters twice":        {body: `{"tools":[{"type":"openrouter:fusion","parameters":{"tools":[{"type":"openrouter:web_search"}]},"parameters":{}}]}`, place: "/tools/0/parameters/tools/0/type"},
		"plugins twice":           {body: `{"plugins":[],"plugins":[{"tools":[],"tools":[{"type":"openrouter:web_search"}]}]}`, place: "/plugins/0/tools/0/type"},
		"another letter case":     {body: `{"Tools":[{"TYPE":"openrouter:web_search"}]}`, place: "/Tools/0/TYPE"},
		"nested, another case":    {body: `{"PLUGINS":[{"Tools":[{"type":"x","Parameters":{"tooLs":[{"tyPe":"openrouter:web_search"}]}}]}]}`, place: "/PLUGINS/0/Tools/0/Parameters/tooLs/0/tyPe"},
		"another case of enabled": {body: `{"plugins":[{"id":"web","Enabled":false}]}`, place: "/plugins/0/id"},
		"a byte order mark":       {body: "\ufeff" + `{"tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"no UTF-8 before it":      {body: "{\"input\":\"\xff\\ud800\",\"tools\":[{\"type\":\"openrouter:web_search\"}]}", place: "/tools/0/type"},
		"malformed behind it":     {body: `{"tools":[{"type":"openrouter:web_search"}],"input":tru}`, place: "/tools/0/type"},
		"cut off behind it":       {body: `{"tools":[{"type":"openrouter:web_search"`, place: "/tools/0/type"},
		"text behind the end":     {body: `{"tools":[{"type":"openrouter:web_search"}]} x`, place: "/tools/0/type"},
		"after deep nesting":      {body: `{"metadata":` + deep(9000) + `,"tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"with a null preset":      {body: `{"preset":null,"tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
		"with a session":          {body: `{"session_id":"s","tools":[{"type":"openrouter:web_search"}]}`, place: "/tools/0/type"},
	} {
		for _, dialect := range allDialects {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				if tc.tool == "" {
					tc.tool = search
				}
				got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: []byte(tc.body)})
				wantDisabled(t, err, tc.tool, tc.place)
				if got.Preset != "" {
					t.Errorf("got preset %q, want none", got.Preset)
				}
				elsewhere, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: dialect, Body: []byte(tc.body)})
				wantBody(t, elsewhere, err, tc.body)
			})
		}
	}
}

// escaped returns text with every character of it spelled as an escape.
func escaped(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		out.WriteString(`\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15]))
	}
	return out.String()
}

func TestWhatIsNoUseOfADisabledTool(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", fetch, search)
	for name, body := range map[string]string{
		"other server tools":       `{"tools":[{"type":"openrouter:datetime"},{"type":"openrouter:subagent","parameters":{"tools":[{"type":"openrouter:bash"}]}}]}`,
		"a longer type":            `{"tools":[{"type":"openrouter:web_search_2"},{"type":"xopenrouter:web_search"}]}`,
		"a shorter type":           `{"tools":[{"type":"openrouter:web"},{"type":"openrouter:"}]}`,
		"another tool":             `{"tools":[{"type":"websearch"},{"type":"file_search"},{"type":"openrouter_web_search"}]}`,
		"a plugin switched off":    `{"plugins":[{"id":"web","enabled":false},{"enabled":false,"id":"web-fetch"}]}`,
		"text":                     `{"input":"use openrouter:web_search, as in {\"tools\":[{\"type\":\"openrouter:web_search\"}]}"}`,
		"what a message holds":     `{"messages":[{"role":"user","content":[{"type":"openrouter:web_search","tools":[{"type":"openrouter:web_search"}]}]}]}`,
		"what a tool found before": `{"input":[{"type":"openrouter:web_search","status":"completed","action":{"type":"search","query":"x"}}]}`,
		"a function's name":        `{"tools":[{"type":"function","name":"openrouter:web_search","function":{"name":"openrouter:web_search"}}]}`,
		"a function's parameters":  `{"tools":[{"type":"function","parameters":{"type":"object","properties":{"tools":{"enum":["openrouter:web_search"]}}}}]}`,
		"a function of chat":       `{"tools":[{"type":"function","function":{"parameters":{"tools":[{"type":"openrouter:web_search"}]}}}]}`,
		"elsewhere":                `{"metadata":{"tools":[{"type":"openrouter:web_search"}]},"tool":[{"type":"openrouter:web_search"}]}`,
		"a choice":                 `{"tool_choice":{"type":"function","name":"openrouter:web_search","function":{"name":"web_search"}},"tools":[]}`,
		"a choice in text":         `{"tool_choice":"auto"}`,
		"a plugin":                 `{"plugins":[{"id":"openrouter:web_search","type":"openrouter:web_search"}]}`,
		"fusion without tools":     `{"tools":[{"type":"openrouter:fusion","parameters":{"tools":[]}},{"parameters":{"tools":[],"tools":[]},"type":"fusion"}]}`,
		"fusion with other tools":  `{"tools":[{"type":"openrouter:fusion","parameters":{"tools":[{"type":"openrouter:datetime"}]}}]}`,
		"the plugin, without":      `{"plugins":[{"id":"fusion","tools":[]},{"id":"fusion","enabled":false}]}`,
		"other models":             `{"model":"online/gpt:free","models":["a:onlines","b:not-online","online","openrouter/fusion-2","openrouter/auto"],"fallbacks":[{"model":"a:b"},"c",null]}`,
		"models of no request":     `{"metadata":{"model":"a:online"},"user":"a:online","input":[{"model":"a:online"}]}`,
		"fields that say no":       `{"web_search_options":null,"enable_search":false,"mcp_servers":null,"extra_body":{"web_search_options":false}}`,
		"what may be null":         `{"tools":null,"plugins":null,"input":null,"messages":null,"model":null,"models":null,"fallbacks":null,"tool_choice":null,"extra_body":null}`,
		"a client's own":           `{"tools":[{"type":"custom","name":"web_search"},{"name":"web_fetch","input_schema":{}},{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f"}]}]}`,
		"nothing":                  ``,
		"an escape elsewhere":      `{"tools":[{"type":"x\u0026"}]}`,
		"text for input":           `{"input":"x"}`,
		"texts for input":          `{"input":["x",5]}`,
	} {
		for _, dialect := range allDialects {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				sent := []byte(body)
				got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: sent})
				wantBody(t, got, err, body)
				if len(sent) > 0 && &got.Body.Bytes()[0] != &sent[0] {
					t.Error("got a copy of the body, want itself")
				}
			})
		}
	}
}

// A request that a gateway may read differently could use any tool.
func TestWhatCannotBeReadWhereToolsAreDisabled(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", fetch, search), r.team(t, "free", "", "")
	for name, body := range map[string]string{
		"malformed before it": `{"input":tru,"tools":[{"type":"openrouter:web_search"}]}`,
		"not JSON":            `tools=openrouter:web_search`,
		"cut off":             `{"tools":[{"type":"openrouter:web_sear`,
		"a name cut off":      `{"tools":[{"type`,
		"a half escape":       `{"tools":[{"type":"openrouter\u00`,
		"never ending":        `{"tools":` + strings.Repeat(`[{"openrouter:":`, 20000),
		"no number of JSON":   `{"temperature":NaN,"tools":[{"type":"openrouter:web_search"}]}`,
		"a comment":           `{/* x */"tools":[{"type":"openrouter:web_search"}]}`,
		"UTF-16":              "{\x00\"\x00t\x00o\x00o\x00l\x00s\x00",
		"too deep":            `{"x":` + deep(10001) + `,"tools":[{"type":"openrouter:web_search"}]}`,
		"more behind":         `{} {"tools":[{"type":"openrouter:web_search"}]}`,
		"an escape of C":      `{"x":"\x41","tools":[{"type":"openrouter:web_search"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			sent := inference.Request{Dialect: chat, Body: []byte(body)}
			_, err := resolver.Resolve(t.Context(), strict, sent)
			wantKind(t, err, domain.Invalid, "Invalid request parameters: body: is not JSON that can be read")
			got, err := resolver.Resolve(t.Context(), free, sent)
			wantBody(t, got, err, body)
		})
	}
}

func TestDisabledToolsOfPresets(t *testing.T) {
	for _, tc := range []struct {
		name         string
		from, to     domain.Dialect // responses if empty
		config, body string
		tool, place  string // both empty: permitted
		dropFields   []string
	}{
		{name: "the preset's", config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the preset's, escaped", config: `{"tools":[{"type":"openrouter\u003aweb_search"}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the preset's, with others of the request", config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[{"type":"openrouter:datetime"}]}`, tool: search},
		{name: "the preset's, with no tools of the request", config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[]}`, tool: search},
		{name: "the preset's nested", config: `{"tools":[` + nestedTools(1, `{"type":"openrouter:web_fetch"}`) + `]}`, body: `{"preset":"p"}`, tool: fetch},
		{name: "the preset's plugin", config: `{"plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the preset's, for chat", to: chat, config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the preset's, for messages", to: messages, config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the preset's, from chat", from: chat, config: `{"plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, body: `{"preset":"p"}`, tool: search},
		{name: "the request's", config: `{"tools":[{"type":"openrouter:datetime"}]}`, body: `{"preset":"p","tools":[{"type":"x"},{"type":"openrouter:web_search"}]}`, tool: search, place: "/tools/1/type"},
		{name: "the request's plugin", config: `{}`, body: `{"preset":"p","plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, tool: search, place: "/plugins/0/tools/0/type"},
		{name: "the request's, in another letter case", config: `{}`, body: `{"preset":"p","Tools":[{"type":"openrouter:web_search"}]}`, tool: search, place: "/Tools/0/type"},
		{name: "the request's in the place of the preset's", config: `{"tools":[{"type":"y"},{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[{"type":"openrouter:web_search","parameters":{}}]}`, tool: search, place: "/tools/0/type"},
		{name: "the request's and the preset's", config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[{"type":"openrouter:web_fetch"}]}`, tool: search},
		{name: "what the request replaces", config: `{"plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, body: `{"preset":"p","plugins":[{"id":"moderation"}]}`},
		{name: "what the gateway does not know", dropFields: []string{"tools"}, config: `{"tools":[{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[{"type":"openrouter:web_search"}]}`},
		{name: "only text", config: `{"tools":[{"type":"openrouter:datetime"}]}`, body: `{"preset":"p","input":"openrouter:web_search"}`},
		{name: "nothing of the kind", config: `{}`, body: `{"preset":"p"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newResolving(t)
			if tc.from == "" {
				tc.from = responses
			}
			if tc.to == "" {
				tc.to = responses
			}
			resolver := r.resolver(t, inference.Config{DropFields: tc.dropFields})
			who := r.strict(t, "strict", fetch, search)
			free := r.team(t, "free", "dm", "")
			for _, id := range []string{who.WorkspaceID, free.WorkspaceID} {
				r.put(t, id, "p", version{dialect: tc.from, config: tc.config})
			}
			sent := inference.Request{Dialect: tc.to, Body: []byte(tc.body)}
			elsewhere, err := resolver.Resolve(t.Context(), free, sent)
			if err != nil || elsewhere.Preset != "p" {
				t.Fatalf("got preset %q, %v\nwant it applied where nothing is disabled", elsewhere.Preset, err)
			}
			got, err := resolver.Resolve(t.Context(), who, sent)
			if tc.tool == "" {
				wantBody(t, got, err, elsewhere.Body.String())
				return
			}
			wantDisabled(t, err, tc.tool, tc.place)
			if got.Preset != "" || got.Version != 0 || got.Body != nil {
				t.Errorf("got %s version %d and %s, want neither", got.Preset, got.Version, got.Body)
			}
		})
	}
}

// It is the workspace that who sends a request acts in whose tools are disabled.
func TestWhoseToolsAreDisabled(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict := r.strict(t, "strict", search)
	free := r.team(t, "free", "", "")
	const body = `{"tools":[{"type":"openrouter:web_search"}]}`
	resolve := func(who domain.Principal) error {
		got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: chat, Body: []byte(body)})
		if err == nil && got.Body.String() != body {
			t.Errorf("got %s, want %s", got.Body, body)
		}
		return err
	}
	for range 20 { // cold, then warm
		wantDisabled(t, resolve(strict), search, "/tools/0/type")
		wantDisabled(t, resolve(domain.Principal{WorkspaceSlug: "strict"}), search, "/tools/0/type")
		for _, who := range []domain.Principal{free, {}, {WorkspaceSlug: "free"}, {WorkspaceSlug: "nowhere"}, {WorkspaceID: "nowhere"}} {
			if err := resolve(who); err != nil {
				t.Errorf("%v: got error %v, want none", who, err)
			}
		}
	}
	r.disable(t, "default", search)
	wantDisabled(t, resolve(domain.Principal{}), search, "/tools/0/type")
	if err := resolve(free); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	r.disable(t, "default", fetch)
	if err := resolve(domain.Principal{}); err != nil {
		t.Errorf("another one disabled: got error %v, want none", err)
	}
	r.disable(t, "default", fetch, search)
	wantDisabled(t, resolve(domain.Principal{}), search, "/tools/0/type")
	r.disable(t, "strict")
	if err := resolve(strict); err != nil {
		t.Errorf("none disabled any more: got error %v, want none", err)
	}
	if _, err := r.DeleteWorkspace(t.Context(), domain.By(admin), "default", domain.WorkspaceDeletion{ConfirmDefault: true}); err != nil {
		t.Fatal(err)
	}
	if err := resolve(domain.Principal{}); err != nil {
		t.Errorf("the default workspace made anew: got error %v, want none", err)
	}
}

// If nothing is disabled, or only other tools are, no read is needed to know that.
func TestDisabledToolsTakeFewReads(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", search), r.team(t, "free", "", "")
	for _, who := range []domain.Principal{strict, free} {
		r.warm(t, resolver, who, `{"model":"m","tools":[{"type":"openrouter:datetime"}]}`)
	}
}

// usedByGo reports whether a gateway with the standard library's decoder finds a use of web
// search or web fetch.
func usedByGo(body []byte) bool {
	var request struct {
		Tools, Plugins, Input, Messages, Fallbacks json.RawMessage

		Choice json.RawMessage `json:"tool_choice"`
		Search json.RawMessage `json:"web_search_options"`
		Extra  json.RawMessage `json:"extra_body"`
	}
	if json.Unmarshal(body, &request) != nil {
		return false
	}
	if slices.ContainsFunc(elements(request.Tools), isToolOfGo) || isChoiceOfGo(request.Choice) {
		return true
	}
	for _, plugin := range elements(request.Plugins) {
		var id struct{ ID string }
		var enabled struct{ Enabled json.RawMessage }
		var its struct{ Tools json.RawMessage }
		_, _, _ = json.Unmarshal(plugin, &id), json.Unmarshal(plugin, &enabled), json.Unmarshal(plugin, &its)
		on := string(enabled.Enabled) != "false"
		brings := id.ID == "fusion" && !isArray(its.Tools)
		if on && (id.ID == "web" || id.ID == "web-fetch" || brings) || namesModelOfGo(plugin) || slices.ContainsFunc(elements(its.Tools), isToolOfGo) {
			return true
		}
	}
	for _, item := range slices.Concat(elements(request.Input), elements(request.Messages)) {
		var its struct{ Tools json.RawMessage }
		_ = json.Unmarshal(item, &its)
		if slices.ContainsFunc(elements(its.Tools), isToolOfGo) {
			return true
		}
	}
	if namesModelOfGo(body) {
		return true
	}
	if search := string(request.Search); search != "" && search != "null" && search != "false" {
		return true
	}
	return slices.ContainsFunc(append(elements(request.Fallbacks), request.Extra), func(r json.RawMessage) bool { return usedByGo(r) })
}

// namesModelOfGo is usedByGo for the names of models in a request, a tool or a plugin.
func namesModelOfGo(object json.RawMessage) bool {
	var named struct {
		Model, Models, Fallbacks json.RawMessage

		Panel json.RawMessage `json:"analysis_models"`
	}
	_ = json.Unmarshal(object, &named)
	for _, model := range slices.Concat(elements(named.Models), elements(named.Panel), elements(named.Fallbacks), []json.RawMessage{named.Model}) {
		var name string
		if json.Unmarshal(model, &name) == nil && (strings.HasSuffix(name, ":online") || name == "openrouter/fusion") {
			return true
		}
	}
	return false
}

func isToolOfGo(tool json.RawMessage) bool {
	var kind struct{ Type string }
	var inner struct{ Tools, Parameters json.RawMessage }
	_, _ = json.Unmarshal(tool, &kind), json.Unmarshal(tool, &inner) // a value of another form has none
	if json.Unmarshal(tool, &kind.Type) == nil {
		inner.Tools, inner.Parameters = nil, nil
	}
	var its struct{ Tools json.RawMessage }
	_ = json.Unmarshal(inner.Parameters, &its)
	switch strings.TrimPrefix(kind.Type, "openrouter:") {
	case "web_search", "web_fetch":
		return true
	case "fusion":
		if !isArray(its.Tools) {
			return true
		}
	}
	return namesModelOfGo(tool) || usedByGo(inner.Parameters) || slices.ContainsFunc(elements(inner.Tools), isToolOfGo)
}

func isChoiceOfGo(choice json.RawMessage) bool {
	var kind struct{ Type string }
	var its struct{ Tools json.RawMessage }
	_, _ = json.Unmarshal(choice, &kind), json.Unmarshal(choice, &its)
	name := strings.TrimPrefix(kind.Type, "openrouter:")
	return name == "web_search" || name == "web_fetch" || slices.ContainsFunc(elements(its.Tools), isChoiceOfGo)
}

func isArray(value json.RawMessage) bool { return strings.HasPrefix(string(value), "[") }

// checkDisabled returns the fault of a decision about a body.
func checkDisabled(body []byte, err error) string {
	used := usedByGo(body)
	e, refused := errors.AsType[*domain.Error](err)
	switch {
	case err == nil && used:
		return "passes with a disabled tool"
	case err == nil:
		return ""
	case refused && e.Kind == domain.Invalid && (!json.Valid(body) || strings.HasSuffix(e.Message, " where server tools are disabled")):
		return ""
	case !refused || e.Kind != domain.Forbidden:
		return "is refused for another reason"
	case !strings.Contains(e.Message, search) && !strings.Contains(e.Message, fetch):
		return "is refused without naming the tool"
	}
	return ""
}

// Requests made at random are refused if and only if they use a disabled tool.
func TestDisabledToolsProperties(t *testing.T) {
	tier.Slow(t)
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", fetch, search)
	rounds := 20000 / tier.Sample(5)
	refused := 0
	for round := range rounds {
		g := gen{rand.New(rand.NewPCG(11, uint64(round)))}
		body := []byte(g.requestWithTools())
		_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: pick(g, allDialects), Body: body})
		if fault := checkDisabled(body, err); fault != "" {
			t.Fatalf("round %d: %s\n%s, %v", round, body, fault, err)
		}
		if used := usedByGo(body); used != (err != nil) {
			t.Fatalf("round %d: %s\ngot error %v, want one: %t", round, body, err, used)
		}
		if err != nil {
			refused++
		}
	}
	if refused < rounds/10 || refused > rounds*9/10 {
		t.Errorf("got %d of %d refused, which is no test", refused, rounds)
	}
}

// requestWithTools returns a request without names that repeat, and with every value
// of the type that it should have.
func (g gen) requestWithTools() string {
	kinds := []string{"openrouter:datetime", "openrouter:subagent", "function", "custom", "mcp", "namespace", "openrouter:web", "shell", "image_generation"}
	kind := func() string {
		text := pick(g, kinds)
		if g.IntN(6) == 0 {
			text = pick(g, []string{search, fetch, "web_search", "openrouter:fusion", "fusion"})
		}
		if g.IntN(8) == 0 {
			return `"` + escaped(text) + `"`
		}
		return `"` + text + `"`
	}
	model := func() string {
		return pick(g, []string{`"a"`, `"b/c:free"`, `"d"`, `"online"`, `null`, `"e:onlines"`, `"f:online"`, `"openrouter/fusion"`, `"openrouter/auto"`})
	}
	models := func() string { return g.list(g.IntN(3), model) }
	var request func(depth int, names ...string) string
	var tools func(depth int) string
	tools = func(depth int) string {
		return g.list(g.IntN(4), func() string {
			if g.IntN(8) == 0 {
				return pick(g, []string{"null", kind(), `{"name":` + kind() + `}`})
			}
			names := []string{"type", "name", "parameters", "tools", "model", "models", "analysis_models", "description"}
			g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			return g.object(names[:g.IntN(4)], func(name string) string {
				switch {
				case name == "parameters" && depth > 0 && g.IntN(2) == 0:
					return request(depth-1, "tools", "model", "analysis_models", "x")
				case name == "parameters":
					return pick(g, []string{`{}`, `{"tools":null}`, `{"tools":[]}`, `[]`})
				case name == "tools" && depth > 0:
					return tools(depth - 1)
				case name == "tools":
					return `[]`
				case name == "model":
					return model()
				case name == "models" || name == "analysis_models":
					return models()
				}
				return kind()
			})
		})
	}
	request = func(depth int, names ...string) string {
		g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return g.object(names[:1+g.IntN(len(names))], func(name string) string {
			switch name {
			case "tools":
				return tools(depth)
			case "plugins":
				return g.list(g.IntN(3), func() string {
					id := pick(g, []string{`"id":"moderation"`, `"id":"web"`, `"id":"fusion"`, `"id":"response-healing"`, `"name":"web"`})
					return pick(g, []string{`{` + id + `,"tools":` + tools(1) + `}`, `{` + id + `,"enabled":false}`, `{` + id + `,"models":` + models() + `,"model":` + model() + `}`, `{"enabled":true,` + id + `}`, `{` + id + `,"tools":[]}`})
				})
			case "input", "messages":
				return g.list(g.IntN(3), func() string {
					return pick(g, []string{`{"type":` + kind() + `,"tools":` + tools(1) + `}`, `{"type":` + kind() + `}`, kind()})
				})
			case "model":
				return model()
			case "models", "analysis_models":
				return models()
			case "fallbacks":
				return g.list(g.IntN(3), func() string { return pick(g, []string{`{"model":` + model() + `}`, model(), `{}`}) })
			case "tool_choice":
				return pick(g, []string{`"auto"`, `{"type":` + kind() + `}`, `{"type":"allowed_tools","tools":` + tools(0) + `}`})
			case "web_search_options":
				return pick(g, []string{"null", "false", "null", "{}"})
			case "extra_body":
				return request(0, "tools", "model", "x")
			}
			return pick(g, []string{kind(), `{"tools":` + tools(1) + `,"model":"a:online"}`})
		})
	}
	return request(2, "tools", "plugins", "input", "messages", "model", "models", "fallbacks", "tool_choice", "web_search_options", "extra_body", "metadata", "user")
}

func FuzzDisabledTools(f *testing.F) {
	for _, seed := range []string{
		`{"tools":[{"type":"openrouter:web_search"}]}`,
		`{"tools":[{"type":"openrouter\u003aweb_fetch"}],"tools":[]}`,
		`{"Tools":[{"parameters":{"tools":[{"type":"openrouter:web_search"}]},"type":"openrouter:fusion"}]}`,
		`{"plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_fetch"}]}]}`,
		`{"input":[{"type":"additional_tools","tools":[{"type":"openrouter:web_search"}]}]}`,
		`{"tools":[{"type":["openrouter:web_search"]}]}`,
		`{"tool\u017f":[{"t\u0079pe":"openrouter:web_search"}]}`,
		"\ufeff" + `{"tools":[{"type":"openrouter:web_search"}`,
		`{"tools":[{"type":"openrouter:web_search"}],"input":tru`,
		`{"tools":` + deep(300) + `}`,
		`{"tools":[` + nestedTools(200, `{"type":"openrouter:web_search"}`) + `]}`,
		`[]`, `"openrouter:web_search"`, `{}`, ``,
		`{"model":"openai/gpt:ONLINE"}`, `{"models":["a:free:online"]}`, `{"fallbacks":[{"model":"a:online"}]}`, `{"model":"openrouter/fusion"}`,
		`{"plugins":{"web":{}}}`, `{"plugins":[{"id":"web","Enabled":false}]}`, `{"plugins":["web"]}`, `{"plugins":[{"id":"fusion"}]}`,
		`{"tools":[{"type":"openrouter:fusion","parameters":{"tools":null,"tools":[]}}]}`, `{"tools":{"type":"web_search"}}`,
		`{"tools":[{"type":"namespace","tools":[{"type":"web_search"}]}]}`, `{"tools":[{"googleSearch":{}}]}`,
		`{"tools":[{"type":"openrouter:advisor","parameters":{"model":"@preset/x"}}]}`, `{"tools":[{"type":"function","parameters":[]}]}`,
		`{"web_search_options":{}}`, `{"extra_body":{"extra_body":{"enable_search":true}}}`, `{"tool_choice":{"type":"web_search_preview"}}`,
		`{"messages":[{"role":"system","tools":[{"type":"web_search"}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	r, stop, err := openResolving(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	resolver := inference.NewResolver(r.fixture, inference.Config{})
	f.Cleanup(func() { _ = stop() })
	who := r.strict(f, "strict", fetch, search)
	f.Fuzz(func(t *testing.T, body []byte) {
		if named, sure := namesPreset(body); named || !sure && strings.Contains(string(body), "preset") || strings.Contains(string(body), `\u00`) && !sure {
			return // FuzzResolve's business
		}
		sent := slices.Clone(body)
		got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: chat, Body: body})
		if fault := checkDisabled(sent, err); fault != "" {
			t.Fatalf("%q %s: %v", sent, fault, err)
		}
		if err == nil && got.Body.String() != string(sent) || string(body) != string(sent) {
			t.Fatalf("got  %q\nwant %q", got.Body, sent)
		}
	})
}

// The memory of a search does not grow with the nesting depth of tools.
func TestDeepToolsTakeLittleMemory(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", search)
	many := strings.Repeat(`{"type":"openrouter:datetime"},`, 20000)
	body := []byte(`{"tools":[` + nestedTools(3000, many+`{"type":"function"}`) + `]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: chat, Body: body})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16*len(body)); took > most {
		t.Errorf("got %d KiB taken for a body of %d KiB, want at most %d", took>>10, len(body)>>10, most>>10)
	}
}

// unreadable is a store whose reads fail.
type unreadable struct{ err error }

func (u unreadable) View(context.Context, func(domain.Reader) error) error { return u.err }

func (u unreadable) Update(context.Context, func(domain.Tx) error) error { return u.err }

func (unreadable) Stamps() *domain.Stamps     { return domain.NewStamps() }
func (unreadable) Node() string               { return "" }
func (unreadable) Sync(context.Context) error { return nil }

// A request that certainly uses no server tool passes while the store is unavailable. On
// other failures it does not: a damaged workspace may have disabled anything.
func TestToolsWithoutAStore(t *testing.T) {
	damaged := errors.New("damaged")
	for _, tc := range []struct {
		failure error
		sent    inference.Request
		passes  bool
	}{
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"type":"function"}]}`)}, true},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"type":"` + search + `"}]}`)}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"plugins":[{"id":"web"}]}`)}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":`)}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte("{\"to\xffols\":[]}")}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"type":"function"}]}`), OtherType: true}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"model":"m"}`), Query: "model=m:online"}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"name":"f"}],"tool_choice":{"type":"auto"},"model":"m"}`)}, true},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"type":"later"}]}`)}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"model":"m:online"}`)}, false},
		{domain.ErrUnavailable, inference.Request{Dialect: chat, Body: []byte(`{"plugins":{"web":{}}}`)}, false},
		{damaged, inference.Request{Dialect: chat, Body: []byte(`{"tools":[{"type":"function"}]}`)}, false},
	} {
		resolver := inference.NewResolver(unreadable{tc.failure}, inference.Config{})
		_, err := resolver.Resolve(t.Context(), admin, tc.sent)
		if tc.passes && err != nil || !tc.passes && !errors.Is(err, tc.failure) {
			t.Errorf("%v, %s: got %v, want that it passes: %t", tc.failure, tc.sent.Body, err, tc.passes)
		}
	}
}
