package inference_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
)

const (
	responses = domain.Responses
	chat      = domain.Chat
	messages  = domain.Messages
)

// merging is a request that names a preset, and the expected result.
type merging struct {
	name   string
	to     domain.Dialect // of the request; responses if empty
	from   domain.Dialect // of the preset; to if empty
	config string         // {"model":"m"} if empty
	prompt string
	// Settings of the workspace and the operator.
	textModel, providerSort string
	dropFields              []string

	body    string
	want    string
	dropped string // separated by commas
	fields  string // name=source, separated by spaces; not compared if empty
	// refused is a part of the message of the expected Invalid error.
	refused string
}

func testMerge(t *testing.T, cases []merging) {
	t.Helper()
	r := newResolving(t)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.to == "" {
				tc.to = responses
			}
			if tc.from == "" {
				tc.from = tc.to
			}
			if tc.config == "" {
				tc.config = `{"model":"m"}`
			}
			resolver := r.resolver(t, inference.Config{Memory: domain.NewMemory(1 << 20), DropFields: tc.dropFields})
			who := r.team(t, fmt.Sprint("team", i), tc.textModel, tc.providerSort)
			r.put(t, who.WorkspaceID, "p", version{tc.from, tc.config, tc.prompt})
			got, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: tc.to, Body: []byte(tc.body)})
			if tc.refused != "" {
				wantKind(t, err, domain.Invalid, tc.refused)
				return
			}
			wantBody(t, got, err, tc.want)
			if dropped := strings.Join(got.Dropped, ","); dropped != tc.dropped {
				t.Errorf("got dropped %q\nwant %q", dropped, tc.dropped)
			}
			if fields := sources(got); tc.fields != "" && fields != tc.fields {
				t.Errorf("got fields %q\nwant %q", fields, tc.fields)
			}
			if err != nil {
				return
			}
			again, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: tc.to, Body: withPreset(got.Body.Bytes())})
			if err != nil || again.Body.String() != got.Body.String() {
				t.Errorf("merged again: got %s, %v\nwant %s", again.Body, err, got.Body)
			}
		})
	}
}

func sources(r inference.Resolution) string {
	var fields []string
	told, _ := r.Fields()
	for _, f := range told {
		fields = append(fields, f.Name+"="+string(f.From))
	}
	return strings.Join(fields, " ")
}

// withPreset returns an object with a reference to p as its last member.
func withPreset(object []byte) []byte {
	body := slices.Clone(object[:len(object)-1])
	if string(body) != "{" {
		body = append(body, ',')
	}
	return append(body, `"preset":"p"}`...)
}

// mergings reads a table of testdata/merge.
func mergings(tb testing.TB, file string) (cases []merging) {
	tb.Helper()
	for _, c := range table.Read(tb, file, "from", "to", "preset", "prompt", "model", "sort", "drop", "request", "upstream", "dropped", "sources", "refused") {
		cases = append(cases, merging{
			name: c["="], from: domain.Dialect(c["from"]), to: domain.Dialect(c["to"]), config: c["preset"], prompt: c["prompt"],
			textModel: c["model"], providerSort: c["sort"], dropFields: strings.Fields(c["drop"]),
			body: c["request"], want: c["upstream"], dropped: c["dropped"], fields: c["sources"], refused: c["refused"],
		})
	}
	return cases
}

// TestMerge merges the requests of testdata/merge.
func TestMerge(t *testing.T) {
	files, err := filepath.Glob("testdata/merge/*.txt")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { testMerge(t, mergings(t, file)) })
	}
	testMerge(t, []merging{
		{
			name: "null with white space", config: `{"model":"m","temperature":1}`,
			body: "{\"temperature\" : \n null ,\"preset\":\"p\"}", want: `{"temperature":1,"model":"m"}`,
		},
		{
			name: "invalid UTF-8",
			body: "{\"preset\":\"p\",\"input\":\"a\xffb\",\"\xfe\":1}", want: "{\"input\":\"a\xffb\",\"\xfe\":1,\"model\":\"m\"}",
		},
		{
			name: "two names of invalid UTF-8",
			body: "{\"preset\":\"p\",\"\xff\":1,\"\xfe\":2}", refused: "duplicate name",
		},
		{
			name: "deep nesting",
			body: `{"preset":"p","input":` + deep(9000) + `}`, want: `{"input":` + deep(9000) + `,"model":"m"}`,
		},
		{
			name: "empty fields with white space", config: `{"model":"m","text":{"verbosity":"low"},"include":["a"]}`,
			body: "{\"preset\":\"p\",\"text\":{ \n},\"include\":[\t]}", want: `{"text":{"verbosity":"low"},"include":["a"],"model":"m"}`,
		},
	})
}

