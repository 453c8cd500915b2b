package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

var console = regexp.MustCompile("(?ms)^```console\r?\n(.*?)^```")

// documented is a command of a document, with the output that the document shows.
type documented struct{ command, output string }

// documentedCommands returns the commands of a document's console blocks, with those of root.
// Lines that begin with a space continue a command.
func documentedCommands(t *testing.T, file string) (all []documented) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range console.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"), -1) {
		for _, line := range strings.SplitAfter(block[1], "\n") {
			command, isCommand := strings.CutPrefix(line, "$ ")
			if !isCommand {
				command, isCommand = strings.CutPrefix(line, "# ")
			}
			switch last := len(all) - 1; {
			case isCommand:
				all = append(all, documented{command: command})
			case strings.HasPrefix(line, " "):
				all[last].command += line
			default:
				all[last].output += line
			}
		}
	}
	return all
}

// TestMigration runs the commands of docs/migrate/openai-prompts.md as they are written,
// except for the addresses. The server is that of the quick start.
func TestMigration(t *testing.T) {
	t.Parallel()
	s := startExample(t)
	commands := documentedCommands(t, "docs/migrate/openai-prompts.md")
	if len(commands) < 9 {
		t.Fatalf("found %d commands", len(commands))
	}
	s.migrate(t, commands)
}

// migrate runs commands of docs/migrate/openai-prompts.md. A stand-in for OpenAI answers as its API
// does for a prompt.
func (s *server) migrate(t *testing.T, commands []documented) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq"} {
		servertest.Tool(t, tool, tool)
	}
	answer := read(t, filepath.Join("testdata", "openai", "prompt.json"))
	openai := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			Prompt struct {
				ID, Version string
				Variables   map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent.Prompt.ID != "pmpt_68f7a1c2" || len(sent.Prompt.Variables) != 2 {
			http.Error(w, "not a prompt", http.StatusBadRequest)
			return
		}
		values := []string{"{{version}}", sent.Prompt.Version, "{{temperature}}", map[string]string{"1": "1.0", "2": "0.2"}[sent.Prompt.Version]}
		for name, value := range sent.Prompt.Variables {
			quoted := quote(value)
			values = append(values, "{{"+name+"}}", quoted[1:len(quoted)-1])
		}
		_, _ = strings.NewReplacer(values...).WriteString(w, answer)
	}))
	t.Cleanup(openai.Close)

	key, _ := s.issue(t, "management")
	inference, _ := s.issue(t, "inference")
	addresses := strings.NewReplacer("https://api.openai.com", openai.URL, "http://127.0.0.1:8080", s.site)
	folder := t.TempDir()
	path := "PATH=" + filepath.Dir(s.binary) + string(os.PathListSeparator) + os.Getenv("PATH") // for caddy
	for _, c := range commands {
		out := run(t, folder, append(s.env, path, "KEY="+key, "IKEY="+inference, "OPENAI_API_KEY=of-openai"), "bash", "-euo", "pipefail", "-c", addresses.Replace(c.command))
		if out != c.output {
			t.Errorf("$ %s\n got %s\nwant %s", c.command, out, c.output)
		}
	}
}

// startExample runs Caddyfile.example, with other ports, until the test ends.
func startExample(t *testing.T) *server {
	t.Helper()
	example, err := os.ReadFile(filepath.Join(root, "Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	s, home := newServer(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	s.env = append(s.env, "CADDY_ADMIN="+s.admin, "PRESETS_PORT="+port(s.site), "PRESETS_DATA="+filepath.Join(home, "data"))
	s.serve(t, home, strings.ReplaceAll(string(example), ":8081", ":"+port(freeAddress(t)))) // the echo gateway
	return s
}
