package inference_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// topLevel splits an object with the standard library's decoder, which domain
// does not use. ok is false for anything else.
func topLevel(text []byte) (names []string, values []json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') || !json.Valid(text) {
		return nil, nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, false
		}
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values, true
}

// wantBody compares the upstream body and the reported fields.
func wantBody(t *testing.T, got inference.Resolution, err error, want string) {
	t.Helper()
	if err != nil {
		t.Errorf("got error %v\nwant %s", err, want)
		return
	}
	if got.Body.String() != want {
		t.Errorf("got  %s\nwant %s", got.Body, want)
	}
	var fields []string
	told, err := got.Fields()
	for _, f := range told {
		fields = append(fields, f.Name)
	}
	const most = 256 // fields that are told
	switch names, _, ok := topLevel(got.Body.Bytes()); {
	case ok && len(names) > most && err == nil:
		t.Errorf("got %d fields and no error, want at most %d", len(fields), most)
	case ok && len(names) <= most && (err != nil || !slices.EqualFunc(fields, names, isNameCut)):
		t.Errorf("got fields %q, error %v\nwant %q, those of the body in order", fields, err, names)
	}
}

// isNameCut reports whether a field's name is shown as it should be.
func isNameCut(shown, name string) bool {
	return shown == name || len(shown) > rawjson.MaxName && strings.HasPrefix(name, shown)
}

// storeEmail stores the presets that the tests of references name. Each
// version of @preset/email is told by its model, and two have labels.
func (r *resolving) storeEmail(tb testing.TB) {
	tb.Helper()
	for _, model := range []string{"one", "two", "three", "four"} {
		p := r.put(tb, r.home.ID, "email", version{dialect: domain.Responses, config: `{"model":"` + model + `","temperature":1}`})
		if model == "four" { // the newest is not the designated one
			r.change(tb, p, func(p *domain.Preset) {
				p.DesignatedVersion = 3
				p.Labels = map[string]domain.Target{
					"staging": {Version: 2},
					"1.0-rc~": {Version: 1},
					"split":   {Split: []domain.Share{{Version: 1}, {Version: 4, Weight: 1}}},
				}
			})
		}
	}
	r.put(tb, r.home.ID, "Email", version{dialect: domain.Responses, config: `{"model":"other"}`})
	for _, status := range []domain.PresetStatus{"archived", "disabled"} {
		p := r.put(tb, r.home.ID, string(status), version{dialect: domain.Responses, config: `{"model":"m"}`})
		r.change(tb, p, func(p *domain.Preset) { p.Status = status })
	}
}

