package inference_test

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/sse"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func TestStreamUsageIsAdded(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"model":"m"}`})
	const named, added = `{"preset":"p","stream":true`, `"stream_options":{"include_usage":true}`
	for _, tc := range []struct {
		name    string
		config  inference.Config
		dialect domain.Dialect
		body    string
		want    string // in the body that goes upstream; empty if nothing is added
	}{
		{name: "a stream", body: named + `}`, want: added},
		{name: "null", body: named + `,"stream_options":null}`, want: added},
		{name: "no options", body: named + `,"stream_options":{}}`, want: added},
		{name: "null for the option", body: named + `,"stream_options":{"include_usage":null}}`, want: added},
		{name: "other options", body: named + `,"stream_options":{"x":1}}`, want: `"stream_options":{"x":1,"include_usage":true}`},
		{name: "refused", body: named + `,"stream_options":{"include_usage":false}}`},
		{name: "asked for", body: named + `,"stream_options":{"include_usage":true}}`},
		{name: "of another type", body: named + `,"stream_options":7}`},
		{name: "no stream", body: `{"preset":"p"}`},
		{name: "expressly no stream", body: `{"preset":"p","stream":false}`},
		{name: "no preset", body: `{"model":"m","stream":true}`},
		{name: "another API", dialect: domain.Messages, body: named + `}`},
		{name: "a gateway that does not know it", config: inference.Config{DropFields: []string{"stream_options"}}, body: named + `}`},
	} {
		if tc.dialect == "" {
			tc.dialect = domain.Chat
		}
		for _, on := range []bool{true, false} {
			tc.config.AddStreamUsage = on
			got, err := r.resolver(t, tc.config).Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: tc.dialect, Body: []byte(tc.body)})
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			if want := on && tc.want != ""; got.StreamUsageAdded != want {
				t.Errorf("%s: added is %v, want %v", tc.name, got.StreamUsageAdded, want)
			}
			if on && !strings.Contains(got.Body.String(), tc.want) {
				t.Errorf("%s: got %s, want %s", tc.name, got.Body, tc.want)
			}
			fields, err := got.Fields()
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				if (field.From == draft.FromServer) != (got.StreamUsageAdded && field.Name == "stream_options") {
					t.Errorf("%s: %s is from %s", tc.name, field.Name, field.From)
				}
			}
		}
	}
}

func TestResolutionTellsWhatWasNamed(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"models":["first","second"]}`})
	r.label(t, "p", "live", domain.Target{Version: 1})
	resolver := r.resolver(t, inference.Config{TellModel: true})
	for _, tc := range []struct{ body, label, model string }{
		{`{"preset":"p"}`, "", "first"},
		{`{"preset":"p@1"}`, "", "first"},
		{`{"preset":"p@live","model":"own"}`, "live", "own"},
		{`{"preset":"p","model":"` + strings.Repeat("m", 300) + `"}`, "", ""},
	} {
		for range 2 { // the second is cached
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: []byte(tc.body)})
			if err != nil || got.Label != tc.label || got.Model != tc.model || got.PresetID == "" {
				t.Errorf("%.50s: got label %q, model %q, id %q, %v, want %q and %q", tc.body, got.Label, got.Model, got.PresetID, err, tc.label, tc.model)
			}
		}
	}
}

// A request without a preset has a model, too.
func TestModelWithoutAPreset(t *testing.T) {
	resolver := newResolving(t).resolver(t, inference.Config{TellModel: true})
	for body, want := range map[string]string{
		`{"x":[1],"model":"a\u0062c"}`:                            "abc",
		`{"model":7}`:                                             "",
		`{"model":"` + strings.Repeat("m", 300) + `"}`:            "",
		`{"models":["m"]}`:                                        "m",
		`{"model":"","models":[7]}`:                               "",
		`{"session_id":7,"model":"m"}`:                            "m",
		`{"x":1,"x":2,"model":"m","model":"n"}`:                   "m",
		`{"x":"` + strings.Repeat("x", 20<<10) + `","model":"m"}`: "m",
		`{"model":"m","x":"` + strings.Repeat("x", 20<<10) + `"}`: "m",
		`[]`: "",
		``:   "",
		`{"`: "",
	} {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: []byte(body)})
		if got.Model != want || err != nil {
			t.Errorf("%.50s: got %q, %v, want %q", body, got.Model, err, want)
		}
	}
}