func TestMergeOfTools(t *testing.T) {
	// union is a case about tools alone.
	union := func(name string, to domain.Dialect, preset, request, want string) merging {
		return merging{
			name: string(to) + ": " + name, to: to, config: `{"model":"m","tools":` + preset + `}`,
			body: `{"preset":"p","tools":` + request + `}`, want: `{"tools":` + want + `,"model":"m"}`,
		}
	}
	both := func(name string, to domain.Dialect, preset, request string) merging {
		return union(name, to, `[`+preset+`]`, `[`+request+`]`, `[`+preset+`,`+request+`]`)
	}
	replaced := func(name string, to domain.Dialect, preset, request string) merging {
		return union(name, to, `[{"type":"first"},`+preset+`,{"type":"last"}]`, `[`+request+`]`, `[{"type":"first"},`+request+`,{"type":"last"}]`)
	}
	const many = 4096
	cases := []merging{
		replaced("functions by name", responses, `{"type":"function","name":"f","parameters":{}}`, `{"name":"f" ,"strict":true,"type":"function"}`),
		both("functions by name", responses, `{"type":"function","name":"f"}`, `{"type":"function","name":"F"}`),
		replaced("functions by an escaped name", responses, `{"type":"function","name":"f"}`, `{"type":"function","name":"\u0066"}`),
		replaced("functions by name", chat, `{"type":"function","function":{"name":"f","strict":true}}`, `{"function":{"name":"f"},"type":"function"}`),
		both("functions by name", chat, `{"type":"function","function":{"name":"f"}}`, `{"type":"function","function":{"name":"g"}}`),
		both("functions by no other name", chat, `{"type":"function","name":"f","function":{"name":"a"}}`, `{"type":"function","name":"f","function":{"name":"b"}}`),
		replaced("functions by name", messages, `{"name":"f","input_schema":{}}`, `{"input_schema":{"type":"object"},"name":"f"}`),
		replaced("functions with and without a type", messages, `{"name":"f"}`, `{"type":"custom","name":"f"}`),
		both("functions by name", messages, `{"name":"f"}`, `{"name":"g"}`),
		replaced("vendor tools by type", responses, `{"type":"openrouter:web_search","parameters":{"max_results":1}}`, `{"type":"openrouter:web_search"}`),
		replaced("vendor tools by type", chat, `{"type":"openrouter:datetime"}`, `{"type":"openrouter:datetime","parameters":{}}`),
		replaced("vendor tools by type", messages, `{"type":"openrouter:datetime"}`, `{"type":"openrouter:datetime","parameters":{}}`),
		both("vendor tools by type", responses, `{"type":"openrouter:web_search"}`, `{"type":"openrouter:web_fetch"}`),
		replaced("advisors by name", responses, `{"type":"openrouter:advisor","parameters":{"name":"a","model":"x"}}`, `{"type":"openrouter:advisor","parameters":{"name":"a"}}`),
		both("advisors by name", chat, `{"type":"openrouter:advisor","parameters":{"name":"a"}}`, `{"type":"openrouter:advisor","parameters":{"name":"b"}}`),
		both("advisors, one the default", messages, `{"type":"openrouter:advisor"}`, `{"type":"openrouter:advisor","parameters":{"name":"b"}}`),
		replaced("the default advisor", responses, `{"type":"openrouter:advisor","parameters":{"model":"x"}}`, `{"type":"openrouter:advisor"}`),
		replaced("subagents by name", responses, `{"type":"openrouter:subagent","parameters":{"name":"a"}}`, `{"type":"openrouter:subagent","parameters":{"name":"a","x":1}}`),
		both("an advisor and a subagent of one name", responses, `{"type":"openrouter:subagent","parameters":{"name":"a"}}`, `{"type":"openrouter:advisor","parameters":{"name":"a"}}`),
		replaced("custom by name", responses, `{"type":"custom","name":"f"}`, `{"type":"custom","name":"f","format":{}}`),
		both("custom by name", responses, `{"type":"custom","name":"f"}`, `{"type":"custom","name":"g"}`),
		replaced("custom of chat by its inner name", chat, `{"type":"custom","custom":{"name":"f"}}`, `{"type":"custom","custom":{"name":"f","description":"d"}}`),
		both("custom of chat by its inner name", chat, `{"type":"custom","custom":{"name":"f"}}`, `{"type":"custom","custom":{"name":"g"}}`),
		replaced("custom and function of one name", responses, `{"type":"custom","name":"f"}`, `{"type":"function","name":"f"}`),
		replaced("custom and function of one name", chat, `{"type":"custom","custom":{"name":"f"}}`, `{"type":"function","function":{"name":"f"}}`),
		replaced("namespaces by name", responses, `{"type":"namespace","name":"f"}`, `{"type":"namespace","name":"f","tools":[]}`),
		both("namespace and custom of one name", responses, `{"type":"namespace","name":"f"}`, `{"type":"custom","name":"f"}`),
		replaced("mcp by server_label", responses, `{"type":"mcp","server_label":"s","server_url":"a"}`, `{"type":"mcp","server_label":"s","server_url":"b"}`),
		both("mcp by server_label", responses, `{"type":"mcp","server_label":"s"}`, `{"type":"mcp","server_label":"t"}`),
		replaced("any other by type", responses, `{"type":"file_search","vector_store_ids":["a"]}`, `{"type":"file_search","vector_store_ids":["b"]}`),
		replaced("server tools by name, whatever their date", messages, `{"type":"web_search_20250305","name":"web_search"}`, `{"type":"web_search_20260209","name":"web_search","max_uses":2}`),
		replaced("server tool and function of one name", messages, `{"type":"bash_20250124","name":"bash"}`, `{"name":"bash","input_schema":{}}`),
		replaced("function and server tool of one name", messages, `{"type":"custom","name":"bash"}`, `{"type":"bash_20250124","name":"bash"}`),
		replaced("server tools of another API by name", chat, `{"type":"function","function":{"name":"web_search"}}`, `{"type":"web_search_20250305","name":"web_search"}`),
		both("server tools of other names", messages, `{"type":"bash_20250124","name":"bash"}`, `{"type":"bash_20250124","name":"sh"}`),
		replaced("web search and its preview", responses, `{"type":"web_search_preview_2025_03_11"}`, `{"type":"web_search"}`),
		replaced("web search and a date of it", chat, `{"type":"web_search"}`, `{"type":"web_search_2025_08_26"}`),
		both("web search and that of a vendor", responses, `{"type":"web_search"}`, `{"type":"openrouter:web_search"}`),
		both("function with the name of a type", responses, `{"type":"file_search"}`, `{"type":"function","name":"file_search"}`),
		both("namespace and function of one name", responses, `{"type":"namespace","name":"f"}`, `{"type":"function","name":"f"}`),
		replaced("sets of MCP tools by server", messages, `{"type":"mcp_toolset","mcp_server_name":"s"}`, `{"type":"mcp_toolset","mcp_server_name":"s","configs":{}}`),
		both("sets of MCP tools by server", messages, `{"type":"mcp_toolset","mcp_server_name":"s"}`, `{"type":"mcp_toolset","mcp_server_name":"t"}`),
		both("no identity", responses, `{"a":1}`, `{"a":2}`),
		both("functions without a name", responses, `{"type":"function","a":1}`, `{"type":"function","a":2}`),
		both("no objects", chat, `"a",5`, `null,[]`),
		union("the same without identity", responses, `[{"a":1},5]`, `[5,{"b":1}]`, `[{"a":1},5,{"b":1}]`),
		union("the preset's order, then the request's", responses,
			`[{"type":"a"},{"type":"b"},{"type":"c"}]`, `[{"type":"x"},{"type":"c","n":1},{"type":"y"},{"type":"a","n":1}]`,
			`[{"type":"a","n":1},{"type":"b"},{"type":"c","n":1},{"type":"x"},{"type":"y"}]`),
		union("bytes", responses, `[ { "type" : "a", "n":1.0 } , {"type":"b"}]`, `[ {"typ\u0065" : "c"} ]`, `[{ "type" : "a", "n":1.0 },{"type":"b"},{"typ\u0065" : "c"}]`),
		union("a request with all of the preset's keeps its bytes", responses, `[{"type":"a"}]`, `[ {"type":"a", "n":1} , {"type":"b"} ]`, `[ {"type":"a", "n":1} , {"type":"b"} ]`),
		union("duplicates in the request: the first takes the place", responses, `[{"type":"a"},{"type":"b"}]`, `[{"type":"a","n":1},{"type":"a","n":2}]`, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`),
		union("duplicates in the preset stay", responses, `[{"type":"a","n":1},{"type":"a","n":2}]`, `[{"type":"b"}]`, `[{"type":"a","n":1},{"type":"a","n":2},{"type":"b"}]`),
		union("duplicates in the preset are all replaced", responses, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`, `[{"type":"a","n":3}]`, `[{"type":"a","n":3},{"type":"b"}]`),
		union("duplicates in the preset apart from each other", responses, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`, `[{"type":"c"}]`, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2},{"type":"c"}]`),
		union("duplicates of both apart from each other", responses, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`, `[{"type":"a","n":1},{"type":"b"},{"type":"a","n":2}]`),
		union("the request's empty list", responses, `[{"type":"a"}]`, `[]`, `[{"type":"a"}]`),
		union("the request's null", responses, `[{"type":"a"} ]`, `null`, `[{"type":"a"} ]`),
		union("the preset's empty list", responses, `[]`, `[{"type":"a"} ]`, `[{"type":"a"} ]`),
		union("the preset's null", responses, `null`, `{"no":"array"}`, `{"no":"array"}`),
		union("as many as can be", responses, `[{"type":"a"}]`, `[{"type":"a"}`+strings.Repeat(`,{}`, many-1)+`]`, `[{"type":"a"}`+strings.Repeat(`,{}`, many-1)+`]`),
		{
			name: "only the preset has some", config: `{"model":"m","tools":[ {"type":"a"} ]}`,
			body: `{"preset":"p"}`, want: `{"model":"m","tools":[ {"type":"a"} ]}`, fields: "model=preset tools=preset",
		},
		{
			name: "only the request has some", body: `{"preset":"p","tools":[ {"type":"a"} ]}`,
			want: `{"tools":[ {"type":"a"} ],"model":"m"}`, fields: "tools=request model=preset",
		},
		{
			name: "both have some", config: `{"model":"m","tools":[{"type":"a"}]}`, body: `{"preset":"p","tools":[{"type":"b"}]}`,
			want: `{"tools":[{"type":"a"},{"type":"b"}],"model":"m"}`, fields: "tools=preset model=preset",
		},
		{
			name: "the request has them all", config: `{"model":"m","tools":[{"type":"a"}]}`, body: `{"preset":"p","tools":[{"type":"a"}]}`,
			want: `{"tools":[{"type":"a"}],"model":"m"}`, fields: "tools=request model=preset",
		},
		{
			name: "of another dialect", to: chat, from: messages, config: `{"model":"m","tools":[{"name":"f","input_schema":{}}]}`,
			body: `{"preset":"p","tools":[{"type":"function","function":{"name":"f"}}]}`, want: `{"tools":[{"type":"function","function":{"name":"f"}}],"model":"m"}`,
		},
	}
	for _, notArray := range []string{`{"a":{}}`, `"a"`, `5`, `true`} {
		cases = append(cases, merging{
			name: "the request's are no array: " + notArray, config: `{"model":"m","tools":[{"type":"a"}]}`,
			body: `{"preset":"p","tools":` + notArray + `}`, refused: "/tools: ",
		}, merging{
			name: "the request's are no array and the preset has none: " + notArray,
			body: `{"preset":"p","tools":` + notArray + `}`, want: `{"tools":` + notArray + `,"model":"m"}`,
		})
	}
	cases = append(cases, merging{
		name: "too many", config: `{"model":"m","tools":[{"type":"a"}]}`,
		body: `{"preset":"p","tools":[{}` + strings.Repeat(`,{}`, many) + `]}`, refused: "/tools: ",
	})
	testMerge(t, cases)
}

func TestPlaceOfThePrompt(t *testing.T) {
	const prompt = "Be \"brief\".\n<é>"
	const quoted = `"Be \"brief\".\n<é>"`
	const in = `Be \"brief\".\n<é>` // a string
	const message = `{"role":"system","content":` + quoted + `}`
	const block = `{"type":"text","text":` + quoted + `}`
	field := map[domain.Dialect]string{responses: "instructions", chat: "messages", messages: "system"}
	placed := func(name string, to domain.Dialect, own, want string) merging {
		return merging{
			name: string(to) + ": " + name, to: to, prompt: prompt,
			body: `{"` + field[to] + `":` + own + `,"preset":"p"}`, want: `{"` + field[to] + `":` + want + `,"model":"m"}`,
		}
	}
	refused := func(name string, to domain.Dialect, own string) merging {
		return merging{
			name: string(to) + ": " + name, to: to, prompt: prompt,
			body: `{"` + field[to] + `":` + own + `,"preset":"p"}`, refused: "/" + field[to] + ": ",
		}
	}
	own := `{"role":"user","content":"hi @preset/x"}`
	cases := []merging{
		{
			name: "responses: absent", prompt: prompt, body: `{"input":"x","preset":"p"}`, want: `{"input":"x","model":"m","instructions":` + quoted + `}`,
			fields: "input=request model=preset instructions=preset",
		},
		placed("null", responses, `null`, quoted),
		placed("empty", responses, `""`, quoted),
		placed("a string", responses, `"Write \u0065mails. \ud83d\ude00 \/"`, `"`+in+`\n\nWrite \u0065mails. \ud83d\ude00 \/"`),
		placed("a lone surrogate", responses, `"\ud800"`, `"`+in+`\n\n\ud800"`),
		placed("equal", responses, quoted, quoted),
		placed("equal, escaped otherwise", responses, `"B\u0065 \"brief\".\u000a<\u00e9>"`, `"B\u0065 \"brief\".\u000a<\u00e9>"`),
		placed("begins with it", responses, `"`+in+`\n\u000aMore."`, `"`+in+`\n\u000aMore."`),
		placed("begins with it and one line break", responses, `"`+in+`\nMore."`, `"`+in+`\n\n`+in+`\nMore."`),
		placed("a word that begins with it", responses, `"`+in+`x"`, `"`+in+`\n\n`+in+`x"`),
		placed("holds it elsewhere", responses, `"a\n\n`+in+`"`, `"`+in+`\n\na\n\n`+in+`"`),
		placed("only a part of it", responses, `"Be"`, `"`+in+`\n\nBe"`),
		refused("array", responses, `[]`),
		refused("object", responses, `{}`),
		refused("number", responses, `5`),
		refused("false", responses, `false`),

		{
			name: "messages: absent", to: messages, prompt: prompt, body: `{"messages":[],"preset":"p"}`, want: `{"messages":[],"model":"m","system":` + quoted + `}`,
			fields: "messages=request model=preset system=preset",
		},
		placed("null", messages, `null`, quoted),
		placed("empty", messages, `""`, quoted),
		placed("a string", messages, `"Write."`, `"`+in+`\n\nWrite."`),
		placed("begins with it", messages, `"`+in+`\n\nMore."`, `"`+in+`\n\nMore."`),
		placed("an array", messages, `[ {"type":"text","text":"Write.","cache_control":{"type":"ephemeral"}} ]`, `[`+block+`, {"type":"text","text":"Write.","cache_control":{"type":"ephemeral"}} ]`),
		placed("an empty array", messages, `[ ]`, `[`+block+` ]`),
		placed("an array that begins with it", messages, `[{"type":"text","text":`+quoted+`},{"type":"text","text":"x"}]`, `[{"type":"text","text":`+quoted+`},{"type":"text","text":"x"}]`),
		placed("an array whose first block begins with it", messages, `[{"text":"`+in+`\n\nx"}]`, `[{"text":"`+in+`\n\nx"}]`),
		placed("an array with it in second place", messages, `[{"text":"a"},{"text":`+quoted+`}]`, `[`+block+`,{"text":"a"},{"text":`+quoted+`}]`),
		placed("an array of a word that begins with it", messages, `[{"text":"`+in+`x"}]`, `[`+block+`,{"text":"`+in+`x"}]`),
		placed("an array of something else", messages, `[5,null]`, `[`+block+`,5,null]`),
		refused("object", messages, `{}`),
		refused("number", messages, `5`),

		{
			name: "chat: absent", to: chat, prompt: prompt, body: `{"preset":"p"}`, want: `{"model":"m","messages":[` + message + `]}`,
			fields: "model=preset messages=preset",
		},
		placed("null", chat, `null`, `[`+message+`]`),
		placed("empty", chat, `[]`, `[`+message+`]`),
		placed("empty with white space", chat, "[ \n]", `[`+message+" \n]"),
		placed("a user's", chat, `[ `+own+` ]`, `[`+message+`, `+own+` ]`),
		placed("system of its own", chat, `[ {"role":"system", "name":"n","content" : "Write \u0065.","cache_control":{"type":"ephemeral"}} , `+own+`]`,
			`[ {"role":"system", "name":"n","content" : "`+in+`\n\nWrite \u0065.","cache_control":{"type":"ephemeral"}} , `+own+`]`),
		placed("developer of its own", chat, `[{"content":"Write.","role":"developer"},`+own+`]`, `[{"content":"`+in+`\n\nWrite.","role":"developer"},`+own+`]`),
		placed("the same text before the content", chat, `[{"name":"Write.","role":"system","x":["Write."],"content":"Write."}]`, `[{"name":"Write.","role":"system","x":["Write."],"content":"`+in+`\n\nWrite."}]`),
		placed("several of its own", chat, `[{"role":"system","content":"a"},{"role":"developer","content":"b"},`+own+`,{"role":"system","content":"c"}]`,
			`[{"role":"system","content":"`+in+`\n\na"},{"role":"developer","content":"b"},`+own+`,{"role":"system","content":"c"}]`),
		placed("an empty system of its own", chat, `[{"role":"system","content":""},`+own+`]`, `[{"role":"system","content":`+quoted+`},`+own+`]`),
		placed("a type of its own", chat, `[{"type":"message","role":"system","content":"a"}]`, `[{"type":"message","role":"system","content":"`+in+`\n\na"}]`),
		placed("begins with it", chat, `[{"content":`+quoted+`,"role":"system"},`+own+`]`, `[{"content":`+quoted+`,"role":"system"},`+own+`]`),
		placed("begins with it and more", chat, `[{"role":"system","content":"`+in+`\n\nMore."},`+own+`]`, `[{"role":"system","content":"`+in+`\n\nMore."},`+own+`]`),
		placed("a developer begins with it", chat, `[{"role":"developer","content":`+quoted+`}]`, `[{"role":"developer","content":`+quoted+`}]`),
		placed("a user begins with it", chat, `[{"role":"user","content":`+quoted+`}]`, `[`+message+`,{"role":"user","content":`+quoted+`}]`),
		placed("a word that begins with it", chat, `[{"role":"system","content":"`+in+`x"}]`, `[{"role":"system","content":"`+in+`\n\n`+in+`x"}]`),
		placed("in second place", chat, `[{"role":"system","content":"a"},{"role":"system","content":`+quoted+`}]`, `[{"role":"system","content":"`+in+`\n\na"},{"role":"system","content":`+quoted+`}]`),
		placed("after a user", chat, `[`+own+`,{"role":"system","content":`+quoted+`}]`, `[`+message+`,`+own+`,{"role":"system","content":`+quoted+`}]`),
		placed("content parts of its own", chat, `[{"role":"system","content":[ {"type":"text","text":"a","cache_control":{"type":"ephemeral"}} ]}]`, `[{"role":"system","content":[`+block+`, {"type":"text","text":"a","cache_control":{"type":"ephemeral"}} ]}]`),
		placed("no content parts", chat, `[{"role":"developer","content":[ ]}]`, `[{"role":"developer","content":[`+block+` ]}]`),
		placed("content parts that begin with it", chat, `[{"role":"system","content":[{"type":"text","text":`+quoted+`},{"type":"text","text":"a"}]}]`, `[{"role":"system","content":[{"type":"text","text":`+quoted+`},{"type":"text","text":"a"}]}]`),
		placed("content null", chat, `[{"role":"system","content":null}]`, `[{"role":"system","content":`+quoted+`}]`),
		placed("content that is no text", chat, `[{"role":"system","content":{"text":"a"}}]`, `[`+message+`,{"role":"system","content":{"text":"a"}}]`),
		placed("no content", chat, `[{"role":"system"}]`, `[`+message+`,{"role":"system"}]`),
		placed("two contents", chat, `[{"role":"system","content":"a","content":"b"}]`, `[`+message+`,{"role":"system","content":"a","content":"b"}]`),
		placed("content in two letter cases", chat, `[{"role":"system","content":"a","Content":"b"}]`, `[`+message+`,{"role":"system","content":"a","Content":"b"}]`),
		placed("two roles", chat, `[{"role":"system","content":"a","role":"user"}]`, `[`+message+`,{"role":"system","content":"a","role":"user"}]`),
		placed("no role", chat, `[{"content":`+quoted+`}]`, `[`+message+`,{"content":`+quoted+`}]`),
		placed("no messages", chat, `[5,null,"x"]`, `[`+message+`,5,null,"x"]`),
		refused("string", chat, `"hi"`),
		refused("object", chat, `{}`),

		{
			name: "chat: several messages of which it was made", to: chat, prompt: "One.\n\nTwo.",
			body: `{"preset":"p","messages":[{"role":"system","content":"One."},{"role":"developer","content":[{"type":"text","text":"Two."}]},{"role":"system","content":"Three."}]}`,
			want: `{"messages":[{"role":"system","content":"One."},{"role":"developer","content":[{"type":"text","text":"Two."}]},{"role":"system","content":"Three."}],"model":"m"}`,
		},
		{
			name: "chat: only the first of them", to: chat, prompt: "One.\n\nTwo.",
			body: `{"preset":"p","messages":[{"role":"system","content":"One."},{"role":"user","content":"Two."}]}`,
			want: `{"messages":[{"role":"system","content":"One.\n\nTwo.\n\nOne."},{"role":"user","content":"Two."}],"model":"m"}`,
		},
		{
			name: "the name's bytes", prompt: "P", body: `{"instruct\u0069ons":"x","preset":"p"}`, want: `{"instruct\u0069ons":"P\n\nx","model":"m"}`,
			fields: "instructions=preset model=preset",
		},
		{
			name: "a prompt of white space", prompt: "\n\n", body: `{"instructions":"x","preset":"p"}`, want: `{"instructions":"\n\n\n\nx","model":"m"}`,
		},
		{
			name: "a request that begins with it is the request's", prompt: "P", body: `{"instructions":"P","preset":"p"}`, want: `{"instructions":"P","model":"m"}`,
			fields: "instructions=request model=preset",
		},
		{
			name: "other dialects' fields are no prompts", prompt: "P", body: `{"system":5,"messages":{},"preset":"p"}`, want: `{"system":5,"messages":{},"model":"m","instructions":"P"}`,
		},
		{
			name: "of another dialect", to: chat, from: responses, prompt: "P", body: `{"messages":[],"preset":"p"}`,
			want: `{"messages":[{"role":"system","content":"P"}],"model":"m"}`,
		},
		{
			name: "joined with the preset's tools and the workspace's sort", to: messages, from: chat, prompt: "P", providerSort: "price",
			config: `{"model":"m","tools":[{"type":"openrouter:datetime"}]}`,
			body:   `{"tools":[{"name":"f"}],"system":[],"preset":"p"}`,
			want:   `{"tools":[{"type":"openrouter:datetime"},{"name":"f"}],"system":[{"type":"text","text":"P"}],"model":"m","provider":{"sort":"price"}}`,
			fields: "tools=preset system=preset model=preset provider=workspace",
		},
	}
	for to, name := range field {
		for _, own := range []string{`null`, `""`, `[]`, `{}`, `5`, `"x"`} {
			cases = append(cases, merging{
				name: string(to) + ": no prompt: " + own, to: to,
				body: `{"` + name + `":` + own + `,"preset":"p"}`, want: `{"` + name + `":` + own + `,"model":"m"}`,
				fields: name + "=request model=preset",
			})
		}
	}
	testMerge(t, cases)
}

// A gateway that takes one system message, and takes it first, accepts each merged request that it
// accepts without the preset.
func TestOneSystemMessage(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "prompt", version{responses, `{"model":"m"}`, "P"})
	r.put(t, r.home.ID, "silent", version{chat, `{"model":"m"}`, ""})
	r.ruled(t, "locked", version{chat, `{"model":"m"}`, "P"}, `{"lock":["system"]}`)
	r.putTemplate(t, "chat", chat, `{"model":"m","messages":[{"role":"system","content":"P"},{"role":"developer","content":"Q"},{"role":"user","content":"T"}]}`)
	r.putTemplate(t, "responses", responses, `{"model":"m","instructions":"P","input":[{"role":"developer","content":"Q"},{"role":"user","content":"T"}]}`)
	r.putTemplate(t, "items", responses, `{"model":"m","input":[{"role":"system","content":"Q"}]}`)
	r.putTemplate(t, "messages", messages, `{"model":"m","system":"P","messages":[{"role":"system","content":"Q"},{"role":"user","content":"T"}]}`)
	r.ruledTemplate(t, "locked-template", responses, `{"model":"m","instructions":"P","input":[{"role":"developer","content":"Q"},{"role":"user","content":"T"}]}`, `{"lock":["system"]}`)
	resolver := r.resolver(t, inference.Config{})
	isAccepted := func(body []byte) bool {
		var request struct{ Messages []struct{ Role string } }
		err := json.Unmarshal(body, &request)
		for i, message := range request.Messages {
			if i > 0 && (message.Role == "system" || message.Role == "developer") {
				return false
			}
		}
		return err == nil
	}
	for _, slug := range []string{"prompt", "silent", "locked", "chat", "responses", "items", "messages", "locked-template"} {
		for _, list := range []string{
			``, `{"role":"user","content":"U"}`, `{"role":"system","content":"S"}`, `{"role":"developer","content":"S"},{"role":"user","content":"U"}`,
			`{"role":"system","content":[{"type":"text","text":"S"}]},{"role":"user","content":"U"},{"role":"assistant","content":"A"},{"role":"user","content":"U"}`,
			`{"role":"system","content":"P\n\nS"},{"role":"user","content":"U"}`, `{"role":"system","content":""},{"role":"user","content":"U"}`,
			`{"role":"system","content":[]},{"role":"user","content":"U"}`, `{"role":"system","content":null},{"role":"user","content":"U"}`,
		} {
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"` + slug + `","messages":[` + list + `]}`)})
			if err != nil || !isAccepted(got.Body.Bytes()) {
				t.Errorf("%s: %s: got %s, %v", slug, list, got.Body, err)
			}
		}
	}
}

// Requests of a conversation begin with the same bytes as the one before, so caches of prefixes hit.
func TestPrefixesStayEqual(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	r.put(t, r.home.ID, "p", version{messages, `{"model":"m"}`, "P"})
	for _, own := range []string{``, `{"role":"system","content":"S \u0065"},`, `{"role":"developer","content":[{"type":"text","text":"S"}],"name":"n"},`} {
		before := ""
		for turns := range 4 {
			list := own + `{"role":"user","content":"U"}` + strings.Repeat(`,{"role":"assistant","content":"A"},{"role":"user","content":"U"}`, turns)
			got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","model":"m","messages":[` + list + `]}`)})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got.Body.String(), before) {
				t.Errorf("got %s, want one that begins with %s", got.Body, before)
			}
			before = strings.TrimSuffix(got.Body.String(), `]}`)
		}
	}
}

func TestAnEmptyPromptIsNone(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	_, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), "", "p", domain.Capture{
		Dialect: responses, Config: json.RawMessage(`{"model":"m"}`), SystemPrompt: new(""),
	}, domain.Release{})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"preset":"p"}`:                     `{"model":"m"}`,
		`{"preset":"p","instructions":null}`: `{"instructions":null,"model":"m"}`,
		`{"preset":"p","instructions":"x"}`:  `{"instructions":"x","model":"m"}`,
	} {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: responses, Body: []byte(body)})
		wantBody(t, got, err, want)
	}
}
