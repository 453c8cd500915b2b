package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// agent is a coding agent from npm, run without a terminal.
type agent struct {
	name    string
	program string // its path in node_modules; {platform} is Node's name of it
	preset  string
	own     []string          // settings of the preset that it always sends itself
	open    []string          // settings that a policy must not lock, because it sends them
	tools   map[string]string // its tool that reads a file, with the arguments; {call} is the number of the call
	inLong  bool              // only .ci/run long installs it
	brief   bool              // .ci/run asks one question, and .ci/run long asks all
	// configure writes its files into its home, and returns its arguments without the question,
	// and its environment. The models are those of the conversation's questions up to this one.
	configure func(t *testing.T, home, site string, models []string) (args, env []string)
}

var agents = []agent{
	{name: "claude-code", program: claudeProgram, preset: "claude", own: []string{"max_tokens", "temperature"}, open: claudeOpen, tools: claudeTools, configure: configureClaude},
	{name: "claude-code", program: claudeProgram, preset: "claude-thinking", own: []string{"max_tokens", "thinking.type", "thinking.budget_tokens"}, open: claudeOpen, tools: claudeTools, brief: true, configure: configureClaude},
	{name: "codex", program: codexProgram, preset: "gpt", own: []string{"parallel_tool_calls"}, open: codexOpen, tools: codexTools, configure: configureCodex},
	{name: "codex", program: codexProgram, preset: "qwen", own: []string{"parallel_tool_calls"}, open: codexOpen, tools: codexTools, brief: true, configure: configureCodex},
	{ // tries a WebSocket first, and goes on over HTTP
		name: "codex with the provider openai", program: codexProgram, preset: "gpt", own: []string{"parallel_tool_calls"}, open: codexOpen, tools: codexTools, brief: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			write(t, filepath.Join(home, "config.toml"), fmt.Sprintf("model = %q\nopenai_base_url = \"%s/v1\"\n%s", last(models), site, codexAlone))
			return codexArgs(models), []string{"CODEX_HOME=" + home, "CODEX_API_KEY=" + inferenceKey}
		},
	},
	{
		name: "pi", program: "@mariozechner/pi-coding-agent/dist/cli.js", preset: "qwen", own: []string{"max_tokens"}, open: chatOpen, tools: map[string]string{"read": `{"path": "notes-{call}.txt"}`}, inLong: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			write(t, filepath.Join(home, "models.json"), setUp(t, "pi", site, last(models)))
			return goOn(models, "--continue", "--provider", "presets", "--model", last(models), "-p"), []string{"PI_CODING_AGENT_DIR=" + home, "PI_OFFLINE=1"}
		},
	},
	{
		name: "copilot", program: "@github/copilot-{platform}/copilot", preset: "qwen", own: []string{"temperature", "top_p"}, open: copilotOpen, tools: map[string]string{"view": `{"path": "{home}/notes-{call}.txt"}`}, inLong: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			env = exports(setUp(t, "GitHub Copilot CLI and VS Code", site, last(models)))
			return goOn(models, "--continue", "--model", last(models), "--allow-all", "--no-color", "-p"), append(env, "COPILOT_HOME="+home, "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false")
		},
	},
	{
		name: "continue", program: "@continuedev/cli/dist/cn.js", preset: "qwen", open: plainOpen, tools: map[string]string{"Read": `{"filepath": "{home}/notes-{call}.txt"}`}, inLong: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			config := filepath.Join(home, "config.yaml")
			write(t, config, setUp(t, "Continue", site, last(models)))
			return goOn(models, "--resume", "--config", config, "--auto", "-p"), []string{"CONTINUE_GLOBAL_DIR=" + home, "CONTINUE_TELEMETRY_ENABLED=0"}
		},
	},
	{
		name: "cline", program: "@cline/cli-{platform}/bin/cline", preset: "qwen", open: plainOpen, tools: map[string]string{"read_files": `{"files": [{"path": "{home}/notes-{call}.txt"}]}`}, inLong: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			settings := filepath.Join(home, ".cline", "data", "settings")
			if err := os.MkdirAll(settings, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(settings, "providers.json"), fmt.Sprintf(`{"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": {
				"settings": {"provider": "openai-compatible", "apiKey": %q, "model": %q, "baseUrl": "%s/v1"}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}}}`,
				inferenceKey, last(models), site))
			return nil, nil // each question is a conversation
		},
	},
	{
		name: "opencode", program: "opencode-{platform}/bin/opencode", preset: "qwen", own: []string{"max_tokens"}, open: chatOpen, tools: map[string]string{"read": `{"filePath": "{home}/notes-{call}.txt"}`}, brief: true,
		configure: func(t *testing.T, home, site string, models []string) (args, env []string) {
			write(t, filepath.Join(home, "opencode.json"), setUp(t, "opencode", site, last(models)))
			return append([]string{"run", "--model", "presets/" + last(models)}, goOn(models, "--continue")...), []string{"OPENCODE_CONFIG=" + filepath.Join(home, "opencode.json"), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
		},
	},
	{
		name: "qwen-code", program: "@qwen-code/qwen-code/cli.js", preset: "qwen", own: []string{"max_tokens"}, open: chatOpen, tools: map[string]string{"read_file": `{"file_path": "{home}/notes-{call}.txt"}`}, brief: true,
		configure: func(t *testing.T, _, site string, models []string) (args, env []string) {
			return goOn(models, "--continue", "--auth-type", "openai", "-p"), exports(setUp(t, "qwen-code", site, last(models)))
		},
	},
}

