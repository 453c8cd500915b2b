package files_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

const first = `# The team's presets

# why it is there
description: Writes mails   # short

labels:
    staging: latest # moves
    # do not touch
    production: 3

responses:
    model:   "openai/gpt-5-mini"
    temperature: 0.70 # warm

    tools:
    - type: function # one
      name: a
      parameters: {type: object}

    # the second
    - type: function
      name: b
      parameters:
          type: object
          # nothing more
    # after the tools
    instructions: !file p.md
# the end
`

// config returns p with another config of its version, from p's own.
func config(p files.Preset, old, new string) files.Preset {
	text := strings.Replace(string(p.Version.Capture.Config), old, new, 1)
	if text == string(p.Version.Capture.Config) {
		panic("nothing to replace in " + text)
	}
	c := p.Version.Capture
	p.Version = files.NewVersion(c.Dialect, json.RawMessage(text), c.SystemPrompt, c.Template)
	return p
}

func prompted(p files.Preset, prompt *string) files.Preset {
	c := p.Version.Capture
	p.Version = files.NewVersion(c.Dialect, c.Config, prompt, c.Template)
	return p
}

// TestWriteKeeps checks which lines of a file a change replaces.
func TestWriteKeeps(t *testing.T) {
	long := strings.Repeat("Be kind. ", 20) + "Always."
	for _, test := range []struct {
		name, before string
		change       func(p files.Preset) files.Preset
		old, new     string // what is replaced in before
		prompt       string // the new p.md, empty for the old one
	}{
		{"a number, with its comment", first, func(p files.Preset) files.Preset { return config(p, "0.70", "0.80") }, "temperature: 0.70 # warm", "temperature: 0.80 # warm", ""},
		{"a string that needs no quotes", first, func(p files.Preset) files.Preset { return config(p, "gpt-5-mini", "gpt-5") }, `model:   "openai/gpt-5-mini"`, `model: openai/gpt-5`, ""},
		{"a new member", first, func(p files.Preset) files.Preset {
			return config(p, `"temperature":0.70`, `"temperature":0.70,"top_p":0.5`)
		}, "0.70 # warm\n", "0.70 # warm\n    top_p: 0.5\n", ""},
		{"a new first member", first, func(p files.Preset) files.Preset { return config(p, `{"model"`, `{"top_k":1,"model"`) }, "    model: ", "    top_k: 1\n    model: ", ""},
		{"a member less", first, func(p files.Preset) files.Preset { return config(p, `"temperature":0.70,`, ``) }, "    temperature: 0.70 # warm\n", "", ""},
		{"in an element", first, func(p files.Preset) files.Preset { return config(p, `"name":"b"`, `"name":"c"`) }, "name: b", "name: c", ""},
		{"an element less", first, func(p files.Preset) files.Preset {
			return config(p, `{"type":"function","name":"a","parameters":{"type":"object"}},`, ``)
		}, "    - type: function # one\n      name: a\n      parameters: {type: object}\n", "", ""},
		{"a new element", first, func(p files.Preset) files.Preset {
			return config(p, `{"type":"object"}}]`, `{"type":"object"}},{"type":"function","name":"c","parameters":{}}]`)
		}, "          # nothing more\n", "    - type: function\n      name: c\n      parameters: {}\n          # nothing more\n", ""},
		{"flow style inside", first, func(p files.Preset) files.Preset {
			return config(p, `"name":"a","parameters":{"type":"object"}`, `"name":"a","parameters":{"type":"object","properties":{}}`)
		}, "parameters: {type: object}", "parameters:\n        type: object\n        properties: {}", ""},
		{"the prompt", first, func(p files.Preset) files.Preset { return prompted(p, new("Be brief.")) }, "", "", "Be brief.\n"},
		{"the prompt and a number", first, func(p files.Preset) files.Preset {
			return prompted(config(p, "0.70", "0.80"), new(long))
		}, "0.70", "0.80", long + "\n"},
		{"no prompt any more", first, func(p files.Preset) files.Preset { return prompted(p, nil) }, "    instructions: !file p.md\n", "", ""},
		{"the description", first, func(p files.Preset) files.Preset { p.Description = new("Writes letters"); return p }, "Writes mails   # short", "Writes letters # short", ""},
		{"no description", first, func(p files.Preset) files.Preset { p.Description = nil; return p }, "description: Writes mails   # short\n", "", ""},
		{"a name, which comes first", first, func(p files.Preset) files.Preset { p.Name = new("Mails"); return p }, "description: ", "name: Mails\ndescription: ", ""},
		{"the name that is the slug", first, func(p files.Preset) files.Preset { p.Name = new("p"); return p }, "", "", ""},
		{"a label", first, func(p files.Preset) files.Preset {
			p.Labels = maps.Clone(p.Labels)
			p.Labels["production"] = files.Label{Version: 4}
			p.Labels["a"] = files.Label{Split: []files.Share{{Version: 1, Weight: 1}}}
			return p
		}, "    staging: latest # moves\n    # do not touch\n    production: 3\n", "    a:\n      split:\n        - version: 1\n          weight: 1\n    staging: latest # moves\n    # do not touch\n    production: 4\n", ""},
		{"the number of latest", first, func(p files.Preset) files.Preset {
			p.Designated = 7
			p.Labels = map[string]files.Label{"staging": {Version: 7}, "production": {Version: 3}}
			return p
		}, "", "", ""},
		{"another number than latest", first, func(p files.Preset) files.Preset {
			p.Designated = 7
			p.Labels = map[string]files.Label{"staging": {Version: 6}, "production": {Version: 3}}
			return p
		}, "staging: latest # moves", "staging: 6 # moves", ""},
		{"a policy and a state", first, func(p files.Preset) files.Preset {
			p.Status = domain.PresetDisabled
			p.Policy = &domain.Policy{Lock: []string{"tools"}, Violation: domain.OverrideViolation}
			return p
		}, "mails   # short\n\nlabels:\n    staging: latest # moves\n    # do not touch\n    production: 3\n", "mails   # short\nstatus: disabled\n\nlabels:\n    staging: latest # moves\n    # do not touch\n    production: 3\npolicy:\n  lock:\n    - tools\n", ""},

		{"Windows", "responses:\r\n  model: a # b\r\n  top_k: 1\r\n", func(p files.Preset) files.Preset { return config(p, "1", "1,\"top_p\":2") }, "1\r\n", "1\r\n  top_p: 2\r\n", ""},
		{"a byte order mark, and no last line break", "\ufeffresponses:\n  model: a", func(p files.Preset) files.Preset { return config(p, `"a"`, `"a","top_k":1`) }, "a", "a\n  top_k: 1\n", ""},
		{"flow style", "# one\nresponses: {model: a, top_k: 1} # two\n# three\n", func(p files.Preset) files.Preset { return config(p, "1", "2") }, "responses: {model: a, top_k: 1} # two", "responses: # two\n  model: a\n  top_k: 2", ""},
		{"flow style as a whole", "# one\n{responses: {model: a, top_k: 1}}\n# three\n", func(p files.Preset) files.Preset { return config(p, "1", "2") }, "{responses: {model: a, top_k: 1}}", "responses:\n  model: a\n  top_k: 2", ""},
		{"a value that aliases share", "# one\nearlier:\n  - responses: &r {model: a}\nresponses: *r # two\n", func(p files.Preset) files.Preset { return config(p, `"a"`, `"b"`) }, "responses: *r # two", "responses: # two\n  model: b", ""},
		{"the anchor of an alias", "# one\nresponses: &r\n  model: a # two\nearlier:\n  - responses: *r # three\n", func(p files.Preset) files.Preset { return config(p, `"a"`, `"b"`) }, "model: a # two\nearlier:\n  - responses: *r # three\n", "model: b # two\nearlier:\n  - responses: # three\n      model: a\n", ""},
		{"another API", "# one\nname: N # two\nresponses:\n  # three\n  model: a\n# four\n", func(p files.Preset) files.Preset {
			p.Version = files.NewVersion(domain.Chat, json.RawMessage(`{"model":"a"}`), new("b"), nil)
			return p
		}, "responses:\n  # three\n  model: a\n", "chat:\n  model: a\n  messages:\n    - role: system\n      content: b\n", ""},
		{"a block with headings", "responses:\n  instructions: |\n    # One\n\n    # Two\n\n  # a comment\n  model: a\n", func(p files.Preset) files.Preset { return prompted(p, new("# Three\n\n# Four\n")) }, "    # One\n\n    # Two\n", "    # Three\n\n    # Four\n", ""},
		{"after a block with headings", "responses:\n  instructions: |\n    # One\n    # Two\n", func(p files.Preset) files.Preset { p.Status = domain.PresetDisabled; return p }, "responses:", "status: disabled\nresponses:", ""},
		{"a prompt that grows too long", "responses:\n  instructions: Be kind. # a\n", func(p files.Preset) files.Preset { return prompted(p, new(long)) }, "Be kind.", "!file p.md", long + "\n"},
		{"the text of a message", "chat:\n  messages:\n    - role: developer\n      content: [{type: text, text: a}]\n    - role: user\n      content: hello # b\n", func(p files.Preset) files.Preset { return prompted(p, new("c")) }, "content: [{type: text, text: a}]", "content:\n        - type: text\n          text: c", ""},
		{"the only part of a system prompt", "messages:\n  system:\n    - type: text\n      # kept\n      cache_control: {type: ephemeral}\n      text: !file p.md\n", func(p files.Preset) files.Preset { return prompted(p, new("c")) }, "", "", "c\n"},
		{"parts of a prompt", "messages:\n  system:\n    - {type: text, text: a}\n    - {type: text, text: b}\n  top_k: 1 # one\n", func(p files.Preset) files.Preset { return config(p, "1", "2") }, "top_k: 1", "top_k: 2", ""},
		{"a template", "chat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n", func(p files.Preset) files.Preset {
			p.Version = files.NewVersion(domain.Chat, json.RawMessage(`{}`), new("a"), &domain.Template{Variables: []string{"b"}, Messages: json.RawMessage(`[{"role":"user","content":"{{b}}"}]`)})
			return p
		}, "chat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n", "template: true\nchat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n    - role: user\n      content: \"{{b}}\"\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "default", "p.yaml"), []byte(test.before))
			wantPrompt := test.prompt
			if strings.Contains(test.before, "!file") {
				const prompt = "Be kind.\n"
				put(t, filepath.Join(dir, "default", "p.md"), []byte(prompt))
				wantPrompt = cmp.Or(test.prompt, prompt)
			}
			set := read(t, dir)
			set.Workspaces[0].Presets[0] = test.change(set.Workspaces[0].Presets[0])
			written := write(t, dir, set)
			want := test.before
			if test.old != "" {
				if want = strings.Replace(want, test.old, test.new, 1); want == test.before {
					t.Fatal("the case replaces nothing")
				}
			}
			got := tree(t, dir)
			if text := got["default/p.yaml"]; text != want {
				t.Errorf("got\n%s\nwant\n%s", text, want)
			}
			if text := got["default/p.md"]; text != wantPrompt {
				t.Errorf("got prompt %q, want %q", text, wantPrompt)
			}
			if changed := want != test.before; changed != slices.Contains(written, "default/p.yaml") {
				t.Errorf("wrote %v", written)
			}
			if again := write(t, dir, set); len(again) > 0 {
				t.Errorf("wrote %v again", again)
			}
		})
	}
}

