package convert_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/convert"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// server answers the GET requests of a live account. Its routes are by path and query.
type server struct {
	*httptest.Server
	header, credential string
	routes             map[string]string
	seen               []string
}

func newServer(t *testing.T, header, credential string, routes map[string]string) *server {
	t.Helper()
	s := &server{header: header, credential: credential, routes: routes}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		route += "?" + r.URL.RawQuery
	}
	s.seen = append(s.seen, route)
	response, known := s.routes[route]
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case r.Header.Get(s.header) != s.credential:
		http.Error(w, s.credential, http.StatusUnauthorized)
	case !known:
		http.Error(w, `{"error": {"code": 404, "message": "`+s.credential+`"}}`, http.StatusNotFound)
	default:
		_, _ = w.Write([]byte(response))
	}
}

// golden converts a live account, and compares the result with golden files.
func golden(t *testing.T, name string, source convert.Source, s *server, path string, o convert.Options) {
	t.Helper()
	set, report, err := convert.Convert(t.Context(), source, s.URL+path, o)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := convert.Write(dir, set, report); err != nil {
		t.Fatal(err)
	}
	sameWhenRead(t, dir, set)
	compareGolden(t, filepath.Join("testdata", "golden", name), dir, report)
	text, _ := json.Marshal(report)
	if o.Key == "" || strings.Contains(string(text), o.Key) {
		t.Errorf("the report has the key: %s", text)
	}
}

func TestOpenRouter(t *testing.T) {
	const version = `{"id":"v","preset_id":"p","version":%,"system_prompt":"Write {{short}} mails.","creator_id":"u","config":{"model":"openai/gpt-5-mini","temperature":0.70},"created_at":"2026-05-02T10:00:00Z","updated_at":"2026-05-02T10:00:00Z"}`
	numbered := func(n int) string { return strings.ReplaceAll(version, "%", strconv.Itoa(n)) }
	// A page has at most 100 of the 101 presets.
	preset := func(slug, rest string) string {
		return `{"id":"p","name":"` + slug + ` name","slug":"` + slug + `","description":"For ` + slug + `","status":"active","created_at":"x","updated_at":"x"` + rest + `}`
	}
	var first []string
	for range 99 {
		first = append(first, preset("gone", "")) // not there any more when it is read
	}
	s := newServer(t, "Authorization", "Bearer of-openrouter-1", map[string]string{
		"/api/v1/presets?limit=100&offset=0":   `{"data":[` + strings.Join(append(first, preset("mail", "")), ",") + `],"total_count":4}`,
		"/api/v1/presets?limit=100&offset=100": `{"data":[` + preset("chat", "") + `,` + preset("claude", "") + `],"total_count":4}`,
		"/api/v1/presets/mail":                 `{"data":` + preset("mail", `,"tier":"gold","designated_version":`+numbered(2)) + `}`,
		"/api/v1/presets/mail/versions?limit=100&offset=0": `{"data":[` + numbered(1) + `,` + numbered(2) + `,` +
			`{"version":3,"system_prompt":null,"config":{"model":"m","max_completion_tokens":5,"plugins":"none"}}],"total_count":3}`,
		"/api/v1/presets/chat": `{"data":{"slug":"chat","name":"chat","status":"disabled","designated_version":{"version":1,"system_prompt":"Line one.\nLine two.",
			"config":{"model":"m","max_tokens":100,"stop":["x"],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}}}}`,
		"/api/v1/presets/chat/versions?limit=100&offset=0": `{"data":[{"version":1,"config":{}}],"total_count":1}`,
		"/api/v1/presets/claude": `{"data":{"slug":"claude","name":"claude","status":"active","designated_version":{"version":7,"system_prompt":"Think.",
			"config":{"model":"m","max_tokens":100,"thinking":{"type":"enabled","budget_tokens":1024},"temperature":1.0}}}}`,
		"/api/v1/presets/claude/versions?limit=100&offset=0": `{"data":[{"version":7,"config":{}}],"total_count":1}`,
	})
	golden(t, "openrouter", convert.OpenRouter, s, "/api/v1", convert.Options{Key: "of-openrouter-1"})
	golden(t, "openrouter-all", convert.OpenRouter, s, "/api/v1/", convert.Options{Key: "of-openrouter-1", AllVersions: true})
}