func TestReferences(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{})
	longest, long := strings.Repeat("x", 4083), strings.Repeat("x", 2000)
	for _, tc := range []struct {
		name, body, want string
		slug             string // "email" if empty
		version          int    // 3 if zero
	}{
		{name: "direct", body: `{"model":"@preset/email","input":"x"}`, want: `{"model":"three","input":"x","temperature":1}`},
		{name: "direct, pinned", body: `{"model":"@preset/email@1","input":"x"}`, want: `{"model":"one","input":"x","temperature":1}`, version: 1},
		{name: "direct, pinned to the newest", body: `{"model":"@preset/email@4"}`, want: `{"model":"four","temperature":1}`, version: 4},
		{name: "combined", body: `{"model":"openai/gpt-5:free@preset/email"}`, want: `{"model":"openai/gpt-5:free","temperature":1}`},
		{name: "combined, pinned", body: `{"model":"gpt@preset/email@2"}`, want: `{"model":"gpt","temperature":1}`, version: 2},
		{name: "combined with a model that has an @", body: `{"model":"gpt@2025@preset/email"}`, want: `{"model":"gpt@2025","temperature":1}`},
		{name: "combined with the longest model", body: `{"model":"` + longest + `@preset/email"}`, want: `{"model":"` + longest + `","temperature":1}`},
		{name: "long names that begin alike", body: `{"preset":"email","` + long + `a":1,"` + long + `b":2}`, want: `{"` + long + `a":1,"` + long + `b":2,"model":"three","temperature":1}`},
		{name: "field", body: `{"preset":"email","input":"x"}`, want: `{"input":"x","model":"three","temperature":1}`},
		{name: "field, pinned", body: `{"preset":"email@2","input":"x"}`, want: `{"input":"x","model":"two","temperature":1}`, version: 2},
		{name: "field next to a model", body: `{"model":"gpt","preset":"email"}`, want: `{"model":"gpt","temperature":1}`},
		{name: "another letter case is another preset", body: `{"preset":"Email"}`, want: `{"model":"other"}`, slug: "Email", version: 1},
		{name: "two equal references", body: `{"model":"@preset/email","preset":"email"}`, want: `{"model":"three","temperature":1}`},
		{name: "two equal references, pinned", body: `{"preset":"email@1","model":"m@preset/email@1"}`, want: `{"model":"m","temperature":1}`, version: 1},
		{name: "a null preset next to a reference", body: `{"model":"@preset/email","preset":null}`, want: `{"model":"three","temperature":1}`},
		{name: "escaped slash", body: `{"model":"@preset\/email"}`, want: `{"model":"three","temperature":1}`},
		{name: "escaped letters", body: `{"model":"\u0040\u0070\u0072\u0065\u0073\u0065\u0074\u002F\u0065mail"}`, want: `{"model":"three","temperature":1}`},
		{name: "escaped name", body: `{"\u0070\u0072\u0065\u0073\u0065\u0074":"\u0065mail"}`, want: `{"model":"three","temperature":1}`},
		{name: "escaped name of model", body: `{"mod\u0065l":"@preset/email","input":1}`, want: `{"mod\u0065l":"three","input":1,"temperature":1}`},
		{name: "one of several escapes", body: `{"pr\u0065set":"email"}`, want: `{"model":"three","temperature":1}`},
		{name: "escaped combined model", body: `{"model":"gpt\u002d5@preset/email"}`, want: `{"model":"gpt-5","temperature":1}`},
		{name: "white space", body: "\n{ \"model\" :\t\"@preset/email\" , \"input\" : [ 1 , 2 ]\r\n}\n ", want: `{"model":"three","input":[ 1 , 2 ],"temperature":1}`},
		{name: "text that looks like references", body: `{"preset":"email","input":"ask @preset/other and \"model\":\"@preset/x\""}`, want: `{"input":"ask @preset/other and \"model\":\"@preset/x\"","model":"three","temperature":1}`},
		{name: "direct, by a label", body: `{"model":"@preset/email@staging","input":"x"}`, want: `{"model":"two","input":"x","temperature":1}`, version: 2},
		{name: "combined, by a label", body: `{"model":"gpt@preset/email@staging"}`, want: `{"model":"gpt","temperature":1}`, version: 2},
		{name: "field, by a label", body: `{"preset":"email@staging"}`, want: `{"model":"two","temperature":1}`, version: 2},
		{name: "by a label, escaped", body: `{"preset":"email\u0040st\u0061ging"}`, want: `{"model":"two","temperature":1}`, version: 2},
		{name: "by a label that begins like a number", body: `{"model":"@preset/email@1.0-rc~"}`, want: `{"model":"one","temperature":1}`, version: 1},
		{name: "by a label with a split", body: `{"model":"@preset/email@split"}`, want: `{"model":"four","temperature":1}`, version: 4},
		{name: "two equal references, by a label", body: `{"preset":"email@staging","model":"m@preset/email@staging"}`, want: `{"model":"m","temperature":1}`, version: 2},
		{name: "models without a reference", body: `{"preset":"email","models":["a","@presets/b"]}`, want: `{"models":["a","@presets/b"],"model":"three","temperature":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(tc.body)})
			wantBody(t, got, err, tc.want)
			if tc.slug == "" {
				tc.slug = "email"
			}
			if tc.version == 0 {
				tc.version = 3
			}
			if got.Preset != tc.slug || got.Version != tc.version || got.WorkspaceID != r.home.ID {
				t.Errorf("got  %s version %d in %s\nwant %s version %d in %s", got.Preset, got.Version, got.WorkspaceID, tc.slug, tc.version, r.home.ID)
			}
		})
	}
}

// deep returns arrays nested so deep.
func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestRequestsWithoutAReferencePassUnchanged(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{DropFields: []string{"provider"}})
	manyFields := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `"f%d":"preset",`, i)
		}
		return `{` + text.String() + `"last":1}`
	}
	for name, body := range map[string]string{
		"no mention":                         `{"model":"gpt","input":"hi","provider":{}}`,
		"null preset":                        `{ "model":"gpt", "preset":null , "provider":{}}`,
		"null preset, escaped":               `{"\u0070reset":null}`,
		"mention in text":                    `{"model":"gpt","input":"@preset/email"}`,
		"mention in messages":                `{"model":"gpt","messages":[{"role":"user","content":"{\"preset\":\"email\",\"model\":\"@preset/email\"}"}]}`,
		"preset of an inner object":          `{"model":"gpt","metadata":{"preset":"email","model":"@preset/email"}}`,
		"reference elsewhere":                `{"model":"gpt","user":"@preset/email","Model":"@preset/email","Preset":"email"}`,
		"no slash":                           `{"model":"@preset"}`,
		"no at sign":                         `{"model":"preset/email"}`,
		"other letter case":                  `{"model":"@Preset/email"}`,
		"model is no string":                 `{"model":["@preset/email"]}`,
		"duplicate names":                    `{"input":"preset","input":2, "model":"a","model":"b"}`,
		"duplicate session_id":               `{"session_id":"a","session_id":"b"}`,
		"empty":                              ``,
		"only white space":                   " \n",
		"array":                              `[{"preset":"email"}]`,
		"string":                             `"@preset/email"`,
		"number":                             `12`,
		"not JSON":                           `model=@preset/email&preset=email`,
		"malformed before the reference":     `{"input":tru,"preset":"email"}`,
		"cut off before the reference":       `{"input":"preset`,
		"cut off in the reference's name":    `{"preset`,
		"cut off after the reference's name": `{"preset":`,
		"cut off in the reference":           `{"preset":"emai`,
		"missing comma before the reference": `{"input":1 "preset":"email"}`,
		"trailing text":                      `{"model":"gpt","input":"preset"} x`,
		"byte order mark":                    "\ufeff" + `{"preset":"email"}`,
		"UTF-16":                             "{\x00\"\x00p\x00r\x00e\x00s\x00e\x00t\x00",
		"lone surrogates":                    `{"model":"gpt\ud800","input":"\udc00 preset"}`,
		"invalid UTF-8":                      "{\"model\":\"gpt\xff\",\"\xfe\":\"preset\"}",
		"a NUL":                              "{\"model\":\"gpt\x00preset\"}",
		"many fields":                        manyFields(2000),
		"deep nesting":                       `{"input":` + deep(9000) + `,"user":"preset"}`,
		"deeper than can be read":            `{"user":"preset","input":` + deep(100000) + `}`,
		"never ending":                       `{"user":"preset","input":` + strings.Repeat("[", 100000),
		"numbers":                            `{"model":"preset","temperature":1E400,"top_p":-0,"seed":1.0,"top_k":123456789012345678901234567890}`,
		"white space":                        " {\t\"model\" : \"preset\"\r\n, \"input\":\n[ ] } \n",
		"models and fallbacks without one":   `{"models":["preset",5,null],"fallbacks":[{"model":"preset"},{},"preset/x"]}`,
		"a list of models that is none":      `{"models":"@preset/email","fallbacks":{"model":"@preset/email"}}`,
	} {
		for _, dialect := range []domain.Dialect{domain.Responses, domain.Chat, domain.Messages} {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				r.views = 0
				sent := []byte(body)
				got, err := resolver.Resolve(t.Context(), domain.Principal{WorkspaceSlug: "nowhere"}, inference.Request{Dialect: dialect, Body: sent})
				wantBody(t, got, err, body)
				if len(sent) > 0 && &got.Body.Bytes()[0] != &sent[0] {
					t.Error("got a copy of the body, want itself")
				}
				if got.Preset != "" || got.Version != 0 || got.WorkspaceID != "" || got.Dropped != nil {
					t.Errorf("got %+v, want nothing about a preset", got)
				}
				if r.views > 1 { // one for the workspace's disabled tools
					t.Errorf("got %d views, want one", r.views)
				}
			})
		}
	}
}

