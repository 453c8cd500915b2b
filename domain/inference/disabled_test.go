package inference_test

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
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
	cases := append(table.Read(t, "testdata/disabled.txt", "dialect", "request", "place", "tool"), []table.Case{
		{"=": "white space", "request": "\n{ \"tools\" : [ { \"type\"\t:\r\n\"openrouter:web_search\" } ] } ", "place": "/tools/0/type"},
		{"=": "all escapes", "request": `{"` + escaped("tools") + `":[{"` + escaped("type") + `":"` + escaped(search) + `"}]}`, "place": "/tools/0/type"},
		{"=": "no UTF-8 before it", "dialect": "responses", "request": "{\"input\":\"\xff\\ud800\",\"tools\":[{\"type\":\"openrouter:web_search\"}]}", "place": "/tools/0/type"},
		{"=": "of a subagent's fusion", "request": `{"tools":[` + nestedTools(2, `{"type":"openrouter:web_search"}`) + `]}`, "place": "/tools/0/parameters/tools/0/parameters/tools/0/type"},
	}...)
	for _, tc := range cases {
		for _, dialect := range allDialects {
			if tc["dialect"] != "" && tc["dialect"] != string(dialect) {
				continue
			}
			t.Run(tc["="]+"/"+string(dialect), func(t *testing.T) {
				tool := cmp.Or(tc["tool"], search)
				sent := inference.Request{Dialect: dialect, Body: []byte(tc["request"])}
				got, err := resolver.Resolve(t.Context(), who, sent)
				wantKind(t, err, domain.Forbidden, "Server tool "+tool+" is disabled in this workspace")
				if e, ok := errors.AsType[*domain.Error](err); ok && (len(e.Issues) != 1 || e.Issues[0].Path != tc["place"]) {
					t.Errorf("got issues %q, want one at %s", e.Issues, tc["place"])
				}
				if got.Preset != "" {
					t.Errorf("got preset %q, want none", got.Preset)
				}
				elsewhere, err := resolver.Resolve(t.Context(), domain.Principal{}, sent)
				wantBody(t, elsewhere, err, tc["request"])
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
	resolver := r.resolver(t, inference.Config{AllowFields: []string{"metadata"}})
	who := r.strict(t, "strict", fetch, search)
	for body, dialects := range map[string][]domain.Dialect{
		`{"tools":[{"type":"openrouter:datetime"},{"type":"openrouter:subagent","parameters":{"tools":[{"type":"openrouter:bash"}]}}]}`:                                                        allDialects,
		`{"plugins":[{"id":"web","enabled":false},{"enabled":false,"id":"web-fetch"},{"id":"fusion","tools":[]},{"id":"fusion","enabled":false}]}`:                                             allDialects,
		`{"input":"use openrouter:web_search, as in {\"tools\":[{\"type\":\"openrouter:web_search\"}]}"}`:                                                                                      {responses},
		`{"messages":[{"role":"user","content":[{"type":"openrouter:web_search","tools":[{"type":"openrouter:web_search"}]}]}]}`:                                                               {chat, messages},
		`{"input":[{"type":"openrouter:web_search","status":"completed","action":{"type":"search","query":"x"}}]}`:                                                                             {responses},
		`{"input":[{"type":"mcp_list_tools","id":"l","server_label":"s","tools":[{"name":"web_search","input_schema":{},"annotations":null}]}]}`:                                               {responses},
		`{"tools":[{"type":"function","name":"openrouter:web_search"},{"type":"function","function":{"name":"openrouter:web_search"}}]}`:                                                       allDialects,
		`{"tools":[{"type":"function","parameters":{"type":"object","properties":{"tools":{"enum":["openrouter:web_search"]}}},"description":"litellm_web_search"}]}`:                          allDialects,
		`{"tools":[{"type":"function","function":{"parameters":{"tools":[{"type":"openrouter:web_search"}]}}}]}`:                                                                               {chat},
		`{"tools":[{"type":"custom","name":"web_searches"},{"name":"WebFetch","input_schema":{}},{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f"}]}]}`: allDialects,
		`{"tool_choice":{"type":"function","name":"openrouter:web_search","function":{"name":"web_search"}},"tools":[]}`:                                                                       allDialects,
		`{"tool_choice":"auto"}`: allDialects,
		`{"tools":[{"type":"openrouter:fusion","parameters":{"tools":[]}},{"type":"openrouter:fusion","parameters":{"tools":[{"type":"openrouter:datetime"}]}}]}`: allDialects,
		`{"model":"online/gpt:free","models":["a:onlines","b:not-online","online","openrouter/fusion-2","openrouter/auto"],"fallbacks":[{"model":"a:b"},"c"]}`:    allDialects,
		`{"user":"a:online","metadata":{"tools":[{"type":"openrouter:web_search"}]}}`:                                                                             allDialects,
		`{"tools":null,"plugins":null,"model":null,"models":null,"fallbacks":null,"tool_choice":null}`:                                                            allDialects,
		`{"web_search_options":null}`: {chat},
		`{"mcp_servers":null}`:        {messages},
		`{}`:                          allDialects,
	} {
		for _, dialect := range dialects {
			sent := []byte(body)
			got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: dialect, Body: sent})
			wantBody(t, got, err, body)
			if err == nil && &got.Body.Bytes()[0] != &sent[0] {
				t.Errorf("%s: got a copy of the body, want itself", body)
			}
		}
	}
}

// A request that a gateway may read differently could use any tool.
func TestWhatCannotBeReadWhereToolsAreDisabled(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	strict, free := r.strict(t, "strict", fetch, search), r.team(t, "free", "", "")
	cases := map[string]string{
		``: "body: ", `[]`: "body: ", `"x"`: "body: ", `tools=openrouter:web_search`: "body: ",
		"\ufeff" + `{}`:                                             "body: ",
		`{"metadata":` + deep(10001) + `}`:                          "body: ",
		"{\"to\xffols\":[]}":                                        "body: has a name, type or role that is not UTF-8",
		`{"model":"` + strings.Repeat("a", 4097) + `"}`:             "/model: must be a string of at most 4096 bytes",
		`{"tools":[` + nestedTools(9, `{"type":"function"}`) + `]}`: "is nested too deeply",
		`{"tools":[` + strings.TrimSuffix(strings.Repeat(`{},`, 64<<10+1), ",") + `]}`: "/tools/65536: must not bring the tools and plugins above 65536",
		`{"models":[` + strings.TrimSuffix(strings.Repeat(`"n",`, 1025), ",") + `]}`:   "/models: must be an array of at most 1024",
	}
	for _, tc := range refusals(t, "testdata/unreadable.txt") {
		cases[tc.body] = tc.says
	}
	for body, message := range cases {
		for _, dialect := range allDialects {
			sent := inference.Request{Dialect: dialect, Body: []byte(body)}
			_, err := resolver.Resolve(t.Context(), strict, sent)
			if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), message) {
				t.Errorf("%s %.80s: got error %v, want %s", dialect, body, err, message)
			}
			if got, err := resolver.Resolve(t.Context(), free, sent); !strings.Contains(body, "@preset") {
				wantBody(t, got, err, body)
			}
		}
	}
}

