package modellist

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func aPreset(slug, model string) inference.ActivePreset {
	return inference.ActivePreset{Preset: domain.Preset{Slug: slug, Name: "Name of " + slug, CreatedAt: time.Unix(1700000000, 999_000_000)}, Model: model}
}

// presetsOf returns presets.
func presetsOf(presets ...inference.ActivePreset) Presets { return presetsUntil(nil, presets...) }

// presetsUntil returns presets that end with failure, unless it is nil.
func presetsUntil(failure error, presets ...inference.ActivePreset) Presets {
	return func(yield func(inference.ActivePreset, error) bool) {
		for _, p := range presets {
			if !yield(p, nil) {
				return
			}
		}
		if failure != nil {
			yield(inference.ActivePreset{}, failure)
		}
	}
}

const (
	openAIEntry = `{"id":"@preset/p","object":"model","created":1700000000,"owned_by":"caddy-presets"}`

	openRouterHead = `{"id":"@preset/p","canonical_slug":"@preset/p","name":"Name of p","created":1700000000,"description":`

	// This list is from OpenRouter, with every member that its client knows. Its order,
	// spaces and numbers differ from an encoder's.
	openRouterModel = `{"id": "a/b", "canonical_slug":"a/b-2026","hugging_face_id":"","name":"A: B","created":1741818122,` +
		`"description":"B of A","context_length":131072.0,"architecture":{ "modality":"text+image->text","input_modalities":["text","image"],` +
		`"output_modalities":["text"],"tokenizer":"Other","instruct_type":null},"pric\u0069ng" : {"prompt":"1E-6","completion":"0.00001"},` +
		`"top_provider":{"context_length":131072,"max_completion_tokens":8192,"is_moderated":true},"per_request_limits":null,` +
		`"supported_parameters":["tools","\u2028"],"default_parameters":{"temperature":0.10},"supported_voices":null,` +
		`"knowledge_cutoff":null,"expiration_date":null,"links":{"details":"/api/v1/models/a/b/endpoints"}}`
	openRouterRest = `,"hugging_face_id":"","context_length":131072.0,"architecture":{ "modality":"text+image->text","input_modalities":["text","image"],` +
		`"output_modalities":["text"],"tokenizer":"Other","instruct_type":null},"pric\u0069ng":{"prompt":"1E-6","completion":"0.00001"},` +
		`"top_provider":{"context_length":131072,"max_completion_tokens":8192,"is_moderated":true},"per_request_limits":null,` +
		`"supported_parameters":["tools","\u2028"],"default_parameters":{"temperature":0.10},"supported_voices":null,` +
		`"knowledge_cutoff":null,"expiration_date":null,"links":{"details":"/api/v1/models/a/b/endpoints"}}`
)