func TestReferencesRefused(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{})
	const invalid, notFound = domain.Invalid, domain.NotFound
	fields := func(n int) string { // and the reference as field n
		var text strings.Builder
		for i := range n - 1 {
			fmt.Fprintf(&text, `"f%d":1,`, i)
		}
		return `{` + text.String() + `"preset":"email"}`
	}
	if got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(fields(256))}); err != nil || got.Preset != "email" {
		t.Errorf("256 fields: got %q, %v, want the preset applied", got.Preset, err)
	}
	for _, tc := range append(refusals(t, "testdata/references_refused.txt"), []refusal{
		{"preset with invalid UTF-8", "{\"preset\":\"email\xff\"}", invalid, ": /preset: "},
		{"preset is too long", `{"preset":"` + strings.Repeat("x", 129) + `"}`, invalid, ": /preset: "},
		{"a preset that is very long", `{"preset":"` + strings.Repeat("x", 5000) + `"}`, invalid, ": /preset: must name"},
		{"model that is too long", `{"model":"` + strings.Repeat("x", 4084) + `@preset/email"}`, invalid, ": /model: must be at most 4096 bytes"},
		{"model that is too long with escapes", `{"model":"` + strings.Repeat(`\u0078`, 4084) + `@preset/email"}`, invalid, ": /model: must be at most 4096 bytes"},
		{"a NUL after it", "{\"preset\":\"email\"}\x00", invalid, ": body: "},
		{"a raw line break in a string", "{\"preset\":\"email\",\"input\":\"a\nb\"}", invalid, ": body: "},
		{"too deep after it", `{"preset":"email","input":` + deep(100000) + `}`, invalid, ": body: "},
		{"257 fields", fields(257), invalid, "has more than 256 fields"},
		{"5000 fields", fields(5000), invalid, "has more than 256 fields"},
		{"unknown label, longer than any", `{"preset":"email@` + strings.Repeat("x", 65) + `"}`, notFound, "@preset/email@xxx"},
	}...) {
		t.Run(tc.name, func(t *testing.T) {
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(tc.body)})
			wantKind(t, err, tc.kind, tc.says)
			if got.Preset != "" || got.Version != 0 || got.WorkspaceID != "" {
				t.Errorf("got %s version %d in %s, want none", got.Preset, got.Version, got.WorkspaceID)
			}
		})
	}
	_, err := resolver.Resolve(t.Context(), domain.Principal{WorkspaceSlug: "nowhere"}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"email"}`)})
	wantKind(t, err, notFound, "Workspace not found")
}

// refusal is a request that is refused with an error that says something.
type refusal struct {
	name, body string
	kind       domain.Kind
	says       string
}

// refusals reads a table of testdata.
func refusals(tb testing.TB, file string) (list []refusal) {
	tb.Helper()
	for _, c := range table.Read(tb, file, "request", "invalid", "missing") {
		r := refusal{c["="], c["request"], domain.Invalid, c["invalid"]}
		if c["missing"] != "" {
			r.kind, r.says = domain.NotFound, c["missing"]
		}
		list = append(list, r)
	}
	return list
}

func TestSessionID(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{})
	for name, tc := range map[string]struct{ body, want string }{
		"without a reference":  {`{"session_id":"s1","input":"x"}`, "s1"},
		"with a reference":     {`{"preset":"email","session_id":"s\u0031"}`, "s1"},
		"escaped name":         {`{"s\u0065ssion_id":"s1"}`, "s1"},
		"not a string":         {`{"session_id":5}`, ""},
		"null":                 {`{"session_id":null}`, ""},
		"inside":               {`{"metadata":{"session_id":"s1"}}`, ""},
		"none":                 {`{"input":"session_id"}`, ""},
		"then malformed":       {`{"session_id":"s1",`, "s1"},
		"too long":             {`{"session_id":"` + strings.Repeat("é", 257) + `"}`, ""},
		"the longest":          {`{"preset":"email","session_id":"` + strings.Repeat("é", 256) + `"}`, strings.Repeat("é", 256)},
		"null and a reference": {`{"preset":"email","session_id":null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(tc.body)})
			if got.SessionID != tc.want || err != nil {
				t.Errorf("got %q, %v\nwant %q", got.SessionID, err, tc.want)
			}
		})
	}
}