func TestDisabledToolsOfATemplate(t *testing.T) {
	r := newResolving(t)
	r.disable(t, r.home.ID, search)
	r.putTemplate(t, "p", responses, `{"model":"m","input":[{"role":"user","content":"{{x}}"},{"type":"additional_tools","role":"developer","tools":[{"type":"web_search"}]}]}`)
	_, err := r.resolver(t, inference.Config{}).Resolve(t.Context(), user, inference.Request{Dialect: responses, Body: []byte(namesWithPrompt("p", `{"x":"1"}`, ""))})
	wantDisabled(t, err, search, "")
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
		{name: "the request's", config: `{"tools":[{"type":"openrouter:datetime"}]}`, body: `{"preset":"p","tools":[{"type":"function"},{"type":"openrouter:web_search"}]}`, tool: search, place: "/tools/1/type"},
		{name: "the request's plugin", config: `{}`, body: `{"preset":"p","plugins":[{"id":"fusion","tools":[{"type":"openrouter:web_search"}]}]}`, tool: search, place: "/plugins/0/tools/0/type"},
		{name: "the request's in the place of the preset's", config: `{"tools":[{"type":"function"},{"type":"openrouter:web_search"}]}`, body: `{"preset":"p","tools":[{"type":"openrouter:web_search","parameters":{}}]}`, tool: search, place: "/tools/0/type"},
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
		`{"model":"m","user":"+AHQ-ools"}`:                   false,
		`{"model":"m","user":"&model=m:online&input=x&z="}`:  false,
		`{"preset":"p","user":"+AHQ-ools"}`:                  true, // it goes upstream as JSON
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

// The memory of a search grows with the body alone.
func TestManyToolsTakeLittleMemory(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	who := r.strict(t, "strict", search)
	many := strings.Repeat(`{"type":"openrouter:datetime"},`, 20000)
	body := []byte(`{"tools":[` + nestedTools(3, many+`{"type":"function"}`) + `]}`)
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