// TestWriteNew checks the form of new files.
func TestWriteNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "presets")
	config := json.RawMessage(`{"model":"openai/gpt-5-mini", "temperature":0.70,"stop":["yes","1","a: b"],"tools":[],"reasoning":{"effort":"low"}}`)
	p := files.Preset{
		Slug: "Mail", Name: new("Mail writer"), Description: new("For the newsletter: twice a week"), Status: domain.PresetDisabled,
		Labels:  map[string]files.Label{"staging": {}, "canary": {Split: []files.Share{{Version: 2, Weight: 90}, {Weight: 10}}}, "production": {Version: 12}},
		Policy:  &domain.Policy{Lock: []string{"model"}, Violation: domain.OverrideViolation},
		Earlier: []files.Version{files.NewVersion(domain.Messages, nil, new("a\nb"), nil)},
		Version: files.NewVersion(domain.Chat, config, new("You are kind.\n\n- and brief"), &domain.Template{Messages: json.RawMessage(`[{"role":"user","content":"Hello {{name}}"}]`), Variables: []string{"name"}}),
	}
	p.Earlier[0].Message = new("the first")
	set := &files.Set{Workspaces: []files.Workspace{
		{Slug: "default", Presets: []files.Preset{p}},
		{Slug: "team-a", Defaults: json.RawMessage(`{"name":"Team A","default_text_model":null,"disabled_server_tools":["openrouter:web_search"]}`)},
	}}
	if got, want := write(t, dir, set), []string{"default/Mail.md", "default/Mail.yaml", "team-a/.workspace.yaml"}; !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v", got, want)
	}
	want := map[string]string{
		"default/Mail.md": "You are kind.\n\n- and brief\n",
		"default/Mail.yaml": `# yaml-language-server: $schema=https://raw.githubusercontent.com/caddy-presets/caddy-presets/main/schema/files/preset.schema.json
name: Mail writer
description: "For the newsletter: twice a week"
status: disabled
labels:
  canary:
    split:
      - version: 2
        weight: 90
      - version: latest
        weight: 10
  production: 12
  staging: latest
policy:
  lock:
    - model
template: true
earlier:
  - message: the first
    messages:
      system: |-
        a
        b
chat:
  model: openai/gpt-5-mini
  temperature: 0.70
  stop:
    - "yes"
    - "1"
    - "a: b"
  tools: []
  reasoning:
    effort: low
  messages:
    - role: system
      content: !file Mail.md
    - role: user
      content: Hello {{name}}
`,
		"team-a/.workspace.yaml": `# yaml-language-server: $schema=https://raw.githubusercontent.com/caddy-presets/caddy-presets/main/schema/files/workspace.schema.json
name: Team A
default_text_model: null
disabled_server_tools:
  - openrouter:web_search
`,
	}
	if got := tree(t, dir); !maps.Equal(got, want) {
		for name := range want {
			t.Errorf("%s: got\n%s", name, got[name])
		}
	}
	sameSet(t, read(t, dir), set)
	put(t, filepath.Join(dir, "team-a", ".workspace.yaml"), []byte("# ours\nname: Team B # b\n"))
	write(t, dir, set)
	if got := tree(t, dir)["team-a/.workspace.yaml"]; got != "# ours\nname: Team A # b\ndefault_text_model: null\ndisabled_server_tools:\n  - openrouter:web_search\n" {
		t.Errorf("got\n%s", got)
	}
}