const (
	content = `{"object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi \"choices\":[] "}}],"usage":null}`
	chunk   = `{"object":"chat.completion.chunk","choices": [ ],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
)

// filteredStreams are streams in which « and » are around what is taken out.
var filteredStreams = map[string]string{
	"plain":                 "data: " + content + "\n\n«data: " + chunk + "\n\n»data: [DONE]\n\n",
	"CRLF":                  "data: " + content + "\r\n\r\n«data: " + chunk + "\r\n\r\n»data: [DONE]\r\n\r\n",
	"mixed line ends":       "data: " + content + "\r\n\n«data: " + chunk + "\n\r\n»data: [DONE]\r\r\n\n",
	"no space":              "«data:" + chunk + "\n\n»data:[DONE]\n\n",
	"comments":              ": wait\n\n: wait\ndata: " + content + "\n\n: wait\n\n«data: " + chunk + "\n\n»: bye\n\n",
	"a comment before":      ": wait\n«data: " + chunk + "\n»\ndata: [DONE]\n\n",
	"a comment behind":      "«data: " + chunk + "\n: wait\n\n»data: [DONE]\n\n",
	"a name before":         "event: x\r\n«data: " + chunk + "\r\n»\r\ndata: [DONE]\n\n",
	"several lines":         "«data: {\"choices\":\ndata: [],\ndata:\ndata\ndata: \"usage\":{}}\n\n»data: [DONE]\n\n",
	"other lines of data":   "data: {\"choices\":\ndata: [1],\ndata: \"usage\":{}}\n\n",
	"more data":             "data: " + chunk + "\ndata: x\n\n",
	"no blank line":         "data: " + content + "\n\n«data: " + chunk + "\n»",
	"no end of line":        "«data: " + chunk + "»",
	"a broken chunk":        "data: " + chunk[:50],
	"broken JSON":           "data: " + chunk[1:] + "\n\ndata: {\"choices\":[],\"usage\":{}}}\n\n",
	"two chunks":            "«data: " + chunk + "\n\ndata: " + chunk + "\n\n»",
	"only usage":            "data: {\"usage\":{}}\n\ndata: {\"choices\":[]}\n\ndata: {\"choices\":[],\"usage\":null}\n\n",
	"an error":              "data: {\"error\":{\"choices\":[],\"usage\":{}}}\n\n",
	"an error beside":       "data: {\"error\":{\"code\":502},\"choices\":[],\"usage\":{}}\n\n«data: {\"error\":null,\"choices\":[],\"usage\":{}}\n\n»",
	"choices twice":         "data: {\"choices\":[1],\"choices\":[],\"usage\":{}}\n\ndata: {\"choices\":[],\"choices\":null,\"usage\":{}}\n\n",
	"escaped names":         "«data: {\"cho\\u0069ces\":[],\"\\u0075sage\":{}}\n\n»data: {\"\\\"choices\":[],\"usage\":{}}\n\n",
	"LiteLLM's":             "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n«data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":{\"cost\":1}}\n\n»",
	"choices without words": "«data: {\"usage\":{},\"choices\":[ {\"\\u0069ndex\":1, \"delta\" : {\"content\":\"\",\"role\":null,\"tool_calls\":[ ],\"x\":{}}, \"finish_reason\":null, \"logprobs\":null},{\"delta\":[],\"index\":2}, {} ]}\n\n»",
	"a choice that ends":    "data: {\"usage\":{},\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[{\"finish_reason\":0}],\"usage\":{}}\n\n",
	"a choice with content": "data: {\"usage\":{},\"choices\":[{\"delta\":{\"content\":\" \"}}]}\n\ndata: {\"usage\":{},\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
	"a choice with a tool":  "data: {\"usage\":{},\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\ndata: {\"usage\":{},\"choices\":[{\"delta\":{\"tool_calls\":[{}],\"x\":[[{}]]}}]}\n\n",
	"a choice with a value": "data: {\"usage\":{},\"choices\":[{\"index\":true}]}\n\ndata: {\"usage\":{},\"choices\":[{\"delta\":{\"index\":0}}]}\n\ndata: {\"usage\":{},\"choices\":[{\"x\":1}]}\n\n",
	"choices of no objects": "data: {\"usage\":{},\"choices\":[null]}\n\ndata: {\"usage\":{},\"choices\":[[]]}\n\ndata: {\"usage\":{},\"choices\":{}}\n\ndata: {\"usage\":{},\"choices\":[\"\"]}\n\n",
	"no usage in it":        "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":null}\n\n",
	"a choice deeper":       "«data: {\"x\":{\"choices\":[1]},\"choices\":[],\"usage\":{\"choices\":[1]}}\n\n»",
	"other names":           "dat: " + chunk + "\n\ndataa: " + chunk + "\n\nd\n\nDATA: " + chunk + "\n\n data: " + chunk + "\n\n",
	"no stream of events":   `{"choices":[],"usage":{}}`,
	"blank lines":           "\n\n\r\n\n«data: " + chunk + "\n\n»\n\n",
	"large":                 "data: {\"choices\":[],\"usage\":{},\"x\":\"" + strings.Repeat("x", inference.MaxStreamUsage) + "\"}\n\n«data: " + chunk + "\n\n»",
	"no chunk at all, cut":  "data: " + content + "\n\ndat",
	"space around the data": "«data: \t " + chunk + " \t\n\n»",
}

// splitStream returns a stream, and what is left of it.
func splitStream(marked string) (sent, want string) {
	return strings.NewReplacer("«", "", "»", "").Replace(marked), regexp.MustCompile(`«[^»]*»`).ReplaceAllString(marked, "")
}

// filtered returns what passes of a stream that comes in parts.
func filtered(parts ...string) string {
	var f inference.StreamUsageFilter
	var out strings.Builder
	for _, part := range parts {
		out.Write(f.Next([]byte(part)))
	}
	out.Write(f.End())
	return out.String()
}

func TestStreamUsageFilter(t *testing.T) {
	tier.Slow(t)
	for name, marked := range filteredStreams {
		sent, want := splitStream(marked)
		if got := filtered(eachByte([]byte(sent))...); got != want {
			t.Errorf("%s, byte for byte: got %.300q, want %.300q", name, got, want)
		}
		step := 1 + len(sent)/(2000/tier.Sample(4))
		for at := 0; at <= len(sent); at += step {
			if got := filtered(sent[:at], sent[at:]); got != want {
				t.Fatalf("%s, cut at %d: got %.300q, want %.300q", name, at, got, want)
			}
		}
	}
}

// TestStreamUsageFilterHoldsLittle checks what passes at once.
func TestStreamUsageFilterHoldsLittle(t *testing.T) {
	for _, tc := range []struct{ name, sent, held string }{
		{"an event", "data: " + content + "\n\n", ""},
		{"a line without its end", "data: " + content, "data: " + content},
		{"an event without its blank line", "data: " + content + "\n", ""},
		{"a list that may be empty", ": x\n" + `data: {"id":"x","choices": [ `, `data: {"id":"x","choices": [ `},
		{"the end of a stream", "data: [", ""},
		{"a comment", ": wai", ""},
		{"a name", "event:", ""},
		{"a name that may be data", "dat", "dat"},
		{"an object without choices", "data: {\"error\":{}}\n", ""},
		{"an object without choices, perhaps", "data: {\"error\":{}}", "data: {\"error\":{}}"},
		{"a chunk", "data: " + chunk + "\n", "data: " + chunk + "\n"},
		{"a long event", "data: {\"x\":\"" + strings.Repeat("x", inference.MaxStreamUsage), ""},
		{"the rest of a long event", "data: {\"x\":\"" + strings.Repeat("x", inference.MaxStreamUsage) + "\"}\ndata: ", ""},
	} {
		var f inference.StreamUsageFilter
		passed := string(f.Next([]byte(tc.sent)))
		if held := strings.TrimPrefix(tc.sent, passed); held != tc.held {
			t.Errorf("%s: %.300q is held, want %.300q", tc.name, held, tc.held)
		}
	}
}

// FuzzStreamUsageFilter reads any stream. Its parts do not matter, and what passes has no chunk but in
// events that have other lines of data.
func FuzzStreamUsageFilter(f *testing.F) {
	for _, marked := range filteredStreams {
		if sent, _ := splitStream(marked); len(sent) < 4096 {
			f.Add([]byte(sent), uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, sent []byte, at uint16) {
		if len(sent) > inference.MaxStreamUsage {
			return
		}
		cut := min(int(at), len(sent))
		got := filtered(string(sent[:cut]), string(sent[cut:]))
		if bytewise := filtered(eachByte(sent)...); bytewise != got {
			t.Fatalf("%q, byte for byte: got %q, want %q", sent, bytewise, got)
		}
		var want []string
		for data := range sse.Events(bytes.NewReader(sent), 2*inference.MaxStreamUsage) {
			if !inference.IsStreamUsage(data) {
				want = append(want, string(data))
			}
		}
		var passed []string
		for data := range sse.Events(strings.NewReader(got), 2*inference.MaxStreamUsage) {
			passed = append(passed, string(data))
		}
		if !slices.Equal(passed, want) {
			t.Fatalf("%q, cut at %d: got the events %q, want %q", sent, cut, passed, want)
		}
	})
}

// eachByte returns the bytes of text.
func eachByte(text []byte) []string {
	parts := make([]string, len(text))
	for i := range text {
		parts[i] = string(text[i : i+1])
	}
	return parts
}

// TestStreamUsageFilterReadsOnce sends a chunk with as many lines behind it as it may have.
// Reading it again at each of them takes seconds.
func TestStreamUsageFilterReadsOnce(t *testing.T) {
	event := []byte("data: {\"choices\":[],\"usage\":{\"x\":\"" + strings.Repeat("x", inference.MaxStreamUsage/2) + "\"}}\n")
	for len(event) < inference.MaxStreamUsage-8 {
		event = append(event, ":\n"...)
	}
	event = append(event, '\n')
	allocations := testing.AllocsPerRun(1, func() { // each reading allocates
		var f inference.StreamUsageFilter
		f.Next(event)
	})
	if allocations > 200 {
		t.Errorf("a chunk of %d bytes took %v allocations, want at most 200", len(event), allocations)
	}
	if got := filtered(string(event)); got != "" {
		t.Errorf("%d bytes of the chunk pass, want none", len(got))
	}
}

// TestMeasuredStreams asks chat streams for their usage that name no preset, where a limit holds. All else keeps its bytes.
func TestMeasuredStreams(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"model":"m"}`})
	resolver := r.resolver(t, inference.Config{})
	const added = `"stream_options":{"include_usage":true}`
	for body, want := range map[string]string{
		`{"model":"m","stream":true}`:                                                     `{` + added + `,"model":"m","stream":true}`,
		` {"x":null,"stream_options":null ,"stream":true}`:                                ` {"x":null,` + added + ` ,"stream":true}`,
		`{"stream":true,"stream_options":{"x":1}}`:                                        `{"stream":true,"stream_options":{"x":1,"include_usage":true}}`,
		`{"stream":true,"stream_options":{"include_usage":false}}`:                        `{"stream":true,` + added + `}`,
		`{"preset":"p","stream":true,` + strings.Replace(added, "true", "false", 1) + `}`: `{"model":"m","stream":true,` + added + `}`,
		`{"stream":true, "stream_options":{"include_usage":true}}`:                        "",
		`{"stream":false}`:                   "",
		`{"model":"m"}`:                      "",
		`{"stream":true,"stream_options":7}`: "",
		`{"stream":true,"stream_options":{"include_usage":true},"a":1}  `: "",
	} {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Chat, Body: []byte(body), Measured: true})
		if err != nil || got.StreamUsageAdded != (want != "") || got.Body.String() != cmp.Or(want, body) && got.Preset == "" {
			t.Errorf("%s: got %s, added %v, %v; want %s", body, got.Body, got.StreamUsageAdded, err, want)
		}
		if !strings.Contains(got.Body.String(), `"include_usage":true`) && want != "" {
			t.Errorf("%s: got %s, want it to ask for its usage", body, got.Body)
		}
	}
}

