package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// editor is a model that improves a preset's prompt: it lists the presets, reads the one it finds,
// stores a draft whose prompt is the one it read and another line, and says what the tool answered.
type editor struct {
	mu      sync.Mutex
	results []string // of the tools, as the last request has them
	offered []string // the names of tools
}

// editorTools begins the names of the tools, as Claude Code writes them.
const editorTools = "mcp__presets__"

func (e *editor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Model    string
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || path.Base(r.URL.Path) != "messages" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var results, offered []string
	for _, tool := range sent.Tools {
		if name, ok := strings.CutPrefix(tool.Name, editorTools); ok {
			offered = append(offered, name)
		}
	}
	for _, message := range sent.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &blocks) // another form has no results
		for _, block := range blocks {
			if block.Type == "tool_result" {
				results = append(results, textIn(block.Content))
			}
		}
	}
	block := map[string]any{"type": "text", "text": providerText}
	if len(offered) > 0 {
		e.mu.Lock()
		e.results, e.offered = results, offered
		e.mu.Unlock()
		block = editorStep(results)
	}
	_, events := messageOf(sent.Model, block)
	sendStream(w, encodeStream(events, domain.Messages))
}

// editorStep returns what the model does after the results of its tools.
func editorStep(results []string) map[string]any {
	call := func(name string, input map[string]any) map[string]any {
		text, _ := json.Marshal(input)
		return toolUse(fmt.Sprintf("toolu_%d", len(results)), editorTools+name, string(text))
	}
	switch len(results) {
	case 0:
		return call("list_presets", map[string]any{"query": "reviews"})
	case 1:
		var found struct{ Data []struct{ Slug string } }
		if err := json.Unmarshal([]byte(results[0]), &found); err != nil || len(found.Data) != 1 {
			break
		}
		return call("show_preset", map[string]any{"slug": found.Data[0].Slug})
	case 2:
		var found struct {
			Data struct {
				Slug       string
				Designated struct {
					Prompt string `json:"system_prompt"`
				} `json:"designated_version"`
			}
		}
		if err := json.Unmarshal([]byte(results[1]), &found); err != nil {
			break
		}
		return call("draft_version", map[string]any{
			"slug": found.Data.Slug, "prompt": found.Data.Designated.Prompt + "Name the line.\n", "message": "names the line",
		})
	}
	return map[string]any{"type": "text", "text": "The last tool says: " + results[len(results)-1]}
}

// textIn returns a string, or the text of the first block.
func textIn(content json.RawMessage) (text string) {
	var blocks []struct{ Text string }
	if json.Unmarshal(content, &blocks) == nil && len(blocks) > 0 {
		return blocks[0].Text
	}
	_ = json.Unmarshal(content, &text) // another form has no text
	return text
}