// A session id that cannot be one is refused where a preset is named, and elsewhere
// is the gateway's business.
func TestSessionIDsBesideAReference(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{})
	long, longest := strings.Repeat("é", 257), strings.Repeat("é", 256)
	for name, tc := range map[string]struct {
		field, header string
		refused       string // empty: served
	}{
		"too long":                       {`"` + long + `"`, "", ": /session_id: must be at most 256 characters"},
		"too long with escapes":          {`"` + strings.Repeat(`\u0061`, 257) + `"`, "", ": /session_id: must be at most 256 characters"},
		"too long, and one in a header":  {`"` + long + `"`, "s", ": /session_id: must be at most 256 characters"},
		"a number":                       {`5`, "", ": /session_id: must be a string"},
		"an object":                      {`{"id":"s"}`, "", ": /session_id: must be a string"},
		"too long in the header":         {`null`, long, ": x-session-id: must be at most 256 characters"},
		"too long in the header alone":   {`"s"`, long, ": x-session-id: must be at most 256 characters"},
		"the longest":                    {`"` + longest + `"`, longest, ""},
		"the longest, all of it escaped": {`"` + strings.Repeat(`\u00e9`, 256) + `"`, "", ""},
		"null":                           {`null`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range allDialects {
				sent := inference.Request{Dialect: dialect, SessionID: tc.header, Body: []byte(`{"session_id":` + tc.field + `,"preset":"email"}`)}
				_, err := resolver.Resolve(t.Context(), domain.Principal{}, sent)
				if tc.refused != "" {
					wantKind(t, err, domain.Invalid, tc.refused)
				} else if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				sent.Body = []byte(`{"session_id":` + tc.field + `,"model":"m","input":"a preset"}`)
				got, err := resolver.Resolve(t.Context(), domain.Principal{}, sent)
				wantBody(t, got, err, string(sent.Body))
			}
		})
	}
}

