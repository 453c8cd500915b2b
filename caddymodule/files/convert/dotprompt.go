package convert

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// readPromptFile reads the text of a .prompt file.
func (v *version) readPromptFile(at node, text string) {
	front, body, ok := cutFrontMatter(withoutReturns(text))
	if ok {
		value, err := files.JSONOf("", []byte(front))
		if err != nil {
			v.refuse(at, "the front matter: "+frontMatterMistake(err))
			return
		}
		v.readMetadata(node{file: at.file, path: at.path, value: bytes.Clone(value)})
	}
	v.readRoles(at, body)
}

// withoutReturns returns the text of a file with line feeds alone, and without a byte order mark.
func withoutReturns(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
}

// frontMatterMistake returns the first mistake of a front matter, with its line in the file.
func frontMatterMistake(err error) string {
	all, ok := errors.AsType[files.Errors](err)
	if !ok {
		return "is no YAML"
	}
	first := all[0]
	text := first.Message
	if first.Path != "" {
		text = first.Path + ": " + text
	}
	if first.Line > 0 {
		text = "line " + strconv.Itoa(first.Line+1) + ": " + text
	}
	return text
}

// cutFrontMatter returns the YAML between a first line of three hyphens and the next one,
// and the text behind it.
func cutFrontMatter(text string) (front, body string, ok bool) {
	first, rest, found := strings.Cut(text, "\n")
	if !found || strings.TrimRight(first, space) != "---" {
		return "", text, false
	}
	for at := 0; at < len(rest); {
		line, _, _ := strings.Cut(rest[at:], "\n")
		next := min(at+len(line)+1, len(rest))
		if strings.TrimRight(line, space) == "---" {
			return rest[:at], rest[next:], true
		}
		at = next
	}
	return "", text, false
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
var roles = []struct{ prefix, role string }{{"System:", "system"}, {"User:", "user"}, {"Assistant:", "assistant"}}

// cutRole returns the role that begins a line, and the text behind it.
func cutRole(line string) (role, rest string, ok bool) {
	for _, r := range roles {
		if rest, ok = strings.CutPrefix(line, r.prefix); ok {
			return r.role, rest, true
		}
	}
	return "", line, false
}

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
		began, rest, ok := cutRole(line)
		switch {
		case ok:
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
