package convert

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// frontMatter matches YAML between two lines of three hyphens, the first of which begins a text.
var frontMatter = regexp.MustCompile(`(?s)^---[ \t\r]*\n(|.*?\n)---[ \t\r]*(?:\n|$)`)

// readPromptFile reads the text of a .prompt file.
func (v *version) readPromptFile(at node, text string) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	if front := frontMatter.FindStringSubmatch(text); front != nil {
		value, err := files.JSONOf("", []byte("\n"+front[1])) // with the lines of the file
		if mistakes, ok := errors.AsType[files.Errors](err); ok {
			v.refuse(at, "the front matter"+mistakes[0].Error())
			return
		}
		v.readMetadata(node{file: at.file, path: at.path, value: bytes.Clone(value)})
		text = text[len(front[0]):]
	}
	v.readRoles(at, text)
}

// readMetadata reads a front matter.
func (v *version) readMetadata(metadata node) {
	if metadata.exists() && metadata.kind() != '{' {
		v.refuse(metadata, "the front matter must be an object")
		return
	}
	for name, value := range metadata.members() {
		switch {
		case !value.exists():
		case name == "input":
			for part, value := range value.members() {
				if part == "schema" {
					v.leave(value, "has no counterpart: all variables are texts, or images and files")
				} else {
					v.leave(value, "has no counterpart")
				}
			}
		case name == "output":
			v.leave(value, "has no counterpart: LiteLLM does not send it either, response_format does that")
		default:
			v.set(name, value)
		}
	}
}

// roles begin a line with a new message.
var roles = map[string]string{"System": "system", "User": "user", "Assistant": "assistant"}

// readRoles reads the messages of a body. A line with a role begins one. Text before the
// first is a message of the user.
func (v *version) readRoles(at node, body string) {
	if rest := jinjaComment.ReplaceAllString(body, ""); rest != body { // which may span lines, even those with roles
		v.leave(at, "has a comment {# … #}")
		body = rest
	}
	role, content := "", []string(nil)
	flush := func(last bool) {
		text := strings.TrimSpace(strings.Join(content, "\n"))
		if role != "" && (text != "" || !last) {
			v.messages = append(v.messages, message(at, role, text))
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
		line = strings.TrimSpace(line)
		name, rest, found := strings.Cut(line, ":")
		switch began := roles[name]; {
		case found && began != "":
			flush(false)
			role, content = began, []string{strings.TrimSpace(rest)}
		case role == "":
			role, content = "user", []string{line}
		default:
			content = append(content, line)
		}
	}
	flush(true)
	if len(v.messages) == 0 {
		v.refuse(at, "has no text")
	}
}