const (
	claudeProgram = "@anthropic-ai/claude-code-{platform}/claude"
	codexProgram  = "@openai/codex/bin/codex.js"
)

// The settings that the agents send, by all of their names. docs/agents.md lists them.
var (
	claudeOpen = []string{
		"context_management", "instructions", "max_completion_tokens", "max_output_tokens", "max_tokens", "model",
		"output_config", "output_config.effort", "reasoning", "reasoning.effort", "reasoning.max_tokens", "reasoning_effort", "system",
		"thinking", "thinking.budget_tokens", "tools",
	}
	codexOpen   = []string{"include", "instructions", "model", "parallel_tool_calls", "reasoning", "system", "tool_choice.disable_parallel_tool_use", "tools"}
	plainOpen   = []string{"instructions", "model", "system", "tools"}
	copilotOpen = []string{"frequency_penalty", "instructions", "model", "presence_penalty", "system", "temperature", "tools", "top_p"}
	chatOpen    = []string{"instructions", "max_completion_tokens", "max_output_tokens", "max_tokens", "model", "system", "tools"}

	claudeTools = map[string]string{"Read": `{"file_path": "{home}/notes-{call}.txt"}`}
	codexTools  = map[string]string{"exec_command": `{"cmd": "cat notes-{call}.txt"}`, "shell": `{"command": ["cat", "notes-{call}.txt"]}`}
)

// goOn returns arguments, with a first one for questions after the first.
func goOn(models []string, first string, args ...string) []string {
	if len(models) > 1 {
		return append([]string{first}, args...)
	}
	return args
}

func last(models []string) string { return models[len(models)-1] }

// setUp returns the lines that docs/agents.md has for an agent, with the address of a site and the name of a
// model.
func setUp(t *testing.T, agent, site, model string) string {
	t.Helper()
	section := between(t, read(t, filepath.Join(root, "docs", "agents.md"))+"\n### ", "### "+agent+"\n", "\n### ")
	_, lines, _ := strings.Cut(between(t, section, "```", "```"), "\n") // behind the language
	return strings.NewReplacer("https://gateway.example.com", site, "@preset/smart", model, "@preset/fast", model).Replace(lines)
}

// exports returns the environment that lines of a shell set. A variable in them is the inference key.
func exports(lines string) (env []string) {
	for line := range strings.Lines(lines) {
		if set, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			env = append(env, strings.ReplaceAll(set, "$PRESETS_INFERENCE_KEY", inferenceKey))
		}
	}
	return env
}

