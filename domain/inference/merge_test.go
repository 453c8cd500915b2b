package inference_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
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

func TestMergeOfFields(t *testing.T) {
	testMerge(t, []merging{
		{
			name: "the request wins", config: `{"model":"m","temperature":0.5}`,
			body: `{"temperature":1,"model":"x","preset":"p"}`, want: `{"temperature":1,"model":"x"}`,
			fields: "temperature=request model=request",
		},
		{
			name: "the preset's fields follow in its order", config: `{"top_p":0.1,"model":"m","temperature":0.5}`,
			body: `{"input":"hi","preset":"p","store":false}`, want: `{"input":"hi","store":false,"top_p":0.1,"model":"m","temperature":0.5}`,
			fields: "input=request store=request top_p=preset model=preset temperature=preset",
		},
		{
			name: "what both have stays in the request's place", config: `{"top_p":0.1,"model":"m"}`,
			body: `{"preset":"p","model":"x","input":"hi","top_p":1}`, want: `{"model":"x","input":"hi","top_p":1}`,
		},
		{
			name: "values are replaced whole", config: `{"model":"m","provider":{"zdr":true},"prompt_cache_options":{"mode":"explicit"}}`,
			body: `{"preset":"p","provider":{"sort":"price"},"prompt_cache_options":{"ttl":"1h"}}`, want: `{"provider":{"sort":"price"},"prompt_cache_options":{"ttl":"1h"},"model":"m"}`,
		},
		{
			name: "false, zero and empty text are values", config: `{"model":"m","parallel_tool_calls":true,"temperature":1,"route":"sort"}`,
			body: `{"preset":"p","parallel_tool_calls":false,"temperature":0,"route":""}`, want: `{"parallel_tool_calls":false,"temperature":0,"route":"","model":"m"}`,
		},
		{
			name: "null is not sent", config: `{"model":"m","temperature":0.70}`,
			body: `{"temperature":null,"preset":"p","input":"x"}`, want: `{"temperature":0.70,"input":"x","model":"m"}`,
			fields: "temperature=preset input=request model=preset",
		},
		{
			name: "null stays where the preset has none", config: `{"model":"m","top_p":null}`,
			body: `{"temperature":null,"preset":"p","top_p":null,"nonsense":null}`, want: `{"temperature":null,"top_p":null,"nonsense":null,"model":"m"}`,
			fields: "temperature=request top_p=request nonsense=request model=preset",
		},
		{
			name: "null with white space", config: `{"model":"m","temperature":1}`,
			body: "{\"temperature\" : \n null ,\"preset\":\"p\"}", want: `{"temperature":1,"model":"m"}`,
		},
		{
			name: "a preset's null is no setting", config: `{"model":"m","temperature":null}`,
			body: `{"preset":"p"}`, want: `{"model":"m"}`,
		},
		{
			name: "an empty preset", config: `{}`,
			body: `{"preset":"p","model":"x"}`, want: `{"model":"x"}`,
		},
		{
			name: "only the reference", config: ` { "model" : "m" , "top_k" : 1 } `,
			body: `{"preset":"p"}`, want: `{"model":"m","top_k":1}`,
		},
		{
			name: "bytes of values", config: `{"model":"\u006d","temperature":0.70,"top_k":1E400,"provider":{ "order" : [ ] }}`,
			body: `{"preset":"p","top_p":1.0,"seed":-0,"n":1E400,"big":12345678901234567890123,"input":[ 1 ,2e+5, "\u00e9<>&\u2028é" ],"user":"\ud800\/"}`,
			want: `{"top_p":1.0,"seed":-0,"n":1E400,"big":12345678901234567890123,"input":[ 1 ,2e+5, "\u00e9<>&\u2028é" ],"user":"\ud800\/","model":"\u006d","temperature":0.70,"top_k":1E400,"provider":{ "order" : [ ] }}`,
		},
		{
			name: "bytes of names", config: `{"model":"m","temperature":0.5}`,
			body: `{"preset":"p","t\u0065mperature":1,"\u00e9\ud800\/":2,"":3}`, want: `{"t\u0065mperature":1,"\u00e9\ud800\/":2,"":3,"model":"m"}`,
		},
		{
			name: "an escaped name of a null field", config: `{"model":"m","temperature":0.5}`,
			body: `{"preset":"p","t\u0065mperature":null}`, want: `{"t\u0065mperature":0.5,"model":"m"}`,
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
			name: "duplicate names inside",
			body: `{"preset":"p","metadata":{"a":1,"a":2}}`, want: `{"metadata":{"a":1,"a":2},"model":"m"}`,
		},
		{
			name: "deep nesting",
			body: `{"preset":"p","input":` + deep(9000) + `}`, want: `{"input":` + deep(9000) + `,"model":"m"}`,
		},
		{
			name: "names differ by letter case", config: `{"model":"m","temperature":0.5}`,
			body: `{"preset":"p","Temperature":1,"Model":"x","PRESET":"q"}`, want: `{"Temperature":1,"Model":"x","PRESET":"q","model":"m","temperature":0.5}`,
		},
		{
			name: "what no request has is not sent", config: `{"cache_enabled":true,"model":"m","cache_ttl_seconds":60}`,
			body: `{"preset":"p"}`, want: `{"model":"m"}`, dropped: "cache_enabled,cache_ttl_seconds",
		},
		{
			name: "a request may send it", config: `{"model":"m"}`,
			body: `{"preset":"p","cache_enabled":true}`, want: `{"cache_enabled":true,"model":"m"}`,
		},
		{
			name: "a preset with fields that it never captures", config: `{"model":"m","preset":"q","input":"old","metadata":{},"messages":[]}`,
			body: `{"preset":"p"}`, want: `{"model":"m"}`, dropped: "preset,input,metadata,messages",
		},
		{
			name: "a setting stored twice", config: `{"model":"m","temperature":1,"temperature":2}`,
			body: `{"preset":"p"}`, want: `{"model":"m","temperature":1}`, dropped: "temperature",
		},
		{
			name: "another dialect", to: messages, from: responses, config: `{"model":"m","max_output_tokens":50,"truncation":"auto","temperature":0.70}`,
			body: `{"preset":"p","messages":[]}`, want: `{"messages":[],"model":"m","max_tokens":50,"temperature":0.70}`, dropped: "truncation",
		},
		{
			name: "another dialect, the request wins", to: chat, from: messages, config: `{"model":"m","max_tokens":50,"stop_sequences":["a"]}`,
			body: `{"preset":"p","stop":"b","max_tokens":1}`, want: `{"stop":"b","max_completion_tokens":1,"model":"m"}`,
		},
	})
}

