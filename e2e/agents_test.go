package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// agent is a coding agent from npm, run once without a terminal.
type agent struct {
	name    string
	program string // its path in node_modules; {platform} is Node's name of it
	preset  string
	own     []string // settings that it always sends itself
	inLong  bool     // only .ci/run long installs it
	// configure writes its files into its home, and returns its arguments without the question,
	// and its environment.
	configure func(t *testing.T, home, site, model string) (args, env []string)
}

var agents = []agent{
	{name: "claude-code", program: claudeProgram, preset: "claude", own: []string{"max_tokens", "temperature"}, configure: configureClaude},
	{name: "claude-code", program: claudeProgram, preset: "claude-thinking", own: []string{"max_tokens", "thinking.type", "thinking.budget_tokens"}, configure: configureClaude},
	{name: "codex", program: "@openai/codex/bin/codex.js", preset: "gpt", own: []string{"parallel_tool_calls"}, configure: configureCodex},
	{name: "codex", program: "@openai/codex/bin/codex.js", preset: "qwen", own: []string{"parallel_tool_calls"}, configure: configureCodex},
	{ // tries a WebSocket first, and goes on over HTTP
		name: "codex with the provider openai", program: "@openai/codex/bin/codex.js", preset: "gpt", own: []string{"parallel_tool_calls"},
		configure: func(t *testing.T, home, site, model string) (args, env []string) {
			write(t, filepath.Join(home, "config.toml"), fmt.Sprintf("model = %q\nopenai_base_url = \"%s/v1\"\n", model, site))
			return []string{"exec", "--skip-git-repo-check"}, []string{"CODEX_HOME=" + home, "CODEX_API_KEY=" + inferenceKey}
		},
	},
	{
		name: "pi", program: "@mariozechner/pi-coding-agent/dist/cli.js", preset: "qwen", own: []string{"max_tokens"},
		configure: func(t *testing.T, home, site, model string) (args, env []string) {
			write(t, filepath.Join(home, "models.json"), fmt.Sprintf(`{"providers": {"presets": {"baseUrl": "%s/v1",
				"api": "openai-completions", "apiKey": %q, "models": [{"id": %q}]}}}`, site, inferenceKey, model))
			return []string{"--provider", "presets", "--model", model, "-p"}, []string{"PI_CODING_AGENT_DIR=" + home, "PI_OFFLINE=1"}
		},
	},
	{
		name: "opencode", program: "opencode-{platform}/bin/opencode", preset: "qwen", own: []string{"max_tokens"}, inLong: true,
		configure: func(t *testing.T, home, site, model string) (args, env []string) {
			write(t, filepath.Join(home, "opencode.json"), fmt.Sprintf(`{"model": "presets/%[3]s", "provider": {"presets": {
				"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "%[1]s/v1", "apiKey": %[2]q}, "models": {%[3]q: {}}}}}`, site, inferenceKey, model))
			return []string{"run"}, []string{"OPENCODE_CONFIG=" + filepath.Join(home, "opencode.json"), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
		},
	},
	{
		name: "qwen-code", program: "@qwen-code/qwen-code/cli.js", preset: "qwen", own: []string{"max_tokens"}, inLong: true,
		configure: func(_ *testing.T, _, site, model string) (args, env []string) {
			return []string{"--auth-type", "openai", "-p"}, []string{"OPENAI_BASE_URL=" + site + "/v1", "OPENAI_API_KEY=" + inferenceKey, "OPENAI_MODEL=" + model}
		},
	},
}

const claudeProgram = "@anthropic-ai/claude-code-{platform}/claude"

func configureClaude(_ *testing.T, home, site, model string) (args, env []string) {
	return []string{"-p"}, []string{
		"CLAUDE_CONFIG_DIR=" + home, "ANTHROPIC_BASE_URL=" + site, "ANTHROPIC_AUTH_TOKEN=" + inferenceKey,
		"ANTHROPIC_MODEL=" + model, "ANTHROPIC_DEFAULT_HAIKU_MODEL=" + model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
}

func configureCodex(t *testing.T, home, site, model string) (args, env []string) {
	write(t, filepath.Join(home, "config.toml"), fmt.Sprintf(`
model = %q
model_provider = "presets"
[model_providers.presets]
name = "presets"
base_url = "%s/v1"
env_key = "PRESETS_KEY"
wire_api = "responses"
`, model, site))
	return []string{"exec", "--skip-git-repo-check"}, []string{"CODEX_HOME=" + home, "PRESETS_KEY=" + inferenceKey}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// find returns the command of an agent, or skips the test.
func (a agent) find(t *testing.T) []string {
	t.Helper()
	folder := "agents"
	if a.inLong {
		folder = filepath.Join("agents", "more")
		if !tier.EveryCase() {
			t.Skip("only .ci/run long has this agent")
		}
	}
	system := strings.Replace(runtime.GOOS, "windows", "win32", 1)
	platform := system + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	file := filepath.FromSlash(strings.ReplaceAll(a.program, "{platform}", platform))
	program, err := filepath.Abs(filepath.Join(folder, "node_modules", file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		if _, err := os.Stat(servertest.Executable(program)); err != nil {
			servertest.Lack(t, "npm", "%s is not installed: npm install --prefix e2e/%s --ignore-scripts --no-package-lock", a.name, filepath.ToSlash(folder))
		}
	}
	if filepath.Ext(file) != ".js" {
		return []string{program}
	}
	return []string{servertest.Node(t), program}
}

// TestAgents runs coding agents against the built binary, in front of a strict provider. Each has a
// preset as its model. Its prompt, tools and settings meet those of the preset.
func TestAgents(t *testing.T) {
	t.Parallel()
	for _, a := range agents {
		t.Run(a.name+" "+a.preset, func(t *testing.T) {
			command := a.find(t)
			s, behind := startFamilies(t)
			sent := a.ask(t, s, behind, command)
			for _, name := range a.own {
				if !slices.Contains(sent, name) {
					t.Errorf("sends no %s of its own: docs/inference.md says so", name)
				}
			}
			// A policy holds the limit that each of these agents sends.
			if slices.Contains(a.own, "max_tokens") {
				s.manage(t, http.MethodPatch, "/v1/presets/"+a.preset, `{"policy": {"lock": ["max_output_tokens"]}}`)
				a.own = slices.DeleteFunc(slices.Clone(a.own), func(name string) bool { return name == "max_tokens" })
				a.ask(t, s, behind, command)
			}
		})
	}
}

// ask runs an agent with a question, and checks its requests. It returns its own settings in them.
func (a agent) ask(t *testing.T, s *server, behind *provider, command []string) (sent []string) {
	t.Helper()
	home := t.TempDir()
	args, env := a.configure(t, home, s.site, "@preset/"+a.preset)
	env = append(env, "HOME="+home, "USERPROFILE="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_STATE_HOME="+home)
	args = slices.Concat(command[1:], args, []string{"What is there to see in Rome?"})
	out, errs, err := try(t, home, env, command[0], args...)
	if err != nil || !strings.Contains(out, providerText) {
		t.Errorf("%s says %s%s, %v; want the provider's %q", a.name, out, errs, err, providerText)
	}
	requests := behind.take()
	if len(requests) == 0 {
		t.Error("no request reached the provider")
	}
	for _, request := range requests {
		t.Run("request", func(t *testing.T) { sent = append(sent, request.check(t, a.preset, a.own)...) })
	}
	return sent
}
