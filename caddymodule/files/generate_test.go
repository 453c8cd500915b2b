package files_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

var everyDialect = []domain.Dialect{domain.Responses, domain.Chat, domain.Messages}

// texts are strings that are easy to get wrong in YAML.
var texts = []string{
	"", " ", "a", "yes", "no", "True", "null", "~", "1", "1.50", "0x10", "1_000", "2024-01-01", "12:30", "-", "- a", "a: b", "a:", "a #b", "#a", "'", `"`, `\`,
	"!file a.md", "!!str a", "&a", "*a", "<<", "=", "@a", "`a`", "%a", "|", ">", "a\tb", "\ta", " a", "a ", "{a}", "[a]", "a, b", "é", "😀", "日本語",
	"a\nb", "a\nb\n", "a\n\nb\n\n", "\na", "\n", " a\nb", "a\n b\n  c", "a\r\nb", "a\rb", "a\u2028b", "a\u0085b", "\ufeffa", "a\u0000b", "\u007f", "a\u00a0b",
	"# Heading\n\n- item\n  - item\n\n```\ncode\n```", "a\n# b", "a\n  ", "a\n\t", "---\na", "...", "a\n---\nb", "{{city}}", "\\{{city}}", "Say {{ name }} to {{city}}.\n",
	strings.Repeat("long ", 40) + "end", strings.Repeat("long ", 40), "a\n", "a\r\n", "a\r", "\r", "https://example.com/a?b=c#d", "anthropic/claude:online", "a::b", "?", "? a", "0.", ".5", "+1", "1e3", "0o7", "\x1b[31m",
}

// generator makes presets.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, seed))} }

func pick[T any](g generator, all []T) T { return all[g.IntN(len(all))] }

// text returns a text that is easy to get wrong, or several.
func (g generator) text() string {
	text := pick(g, texts)
	for g.IntN(4) == 0 {
		text += pick(g, []string{"\n", " ", "", ": "}) + pick(g, texts)
	}
	return text
}

func quoted(text string) string {
	q, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func (g generator) number() string {
	return pick(g, []string{"0", "1", "0.70", "-1.5", "1e3", "2E-2", "0.10", "123456789012345678901234567890.1230"})
}

// value returns any JSON value.
func (g generator) value(depth int) string {
	switch n := g.IntN(8); {
	case n == 0 && depth > 0:
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case n <= 2 && depth > 0:
		return g.object(depth - 1)
	case n == 3:
		return g.number()
	case n == 4:
		return pick(g, []string{"true", "false", "null"})
	}
	return quoted(g.text())
}

func (g generator) object(depth int) string {
	var members []string
	seen := make(map[string]bool)
	for range g.IntN(4) {
		name := g.text()
		if seen[name] {
			continue
		}
		seen[name] = true
		members = append(members, quoted(name)+": "+g.value(depth))
	}
	return "{" + strings.Join(members, " ,") + "}"
}

// request returns a request that breaks no rule.
func (g generator) request(dialect domain.Dialect) string {
	var members []string
	add := func(name, value string) { members = append(members, quoted(name)+":"+value) }
	if g.IntN(3) > 0 {
		add("model", quoted(pick(g, []string{"openai/gpt-5-mini", "m", "anthropic/claude:online", "yes", "1"})))
	}
	if g.IntN(2) == 0 {
		add("temperature", g.number())
	}
	if g.IntN(2) == 0 {
		parameters := g.object(3)
		switch dialect {
		case domain.Responses:
			add("tools", `[{"type":"function","name":"f","description":`+quoted(g.text())+`,"parameters":`+parameters+`}]`)
		case domain.Chat:
			add("tools", `[{"type":"function","function":{"name":"f","description":`+quoted(g.text())+`,"parameters":`+parameters+`}},{"type":"function","function":{"name":"g"}}]`)
			add("logit_bias", `{"1": -100, "50256": 0.50}`)
		case domain.Messages:
			add("tools", `[{"name":"f","description":`+quoted(g.text())+`,"input_schema":{"type":"object","properties":`+g.object(2)+`}}]`)
		}
	}
	block := func() string { return `{"type":"text","text":` + quoted(g.text()) + `}` }
	content := func() string {
		if g.IntN(3) == 0 {
			return "[" + block() + "," + block() + "]"
		}
		return quoted(g.text())
	}
	switch dialect {
	case domain.Responses:
		if g.IntN(3) > 0 {
			add("instructions", quoted(g.text()))
		}
		switch g.IntN(4) {
		case 0:
			add("input", quoted(g.text()))
		case 1:
			add("input", `[{"role":"user","content":`+quoted(g.text())+`},{"type":"function_call_output","call_id":"1","output":`+quoted(g.text())+`}, {"role":"developer","content":"a"}]`)
		}
	case domain.Messages:
		if g.IntN(3) > 0 {
			add("system", content())
		}
		if g.IntN(2) == 0 {
			add("messages", `[{"role":"user","content":`+content()+`},{"role":"assistant","content":`+quoted(g.text())+`}]`)
		}
	case domain.Chat:
		var messages []string
		for range g.IntN(3) {
			messages = append(messages, `{"role":`+pick(g, []string{`"system"`, `"developer"`})+`,"content":`+content()+`}`)
		}
		for range g.IntN(3) {
			messages = append(messages, `{"role":`+pick(g, []string{`"user"`, `"assistant"`, `"system"`})+`, "content":`+content()+`}`)
		}
		if g.IntN(4) > 0 {
			add("messages", "["+strings.Join(messages, ", ")+"]")
		}
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

// capture captures a request as a server does.
func capture(t testing.TB, dialect domain.Dialect, request []byte, template bool) domain.Capture {
	t.Helper()
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	rules := map[domain.Dialect]*schema.Schema{domain.Responses: schemas.ResponsesRequest, domain.Chat: schemas.ChatRequest, domain.Messages: schemas.MessagesRequest}
	var members []rawjson.Member
	if members, err = rules[dialect].Check(request); err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	in, err := map[bool]func(domain.Dialect, []rawjson.Member) (domain.Capture, error){false: inference.Capture, true: inference.CaptureTemplate}[template](dialect, members)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return in
}

// version returns a version as a server shows it.
func (g generator) version(t testing.TB) files.Version {
	dialect := pick(g, everyDialect)
	in := capture(t, dialect, []byte(g.request(dialect)), g.IntN(2) == 0)
	return files.NewVersion(in.Dialect, in.Config, in.SystemPrompt, in.Template)
}

// without returns the first characters of text that are not refused.
func without(refused func(rune) bool, most int, text string) string {
	kept := slices.DeleteFunc([]rune(text), refused)
	return string(kept[:min(most, len(kept))])
}

func (g generator) preset(t testing.TB, slug string) files.Preset {
	p := files.Preset{Workspace: "default", Slug: slug, File: "default/" + slug + ".yaml", Status: domain.PresetActive, Labels: map[string]files.Label{}, Version: g.version(t)}
	if g.IntN(3) == 0 {
		p.Name = new("a" + without(unicode.IsControl, 100, g.text())) // the API wants no empty name
	}
	if g.IntN(2) == 0 {
		refused := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
		p.Description = new(without(refused, 400, g.text()))
	}
	if g.IntN(4) == 0 {
		p.Status = domain.PresetDisabled
	}
	for i := range g.IntN(4) {
		label := files.Label{Version: files.Number(g.IntN(3))}
		if g.IntN(3) == 0 {
			label = files.Label{Split: []files.Share{{Version: files.Number(i + 1), Weight: g.IntN(3)}, {Version: files.Latest, Weight: 10}}}
		}
		p.Labels[fmt.Sprintf("%s%d", pick(g, []string{"a", "yes", "1.", "Z"}), i)] = label
	}
	if g.IntN(3) == 0 {
		p.Policy = &domain.Policy{
			Lock: []string{"tools", "temperature"}, Models: []string{"openai/*", "*"}[:g.IntN(3)],
			Bounds:    map[string]domain.Bound{"temperature": {Min: jsontext.Value("0.10"), Max: jsontext.Value("1e0")}},
			Violation: pick(g, []domain.Violation{domain.OverrideViolation, domain.RefuseViolation}),
		}
	}
	if g.IntN(3) == 0 {
		p.Limits = &domain.PresetLimits{RequestsPerMinute: 1 + g.Int64N(domain.MaxLimit), TokensPerDay: g.Int64N(2), CostPerDay: pick(g, []float64{0, 1e-6, 0.1, 20, domain.MaxLimitUSD})}
	}
	return p
}

func show(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}
