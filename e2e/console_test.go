package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// findConsoleModules returns the path of node. It fails if a module of the tests is not
// installed.
func findConsoleModules(t *testing.T) (node string) {
	t.Helper()
	return servertest.Node(t, "console", "axe-core", "console", "eslint", "console", "playwright-core", "console", "puppeteer-core", "console", "typescript")
}

// findBrowser returns the path of a browser, which a variable may name.
func findBrowser(t *testing.T, variable string, names ...string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	servertest.Lack(t, names[0], "%s is not installed, and %s names none", names[0], variable)
	return ""
}

// consoleScenarios are the scripts of browser tests. Each gets a server of its own. The script
// large runs only where every case is tried.
var consoleScenarios = []string{
	"serving", "presets", "versions", "edit", "labels", "try", "answers", "targets", "invisible", "guarded", "details", "workspaces", "states", "everyone", "large",
}

// TestConsole runs the console of the binary in Chromium, in front of services that speak
// the three dialects. PRESETS_SCREENSHOTS names a folder for pictures of each view.
func TestConsole(t *testing.T) {
	t.Parallel()
	node, chromium := findConsoleModules(t), findBrowser(t, "PRESETS_CHROMIUM", "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
	for _, scenario := range consoleScenarios {
		t.Run(scenario, func(t *testing.T) {
			if scenario == "large" { // it fills a store with 10,000 presets
				tier.Long(t)
			}
			t.Parallel()
			startConsole(t).run(t, node, scenario+".mjs", "CONSOLE_CHROMIUM="+chromium)
		})
	}
	for _, measured := range []string{"usage", "keys", "workbench"} {
		t.Run(measured, func(t *testing.T) {
			t.Parallel()
			startMeasured(t).run(t, node, measured+".mjs", "CONSOLE_CHROMIUM="+chromium)
		})
	}
}

// TestConsoleInFirefox runs the console in Firefox.
func TestConsoleInFirefox(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := findConsoleModules(t)
	firefox := findBrowser(t, "PRESETS_FIREFOX", "firefox-esr", "firefox")
	startConsole(t).run(t, node, "firefox.mjs", "CONSOLE_FIREFOX="+firefox)
}

// TestConsoleSource checks the types and the style of the console's modules.
func TestConsoleSource(t *testing.T) {
	t.Parallel()
	node := findConsoleModules(t)
	const modules = "e2e/console/node_modules"
	for name, args := range map[string][]string{
		"tsc":    {modules + "/typescript/bin/tsc", "--project", "e2e/console/tsconfig.json"},
		"eslint": {modules + "/eslint/bin/eslint.js", "--max-warnings", "0", "--config", "e2e/console/eslint.config.mjs", "caddymodule/console/assets", "e2e/console"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, errs, err := try(t, root, nil, node, args...); err != nil {
				t.Errorf("%v\n%s%s", err, out, errs)
			}
		})
	}
}

// consoleServer is a server with the console, and the services behind it.
type consoleServer struct {
	*server
	env []string
}

// startConsole runs the binary with the console. OpenAI's service answers chat and
// responses, and Anthropic's answers messages.
func startConsole(t *testing.T) *consoleServer {
	t.Helper()
	openAI, anthropic := newService(t, "openai"), newService(t, "anthropic")
	s := startWith(t, "console\ninference", fmt.Sprintf("@messages path /v1/messages /v1/messages/*\nhandle @messages {\n%s\n}\nhandle {\n%s\n}", anthropic.directives(), openAI.directives()))
	t.Cleanup(func() {
		for _, service := range []*service{openAI, anthropic} {
			if _, count := service.last(); count > 0 {
				service.checkSecrets(t)
			}
		}
	})
	return &consoleServer{s, []string{
		"CONSOLE_SITE=" + s.site,
		"CONSOLE_OPENAI=" + openAI.control(t),
		"CONSOLE_ANTHROPIC=" + anthropic.control(t),
		"CONSOLE_ADMIN=http://" + s.admin,
		"PRESETS_MANAGEMENT_KEY=" + managementKey,
		"PRESETS_INFERENCE_KEY=" + inferenceKey,
	}}
}

// startMeasured runs the binary with the console, keys by API, and usage. Its gateway says what its
// answers used.
func startMeasured(t *testing.T) *consoleServer {
	t.Helper()
	gateway := httptest.NewServer(http.HandlerFunc(answerByModel))
	t.Cleanup(gateway.Close)
	s := startWith(t, `console
		key_api
		inference {
			usage {
				price acme/large {
					input 10
					output 100
				}
			}
		}`, "reverse_proxy "+gateway.Listener.Addr().String())
	return &consoleServer{s, []string{
		"CONSOLE_SITE=" + s.site,
		"CONSOLE_ADMIN=http://" + s.admin,
		"PRESETS_MANAGEMENT_KEY=" + managementKey,
		"PRESETS_INFERENCE_KEY=" + inferenceKey,
	}}
}

// answerByModel answers like a gateway. Its models acme/small and acme/dear have a cost, acme/large has
// none, acme/silent does not say its usage, and acme/asked says it only if asked. A request whose user says "fail" fails.
func answerByModel(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || len(sent.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if sent.Messages[len(sent.Messages)-1].Content == "fail" {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error": {"message": "as asked"}}`)
		return
	}
	usage := map[string]string{
		"acme/small": `, "usage": {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens": 20, "cost": 0.002}`,
		"acme/asked": map[bool]string{true: `, "usage": {"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.003}`}[sent.StreamOptions.IncludeUsage],
		"acme/dear":  `, "usage": {"prompt_tokens": 3000, "completion_tokens": 60000, "cost": 4.25}`,
		"acme/large": `, "usage": {"prompt_tokens": 100, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 30}}`,
	}[sent.Model]
	model := strconv.Quote(sent.Model)
	if sent.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"model": `+model+`, "choices": [{"delta": {"content": "Hello."}}]}`+"\n\n"+
			`data: {"model": `+model+`, "choices": []`+usage+"}\n\ndata: [DONE]\n\n")
		return
	}
	_, _ = io.WriteString(w, `{"model": `+model+`, "choices": [{"message": {"content": "Hello."}}]`+usage+`}`)
}

// run runs a script of tests.
func (s *consoleServer) run(t *testing.T, node, script string, env ...string) {
	t.Helper()
	if folder := os.Getenv("PRESETS_SCREENSHOTS"); folder != "" {
		folder, err := filepath.Abs(folder)
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, "PRESETS_SCREENSHOTS="+folder)
	}
	home := t.TempDir() // where browsers may write
	env = append(env, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	// .ci/failures reads this format.
	args := []string{"--test-reporter=tap"}
	if pattern := os.Getenv("PRESETS_CONSOLE_ONLY"); pattern != "" { // to work on one test
		args = append(args, "--test-name-pattern="+pattern)
	}
	out, errs, err := try(t, "console", append(env, s.env...), node, append(args, script)...)
	if err != nil {
		t.Errorf("node %s: %v", script, err)
	}
	t.Logf("node %s:\n%s%s", script, strings.TrimSpace(out), errs)
}
