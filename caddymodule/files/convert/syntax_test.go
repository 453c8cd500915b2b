package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// shown writes segments with variables in angle brackets.
func shown(segments []segment) string {
	var text strings.Builder
	for _, s := range segments {
		if s.variable != "" {
			text.WriteString("<" + s.variable + ">")
		}
		text.WriteString(s.text)
	}
	return text.String()
}

func TestSyntaxes(t *testing.T) {
	partials := partials{"a": "A {{x}}", "b": "[{{> a }}]", "self": "{{>self}}", "big": strings.Repeat("x", 200<<10)}
	for _, test := range []struct {
		name       string
		syntax     syntax
		text, want string
		found      string // the beginning of a finding, with ! if it refuses
	}{
		{"plain", plainBraces, "a {{b}} {{ c }}{{\td\n}}", "a <b> <c><d>", ""},
		{"plain: three braces", plainBraces, "{{{b}}}", "{<b>}", ""},
		{"plain: no name", plainBraces, "{{b c}} {{}} {{ }} {{", "{{b c}} {{}} {{ }} {{", ""},
		{"plain: names", plainBraces, "{{a.b-c_1}} {{1a}} {{質問}} {{prénom}} {{प्रश्न}}", "<a.b-c_1> <1a> <質問> <prénom> <प्रश्न>", ""},
		{"plain: no names", plainBraces, "{{-a}} {{.}} {{a\u200bb}} {{" + strings.Repeat("x y ", 20) + "}}", "{{-a}} {{.}} {{a\u200bb}} {{" + strings.Repeat("x y ", 20) + "}}", ""},
		{"plain: a variable inside", plainBraces, "{{ {{b}} }}", "{{ <b> }}", ""},

		{"jinja", jinja, "a {{b}}{{ c_1 }} {d}", "a <b><c_1> {d}", ""},
		{"jinja: a filter", jinja, "{{ a | upper }}", "", "!has {{a | upper}}, which is more than a name"},
		{"jinja: a call", jinja, "{{ a() }}", "", "!has {{a()}}, which is more than a name"},
		{"jinja: arithmetic", jinja, "{{ a-b }}", "", "!has {{a-b}}, which is more than a name"},
		{"jinja: whitespace control", jinja, "{{- a }}", "", "!has {{- a}}, which is more than a name"},
		{"jinja: a constant", jinja, "{{ true }}", "", "!has {{true}}, which is more than a name"},
		{"jinja: a text", jinja, `{{ "{{" }}`, "", "!has {{\"{{\"}}, which is more than a name"},
		{"jinja: a statement", jinja, "{% if a %}b{% endif %}", "b", "!has {% … %}"},
		{"jinja: open", jinja, "a {{ b", "a ", "!has {{, {% or {#"},
		{"jinja: an open comment", jinja, "a {# b", "a ", "!has {{, {% or {#"},
		{"jinja: an attribute", jinja, "{{ a.b }}", "<a.b>", "has a name with a dot"},
		{"jinja: a brace at the end", jinja, "a {", "a {", ""},

		{"mustache", partials.syntax, "a {{b}} {{{c}}} {{& d }}", "a <b> <c> <d>", ""},
		{"mustache: a comment", partials.syntax, "a{{! b }}c", "ac", "has a comment"},
		{"mustache: a partial", partials.syntax, "{{>b}} {{> b}}", "[A <x>] [A <x>]", "has the texts of its partials"},
		{"mustache: a missing partial", partials.syntax, "{{>c}}", "", "!refers to a partial that the input"},
		{"mustache: a cycle", partials.syntax, "{{>self}}", "", "!has too many partials"},
		{"mustache: large partials", partials.syntax, "{{>big}}{{>big}}", "", "!is too large"},
		{"mustache: a section", partials.syntax, "{{#a}}b{{/a}}", "b", "!has a section"},
		{"mustache: an inverted section", partials.syntax, "{{^ a }}b{{/ a }}", "b", "!has a section"},
		{"mustache: delimiters", partials.syntax, "{{=<% %>=}}<% a %>", "<% a %>", "!changes the delimiters"},
		{"mustache: the element", partials.syntax, "{{.}}", "", "!has {{.}}, which cannot be"},
		{"mustache: a name with a space", partials.syntax, "{{a b}}", "", "!has {{a b}}, which cannot be"},
		{"mustache: open", partials.syntax, "{{a", "", "!has {{ without"},
		{"mustache: a dotted name", partials.syntax, "{{a.b}}", "<a.b>", "has a name with a dot"},

		{"langfuse", langfuseBraces, "{{b}} @@@a", "<b> @@@a", ""},
		{"langfuse: a reference", langfuseBraces, "@@@langfusePrompt:name=a|label=production@@@", "@@@langfusePrompt:name=a|label=production@@@", "!refers to another prompt"},
	} {
		segments, found := test.syntax(test.text)
		if got := shown(segments); got != test.want {
			t.Errorf("%s: got %.200q, want %.200q", test.name, got, test.want)
		}
		var messages []string
		for _, f := range found {
			message := f.message
			if f.refuses {
				message = "!" + message
			}
			messages = append(messages, message)
		}
		if all := strings.Join(messages, "\n"); test.found == "" && all != "" || !strings.Contains("\n"+all, "\n"+test.found) {
			t.Errorf("%s: found %q, want %q", test.name, all, test.found)
		}
	}
}