// TestWriteMistakes checks what is not written, and that the rest is.
func TestWriteMistakes(t *testing.T) {
	preset := func(slug, prompt string) files.Preset {
		return files.Preset{Slug: slug, Status: domain.PresetActive, Version: files.NewVersion(domain.Responses, json.RawMessage(`{"model":"m"}`), &prompt, nil)}
	}
	good := preset("good", "a\nb")
	const model = "responses:\n  model: m\n"
	for _, test := range []struct {
		name    string
		present map[string]string
		links   map[string]string
		presets []files.Preset
		want    string
		nothing bool // is written
	}{
		{"a secret", nil, nil, []files.Preset{preset("p", "the key sk-abcdefghij0123456789")}, "default/p.yaml: preset p of workspace default is not written: has the form of a secret, which does not belong into files: an API key (sk-…)", false},
		{"a secret in a long prompt", nil, nil, []files.Preset{preset("p", "a\nghp_abcdefghijklmnopqrstuvwxyz0123456789")}, "default/p.yaml: preset p of workspace default is not written: has the form of a secret, which does not belong into files: a GitHub token (ghp_…)", false},
		{"a secret behind many words", nil, nil, []files.Preset{preset("p", strings.Repeat("sk-learn-pipeline-with-name\n", 25)+"sk-abcdefghij0123456789")}, "default/p.yaml: preset p of workspace default is not written: has the form of a secret, which does not belong into files: an API key (sk-…)", false},
		{"names that differ in case", nil, nil, []files.Preset{preset("Mail", "a"), preset("mail", "a")}, "default/mail.yaml: the name differs only in case from Mail.yaml, so some systems cannot have both files", true},
		{"a present name that differs in case", map[string]string{"default/Mail.yaml": model}, nil, []files.Preset{preset("mail", "a")}, "default/mail.yaml: the name differs only in case from Mail.yaml, so some systems cannot have both files", true},
		{"a slug that leaves the folder", nil, nil, []files.Preset{preset("../p", "a")}, "default/../p.yaml: the name of a file is the slug of a preset: it must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit", true},
		{"a present file with mistakes", map[string]string{"default/p.yaml": "responses:\n  mode1: m\n"}, nil, []files.Preset{preset("p", "a")}, "default/p.yaml:2:3: /responses/mode1: the present file has a mistake, so it stays as it is: is unknown, so a preset does not keep it: leave it out", false},
		{"a prompt's file of somebody else", map[string]string{"default/p.md": "notes\n"}, nil, []files.Preset{preset("p", "a\nb")}, "default/p.yaml: preset p of workspace default is not written: the file p.md is there already, and is not its prompt", false},
		{"a large file of somebody else", map[string]string{"default/p.md": strings.Repeat("x", files.MaxFileSize+1)}, nil, []files.Preset{preset("p", "a\nb")}, "default/p.yaml: preset p of workspace default is not written: the file p.md is there already, and is not its prompt", false},
		{"a folder as a file", map[string]string{"default/p.yaml/a": ""}, nil, []files.Preset{preset("p", "a")}, "default/p.yaml: the present file has a mistake, so it stays as it is: must be a regular file", false},
		{"a link out of the folder", map[string]string{"out/p.yaml": model}, map[string]string{"default/p.yaml": "../out/p.yaml"}, []files.Preset{preset("p", "a")}, "default/p.yaml: the present file has a mistake, so it stays as it is: is a link out of the folder, or to nothing", false},
		{"a stored setting that has another rule now", nil, nil, []files.Preset{{Slug: "p", Status: domain.PresetActive, Version: files.NewVersion(domain.Responses, json.RawMessage(`{"temperature":"hot"}`), nil, nil)}}, "default/p.yaml: preset p of workspace default is not written: /responses/temperature: must be a number or null", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.present {
				put(t, filepath.Join(dir, name), []byte(text))
			}
			for name, target := range test.links {
				put(t, filepath.Join(dir, filepath.Dir(name), "a"), nil)
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			written, err := files.Write(dir, &files.Set{Workspaces: []files.Workspace{{Slug: "default", Presets: append(test.presets, good)}}})
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			after := tree(t, dir)
			if test.nothing {
				if len(written) > 0 || !maps.Equal(before, after) {
					t.Errorf("wrote %v", written)
				}
				return
			}
			if want := []string{"default/good.md", "default/good.yaml"}; !slices.Equal(written, want) {
				t.Errorf("wrote %v, want %v", written, want)
			}
			delete(after, "default/good.md")
			delete(after, "default/good.yaml")
			if !maps.Equal(before, after) {
				t.Errorf("changed %v", after)
			}
		})
	}
}

