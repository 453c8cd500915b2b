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

// TestUnknownProductionVersion has prompts whose production version is not in the input.
func TestUnknownProductionVersion(t *testing.T) {
	for production, want := range map[string]string{
		`2`:      "different: pmpt_1 version 3: is taken, since the input does not have version 2, which requests get\n",
		`"live"`: "left out: pmpt_1: /production_version: must be the number of a version: the newest one is taken\n",
		`1`:      "",
		`null`:   "",
	} {
		t.Run(production, func(t *testing.T) {
			_, report := convertText(t, convert.OpenAI, `{"openai_prompt_id":"pmpt_1","production_version":`+production+`,"versions":[
				{"version":1,"messages":[{"role":"developer","content":"One."}],"config":{"model":"m"}},
				{"version":3,"messages":[{"role":"developer","content":"Three."}],"config":{"model":"m"}}]}`, convert.Options{})
			var printed strings.Builder
			if err := report.Print(&printed); err != nil {
				t.Fatal(err)
			}
			text := printed.String()
			if got := strings.Contains(text, "is taken"); got != (want != "") || !strings.Contains(text, want) {
				t.Errorf("got %q, want %q in it", text, want)
			}
		})
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
		{"a broken front matter", convert.LiteLLM, "---\nmodel: [" + value + "\n---\nx", "the front matter: line"},
		{"an anchor in itself", convert.LiteLLM, "---\na: &a [*a]\n---\nx", "the front matter: line 2"},
		{"anchors that explode", convert.LiteLLM, "---\na0: &a0 [" + strings.Repeat("x,", 99) + "x]\n" + explosion() + "---\nx", "the front matter: line"},
		{"a front matter that is a list", convert.LiteLLM, "---\n- a\n---\nx", "must be an object"},
		{"a file of the reader", convert.LiteLLM, "---\nmodel: !file /etc/passwd\n---\nx", "the front matter: line 2"},
		{"an empty prompt file", convert.LiteLLM, "", "has no text"},
		{"no prompt of LiteLLM", convert.LiteLLM, `{"prompts":[{"litellm_params":{}}]}`, "must be the id"},
		{"an inner text that is no JSON", convert.LiteLLM, `{"prompts":[{"prompt_id":"a","litellm_params":{"prompt_data":"{` + value + `"}}]}`, "is no JSON"},
		{"a section around messages", convert.Portkey, `{"prompts":[{"slug":"a","string":"[{{#x}}{\"role\":\"user\"}{{/x}}]","template_metadata":{"template_type":"chat"}}]}`, "a section around messages"},
		{"no template", convert.Portkey, `{"prompts":[{"slug":"a","string":[]}]}`, "must be the text of a template"},
		{"an empty template", convert.Portkey, `{"prompts":[{"slug":"a","string":" "}]}`, "has no text"},
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

// explosion returns anchors of which each stands for ten times the one before.
func explosion() string {
	var text strings.Builder
	for n := 1; n < 10; n++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s*a%d]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d,", n-1), 9), n-1)
	}
	return text.String()
}