func configureClaude(t *testing.T, home, site string, models []string) (args, env []string) {
	t.Helper()
	env = exports(setUp(t, "Claude Code", site, last(models)))
	// The list comes at no certain time.
	env = slices.DeleteFunc(env, func(set string) bool { return strings.HasPrefix(set, "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=") })
	return goOn(models, "--continue", "-p"), append(env, "CLAUDE_CONFIG_DIR="+home, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
}

func configureCodex(t *testing.T, home, site string, models []string) (args, env []string) {
	t.Helper()
	write(t, filepath.Join(home, "config.toml"), setUp(t, "Codex", site, last(models))+codexAlone)
	return codexArgs(models), []string{"CODEX_HOME=" + home}
}

// codexAlone keeps Codex from waiting five seconds for its own network when it ends.
const codexAlone = "[analytics]\nenabled = false\n"

// codexArgs returns the arguments of Codex. Its sandbox needs more of the kernel than a network of
// its own has.
func codexArgs(models []string) []string {
	args := []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	if len(models) > 1 {
		args = append(args, "resume", "--last")
	}
	return args
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

// TestAgents runs coding agents against the built binary, in front of a strict provider. Each
// has a conversation in which its model is a preset, then a label of it, then a model and the preset.
// It reads two files before each answer. With .ci/run long there are nine questions, and 54 files. The same
// conversation without us has the same requests.
func TestAgents(t *testing.T) {
	t.Parallel()
	for _, a := range agents {
		t.Run(a.name+" "+a.preset, func(t *testing.T) {
			models := []string{"@preset/" + a.preset, "@preset/" + a.preset + "@staging", otherModel + "@preset/" + a.preset}
			calls := 2
			switch {
			case tier.EveryCase():
				models, calls = slices.Repeat(models, 3), 6
			case a.brief:
				models = models[2:]
			}
			a.begin(t).compare(t, models, calls)
		})
	}
}

// otherModel is a model that no preset has.
const otherModel = "other/model-1"

// conversation is an agent in its own network, where it reaches a tap alone. The tap leads to us and
// the provider, or directly to the provider.
type conversation struct {
	agent
	command  []string
	home     string
	model    string // of the preset
	network  *network
	tap      *tap
	server   *server
	provider *provider
}

// begin returns a conversation that has not begun.
func (a agent) begin(t *testing.T) *conversation {
	t.Helper()
	c := &conversation{agent: a, command: a.find(t), home: filepath.Join(t.TempDir(), "home"), network: newNetwork(t)}
	c.tap = newTap(t, c.network)
	c.server, c.provider = startFamilies(t)
	for _, preset := range familyPresets {
		if preset.slug == a.preset {
			var body struct{ Model string }
			if err := json.Unmarshal([]byte(preset.body), &body); err != nil {
				t.Fatal(err)
			}
			c.model = body.Model
			c.server.manage(t, http.MethodPost, "/v1/presets/"+a.preset+"/"+preset.path+"?designate=false&label=staging",
				strings.Replace(preset.body, "Be brief.", "Be exact.", 1))
		}
	}
	return c
}

// hold asks the agent one question after the other, each with a model, in one conversation. Before
// each answer it calls its tool a number of times. hold returns what the agent sent.
func (c *conversation) hold(t *testing.T, models []string, calls int) []*transfer {
	t.Helper()
	if err := os.RemoveAll(c.home); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.home, 0o700); err != nil {
		t.Fatal(err)
	}
	for call := range calls * len(models) { // qwen-code halts if the same call comes again and again
		write(t, filepath.Join(c.home, fmt.Sprintf("notes-%d.txt", call+1)), "Rome was not built in a day.\n")
	}
	tools := maps.Clone(c.tools)
	for name := range tools {
		tools[name] = strings.ReplaceAll(tools[name], "{home}", filepath.ToSlash(c.home))
	}
	for i, model := range models {
		// Claude Code forgets the thoughts of another model, so the answers name the same in any case.
		c.provider.send(errand{tools: tools, calls: calls * (i + 1), model: c.runs(model)})
		args, env := c.configure(t, c.home, c.tap.site, models[:i+1])
		cmd := exec.CommandContext(wait.Command(t), c.command[0], slices.Concat(c.command[1:], args, []string{"What is there to see in Rome?"})...)
		cmd.Dir, cmd.WaitDelay = c.home, 5*time.Second
		cmd.Env = slices.Concat(os.Environ(), c.network.env, env, homeOf(c.home), []string{
			"PRESETS_INFERENCE_KEY=" + inferenceKey, "PWD=" + c.home, "USERPROFILE=" + c.home,
			"XDG_CACHE_HOME=" + c.home, "XDG_STATE_HOME=" + c.home,
		})
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		var err error
		c.network.do(func() { err = cmd.Run() })
		if err != nil || !strings.Contains(out.String(), providerText) {
			t.Errorf("%s with %s says %s%s, %v; want the provider's %q", c.name, model, &out, &errs, err, providerText)
		}
	}
	endProcesses("HOME=" + c.home) // Cline leaves a daemon
	return c.tap.take()
}

// runs returns the model that runs for the name of a model.
func (c *conversation) runs(name string) string {
	if model, _, _ := strings.Cut(name, "@preset/"); model != "" {
		return model
	}
	return c.model
}

// compare holds a conversation without us and one through us, and compares them.
func (c *conversation) compare(t *testing.T, models []string, calls int) {
	t.Helper()
	c.tap.lead(c.provider.server.URL)
	direct := c.hold(t, models, calls)
	c.provider.take()
	c.lockAllBut(t, direct)

	c.tap.lead(c.server.site)
	through := c.hold(t, models, calls)
	arrived := c.provider.take()
	if got, want := describe(through), describe(direct); !slices.Equal(got, want) {
		t.Errorf("%d requests through us, %d without us", len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("request %d differs at %s", i, difference(got[i], want[i]))
				break
			}
		}
	}
	if want := (calls + 1) * len(models); len(arrived) < want {
		var tools []string
		for _, got := range arrived {
			var request asked
			_ = json.Unmarshal([]byte(got.body), &request)
			for _, tool := range request.Tools {
				tools = append(tools, tool.Name+tool.Function.Name)
			}
		}
		t.Errorf("%d requests arrived, want %d or more with one of the calls %q; its tools are %q", len(arrived), want, c.tools, tools)
	}
	var sent []string
	for _, got := range arrived {
		number, err := strconv.Atoi(got.header.Get(transferHeader))
		if err != nil || number >= len(through) {
			t.Fatalf("a request of nobody arrived: %v", got.header)
		}
		request := through[number]
		t.Run(fmt.Sprintf("request %d", number), func(t *testing.T) {
			reference := request.model(t)
			sent = append(sent, got.check(t, reference, c.own)...)
			checkArrival(t, request, got, reference)
			if got.stream == "" || got.stream != string(request.answer) {
				t.Errorf("a stream of %d bytes came as one of %d, or changed", len(got.stream), len(request.answer))
			}
		})
	}
	for _, name := range c.own {
		if !slices.Contains(sent, name) {
			t.Errorf("sends no %s of its own: docs/agents.md says so", name)
		}
	}
	// A policy holds the limit that the agent sends.
	if slices.Contains(c.own, "max_tokens") {
		c.server.manage(t, http.MethodPatch, "/v1/presets/"+c.preset, `{"policy": {"lock": ["max_output_tokens"]}}`)
		request := through[len(through)-1]
		c.server.replay(t, request, http.StatusOK)
		own := slices.DeleteFunc(slices.Clone(c.own), func(name string) bool { return name == "max_tokens" })
		for _, got := range c.provider.take() {
			got.check(t, request.model(t), own)
		}
	}
}