func TestADamagedVersionIsNobodysFault(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for name, config := range map[string]string{
		"not JSON":        `{"model":`,
		"not an object":   `["model"]`,
		"tools no array":  `{"model":"m","tools":{}}`,
		"text at the end": `{"model":"m"} x`,
	} {
		t.Run(name, func(t *testing.T) {
			r.put(t, r.home.ID, "damaged", version{dialect: domain.Responses, config: config})
			_, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"damaged"}`)})
			wantKind(t, err, domain.Internal, "damaged")
		})
	}
}

// warm resolves twice, and returns the second result. The second time takes no view.
func (r *resolving) warm(t *testing.T, resolver *inference.Resolver, who domain.Principal, body string) inference.Resolution {
	t.Helper()
	resolve := func() inference.Resolution {
		got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: domain.Responses, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	resolve()
	before := r.views
	got := resolve()
	if r.views != before {
		t.Fatalf("%s is read from the store again", body)
	}
	return got
}

func TestAChangeActsOnTheNextRequest(t *testing.T) {
	const body = `{"preset":"p","input":"x"}`
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, r *resolving, p domain.Preset)
		want   string // empty: NotFound
	}{
		{"new version", func(t *testing.T, r *resolving, p domain.Preset) {
			in, err := capture(t, `{"temperature":2}`)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), p.WorkspaceID, "p", in, domain.Release{}); err != nil {
				t.Fatal(err)
			}
		}, `{"input":"x","temperature":2,"model":"dm"}`},
		{"archived", func(t *testing.T, r *resolving, p domain.Preset) {
			r.change(t, p, func(p *domain.Preset) { p.Status = "archived" })
		}, ""},
		{"disabled", func(t *testing.T, r *resolving, p domain.Preset) {
			r.change(t, p, func(p *domain.Preset) { p.Status = "disabled" })
		}, ""},
		{"another version designated", func(t *testing.T, r *resolving, p domain.Preset) {
			r.change(t, p, func(p *domain.Preset) { p.DesignatedVersion = 1 })
		}, `{"input":"x","temperature":0,"model":"dm"}`},
		{"default model", func(t *testing.T, r *resolving, p domain.Preset) {
			r.changeWorkspace(t, p.WorkspaceID, func(w *domain.Workspace) { w.DefaultTextModel = new("dm2") })
		}, `{"input":"x","temperature":1,"model":"dm2"}`},
		{"default provider sort", func(t *testing.T, r *resolving, p domain.Preset) {
			r.changeWorkspace(t, p.WorkspaceID, func(w *domain.Workspace) { w.DefaultProviderSort = new("price") })
		}, `{"input":"x","temperature":1,"provider":{"sort":"price"},"model":"dm"}`},
		{"the workspace's slug, which the key names", func(t *testing.T, r *resolving, p domain.Preset) {
			r.changeWorkspace(t, p.WorkspaceID, func(w *domain.Workspace) { w.Slug = "team-old" })
		}, ""},
		{"the workspace's slug taken over", func(t *testing.T, r *resolving, p domain.Preset) {
			other := r.team(t, "other", "taken", "")
			r.put(t, other.WorkspaceID, "p", version{dialect: domain.Responses, config: `{"temperature":9}`})
			r.changeWorkspace(t, p.WorkspaceID, func(w *domain.Workspace) { w.Slug = "team-old" })
			r.changeWorkspace(t, other.WorkspaceID, func(w *domain.Workspace) { w.Slug = "team" })
		}, `{"input":"x","temperature":9,"model":"taken"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newResolving(t)
			resolver := r.resolver(t, inference.Config{})
			team := r.team(t, "team", "dm", "")
			r.put(t, team.WorkspaceID, "p", version{dialect: domain.Responses, config: `{"temperature":0}`})
			p := r.put(t, team.WorkspaceID, "p", version{dialect: domain.Responses, config: `{"temperature":1}`})
			byslug := domain.Principal{WorkspaceSlug: "team"}
			wantBody(t, r.warm(t, resolver, byslug, body), nil, `{"input":"x","temperature":1,"model":"dm"}`)
			tc.change(t, r, p)
			got, err := resolver.Resolve(t.Context(), byslug, inference.Request{Dialect: domain.Responses, Body: []byte(body)})
			if tc.want == "" {
				wantKind(t, err, domain.NotFound, "not found")
			} else {
				wantBody(t, got, err, tc.want)
			}
		})
	}
}

// restorable is a store in whose place a backup of it may come.
type restorable struct {
	domain.Store
	stamps *domain.Stamps
	// meanwhile is called once before the next view, unless it is nil.
	meanwhile func()
}

func (s *restorable) Stamps() *domain.Stamps { return s.stamps }

func (s *restorable) View(ctx context.Context, fn func(domain.Reader) error) error {
	if meanwhile := s.meanwhile; meanwhile != nil {
		s.meanwhile = nil
		meanwhile()
	}
	return s.Store.View(ctx, fn)
}

// After a backup was restored, a new version got the number of a lost one. The lost version
// must never be served again.
func TestLostVersionsAreNotServed(t *testing.T) {
	put := func(t *testing.T, s domain.Store, w domain.Workspace, models ...string) {
		t.Helper()
		for _, model := range models {
			err := s.Update(t.Context(), func(tx domain.Tx) error {
				_, err := putVersion(tx, w.ID, "p", w.ID, domain.PresetVersion{
					ID: uuid.NewString(), Dialect: responses, Config: json.RawMessage(`{"model":"` + model + `"}`), CreatorID: "ann",
				})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// Engines report a restore in both ways. They use the first while the store is open,
	// and the second when it is opened again.
	for name, tell := range map[string]func(s *restorable, to domain.Store){
		"all has changed": func(s *restorable, to domain.Store) {
			change := s.stamps.Change()
			change.All()
			change.Begin()
			s.Store = to
			change.End()
		},
		"opened again": func(s *restorable, to domain.Store) { s.Store, s.stamps = to, to.Stamps() },
	} {
		for when, during := range map[string]bool{"before a request": false, "during one": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				r := newResolving(t)
				s := &restorable{Store: r.store, stamps: r.store.Stamps()}
				r.store = s
				resolver := r.resolver(t, inference.Config{})
				put(t, s, r.home, "one", "two")
				for _, body := range []string{`{"preset":"p"}`, `{"preset":"p@2"}`} {
					wantBody(t, r.warm(t, resolver, domain.Principal{}, body), nil, `{"model":"two"}`)
				}
				backup, err := badger.OpenInMemory()
				if err != nil {
					t.Fatal(err)
				}
				defer backup.Close()
				if err := backup.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(r.home) }); err != nil {
					t.Fatal(err)
				}
				put(t, backup, r.home, "one", "new")
				if during {
					put(t, s, r.home, "three") // and so the preset is read
					s.meanwhile = func() { tell(s, backup) }
				} else {
					tell(s, backup)
				}
				for _, body := range []string{`{"preset":"p"}`, `{"preset":"p@2"}`, `{"preset":"p"}`} {
					got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: responses, Body: []byte(body)})
					wantBody(t, got, err, `{"model":"new"}`)
				}
				wantBody(t, r.warm(t, resolver, domain.Principal{}, `{"preset":"p@2"}`), nil, `{"model":"new"}`)
			})
		}
	}
}

