package dialects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var allDialects = []domain.Dialect{domain.Responses, domain.Chat, domain.Messages}

// settingsOf returns the members of an object that a test wrote.
func settingsOf(t testing.TB, text string) []rawjson.Member {
	t.Helper()
	members, err := rawjson.Members(jsontext.Value(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return members
}

// unknownSet returns the set of the words in names.
func unknownSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

func TestTranslate(t *testing.T) {
	for _, c := range table.Read(t, "testdata/translate.txt", "from", "to", "settings", "unknown", "want", "dropped") {
		t.Run(c["="], func(t *testing.T) {
			settings := settingsOf(t, c["settings"])
			fields, dropped := Translate(settings, domain.Dialect(c["from"]), domain.Dialect(c["to"]), unknownSet(c["unknown"]))
			if got := string(rawjson.ObjectOf(fields...)); got != c["want"] {
				t.Errorf("got\n%s, want\n%s", got, c["want"])
			}
			if got := strings.Join(dropped, " "); got != c["dropped"] {
				t.Errorf("dropped %q, want %q", got, c["dropped"])
			}
			if got := string(rawjson.ObjectOf(settings...)); got != string(rawjson.ObjectOf(settingsOf(t, c["settings"])...)) {
				t.Errorf("settings became %s", got)
			}
		})
	}
}

// A field without a rule stays as it is or is listed.
func TestTranslateFieldsWithoutRule(t *testing.T) {
	ruled := unknownSet(`max_output_tokens max_completion_tokens max_tokens reasoning reasoning_effort thinking output_config
		text response_format verbosity stop stop_sequences fallbacks tools tool_choice parallel_tool_calls service_tier`)
	for name, field := range Fields {
		in := field.Kept
		for _, from := range allDialects {
			for _, to := range allDialects {
				if in&SetOf(from) == 0 || ruled[name] {
					continue
				}
				fields, dropped := Translate([]rawjson.Member{rawjson.NewMember(name, jsontext.Value(`[ ]`))}, from, to, nil)
				want, wantDropped := `{"`+name+`":[ ]}`, []string(nil)
				if Fields[name].Form == nil || in&SetOf(to) == 0 {
					want, wantDropped = `{}`, []string{name}
				}
				if got := string(rawjson.ObjectOf(fields...)); got != want || !slices.Equal(dropped, wantDropped) {
					t.Errorf("%s from %s to %s: got %s, dropped %q, want %s, %q", name, from, to, got, dropped, want, wantDropped)
				}
			}
		}
	}
}

// generator makes plausible settings.
type generator struct{ *rand.Rand }

func (g generator) pick(values ...string) string { return values[g.IntN(len(values))] }

func (g generator) some(n int) bool { return g.IntN(n) == 0 }

// object returns an object of a random part of members, "name:value" each, in
// random order. Those that begin with + are always there.
func (g generator) object(members ...string) string {
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var parts []string
	for _, m := range members {
		always := strings.HasPrefix(m, "+")
		if always || g.some(2) {
			name, value, _ := strings.Cut(strings.TrimPrefix(m, "+"), ":")
			parts = append(parts, strconv.Quote(name)+g.pick(":", ": ")+value)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (g generator) array(element func() string) string {
	var elements []string
	for range 1 + g.IntN(4) {
		elements = append(elements, element())
	}
	return "[" + strings.Join(elements, g.pick(",", " , ")) + "]"
}

func (g generator) schema() string {
	return g.pick(`{"type":"object","properties":{"a":{"type": "string"}}}`, `{"type":"object","properties":{"x":{"enum":[1.0,2]}},"required":["x"]}`, `{}`)
}

func (g generator) effort() string {
	return g.pick(`"minimal"`, `"none"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`)
}

func (g generator) number() string { return strconv.Itoa(1 + g.IntN(9)) }

func (g generator) tool(d domain.Dialect) string {
	switch g.IntN(6) {
	case 0:
		if d == domain.Responses && g.some(3) {
			return `{"type":"openrouter:apply_patch"}`
		}
		return g.object(`+type:"openrouter:`+g.pick("web_search", "bash")+`"`, `parameters:{}`)
	case 1:
		return g.object(`+type:"`+g.pick("web_search_preview", "web_search", "mcp", "custom_", "shell", "web_search_20250305")+`"`, `+name:"w"`, `max_uses:1`)
	}
	name, strict, description := `+name:"`+g.pick("f", "g")+`"`, `strict:`+g.pick("true", "false", "null"), `description:`+g.pick(`"d"`, "null", `"\u00fc"`)
	switch d {
	case domain.Responses:
		return g.object(`+type:"function"`, name, strict, description, `+parameters:`+g.pick(g.schema(), "null"), `defer_loading:true`, `async:true`)
	case domain.Chat:
		return g.object(`+type:"function"`, `+function:`+g.object(name, strict, description, `parameters:`+g.schema(), `x:1`), `cache_control:{"type":"ephemeral"}`, `y:1`)
	}
	return g.object(`type:"custom"`, name, strict, description, `+input_schema:`+g.schema(), `cache_control:{"type":"ephemeral"}`, `defer_loading:true`, `input_examples:[]`)
}

func (g generator) toolChoice(d domain.Dialect) string {
	switch d {
	case domain.Responses:
		return g.pick(`"auto"`, `"none"`, `"required"`, `{"type":"function","name":"f"}`, `{"type":"web_search_preview"}`, `{"type":"shell"}`)
	case domain.Chat:
		return g.pick(`"auto"`, `"none"`, `"required"`, `{"type":"function","function":{"name":"f"}}`, `{"type":"openrouter:bash"}`)
	}
	return g.object(g.pick(`+type:"auto"`, `+type:"none"`, `+type:"any"`), `disable_parallel_tool_use:true`)
}

func (g generator) settings(d domain.Dialect) string {
	tool := func() string { return g.tool(d) }
	name := func() string { return g.pick(`"a"`, `"b"`, `"c"`) }
	tier := g.pick(`"auto"`, `"flex"`)
	if d == domain.Messages {
		tier = g.pick(`"auto"`, `"standard_only"`)
	}
	members := []string{
		`model:"m"`, `models:` + g.array(name), `provider:{"zdr": true}`, `plugins:[{"id":"web"}]`, `temperature:1.0`, `top_p:0.5`, `top_k:3`,
		`tools:` + g.array(tool), `tool_choice:` + g.toolChoice(d), `service_tier:` + tier, `route:"sort"`, `stop_server_tools_when:[{"type":"max_cost"}]`,
		`cache_control:{"type":"ephemeral"}`, `cache_enabled:true`, `cache_ttl_seconds:4`,
	}
	if d != domain.Messages {
		members = append(members, `parallel_tool_calls:`+g.pick("true", "false"), `frequency_penalty:1`, `presence_penalty:1`, `top_logprobs:1`, `modalities:["text"]`, `image_config:{"a":1}`, `prompt_cache_options:{"mode":"explicit"}`)
	}
	reasoning := g.object(`effort:`+g.effort(), `max_tokens:`+g.number(), `summary:`+g.pick(`"auto"`, `null`), `enabled:true`, `mode:"pro"`)
	format := g.pick(`{"type":"text"}`, `{"type":"json_object"}`)
	schema := []string{`+name:"n"`, `+schema:` + g.schema(), `description:"d"`, `strict:` + g.pick(`true`, `null`)}
	switch d {
	case domain.Responses:
		if g.some(2) {
			format = g.object(append(schema, `+type:"json_schema"`)...)
		}
		members = append(members, `max_output_tokens:`+g.number(), `reasoning:`+reasoning, `max_tool_calls:1`, `include:[]`, `truncation:"auto"`,
			`text:`+g.object(`format:`+format, `verbosity:"low"`))
	case domain.Chat:
		if g.some(2) {
			format = g.object(`+type:"json_schema"`, `+json_schema:`+g.object(schema...))
		} else if g.some(4) {
			format = `{"type":"grammar","grammar":"g"}`
		}
		members = append(members, `max_completion_tokens:`+g.number(), `max_tokens:`+g.number(), `reasoning:`+reasoning, `reasoning_effort:`+g.effort(),
			`stop:`+g.pick(`"s"`, `["s","t"]`), `verbosity:"low"`, `response_format:`+format, `min_p:1`, `top_a:1`, `seed:7`, `logit_bias:{}`, `logprobs:true`,
			`repetition_penalty:1`, `web_search_options:{}`, `structured_outputs:true`, `include_reasoning:true`)
	case domain.Messages:
		members = append(members, `max_tokens:`+g.number(), `stop_sequences:["s","t"]`, `fallbacks:`+g.array(func() string { return g.object(`+model:`+name(), `x:1`) }),
			`thinking:`+g.pick(`{"type":"adaptive"}`, `{"type":"disabled"}`, g.object(`+type:"enabled"`, `+budget_tokens:`+g.number(), `display:"x"`)),
			`output_config:`+g.object(`effort:`+g.pick(`"low"`, `"max"`), `format:`+g.object(`+type:"json_schema"`, `+schema:`+g.schema(), `x:1`), `task_budget:{}`),
			`context_management:{}`, `speed:"fast"`)
	}
	return g.object(members...)
}

// checkTranslation fails unless fields and dropped have the form that every
// translation has.
func checkTranslation(t *testing.T, fields []rawjson.Member, dropped []string, to domain.Dialect, unknown map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range fields {
		if !f.Value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) || f.Value.Kind() == 'n' {
			t.Errorf("%s is %s, want JSON other than null", f.Name, f.Value)
		}
		if Fields[f.Name].Kept&SetOf(to) == 0 || Fields[f.Name].Form == nil || unknown[f.Name] {
			t.Errorf("got field %s, want fields that a request of %s may have", f.Name, to)
		}
		if seen[f.Name] {
			t.Errorf("got %s twice", f.Name)
		}
		seen[f.Name] = true
	}
	names := map[string]bool{}
	for _, name := range dropped {
		if names[name] || !regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`).MatchString(name) {
			t.Errorf("dropped %q has %q, want each name once and fit for a header", dropped, name)
		}
		names[name] = true
	}
}

// tree returns the meaning of fields.
func tree(t *testing.T, fields []rawjson.Member) map[string]any {
	t.Helper()
	var meaning map[string]any
	d := json.NewDecoder(bytes.NewReader(rawjson.ObjectOf(fields...)))
	d.UseNumber()
	if err := d.Decode(&meaning); err != nil {
		t.Fatal(err)
	}
	return meaning
}

// without returns the value at path without the parts that names list and
// without nulls, nil when nothing is left.
func without(value any, path string, names []string) any {
	if slices.Contains(names, path) {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, part := range v {
			if part = without(part, strings.TrimPrefix(path+"."+name, "."), names); part != nil {
				left[name] = part
			}
		}
		if len(left) > 0 || len(v) == 0 {
			return left
		}
		return nil
	case []any:
		left := []any{}
		for i, part := range v {
			if part = without(part, path+"."+strconv.Itoa(i), names); part != nil {
				left = append(left, part)
			}
		}
		if len(left) > 0 || len(v) == 0 {
			return left
		}
		return nil
	}
	return value
}

// canonical changes settings of dialect d into a canonical form: equivalent settings become
// equal.
func canonical(settings map[string]any, d domain.Dialect) map[string]any {
	rename := func(from, to string, convert func(any) any) {
		if v, ok := settings[from]; ok && d != domain.Responses {
			delete(settings, from)
			settings[to] = convert(v)
		}
	}
	if d == domain.Chat {
		rename("max_tokens", "max_completion_tokens", func(v any) any { return v })
		rename("reasoning_effort", "reasoning", func(v any) any {
			reasoning, _ := settings["reasoning"].(map[string]any)
			if reasoning == nil {
				reasoning = map[string]any{}
			}
			reasoning["effort"] = v
			return reasoning
		})
		rename("stop", "stop", func(v any) any {
			if _, ok := v.(string); ok {
				return []any{v}
			}
			return v
		})
	}
	rename("fallbacks", "models", func(v any) any {
		var models []any
		for _, entry := range v.([]any) {
			models = append(models, entry.(map[string]any)["model"])
		}
		return models
	})
	if settings["parallel_tool_calls"] == false && settings["tool_choice"] == nil {
		settings["tool_choice"] = "auto" // which has it in messages
	}
	format, _ := settings["response_format"].(map[string]any)
	format, _ = format["json_schema"].(map[string]any)
	if text, ok := settings["text"].(map[string]any); ok {
		format, _ = text["format"].(map[string]any)
		if format["type"] != "json_schema" {
			format = nil
		}
	}
	if format != nil && format["name"] == nil {
		format["name"] = "response"
	}
	tools, _ := settings["tools"].([]any)
	for _, tool := range tools {
		tool := tool.(map[string]any)
		if tool["type"] == "custom" {
			delete(tool, "type")
		}
		// Chat has its function's members one level down.
		inner, _ := tool["function"].(map[string]any)
		for _, function := range []map[string]any{tool, inner} {
			for _, name := range []string{"parameters", "input_schema"} {
				if reflect.DeepEqual(function[name], map[string]any{"type": "object", "properties": map[string]any{}}) {
					delete(function, name)
				}
			}
		}
	}
	return settings
}

// eachGenerated calls check with settings of each dialect on the way to each
// other one.
func eachGenerated(t *testing.T, rounds int, check func(t *testing.T, g generator, settings []rawjson.Member, from, to domain.Dialect)) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for i := range rounds {
		for _, from := range allDialects {
			text := g.settings(from)
			for _, to := range allDialects {
				ok := t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
					check(t, g, settingsOf(t, text), from, to)
					if t.Failed() {
						t.Logf("%s to %s: %s", from, to, text)
					}
				})
				if !ok {
					return
				}
			}
		}
	}
}

// Settings that are not listed as dropped come back from the other dialect.
func TestTranslateRoundTrip(t *testing.T) {
	tier.NoRace(t)
	eachGenerated(t, 500/tier.Sample(4), func(t *testing.T, _ generator, settings []rawjson.Member, from, to domain.Dialect) {
		there, dropped := Translate(settings, from, to, nil)
		checkTranslation(t, there, dropped, to, nil)
		back, droppedBack := Translate(there, to, from, nil)
		checkTranslation(t, back, droppedBack, from, nil)
		if from == to {
			if got, want := rawjson.ObjectOf(there...), rawjson.ObjectOf(slices.DeleteFunc(settings, func(m rawjson.Member) bool { return Fields[m.Name].Form == nil })...); !bytes.Equal(got, want) {
				t.Errorf("got %s, want it unchanged: %s", got, want)
			}
			return
		}
		for _, name := range droppedBack {
			// Messages has no name for a schema, so it gets one elsewhere.
			if name != "text.format.name" && name != "response_format.json_schema.name" {
				t.Errorf("dropped %q on the way back, want nothing that %s had not", droppedBack, from)
			}
		}
		left, _ := without(tree(t, settings), "", dropped).(map[string]any)
		want := canonical(left, from)
		got, _ := without(tree(t, back), "", nil).(map[string]any)
		if got = canonical(got, from); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("got back %v,\nwant %v,\ndropped %q\nin between %s", got, want, dropped, rawjson.ObjectOf(there...))
		}
	})
}

// A setting that the gateway does not know is listed or takes another name.
func TestTranslateUnknown(t *testing.T) {
	names := settingNames()
	others := map[string]string{
		"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens",
		"reasoning": "reasoning_effort", "reasoning_effort": "reasoning",
	}
	// A dropped setting may be listed under the name it would have been sent with.
	sentAs := map[string]string{
		"fallbacks": "models", "max_tokens": "max_output_tokens", "reasoning": "output_config thinking", "reasoning_effort": "reasoning output_config",
		"thinking": "reasoning", "output_config": "reasoning text response_format", "text": "response_format verbosity output_config",
		"response_format": "text output_config", "verbosity": "text", "parallel_tool_calls": "tool_choice", "tool_choice": "parallel_tool_calls",
	}
	eachGenerated(t, 500/tier.Sample(4), func(t *testing.T, g generator, settings []rawjson.Member, from, to domain.Dialect) {
		unknown := map[string]bool{}
		for range g.IntN(20) {
			unknown[names[g.IntN(len(names))]] = true
		}
		all, allDropped := Translate(settings, from, to, nil)
		known, dropped := Translate(settings, from, to, unknown)
		checkTranslation(t, known, dropped, to, unknown)
		listed := func(name string) bool {
			return slices.ContainsFunc(dropped, func(d string) bool { return d == name || strings.HasPrefix(d, name+".") })
		}
		for _, f := range all {
			got := rawjson.Find(known, f.Name)
			other := others[f.Name]
			switch {
			case bytes.Equal(got, f.Value):
			case got == nil && slices.Contains(ToolUseFields, f.Name) && unknown["tools"]:
				if !slices.ContainsFunc(ToolUseFields, listed) { // by the name that it was captured with
					t.Errorf("%s is gone, want it in %q", f.Name, dropped)
				}
			case got == nil && unknown[f.Name]:
				if !listed(f.Name) && (to != domain.Chat || rawjson.Find(known, other) == nil && (!unknown[other] || !listed(other))) {
					t.Errorf("%s is gone, want it in %q or under another name", f.Name, dropped)
				}
			case to == domain.Chat && got != nil && unknown[other]: // its other name joined it
			default:
				t.Errorf("%s became %s, want %s", f.Name, got, f.Value)
			}
		}
		for _, f := range known {
			if rawjson.Find(all, f.Name) == nil && (to != domain.Chat || !unknown[others[f.Name]]) {
				t.Errorf("%s appeared, want no more than %s", f.Name, rawjson.ObjectOf(all...))
			}
		}
		for _, name := range allDropped {
			field, _, _ := strings.Cut(name, ".")
			if !slices.Contains(dropped, name) && !listed(field) && !slices.ContainsFunc(strings.Fields(sentAs[field]), listed) {
				t.Errorf("%s is not in %q, want it there also with unknown %v", name, dropped, unknown)
			}
		}
		if t.Failed() {
			t.Logf("unknown %v, got %s", unknown, rawjson.ObjectOf(known...))
		}
	})
}

// FuzzTranslate takes the settings as an object of one member for each field.
// A member named by a number is the field of that number, so that any value
// meets any rule.
func FuzzTranslate(f *testing.F) {
	names := settingNames()
	g := generator{rand.New(rand.NewPCG(3, 4))}
	for i := range 30 {
		f.Add(g.settings(allDialects[i%3]), uint8(i%3), uint8(i/3), uint64(i))
	}
	f.Add(`{"tools":[{"type":"function","function":{"name":1,"name":"a"}},null,[]],"tool_choice":{"type":{}},"reasoning":[1]}`, uint8(1), uint8(2), uint64(0))
	f.Add(`{"thinking":{"type":"enabled","budget_tokens":[]},"output_config":{"format":{"type":"json_schema"},"format":7},"fallbacks":[[]]}`, uint8(2), uint8(0), uint64(1))
	f.Fuzz(func(t *testing.T, text string, from, to uint8, unknownBits uint64) {
		source, target := allDialects[from%3], allDialects[to%3]
		members, err := rawjson.Members(jsontext.Value(text))
		if err != nil {
			return
		}
		var settings []rawjson.Member
		seen, unknown := map[string]bool{}, map[string]bool{}
		for _, m := range members {
			if n, err := strconv.Atoi(m.Name); err == nil && n >= 0 {
				m.Name = names[n%len(names)]
			}
			if Fields[m.Name].Kept&SetOf(source) != 0 && !seen[m.Name] {
				seen[m.Name] = true
				settings = append(settings, m)
			}
		}
		for i, name := range names {
			if unknownBits>>i&1 == 1 {
				unknown[name] = true
			}
		}
		before := string(rawjson.ObjectOf(settings...))
		fields, dropped := Translate(settings, source, target, unknown)
		checkTranslation(t, fields, dropped, target, unknown)
		if after := string(rawjson.ObjectOf(settings...)); after != before {
			t.Errorf("settings became %s, want %s", after, before)
		}
		if len(fields)+len(dropped) == 0 {
			for _, s := range settings {
				if s.Value.Kind() != 'n' {
					t.Errorf("nothing is left of %s and nothing listed", before)
				}
			}
		}
	})
}
