package inference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var allDialects = []domain.Dialect{responses, chat, messages}

// promptFields are the fields that take a system prompt.
var promptFields = map[domain.Dialect]string{responses: "instructions", chat: "messages", messages: "system"}

// mark begins a reference.
const mark = "@preset/"

// namesPreset reports whether a request refers to a preset. sure is false if this simple
// reading cannot decide.
func namesPreset(body []byte) (named, sure bool) {
	names, values, ok := topLevel(body)
	if !ok {
		return false, false
	}
	for i, name := range names {
		var text string
		isText := json.Unmarshal(values[i], &text) == nil
		switch name {
		case "preset":
			named = named || string(values[i]) != "null"
		case "model":
			named = named || isText && strings.Contains(text, mark)
		case "models", "fallbacks":
			if !bytes.HasPrefix(values[i], []byte("[")) {
				continue
			}
			if name == "fallbacks" {
				return false, false
			}
			var list []any
			if json.Unmarshal(values[i], &list) != nil {
				return false, false
			}
			for _, model := range list {
				text, _ := model.(string)
				named = named || strings.Contains(text, mark)
			}
		}
	}
	return named, true
}

// origin says where the fields of a merged request may come from.
type origin struct {
	dialect domain.Dialect
	// request is the body sent, and alone what becomes of {"preset":"p"}: the
	// preset and the workspace by themselves.
	request, alone []byte
	// dropped are the settings that the merge left out, also of alone.
	dropped []string
}

// combined are the fields that may be made of several values, as the tables of TestMerge say.
var combined = []string{
	"model", "models", "fallbacks", "tools", "provider", "reasoning", "reasoning_effort", "text", "output_config", "max_tokens", "max_completion_tokens",
}

// check returns the fault of a merged request, or "".
func (o origin) check(merged []byte) string {
	names, values, ok := topLevel(merged)
	sentNames, sentValues, isSent := topLevel(o.request)
	ours, _, isAlone := topLevel(o.alone)
	if !ok || !isSent || !isAlone {
		return "is no JSON object, or made of none"
	}
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) < len(names) || slices.Contains(names, "preset") {
		return "has a field twice, or a field preset"
	}
	if !slices.Contains(names, "model") && !slices.Contains(names, "models") {
		return "names no model"
	}
	isDropped := func(name string) bool {
		return slices.ContainsFunc(o.dropped, func(lost string) bool { return lost == name || strings.HasPrefix(lost, name+".") })
	}
	for _, name := range names {
		if !isDropped(name) && !slices.Contains(sentNames, name) && !slices.Contains(ours, name) && !slices.Contains(combined, name) && name != promptFields[o.dialect] {
			return fmt.Sprintf("has a field %q of nobody", name)
		}
	}
	last := -1
	for i, name := range sentNames {
		isCombined := slices.Contains(combined, name) || name == promptFields[o.dialect]
		if name == "preset" || isCombined || string(sentValues[i]) == "null" || isEmptyContainer(sentValues[i]) {
			continue
		}
		at := slices.Index(names, name)
		if at < 0 || !bytes.Equal(values[at], sentValues[i]) {
			return fmt.Sprintf("has not the request's %q", name)
		}
		if at < last {
			return fmt.Sprintf("has %q in another place than the request", name)
		}
		last = at
	}
	for _, name := range ours {
		if !slices.Contains(names, name) && !slices.Contains(combined, name) && !isDropped(name) {
			return fmt.Sprintf("lacks the preset's %q", name)
		}
	}
	return ""
}

// isEmptyContainer reports whether a value counts as not sent if the preset has one.
func isEmptyContainer(value json.RawMessage) bool {
	text := strings.Join(strings.Fields(string(value)), "")
	return text == "{}" || text == "[]"
}

// synonymOf returns the other name of the limit of tokens in a chat, or nothing.
func synonymOf(dialect domain.Dialect, name string) string {
	if dialect != chat {
		return ""
	}
	return map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[name]
}

// elements splits an array.
func elements(text json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(text, &list) // nil for a value that is no list
	return list
}

// gen makes requests and presets.
type gen struct{ *rand.Rand }

