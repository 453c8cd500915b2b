package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/convert"
)

// convertCLI runs caddy presets with arguments.
func convertCLI(stdin string, args ...string) (out string, err error) {
	var stdout strings.Builder
	err = runTo(&stdout, io.Discard, strings.NewReader(stdin), append([]string{"presets"}, args...)...)
	return stdout.String(), err
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\r?\n(.*?)^```")

// convertCommands returns the commands of a page that convert, each with its output.
func convertCommands(t *testing.T, page string) (commands [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "migrate", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range consoleBlock.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"), -1) {
		command, output, _ := strings.Cut(block[1], "\n")
		if command, ok := strings.CutPrefix(command, "$ caddy presets "); ok && strings.HasPrefix(command, "convert ") {
			commands = append(commands, [2]string{command, output})
		}
	}
	return commands
}

// TestMigrationPages runs the commands of docs/migrate that convert, on samples. A live
// account is a server that has the routes of a sample. The written files can be read.
func TestMigrationPages(t *testing.T) {
	samples, err := filepath.Abs(filepath.Join("testdata", "convert"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := os.ReadFile(filepath.Join("..", "..", "e2e", "testdata", "openai", "prompt.json"))
	if err != nil {
		t.Fatal(err)
	}
	origin := regexp.MustCompile(`https?://[a-z0-9.:]+`)
	for page, count := range map[string]int{"openrouter.md": 1, "openai-prompts.md": 1, "langfuse.md": 2, "litellm.md": 2, "portkey.md": 2} {
		t.Run(page, func(t *testing.T) {
			commands := convertCommands(t, page)
			if len(commands) != count {
				t.Fatalf("found %d commands, want %d", len(commands), count)
			}
			dir := t.TempDir()
			if sample := filepath.Join(samples, strings.TrimSuffix(page, ".md")); page != "openai-prompts.md" {
				if err := os.CopyFS(dir, os.DirFS(sample)); err != nil {
					t.Fatal(err)
				}
			}
			for version, temperature := range map[string]string{"1": "1.0", "2": "0.2"} { // as step 1 of the page makes them
				text := strings.NewReplacer("{{version}}", version, "{{temperature}}", temperature).Replace(string(response))
				if err := os.WriteFile(filepath.Join(dir, "prompt-"+version+".json"), []byte(text), 0o600); page == "openai-prompts.md" && err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			key := "of-the-account"
			if page == "langfuse.md" {
				key = "public:secret"
			}
			for _, name := range []string{"openrouter", "langfuse", "litellm", "portkey"} {
				if err := os.WriteFile(name+".key", []byte(key+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			account := httptest.NewServer(routes(t, "routes.json"))
			t.Cleanup(account.Close)
			for _, c := range commands {
				args := strings.Fields(origin.ReplaceAllString(c[0], account.URL))
				out, err := convertCLI("", args...)
				if out != c[1] {
					t.Errorf("$ caddy presets %s\n got\n%s\nwant\n%s", c[0], out, c[1])
				}
				if missing := strings.Contains("\n"+out, "\nnot written: "); missing != (err != nil) {
					t.Errorf("$ caddy presets %s: got the error %v", c[0], err)
				}
				set, err := files.Read(args[3])
				if err != nil || len(set.Workspaces) != 1 {
					t.Errorf("$ caddy presets %s: reading the files: %d workspaces, %v", c[0], len(set.Workspaces), err)
				}
			}
		})
	}
}

// routes serves the answers of a file, by their paths. There are none without the file.
func routes(t *testing.T, file string) http.Handler {
	t.Helper()
	var responses map[string]json.RawMessage
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &responses); err != nil {
			t.Fatal(err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, known := responses[r.URL.RequestURI()]
		if !known || r.Header.Get("Authorization")+r.Header.Get("X-Portkey-Api-Key") == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(response)
	})
}

// TestConvertKeepsFiles converts twice into one folder. The second call changes nothing.
func TestConvertKeepsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "presets")
	const input = `[{"name":"a","prompt":"One.\nTwo.","config":{"model":"m"}},{"name":"b","prompt":"x","config":{}}]`
	if out, err := convertCLI(input, "convert", "langfuse", "-", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	edited := filepath.Join(dir, "default", "a.md")
	if err := os.WriteFile(edited, []byte("Edited.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "default", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "default", "b.yaml")); err != nil {
		t.Fatal(err)
	}
	_, err := convertCLI(input, "convert", "langfuse", "-", dir)
	if err == nil || !strings.Contains(err.Error(), "nothing is written") || !strings.Contains(err.Error(), edited) {
		t.Errorf("got %v, want that %s is there", err, edited)
	}
	if text, err := os.ReadFile(edited); err != nil || string(text) != "Edited.\n" {
		t.Errorf("got %q, %v, want the edited file", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "default", "b.yaml")); err == nil {
		t.Error("b.yaml is written")
	}
	// Presets beside others are written.
	if _, err := convertCLI(`[{"name":"c","prompt":"x"}]`, "convert", "langfuse", "-", dir); err != nil {
		t.Error(err)
	}
}

// TestConvertSecrets converts prompts with the form of a key. They are not written, and no
// output shows them.
func TestConvertSecrets(t *testing.T) {
	const secret = "sk-ant-0123456789abcdefghijklmnop"
	for name, prompt := range map[string]string{"a": "The key is " + secret, "b": "The key is\\n" + secret} {
		dir := t.TempDir()
		input := `[{"name":"` + name + `","prompt":"` + prompt + `"},{"name":"other","prompt":"Hello."}]`
		out, err := convertCLI(input, "convert", "langfuse", "-", dir, "--json")
		if err == nil || strings.Contains(out+err.Error(), secret) {
			t.Errorf("%s: got %v and\n%s", name, err, out)
		}
		var report convert.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Written) != 1 || report.Written[0].Slug != "other" || report.Count(convert.NotWritten) != 1 || report.Entries[0].Prompt != name {
			t.Errorf("%s: got %+v", name, report)
		}
		set, err := files.Read(dir)
		if err != nil || len(set.Workspaces[0].Presets) != 1 {
			t.Errorf("%s: the folder: %v", name, err)
		}
	}
}

func TestConvertArguments(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"convert", "langfuse", "-"}, "accepts 3 arg(s)"},
		{[]string{"convert", "other", "-", dir}, "the source must be one of"},
		{[]string{"convert", "langfuse", "-", dir, "--key-file", "-"}, "both the input and the key"},
		{[]string{"convert", "langfuse", "-", dir, "--key-file", filepath.Join(dir, "none")}, "reading the key"},
		{[]string{"convert", "langfuse", "-", dir, "--workspace", "../up"}, "workspace"},
	} {
		_, err := convertCLI(`[{"name":"a","prompt":"x"}]`, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.args, err, test.want)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("there are other folders beside %s: %v", dir, entries)
	}
}