// {} and [] count as not sent where the preset has something.
func TestMergeOfEmptyFields(t *testing.T) {
	// Bodies of clients that were configured with only a model and a question.
	const (
		langChain = `{"input":[{"type":"message","role":"user","content":"hi"}],"model":"@preset/p","stream":false,"text":{}}` // @langchain/openai 1.5.8
		agents    = `{"model":"@preset/p","input":[{"role":"user","content":"hi"}],"include":[],"tools":[],"stream":false}`    // @openai/agents 0.20.0
	)
	testMerge(t, []merging{
		{
			name: "LangChain", config: `{"model":"m","text":{"verbosity":"low"}}`, body: langChain,
			want:   `{"input":[{"type":"message","role":"user","content":"hi"}],"model":"m","stream":false,"text":{"verbosity":"low"}}`,
			fields: "input=request model=preset stream=request text=preset",
		},
		{
			name: "LangChain, and nothing in the preset", body: langChain,
			want:   `{"input":[{"type":"message","role":"user","content":"hi"}],"model":"m","stream":false,"text":{}}`,
			fields: "input=request model=preset stream=request text=request",
		},
		{
			name: "LangChain, from chat", from: chat, config: `{"model":"m","response_format":{"type":"json_object"},"verbosity":"low"}`, body: langChain,
			want: `{"input":[{"type":"message","role":"user","content":"hi"}],"model":"m","stream":false,"text":{"format":{"type":"json_object"},"verbosity":"low"}}`,
		},
		{
			name: "OpenAI's agents", config: `{"model":"m","include":["reasoning.encrypted_content"],"tools":[{"type":"a", "n":1.0}]}`, body: agents,
			want:   `{"model":"m","input":[{"role":"user","content":"hi"}],"include":["reasoning.encrypted_content"],"tools":[{"type":"a", "n":1.0}],"stream":false}`,
			fields: "model=preset input=request include=preset tools=preset stream=request",
		},
		{
			name: "OpenAI's agents, and nothing in the preset", body: agents,
			want: `{"model":"m","input":[{"role":"user","content":"hi"}],"include":[],"tools":[],"stream":false}`,
		},
		{
			name: "with white space", config: `{"model":"m","text":{"verbosity":"low"},"include":["a"]}`,
			body: "{\"preset\":\"p\",\"text\":{ \n},\"include\":[\t]}", want: `{"text":{"verbosity":"low"},"include":["a"],"model":"m"}`,
		},
		{
			name: "one of the other kind", config: `{"model":"m","text":{"verbosity":"low"},"provider":{"zdr":true}}`,
			body: `{"preset":"p","text":[],"provider":[]}`, want: `{"text":{"verbosity":"low"},"provider":{"zdr":true},"model":"m"}`,
		},
		{
			name: "the preset's is empty, too", config: `{"model":"m","include":[]}`,
			body: `{"preset":"p","include":[ ]}`, want: `{"include":[],"model":"m"}`, fields: "include=preset model=preset",
		},
		{
			name: "the preset's is null", config: `{"model":"m","include":null}`,
			body: `{"preset":"p","include":[]}`, want: `{"include":[],"model":"m"}`, fields: "include=request model=preset",
		},
		{
			name: "what holds something empty", config: `{"model":"m","text":{"verbosity":"low"},"include":["a"]}`,
			body: `{"preset":"p","text":{"format":{}},"include":[[]]}`, want: `{"text":{"format":{},"verbosity":"low"},"include":[[]],"model":"m"}`,
		},
		{
			name: "what no preset has", config: `{"model":"m"}`, prompt: "P", to: chat,
			body: `{"preset":"p","messages":[],"metadata":{},"stream_options":{}}`, want: `{"messages":[{"role":"system","content":"P"}],"metadata":{},"stream_options":{},"model":"m"}`,
		},
		{
			name: "provider, which the workspace has an order for", config: `{"model":"m","provider":{"zdr":true}}`, providerSort: "price",
			body: `{"preset":"p","provider":{}}`, want: `{"provider":{"zdr":true,"sort":"price"},"model":"m"}`, fields: "provider=workspace model=preset",
		},
		{
			name: "one that the preset has a synonym of", to: chat, config: `{"model":"m","reasoning_effort":"low","max_tokens":5}`,
			body: `{"preset":"p","reasoning":{},"max_completion_tokens":[]}`, want: `{"model":"m","reasoning_effort":"low","max_tokens":5}`,
		},
		{
			name: "one that the request has a synonym of", to: chat, config: `{"model":"m","reasoning":{"effort":"low"}}`,
			body: `{"preset":"p","reasoning":{},"reasoning_effort":"high"}`, want: `{"reasoning":{},"reasoning_effort":"high","model":"m"}`,
		},
		{
			name: "the list that a messages request may not have beside another", to: messages, config: `{"model":"m","fallbacks":[{"model":"a"}]}`,
			body: `{"preset":"p","models":[],"stop_sequences":[]}`, want: `{"stop_sequences":[],"model":"m","fallbacks":[{"model":"a"}]}`,
		},
		{
			name: "one that the gateway does not know", config: `{"model":"m","text":{"verbosity":"low"}}`, dropFields: []string{"text"},
			body: `{"preset":"p","text":{}}`, want: `{"model":"m"}`, dropped: "text",
		},
		{
			name: "model", body: `{"preset":"p","model":{}}`, want: `{"model":"m"}`, fields: "model=preset",
		},
	})
}