// TestExponentialReferences refers to texts that refer to others, many times each. The
// number of texts that are put in is bounded.
func TestExponentialReferences(t *testing.T) {
	partials := partials{"p14": ""}
	for n := range 14 {
		partials[fmt.Sprint("p", n)] = strings.Repeat(fmt.Sprintf("{{>p%d}}", n+1), 10)
	}
	if _, found := partials.syntax("{{>p0}}"); !slices.ContainsFunc(found, func(f finding) bool { return f.refuses && strings.Contains(f.message, "too many") }) {
		t.Errorf("found %v", found)
	}
}

// TestLargeTexts reads and writes texts of eight times the stored size. A search from each brace
// to the end, or a copy for each part, would take more than a minute.
func TestLargeTexts(t *testing.T) {
	tier.Slow(t)
	const size = 2 << 20
	for _, test := range []struct {
		syntax    syntax
		part, end string
	}{
		{plainBraces, "{", "}}"},
		{plainBraces, "{{a ", "}}"},
		{plainBraces, "{{ ", ""},
		{plainBraces, `\{{`, "a}}"},
		{jinja, "{", ""},
		{jinja, "{a", "{{"},
	} {
		text := strings.Repeat(test.part, size/len(test.part)) + test.end
		segments, _ := test.syntax(text)
		if encoded, ok := encode(segments); ok && len(encoded) < len(literalOf(segments)) {
			t.Errorf("%q: the template is shorter than its text", test.part)
		}
	}
	// A text with its partials is bounded.
	var text strings.Builder
	for text.Len() < maxExpanded-10 {
		text.WriteString("x{{!}}")
	}
	segments, found := mustache(text.String())
	if len(segments) != 1 || len(found) != 1 || found[0].refuses {
		t.Errorf("got %d segments and %v", len(segments), found)
	}
}

func mustParse(tb testing.TB, text string) node {
	tb.Helper()
	n, err := node{}.parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestRoles(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"hello", "user:hello"},
		{"System: a\n  b \nUser:c\nAssistant: d", "system:a\nb|user:c|assistant:d"},
		{"first\nUser: a", "user:first|user:a"},
		{"System:\nUser: a\nAssistant:", "system:|user:a"},
		{"Developer: a", "user:Developer: a"},
		{"  User: a", "user:a"},
		{"System: a\n{# User: b\nUser: c #}\nUser: {{d}}", "system:a|user:{{d}}"},
		{"user: a", "user:user: a"},
	} {
		var v version
		v.readRoles(node{}, test.body)
		var got []string
		for _, m := range v.messages {
			got = append(got, m.textOf("role")+":"+m.textOf("content"))
		}
		if all := strings.Join(got, "|"); all != test.want {
			t.Errorf("%q: got %q, want %q", test.body, all, test.want)
		}
	}
	var v version
	if v.readRoles(node{}, " \n{# only #}\n"); !v.refused {
		t.Error("a body without a text is not refused")
	}
}

