package convert_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/convert"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// convertText converts a text, and writes what it has into a folder.
func convertText(t *testing.T, source convert.Source, text string, o convert.Options) (dir string, report *convert.Report) {
	t.Helper()
	o.Stdin = strings.NewReader(text)
	set, report, err := convert.Convert(t.Context(), source, "-", o)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "presets")
	if err := convert.Write(dir, set, report); err != nil {
		t.Fatal(err)
	}
	sameWhenRead(t, dir, set)
	return dir, report
}

// TestHostileNames has names that would leave the folder, or command a terminal.
func TestHostileNames(t *testing.T) {
	names := []string{"../../etc/passwd", "..", ".", "/", `C:\Windows\x`, "a\x1b]0;title\x07b", "a\nb", "\u202eevil", "con.", "a/../b", strings.Repeat("é", 5000), ".workspace"}
	var entries []string
	for _, name := range names {
		quoted, _ := json.Marshal(name)
		entries = append(entries, fmt.Sprintf(`{"name":%s,"prompt":"Hello.","labels":["x\u001b[2J","../up","ok"],"commitMessage":"a\u001b[2Jb"}`, quoted))
	}
	dir, report := convertText(t, convert.Langfuse, "["+strings.Join(entries, ",")+"]", convert.Options{})
	if len(report.Written) != len(names) {
		t.Errorf("%d presets are written, want %d", len(report.Written), len(names))
	}
	outside, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(outside) != 1 {
		t.Errorf("beside the folder: %v, %v", outside, err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if strings.Count(name, "/") > 1 || strings.Trim(filepath.Base(name), "abcdefghijklmnopqrstuvwxyzACDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "" {
			t.Errorf("%q is written", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	var printed strings.Builder
	if err := report.Print(&printed); err != nil || strings.ContainsAny(printed.String(), "\x1b\x07\u202e\r") {
		t.Errorf("the report commands a terminal: %q, %v", printed.String(), err)
	}
}

// TestHostileInputs has inputs that are broken, deep or large. Nothing of them is written,
// and the report has a reason without their text.
func TestHostileInputs(t *testing.T) {
	tier.Slow(t)
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	const value = "VALUE-OF-THE-INPUT"
	for _, test := range []struct {
		name   string
		source convert.Source
		text   string
		want   string // in the reason
	}{
		{"no JSON", convert.Langfuse, `[{"name": ` + value, "is no JSON"},
		{"very deep JSON", convert.Langfuse, strings.Repeat("[", 1<<20), "is no JSON"},
		{"two texts", convert.OpenAI, `{} "` + value + `"`, "is no JSON"},
		{"repeated names", convert.Portkey, `{"prompts":[],"prompts":["` + value + `"]}`, "is no JSON"},
		{"half of a character", convert.Langfuse, `[{"name": "a", "prompt": "` + value + ` \ud800"}]`, "is no JSON"},
		{"no UTF-8", convert.Langfuse, "[\"\xff" + value + "\"]", "is no JSON"},
		{"no UTF-8 in a prompt file", convert.LiteLLM, "User: \xff" + value, "is not UTF-8"},
		{"nothing", convert.Langfuse, "", "is no JSON"},
		{"a number", convert.Langfuse, "1", "must be an array"},
		{"entries that are none", convert.Langfuse, `["` + value + `"]`, "must be the name"},
		{"no prompt", convert.Langfuse, `[{"name":"a","prompt":{"x":"` + value + `"}}]`, "must be text"},
		{"messages that are none", convert.Langfuse, `[{"name":"a","type":"chat","prompt":["` + value + `"]}]`, "must be a message"},
		{"an unknown role", convert.Langfuse, `[{"name":"a","type":"chat","prompt":[{"role":"` + value + `","content":"x"}]}]`, "is no request of a preset"},
		{"a deep setting", convert.Langfuse, `[{"name":"a","prompt":"x","config":{"tools":` + deep + `}}]`, "is no request of a preset"},
		{"a large prompt", convert.Langfuse, `[{"name":"a","prompt":"` + strings.Repeat("x", 300<<10) + `"}]`, "at most 262144 bytes"},
		{"a large prompt of braces", convert.Langfuse, `[{"name":"a","prompt":"` + strings.Repeat("{", 10<<20) + `"}]`, "at most 262144 bytes"},
		{"a large prompt of braces and values", convert.OpenAI, `{"object":"response","prompt":{"id":"pmpt_1","variables":{"x":"` + value + `"}},"instructions":"` + strings.Repeat("{", 10<<20) + `"}`, "at most 262144 bytes"},
		{"a large prompt of statements", convert.LiteLLM, "System: " + strings.Repeat("{%", 5<<20) + "%}", "at most 262144 bytes"},
		{"no reference to a prompt", convert.OpenAI, `{"object":"response","instructions":"` + value + `"}`, "must name the prompt"},
		{"no instructions", convert.OpenAI, `{"object":"response","prompt":{"id":"pmpt_1"},"instructions":null}`, "is empty"},
		{"no body", convert.OpenAI, `{"model":"` + value + `"}`, "is neither a Response nor"},
		{"a variable elsewhere", convert.OpenAI, `{"prompt":{"id":"pmpt_1"},"input":[{"role":"user","content":[{"type":"input_image","image_url":"{{url}}"}]}]}`, "outside of its texts"},
		{"a backslash", convert.OpenAI, `{"prompt":{"id":"pmpt_1"},"input":"\\{{x}} ` + value + `"}`, "a backslash"},
		{"a broken front matter", convert.LiteLLM, "---\nmodel: [" + value + "\n---\nx", "the front matter:"},
		{"an anchor in itself", convert.LiteLLM, "---\na: &a [*a]\n---\nx", "the front matter:2:"},
		{"a front matter that is a list", convert.LiteLLM, "---\n- a\n---\nx", "must be an object"},
		{"a file of the reader", convert.LiteLLM, "---\nmodel: !file /etc/passwd\n---\nx", "the front matter:2:"},
		{"an empty prompt file", convert.LiteLLM, "", "has no text"},
		{"no prompt of LiteLLM", convert.LiteLLM, `{"prompts":[{"litellm_params":{}}]}`, "must be the id"},
		{"an inner text that is no JSON", convert.LiteLLM, `{"prompts":[{"prompt_id":"a","litellm_params":{"prompt_data":"{` + value + `"}}]}`, "is no JSON"},
		{"a section around messages", convert.Portkey, `{"prompts":[{"slug":"a","string":"[{{#x}}{\"role\":\"user\"}{{/x}}]","template_metadata":{"template_type":"chat"}}]}`, "a section around messages"},
		{"no template", convert.Portkey, `{"prompts":[{"slug":"a","string":[]}]}`, "must be the text of a template"},
		{"an empty template", convert.Portkey, `{"prompts":[{"slug":"a","string":" "}]}`, "has no text"},
		{"no Modelfile", convert.Ollama, "\xff" + value, "is not UTF-8"},
		{"another instruction", convert.Ollama, value + " x", "no instruction of a Modelfile"},
		{"a quote without an end", convert.Ollama, "FROM m\nSYSTEM \"\"\"" + value + strings.Repeat("\n\"", 1<<20), "without an end"},
		{"an unknown role of a Modelfile", convert.Ollama, "FROM m\nMESSAGE " + value + " x", "is no request of a preset"},
		{"no list of models", convert.LiteLLMModels, "model: " + value, "must have model_list"},
		{"a model without a name", convert.LiteLLMModels, "model_list: [" + value + "]", "must have model_name"},
		{"no YAML", convert.LiteLLMModels, "model_list: [" + value, "is no YAML"},
		{"a file of the reader in a configuration", convert.LiteLLMModels, "model_list: !file /etc/passwd", "is no YAML"},
		{"a model of an environment", convert.LiteLLMModels, "model_list: [{model_name: a, litellm_params: {model: os.environ/" + value + "}}]", "comes from the proxy's environment"},
		{"no model of Open WebUI", convert.OpenWebUI, `["` + value + `"]`, "must be a model with an id"},
		{"two models with one id", convert.OpenWebUI, `[{"id":"a","params":{"system":"` + value + `"}},{"id":"a"}]`, "as another entry has"},
		{"no prompts of Bifrost", convert.Bifrost, `{"folders":["` + value + `"]}`, "must have prompts"},
		{"a message that is none", convert.Bifrost, `{"prompt":{"name":"a","versions":[{"version_number":1,"messages":["` + value + `"]}]}}`, "must be a message with a role"},
		{"no prompt of GitHub", convert.GitHub, "name: " + value, "must have messages"},
		{"an unknown role of GitHub", convert.GitHub, "messages: [{role: " + value + ", content: x}]", "is no request of a preset"},
		{"a partial without a text", convert.Portkey, `{"prompts":[],"partials":[{"slug":"a"}]}`, "must be a partial"},
	} {
		dir, report := convertText(t, test.source, test.text, convert.Options{})
		if len(report.Written) > 0 || report.Count(convert.NotWritten) == 0 {
			t.Errorf("%s: got %+v", test.name, report)
			continue
		}
		found := false
		for _, e := range report.Entries {
			found = found || e.Kind == convert.NotWritten && strings.Contains(e.Message, test.want)
		}
		if !found {
			t.Errorf("%s: got %+v, want %q", test.name, report.Entries, test.want)
		}
		if text, _ := json.Marshal(report); strings.Contains(string(text), value) {
			t.Errorf("%s: the report has a part of the input: %s", test.name, text)
		}
		if texts := contents(t, dir); len(texts) > 0 {
			t.Errorf("%s: %v are written", test.name, texts)
		}
	}
}

// TestTooManyParts has lists and objects with more parts than are read.
func TestTooManyParts(t *testing.T) {
	tier.Slow(t)
	list := "[" + strings.Repeat("1,", 1_000_000) + "1]"
	for source, text := range map[convert.Source]string{
		convert.Langfuse: list, convert.OpenAI: list, convert.LiteLLM: `{"prompts":` + list + "}", convert.Portkey: `{"partials":` + list + "}",
		convert.OpenWebUI: list, convert.Bifrost: `{"prompts":` + list + "}", convert.Ollama: strings.Repeat("PARAMETER x 1\n", 1_000_001),
	} {
		if source != convert.OpenAI && !tier.EveryCase() {
			continue
		}
		_, _, err := convert.Convert(t.Context(), source, "-", convert.Options{Stdin: strings.NewReader(text)})
		if err == nil || !strings.Contains(err.Error(), "more than 1000000") {
			t.Errorf("%s: got %v", source, err)
		}
	}
}

// TestSettingsThatDoNotFit leaves out settings of a wrong type, and keeps the rest.
func TestSettingsThatDoNotFit(t *testing.T) {
	dir, report := convertText(t, convert.Langfuse, `[{"name":"a","prompt":"Hi.","config":{"model":"m","temperature":"warm","top_p":0.10,"max_tokens":1.5,"tools":[{"type":"function","function":{"name":"a"}},{"type":"function"}],"stop":["{{x}}"],"maxTokens":5,"max_output_tokens":6}}]`, convert.Options{})
	got := contents(t, dir)["default/a.yaml"]
	const want = "chat:\n  model: m\n  top_p: 0.10\n  stop:\n    - '{{x}}'\n  max_completion_tokens: 6\n  messages:\n    - role: system\n      content: Hi.\n"
	if _, body, _ := strings.Cut(got, "\n"); body != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
	places := make(map[string]string)
	for _, e := range report.Entries {
		places[e.Path] += string(e.Kind) + ": " + e.Message + "\n"
	}
	for path, want := range map[string]string{
		"/0/config/temperature": "left_out: does not fit", "/0/config/max_tokens": "left_out: does not fit", "/0/config/tools": "left_out: does not fit: tools/1/function required",
		"/0/config/stop":      "changed: has {{…}}",
		"/0/config/maxTokens": "left_out: max_tokens is there already", "/0/config/max_output_tokens": "changed: is max_completion_tokens",
	} {
		if !strings.Contains(places[path], want) {
			t.Errorf("%s: got %q, want %q", path, places[path], want)
		}
	}
}

// TestLiteLLMIdentity reads entries whose inner ids are equal. Clients send the outer ids, so each
// is a prompt, and a number that is there twice is told.
func TestLiteLLMIdentity(t *testing.T) {
	spec := func(outer, inner, content string) string {
		return fmt.Sprintf(`{"prompt_id": %q, "litellm_params": {"prompt_id": %q, "prompt_integration": "dotprompt", "dotprompt_content": %q}}`, outer, inner, "User: "+content)
	}
	for _, test := range []struct {
		name, specs string
		written     string
		messages    []string // parts of the entries' messages, in order
	}{
		{"equal inner ids", spec("first", "prompt", "a") + "," + spec("second", "prompt", "b") + "," + spec("third.v1", "prompt", "c"), "first:1 second:1 third:1", []string{"another id", "another id", "another id"}},
		{"versions of one", spec("first.v1", "prompt", "a") + "," + spec("first.v2", "first", "b"), "first:2", []string{"another id"}},
		{"a number twice", spec("first.v1", "first", "a") + "," + spec("first.v1", "first", "b") + "," + spec("other", "other", "c"), "other:1", []string{"has 1 as its version"}},
		{"no number twice", spec("first", "first", "a") + "," + spec("first", "first", "b"), "", []string{"has no number as its version"}},
		{"no outer id", `{"litellm_params": {"prompt_id": "inner", "prompt_integration": "dotprompt", "dotprompt_content": "User: a"}}`, "inner:1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, report, err := convert.Convert(t.Context(), convert.LiteLLM, "-", convert.Options{AllVersions: true, Stdin: strings.NewReader(`{"prompts": [` + test.specs + `]}`)})
			if err != nil {
				t.Fatal(err)
			}
			var written []string
			for _, w := range report.Written {
				written = append(written, fmt.Sprintf("%s:%d", w.Slug, w.Versions))
			}
			if got := strings.Join(written, " "); got != test.written {
				t.Errorf("wrote %q, want %q", got, test.written)
			}
			if len(report.Entries) != len(test.messages) {
				t.Fatalf("got entries %+v, want %q", report.Entries, test.messages)
			}
			for i, want := range test.messages {
				if !strings.Contains(report.Entries[i].Message, want) {
					t.Errorf("got %q, want %q", report.Entries[i].Message, want)
				}
			}
		})
	}
}

// TestConfiguration refuses the proxy's configuration, which has keys.
func TestConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("model_list:\n  - model_name: m\n    litellm_params:\n      api_key: do-not-show-this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, report, err := convert.Convert(t.Context(), convert.LiteLLM, path, convert.Options{})
	if err != nil || len(set.Workspaces) != 0 || len(report.Entries) != 1 || !strings.Contains(report.Entries[0].Message, "litellm-models") {
		t.Errorf("got %+v, %v", report, err)
	}
}