// lockAllBut gives the preset a policy that locks all settings which the agent does not send, and
// refuses a request that has one. Each setting that it leaves open is refused under a lock.
func (c *conversation) lockAllBut(t *testing.T, requests []*transfer) {
	t.Helper()
	seen := map[string]bool{}
	requests = slices.DeleteFunc(slices.Clone(requests), func(request *transfer) bool {
		if request.method != http.MethodPost {
			return true
		}
		// An agent may ask for a title first, with fewer fields.
		kind := request.model(t) + fmt.Sprint(slices.Sorted(maps.Keys(object(t, request.body))))
		defer func() { seen[kind] = true }()
		return seen[kind]
	})
	var locked, open []string
	for _, name := range lockNames(t) {
		if c.refuses(t, requests, name) {
			open = append(open, name)
		} else if !slices.Contains(c.own, name) { // the preset's would be beside what refuses it
			locked = append(locked, name)
		}
	}
	if !slices.Equal(open, c.open) {
		t.Errorf("sends %q, want %q as in docs/agents.md", open, c.open)
	}
	c.setPolicy(t, locked)
}

// lockNames returns the names of the settings that a policy can lock.
func lockNames(t *testing.T) []string {
	t.Helper()
	var schema struct {
		Properties struct {
			Lock struct{ Items struct{ Enum []string } }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(root, "schema", "policy.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties.Lock.Items.Enum
}

func (c *conversation) setPolicy(t *testing.T, locked []string) {
	t.Helper()
	policy, _ := json.Marshal(map[string]any{"policy": map[string]any{"violation": "refuse", "lock": locked, "models": []string{otherModel}}})
	c.server.manage(t, http.MethodPatch, "/v1/presets/"+c.preset, string(policy))
}

// refuses reports whether a lock of a setting refuses one of the requests.
func (c *conversation) refuses(t *testing.T, requests []*transfer, name string) bool {
	t.Helper()
	c.setPolicy(t, []string{name})
	defer c.provider.take()
	for _, request := range requests {
		if c.server.replay(t, request, 0) == http.StatusForbidden {
			return true
		}
	}
	return false
}

// replay sends a request again, and returns the status. It fails the test unless that is the wanted
// one, or 0 is.
func (s *server) replay(t *testing.T, request *transfer, want int) int {
	t.Helper()
	status, answer := s.send(t, request.method, request.uri, inferenceKey, string(request.body), "Anthropic-Version", "2023-06-01")
	if want != 0 && status != want {
		t.Errorf("%s %s again: got %d %s, want %d", request.method, request.uri, status, answer, want)
	}
	return status
}

// model returns the model that a request names.
func (e *transfer) model(t *testing.T) string {
	t.Helper()
	var body struct{ Model string }
	if err := json.Unmarshal(e.body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Model
}

// passing are a request's headers between us and the gateway that are not the client's.
var passing = []string{"Authorization", "Content-Length", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Session-Id", "Connection", transferHeader}

// checkArrival compares a request as it arrived with what the agent sent. All is equal but what the
// preset gives.
func checkArrival(t *testing.T, sent *transfer, got judged, reference string) {
	t.Helper()
	if got.uri != sent.uri {
		t.Errorf("got %s, want %s", got.uri, sent.uri)
	}
	for _, headers := range []http.Header{sent.header, got.header} {
		for name := range headers {
			if got, want := got.header[name], sent.header[name]; !slices.Contains(passing, name) && !slices.Equal(got, want) {
				t.Errorf("header %s: got %q, want %q", name, got, want)
			}
		}
	}
	want, body := object(t, sent.body), object(t, []byte(got.body))
	_, slug, _ := strings.Cut(reference, "@preset/")
	preset, label, _ := strings.Cut(slug, "@")
	prompt := promptOf(label)
	path, _, _ := strings.Cut(filepath.Base(got.uri), "?")
	given := map[string]bool{"tool_choice": true}
	for name := range familySettings[path+"/"+preset] {
		outer, _, _ := strings.Cut(name, ".")
		given[outer] = true
	}
	names := maps.Clone(body)
	maps.Copy(names, want)
	for name := range names {
		got, want := body[name], want[name]
		if _, ok := body["max_tokens"]; ok && name == "max_completion_tokens" { // the preset's name holds
			continue
		}
		if limit, ok := names["max_completion_tokens"]; ok && name == "max_tokens" {
			want = limit
		}
		switch {
		case name == "model": // check looks at it
		case name == "tools":
			tools := list(t, got)
			if len(tools) == 0 || !bytes.Contains(tools[0], []byte(`"find_customer"`)) || !sameList(tools[1:], list(t, want)) {
				t.Errorf("tools: got %s, want the preset's and then %s", got, want)
			}
		case name == "instructions", name == "system":
			checkPrompt(t, got, want, prompt)
		case name == "messages" && path == "completions":
			messages, sent := list(t, got), list(t, want)
			if role := object(t, sent[0])["role"]; string(role) != `"system"` && string(role) != `"developer"` {
				sent = slices.Insert(sent, 0, json.RawMessage(`{"role": "system"}`))
			}
			checkPrompt(t, object(t, messages[0])["content"], object(t, sent[0])["content"], prompt)
			if !sameList(messages[1:], sent[1:]) {
				t.Errorf("messages: got %s, want %s", got, want)
			}
		case want == nil:
			if !given[name] {
				t.Errorf("%s: got %s, want none", name, got)
			}
		case given[name] && want[0] == '{':
			members := object(t, got)
			for member, want := range object(t, want) {
				if !bytes.Equal(members[member], want) {
					t.Errorf("%s.%s: got %s, want %s", name, member, members[member], want)
				}
			}
		case !bytes.Equal(got, want):
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// checkPrompt fails the test unless a system prompt is that of the preset, and then that of the agent.
func checkPrompt(t *testing.T, got, want json.RawMessage, prompt string) {
	t.Helper()
	if want != nil && want[0] == '[' {
		blocks := list(t, got)
		rest := slices.DeleteFunc(slices.Clone(blocks), func(block json.RawMessage) bool { return string(object(t, block)["text"]) == strconv.Quote(prompt) })
		if len(rest) != len(blocks)-1 || !sameList(rest, list(t, want)) {
			t.Errorf("the system prompt is %s, want %s with the preset's", got, want)
		}
		return
	}
	var text, own string
	err := json.Unmarshal(got, &text)
	if err == nil && want != nil {
		err = json.Unmarshal(want, &own)
		prompt += "\n\n" + own
	}
	if err != nil || text != prompt {
		t.Errorf("the system prompt is %q, %v, want %q", text, err, prompt)
	}
}

func object(t *testing.T, text []byte) (members map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return members
}

func list(t *testing.T, text []byte) (items []json.RawMessage) {
	t.Helper()
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, &items); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return items
}

func sameList(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// describe returns requests without what differs each time, in an order of their own, because opencode
// asks for a title beside the first question.
func describe(requests []*transfer) (described []string) {
	for _, e := range requests {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s %d\n", e.method, e.uri, e.status)
		for _, name := range slices.Sorted(maps.Keys(e.header)) {
			if name != "Content-Length" && name != "Sec-Websocket-Key" {
				fmt.Fprintf(&b, "%s: %q\n", name, e.header[name])
			}
		}
		var body any
		_ = json.Unmarshal(e.body, &body) // the order of members differs, too
		text, _ := json.Marshal(body)
		b.Write(text)
		described = append(described, random.ReplaceAllString(b.String(), "…"))
	}
	slices.Sort(described)
	return described
}

// random are ids, times and checksums in requests of agents.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|\bcch=[0-9a-f]+|\b1[0-9]{9}([0-9]{3})?(\.[0-9]+)?\b|Chunk ID: [0-9a-f]+|Wall time: [0-9.]+|\bses_\w+|20\d\d-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`)

// difference shows where two texts begin to differ.
func difference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	around := func(text string) string { return text[max(0, i-100):min(len(text), i+100)] }
	return fmt.Sprintf("%d:\n got %q\nwant %q", i, around(got), around(want))
}