func pick[T any](g gen, of []T) T { return of[g.IntN(len(of))] }

var (
	genNumbers = []string{"0", "-0", "1", "1.0", "0.70", "1e3", "1E400", "-1.50e-7", "12345678901234567890", "4096"}
	genTexts   = []string{`""`, `"a"`, `"\u0061\/b"`, `"é\u00e9"`, `"@preset/other"`, `"preset"`, `"\ud83d\ude00"`, `"\ud800"`, `"low"`, `"a\n\nb"`, `"<&>\u2028"`}
	genPrompts = []string{"", "", "a", "é", "a\n\nb", "Be brief.", "\n\n", "\n", "\"quoted\" \\ \x00", "a\u2028<b>", "\U0001F600", " "}
)

// space puts white space into JSON, now and then.
func (g gen) space() string {
	if g.IntN(12) == 0 {
		return pick(g, []string{" ", "\n", "\t ", "\r\n"})
	}
	return ""
}

func (g gen) value(depth int) string {
	switch n := g.IntN(10); {
	case n < 3:
		return pick(g, genNumbers)
	case n < 6:
		return pick(g, genTexts)
	case n == 6:
		return pick(g, []string{"true", "false"})
	case n == 7 || depth == 0:
		return "null"
	case n == 8:
		return g.list(g.IntN(4), func() string { return g.value(depth - 1) })
	}
	names := []string{"a", "b", "sort", "order", "name", "type", "text"}
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return g.object(names[:g.IntN(4)], func(string) string { return g.value(depth - 1) })
}