func TestAPresetThatComesBackActsOnTheNextRequest(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	body := []byte(`{"preset":"p"}`)
	_, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: body})
	wantKind(t, err, domain.NotFound, "@preset/p")
	p := r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"m"}`})
	got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: body})
	wantBody(t, got, err, `{"model":"m"}`)
	r.change(t, p, func(p *domain.Preset) { p.Status = "archived" })
	_, err = resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: body})
	wantKind(t, err, domain.NotFound, "@preset/p")
	r.change(t, p, func(*domain.Preset) {})
	got, err = resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: body})
	wantBody(t, got, err, `{"model":"m"}`)
}

func TestWhatIsKeptIsNotReadAgain(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := r.resolver(t, inference.Config{})
	for _, body := range []string{`{"preset":"email"}`, `{"model":"@preset/email@1"}`, `{"model":"gpt@preset/email@2"}`} {
		r.warm(t, resolver, domain.Principal{}, body)
	}
	before := r.views
	for range 100 {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"model":"other","preset":"email@2"}`)})
		wantBody(t, got, err, `{"model":"other","temperature":1}`)
	}
	if r.views != before {
		t.Errorf("got %d views, want none", r.views-before)
	}
}

func TestWorkspacesDoNotMix(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	a, b := r.team(t, "a", "", ""), r.team(t, "b", "", "price")
	for _, in := range []struct {
		who   domain.Principal
		model string
	}{{a, "of a"}, {b, "of b"}, {domain.Principal{WorkspaceID: r.home.ID}, "of default"}} {
		r.put(t, in.who.WorkspaceID, "same", version{dialect: domain.Responses, config: `{"model":"` + in.model + `"}`})
	}
	r.put(t, a.WorkspaceID, "only-a", version{dialect: domain.Responses, config: `{"model":"of a"}`})
	for range 50 { // cold, then warm
		for _, tc := range []struct {
			who  domain.Principal
			want string
		}{
			{a, `{"model":"of a"}`},
			{domain.Principal{WorkspaceSlug: "a"}, `{"model":"of a"}`},
			{b, `{"model":"of b","provider":{"sort":"price"}}`},
			{domain.Principal{WorkspaceSlug: "b"}, `{"model":"of b","provider":{"sort":"price"}}`},
			{domain.Principal{}, `{"model":"of default"}`},
			{domain.Principal{WorkspaceSlug: "default"}, `{"model":"of default"}`},
		} {
			got, err := resolver.Resolve(t.Context(), tc.who, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"same"}`)})
			wantBody(t, got, err, tc.want)
		}
		_, err := resolver.Resolve(t.Context(), a, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"only-a"}`)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = resolver.Resolve(t.Context(), b, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"only-a"}`)})
		wantKind(t, err, domain.NotFound, "@preset/only-a")
		_, err = resolver.Resolve(t.Context(), domain.Principal{WorkspaceID: b.WorkspaceID[:35] + "?"}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"same"}`)})
		wantKind(t, err, domain.NotFound, "Workspace not found")
		if t.Failed() {
			return
		}
	}
}

func TestDialectsAndDropFieldsDoNotMix(t *testing.T) {
	r := newResolving(t)
	plain, dropping := r.resolver(t, inference.Config{}), r.resolver(t, inference.Config{DropFields: []string{"top_p"}})
	r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"m","max_output_tokens":5,"top_p":1}`})
	for range 50 {
		for _, tc := range []struct {
			resolver *inference.Resolver
			dialect  domain.Dialect
			want     string
		}{
			{plain, domain.Responses, `{"model":"m","max_output_tokens":5,"top_p":1}`},
			{plain, domain.Chat, `{"model":"m","max_completion_tokens":5,"top_p":1}`},
			{plain, domain.Messages, `{"model":"m","max_tokens":5,"top_p":1}`},
			{dropping, domain.Responses, `{"model":"m","max_output_tokens":5}`},
		} {
			got, err := tc.resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: tc.dialect, Body: []byte(`{"preset":"p"}`)})
			wantBody(t, got, err, tc.want)
		}
		if t.Failed() {
			return
		}
	}
}

func TestAResultIsNotChangedByLaterRequests(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"model":"m","tools":[{"type":"x"}]}`, prompt: "Be brief."})
	body := func(text string) []byte {
		return []byte(`{"preset":"p","messages":[{"role":"user","content":"` + text + `"}],"tools":[{"type":"` + text + `"}]}`)
	}
	want := func(text string) string {
		return `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + text + `"}],"tools":[{"type":"x"},{"type":"` + text + `"}],"model":"m"}`
	}
	first, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: body("first")})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		again, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: body("again")})
		wantBody(t, again, err, want("again"))
	}
	wantBody(t, first, nil, want("first"))
}

