package files_test

import (
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

func prompted(p files.Preset, prompt *string) files.Preset {
	c := p.Version.Capture
	p.Version = files.NewVersion(c.Dialect, c.Config, prompt, c.Template)
	return p
}

// TestWriteKeeps checks what stays of a file and of its prompt. A file that differs is written anew.
func TestWriteKeeps(t *testing.T) {
	const header = "# yaml-language-server: $schema=https://raw.githubusercontent.com/caddy-presets/caddy-presets/main/schema/files/preset.schema.json\n"
	const before = "# ours\nlabels: {staging: latest}\nearlier: [{chat: {}}]\nresponses:\n  model: \"m\" # why\n  instructions: !file own.md\n"
	const anew = header + "labels:\n  staging: 7\nearlier:\n  - chat: {}\nresponses:\n  model: m\n  instructions: !file "
	for _, test := range []struct {
		name       string
		change     func(p *files.Preset)
		file, want string // p.yaml afterwards, and the prompt of the preset
	}{
		{"all", func(p *files.Preset) { p.Name, p.Earlier, p.Labels["staging"] = new("p"), nil, files.Label{Version: 7} }, before, "kind\nand brief\n"},
		{"the prompt", func(p *files.Preset) {
			p.Earlier, p.Labels["staging"] = nil, files.Label{Version: 7}
			p.Description = new("d")
		},
			strings.Replace(anew, "labels", "description: d\nlabels", 1) + "own.md\n", "kind\nand brief\n"},
		{"nothing", func(p *files.Preset) { p.Labels["staging"] = files.Label{Version: 7}; *p = prompted(*p, new("a\nb")) }, anew + "p.md\n", "a\nb"},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "default", "p.yaml"), []byte(before))
		put(t, filepath.Join(dir, "default", "own.md"), []byte("kind\nand brief\n\n"))
		set := read(t, dir)
		p := &set.Workspaces[0].Presets[0]
		p.Designated = 7
		test.change(p)
		written := write(t, dir, set)
		if got := tree(t, dir)["default/p.yaml"]; got != test.file || slices.Contains(written, "default/p.yaml") != (test.file != before) {
			t.Errorf("%s: wrote %v, and got\n%s\nwant\n%s", test.name, written, got, test.file)
		}
		if got := read(t, dir).Workspaces[0].Presets[0].Version.Capture.SystemPrompt; *got != test.want {
			t.Errorf("%s: got prompt %q", test.name, *got)
		}
		if again := write(t, dir, set); len(again) > 0 {
			t.Errorf("%s: wrote %v again", test.name, again)
		}
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
	if got := tree(t, dir)["team-a/.workspace.yaml"]; got != want["team-a/.workspace.yaml"] {
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
		{"a link to the folder", map[string]string{"a.yaml": named("here/b.md"), "b.yaml": named("b.md"), "b.md": old}, "here .", inline, old},
		{"a file with a mistake", map[string]string{"a.yaml": "mode1: m\n" + named("b.md"), "b.yaml": named("b.md"), "b.md": old}, "", inline, old},
		{"a file of nobody", map[string]string{"b.yaml": "responses:\n  instructions: kind\n", "b.md": old}, "", inline, old},
		{"a large file of nobody", map[string]string{"b.yaml": "responses:\n  instructions: kind\n", "b.md": strings.Repeat("x", files.MaxFileSize+1)}, "", inline, strings.Repeat("x", files.MaxFileSize+1)},
		{"its own", map[string]string{"b.yaml": named("b.md"), "b.md": old}, "", named("b.md"), changed + "\n"},
		{"twice in one file", map[string]string{"b.yaml": "earlier:\n  - responses:\n      instructions: !file b.md\n" + named("b.md"), "b.md": old}, "", "earlier:\n  - responses:\n      instructions: kind\n" + inline, old},
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
			if _, text, ok := strings.Cut(after["default/b.yaml"], "schema.json\n"); ok {
				after["default/b.yaml"] = text
			}
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
