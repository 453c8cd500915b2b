package convert

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

// meaning is what a model gets of segments.
func meaning(segments []segment, value func(string) string) string {
	var text strings.Builder
	for _, s := range segments {
		if s.variable != "" {
			text.WriteString(value(s.variable))
		}
		text.WriteString(s.text)
	}
	return text.String()
}

// fuzzSyntax compares the rendering of a server with what the segments of a text mean.
func fuzzSyntax(f *testing.F, s syntax, seeds ...string) {
	f.Helper()
	r := newRendering(f)
	for _, seed := range seeds {
		f.Add(seed)
	}
	value := func(name string) string { return "<" + name + "}}{{" }
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 4<<10 {
			return
		}
		segments, found := s(text)
		refused := false
		for _, finding := range found {
			refused = refused || finding.refuses
		}
		for _, segment := range segments {
			if name, rest := domain.CutVariableName(segment.variable); rest != "" || name != segment.variable {
				t.Fatalf("%q: the variable %q is no name", text, segment.variable)
			}
		}
		for _, role := range []string{"system", "user"} {
			v := &version{dialect: domain.Chat, syntax: s, messages: []node{message(node{}, role, text)}}
			got, ok := r.render(t, v, value)
			switch want := meaning(segments, value); {
			case ok && refused:
				t.Errorf("%s %q: got %q, want that it is refused", role, text, got)
			case ok && want != got:
				t.Errorf("%s %q: got %q, want %q", role, text, got, want)
			}
		}
	})
}

func FuzzPlainBraces(f *testing.F) {
	fuzzSyntax(f, plainBraces, "You know {{city}}.", "You know {{#city}} and \\{{ x.", "{{{city}}}", `\ {{city}} \\{{`, `\{{city}}`, `\{{{a}}{{ b }}`, "{{a{{b}}}}", `\\{{`)
}

func FuzzJinja(f *testing.F) {
	fuzzSyntax(f, jinja, "{{ a }}{# b #}{% c %}", `\{{{a}}`, "{{ a | b }}", "{{a.b}}")
}

func FuzzMustache(f *testing.F) {
	m := partials{"p": "[{{x}}", "q": "{{>p}}{{>q}}", "r": `\`}
	fuzzSyntax(f, m.syntax, "{{a}}{{{b}}}{{&c}}{{!d}}{{>p}}", "{{>q}}", "{{>r}}{{a}}", "{{#a}}{{/a}}{{=a b=}}")
}

// FuzzPromptFile reads files of LiteLLM. A file that is not refused is a request that a
// server takes.
func FuzzPromptFile(f *testing.F) {
	r := newRendering(f)
	for _, seed := range []string{
		"---\nmodel: m\ntemperature: 0.70\ninput:\n  schema: {a: string}\n---\nSystem: {{a}}\nUser: b",
		"---\n&a [*a]\n---\n", "---\na: &a {<<: *a}\n---\nx", "{# a", "User:\nUser:\nAssistant:", "---\r\nmodel: m\r\n---\r\nx",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		v := &version{dialect: domain.Chat, syntax: jinja}
		v.readPromptFile(node{}, text)
		if !v.refused {
			v.build(r.schemas)
		}
		for _, e := range v.entries {
			if strings.Contains(e.Message, "\n") {
				panic("a message has a line break")
			}
		}
	})
}