func TestLangfuseAccount(t *testing.T) {
	const path = "/api/public/v2/prompts"
	reply := func(version int, labels, prompt string) string {
		return `{"name":"support/reply","type":"text","version":` + strconv.Itoa(version) + `,"prompt":"` + prompt + `","config":{"model":"m","temperature":0.70},"labels":[` + labels + `],"tags":[],"commitMessage":"why ` + strconv.Itoa(version) + `","resolutionGraph":null}`
	}
	s := newServer(t, "Authorization", "Basic cGstMTpzay0y", map[string]string{
		path + "?limit=100&page=1":                 `{"data":[{"name":"support/reply","type":"text","versions":[1,2,3],"labels":["production","staging","latest"],"tags":[]}],"meta":{"page":1,"limit":100,"totalItems":3,"totalPages":3}}`,
		path + "?limit=100&page=2":                 `{"data":[{"name":"drafts","type":"text","versions":[1,4],"labels":["latest"],"tags":[]}],"meta":{"page":2,"limit":100,"totalItems":3,"totalPages":3}}`,
		path + "?limit=100&page=3":                 `{"data":[{"name":"gone","type":"text","versions":[1],"labels":[],"tags":[]}],"meta":{"page":3,"limit":100,"totalItems":3,"totalPages":3}}`,
		path + "/support%2Freply?label=production": reply(2, `"production"`, "Be {{style}}."),
		path + "/support%2Freply?version=1":        reply(1, ``, "Old."),
		path + "/support%2Freply?version=2":        reply(2, `"production"`, "Be {{style}}."),
		path + "/support%2Freply?version=3":        reply(3, `"staging","latest"`, "New."),
		path + "/drafts?version=1":                 `{"name":"drafts","type":"text","version":1,"prompt":"One.","config":{},"labels":[],"tags":[]}`,
		path + "/drafts?version=4":                 `{"name":"drafts","type":"text","version":4,"prompt":"Four.","config":{},"labels":["latest"],"tags":[],"resolutionGraph":{"root":{}}}`,
	})
	golden(t, "langfuse-account", convert.Langfuse, s, "", convert.Options{Key: "pk-1:sk-2"})
	golden(t, "langfuse-account-all", convert.Langfuse, s, "", convert.Options{Key: "pk-1:sk-2", AllVersions: true})
}

func TestLiteLLMAccount(t *testing.T) {
	spec := func(version int, content string) string {
		v := strconv.Itoa(version)
		return `{"prompt_id":"guide.v` + v + `","version":` + v + `,"litellm_params":{"prompt_id":"guide","prompt_integration":"dotprompt","dotprompt_content":"---\nmodel: m\n---\nUser: ` + content + `"},"prompt_info":{"prompt_type":"db"}}`
	}
	const onDisk = `{"prompt_id":"disk","litellm_params":{"prompt_integration":"dotprompt","prompt_directory":"/prompts"},"prompt_info":{"prompt_type":"config"}}`
	s := newServer(t, "Authorization", "Bearer sk-1234-of-litellm", map[string]string{
		"/prompts/list":           `{"prompts":[` + spec(2, "{{b}}") + `,` + onDisk + `,{"prompt_id":"lost","litellm_params":{"prompt_integration":"dotprompt"},"prompt_info":{}}]}`,
		"/prompts/guide/versions": `{"prompts":[` + spec(2, "{{b}}") + `,` + spec(1, "{{a}}") + `]}`,
	})
	golden(t, "litellm-account", convert.LiteLLM, s, "", convert.Options{Key: "sk-1234-of-litellm"})
	golden(t, "litellm-account-all", convert.LiteLLM, s, "/", convert.Options{Key: "sk-1234-of-litellm", AllVersions: true})
}

func TestBifrostAccount(t *testing.T) {
	const path = "/api/prompt-repo/prompts"
	version := func(n int, latest, text string) string {
		return `{"id":1` + strconv.Itoa(n) + `,"version_number":` + strconv.Itoa(n) + `,"provider":"openai","model":"m","model_params":{"temperature":0.70},"is_latest":` + latest + `,"messages":[{"id":1,"order_index":0,"message":{"role":"system","content":"` + text + `"}}]}`
	}
	s := newServer(t, "Authorization", "Bearer of-bifrost", map[string]string{
		path:                     `{"prompts":[{"id":"a/1","name":"guide","latest_version":{"version_number":2}},{"id":"b","name":"gone"}]}`,
		path + "/a%2F1/versions": `{"versions":[` + version(2, "true", "Guide to {{city}}.") + `,` + version(1, "false", "Be brief.") + `]}`,
	})
	golden(t, "bifrost-account", convert.Bifrost, s, "", convert.Options{Key: "of-bifrost"})
	golden(t, "bifrost-account-all", convert.Bifrost, s, "/", convert.Options{Key: "of-bifrost", AllVersions: true})
}