// TestAsked compares what bounds the output and the cost of a request.
func TestAsked(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"model":"stored","max_tokens":50}`})
	resolver := r.resolver(t, inference.Config{})
	long := strings.Repeat("m", 300)
	const most = 1_000_000
	for _, tc := range []struct {
		dialect domain.Dialect
		body    string
		want    inference.Asked
	}{
		{chat, `{"model":"m"}`, inference.Asked{Models: []string{"m"}, Choices: 1}},
		{chat, `{"model":"m","max_tokens":1e5}`, inference.Asked{Models: []string{"m"}, MaxTokens: 100_000, Choices: 1}},
		{chat, `{"model":"m","max_tokens":100000.0}`, inference.Asked{Models: []string{"m"}, MaxTokens: 100_000, Choices: 1}},
		{chat, `{"model":"m","max_tokens":99999999999999999999}`, inference.Asked{Models: []string{"m"}, MaxTokens: most, Choices: 1}},
		{chat, `{"model":"m","max_tokens":1e400}`, inference.Asked{Models: []string{"m"}, MaxTokens: most, Choices: 1}},
		{chat, `{"model":"m","max_tokens":7,"max_completion_tokens":1}`, inference.Asked{Models: []string{"m"}, MaxTokens: 7, Choices: 1}},
		{chat, `{"model":"m","max_tokens":1,"max_completion_tokens":7}`, inference.Asked{Models: []string{"m"}, MaxTokens: 7, Choices: 1}},
		{chat, `{"model":"m","max_tokens":-1e400,"n":-1}`, inference.Asked{Models: []string{"m"}, Choices: 1}},
		{chat, `{"model":"m","max_tokens":null,"n":null,"stream":null,"max_output_tokens":"7"}`, inference.Asked{Models: []string{"m"}, Choices: 1}},
		{chat, `{"model":"m","max_tokens":7,"reasoning":{"max_tokens":5e1},"thinking":{"budget_tokens":9}}`, inference.Asked{Models: []string{"m"}, MaxTokens: 7, Thinking: 50, Choices: 1}},
		{domain.Responses, `{"model":"m","max_tokens":1,"max_output_tokens":9}`, inference.Asked{Models: []string{"m"}, MaxTokens: 9, Choices: 1}},
		{domain.Messages, `{"model":"m","max_tokens":9}`, inference.Asked{Models: []string{"m"}, MaxTokens: 9, Choices: 1}},
		{chat, `{"model":"m","n":4,"best_of":8}`, inference.Asked{Models: []string{"m"}, Choices: 8}},
		{chat, `{"model":"a","models":["b",7],"fallbacks":[{"model":"c"},"d"]}`, inference.Asked{Models: []string{"a", "b", "", "c", "d"}, Choices: 1}},
		{chat, `{"model":"` + long + `"}`, inference.Asked{Models: []string{""}, Choices: 1}},
		{chat, `{"models":["x"` + strings.Repeat(`,"m"`, 64) + `]}`, inference.Asked{Models: slices.Concat([]string{"x"}, slices.Repeat([]string{"m"}, 62), []string{""}), Choices: 1}},
		{chat, `{}`, inference.Asked{Models: []string{""}, Choices: 1}},
		{chat, `{"preset":"p"}`, inference.Asked{Models: []string{"stored"}, MaxTokens: 50, Choices: 1}},
	} {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: tc.dialect, Body: []byte(tc.body), Measured: true})
		if err != nil || !reflect.DeepEqual(got.Asked, tc.want) {
			t.Errorf("%.80s: got %+v, %v, want %+v", tc.body, got.Asked, err, tc.want)
		}
	}
}

// TestAskedMustBeClear refuses requests under limits of which a gateway may read that they ask for more. Without limits they pass.
func TestAskedMustBeClear(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Chat, config: `{"model":"stored"}`})
	resolver := r.resolver(t, inference.Config{})
	_, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: chat, Body: []byte(`{"a":"&max_tokens=9"}`), OtherType: true, Measured: true})
	if !strings.Contains(fmt.Sprint(err), "content-type: must be application/json") {
		t.Errorf("a form: got %v", err)
	}
	for _, tc := range []struct {
		dialect      domain.Dialect
		fields, want string
	}{
		{chat, `"max_tokens":"7"`, "/max_tokens: must be an integer"},
		{chat, `"max_tokens":1,"max_completion_tokens":"30000"`, "/max_completion_tokens: must be an integer"},
		{chat, `"max_tokens":0.5`, "/max_tokens: must be an integer"},
		{chat, `"n":"3"`, "/n: must be an integer"},
		{chat, `"best_of":[3]`, "/best_of: must be an integer"},
		{chat, `"reasoning":{"max_tokens":"9"}`, "/reasoning/max_tokens: must be an integer"},
		{domain.Messages, `"thinking":{"budget_tokens":true}`, "/thinking/budget_tokens: must be an integer"},
		{domain.Responses, `"max_output_tokens":{}`, "/max_output_tokens: must be an integer"},
		{chat, `"stream":"true"`, "/stream: must be true or false"},
		{chat, `"stream":1`, "/stream: must be true or false"},
		{chat, `"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`, "/stream_options: "},
		{chat, `"stream":true,"stream_options":{"include_usage":false,"include_usage":true}`, "/stream_options: "},
		{domain.Messages, `"thinking":{"budget_tokens":1,"budget_tokens":9}`, "/thinking: "},
		{chat, `"stream":false,"stream":true`, "/stream: duplicate name"},
		{chat, `"max_tokens":1,"max_tokens":9`, "/max_tokens: duplicate name"},
		{chat, `"max_tokens":1,`, "not valid JSON"},
	} {
		for _, model := range []string{"m", "@preset/p"} {
			body := []byte(`{"model":"` + model + `",` + tc.fields + `}`)
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: tc.dialect, Body: body, Measured: true})
			if domain.KindOf(err) != domain.Invalid || !strings.Contains(fmt.Sprint(err), tc.want) || got.Body != nil {
				t.Errorf("%s: got %v, %v, want %q", body, got.Body, err, tc.want)
			}
			if model == "m" {
				if got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: tc.dialect, Body: body}); err != nil || got.Body.String() != string(body) {
					t.Errorf("%s without limits: got %s, %v", body, got.Body, err)
				}
			}
		}
	}
}