// TestModelsAdded inserts entries into lists. In each body, ^ marks the place of want. A
// list without ^ is not edited.
func TestModelsAdded(t *testing.T) {
	described := aPreset("p", "a/b")
	described.Preset.Description = new("Reads \"quickly\"\n\u2028")
	for _, tc := range []struct {
		name    string
		presets []inference.ActivePreset
		body    string
		want    string
	}{
		{
			"OpenAI", nil,
			`{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}^]}`,
			"," + openAIEntry,
		},
		{
			"OpenAI, empty", nil,
			`{"object":"list","data":[^]}`,
			openAIEntry,
		},
		{
			"OpenAI, empty with space", nil,
			"{\"data\": [^ \n ], \"object\": \"list\"}",
			openAIEntry,
		},
		{
			"OpenAI by its entries", nil,
			`{"data":[{"id":"m","object":"model"},{"object":"model","id":"n"}^]}`,
			"," + openAIEntry,
		},
		{
			"OpenAI, entries without a type", nil,
			`{"object":"list","data":[{"id":"m"}^]}`,
			"," + openAIEntry,
		},
		{
			"OpenAI's object wins over OpenRouter's members", nil,
			`{"object":"list","data":[{"id":"m","pricing":{"prompt":"0"},"architecture":{},"canonical_slug":"m"}^]}`,
			"," + openAIEntry[:len(openAIEntry)-1] + `,"canonical_slug":"@preset/p"}`,
		},
		{
			"vLLM", nil,
			`{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"vllm","root":"m","parent":null,"max_model_len":4096,` +
				`"permission":[{"id":"modelperm-1","object":"model_permission","group":null,"data":[{}]}]}^]}`,
			"," + openAIEntry,
		},
		{
			"vLLM, model in the list", nil,
			`{"object":"list","data":[{"id":"a/b","object":"model","created":1,"owned_by":"vllm","root":"a/b","parent":null,"max_model_len":4096}^]}`,
			"," + openAIEntry[:len(openAIEntry)-1] + `,"root":"a/b","parent":null,"max_model_len":4096}`,
		},
		{
			"names and descriptions in the list, but not the model", nil,
			`{"object":"list","data":[{"id":"m","name":"M","display_name":"M","description":"D","x":1}^]}`,
			"," + openAIEntry[:len(openAIEntry)-1] + `,"name":"Name of p","display_name":"Name of p","description":"A preset that runs a/b."}`,
		},
		{
			"Ollama", nil,
			`{"object":"list","data":[{"id":"llama3:8b","object":"model","created":1715000000,"owned_by":"library"}^]}` + "\n",
			"," + openAIEntry,
		},
		{
			"space, order and escapes", nil,
			"\n{ \"first\" : 1.0e+0 ,\r\n\t\"d\\u0061ta\" : [\n  { \"id\" : \"\\u006d\" }^\n  ] , \"object\" : \"list\" , \"last\" : [ \"]}\" , { \"data\" : [ ] } ] }\n\n",
			"," + openAIEntry,
		},
		{
			"several presets, every character of a slug",
			[]inference.ActivePreset{aPreset("p", ""), aPreset("A9._~-", "")},
			`{"object":"list","data":[^]}`,
			openAIEntry + "," + strings.ReplaceAll(openAIEntry, "/p", "/A9._~-"),
		},
		{
			"one listed already",
			[]inference.ActivePreset{aPreset("a", ""), aPreset("p", ""), aPreset("P", "")},
			`{"object":"list","data":[{"id":"@preset/\u0061"},{"id":"@preset/P"}^]}`,
			"," + openAIEntry,
		},
		{
			"all listed already", nil,
			`{"object":"list","data":[{"id":"@preset/p"}^]}`,
			"",
		},
		{
			"OpenAI, last page", nil,
			`{"object":"list","data":[{"id":"m"}^],"has_more":false}`,
			"," + openAIEntry,
		},
		{
			"OpenRouter, model in the list", nil,
			`{"data":[` + openRouterModel + `^]}`,
			"," + openRouterHead + `"A preset that runs a/b."` + openRouterRest,
		},
		{
			"OpenRouter, its own description",
			[]inference.ActivePreset{described},
			`{"data":[` + openRouterModel + `^]}`,
			"," + openRouterHead + `"Reads \"quickly\"\n` + "\u2028" + `"` + openRouterRest,
		},
		{
			"OpenRouter, model not in the list",
			[]inference.ActivePreset{aPreset("p", "a/b:nitro")},
			`{"data":[` + openRouterModel + `^]}`,
			"," + openRouterHead + `"A preset that runs a/b:nitro."` + unknownModel + "}",
		},
		{
			"OpenRouter, no model",
			[]inference.ActivePreset{aPreset("p", "")},
			`{"data":[{"id":"","canonical_slug":""}^]}`,
			"," + openRouterHead + `"A preset."` + unknownModel + "}",
		},
		{
			"OpenRouter, the first of two entries with one id", nil,
			`{"data":[ {"id":"a/b","canonical_slug":"1","x":1} , {"id":"a/b","canonical_slug":"2","x":2}^ ]}`,
			"," + openRouterHead + `"A preset that runs a/b.","x":1}`,
		},
		{
			"OpenRouter without slugs", nil,
			`{"data":[{ "architecture" : {} , "id" : "a/b" , "pricing" : { } }^ ],"total_count":1,"links":{"first":"/1","next":null}}`,
			"," + openRouterHead + `"A preset that runs a/b."` + `,"architecture":{},"pricing":{ }}`,
		},

		{"OpenRouter, empty", nil, `{"data":[]}`, ""},
		{"OpenRouter, a page that is not the last", nil, `{"data":[` + openRouterModel + `],"links":{"next":"/api/v1/models?offset=1"},"total_count":2}`, ""},
		{"a page that is not the last", nil, `{"has_more":true,"object":"list","data":[{"id":"m"}]}`, ""},
		{"entries of two shapes", nil, `{"data":[{"id":"m","object":"model"},{"id":"n","canonical_slug":"n"}]}`, ""},
		{"prices alone", nil, `{"data":[{"id":"m","pricing":{}}]}`, ""},
		{"OpenRouter's entries in another object", nil, `{"object":"page","data":[` + openRouterModel + `]}`, ""},
		{"no type", nil, `{"data":[{"id":"m"}]}`, ""},
		{"no data", nil, `{"object":"list"}`, ""},
		{"data is no array", nil, `{"object":"list","data":{"data":[]}}`, ""},
		{"data holds text", nil, `{"object":"list","data":["m"]}`, ""},
		{"data holds an object and null", nil, `{"object":"list","data":[{"id":"m"},null]}`, ""},
		{"nested list", nil, `{"result":{"object":"list","data":[]}}`, ""},
		{"data twice", nil, `{"object":"list","data":[],"data":[]}`, ""},
		{"data twice, once escaped", nil, `{"object":"list","data":[],"d\u0061ta":[]}`, ""},
		{"an id twice", nil, `{"object":"list","data":[{"id":"m","id":"n"}]}`, ""},
		{"top-level array", nil, `[{"id":"m","object":"model"}]`, ""},
		{"text", nil, `"list"`, ""},
		{"empty", nil, ``, ""},
		{"space", nil, " \n", ""},
		{"not JSON", nil, `<html>{"object":"list","data":[]}</html>`, ""},
		{"cut short", nil, `{"object":"list","data":[{"id":"m"}`, ""},
		{"cut short after data", nil, `{"object":"list","data":[{"id":"m"}]`, ""},
		{"comma before the bracket", nil, `{"object":"list","data":[{"id":"m"},]}`, ""},
		{"text after the end", nil, `{"object":"list","data":[]}{}`, ""},
		{"not UTF-8", nil, `{"object":"list","data":[{"id":"` + "\xff" + `"}]}`, ""},
		{"byte order mark", nil, "\ufeff" + `{"object":"list","data":[]}`, ""},
		{"deep", nil, `{"object":"list","data":[{"id":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}]}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.presets == nil {
				tc.presets = []inference.ActivePreset{aPreset("p", "a/b")}
			}
			before, after, _ := strings.Cut(tc.body, "^")
			got, err := addModels([]byte(before+after), false, presetsOf(tc.presets...))
			if err != nil {
				t.Fatal(err)
			}
			want := before + tc.want + after
			if tc.want == "" {
				want = ""
			}
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if want != "" && !json.Valid(got) {
				t.Errorf("not valid: %s", got)
			}
		})
	}
}

// addModels returns the model list in body with the entries of presets, or nil if it stays as it is.
func addModels(body []byte, forAnthropic bool, presets Presets) ([]byte, error) {
	parts, err := edit(body, forAnthropic, nil, domain.Principal{}, presets)
	if parts == nil {
		return nil, err
	}
	return parts.Bytes(), err
}

// TestModelsNotAdded checks that an edit that does not fit into memory is an error. So are
// the reader's own errors.
func TestModelsNotAdded(t *testing.T) {
	body := []byte(`{"data":[` + openRouterModel + `]}`)
	failure := errors.New("disk on fire")
	long := aPreset("p", "a/b")
	long.Description = new(strings.Repeat("x", 1<<20))
	for name, tc := range map[string]struct {
		presets Presets
		want    error
	}{
		"too many": {func(yield func(inference.ActivePreset, error) bool) {
			for i := range 100 {
				long.Slug = strconv.Itoa(i)
				if !yield(long, nil) {
					return
				}
			}
			t.Error("not stopped")
		}, errTooMany},
		"half of the presets cannot be read": {presetsUntil(failure, aPreset("p", "a/b")), failure},
	} {
		t.Run(name, func(t *testing.T) {
			if edited, err := addModels(body, false, tc.presets); !errors.Is(err, tc.want) || edited != nil {
				t.Errorf("got %d bytes and error %v, want none and %v", len(edited), err, tc.want)
			}
		})
	}
}

// FuzzAddModels edits arbitrary lists. The output stays valid JSON and has the gateway's entries, those of
// presets behind them, and cursors at its ends.
func FuzzAddModels(f *testing.F) {
	for _, seed := range []string{
		`{"object":"list","data":[]}`, `{"object":"list","data":[{"id":"m","object":"model"} ]}`, `{"data":[` + openRouterModel + `]}`,
		`{"data":[{"id":"@preset/p","canonical_slug":"x"},{"id":"a/b","architecture":{},"pricing":{} , "name":1}],"links":{"next":null}}`,
		`{"data":[],"data":[]}`, `[`, "", "\xff", `{"data":[{"id":"a/b","canonical_slug":1,"":2}]}`, anthropicList, noAnthropicList,
		`{"last_id":"a/b","data":[{"type":"model","id":"a/b","created_at":1,"description":null}, {"type":"model"}],"first_id":null}`,
		`{"object":"list","has_more":true,"first_id":"x","last_id":"y","data":[{"id":"x","type":"model","aliases":["z"]}]}`,
	} {
		f.Add([]byte(seed), "p", "a/b", true)
		f.Add([]byte(seed), "p", "claude", false)
	}
	f.Fuzz(func(t *testing.T, body []byte, slug, model string, forAnthropic bool) {
		before := bytes.Clone(body)
		edited, err := addModels(body, forAnthropic, presetsOf(aPreset(slug, model), aPreset("q", "")))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body, before) {
			t.Error("the list was changed in place")
		}
		if edited == nil {
			return
		}
		if !json.Valid(body) || !json.Valid(edited) {
			t.Fatalf("%q became %q", body, edited)
		}
		if domain.CheckPresetSlug(slug) == nil && slug != "q" && !jsontext.Value(edited).IsValid() {
			t.Fatalf("%q became %q, which has a name twice or is no UTF-8", body, edited)
		}
		type shown struct {
			Data []json.RawMessage `json:"data"`
			page
		}
		var was, is shown
		if err := errors.Join(json.Unmarshal(body, &was), json.Unmarshal(edited, &is)); err != nil {
			return // a cursor of another kind
		}
		n := len(was.Data)
		if len(is.Data) <= n || len(is.Data) > n+2 || n > 0 && !reflect.DeepEqual(is.Data[:n], was.Data) {
			t.Errorf("%q became %q", body, edited)
		}
		if is.LastID != nil && *is.LastID != idIn(t, is.Data[len(is.Data)-1]) {
			t.Errorf("%q became %q, which has a wrong last_id", body, edited)
		}
		if is.FirstID != nil && n == 0 && *is.FirstID != idIn(t, is.Data[0]) {
			t.Errorf("%q became %q, which has a wrong first_id", body, edited)
		}
	})
}

// page has Anthropic's members of a page.
type page struct {
	HasMore any     `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

func idIn(t *testing.T, entry []byte) string {
	t.Helper()
	var model struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(entry, &model); err != nil {
		t.Fatal(err)
	}
	return model.ID
}

const (
	anthropicModel  = `{"type":"model","id":"claude-x","display_name":"Claude X","created_at":"2026-01-01T00:00:00Z","max_input_tokens":1e6,"capabilities":{"thinking":{ "supported":true}},"aliases":["x"]}`
	anthropicList   = `{"data":[` + anthropicModel + `],"has_more":false,"first_id":"claude-x","last_id":"claude-x"}`
	noAnthropicList = `{"data":[],"has_more":false,"first_id":null,"last_id":null}`

	asClaude    = `{"type":"model","id":"claude-x@preset/p","display_name":"Name of p","created_at":"2023-11-14T22:13:20Z","max_input_tokens":1e6,"capabilities":{"thinking":{ "supported":true}}}`
	asAnthropic = `{"type":"model","id":"anthropic/@preset/q@staging","display_name":"q (staging)","created_at":"2023-11-14T22:13:20Z","description":"Quick"}`
)

// TestModelsForAnthropic edits lists for clients that read Anthropic's form, and lists in that form for
// others. A list without want is not edited.
func TestModelsForAnthropic(t *testing.T) {
	q := aPreset("q", "gpt")
	q.Name, q.Label, q.Description = "", "staging", new("Quick")
	for name, tc := range map[string]struct {
		list, want string
		openAI     bool // the client reads OpenAI's form
	}{
		"a list":        {anthropicList, `{"data":[` + anthropicModel + `,` + asClaude + `,` + asAnthropic + `],"has_more":false,"first_id":"claude-x","last_id":"anthropic/@preset/q@staging"}`, false},
		"an empty list": {noAnthropicList, `{"data":[` + withoutLike(asClaude) + `,` + asAnthropic + `],"has_more":false,"first_id":"claude-x@preset/p","last_id":"anthropic/@preset/q@staging"}`, false},
		"cursors before the data": {
			`{ "last_id" : null, "first_id":null , "data" : [ ] }`,
			`{ "last_id" : "anthropic/@preset/q@staging", "first_id":"claude-x@preset/p" , "data" : [` + withoutLike(asClaude) + `,` + asAnthropic + ` ] }`, false,
		},
		"no cursors":             {`{"data":[]}`, `{"data":[` + withoutLike(asClaude) + `,` + asAnthropic + `]}`, false},
		"no cursors, for OpenAI": {`{"data":[]}`, "", true},
		"for OpenAI": {
			anthropicList,
			`{"data":[` + anthropicModel + `,` + strings.Replace(asClaude, "claude-x@", "@", 1) + `,` + strings.Replace(withoutDescription(asAnthropic), "anthropic/@", "@", 1) +
				`],"has_more":false,"first_id":"claude-x","last_id":"@preset/q@staging"}`, true,
		},
		"a page that is not the last": {strings.Replace(anthropicList, "false", "true", 1), "", false},
		"entries of two shapes":       {`{"data":[` + anthropicModel + `,{"id":"m"}],"first_id":null}`, "", false},
		"OpenAI's": {
			`{"object":"list","data":[{"id":"claude-x","object":"model","created":1,"owned_by":"x","context_length":5,"created_at":"2020-01-01T00:00:00Z","name":null}]}`,
			`{"object":"list","data":[{"id":"claude-x","object":"model","created":1,"owned_by":"x","context_length":5,"created_at":"2020-01-01T00:00:00Z","name":null},` +
				`{"id":"claude-x@preset/p","object":"model","created":1700000000,"owned_by":"caddy-presets","display_name":"Name of p","context_length":5,"created_at":"2023-11-14T22:13:20Z","name":"Name of p"},` +
				`{"id":"anthropic/@preset/q@staging","object":"model","created":1700000000,"owned_by":"caddy-presets","display_name":"q (staging)","description":"Quick","created_at":"2023-11-14T22:13:20Z","name":"q (staging)"}]}`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := addModels([]byte(tc.list), !tc.openAI, presetsOf(aPreset("p", "claude-x"), q))
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

// withoutLike returns the entry as it is without one of its model.
func withoutLike(entry string) string {
	return strings.Replace(entry, `,"max_input_tokens":1e6,"capabilities":{"thinking":{ "supported":true}}`, "", 1)
}

func withoutDescription(entry string) string {
	return strings.Replace(entry, `,"description":"Quick"`, "", 1)
}

// modelsUpstream is a next handler that answers with a status, "Name: value" headers and a
// body in pieces.
func modelsUpstream(status int, headers []string, pieces ...string) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Add(name, value)
		}
		w.WriteHeader(status)
		for _, p := range pieces {
			if _, err := io.WriteString(w, p); err != nil {
				return err
			}
		}
		return nil
	}
}

const (
	plainList  = `{"object":"list","data":[]}`
	editedList = `{"object":"list","data":[` + openAIEntry + `]}`
)

// edited lets next answer a request for the list, and edits the response within so much memory.
func edited(w http.ResponseWriter, r *http.Request, memory int64, next caddyhttp.Handler, presets Presets) (failed, err error) {
	list := NewWriter(w, memory, func(int) func() { return func() {} })
	defer list.Free()
	if err := list.Fetch(next, r); err != nil {
		_ = list.Release()
		return nil, err
	}
	refused, failed := list.Edit(domain.Principal{}, presets)
	return errors.Join(refused, failed), nil
}

// listTo runs edited with the preset p.
func listTo(t *testing.T, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	t.Helper()
	failed, err := edited(w, r, 64<<20, next, presetsOf(aPreset("p", "a/b")))
	if failed != nil {
		t.Errorf("failed with %v", failed)
	}
	return err
}

func newListRequest() *http.Request { return httptest.NewRequest(http.MethodGet, "/v1/models", nil) }

func TestModelsAnswer(t *testing.T) {
	asJSON, length := "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(plainList))
	tooLong := strconv.Itoa(maxSize + 1)
	for _, tc := range []struct {
		name   string
		next   caddyhttp.HandlerFunc
		edited bool
	}{
		{"plain", modelsUpstream(200, []string{asJSON}, plainList), true},
		{"with a length", modelsUpstream(200, []string{asJSON, length}, plainList), true},
		{"in pieces", modelsUpstream(200, []string{"Content-Type: application/vnd.list+json; charset=utf-8"}, plainList[:9], "", plainList[9:]), true},
		{"identity", modelsUpstream(200, []string{asJSON, "Content-Encoding: identity"}, plainList), true},
		{"status 500", modelsUpstream(500, []string{asJSON, length}, plainList), false},
		{"status 401", modelsUpstream(401, []string{asJSON}, plainList), false},
		{"status 201", modelsUpstream(201, []string{asJSON}, plainList), false},
		{"status 206", modelsUpstream(206, []string{asJSON, "Content-Range: bytes 0-1/2"}, plainList), false},
		{"status 304", modelsUpstream(304, []string{`ETag: "1"`}), false},
		{"gzip", modelsUpstream(200, []string{asJSON, "Content-Encoding: gzip"}, plainList), false},
		{"HTML", modelsUpstream(200, []string{"Content-Type: text/html"}, plainList), false},
		{"no type", modelsUpstream(200, nil, plainList), false},
		{"an unreadable type", modelsUpstream(200, []string{"Content-Type: application/json;;"}, plainList), false},
		{"an unreadable length", modelsUpstream(200, []string{asJSON, "Content-Length: -1"}, plainList), false},
		{"too long by its length", modelsUpstream(200, []string{asJSON, "Content-Length: " + tooLong}, plainList), false},
		{"a trailer", modelsUpstream(200, []string{asJSON, "Trailer: Content-Digest"}, plainList), false},
		{"another body", modelsUpstream(200, []string{asJSON}, `{"data":[]}`), false},
		{"no body", modelsUpstream(200, []string{asJSON}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			direct, w := httptest.NewRecorder(), httptest.NewRecorder()
			for _, rec := range []*httptest.ResponseRecorder{direct, w} {
				rec.Header().Set("ETag", `"1"`)
				rec.Header().Set("X-Other", "kept")
			}
			if err := tc.next(direct, newListRequest()); err != nil {
				t.Fatal(err)
			}
			if err := listTo(t, w, newListRequest(), tc.next); err != nil {
				t.Fatal(err)
			}
			want := direct.Result()
			wantBody := direct.Body.String()
			want.Header.Add("Vary", "Authorization, X-Api-Key, Anthropic-Version, User-Agent")
			if tc.edited {
				wantBody = editedList
				want.Header.Del("ETag")
				want.Header.Set("Content-Length", strconv.Itoa(len(editedList)))
			}
			got := w.Result()
			if got.StatusCode != want.StatusCode || w.Body.String() != wantBody {
				t.Errorf("got %d %s, want %d %s", got.StatusCode, w.Body, want.StatusCode, wantBody)
			}
			if !reflect.DeepEqual(got.Header, want.Header) {
				t.Errorf("got headers %v, want %v", got.Header, want.Header)
			}
		})
	}
}

func TestModelsHeadersOfAnEditedList(t *testing.T) {
	w := httptest.NewRecorder()
	kept := []string{"Content-Type: application/json", "Cache-Control: private", "Vary: A", "Vary: B", "X-Request-Id: 1", "Date: now"}
	stale := []string{`ETag: "1"`, "Last-Modified: now", "Accept-Ranges: bytes", "Content-MD5: x", "Digest: x", "Content-Digest: x", "Repr-Digest: x", "Content-Length: 27"}
	if err := listTo(t, w, newListRequest(), modelsUpstream(200, append(stale, kept...), plainList)); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Content-Length": {strconv.Itoa(len(editedList))}}
	for _, h := range kept {
		name, value, _ := strings.Cut(h, ": ")
		want.Add(name, value)
	}
	want.Add("Vary", "Authorization, X-Api-Key, Anthropic-Version, User-Agent")
	if got := w.Result().Header; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestModelsRequest(t *testing.T) {
	r := newListRequest()
	for _, name := range []string{"Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range", "If-Range", "Authorization", "Accept", "X-Other"} {
		r.Header.Add(name, "1")
		r.Header.Add(name, "2")
	}
	before := r.Clone(t.Context())
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, got *http.Request) error {
		if got != r {
			t.Error("the request was replaced")
		}
		return nil
	})
	w := httptest.NewRecorder()
	if err := listTo(t, w, r, next); err != nil {
		t.Fatal(err)
	}
	both := []string{"1", "2"}
	want := http.Header{"Accept-Encoding": {"identity"}, "Authorization": both, "Accept": both, "X-Other": both}
	if !reflect.DeepEqual(r.Header, want) {
		t.Errorf("got headers %v, want %v", r.Header, want)
	}
	if r.Method != before.Method || r.URL.String() != before.URL.String() || r.Host != before.Host {
		t.Errorf("got %s %s %s", r.Method, r.Host, r.URL)
	}
	if w.Flushed || w.Body.Len() > 0 || len(w.Header()) != 1 || w.Header().Get("Vary") == "" {
		t.Error("an answer was made for a handler that gave none")
	}
}

// TestModelsTooLong sends a list beyond the bound. The rest passes without being held in
// memory.
func TestModelsTooLong(t *testing.T) {
	tier.Slow(t)
	w := httptest.NewRecorder()
	piece := strings.Repeat(" ", 1<<20)
	next := caddyhttp.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) error {
		out.Header().Set("Content-Type", "application/json")
		flusher := http.NewResponseController(out)
		for i := range maxSize>>20 + 2 {
			if _, err := io.WriteString(out, piece); err != nil {
				t.Error(err)
			}
			if err := flusher.Flush(); err != nil {
				t.Error(err)
			}
			passed := 0
			if i >= maxSize>>20 {
				passed = (i + 1) << 20
			}
			if w.Body.Len() != passed || w.Flushed != (passed > 0) {
				t.Errorf("after %d MiB: %d bytes passed, flushed is %t", i+1, w.Body.Len(), w.Flushed)
			}
		}
		_, err := io.WriteString(out, plainList)
		return err
	})
	if err := listTo(t, w, newListRequest(), next); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat(piece, maxSize>>20+2) + plainList; w.Body.String() != want {
		t.Errorf("got %d bytes, want %d, unchanged", w.Body.Len(), len(want))
	}
	if w.Code != http.StatusOK || w.Header().Get("Content-Length") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// TestModelsFlush checks that a stream such as server-sent events passes piece by piece.
func TestModelsFlush(t *testing.T) {
	w := httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) error {
		out.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(out).Flush(); err != nil {
			t.Error(err)
		}
		if !w.Flushed || w.Code != http.StatusOK {
			t.Error("the headers were not sent")
		}
		io.WriteString(out, "data: 1\n\n")
		if w.Body.String() != "data: 1\n\n" {
			t.Error("the first event was not sent")
		}
		return nil
	})
	if err := listTo(t, w, newListRequest(), next); err != nil {
		t.Fatal(err)
	}
}