// TestAgentEditsPreset asks Claude Code to improve a preset through the tools of "caddy presets
// mcp". The draft that it stores is not live.
func TestAgentEditsPreset(t *testing.T) {
	t.Parallel()
	command := agents[0].find(t)
	model := new(editor)
	behind := httptest.NewServer(model)
	t.Cleanup(behind.Close)
	s := startWith(t, "inference", "reverse_proxy "+behind.Listener.Addr().String())
	const prompt = "You review code. \"Quoted\", <tagged>, ünïcode.\n"
	body, err := json.Marshal(map[string]any{"model": "acme/large", "temperature": 0.5, "instructions": prompt})
	if err != nil {
		t.Fatal(err)
	}
	s.manage(t, http.MethodPost, "/v1/presets/reviewer/responses", string(body))
	s.manage(t, http.MethodPatch, "/v1/presets/reviewer", `{"description": "Reviews of all teams"}`)
	s.manage(t, http.MethodPost, "/v1/presets/other/responses", `{"model": "acme/small"}`)

	home := t.TempDir()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"presets": map[string]any{
		"command": s.binary, "args": []string{"presets", "mcp"}, "env": map[string]string{"PRESETS_SERVER": s.site, "PRESETS_KEY": managementKey},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "mcp.json")
	write(t, file, string(config))
	args, env := configureClaude(t, home, s.site, []string{"acme/model"})
	args = append(args, "--mcp-config", file, "--strict-mcp-config", "--allowedTools", "mcp__presets", "--", "Let the reviewer name the line.")
	env = append(env, "ENABLE_TOOL_SEARCH=false") // or the model has to find each tool first
	out, errs, err := try(t, home, append(env, homeOf(home)...), command[0], append(command[1:], args...)...)
	if err != nil || !strings.Contains(out, `"draft_version":2`) || !strings.Contains(out, `"live_version":1`) {
		t.Errorf("Claude Code says %s%s, %v; want the draft's number\nthe tools say %q", out, errs, err, model.results)
	}
	if tools := strings.Join(model.offered, " "); !strings.Contains(tools, "draft_version") || strings.Contains(tools, "put_live") || strings.Contains(tools, "set_label") {
		t.Errorf("Claude Code offers the model %s", tools)
	}
	type version struct {
		Data struct {
			Prompt  string          `json:"system_prompt"`
			Config  json.RawMessage `json:"config"`
			Message string          `json:"message"`
			IsLive  bool            `json:"designated"`
		} `json:"data"`
	}
	var draft, live version
	for number, v := range map[int]*version{1: &live, 2: &draft} {
		if _, text := s.send(t, http.MethodGet, fmt.Sprintf("/v1/presets/reviewer/versions/%d", number), managementKey, ""); json.Unmarshal([]byte(text), v) != nil {
			t.Fatal(text)
		}
	}
	if v := draft.Data; v.Prompt != prompt+"Name the line.\n" || string(v.Config) != string(live.Data.Config) || v.Message != "names the line" || v.IsLive {
		t.Errorf("version 2 is %+v, want a draft with the new prompt and the old settings", v)
	}
	if !live.Data.IsLive || live.Data.Prompt != prompt {
		t.Errorf("version 1 is %+v, want it live", live.Data)
	}
}

// TestAgentServerEndsOnSignal ends "caddy presets mcp" while an agent holds its standard input.
func TestAgentServerEndsOnSignal(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	command := exec.CommandContext(wait.Command(t), s.binary, "presets", "mcp")
	command.Env = append(os.Environ(), "PRESETS_KEY="+managementKey)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(input, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`)
	if err := json.NewDecoder(output).Decode(new(struct{})); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if state, err := command.Process.Wait(); err != nil || state.Exited() && !state.Success() {
		t.Errorf("the command ends with %v, %v", state, err)
	}
}

// TestAgentsTakeServer sets Claude Code and Codex up by the lines of the documents. Claude Code then
// starts the command, and finds the tools.
func TestAgentsTakeServer(t *testing.T) {
	t.Parallel()
	claude, codex := agents[0].find(t), agents[2].find(t)
	text := read(t, filepath.Join(root, "docs", "agents.md"))
	home, folder := t.TempDir(), t.TempDir()
	s, _ := newServer(t)
	if err := os.Symlink(s.binary, filepath.Join(folder, "caddy")); err != nil {
		t.Fatal(err)
	}
	env := append(homeOf(home), "CLAUDE_CONFIG_DIR="+home, "CODEX_HOME="+home, "PRESETS_KEY="+managementKey,
		"PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	add := strings.Fields(between(t, text, "\nclaude ", "\n"))
	run(t, home, env, claude[0], append(claude[1:], add...)...)
	if out := run(t, home, env, claude[0], append(claude[1:], "mcp", "list")...); !strings.Contains(out, "presets: caddy presets mcp - ✔ Connected") {
		t.Errorf("Claude Code says %s", out)
	}
	write(t, filepath.Join(home, "config.toml"), "[mcp"+between(t, text, "```toml\n[mcp", "```"))
	out := run(t, home, env, codex[0], append(codex[1:], "mcp", "get", "presets")...)
	for _, want := range []string{"enabled: true", "args: presets mcp", "PRESETS_KEY="} {
		if !strings.Contains(out, want) {
			t.Errorf("Codex says %s, want %q", out, want)
		}
	}
}

// between returns the text after begin, and before end.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, isBegun := strings.Cut(text, begin)
	found, _, isEnded := strings.Cut(rest, end)
	if !isBegun || !isEnded {
		t.Fatalf("the page has no %q and %q", begin, end)
	}
	return found
}