func TestPortkeyAccount(t *testing.T) {
	flat := func(version int, status, text string) string {
		v := strconv.Itoa(version)
		return `{"id":"1b","slug":"pp-guide","name":"Guide","status":"active","object":"prompt","prompt_version":` + v + `,"prompt_version_id":"v` + v + `","prompt_version_status":"` + status + `","string":` + text + `,"parameters":{"model":"m","temperature":0.70}}`
	}
	listed := func(slug string) string { return `{"id":"x","slug":"` + slug + `","object":"prompt"}` }
	s := newServer(t, "X-Portkey-Api-Key", "of-portkey-1", map[string]string{
		"/v1/prompts/partials?page_size=100":       `{"object":"list","total":2,"data":[{"id":"a","slug":"house"},{"id":"b","slug":"gone"}]}`,
		"/v1/prompts/partials/house":               `{"id":"a","slug":"house","version":1,"string":"Be {{style}}."}`,
		"/v1/prompts?page_size=100":                `{"object":"list","total":3,"data":[` + listed("pp-guide") + `]}`,
		"/v1/prompts?current_page=1&page_size=100": `{"object":"list","total":3,"data":[` + listed("pp-guide") + `]}`, // it counts from 1
		"/v1/prompts?current_page=2&page_size=100": `{"object":"list","total":3,"data":[` + listed("pp-gone") + `,` + listed("pp-lost") + `]}`,
		"/v1/prompts/pp-guide":                     flat(2, "active", `"{{>house}} Guide."`),
		"/v1/prompts/pp-guide/versions":            `{"object":"list","total":3,"data":[` + flat(3, "draft", `"Draft."`) + `,` + flat(2, "active", `"x"`) + `,{"prompt_version":1,"prompt_version_id":"v1"}]}`,
		"/v1/prompts/pp-guide/versions/v1":         strings.Replace(flat(1, "archived", `"{{>gone}}"`), `"slug":"pp-guide"`, `"slug":null`, 1),
		"/v1/prompts/pp-gone":                      flat(1, "active", `"{{>gone}}"`),
		"/v1/prompts/pp-gone/versions":             `{"object":"list","total":1,"data":[]}`,
	})
	golden(t, "portkey-account", convert.Portkey, s, "/v1", convert.Options{Key: "of-portkey-1"})
	golden(t, "portkey-account-all", convert.Portkey, s, "/v1", convert.Options{Key: "of-portkey-1", AllVersions: true})
}

// transport answers requests in memory.
type transport func(*http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), nil }

// TestRepeats answers with errors that pass. It checks that Retry-After is kept, within
// bounds, and that other errors are not repeated.
func TestRepeats(t *testing.T) {
	for _, test := range []struct {
		name     string
		statuses []int
		want     string // in the error, empty for none
		takes    time.Duration
	}{
		{"pauses", []int{429, 503, 200}, "", 7*time.Second + 30*time.Second},
		{"a wrong key", []int{401}, "GET /prompts/list was answered 401", 0},
		{"a broken server", slices.Repeat([]int{500}, 5), "answered 500", 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				statuses := test.statuses
				pauses := map[int]string{429: "7", 503: "999999999999"}
				o := convert.Options{Transport: transport(func(*http.Request) *http.Response {
					status := statuses[0]
					statuses = statuses[1:]
					header := http.Header{"Retry-After": {pauses[status]}}
					return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(`{"prompts":[]}`))}
				})}
				begin := time.Now()
				_, _, err := convert.Convert(t.Context(), convert.LiteLLM, "http://127.0.0.1:1", o)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				if took := time.Since(begin); took != test.takes || len(statuses) > 0 {
					t.Errorf("took %s, want %s; %d responses are left", took, test.takes, len(statuses))
				}
			})
		})
	}
}