// overHTTP returns the answer of a server whose list next answers.
func overHTTP(t *testing.T, next caddyhttp.HandlerFunc) caddytest.Response {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := listTo(t, w, r, next); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return caddytest.ReadResponse(t, response)
}

// TestModelsInformational checks that an informational answer passes at once and does not
// end the list. A second final status is ignored.
func TestModelsInformational(t *testing.T) {
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.WriteHeader(http.StatusTeapot)
		_, err := io.WriteString(w, plainList)
		return err
	}).Want(t, http.StatusOK, editedList)
}

// TestModelsRefusedAndLate has a list for which there is no memory, and whose rest does not come in time. The
// reverse proxy ends the request then, and the client gets the refusal.
func TestModelsRefusedAndLate(t *testing.T) {
	w := httptest.NewRecorder()
	list := NewWriter(w, 1<<10, func(int) func() { return func() {} })
	defer list.Free()
	occupied := &heldbody.Reservation{Limit: 1 << 20}
	if err := occupied.Add(1 << 10); err != nil {
		t.Fatal(err)
	}
	defer occupied.ReleaseAll()
	missing, err := list.FetchSoon(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, plainList[:1])
		panic(http.ErrAbortHandler)
	}), newListRequest())
	refused, failed := list.Edit(domain.Principal{}, presetsOf())
	if missing != nil || err != nil || failed != nil || !errors.Is(refused, heldbody.ErrNoMemory) {
		t.Errorf("got %v, %v, %v, %v, want a refusal", missing, err, refused, failed)
	}
}