func (g gen) list(n int, element func() string) string {
	var list []string
	for range n {
		list = append(list, g.space()+element()+g.space())
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (g gen) object(names []string, value func(name string) string) string {
	var fields []string
	for _, name := range names {
		quoted := strconv.Quote(name)
		if g.IntN(20) == 0 && name != "" {
			quoted = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
		}
		fields = append(fields, g.space()+quoted+g.space()+":"+g.space()+value(name)+g.space())
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (g gen) tool(d domain.Dialect) string {
	name := pick(g, []string{"f", "g", "h", "f", `\u0066`})
	parameters := pick(g, []string{`{}`, `{"type":"object","properties":{"x":{"type":"number","maximum":1.0}}}`, `{ }`})
	switch n := g.IntN(10); {
	case n < 4 && d == responses:
		return fmt.Sprintf(`{"type":"function","name":"%s","parameters":%s}`, name, parameters)
	case n < 4 && d == chat:
		return fmt.Sprintf(`{"type":"function","function":{"name":"%s","parameters":%s}}`, name, parameters)
	case n < 4:
		return fmt.Sprintf(`{"name":"%s","input_schema":%s}`, name, parameters)
	case n < 6:
		return fmt.Sprintf(`{"type":"openrouter:%s"%s}`, pick(g, []string{"web_search", "datetime", "advisor", "subagent"}), pick(g, []string{"", `,"parameters":{}`, `,"parameters":{"name":"x"}`}))
	case n < 8:
		return fmt.Sprintf(`{"type":"%s","name":"%s","server_label":"s"}`, pick(g, []string{"custom", "namespace", "mcp", "file_search", "bash_20250124"}), name)
	default:
		return g.value(1)
	}
}

// setting returns a value for one of genSettings, usually a valid one.
func (g gen) setting(d domain.Dialect, name string) string {
	if g.IntN(12) == 0 {
		switch name {
		case "tools", "model", "models", "fallbacks": // which could be references, or damage
			return "null"
		}
		return pick(g, []string{"null", "{}", "[]", "{ }", g.value(2)})
	}
	switch name {
	case "model":
		return pick(g, []string{`"m"`, `"a/b:free"`, `"\u006d"`})
	case "models":
		return g.list(g.IntN(3), func() string { return pick(g, []string{`"a"`, `"\u0062"`, `"c@1"`}) })
	case "fallbacks":
		return g.list(g.IntN(3), func() string { return pick(g, []string{`{"model":"a"}`, `{"model":"b","max_tokens":1}`, `{}`}) })
	case "provider":
		return pick(g, []string{`{}`, `{"sort":"price"}`, `{ "order" : [] }`, `{"sort":null,"zdr":true}`, `{"only":["a"],"n":1.0}`, `{"sort":null,"order":["x"]}`})
	case "tools":
		return g.list(g.IntN(5), func() string { return g.tool(d) })
	case "tool_choice":
		return pick(g, []string{`"auto"`, `"required"`, `{"type":"any"}`, `{"type":"function","name":"f"}`, `{"type":"tool","name":"f"}`, `{"type":"function","function":{"name":"f"}}`})
	case "reasoning":
		return pick(g, []string{`{"effort":"low"}`, `{"effort":"high","max_tokens":1024}`, `{"max_tokens":2000.0}`, `{"summary":"auto"}`})
	case "thinking":
		return pick(g, []string{`{"type":"enabled","budget_tokens":1024}`, `{"type":"disabled"}`})
	case "output_config":
		return pick(g, []string{`{"effort":"low"}`, `{"format":{"type":"json_schema","schema":{}}}`, `{}`})
	case "text":
		return pick(g, []string{`{"verbosity":"low"}`, `{"format":{"type":"json_schema","name":"n","schema":{"a":1.0}}}`, `{"format":{"type":"text"},"verbosity":"high"}`})
	case "response_format":
		return pick(g, []string{`{"type":"json_object"}`, `{"type":"json_schema","json_schema":{"name":"n","schema":{}}}`})
	case "stop", "stop_sequences":
		return pick(g, []string{`["a"]`, `["a","\u0062"]`, `"a"`})
	}
	return g.value(2)
}

var genSettings = map[domain.Dialect][]string{
	responses: {
		"model", "models", "provider", "route", "plugins", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls",
		"stop_server_tools_when", "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "top_logprobs",
		"max_output_tokens", "reasoning", "text", "modalities", "image_config", "include", "truncation", "service_tier",
		"cache_control", "prompt_cache_options", "cache_enabled", "cache_ttl_seconds",
	},
	chat: {
		"model", "models", "provider", "tools", "tool_choice", "temperature", "top_p", "seed", "max_tokens",
		"max_completion_tokens", "stop", "reasoning", "reasoning_effort", "response_format", "verbosity", "logit_bias", "cache_enabled",
	},
	messages: {
		"model", "models", "fallbacks", "provider", "tools", "tool_choice", "temperature", "top_k", "max_tokens", "stop_sequences",
		"thinking", "output_config", "context_management", "speed", "service_tier", "cache_ttl_seconds",
	},
}

func (g gen) settings(d domain.Dialect) []string {
	names := slices.Clone(genSettings[d])
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:g.IntN(len(names)+1)]
}

// request returns a body of a dialect. Where prompt is some, its prompt field
// begins with it now and then.
func (g gen) request(d domain.Dialect, prompt string) string {
	names := append(g.settings(d), "metadata", "user", "stream", "nonsense", "é", "input")
	if d != responses || g.IntN(2) == 0 {
		names = append(names, promptFields[d])
	}
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	own := func() string {
		switch g.IntN(4) {
		case 0:
			return quoted(prompt)
		case 1:
			return quoted(prompt + "\n\nmore")
		}
		return pick(g, genTexts)
	}
	return g.object(names, func(name string) string {
		switch {
		case name != promptFields[d]:
			return g.setting(d, name)
		case g.IntN(8) == 0:
			return "null"
		case d == chat:
			return g.list(g.IntN(4), func() string {
				content := pick(g, []string{own(), g.list(g.IntN(3), func() string { return `{"type":"text","text":` + own() + `}` })})
				return pick(g, []string{`{"role":"` + pick(g, []string{"system", "developer", "user"}) + `","content":` + content + `}`, g.value(2)})
			})
		case d == messages && g.IntN(2) == 0:
			return g.list(g.IntN(3), func() string {
				return pick(g, []string{`{"type":"text","text":` + own() + `}`, g.value(1), claudeCode})
			})
		}
		return own()
	})
}

func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func TestARequestIsNotChangedByThePresetMadeOfIt(t *testing.T) {
	tier.NoRace(t)
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	for round := range 1000 {
		g := gen{rand.New(rand.NewPCG(7, uint64(round)))}
		names := append(g.settings(responses), "input", "user", "nonsense")
		names = slices.DeleteFunc(names, func(name string) bool { return name == "model" })
		if g.IntN(4) > 0 {
			names = append(names, "instructions")
		}
		names = append(names, "model")
		g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		// The decoder that captures refuses what no client's library writes.
		body := strings.ReplaceAll(g.object(names, func(name string) string {
			switch name {
			case "model":
				return `"m"`
			case "instructions":
				return pick(g, genTexts)
			case "tool_choice", "parallel_tool_calls": // [] would count as not sent, and be left out without tools
				return `"auto"`
			case "tools":
				return g.list(g.IntN(6), func() string { return g.tool(responses) })
			}
			return g.setting(responses, name)
		}), `\ud800`, `\ud83d\ude00`)
		in, err := capture(t, body)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), "", "p", in, domain.Release{}); err != nil {
			t.Fatal(err)
		}
		sentNames, values, ok := topLevel([]byte(body))
		if !ok {
			t.Fatalf("round %d: made %s", round, body)
		}
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: responses, Body: withPreset([]byte(body))})
		if err != nil {
			t.Fatalf("round %d: got error %v\nwant %s", round, err, body)
		}
		gotNames, gotValues, _ := topLevel(got.Body.Bytes())
		if !slices.Equal(gotNames, sentNames) || !slices.EqualFunc(gotValues, values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("round %d: got %s\nwant %s", round, got.Body, body)
		}
	}
}