// TestWriteSharedPrompt checks that a prompt of two presets is not changed for both.
func TestWriteSharedPrompt(t *testing.T) {
	dir := t.TempDir()
	for _, slug := range []string{"a", "b"} {
		put(t, filepath.Join(dir, "default", slug+".yaml"), []byte("responses:\n  instructions: !file prompts/both.md\n"))
	}
	put(t, filepath.Join(dir, "default", "prompts", "both.md"), []byte("kind"))
	set := read(t, dir)
	set.Workspaces[0].Presets[0] = prompted(set.Workspaces[0].Presets[0], new("one\ntwo"))
	if got, want := write(t, dir, set), []string{"default/a.md", "default/a.yaml"}; !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v", got, want)
	}
	set.Workspaces[0].Presets[1] = prompted(set.Workspaces[0].Presets[1], new("three"))
	if got, want := write(t, dir, set), []string{"default/prompts/both.md"}; !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v", got, want)
	}
	sameSet(t, read(t, dir), set)
}

// TestWriteOthersPrompt checks that a prompt which another preset names is not changed.
func TestWriteOthersPrompt(t *testing.T) {
	const file, old, changed = "responses:\n  instructions: !file %s\n", "kind\n", "one\ntwo"
	modified := time.Unix(1, 0)
	named := func(name string) string { return strings.Replace(file, "%s", name, 1) }
	for _, test := range []struct {
		name    string
		present map[string]string
		prepare func(folder string) error // such as by a link to b.md, nil for nothing
		want    []string
		prompt  string // the text of b.md afterwards
	}{
		{"the name of the preset", map[string]string{"a.yaml": named("b.md"), "b.yaml": named("b.md"), "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"another spelling", map[string]string{"a.yaml": named("./b.md"), "b.yaml": named("b.md"), "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a prompt in the YAML", map[string]string{"a.yaml": named("b.md"), "b.yaml": "responses:\n  instructions: kind\n", "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a new preset", map[string]string{"a.yaml": named("b.md"), "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a link", map[string]string{"a.yaml": named("l.md"), "b.yaml": named("b.md"), "b.md": old}, func(folder string) error {
			return os.Symlink("b.md", filepath.Join(folder, "l.md"))
		}, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a hard link", map[string]string{"a.yaml": named("l.md"), "b.yaml": named("b.md"), "b.md": old}, func(folder string) error {
			return os.Link(filepath.Join(folder, "b.md"), filepath.Join(folder, "l.md")) // which keeps its text
		}, []string{"default/b.md"}, changed + "\n"},
		{"a link to the folder", map[string]string{"a.yaml": named("here/b.md"), "b.yaml": named("b.md"), "b.md": old}, func(folder string) error {
			return os.Symlink(".", filepath.Join(folder, "here"))
		}, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a file with the same state", map[string]string{"a.yaml": named("a.md"), "a.md": old, "b.yaml": named("b.md"), "b.md": old}, func(folder string) error {
			return errors.Join(os.Chtimes(filepath.Join(folder, "a.md"), modified, modified), os.Chtimes(filepath.Join(folder, "b.md"), modified, modified))
		}, []string{"default/b.md"}, changed + "\n"},
		{"files with numbers", map[string]string{"a.yaml": named("b.md"), "b.yaml": named("b.md"), "b.md": old, "b-2.md": "notes\n", "c.yaml": named("b-3.md"), "b-3.md": old}, nil, []string{"default/b-4.md", "default/b.yaml"}, old},
		{"a large file with a number", map[string]string{"a.yaml": named("b.md"), "b.yaml": named("b.md"), "b.md": old, "b-2.md": strings.Repeat("x", files.MaxFileSize+1)}, nil, []string{"default/b-3.md", "default/b.yaml"}, old},
		{"a file with the text", map[string]string{"a.yaml": named("b.md"), "b.yaml": "responses:\n  instructions: kind\n", "b.md": changed + "\n"}, nil, []string{"default/b.yaml"}, changed + "\n"},
		{"a file with a mistake", map[string]string{"a.yaml": "mode1: m\n" + named("b.md"), "b.yaml": named("b.md"), "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
		{"a file that is missing", map[string]string{"a.yaml": named("b.md")}, nil, []string{"default/b-2.md", "default/b.yaml"}, ""},
		{"twice in one file", map[string]string{"b.yaml": "earlier:\n  - responses:\n      instructions: !file b.md\n" + named("b.md"), "b.md": old}, nil, []string{"default/b-2.md", "default/b.yaml"}, old},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.present {
				put(t, filepath.Join(dir, "default", name), []byte(text))
			}
			if test.prepare != nil {
				if err := test.prepare(filepath.Join(dir, "default")); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			p := files.Preset{Slug: "b", Status: domain.PresetActive, Version: files.NewVersion(domain.Responses, json.RawMessage(`{}`), new(changed), nil)}
			set := &files.Set{Workspaces: []files.Workspace{{Slug: "default", Presets: []files.Preset{p}}}}
			if got := write(t, dir, set); !slices.Equal(got, test.want) {
				t.Errorf("wrote %v, want %v", got, test.want)
			}
			after := tree(t, dir)
			if after["default/b.md"] != test.prompt || after["default/a.yaml"] != before["default/a.yaml"] {
				t.Errorf("got %q", after)
			}
			if again := write(t, dir, set); len(again) > 0 {
				t.Errorf("wrote %v again", again)
			}
		})
	}
}