// TestModelsHijack checks that an upgraded connection is the gateway's.
func TestModelsHijack(t *testing.T) {
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nraw")
		return err
	}).Want(t, http.StatusOK, "raw")
}

func TestModelsNextFails(t *testing.T) {
	failure := errors.New("no upstream")
	for name, written := range map[string]string{"before it answered": "", "halfway": plainList} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				if written != "" {
					w.Header().Set("Content-Type", "application/json")
					io.WriteString(w, written)
				}
				return failure
			})
			if err := listTo(t, w, newListRequest(), next); !errors.Is(err, failure) {
				t.Errorf("got error %v, want next's", err)
			}
			if w.Body.String() != written {
				t.Errorf("got %q, want %q", w.Body, written)
			}
			if got := w.Header()["Vary"]; !slices.Equal(got, []string{"Authorization, X-Api-Key, Anthropic-Version, User-Agent"}) {
				t.Errorf("got Vary %q for what answers instead", got)
			}
		})
	}
}

func TestModelsPresetsFail(t *testing.T) {
	failure := errors.New("disk on fire")
	w := httptest.NewRecorder()
	gateway := modelsUpstream(200, []string{"Content-Type: application/json", `ETag: "1"`}, plainList)
	failed, err := edited(w, newListRequest(), 64<<20, gateway, presetsUntil(failure, aPreset("p", "")))
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusOK || w.Body.String() != plainList || w.Header().Get("ETag") != `"1"` {
		t.Errorf("got %d %v %s, want the list unchanged", w.Code, w.Header(), w.Body)
	}
	if !errors.Is(failed, failure) {
		t.Errorf("got error %v, want %v", failed, failure)
	}
}
