package inference_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
		prompt := c["prompt"]
		if quoted, err := strconv.Unquote(prompt); err == nil { // it has a line break
			prompt = quoted
		}
		cases = append(cases, merging{
			name: c["="], from: domain.Dialect(c["from"]), to: domain.Dialect(c["to"]), config: c["preset"], prompt: prompt,
			textModel: c["model"], providerSort: c["sort"], dropFields: strings.Fields(c["drop"]),
			body: c["request"], want: c["upstream"], dropped: c["dropped"], fields: c["sources"], refused: c["refused"],
		})
	}
	return cases
}

// TestMerge merges the requests of testdata/merge.
func TestMerge(t *testing.T) {
	files, err := filepath.Glob("testdata/merge/*.txt")
	if err != nil || len(files) < 11 {
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
			name: "an empty list of messages with white space", to: chat, prompt: "P",
			body: "{\"messages\":[ \n],\"preset\":\"p\"}", want: "{\"messages\":[{\"role\":\"system\",\"content\":\"P\"} \n],\"model\":\"m\"}",
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

// TestMergeOfManyTools has as many tools as a request may have, and one more.
func TestMergeOfManyTools(t *testing.T) {
	const config, most = `{"model":"m","tools":[{"type":"a"}]}`, 4096
	tools := func(n int) string { return `"tools":[{"type":"a"}` + strings.Repeat(`,{}`, n-1) + `]` }
	testMerge(t, []merging{
		{name: "as many as can be", config: config, body: `{"preset":"p",` + tools(most) + `}`, want: `{` + tools(most) + `,"model":"m"}`},
		{name: "too many", config: config, body: `{"preset":"p",` + tools(most+1) + `}`, refused: "/tools: "},
	})
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

// TestFirstMessageOfOneReading has a first message that begins with the prompt already. Only one that every gateway
// reads so, and as one of the system, spares another.
func TestFirstMessageOfOneReading(t *testing.T) {
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{chat, `{"model":"m"}`, "P"})
	resolver := r.resolver(t, inference.Config{})
	const head = `{"role":"system","content":"P"},`
	for first, want := range map[string]string{
		`{"role":"system","content":"P\n\nS"}`:              "",
		`{"content":"P","role":"developer"}`:                "",
		`{"role":"system","Role":"user","content":"P"}`:     head,
		`{"r\u006fle":"system","content":"P"}`:              head,
		`{"role":"system","role":"user","content":"P"}`:     head,
		`{"role":"user","content":"P","x":{"role":"tool"}}`: head,
		`[{"role":"system","content":"P"}]`:                 head,
		`{"role":"system","content":"P","Content":"S"}`:     head,
		`{"content":"P","role":"system","content":"S"}`:     head,
	} {
		got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p","messages":[` + first + `]}`)})
		if messages := `"messages":[` + want + first + `]`; err != nil || !strings.Contains(got.Body.String(), messages) {
			t.Errorf("%s: got %s, %v, want %s", first, got.Body, err, messages)
		}
	}
	const twice = `"messages":[{"role":"system","content":[{"type":"text","text":"P","text":"S"}]}]`
	if got, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: []byte(`{"preset":"p",` + twice + `}`)}); err != nil || strings.Contains(got.Body.String(), twice) {
		t.Errorf("got %s, %v, want another text before the part with two", got.Body, err)
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