// TestTooManyPrompts has more prompts than an input may have.
func TestTooManyPrompts(t *testing.T) {
	list := func(item string) string { return "[" + strings.Repeat(item+",", 20_000) + item + "]" }
	members := func(value string) string {
		var text strings.Builder
		for i := range 20_001 {
			fmt.Fprintf(&text, `,"a%d":%s`, i, value)
		}
		return "{" + text.String()[1:] + "}"
	}
	for name, test := range map[string]struct {
		source convert.Source
		text   string
	}{
		"entries":            {convert.Langfuse, list(`{"name":"a"}`)},
		"bodies":             {convert.OpenAI, list(`{"input":""}`)},
		"no bodies":          {convert.OpenAI, list("1")},
		"exported versions":  {convert.OpenAI, `{"name":"a","versions":` + list("{}") + "}"},
		"specs":              {convert.LiteLLM, `{"prompts":` + list(`{"prompt_id":"a"}`) + "}"},
		"contents":           {convert.LiteLLM, members(`{"content":"x"}`)},
		"no contents":        {convert.LiteLLM, members("1")},
		"templates":          {convert.Portkey, `{"prompts":` + list("{}") + "}"},
		"list of templates":  {convert.Portkey, list("{}")},
		"partials":           {convert.Portkey, `{"prompts":[],"partials":` + list("{}") + "}"},
		"partials by a name": {convert.Portkey, `{"prompts":[],"partials":` + members(`"x"`) + "}"},
	} {
		_, _, err := convert.Convert(t.Context(), test.source, "-", convert.Options{Stdin: strings.NewReader(test.text)})
		if err == nil || !strings.Contains(err.Error(), "more than 20000") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSettingsThatDoNotFit leaves out settings of a wrong type, and keeps the rest.
func TestSettingsThatDoNotFit(t *testing.T) {
	dir, report := convertText(t, convert.Langfuse, `[{"name":"a","prompt":"Hi.","config":{"model":"m","temperature":"warm","top_p":0.10,"max_tokens":1.5,"stop":["{{x}}"],"maxTokens":5,"max_output_tokens":6}}]`, convert.Options{})
	got := contents(t, dir)["default/a.yaml"]
	const want = "chat:\n  model: m\n  top_p: 0.10\n  stop:\n    - \"{{x}}\"\n  max_completion_tokens: 6\n  messages:\n    - role: system\n      content: Hi.\n"
	if _, body, _ := strings.Cut(got, "\n"); body != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
	places := make(map[string]string)
	for _, e := range report.Entries {
		places[e.Path] += string(e.Kind) + ": " + e.Message + "\n"
	}
	for path, want := range map[string]string{
		"/0/config/temperature": "left_out: does not fit", "/0/config/max_tokens": "left_out: does not fit", "/0/config/stop": "changed: has {{…}}",
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

// TestNoPrompt refuses files that are no prompts. A configuration has keys.
func TestNoPrompt(t *testing.T) {
	const config = "model_list:\n  - model_name: m\n    litellm_params:\n      api_key: do-not-show-this\n"
	for _, test := range []struct {
		name, file, text string
		isPrompt         bool
	}{
		{"configuration", "config.yaml", config, false},
		{"configuration with a document's mark", "config.yml", "---\n" + config + "---\nUser: a\n", false},
		{"configuration under another name", "settings", config, false},
		{"configuration behind comments", "settings", "# keys\n\n" + config, false},
		{"text", "mail.txt", "Hi {{ name }}: welcome\n", true},
		{"front matter", "mail.txt", "---\nmodel: m\n---\nhello\n", true},
		{"a role", "mail", "System: be brief\n", true},
		{"prompt file", "mail.prompt", "hello\n", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), test.file)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			set, report, err := convert.Convert(t.Context(), convert.LiteLLM, path, convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if isPrompt := len(set.Workspaces) == 1; isPrompt != test.isPrompt || report.Count(convert.NotWritten) == 0 != test.isPrompt {
				t.Errorf("got %d workspaces and the report %+v", len(set.Workspaces), report.Entries)
			}
			if !test.isPrompt && !strings.Contains(report.Entries[0].Message, "the proxy's address") {
				t.Errorf("got %q", report.Entries[0].Message)
			}
		})
	}
}

// TestUnreadMarks reports what looks like a role or a front matter, and is text for LiteLLM.
func TestUnreadMarks(t *testing.T) {
	for _, test := range []struct {
		text     string
		messages []string
	}{
		{"Developer: a\nuser: b\nuser: c\n", []string{"begins with Developer:", "begins with user:"}},
		{"System: a\nASSISTANT: b\n", []string{"begins with ASSISTANT:"}},
		{"\n---\nmodel: m\n---\nUser: a\n", []string{"line 2: is text, as at LiteLLM: a front matter begins in the first line"}},
		{"---\nmodel: m\nUser: a\n", []string{"line 1: is text, as at LiteLLM: a front matter ends"}},
		{"---\nmodel: m\n---\nUser: a\n---\nb\n", nil},
		{"Users: a\nnote: b\n", nil},
	} {
		path := filepath.Join(t.TempDir(), "mail.prompt")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, report, err := convert.Convert(t.Context(), convert.LiteLLM, path, convert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var messages []string
		for _, e := range report.Entries {
			messages = append(messages, e.Message)
		}
		if len(messages) != len(test.messages) {
			t.Errorf("%q: got %q, want %q", test.text, messages, test.messages)
			continue
		}
		for i, want := range test.messages {
			if !strings.Contains(messages[i], want) || report.Entries[i].Kind != convert.Changed {
				t.Errorf("%q: got %q, want %q", test.text, messages[i], want)
			}
		}
	}
}

// TestUnfitParts leaves out the items of lists that do not fit, and keeps the others. Else it leaves
// out the whole setting, and reports all of its violations.
func TestUnfitParts(t *testing.T) {
	tool := func(name string) string { return `{"type": "function", "function": {"name": ` + name + `}}` }
	for _, test := range []struct {
		name, metadata string
		config         string
		messages       []string
	}{
		{
			"one tool of three", `{"model": "m", "tools": [` + tool(`"a"`) + `,` + tool(`5`) + `,` + tool(`"c"`) + `], "tool_choice": "auto"}`,
			`{"model":"m","tools":[` + tool(`"a"`) + `,` + tool(`"c"`) + `],"tool_choice":"auto"}`,
			[]string{"/metadata/tools/1: does not fit, and the others stay: function/name"},
		},
		{
			"the tool of the choice", `{"tools": [` + tool(`"a"`) + `,{"type": "function", "function": {"name": "b", "parameters": 5}}], "tool_choice": {"type": "function", "function": {"name": "b"}}}`,
			`{"tools":[` + tool(`"a"`) + `]}`,
			[]string{"/metadata/tools/1: does not fit", "/metadata/tool_choice: names a tool that is left out"},
		},
		{"all tools", `{"model": "m", "tools": [` + tool(`5`) + `]}`, `{"model":"m"}`, []string{"/metadata/tools: does not fit: tools/0/function/name"}},
		{
			"an object", `{"model": "m", "provider": {"sort": 5, "order": 7}}`, `{"model":"m"}`,
			[]string{"/metadata/provider: does not fit: provider/order"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := `{"content": "User: hello", "metadata": ` + test.metadata + `}`
			set, report, err := convert.Convert(t.Context(), convert.LiteLLM, "-", convert.Options{Stdin: strings.NewReader(`{"mail": ` + body + `}`)})
			if err != nil || len(set.Workspaces) != 1 {
				t.Fatalf("got %v, report %+v", err, report)
			}
			config := string(set.Workspaces[0].Presets[0].Version.Capture.Config)
			if strings.ReplaceAll(config, " ", "") != strings.ReplaceAll(test.config, " ", "") {
				t.Errorf("got %s\nwant %s", config, test.config)
			}
			for i, want := range test.messages {
				if len(report.Entries) != len(test.messages) || !strings.Contains(report.Entries[i].Path+": "+report.Entries[i].Message, want) {
					t.Fatalf("got %+v, want %q", report.Entries, test.messages)
				}
			}
		})
	}
}

// TestHalfSurrogates refuses the prompts with half of a surrogate pair, and no others of the file.
func TestHalfSurrogates(t *testing.T) {
	text := `[{"name": "half", "prompt": "x \ud800 y"}, {"name": "low", "prompt": "x \uDC00"}, {"name": "reversed", "prompt": "\udc00\ud800"},
		{"name": "setting", "prompt": "x", "config": {"stop": "\udbff"}}, {"name": "whole", "prompt": "\ud83d\ude00 and \\ud800 are whole"}]`
	set, report, err := convert.Convert(t.Context(), convert.Langfuse, "-", convert.Options{Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Written) != 1 || report.Written[0].Slug != "whole" || *set.Workspaces[0].Presets[0].Version.Capture.SystemPrompt != "😀 and \\ud800 are whole" {
		t.Errorf("got %+v", report.Written)
	}
	if report.Count(convert.NotWritten) != 4 {
		t.Errorf("got %+v, want four refusals", report.Entries)
	}
	for _, e := range report.Entries {
		if !strings.Contains(e.Message, "half of a surrogate pair") {
			t.Errorf("got %+v", e)
		}
	}
}