// A Resolver that was closed, also while requests run, reads the store for each request.
func TestAfterCloseTheStoreAnswers(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	resolver := inference.NewResolver(r.fixture, inference.Config{})
	r.warm(t, resolver, domain.Principal{}, `{"preset":"email"}`)
	ask := func() {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"email"}`)})
		wantBody(t, got, err, `{"model":"three","temperature":1}`)
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 100 {
				ask()
			}
		})
	}
	resolver.Close()
	running.Wait()
	for range 3 {
		before := r.views
		ask()
		if r.views == before {
			t.Error("got no view, want the store read")
		}
	}
	resolver.Close() // again
}

func TestNoRequestGetsAnOldVersion(t *testing.T) {
	r := newResolving(t)
	resolver := inference.NewResolver(r.store, inference.Config{Memory: domain.NewMemory(1 << 20)})
	const slugs, writers, versions, readers = 3, 3, 150, 4
	var acknowledged [slugs]atomic.Int64 // the newest version that was
	write := func(i int) {
		slug, n := fmt.Sprint("p", i), 0
		id := uuid.NewString()
		err := r.store.Update(t.Context(), func(tx domain.Tx) error {
			n = 1
			if p, err := tx.Preset(r.home.ID, slug); err == nil {
				n = p.LatestVersion + 1
			}
			_, err := putVersion(tx, r.home.ID, slug, id, domain.PresetVersion{
				ID: uuid.NewString(), Dialect: domain.Responses, Config: fmt.Appendf(nil, `{"model":"v%d"}`, n),
			})
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
		for {
			last := acknowledged[i].Load()
			if int64(n) <= last || acknowledged[i].CompareAndSwap(last, int64(n)) {
				return
			}
		}
	}
	for i := range slugs {
		write(i)
	}
	var writing, reading sync.WaitGroup
	var done atomic.Bool
	var resolved atomic.Int64
	for range readers {
		reading.Go(func() {
			for i := 0; !done.Load(); i = (i + 1) % slugs {
				least := acknowledged[i].Load()
				got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: fmt.Appendf(nil, `{"preset":"p%d"}`, i)})
				if err != nil {
					t.Error(err)
					return
				}
				if want := fmt.Sprintf(`{"model":"v%d"}`, got.Version); int64(got.Version) < least || got.Body.String() != want {
					t.Errorf("got  version %d, %s\nwant version %d or newer, %s", got.Version, got.Body, least, want)
					return
				}
				resolved.Add(1)
			}
		})
	}
	for range writers {
		writing.Go(func() {
			for n := range versions {
				write(n % slugs)
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	t.Logf("%d requests while %d versions were stored", resolved.Load(), writers*versions)
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestMemoryIsBounded(t *testing.T) {
	tier.Slow(t)
	const cacheSize, bound = 1 << 20, 4 << 20
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for i, tc := range []struct {
		name    string
		presets int
		config  string
		prompt  string
		to      domain.Dialect
		labels  int
	}{
		{"settings", 2000, `{"model":"m","service_tier":` + text(4000) + `}`, "", domain.Responses, 0},
		{"prompts", 1000, `{"model":"m"}`, strings.Repeat("p", 4000), domain.Responses, 0},
		{"prompts in another dialect", 600, `{"model":"m"}`, strings.Repeat("p", 4000), domain.Chat, 0},
		{"tools", 200, `{"model":"m","tools":[` + strings.Repeat(`{"type":"a"},`, 300) + `{}]}`, "", domain.Responses, 0},
		{"many models", 500, `{"models":[` + strings.Repeat(`"m",`, 1000) + `"m"]}`, "", domain.Responses, 0},
		{"what the dialect has no counterpart for", 200, `{"model":"m","truncation":` + text(100000) + `}`, "", domain.Messages, 0},
		{"what is never sent", 200, `{"model":"m","cache_ttl_seconds":` + text(100000) + `}`, "", domain.Responses, 0},
		{"what the gateway does not know", 200, `{"model":"m","plugins":` + text(100000) + `}`, "", domain.Responses, 0},
		{"empty", 3000, `{}`, "", domain.Responses, 0},
		{"labels", 500, `{"model":"m"}`, "", domain.Responses, 64},
	} {
		if i%tier.Sample(3) != 0 {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			r := newResolving(t)
			team := r.team(t, "team", "dm", "")
			for i := range tc.presets {
				p := r.put(t, team.WorkspaceID, fmt.Sprint("p", i), version{dialect: domain.Responses, config: tc.config, prompt: tc.prompt})
				if tc.labels > 0 {
					r.change(t, p, func(p *domain.Preset) { p.Labels = manyLabels(tc.labels) })
				}
			}
			resolve := func(resolver *inference.Resolver) {
				for i := range 2 * tc.presets {
					body := fmt.Appendf(nil, `{"preset":"p%d"}`, i%tc.presets)
					if _, err := resolver.Resolve(t.Context(), team, inference.Request{Dialect: tc.to, Body: body}); err != nil {
						t.Fatal(err)
					}
				}
			}
			config := inference.Config{Memory: domain.NewMemory(cacheSize), DropFields: []string{"plugins"}}
			resolve(r.resolver(t, inference.Config{Memory: domain.NewMemory(1), DropFields: config.DropFields})) // the store's own memory
			before := heap()
			resolver := r.resolver(t, config)
			resolve(resolver)
			if growth := heap() - before; growth > bound {
				t.Errorf("got %d KiB more in use, want at most %d with a cache of %d", growth>>10, bound>>10, cacheSize>>10)
			} else {
				t.Logf("%d KiB more in use", growth>>10)
			}
			runtime.KeepAlive(resolver)
		})
	}
}

// manyLabels returns labels with splits as long as may be.
func manyLabels(n int) map[string]domain.Target {
	labels := make(map[string]domain.Target, n)
	for i := range n {
		split := make([]domain.Share, domain.MaxShares)
		for j := range split {
			split[j] = domain.Share{Version: j + 1, Weight: 1}
		}
		labels[fmt.Sprintf("%s%02d", strings.Repeat("x", 62), i)] = domain.Target{Split: split}
	}
	return labels
}

func TestWorkspacesInMemoryAreBounded(t *testing.T) {
	tier.Slow(t)
	r := newResolving(t)
	var teams []domain.Principal
	for i := range 400 / tier.Sample(4) {
		model, tools := strings.Repeat("m", 100000), []string{"openrouter:web_search"}
		if i%2 == 0 {
			model, tools = "m", []string{"openrouter:" + strings.Repeat("x", 50000), "openrouter:" + strings.Repeat("y", 50000)}
		}
		team := r.team(t, fmt.Sprint("team", i), model, "")
		r.changeWorkspace(t, team.WorkspaceID, func(w *domain.Workspace) { w.DisabledServerTools = &tools })
		r.put(t, team.WorkspaceID, "p", version{dialect: domain.Responses, config: `{"model":"x"}`})
		teams = append(teams, team)
	}
	resolve := func(resolver *inference.Resolver) {
		for i := range 2 * len(teams) {
			if _, err := resolver.Resolve(t.Context(), teams[i%len(teams)], inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"p"}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := inference.Config{Memory: domain.NewMemory(1 << 20)}
	resolve(r.resolver(t, inference.Config{Memory: domain.NewMemory(1)}))
	before := heap()
	resolver := r.resolver(t, config)
	resolve(resolver)
	if growth, bound := heap()-before, int64(4<<20); growth > bound {
		t.Errorf("got %d KiB more in use, want at most %d", growth>>10, bound>>10)
	}
	runtime.KeepAlive(resolver)
}

func TestEveryCacheSizeWorks(t *testing.T) {
	r := newResolving(t)
	r.storeEmail(t)
	for _, size := range []int64{0, 1, 1 << 10, 1 << 20} {
		resolver := r.resolver(t, inference.Config{Memory: domain.NewMemory(size)})
		for range 3 {
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"email"}`)})
			wantBody(t, got, err, `{"model":"three","temperature":1}`)
		}
	}
}