func FuzzResolve(f *testing.F) {
	const both = `{"model":"m","models":["a"],"provider":{"zdr":true},"temperature":0.70}`
	for _, seed := range []struct{ body, config, prompt string }{
		{`{"preset":"p"}`, `{}`, ""},
		{`{"model":"@preset/p","input":"x"}`, `{"models":["a"]}`, "Be brief."},
		{`{"model":"gpt@preset/p@1","temperature":1E400,"seed":-0}`, both, "P"},
		{`{"preset":"p","model":"@preset/p","instructions":"P\n\nx"}`, both, "P"},
		{`{"pr\u0065set":"\u0070","messages":[{"role":"system","content":[{"type":"text","text":"P"}]}]}`, both, "P"},
		{`{"preset":"p","messages":[{"role":"developer","content":"P"},5],"system":[{"text":"P"}]}`, both, "P"},
		{`{"preset":"p","system":[],"messages":null,"instructions":""}`, `{}`, "P"},
		{`{"preset":"p","system":[` + claudeCode + `,{"text":"a"}],"messages":[ {"role" : "system","content":[ ] } ]}`, `{}`, "P"},
		{`{"preset":"p","messages":[{"role":"system","content":"a","c\u006fntent":"b"},{"role":"system","content":null}]}`, `{}`, "P"},
		{`{"preset":"p","system":[5,{"type":"text","text":"x"}],"tools":[]}`, `{"tools":[{"name":"f"}]}`, "\n"},
		{
			`{"preset":"p","tools":[{"type":"function","name":"f"},{"type":"function","function":{"name":"f"}},{"name":"f"},5]}`,
			`{"tools":[{"type":"function","name":"f"},{"type":"a"},{"type":"a"},{"type":"function","function":{"name":"f"}},{"name":"f"}],"tool_choice":"required"}`, "",
		},
		{`{"preset":"p","tools":{}}`, `{"tools":[{"type":"mcp","server_label":"s"}]}`, ""},
		{`{"preset":"p","provider":{"sort":null,"sort":null}}`, `{"provider":{"order":null}}`, ""},
		{`{"preset":"p","provider":"x","max_tokens":1}`, `{"max_completion_tokens":5,"reasoning_effort":"low"}`, ""},
		{`{"preset":null,"model":"@preset"}`, both, ""},
		{`{"preset":"p","models":["@preset/p"]}`, both, ""},
		{`{"preset":"p","fallbacks":[{"model":"x@preset/p"}]}`, both, ""},
		{`{"preset":"p","preset":"p"}`, both, ""},
		{`{"preset":"p"} x`, both, ""},
		{`{"preset":"p","input":"` + "\xff" + `\ud800"}`, `{"a\ud800":"` + "\xff" + `","model":"` + "\xff" + `"}`, "�"},
		{"\ufeff{\"preset\":\"p\"}", both, ""},
		{`{"input":tru,"preset":"p"}`, both, ""},
		{` { "preset" : "p" , "input" : [ 1.0 ] } `, ` { "model" : null , "model" : "x" } `, ""},
		{`{"preset":"p","input":` + deep(200) + `}`, `{"plugins":` + deep(200) + `}`, ""},
		{`{"preset":"p"}`, `{"reasoning":{"effort":"high","max_tokens":5},"text":{"format":{"type":"json_schema","name":"n","schema":{}},"verbosity":"low"},"max_output_tokens":9}`, ""},
		{`{"preset":"p"}`, `{"response_format":{"type":"json_schema","json_schema":{"schema":{},"a.b":1}},"stop":"x","max_tokens":1,"reasoning":null}`, ""},
		{`{"preset":"p"}`, `{"thinking":{"type":"enabled","budget_tokens":5},"output_config":{"effort":"max","format":{}},"stop_sequences":["a"],"fallbacks":[{"model":"x"}]}`, ""},
		{`{"preset":"p@one"}`, both, "P"},
		{`{"model":"x@preset/p@split","session_id":"a"}`, both, ""},
		{`{"preset":"p@split@1","model":"@preset/p@latest"}`, both, ""},
		{`{"preset":"p","text":{},"include":[],"tools":[ ],"provider":{}}`, `{"text":{"verbosity":"low"},"include":["a"],"tools":[{"type":"a"}],"provider":{"zdr":true}}`, ""},
		{`{"preset":"p","reasoning":{},"models":[],"max_tokens":{ }}`, `{"reasoning_effort":"low","fallbacks":[{"model":"x"}],"max_completion_tokens":5}`, ""},
		{`{"model":"openrouter/@preset/p"}`, both, ""},
		{`{"model":" :free@preset/p"}`, both, ""},
		{`{"preset":"p","session_id":5}`, both, ""},
		{`{"preset":"p","session_id":"` + strings.Repeat("s", 257) + `"}`, both, ""},
		{`[]`, `{}`, ""},
		{``, `{}`, ""},
	} {
		for pair := range byte(9) {
			f.Add([]byte(seed.body), []byte(seed.config), seed.prompt, pair)
		}
	}
	for pair := range byte(9) { // and generated ones, which are usually valid
		for round := range uint64(200) {
			g := gen{rand.New(rand.NewPCG(uint64(pair), round))}
			from, to, prompt := allDialects[pair/3], allDialects[pair%3], pick(g, genPrompts)
			config := g.object(g.settings(from), func(name string) string { return g.setting(from, name) })
			f.Add(withPreset([]byte(g.request(to, prompt))), []byte(config), prompt, pair)
		}
	}
	var r *resolving
	var resolver *inference.Resolver
	var who domain.Principal
	stop := func() {
		if r != nil {
			_ = r.store.(interface{ Close() error }).Close() // of no use any more
			r = nil
		}
	}
	f.Cleanup(stop)
	executions := 0
	f.Fuzz(func(t *testing.T, body, config []byte, prompt string, pair byte) {
		from, to := allDialects[int(pair/3)%3], allDialects[pair%3]
		if _, _, ok := topLevel(config); !ok || len(config)+len(prompt) > domain.MaxStoredSize || !utf8.ValidString(prompt) {
			config, prompt = []byte(`{}`), ""
		}
		if executions%4096 == 0 { // the store is in memory, with all versions
			stop()
			var err error
			if r, _, err = openResolving(t.Context()); err != nil {
				t.Fatal(err)
			}
			resolver = inference.NewResolver(r.fixture, inference.Config{Memory: domain.NewMemory(1 << 20)})
			who = r.team(t, "team", "dm", "latency")
			r.change(t, r.put(t, who.WorkspaceID, "p", version{from, `{}`, ""}), func(p *domain.Preset) {
				p.Labels = map[string]domain.Target{
					"one":   {Version: 1},
					"split": {Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}},
				}
			})
		}
		executions++
		r.put(t, who.WorkspaceID, "p", version{from, string(config), prompt})
		sent := bytes.Clone(body)
		got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: to, Body: body})
		if !bytes.Equal(sent, body) {
			t.Fatalf("got the request changed to %q\nwant %q", body, sent)
		}
		if named, sure := namesPreset(body); sure && named != (err != nil || got.Preset != "") {
			t.Fatalf("%q: got preset %q, error %v\nwant one of them: %t", body, got.Preset, err, named)
		}
		if err != nil {
			damaged := from == to && strings.Contains(err.Error(), "damaged")
			if kind := domain.KindOf(err); kind != domain.Invalid && kind != domain.NotFound && !damaged {
				t.Fatalf("%q: got error %v\nwant one about the request", body, err)
			}
			return
		}
		if got.Preset == "" {
			if !bytes.Equal(got.Body.Bytes(), sent) {
				t.Fatalf("got  %q\nwant %q", got.Body, sent)
			}
			return
		}
		alone, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: to, Body: fmt.Appendf(nil, `{"preset":"p@%d"}`, got.Version)})
		if err != nil {
			t.Fatalf("got error %v without the request's fields\nwant success as with them", err)
		}
		if p := latest(t, r, who); p.LatestVersion != got.Version {
			return // pinned to one of another dialect and prompt
		}
		o := origin{dialect: to, request: body, alone: alone.Body.Bytes(), dropped: slices.Concat(got.Dropped, alone.Dropped)}
		if fault := o.check(got.Body.Bytes()); fault != "" {
			t.Fatalf("got %q\nwhich %s\nrequest %q\npreset %q\nprompt %q\nalone %q", got.Body, fault, body, config, prompt, alone.Body)
		}
		if from == to {
			if fault := checkAlone(alone.Body.Bytes(), config, to); fault != "" {
				t.Fatalf("got %q\nwhich %s\npreset %q", alone.Body, fault, config)
			}
		}
		names, _, _ := topLevel(got.Body.Bytes())
		var fields []string
		told, _ := got.Fields()
		for _, field := range told {
			fields = append(fields, field.Name)
		}
		if !slices.EqualFunc(fields, names, isNameCut) {
			t.Fatalf("got fields %q\nwant %q", fields, names)
		}
		for _, name := range got.Dropped {
			if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-") != "" {
				t.Fatalf("got dropped %q\nwant names that a header can hold", got.Dropped)
			}
		}
		if named, sure := namesPreset(got.Body.Bytes()); named || !sure {
			return // the preset's own model is a reference, perhaps
		}
		again, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: to, Body: withPreset(got.Body.Bytes())})
		if err != nil || !bytes.Equal(again.Body.Bytes(), got.Body.Bytes()) {
			t.Fatalf("merged again: got %q, %v\nwant %q\nrequest %q\npreset %q\nprompt %q", again.Body, err, got.Body, body, config, prompt)
		}
	})
}

func latest(t *testing.T, r *resolving, who domain.Principal) (p domain.Preset) {
	t.Helper()
	err := r.View(t.Context(), func(reader domain.Reader) (err error) {
		p, err = reader.Preset(who.WorkspaceID, "p")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkAlone returns the fault of what a preset gives by itself in its own dialect, or "".
func checkAlone(got, config []byte, dialect domain.Dialect) string {
	names, values, _ := topLevel(got)
	configNames, configValues, _ := topLevel(config)
	for i, name := range names {
		its := slices.ContainsFunc(configValues, func(v json.RawMessage) bool { return bytes.Equal(v, values[i]) })
		switch {
		case its && slices.Contains(configNames, name):
		case name == promptFields[dialect], name == "provider", name == "model" && string(values[i]) == `"dm"`:
		default:
			return fmt.Sprintf("has %q of nobody", name)
		}
	}
	return ""
}