// reasoning, text and output_config are merged member by member.
func TestMergeOfMembers(t *testing.T) {
	const reasons = `{"model":"m","reasoning":{ "effort":"high","summary":"auto"}}`
	testMerge(t, []merging{
		{
			name: "Codex", config: `{"model":"m","reasoning":{"effort":"high"}}`,
			body: `{"model":"@preset/p","reasoning":{ "summary" : "auto" }}`, want: `{"model":"m","reasoning":{"summary":"auto","effort":"high"}}`,
			fields: "model=preset reasoning=preset",
		},
		{
			name: "OpenAI's agents, by their defaults", config: `{"model":"m","reasoning":{"effort":"high"},"text":{"format":{"type":"json_object"},"verbosity":"high"}}`,
			body: `{"preset":"p","reasoning":{"effort":"none"},"text":{"verbosity":"low"}}`, want: `{"reasoning":{"effort":"none"},"text":{"verbosity":"low","format":{"type":"json_object"}},"model":"m"}`,
			fields: "reasoning=request text=preset model=preset",
		},
		{
			name: "bytes, in the request's order and then the preset's", config: `{"model":"m","reasoning":{"b":1.0,"\u0061":2,"c":[ 1 ]}}`,
			body: `{"preset":"p","reasoning":{ "x": 1e3,"b" : 2.0 }}`, want: `{"reasoning":{"x":1e3,"b":2.0,"a":2,"c":[ 1 ]},"model":"m"}`,
		},
		{
			name: "a member of null", config: reasons,
			body: `{"preset":"p","reasoning":{"effort":null,"mode":"pro","summary":null}}`, want: `{"reasoning":{"effort":"high","mode":"pro","summary":"auto"},"model":"m"}`,
		},
		{
			name: "a member of null in the preset", config: `{"model":"m","reasoning":{"effort":null,"summary":"auto"}}`,
			body: `{"preset":"p","reasoning":{"mode":null}}`, want: `{"reasoning":{"mode":null,"summary":"auto"},"model":"m"}`,
		},
		{
			name: "the request has all members", config: reasons,
			body: `{"preset":"p","reasoning":{ "summary":"detailed", "effort":"low" }}`, want: `{"reasoning":{ "summary":"detailed", "effort":"low" },"model":"m"}`,
			fields: "reasoning=request model=preset",
		},
		{
			name: "what is in members is replaced whole", config: `{"model":"m","text":{"format":{"type":"json_schema","name":"n","schema":{}}}}`,
			body: `{"preset":"p","text":{"format":{"type":"text"}}}`, want: `{"text":{"format":{"type":"text"}},"model":"m"}`,
		},
		{
			name: "what is no object is replaced whole", config: reasons,
			body: `{"preset":"p","reasoning":"high"}`, want: `{"reasoning":"high","model":"m"}`,
		},
		{
			name: "the preset's is no object", config: `{"model":"m","reasoning":"high"}`,
			body: `{"preset":"p","reasoning":{"summary":"auto"}}`, want: `{"reasoning":{"summary":"auto"},"model":"m"}`,
		},
		{
			name: "messages", to: messages, config: `{"model":"m","output_config":{"effort":"high","format":{"type":"json_schema","schema":{}}}}`,
			body: `{"preset":"p","output_config":{"effort":"low"}}`, want: `{"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},"model":"m"}`,
		},
		{
			name: "of another dialect", to: messages, from: responses, config: `{"model":"m","reasoning":{"effort":"high"}}`,
			body: `{"preset":"p","output_config":{"task_budget":{}}}`, want: `{"output_config":{"task_budget":{},"effort":"high"},"model":"m"}`,
		},
		{
			name: "one that the gateway does not know", config: reasons, dropFields: []string{"reasoning"},
			body: `{"preset":"p","reasoning":{"mode":"pro"}}`, want: `{"model":"m"}`, dropped: "reasoning",
		},

		// The effort has two names in chat.
		{
			name: "another member of the request", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"summary":"auto"}}`, want: `{"reasoning":{"summary":"auto"},"model":"m","reasoning_effort":"high"}`,
			fields: "reasoning=request model=preset reasoning_effort=preset",
		},
		{
			name: "another member of the preset", to: chat, config: reasons,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"m","reasoning":{"summary":"auto"}}`,
			fields: "reasoning_effort=request model=preset reasoning=preset",
		},
		{
			name: "other members of both", to: chat, config: `{"model":"m","reasoning":{"effort":"high","summary":"auto"}}`,
			body: `{"preset":"p","reasoning":{"mode":"pro"},"reasoning_effort":"low"}`, want: `{"reasoning":{"mode":"pro","summary":"auto"},"reasoning_effort":"low","model":"m"}`,
		},
		{
			name: "the effort under the request's other name", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"effort":"low"}}`, want: `{"reasoning":{"effort":"low"},"model":"m"}`,
		},
		{
			name: "an effort of null", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"effort":null}}`, want: `{"reasoning":{"effort":null},"model":"m","reasoning_effort":"high"}`,
		},
		{
			name: "an effort of null under the short name", to: chat, config: reasons,
			body: `{"preset":"p","reasoning_effort":null}`, want: `{"reasoning_effort":null,"model":"m","reasoning":{ "effort":"high","summary":"auto"}}`,
		},
		{
			name: "an effort that the gateway does not know", to: chat, config: reasons, dropFields: []string{"reasoning_effort"},
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"model":"m","reasoning":{ "effort":"high","summary":"auto"}}`, dropped: "reasoning_effort",
		},
		{
			name: "a reasoning that is no object", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":"low"}`, want: `{"reasoning":"low","model":"m"}`,
		},

		// Gateways refuse an effort beside a budget, unless the preset shows that this one does not.
		{
			name: "the request's budget, the preset's effort", config: reasons,
			body: `{"preset":"p","reasoning":{"max_tokens":5}}`, want: `{"reasoning":{"max_tokens":5,"summary":"auto"},"model":"m"}`,
		},
		{
			name: "the request's effort, the preset's budget", to: chat, from: messages, config: `{"model":"m","thinking":{"type":"enabled","budget_tokens":5}}`,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"m"}`,
		},
		{
			name: "the preset has both, the request the effort", config: `{"model":"m","reasoning":{"effort":"high","max_tokens":5}}`,
			body: `{"preset":"p","reasoning":{"effort":"low"}}`, want: `{"reasoning":{"effort":"low","max_tokens":5},"model":"m"}`,
		},
		{
			name: "the preset has both, the request the budget", to: chat, config: `{"model":"m","reasoning":{"max_tokens":5},"reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"max_tokens":6}}`, want: `{"reasoning":{"max_tokens":6},"model":"m","reasoning_effort":"high"}`,
		},

		// Nothing contradicts what the request says about reasoning.
		{
			name: "the request switches it off", config: `{"model":"m","reasoning":{"effort":"high","summary":"auto"}}`,
			body: `{"preset":"p","reasoning":{"enabled":false}}`, want: `{"reasoning":{"enabled":false,"summary":"auto"},"model":"m"}`,
		},
		{
			name: "the request switches it off, the preset has both", to: chat, config: `{"model":"m","reasoning":{"max_tokens":5},"reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"enabled":false}}`, want: `{"reasoning":{"enabled":false},"model":"m"}`,
		},
		{
			name: "the request switches it on", config: `{"model":"m","reasoning":{"effort":"high","enabled":false}}`,
			body: `{"preset":"p","reasoning":{"enabled":true}}`, want: `{"reasoning":{"enabled":true,"effort":"high"},"model":"m"}`,
		},
		{
			name: "the preset switches it off", config: `{"model":"m","reasoning":{"enabled":false,"summary":"auto"}}`,
			body: `{"preset":"p","reasoning":{"effort":"low"}}`, want: `{"reasoning":{"effort":"low","summary":"auto"},"model":"m"}`,
		},
		{
			name: "the preset switches it off, the request has the short name", to: chat, config: `{"model":"m","reasoning":{"enabled":false}}`,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"m"}`,
		},
	})
}

func TestMergeOfModels(t *testing.T) {
	testMerge(t, []merging{
		{
			name: "direct", config: `{"temperature":1,"model":"m"}`,
			body: `{"model":"@preset/p","input":"x"}`, want: `{"model":"m","input":"x","temperature":1}`,
			fields: "model=preset input=request temperature=preset",
		},
		{
			name: "direct to a preset with both", config: `{"models":["a"],"model":"m"}`,
			body: `{"input":"x","model":"@preset/p"}`, want: `{"input":"x","model":"m","models":["a"]}`,
		},
		{
			name: "direct to a preset of only models", config: `{"models":["a","b"]}`, textModel: "dm",
			body: `{"model":"@preset/p","input":"x"}`, want: `{"input":"x","models":["a","b"]}`,
			fields: "input=request models=preset",
		},
		{
			name: "direct to a preset without any", config: `{}`, textModel: "dm",
			body: `{"model":"@preset/p","input":"x"}`, want: `{"input":"x","model":"dm"}`,
			fields: "input=request model=workspace",
		},
		{
			name: "combined", config: `{"model":"m","temperature":1}`,
			body: `{"model":"x@preset/p"}`, want: `{"model":"x","temperature":1}`,
			fields: "model=request temperature=preset",
		},
		{
			name: "combined keeps the preset's models", config: `{"models":["a","b"]}`,
			body: `{"model":"x@preset/p"}`, want: `{"model":"x","models":["a","b"]}`,
		},
		{
			name: "combined with characters to escape",
			body: `{"model":"a\"\\\u0001\u00e9<@preset/p"}`, want: `{"model":"a\"\\\u0001é<"}`,
		},
		{
			name: "a request's model keeps the preset's models", config: `{"models":["a","b"],"model":"m"}`,
			body: `{"model":"x","preset":"p"}`, want: `{"model":"x","models":["a","b"]}`,
			fields: "model=request models=preset",
		},
		{
			name: "a request's models replace the preset's", config: `{"models":["a","b"],"model":"m"}`,
			body: `{"models":["c"],"preset":"p"}`, want: `{"models":["c"],"model":"m"}`,
		},
		{
			name: "a request's models suffice", config: `{}`, textModel: "dm",
			body: `{"models":["c"],"model":"@preset/p"}`, want: `{"models":["c"]}`,
		},
		{
			name: "the preset's models suffice", config: `{"models":["a"]}`, textModel: "dm",
			body: `{"preset":"p"}`, want: `{"models":["a"]}`,
		},
		{
			name: "the workspace's model", config: `{"temperature":1}`, textModel: `d"m`,
			body: `{"preset":"p","input":"x"}`, want: `{"input":"x","temperature":1,"model":"d\"m"}`,
			fields: "input=request temperature=preset model=workspace",
		},
		{
			name: "a name that ends in a variant", config: `{"model":"pm"}`,
			body: `{"model":"a/b:free@preset/p"}`, want: `{"model":"a/b:free"}`, fields: "model=request",
		},
		{
			name: "an empty model counts as not sent", config: `{"model":"pm"}`,
			body: `{"preset":"p","model":"","input":"x"}`, want: `{"model":"pm","input":"x"}`, fields: "model=preset input=request",
		},
		{
			name: "the workspace's model in the place of an empty one", config: `{}`, textModel: "dm",
			body: `{"preset":"p","model":""}`, want: `{"model":"dm"}`, fields: "model=workspace",
		},
		{
			name: "the workspace's model in the place of null", config: `{}`, textModel: "dm",
			body: `{"model":null,"preset":"p","input":"x"}`, want: `{"model":"dm","input":"x"}`,
			fields: "model=workspace input=request",
		},
		{
			name: "an empty list names no model", config: `{"models":[]}`, textModel: "dm",
			body: `{"preset":"p"}`, want: `{"models":[],"model":"dm"}`,
		},
		{
			name: "a request's empty list does not hide the preset's", config: `{"models":["a"]}`, textModel: "dm",
			body: `{"preset":"p","models":[]}`, want: `{"models":["a"]}`, fields: "models=preset",
		},
		{name: "blank before the reference", body: `{"model":" @preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a slash before the reference", body: `{"model":"/@preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a vendor before the reference", body: `{"model":"openrouter/@preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a vendor and blank before the reference", body: `{"model":"openrouter/ \t@preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a vendor and a variant before the reference", body: `{"model":"openrouter/:free@preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a variant before the reference", body: `{"model":":free@preset/p"}`, refused: "/model: must have the name of a model"},
		{name: "a vendor before the reference, and the field", body: `{"model":"openrouter/@preset/p","preset":"p"}`, refused: "/model: must have the name of a model"},
		{name: "nobody names one", config: `{}`, body: `{"preset":"p"}`, refused: "/model: "},
		{name: "nobody names one, direct", config: `{"temperature":1}`, body: `{"model":"@preset/p"}`, refused: "/model: "},
		{name: "nobody names one, null", config: `{"model":null}`, body: `{"model":null,"preset":"p"}`, refused: "/model: "},
	})
}

func TestMergeOfProvider(t *testing.T) {
	const sort = "throughput"
	testMerge(t, []merging{
		{
			name: "a request's replaces the preset's", config: `{"model":"m","provider":{"only":["a"],"zdr":true}}`,
			body: `{"preset":"p","provider":{"ignore":["b"]}}`, want: `{"provider":{"ignore":["b"]},"model":"m"}`,
		},
		{
			name: "nobody has one", providerSort: sort,
			body: `{"preset":"p","input":"x"}`, want: `{"input":"x","model":"m","provider":{"sort":"throughput"}}`,
			fields: "input=request model=preset provider=workspace",
		},
		{
			name: "no default",
			body: `{"preset":"p","provider":{"zdr":true}}`, want: `{"provider":{"zdr":true},"model":"m"}`,
		},
		{
			name: "a request's without sort and order", providerSort: sort,
			body: `{"preset":"p","provider":{ "z\u0064r" : true , "n":1.0 }}`, want: `{"provider":{"z\u0064r":true,"n":1.0,"sort":"throughput"},"model":"m"}`,
			fields: "provider=workspace model=preset",
		},
		{
			name: "an empty one", providerSort: sort,
			body: `{"preset":"p","provider":{}}`, want: `{"provider":{"sort":"throughput"},"model":"m"}`,
		},
		{
			name: "the preset's without sort and order", providerSort: sort, config: `{"provider":{"zdr":true},"model":"m"}`,
			body: `{"preset":"p"}`, want: `{"provider":{"zdr":true,"sort":"throughput"},"model":"m"}`,
			fields: "provider=workspace model=preset",
		},
		{
			name: "a request's with sort", providerSort: sort,
			body: `{"preset":"p","provider":{"sort":"price"}}`, want: `{"provider":{"sort":"price"},"model":"m"}`,
			fields: "provider=request model=preset",
		},
		{
			name: "a request's with a sort that is an object", providerSort: sort,
			body: `{"preset":"p","provider":{"sort":{"by":"price"}}}`, want: `{"provider":{"sort":{"by":"price"}},"model":"m"}`,
		},
		{
			name: "the preset's with sort", providerSort: sort, config: `{"model":"m","provider":{"sort":"price"}}`,
			body: `{"preset":"p"}`, want: `{"model":"m","provider":{"sort":"price"}}`,
			fields: "model=preset provider=preset",
		},
		{
			name: "the request's hides the preset's sort", providerSort: sort, config: `{"model":"m","provider":{"sort":"price"}}`,
			body: `{"preset":"p","provider":{"zdr":true}}`, want: `{"provider":{"zdr":true,"sort":"throughput"},"model":"m"}`,
		},
		{
			name: "sort null", providerSort: sort,
			body: `{"preset":"p","provider":{"a":1,"sort":null,"b":2}}`, want: `{"provider":{"a":1,"sort":"throughput","b":2},"model":"m"}`,
		},
		{
			name: "with order", providerSort: sort,
			body: `{"preset":"p","provider":{"order":["a"]}}`, want: `{"provider":{"order":["a"]},"model":"m"}`,
			fields: "provider=request model=preset",
		},
		{
			name: "sort null with order", providerSort: sort,
			body: `{"preset":"p","provider":{"sort":null,"order":["a"]}}`, want: `{"provider":{"sort":null,"order":["a"]},"model":"m"}`,
		},
		{
			name: "order null", providerSort: sort,
			body: `{"preset":"p","provider":{"order":null}}`, want: `{"provider":{"order":null,"sort":"throughput"},"model":"m"}`,
		},
		{
			name: "provider null", providerSort: sort,
			body: `{"provider":null,"preset":"p"}`, want: `{"provider":{"sort":"throughput"},"model":"m"}`,
			fields: "provider=workspace model=preset",
		},
		{
			name: "provider null, the preset has one", providerSort: sort, config: `{"model":"m","provider":{"order":["a"]}}`,
			body: `{"provider":null,"preset":"p"}`, want: `{"provider":{"order":["a"]},"model":"m"}`,
		},
		{
			name: "provider no object", providerSort: sort,
			body: `{"provider":"fast","preset":"p"}`, want: `{"provider":"fast","model":"m"}`,
		},
		{
			name: "provider dropped", providerSort: sort, dropFields: []string{"provider"}, config: `{"model":"m","provider":{"zdr":true}}`,
			body: `{"preset":"p","provider":{}}`, want: `{"model":"m"}`, dropped: "provider",
		},
		{
			name: "provider dropped that nobody has", providerSort: sort, dropFields: []string{"provider"},
			body: `{"preset":"p"}`, want: `{"model":"m"}`,
		},
		{
			name: "sort of an inner object", providerSort: sort,
			body: `{"preset":"p","provider":{"x":{"sort":"price","order":[]}}}`, want: `{"provider":{"x":{"sort":"price","order":[]},"sort":"throughput"},"model":"m"}`,
		},
		{
			name: "escaped sort", providerSort: sort,
			body: `{"preset":"p","provider":{"s\u006frt":"price"}}`, want: `{"provider":{"s\u006frt":"price"},"model":"m"}`,
		},
		{
			name: "chat", to: chat, providerSort: sort,
			body: `{"preset":"p"}`, want: `{"model":"m","provider":{"sort":"throughput"}}`,
		},
		{
			name: "messages", to: messages, providerSort: sort,
			body: `{"preset":"p"}`, want: `{"model":"m","provider":{"sort":"throughput"}}`,
		},
	})
}

func TestMergeOfSynonyms(t *testing.T) {
	testMerge(t, []merging{
		{
			name: "the preset's name of the limit, the request's value", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","max_tokens":1,"user":"u"}`, want: `{"max_completion_tokens":1,"user":"u","model":"m"}`, fields: "max_completion_tokens=request user=request model=preset",
		},
		{
			name: "the preset's older name", to: chat, config: `{"max_tokens":5,"model":"m"}`,
			body: `{"model":"@preset/p","max_completion_tokens":1}`, want: `{"model":"m","max_tokens":1}`,
		},
		{
			name: "a null one does not", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","max_tokens":null}`, want: `{"max_tokens":null,"model":"m","max_completion_tokens":5}`,
		},
		{
			name: "one null, one sent", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","max_completion_tokens":null,"max_tokens":1}`, want: `{"max_completion_tokens":1,"model":"m"}`,
		},
		{
			name: "one sent, one null", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","max_tokens":1,"user":"u","max_completion_tokens":null}`, want: `{"max_completion_tokens":1,"user":"u","model":"m"}`,
		},
		{
			name: "the limit of another model", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"model":"x@preset/p","max_tokens":1}`, want: `{"model":"x","max_tokens":1}`,
		},
		{
			name: "the limit of the preset's model, named", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","model":"m","max_tokens":1}`, want: `{"model":"m","max_completion_tokens":1}`,
		},
		{
			name: "the limit of the workspace's model", to: chat, config: `{"max_completion_tokens":5}`, textModel: "dm",
			body: `{"preset":"p","max_tokens":1}`, want: `{"max_completion_tokens":1,"model":"dm"}`,
		},
		{
			name: "a preset with both, a request with one", to: chat, config: `{"model":"m","max_completion_tokens":5,"max_tokens":6}`,
			body: `{"preset":"p","max_tokens":1}`, want: `{"max_tokens":1,"model":"m"}`,
		},
		{
			name: "a preset with both, a request with none", to: chat, config: `{"model":"m","max_completion_tokens":5,"max_tokens":6}`,
			body: `{"preset":"p"}`, want: `{"model":"m","max_completion_tokens":5,"max_tokens":6}`,
		},
		{
			name: "a request with both", to: chat, config: `{"model":"m","max_completion_tokens":5}`,
			body: `{"preset":"p","max_tokens":1,"max_completion_tokens":2}`, want: `{"max_tokens":1,"max_completion_tokens":2,"model":"m"}`,
		},
		{
			name: "reasoning_effort overrides reasoning", to: chat, config: `{"model":"m","reasoning":{"effort":"high"}}`,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"m"}`,
		},
		{
			name: "reasoning overrides reasoning_effort", to: chat, config: `{"model":"m","reasoning_effort":"high"}`,
			body: `{"preset":"p","reasoning":{"max_tokens":5}}`, want: `{"reasoning":{"max_tokens":5},"model":"m"}`,
		},
		{
			name: "reasoning of responses has no synonym", config: `{"model":"m","reasoning":{"effort":"high"}}`,
			body: `{"preset":"p","reasoning_effort":"low"}`, want: `{"reasoning_effort":"low","model":"m","reasoning":{"effort":"high"}}`,
		},
		{
			name: "of another dialect", to: chat, from: responses, config: `{"model":"m","max_output_tokens":5}`,
			body: `{"preset":"p","max_tokens":1}`, want: `{"max_completion_tokens":1,"model":"m"}`,
		},
		{
			name: "models override fallbacks", to: messages, config: `{"model":"m","fallbacks":[{"model":"a"}]}`,
			body: `{"preset":"p","models":["b"]}`, want: `{"models":["b"],"model":"m"}`,
		},
		{
			name: "fallbacks override models", to: messages, config: `{"model":"m","models":["a"]}`,
			body: `{"preset":"p","fallbacks":[{"model":"b"}]}`, want: `{"fallbacks":[{"model":"b"}],"model":"m"}`,
		},
		{
			name: "fallbacks are no synonym elsewhere", to: chat, config: `{"model":"m","models":["a"]}`,
			body: `{"preset":"p","fallbacks":[]}`, want: `{"fallbacks":[],"model":"m","models":["a"]}`,
		},
	})
}

func TestDropFields(t *testing.T) {
	testMerge(t, []merging{
		{
			name: "the preset's", dropFields: []string{"plugins", "route"}, config: `{"model":"m","route":"sort","plugins":[],"temperature":1}`,
			body: `{"preset":"p","input":"x"}`, want: `{"input":"x","model":"m","temperature":1}`, dropped: "route,plugins",
		},
		{
			name: "the request's", dropFields: []string{"plugins", "mine", "route"},
			body: `{"preset":"p","mine":1,"plugins":[],"route":null,"input":"x"}`, want: `{"input":"x","model":"m"}`, dropped: "mine,plugins",
		},
		{
			name: "both", dropFields: []string{"plugins", "route"}, config: `{"model":"m","plugins":[]}`,
			body: `{"preset":"p","route":"sort","plugins":[1]}`, want: `{"model":"m"}`, dropped: "plugins,route",
		},
		{
			name: "escaped", dropFields: []string{"plugins"},
			body: `{"preset":"p","plug\u0069ns":[1]}`, want: `{"model":"m"}`, dropped: "plugins",
		},
		{
			name: "nobody has them", dropFields: []string{"plugins"},
			body: `{"preset":"p"}`, want: `{"model":"m"}`,
		},
		{
			name: "the preset's null", dropFields: []string{"plugins"}, config: `{"model":"m","plugins":null}`,
			body: `{"preset":"p"}`, want: `{"model":"m"}`,
		},
		{
			name: "tools", dropFields: []string{"tools"}, config: `{"model":"m","tools":[{"type":"a"}]}`,
			body: `{"preset":"p","tools":[{"type":"b"}]}`, want: `{"model":"m"}`, dropped: "tools",
		},
		{
			name: "only inner fields of that name", dropFields: []string{"plugins"},
			body: `{"preset":"p","metadata":{"plugins":"1"}}`, want: `{"metadata":{"plugins":"1"},"model":"m"}`,
		},
		{
			name: "another name of the setting", to: chat, from: responses, dropFields: []string{"max_completion_tokens"}, config: `{"model":"m","max_output_tokens":5}`,
			body: `{"preset":"p"}`, want: `{"model":"m","max_tokens":5}`,
		},
		{
			name: "another name of the setting, which the request has", to: chat, dropFields: []string{"max_completion_tokens"}, config: `{"model":"m","max_tokens":5}`,
			body: `{"preset":"p","max_completion_tokens":1}`, want: `{"model":"m","max_tokens":5}`, dropped: "max_completion_tokens",
		},
		{
			name: "models: a request's empty list does not hide the preset's", dropFields: []string{"models"}, config: `{"models":["a","b"]}`, textModel: "dm",
			body: `{"preset":"p","models":[]}`, want: `{"model":"a"}`, dropped: "models", fields: "model=preset",
		},
		{
			name: "models: the preset's first", dropFields: []string{"models"}, config: `{"models":["a","b"]}`, textModel: "dm",
			body: `{"preset":"p"}`, want: `{"model":"a"}`, dropped: "models", fields: "model=preset",
		},
		{
			name: "models: the request's first", dropFields: []string{"models"}, config: `{"models":["a","b"]}`, textModel: "dm",
			body: `{"preset":"p","models":["\u0063","d"]}`, want: `{"model":"\u0063"}`, dropped: "models", fields: "model=request",
		},
		{
			name: "models: in the place of null", dropFields: []string{"models"}, config: `{"models":["a"]}`,
			body: `{"model":null,"preset":"p","input":"x"}`, want: `{"model":"a","input":"x"}`, dropped: "models",
		},
		{
			name: "models: the preset names a model", dropFields: []string{"models"}, config: `{"model":"m","models":["a"]}`,
			body: `{"preset":"p","models":["c"]}`, want: `{"model":"m"}`, dropped: "models",
		},
		{
			name: "models: the request names a model", dropFields: []string{"models"}, config: `{"models":["a"]}`,
			body: `{"model":"x@preset/p"}`, want: `{"model":"x"}`, dropped: "models",
		},
		{
			name: "models: direct", dropFields: []string{"models"}, config: `{"models":["a","b"]}`,
			body: `{"model":"@preset/p","input":"x"}`, want: `{"input":"x","model":"a"}`, dropped: "models",
		},
		{
			name: "models: an empty list", dropFields: []string{"models"}, config: `{"models":[]}`, textModel: "dm",
			body: `{"preset":"p"}`, want: `{"model":"dm"}`, dropped: "models", fields: "model=workspace",
		},
		{
			name: "models: of another dialect", to: chat, from: messages, dropFields: []string{"models"}, config: `{"fallbacks":[{"model":"a"}]}`,
			body: `{"preset":"p"}`, want: `{"model":"a"}`, dropped: "models",
		},
		{
			name: "models: nobody names one", dropFields: []string{"models"}, config: `{"models":[5]}`,
			body: `{"preset":"p"}`, refused: "/model: ",
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
	_, err := r.CreatePresetVersion(t.Context(), domain.By(admin), "", "p", domain.Capture{
		Dialect: responses, Config: json.RawMessage(`{"model":"m"}`), SystemPrompt: new(""),
	})
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
