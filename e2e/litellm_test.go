package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// masterKey is LiteLLM's own.
const masterKey = "sk-master-key-of-the-gateway"

// liteLLMModel is LiteLLM's name of a model, with the provider's one.
type liteLLMModel struct{ name, provider string }

// liteLLMModels are models each of another kind of provider.
var liteLLMModels = []liteLLMModel{
	{"gpt-5-nano", "openai/gpt-5-nano"},
	{"gpt-4o", "openai/gpt-4o"},
	{"other", "openai/other"},
	{"vllm", "hosted_vllm/other"},
	{"claude", "anthropic/claude-sonnet-4-6"},
}

// startLiteLLM runs LiteLLM in front of a provider until the test ends, and returns its address.
func startLiteLLM(t *testing.T, behind *provider, settings string, env ...string) string {
	t.Helper()
	interpreter := pythonWith(t, filepath.Join("litellm", "requirements.txt"))
	folder := t.TempDir()
	var config strings.Builder
	config.WriteString("general_settings: {master_key: " + masterKey + "}\nlitellm_settings: {" + settings + "}\n" +
		"router_settings: {num_retries: 0, disable_cooldowns: true}\nmodel_list:\n")
	for _, model := range append(slices.Clone(liteLLMModels), liteLLMModel{"gemini", "gemini/gemini-2.5-flash"}) {
		base := behind.server.URL
		if strings.HasPrefix(model.provider, "openai/") || strings.HasPrefix(model.provider, "hosted_vllm/") {
			base += "/v1"
		}
		fmt.Fprintf(&config, "  - {model_name: %s, litellm_params: {model: %s, api_base: %q, api_key: of-the-provider}}\n", model.name, model.provider, base)
	}
	write(t, filepath.Join(folder, "config.yaml"), config.String())
	write(t, filepath.Join(folder, "end_users.py"), read(t, filepath.Join("litellm", "end_users.py")))
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	program := filepath.Join(filepath.Dir(interpreter), "litellm")
	cmd := exec.CommandContext(wait.Command(t), interpreter, program, "--config", filepath.Join(folder, "config.yaml"), "--host", "127.0.0.1", "--port", port)
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), "HOME="+folder, "LITELLM_LOCAL_MODEL_COST_MAP=True"), env...)
	servertest.Serve(t, cmd, address)
	return address
}

// documentedLiteLLM returns the Caddyfile of docs/gateways.md for LiteLLM.
func documentedLiteLLM(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, filepath.Join(root, "docs", "gateways.md")), "\n## LiteLLM\n")
	_, text, ok := strings.Cut(section, "```caddyfile\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !ok || !closed {
		t.Fatal("docs/gateways.md has no Caddyfile for LiteLLM")
	}
	return text
}

