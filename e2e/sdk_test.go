package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// openRouter runs a script with the official OpenRouter client for TypeScript. The client
// validates the answers.
func (s *server) openRouter(t *testing.T, node, script string, env ...string) {
	t.Helper()
	out, errs, err := try(t, "openrouter", append([]string{
		"PRESETS_BASE_URL=" + s.site + "/v1",
		"PRESETS_MANAGEMENT_KEY=" + managementKey,
		"PRESETS_INFERENCE_KEY=" + inferenceKey,
		"OPENROUTER_API_KEY=", // the client's own default
	}, env...), node, script)
	t.Logf("node %s:\n%s%s", script, out, errs)
	if err != nil {
		t.Errorf("node %s: %v", script, err)
	}
}

// findNode returns the path of node. It fails if the client or the parser of OpenAPI documents
// is not installed.
func findNode(t *testing.T) string {
	t.Helper()
	return servertest.Node(t, "openrouter", "@openrouter/sdk", "openapi", "@seriousme/openapi-schema-validator", "openapi", "@hey-api/openapi-ts")
}

// described runs a script with the official OpenRouter client, and compares its requests
// and answers with openapi.yaml.
func (s *server) described(t *testing.T, node, script string, env ...string) {
	t.Helper()
	exchanges := filepath.Join(t.TempDir(), "exchanges")
	s.openRouter(t, node, script, append(env, "PRESETS_EXCHANGES="+exchanges)...)
	checkOpenAPI(t, node, apiDocument, exchanges)
}

// TestOfficialClient runs the official OpenRouter client against the API that
// stores presets.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	gateway := newUpstream(t)
	start(t, gateway).described(t, node, "check.mjs")

	want := []string{"GET /v1/models", "POST /v1/chat/completions"}
	if got := gateway.received(); !slices.Equal(got, want) {
		t.Errorf("the gateway received %q, want %q", got, want)
	}
}

// TestOpenRouter runs the official OpenRouter client against inference requests
// that name a preset.
func TestOpenRouter(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	s.makePresets(t)
	s.openRouter(t, node, "inference.mjs", "PRESETS_CONTROL_URL="+behind.control(t))
	behind.checkSecrets(t)
}

// TestOpenRouterPresets runs the official OpenRouter client through the life of
// presets and their versions.
func TestOpenRouterPresets(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "inference", behind.directives())
	s.described(t, node, "presets.mjs", "PRESETS_CONTROL_URL="+behind.control(t))
	behind.checkSecrets(t)
}

// TestOpenRouterWorkspaces runs the official OpenRouter client through the life
// of workspaces.
func TestOpenRouterWorkspaces(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "inference", behind.directives())
	if status, answer := s.post(t, "/v1/workspaces", managementKey, `{"name": "Keyed", "slug": "keyed"}`); status != http.StatusCreated {
		t.Fatalf("workspace keyed: got %d %s, want 201", status, answer)
	}
	key, id := s.issue(t, "inference", "--workspace", "keyed")
	s.described(t, node, "workspaces.mjs", "PRESETS_KEYED_KEY="+key, "PRESETS_CONTROL_URL="+behind.control(t))
	behind.checkSecrets(t)

	s.presets(t, "key", "revoke", id) // no live key acts there then
	s.manage(t, http.MethodDelete, "/v1/workspaces/keyed", "")
}

// TestOpenRouterKeys runs the official OpenRouter client through the life of keys.
func TestOpenRouterKeys(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "key_api\ninference {\n usage\n}", behind.directives())
	if status, answer := s.post(t, "/v1/workspaces", managementKey, `{"name": "Team", "slug": "team"}`); status != http.StatusCreated {
		t.Fatalf("workspace team: got %d %s, want 201", status, answer)
	}
	team, _ := s.issue(t, "management", "--workspace", "team", "--only-workspace", "--may", "issue-keys")
	plain, _ := s.issue(t, "management")
	s.described(t, node, "keys.mjs", "PRESETS_TEAM_KEY="+team, "PRESETS_PLAIN_KEY="+plain, "PRESETS_CONTROL_URL="+behind.control(t))
	behind.checkSecrets(t)
}

// TestOpenRouterKeysInPython runs OpenRouter's official client for Python through the life of keys.
func TestOpenRouterKeysInPython(t *testing.T) {
	t.Parallel()
	interpreter := pythonWith(t, filepath.Join("python", "requirements.txt"))
	behind := newService(t, "openrouter")
	s := startWith(t, "key_api\ninference {\n usage\n}", behind.directives())
	run(t, "python", []string{"PRESETS_BASE_URL=" + s.site + "/v1", "PRESETS_MANAGEMENT_KEY=" + managementKey}, interpreter, "keys.py")
	behind.checkSecrets(t)
}

// TestOpenRouterGuarded runs the official OpenRouter client with templates, policies,
// protection and limited keys, which it does not know.
func TestOpenRouterGuarded(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	if status, answer := s.post(t, "/v1/workspaces", managementKey, `{"name": "Team", "slug": "team"}`); status != http.StatusCreated {
		t.Fatalf("workspace team: got %d %s, want 201", status, answer)
	}
	env := []string{"PRESETS_CONTROL_URL=" + behind.control(t)}
	for name, args := range map[string][]string{
		"PLAIN":   {"management"},
		"KEEPER":  {"management", "--may", "protected-labels"},
		"TEAM":    {"management", "--workspace", "team", "--only-workspace"},
		"LIMITED": {"inference", "--preset", "tour-guide", "--preset", "later", "--preset-required", "--model", "acme/*"},
	} {
		key, _ := s.issue(t, args[0], args[1:]...)
		env = append(env, "PRESETS_"+name+"_KEY="+key)
	}
	s.described(t, node, "guarded.mjs", env...)
	behind.checkSecrets(t)
}

// TestReadmeClients runs README's clients as they are written, except for the address, against the
// server of the quick start.
func TestReadmeClients(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	interpreter := pythonWith(t, filepath.Join("python", "requirements.txt"))
	s := startExample(t)
	key, _ := s.issue(t, "management")
	inference, _ := s.issue(t, "inference")
	status, answer := s.post(t, "/v1/presets/email-copywriter/responses", key, `{"model": "openai/gpt-5-mini", "temperature": 0.70, "input": "Hello"}`)
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
	readme := strings.ReplaceAll(read(t, filepath.Join(root, "README.md")), "http://127.0.0.1:8080", s.site)
	for language, of := range map[string]struct {
		folder, prints string
		command        []string
	}{
		"js":     {"openrouter", "2\n", []string{node, "--input-type=module", "--eval"}},
		"python": {"python", "openai/gpt-5-mini\n", []string{interpreter, "-c"}},
	} {
		found := regexp.MustCompile("(?ms)^```"+language+"\r?\n(.*?)^```").FindAllStringSubmatch(readme, -1)
		if len(found) != 1 {
			t.Fatalf("README.md has %d blocks of %s, want 1", len(found), language)
		}
		out := run(t, of.folder, []string{"KEY=" + key, "IKEY=" + inference}, of.command[0], append(of.command[1:], found[0][1])...)
		if out != of.prints {
			t.Errorf("README's %s prints %q, want %q", language, out, of.prints)
		}
	}
}