// TestRedirectsKeepTheKey redirects to another server. It must get no request.
func TestRedirectsKeepTheKey(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got %s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(first.Close)
	for _, source := range []convert.Source{convert.OpenRouter, convert.Langfuse, convert.LiteLLM, convert.Portkey} {
		_, _, err := convert.Convert(t.Context(), source, first.URL, convert.Options{Key: "public:secret"})
		if err == nil || !strings.Contains(err.Error(), "redirects are not followed") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want that redirects are not followed", source, err)
		}
	}
}

// TestEndlessAnswers has an account whose list has no end, and one whose answer has none.
func TestEndlessAnswers(t *testing.T) {
	tier.Slow(t)
	pages := 0
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/public/v2/prompts" {
			pages++
			_, _ = w.Write([]byte(`{"data":[{"name":"p` + strconv.Itoa(pages) + `","versions":[1]}],"meta":{}}`))
			return
		}
		text := []byte(strings.Repeat(" ", 1<<20))
		for {
			if _, err := w.Write(text); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	_, _, err := convert.Convert(t.Context(), convert.Langfuse, endless.URL, convert.Options{Key: "a:b"})
	if err == nil || !strings.Contains(err.Error(), "more than 1000 pages") || pages != 1000 {
		t.Errorf("got %v after %d pages", err, pages)
	}
	_, _, err = convert.Convert(t.Context(), convert.LiteLLM, endless.URL, convert.Options{})
	if err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("got %v, want that the answers are too long", err)
	}
}

func TestAccountsWanted(t *testing.T) {
	for _, test := range []struct {
		source     convert.Source
		input, key string
		want       string
	}{
		{convert.OpenRouter, "https://127.0.0.1:1", "", "--key-file"},
		{convert.OpenRouter, "testdata", "key", "the URL of the API"},
		{convert.OpenAI, "https://127.0.0.1:1", "key", "no API"},
		{convert.Langfuse, "https://127.0.0.1:1", "key", "a colon"},
		{convert.Portkey, "https://127.0.0.1:1", "", "--key-file"},
		{convert.LiteLLM, "https://user:pass@127.0.0.1:1", "key", "neither a password"},
		{convert.LiteLLM, "https://127.0.0.1:1/?a=b", "key", "nor a query"},
		{convert.LiteLLMModels, "https://127.0.0.1:1", "key", "has files alone"},
		{convert.GitHub, "https://127.0.0.1:1", "key", "has files alone"},
		{convert.Ollama, "http://127.0.0.1:1", "", "ollama show --modelfile"},
		{convert.OpenWebUI, "https://127.0.0.1:1", "key", "Workspace, Models, Export"},
		{"other", "x", "", "openrouter, openai, langfuse, litellm, litellm-models, portkey, ollama, openwebui, bifrost, github"},
	} {
		_, _, err := convert.Convert(t.Context(), test.source, test.input, convert.Options{Key: test.key})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "user:pass") {
			t.Errorf("%s of %s: got %v, want %q", test.source, test.input, err, test.want)
		}
	}
}

func TestInputs(t *testing.T) {
	tier.Slow(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret.prompt")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(dir, "linked")
	if err := os.Mkdir(linked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(linked, "a.prompt")); err != nil {
		t.Skip(err)
	}
	for _, test := range []struct{ name, input, want string }{
		{"a folder without files", empty, "has no file that ends in .prompt or .json"},
		{"no file", filepath.Join(dir, "none"), "none"},
		{"only a link out of the folder", linked, "has no file that ends in"},
		{"a large file", write("large.json", strings.Repeat(" ", 64<<20+1)), "more than 67108864 bytes"},
	} {
		_, _, err := convert.Convert(t.Context(), convert.LiteLLM, test.input, convert.Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	if err := os.WriteFile(filepath.Join(linked, "b.prompt"), []byte("User: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, report, err := convert.Convert(t.Context(), convert.LiteLLM, linked, convert.Options{})
	if err != nil || len(report.Written) != 1 || report.Count(convert.NotWritten) != 1 || report.Entries[0].File != "a.prompt" {
		t.Errorf("a link beside a prompt: got %+v, %v", report, err)
	}
	set, report, err := convert.Convert(t.Context(), convert.LiteLLM, "-", convert.Options{Stdin: strings.NewReader("Hi {{ name }}.")})
	if err != nil || len(set.Workspaces) != 1 || set.Workspaces[0].Presets[0].Slug != "prompt" || report.Count(convert.NotWritten) > 0 {
		t.Errorf("standard input: got %+v, %+v, %v", set, report, err)
	}
}