func TestSlugs(t *testing.T) {
	long := strings.Repeat("x", 140)
	for name, want := range map[string]string{
		"support-reply": "support-reply", "support/reply": "support-reply", "ONE": "ONE", "a b  c": "a-b-c", "../../etc/passwd": "etc-passwd",
		"\x1b[31mred\n": "31mred", "日本": "prompt-", "質問": "prompt-", "café": "caf-", "": "prompt-e3b0c44298", "dots.and~": "dots.and~", "-": "prompt-",
		long: long[:117] + "-", long + "y": long[:117] + "-", "v1/": "v1", "“quoted”": "quoted",
	} {
		slug := slugOf(name)
		isExact := !strings.HasSuffix(want, "-")
		if isExact && slug != want || !isExact && (!strings.HasPrefix(slug, want) || len(slug) != len(want)+hashDigits) || domain.CheckPresetSlug(slug) != nil {
			t.Errorf("%q: got %q, want %q", name, slug, want)
		}
	}
	if slugOf("日本") == slugOf("質問") || slugOf(long) == slugOf(long+"y") {
		t.Error("two names have one slug")
	}
}

// rendering is a server in memory that renders templates.
type rendering struct {
	service  *domain.Service
	resolver *inference.Resolver
	schemas  *schema.Schemas
}

var someone = domain.Principal{Kind: domain.ManagementKey}

func newRendering(tb testing.TB) *rendering {
	tb.Helper()
	store, err := badger.OpenInMemory()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	r := &rendering{service: domain.NewService(store), resolver: inference.NewResolver(store, inference.Config{})}
	if err := r.service.EnsureDefaultWorkspace(context.Background()); err != nil {
		tb.Fatal(err)
	}
	if r.schemas, err = schema.Load(); err != nil {
		tb.Fatal(err)
	}
	return r
}

// render makes a preset of a version, and returns what a model gets of its first message's
// content. It is not ok if the version is refused.
func (r *rendering) render(tb testing.TB, v *version, value func(name string) string) (text string, ok bool) {
	tb.Helper()
	v.set("model", node{value: rawjson.Quote("m")})
	built, ok := v.build(r.schemas)
	if !ok {
		return "", false
	}
	if _, err := r.service.ReleasePresetVersion(tb.Context(), domain.By(someone), "", "p", built.Capture, domain.Release{}); err != nil {
		tb.Fatal(err)
	}
	values := []rawjson.Member{}
	if built.Capture.Template != nil {
		for _, name := range built.Capture.Template.Variables {
			values = append(values, rawjson.Member{Name: name, Value: rawjson.Quote(value(name))})
		}
	}
	body := `{"model":"@preset/p","prompt":{"variables":` + string(rawjson.ObjectOf(values...)) + `}}`
	if built.Capture.Template == nil {
		body = `{"model":"@preset/p","messages":[]}`
	}
	got, err := r.resolver.Resolve(tb.Context(), someone, inference.Request{Dialect: domain.Chat, Body: []byte(body)})
	if err != nil {
		tb.Fatal(err)
	}
	var sent struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal(got.Body.Bytes(), &sent); err != nil {
		tb.Fatalf("got %s, %v", got.Body, err)
	}
	if len(sent.Messages) == 0 { // an empty system prompt is none
		return "", true
	}
	return sent.Messages[0].Content, true
}

// TestRendering renders texts that are no templates for the source. A server leaves their braces.
// The fuzz tests compare the others with what they mean.
func TestRendering(t *testing.T) {
	r := newRendering(t)
	literal := func(text string) ([]segment, []finding) { return []segment{{text: text}}, nil }
	for _, role := range []string{"system", "user"} {
		for _, text := range []string{"{{city}}", "{{{city}}}", `\{{city}}`, `\\{{{city}}`, "{{a{{b}}"} {
			v := &version{dialect: domain.Chat, syntax: literal, messages: []node{message(node{}, role, text)}}
			if got, ok := r.render(t, v, func(string) string { return "Rome" }); !ok || got != text {
				t.Errorf("%s %q: got %q, %t", role, text, got, ok)
			}
		}
	}
}

// TestOpenAISettingsOfOneCall reports what a body has for one call, but for the API's defaults.
func TestOpenAISettingsOfOneCall(t *testing.T) {
	body := `{"model":"m","input":"Hello.","store":false,"background":true,"user":"u","metadata":{"a":"b"},"stream":false,"prompt_cache_key":null}`
	for text, want := range map[string]string{
		body: "/background /metadata /store /user",
		`{"model":"m","input":"Hello.","store":true,"background":false,"metadata":{ },"stream":false}`: "",
	} {
		_, report, err := Convert(t.Context(), OpenAI, "-", Options{Stdin: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range report.Entries {
			if e.Kind == LeftOut {
				left = append(left, e.Path)
			}
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != want {
			t.Errorf("%s: the report has %q, want %q", text, got, want)
		}
	}
}