// TestLiteLLM runs LiteLLM behind the Caddyfile of docs/gateways.md, in front of a strict provider.
func TestLiteLLM(t *testing.T) {
	t.Parallel()
	if !tier.EveryCase() {
		t.Skip("only .ci/run long installs LiteLLM")
	}
	behind := newProvider(t)
	endUsers := filepath.Join(t.TempDir(), "end-users")
	liteLLM := startLiteLLM(t, behind, "callbacks: end_users.end_users", "END_USERS="+endUsers)
	dropping := startLiteLLM(t, behind, "drop_params: true")

	documented := documentedLiteLLM(t)
	var sites []*server
	for _, address := range []string{liteLLM, dropping} {
		sites = append(sites, startDocumented(t, strings.Replace(documented, "127.0.0.1:4000", address, 1), "LITELLM_KEY="+masterKey))
	}
	s := sites[0]
	ask := func(s *server, path, body string, header ...string) (int, string) {
		t.Helper()
		behind.take()
		return s.send(t, http.MethodPost, path, inferenceKey, body, header...)
	}
	const hello = `"messages": [{"role": "user", "content": "Hello"}]`

	t.Run("administration", func(t *testing.T) {
		// The gateway's key is an administrator's, and GET /health asks each model.
		open := startWith(t, "inference", "reverse_proxy "+liteLLM+" {\nheader_up Authorization \"Bearer "+masterKey+"\"\n}")
		for _, path := range []string{"/health", "/health?model=gpt-4o", "/model/info", "/get/config/callbacks"} {
			behind.take()
			if status, answer := open.send(t, http.MethodGet, path, inferenceKey, ""); status != http.StatusOK {
				t.Errorf("GET %s with the master key in front of all routes: got %d %s, want 200", path, status, answer)
			}
			if paid := len(behind.take()); strings.HasPrefix(path, "/health") != (paid > 0) {
				t.Errorf("GET %s sends %d requests to the provider", path, paid)
			}
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if status, answer := s.send(t, method, path, inferenceKey, ""); status != http.StatusNotFound || strings.Contains(answer, "litellm") {
					t.Errorf("%s %s with the documented Caddyfile: got %d %s, want its 404", method, path, status, answer)
				}
			}
			if paid := len(behind.take()); paid > 0 {
				t.Errorf("%s with the documented Caddyfile sends %d requests to the provider", path, paid)
			}
		}
	})

	t.Run("routes", func(t *testing.T) {
		for path, body := range map[string]string{
			"/v1/chat/completions":       `{"model": "gpt-4o", ` + hello + `}`,
			"/v1/responses":              `{"model": "gpt-4o", "input": "Hello"}`,
			"/v1/messages":               `{"model": "claude", "max_tokens": 5, ` + hello + `}`,
			"/v1/messages/count_tokens":  `{"model": "claude", ` + hello + `}`,
			"/v1/responses/input_tokens": `{"model": "gpt-4o", "input": "Hello"}`,
		} {
			if status, answer := ask(s, path, body); status != http.StatusOK {
				t.Errorf("%s: got %d %s", path, status, answer)
			}
		}
		if status, answer := s.send(t, http.MethodGet, "/v1/models", inferenceKey, ""); status != http.StatusOK || !strings.Contains(answer, "gpt-5-nano") {
			t.Errorf("/v1/models: got %d %s", status, answer)
		}
	})

	t.Run("headers", func(t *testing.T) {
		body := `{"model": "gpt-4o", ` + hello + `}`
		gateway := &server{site: "http://" + liteLLM}
		for name, value := range map[string]string{"X-Litellm-Timeout": "no number", "x-litellm-api-key": "sk-of-somebody"} {
			if status, answer := gateway.send(t, http.MethodPost, "/v1/chat/completions", masterKey, body, name, value); status == http.StatusOK {
				t.Errorf("LiteLLM ignores %s: %s", name, answer)
			}
			if status, answer := ask(s, "/v1/chat/completions", body, name, value); status != http.StatusOK {
				t.Errorf("%s: got %d %s, want 200, since it does not reach LiteLLM", name, status, answer)
			}
		}
		key, id := s.issue(t, "inference")
		if status, answer := ask(s, "/v1/chat/completions", body, "Authorization", "Bearer "+key, "X-Litellm-End-User-Id", "somebody"); status != http.StatusOK {
			t.Fatalf("got %d %s", status, answer)
		}
		wait.Until(t, "LiteLLM has the key's id "+id+" as its end user", func() bool {
			users, _ := os.ReadFile(endUsers)
			return strings.Contains(string(users), id+"\n")
		})
		if users, _ := os.ReadFile(endUsers); strings.Contains(string(users), "somebody") {
			t.Error("the client chose its end user")
		}
	})

	t.Run("models alone", func(t *testing.T) {
		s.manage(t, http.MethodPost, "/v1/presets/models/chat/completions", `{"models": ["gpt-4o", "other"], `+hello+`}`)
		if status, answer := ask(s, "/v1/chat/completions", `{"model": "@preset/models", `+hello+`}`); status != http.StatusOK {
			t.Errorf("got %d %s", status, answer)
		}
		if sent := behind.take(); len(sent) != 1 || member(t, sent[0].body, "model") != `"gpt-4o"` {
			t.Errorf("got %v, want a request for gpt-4o", sent)
		}
	})

	t.Run("fields of OpenRouter", func(t *testing.T) {
		// LiteLLM passes unknown fields of chat on, so OpenAI would refuse them.
		fields := `"provider": {"sort": "price"}, "plugins": [{"id": "web"}], "route": "fallback", "models": ["other"], "session_id": "s",
			"trace": {"trace_id": "t"}, "image_config": {"aspect_ratio": "1:1"}, "cache_control": {"type": "ephemeral"},
			"stop_server_tools_when": [{"type": "step_count_is", "step_count": 3}]`
		s.manage(t, http.MethodPost, "/v1/presets/fields/chat/completions", `{"model": "gpt-4o", `+fields+`, `+hello+`}`)
		if status, answer := ask(s, "/v1/chat/completions", `{"model": "@preset/fields", "session_id": "s", "trace": {"trace_id": "t"}, `+hello+`}`); status != http.StatusOK {
			t.Fatalf("got %d %s", status, answer)
		}
		for _, sent := range behind.take() {
			checkJSON(t, "upstream", sent.body, `{"model": "gpt-4o", `+hello+`}`)
		}
		if status, answer := ask(s, "/v1/chat/completions", `{"model": "gpt-4o", `+fields+`, `+hello+`}`); status != http.StatusOK {
			t.Fatalf("got %d %s", status, answer)
		}
		for _, sent := range behind.take() {
			checkJSON(t, "upstream without a preset", sent.body, `{"model": "gpt-4o", `+fields+`, `+hello+`}`)
		}
	})

	t.Run("drop_params", func(t *testing.T) {
		body := `{"model": "other", "verbosity": "low", ` + hello + `}`
		for i, of := range []struct {
			site  *server
			agent string
			want  int
		}{
			{sites[0], "curl/8.14.1", http.StatusBadRequest},
			{sites[0], "claude-cli/2.1.332 (external, sdk-cli)", http.StatusOK},
			{sites[0], "codex_exec/0.171.0 (Debian 13)", http.StatusOK},
			{sites[1], "curl/8.14.1", http.StatusOK},
		} {
			if status, answer := ask(of.site, "/v1/chat/completions", body, "User-Agent", of.agent); status != of.want {
				t.Errorf("%d: %s: got %d %s, want %d", i, of.agent, status, answer, of.want)
			}
		}
	})

	t.Run("unset key", func(t *testing.T) {
		_, errs, err := try(t, t.TempDir(), []string{"LITELLM_KEY="}, s.binary, "validate", "--adapter", "caddyfile", "--config", writeCaddyfile(t, documented))
		if err == nil || !strings.Contains(errs, "require: ") || !strings.Contains(errs, "env.LITELLM_KEY") {
			t.Errorf("a start without the key: got %v, want an error that names it\n%s", err, errs)
		}
		without := startDocumented(t, strings.Replace(strings.Replace(documented, "127.0.0.1:4000", liteLLM, 1), "require {env.LITELLM_KEY}", "", 1))
		if status, answer := ask(without, "/v1/chat/completions", `{"model": "gpt-4o", `+hello+`}`); status != http.StatusInternalServerError {
			t.Errorf("without require: got %d %s, want LiteLLM's 500", status, answer)
		}
	})

	t.Run("pairs", func(t *testing.T) { checkLiteLLMPairs(t, behind, liteLLM, s) })
	t.Run("usage", func(t *testing.T) {
		checkLiteLLMUsage(t, startDocumented(t, strings.NewReplacer("127.0.0.1:4000", liteLLM, "inference {", "inference {\nusage").Replace(documented), "LITELLM_KEY="+masterKey))
	})
	t.Run("names", func(t *testing.T) { checkLiteLLMNames(t, behind, liteLLM, s) })
	t.Run("settings", func(t *testing.T) { checkLiteLLMSettings(t, behind, sites[0], sites[1]) })
}

