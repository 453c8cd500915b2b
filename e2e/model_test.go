package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestRealModel runs the commands of docs/try-a-model.md, but for the ports and the build. A language
// model then answers requests in all three APIs, and in the console.
func TestRealModel(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "python3"} {
		servertest.Tool(t, tool, tool)
	}
	s, home := newServer(t)
	model, echo := freeAddress(t), freeAddress(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	s.env = append(s.env, "CADDY_ADMIN="+s.admin, "PRESETS_SERVER="+s.site, "PRESETS_PORT="+port(s.site), "PRESETS_DATA="+filepath.Join(home, "data"))
	folder := t.TempDir() // in the place of a clone
	write(t, filepath.Join(folder, "Caddyfile.example"), strings.ReplaceAll(read(t, filepath.Join(root, "Caddyfile.example")), ":8081", ":"+port(echo)))
	write(t, filepath.Join(folder, "serve.py"), read(t, filepath.Join(root, "ops", "model", "serve.py")))
	if err := os.Symlink(s.binary, filepath.Join(folder, "caddy")); err != nil {
		t.Fatal(err)
	}
	addresses := strings.NewReplacer("ops/model/serve.py", "serve.py "+port(model), "127.0.0.1:8082", model, "http://127.0.0.1:8080", s.site)
	commands := documentedCommands(t, "docs/try-a-model.md")

	// Two servers: all of a command but the last program installs or builds.
	install, serveModel := cutLast(addresses.Replace(commands[0].command))
	run(t, folder, nil, "bash", "-euo", "pipefail", "-c", install)
	_, serveCaddy := cutLast(addresses.Replace(commands[1].command))
	for _, server := range []struct{ command, address string }{{serveModel, model}, {serveCaddy, strings.TrimPrefix(s.site, "http://")}} {
		cmd := exec.CommandContext(wait.Command(t), "bash", "-c", "exec env "+server.command)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), s.env...)
		servertest.Serve(t, cmd, server.address)
	}
	for end := time.Now().Add(wait.Limit); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + model + "/health") //nolint:noctx // the loop has an end
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the model is not ready: %v", err)
		}
	}

	// The other commands share variables, so they are one script. A line parts their outputs.
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, c := range commands[2:] {
		script.WriteString(addresses.Replace(c.command) + "echo ----\n")
	}
	script.WriteString(`echo "$PRESETS_KEY $PRESETS_INFERENCE_KEY"`)
	cmd := exec.CommandContext(wait.Command(t), "bash", "-c", script.String())
	cmd.Dir, cmd.Env = folder, append(os.Environ(), s.env...)
	printed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	outputs := strings.Split(string(printed), "----\n")
	var answers []string
	for i, c := range commands[2:] {
		t.Logf("$ %s%s", c.command, outputs[i])
		if !strings.Contains(c.command, " try ") {
			continue
		}
		answer, facts, _ := strings.Cut(outputs[i], "email-copywriter@")
		if answer == "" || !strings.Contains(facts, "; smollm2; ") || !strings.Contains(facts, " tokens in, ") {
			t.Errorf("%s prints %q, want the model's answer and its tokens", c.command, outputs[i])
		}
		answers = append(answers, answer)
	}
	if len(answers) != 2 || answers[0] == answers[1] {
		t.Errorf("the prompts make the answers %q, want two that differ", answers)
	}
	key, inference, _ := strings.Cut(strings.TrimSpace(outputs[len(outputs)-1]), " ")

	t.Run("list of models", func(t *testing.T) {
		_, list := s.send(t, http.MethodGet, "/v1/models", inference, "")
		for _, id := range []string{`"id":"smollm2"`, `"id":"@preset/email-copywriter"`} {
			if !strings.Contains(list, id) {
				t.Errorf("got %s, want %s", list, id)
			}
		}
	})
	const question = "Our shop opens on Monday."
	for _, request := range []struct{ path, body, last, tokens string }{
		{"/v1/chat/completions", `{"model": "@preset/email-copywriter", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "` + question + `"}]}`, "[DONE]", `"completion_tokens":`},
		{"/v1/responses", `{"model": "@preset/email-copywriter", "stream": true, "input": "` + question + `"}`, `"response.completed"`, `"output_tokens":`},
		{"/v1/messages", `{"model": "@preset/email-copywriter", "stream": true, "messages": [{"role": "user", "content": "` + question + `"}]}`, `"message_stop"`, `"output_tokens":`},
	} {
		t.Run("stream of "+request.path, func(t *testing.T) {
			events, times := s.stream(t, request.path, inference, request.body)
			whole := strings.Join(events, "\n")
			if len(events) < 10 || !strings.Contains(events[len(events)-1], request.last) || !strings.Contains(whole, request.tokens) {
				t.Fatalf("got %d events that end with %s, want a stream with its tokens:\n%s", len(events), request.last, whole)
			}
			// A token takes milliseconds, so events that were held back would come at once.
			if first, last := times[0], times[len(times)-1]; last.Sub(first) < 50*time.Millisecond {
				t.Errorf("all %d events came within %s", len(events), last.Sub(first))
			}
		})
	}
	t.Run("console", func(t *testing.T) {
		node, chromium := findConsoleModules(t), findBrowser(t, "PRESETS_CHROMIUM", "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
		(&consoleServer{s, []string{"CONSOLE_SITE=" + s.site, "PRESETS_MANAGEMENT_KEY=" + key, "PRESETS_INFERENCE_KEY=" + inference}}).
			run(t, node, "model.mjs", "CONSOLE_CHROMIUM="+chromium)
	})
}

// cutLast parts the last program of a chain of commands.
func cutLast(chain string) (before, last string) {
	i := strings.LastIndex(chain, "&&")
	return chain[:i], strings.TrimSpace(chain[i+2:])
}

// stream sends a request, and returns the data of the answer's events, and when each came.
func (s *server) stream(t *testing.T, path, key, body string) (events []string, times []time.Time) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.site+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events, times = append(events, data), append(times, time.Now())
		}
	}
	if err := lines.Err(); err != nil || response.StatusCode != http.StatusOK || !slices.ContainsFunc(events, func(data string) bool { return json.Valid([]byte(data)) }) {
		t.Fatalf("%s: %d, %v, %d events", path, response.StatusCode, err, len(events))
	}
	return events, times
}
