package files_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// first is a file as Write indents it.
const first = `# The team's presets

# why it is there
description: Writes mails # short
labels:
  staging: latest # moves
  # do not touch
  production: 3
responses:
  model: "openai/gpt-5-mini"
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

// TestWriteKeeps checks what a change replaces in a file.
func TestWriteKeeps(t *testing.T) {
	long := strings.Repeat("Be kind. ", 20) + "Always."
	for _, test := range []struct {
		name, before string
		change       func(p files.Preset) files.Preset
		old, new     string // what is replaced in before
		prompt       string // the new p.md, empty for the old one
	}{
		{"a number, with its comment", first, func(p files.Preset) files.Preset { return config(p, "0.70", "0.80") }, "0.70", "0.80", ""},
		{"a string that needs no quotes", first, func(p files.Preset) files.Preset { return config(p, "gpt-5-mini", "gpt-5") }, `"openai/gpt-5-mini"`, `openai/gpt-5`, ""},
		{"a new member", first, func(p files.Preset) files.Preset {
			return config(p, `"temperature":0.70`, `"temperature":0.70,"top_p":0.5`)
		}, "warm\n", "warm\n  top_p: 0.5\n", ""},
		{"a member less", first, func(p files.Preset) files.Preset { return config(p, `"temperature":0.70,`, ``) }, "  temperature: 0.70 # warm\n", "", ""},
		{"an element less", first, func(p files.Preset) files.Preset {
			return config(p, `{"type":"function","name":"a","parameters":{"type":"object"}},`, ``)
		}, "    - type: function # one\n      name: a\n      parameters: {type: object}\n", "", ""},
		{"a new element", first, func(p files.Preset) files.Preset {
			return config(p, `[{"type"`, `[{"type":"function","name":"c","parameters":{}},{"type"`)
		}, "  tools:\n", "  tools:\n    - type: function\n      name: c\n      parameters: {}\n", ""},
		{"flow style inside", first, func(p files.Preset) files.Preset {
			return config(p, `"name":"a","parameters":{"type":"object"`, `"name":"a","parameters":{"type":"object","properties":{}`)
		}, "{type: object}", "{type: object, properties: {}}", ""},
		{"the prompt", first, func(p files.Preset) files.Preset { return prompted(p, new("Be brief.")) }, "", "", "Be brief.\n"},
		{"the prompt and a number", first, func(p files.Preset) files.Preset {
			return prompted(config(p, "0.70", "0.80"), new(long))
		}, "0.70", "0.80", long + "\n"},
		{"no prompt any more", first, func(p files.Preset) files.Preset { return prompted(p, nil) }, "  # after the tools\n  instructions: !file p.md\n", "", ""},
		{"the description", first, func(p files.Preset) files.Preset { p.Description = new("Writes letters"); return p }, "mails", "letters", ""},
		{"a name, which comes first", first, func(p files.Preset) files.Preset { p.Name = new("Mails"); return p }, "# why", "name: Mails\n# why", ""},
		{"the name that is the slug", first, func(p files.Preset) files.Preset { p.Name = new("p"); return p }, "", "", ""},
		{"a label", first, func(p files.Preset) files.Preset {
			p.Labels = maps.Clone(p.Labels)
			p.Labels["production"] = files.Label{Version: 4}
			p.Labels["a"] = files.Label{Split: []files.Share{{Version: 1, Weight: 1}}}
			return p
		}, "  staging: latest # moves\n  # do not touch\n  production: 3\n", "  staging: latest # moves\n  a:\n    split:\n      - version: 1\n        weight: 1\n  # do not touch\n  production: 4\n", ""},
		{"the number of latest", first, func(p files.Preset) files.Preset {
			p.Designated = 7
			p.Labels = map[string]files.Label{"staging": {Version: 7}, "production": {Version: 3}}
			return config(p, "0.70", "0.80")
		}, "0.70", "0.80", ""},
		{"another number than latest", first, func(p files.Preset) files.Preset {
			p.Designated = 7
			p.Labels = map[string]files.Label{"staging": {Version: 6}, "production": {Version: 3}}
			return p
		}, "staging: latest # moves", "staging: 6 # moves", ""},
		{"a policy and a state", first, func(p files.Preset) files.Preset {
			p.Status = domain.PresetDisabled
			p.Policy = &domain.Policy{Lock: []string{"tools"}, Violation: domain.OverrideViolation}
			return p
		}, "labels:\n  staging: latest # moves\n  # do not touch\n  production: 3\n", "status: disabled\nlabels:\n  staging: latest # moves\n  # do not touch\n  production: 3\npolicy:\n  lock:\n    - tools\n", ""},

		{"Windows", "responses:\r\n  model: a # b\r\n\r\n  top_k: 1\r\n", func(p files.Preset) files.Preset { return config(p, "1", "2") }, "responses:\r\n  model: a # b\r\n\r\n  top_k: 1\r\n", "responses:\n  model: a # b\n  top_k: 2\n", ""},
		{"a byte order mark, and no last line break", "\ufeffresponses:\n  model: a", func(p files.Preset) files.Preset { return config(p, `"a"`, `"b"`) }, "\ufeffresponses:\n  model: a", "responses:\n  model: b\n", ""},
		{"flow style", "# one\nresponses: {model: a, top_k: 1} # two\n# three\n", func(p files.Preset) files.Preset { return config(p, "1", "2") }, "1", "2", ""},
		{"another API", "# yaml-language-server: $schema=a\nresponses:\n  # three\n  model: a\n", func(p files.Preset) files.Preset {
			p.Version = files.NewVersion(domain.Chat, json.RawMessage(`{"model":"a"}`), new("b"), nil)
			return p
		}, "responses:\n  # three\n  model: a\n", "chat:\n  model: a\n  messages:\n    - role: system\n      content: b\n", ""},
		{"a block with headings", "responses:\n  instructions: |\n    # One\n\n    # Two\n  # a comment\n  model: a\n", func(p files.Preset) files.Preset { return prompted(p, new("# Three\n\n# Four\n")) }, "    # One\n\n    # Two\n", "    # Three\n\n    # Four\n", ""},
		{"a prompt that grows too long", "responses:\n  instructions: Be kind. # a\n", func(p files.Preset) files.Preset { return prompted(p, new(long)) }, "Be kind.", "!file p.md", long + "\n"},
		{"the text of a message", "chat:\n  messages:\n    - role: system\n      content: !file p.md # b\n", func(p files.Preset) files.Preset { return prompted(p, new("c")) }, "", "", "c\n"},
		{"parts of a prompt", "messages:\n  system:\n    - {type: text, text: a}\n    - {type: text, text: b}\n", func(p files.Preset) files.Preset { return prompted(p, new("c")) }, "\n    - {type: text, text: a}\n    - {type: text, text: b}\n", " c\n", ""},
		{"a template", "chat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n", func(p files.Preset) files.Preset {
			p.Version = files.NewVersion(domain.Chat, json.RawMessage(`{}`), new("a"), &domain.Template{Variables: []string{"b"}, Messages: json.RawMessage(`[{"role":"user","content":"{{b}}"}]`)})
			return p
		}, "chat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n", "template: true\nchat:\n  # one\n  messages:\n    - {role: system, content: a} # two\n    - role: user\n      content: '{{b}}'\n", ""},
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
description: 'For the newsletter: twice a week'
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
    - yes
    - "1"
    - 'a: b'
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
		{"a folder as a file", map[string]string{"default/p.yaml/a": ""}, nil, []files.Preset{preset("p", "a")}, "default/p.yaml: the present file has a mistake, so it stays as it is: must be a regular file", false},
		{"a link out of the folder", map[string]string{"out/p.yaml": model}, map[string]string{"default/p.yaml": "../out/p.yaml"}, []files.Preset{preset("p", "a")}, "default/p.yaml: the present file has a mistake, so it stays as it is: cannot be read: path escapes from parent", false},
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

// TestWriteOthersPrompt checks that a prompt which another value names, or which is nobody's, is not changed.
func TestWriteOthersPrompt(t *testing.T) {
	const old, changed, inline = "kind\n", "one\ntwo", "responses:\n  instructions: |-\n    one\n    two\n"
	named := func(name string) string { return "responses:\n  instructions: !file " + name + "\n" }
	for _, test := range []struct {
		name    string
		present map[string]string
		link    string // from a name to another, empty for none
		want    string // b.yaml afterwards
		prompt  string // the text of b.md afterwards
	}{
		{"the name of the preset", map[string]string{"a.yaml": named("b.md"), "b.yaml": named("b.md"), "b.md": old}, "", inline, old},
		{"another spelling", map[string]string{"a.yaml": named("./b.md"), "b.yaml": named("b.md"), "b.md": old}, "", inline, old},
		{"a link", map[string]string{"a.yaml": named("l.md"), "b.yaml": named("b.md"), "b.md": old}, "l.md b.md", inline, old},
		{"a link to the folder", map[string]string{"a.yaml": named("here/b.md"), "b.yaml": named("b.md"), "b.md": old}, "here .", inline, old},
		{"a file with a mistake", map[string]string{"a.yaml": "mode1: m\n" + named("b.md"), "b.yaml": named("b.md"), "b.md": old}, "", inline, old},
		{"a file of nobody", map[string]string{"b.yaml": "responses:\n  instructions: kind\n", "b.md": old}, "", inline, old},
		{"a large file of nobody", map[string]string{"b.yaml": "responses:\n  instructions: kind\n", "b.md": strings.Repeat("x", files.MaxFileSize+1)}, "", inline, strings.Repeat("x", files.MaxFileSize+1)},
		{"its own", map[string]string{"b.yaml": named("b.md"), "b.md": old}, "", named("b.md"), changed + "\n"},
		{"twice in one file", map[string]string{"b.yaml": "earlier:\n  - responses:\n      instructions: !file b.md\n" + named("b.md"), "b.md": old}, "", "earlier:\n  - responses:\n      instructions: !file b.md\n" + inline, old},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.present {
				put(t, filepath.Join(dir, "default", name), []byte(text))
			}
			if from, to, ok := strings.Cut(test.link, " "); ok {
				if err := os.Symlink(to, filepath.Join(dir, "default", from)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			p := files.Preset{Slug: "b", Status: domain.PresetActive, Version: files.NewVersion(domain.Responses, json.RawMessage(`{}`), new(changed), nil)}
			write(t, dir, setOf(p))
			after := tree(t, dir)
			if after["default/b.yaml"] != test.want || after["default/b.md"] != test.prompt || after["default/a.yaml"] != before["default/a.yaml"] {
				t.Errorf("got %.300q", after)
			}
			if again := write(t, dir, setOf(p)); len(again) > 0 {
				t.Errorf("wrote %v again", again)
			}
		})
	}
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