// startDocumented runs the first site of a documented Caddyfile, with the keys of these tests, until
// the test ends.
func startDocumented(t *testing.T, site string, env ...string) *server {
	t.Helper()
	s, home := newServer(t)
	s.env = append(s.env, env...)
	site = strings.Replace(site, ":8080 {", s.site+" {\nbind 127.0.0.1", 1)
	site = strings.Replace(site, "presets {", "presets {\nmanagement_key {env.E2E_MANAGEMENT_KEY}\ninference_key {env.E2E_INFERENCE_KEY}", 1)
	s.serve(t, home, "{\nadmin "+s.admin+"\nauto_https off\npersist_config off\ngrace_period 2s\n}\n"+site)
	return s
}

func writeCaddyfile(t *testing.T, text string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "Caddyfile")
	write(t, config, text)
	return config
}

// liteLLMSettings are settings that a preset can have, as JSON by route, in the order of the
// document's tables.
var liteLLMSettings = []struct {
	route, base string
	settings    [][2]string // the name, and its value with those that it needs
}{
	{"chat/completions", `"messages": [{"role": "user", "content": "Hello"}]`, [][2]string{
		{"temperature", `0.5`},
		{"top_p", `0.5`},
		{"top_k", `5`},
		{"min_p", `0.1`},
		{"repetition_penalty", `1.1`},
		{"max_tokens", `77`},
		{"max_completion_tokens", `77`},
		{"stop", `["z"]`},
		{"seed", `5`},
		{"frequency_penalty", `0.5`},
		{"presence_penalty", `0.5`},
		{"logit_bias", `{"5": 1}`},
		{"logprobs", `true`},
		{"reasoning_effort", `"low"`},
		{"reasoning", `{"effort": "low"}`},
		{"verbosity", `"low"`},
		{"response_format", `{"type": "json_schema", "json_schema": {"name": "place", "schema": ` + placeSchema + `}}`},
		{"tools", liteLLMTools},
		{"tool_choice", `"required", "tools": ` + liteLLMTools},
		{"parallel_tool_calls", `false, "tools": ` + liteLLMTools},
		{"web_search_options", `{}`},
		{"service_tier", `"flex"`},
	}},
	{"responses", `"input": "Hello"`, [][2]string{
		{"instructions", `"Be brief."`},
		{"temperature", `0.5`},
		{"top_p", `0.5`},
		{"top_k", `5`},
		{"max_output_tokens", `77`},
		{"frequency_penalty", `0.5`},
		{"presence_penalty", `0.5`},
		{"reasoning", `{"effort": "low"}`},
		{"text", `{"format": {"type": "json_schema", "name": "place", "schema": ` + placeSchema + `}}`},
		{"tools", `[{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]`},
		{"tool_choice", `"required", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]`},
		{"parallel_tool_calls", `false, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]`},
		{"max_tool_calls", `3`},
		{"top_logprobs", `2`},
		{"truncation", `"auto"`},
		{"include", `["reasoning.encrypted_content"]`},
		{"service_tier", `"flex"`},
	}},
	{"messages", `"max_tokens": 3000, "messages": [{"role": "user", "content": "Hello"}]`, [][2]string{
		{"system", `"Be brief."`},
		{"temperature", `0.5`},
		{"top_p", `0.5`},
		{"top_k", `5`},
		{"stop_sequences", `["z"]`},
		{"thinking", `{"type": "enabled", "budget_tokens": 2000}`},
		{"output_config", `{"effort": "low"}`},
		{"tools", `[{"name": "f", "input_schema": {"type": "object", "properties": {}}}]`},
		{"tool_choice", `{"type": "any"}, "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]`},
		{"context_management", `{"edits": []}`},
		{"speed", `"standard"`},
		{"service_tier", `"auto"`},
	}},
}