// TestWritePromptOfNewPreset checks that a prompt is not changed for a preset that names it
// since the same Write.
func TestWritePromptOfNewPreset(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", "b.yaml"), []byte("responses:\n  instructions: !file a.md\n"))
	put(t, filepath.Join(dir, "default", "a.md"), []byte("one\ntwo\n"))
	preset := func(slug, prompt string) files.Preset {
		return files.Preset{Slug: slug, Status: domain.PresetActive, Version: files.NewVersion(domain.Responses, json.RawMessage(`{}`), &prompt, nil)}
	}
	set := &files.Set{Workspaces: []files.Workspace{{Slug: "default", Presets: []files.Preset{preset("a", "one\ntwo"), preset("b", "three\nfour")}}}}
	if got, want := write(t, dir, set), []string{"default/a.yaml", "default/b.md", "default/b.yaml"}; !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v", got, want)
	}
	sameSet(t, read(t, dir), set)
}

// TestWriteDeep refuses what nests deeper than the API allows, before it is indented.
func TestWriteDeep(t *testing.T) {
	deep := strings.Repeat("[", 9000) + "1" + strings.Repeat(",1", 20_000) + strings.Repeat("]", 9000)
	for name, w := range map[string]files.Workspace{
		"preset p of workspace default is not written: a request":  {Presets: []files.Preset{{Slug: "p", Version: files.NewVersion(domain.Chat, []byte(`{"a":`+deep+"}"), nil, nil)}}},
		"preset p of workspace default is not written: the policy": {Presets: []files.Preset{{Slug: "p", Version: files.NewVersion(domain.Chat, nil, nil, nil), Policy: &domain.Policy{Bounds: map[string]domain.Bound{"top_p": {Min: []byte(deep)}}}}}},
		"the defaults of workspace default are not written: they":  {Defaults: []byte(`{"a":` + deep + "}")},
	} {
		w.Slug = "default"
		written, err := files.Write(t.TempDir(), &files.Set{Workspaces: []files.Workspace{w}})
		if err == nil || len(written) > 0 || !strings.Contains(err.Error(), name+" must not nest deeper than 128 levels") {
			t.Errorf("%s: got %v, %.300v", name, written, err)
		}
	}
}