// A preset may have more tools than requests may bring.
func TestManyTools(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	tools := `[` + strings.Repeat(`{"type":"a"},`, 5000) + `{"type":"b"}]`
	r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"m","tools":` + tools + `}`})
	got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"p"}`)})
	if want := `{"model":"m","tools":` + tools + `}`; err != nil || got.Body.String() != want {
		t.Errorf("got %d bytes, %v, want %d", got.Body.Len(), err, len(want))
	}
	_, err = resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"p","tools":` + tools + `}`)})
	wantKind(t, err, domain.Invalid, "/tools")
}

// Resolutions stay as they are while others are made, also at once: what is used again has nothing of another request.
func TestResolutionsAreApart(t *testing.T) {
	r := newResolving(t)
	r.ruled(t, "p", version{chat, `{"model":"m","temperature":0.5,"top_k":3}`, "Be brief."}, `{"lock":["temperature"]}`)
	resolver := r.resolver(t, inference.Config{DropFields: []string{"plugins"}, TellModel: true})
	resolve := func(i int) inference.Resolution {
		body := fmt.Sprintf(`{"preset":"p","model":"model-%d","user":"user-%d","temperature":0.%d,"plugins":[1],"session_id":"s-%d","messages":[{"role":"user","content":"%s"}]}`, i, i, 1+i%9, i, strings.Repeat(fmt.Sprint(i%10), 100*i))
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(body)})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	describe := func(r inference.Resolution) string {
		fields, err := r.Fields()
		return fmt.Sprint(r.Body, r.Model, r.Preset, r.SessionID, r.Dropped, r.Enforced, fields, err)
	}
	const number = 100
	resolve(0) // afterwards the preset is cached
	var want [number]string
	for i := range want {
		want[i] = describe(resolve(i))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var got [number]inference.Resolution
			for i := range got {
				got[i] = resolve(i)
			}
			for i := range got {
				if told := describe(got[i]); told != want[i] {
					t.Errorf("got  %.300s\nwant %.300s", told, want[i])
				}
			}
		})
	}
	group.Wait()
}