const (
	placeSchema  = `{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}`
	liteLLMTools = `[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]`
)

// checkLiteLLMSettings compares the tables of docs/gateways.md with what reaches the provider if a
// preset has one setting. What is refused without drop_params must be left out with it.
func checkLiteLLMSettings(t *testing.T, behind *provider, s, dropping *server) {
	document := read(t, filepath.Join(root, "docs", "gateways.md"))
	for _, of := range liteLLMSettings {
		var table strings.Builder
		fmt.Fprintf(&table, "| `%s` |", of.route)
		for _, model := range liteLLMModels {
			fmt.Fprintf(&table, " `%s` |", model.provider)
		}
		table.WriteString("\n|---|" + strings.Repeat("---|", len(liteLLMModels)) + "\n")
		plain := map[string]map[string]any{}
		for _, model := range liteLLMModels {
			plain[model.name], _ = sentBy(t, behind, s, of.route, model.name, of.base)
		}
		type row struct{ names, cells string }
		var rows []row
		for _, setting := range of.settings {
			name, value := setting[0], setting[1]
			slug := strings.ReplaceAll(of.route, "/", "-") + "-" + strings.ReplaceAll(name, "_", "-")
			for _, site := range []*server{s, dropping} {
				site.manage(t, http.MethodPost, "/v1/presets/"+slug+"/"+of.route, fmt.Sprintf(`{"model": "m", %q: %s, %s}`, name, value, of.base))
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(fmt.Sprintf(`{%q: %s}`, name, value)), &want); err != nil {
				t.Fatal(err)
			}
			cells := ""
			for _, model := range liteLLMModels {
				named := model.name + "@preset/" + slug
				cell := "400"
				if got, refused := sentBy(t, behind, s, of.route, named, of.base); !refused {
					cell = reached(got, plain[model.name], want, name)
				} else if got, refused := sentBy(t, behind, dropping, of.route, named, of.base); refused || reached(got, plain[model.name], want, name) != "–" {
					t.Errorf("%s of %s is refused by %s, and with drop_params %t or sent: %v", name, of.route, model.name, refused, got)
				}
				cells += " " + cell + " |"
			}
			if i := slices.IndexFunc(rows, func(r row) bool { return r.cells == cells }); i >= 0 {
				rows[i].names += ", `" + name + "`"
			} else {
				rows = append(rows, row{"`" + name + "`", cells})
			}
		}
		for _, r := range rows {
			fmt.Fprintf(&table, "| %s |%s\n", r.names, r.cells)
		}
		if !strings.Contains(document, "\n"+table.String()+"\n") {
			t.Errorf("docs/gateways.md should have this table:\n%s", table.String())
		}
	}
}

// sentBy sends a request through LiteLLM, and returns what the provider got. It reports whether
// LiteLLM refused it.
func sentBy(t *testing.T, behind *provider, s *server, route, model, base string) (body map[string]any, refused bool) {
	t.Helper()
	behind.take()
	status, answer := s.send(t, http.MethodPost, "/v1/"+route, inferenceKey, fmt.Sprintf(`{"model": %q, %s}`, model, base))
	all := behind.take()
	if status == http.StatusBadRequest && len(all) == 0 && strings.Contains(answer, "UnsupportedParams") {
		return nil, true
	}
	if status != http.StatusOK || len(all) != 1 {
		t.Fatalf("%s: %s: got %d %s, and %d requests upstream %v", route, model, status, answer, len(all), all)
	}
	if err := json.Unmarshal([]byte(all[0].body), &body); err != nil {
		t.Fatal(err)
	}
	return body, false
}

// reached says what reached the provider of a setting: "yes", the fields that it became, or "–".
func reached(got, plain, want map[string]any, name string) string {
	if reflect.DeepEqual(got[name], want[name]) {
		return "yes"
	}
	var others []string
	for _, field := range slices.Sorted(maps.Keys(got)) {
		isOfAnother := want[field] != nil && field != name // that the setting needs
		if !reflect.DeepEqual(got[field], plain[field]) && !isOfAnother {
			others = append(others, field)
		}
	}
	switch {
	case slices.Contains(others, name):
		return "yes, as its own" // in the provider's form
	case len(others) == 0:
		return "–"
	}
	return "`" + strings.Join(others, "`, `") + "`"
}
