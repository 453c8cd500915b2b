package files

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// The nodes that are written have no style: render chooses it.

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: stringTag, Style: yaml.DoubleQuotedStyle, Value: text}
}

// wordNode returns a node for a number, true, false, null, or a word that is a string.
func wordNode(word string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: word} }

func fileNode(name string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: fileTag, Style: yaml.TaggedStyle, Value: name}
}

func isFile(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 && n.Tag == fileTag
}

// put adds a member to a mapping.
func put(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, textNode(name), value)
}

// jsonNode returns the node of a JSON value. Members and numbers keep their order and text.
// The value nests at most schema.MaxDepth levels: each level indents all lines in it.
func jsonNode(value jsontext.Value) *yaml.Node {
	value = bytes.TrimLeft(value, " \t\r\n")
	switch value.Kind() {
	case '{':
		n := &yaml.Node{Kind: yaml.MappingNode}
		for name, member := range rawjson.Pairs(value) {
			text, _ := rawjson.Text(name)
			put(n, text, jsonNode(member))
		}
		return n
	case '[':
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range rawjson.Items(value) {
			n.Content = append(n.Content, jsonNode(item))
		}
		return n
	case '"':
		text, _ := rawjson.Text(value)
		return textNode(text)
	default:
		return wordNode(string(bytes.TrimRight(value, " \t\r\n")))
	}
}

// renderer writes nodes in block style. It has two spaces for each level. Lines end with \n.
type renderer struct{ bytes.Buffer }

// rendered returns the text of a value, without a line break at its end.
func rendered(n *yaml.Node) string {
	var r renderer
	if len(n.Content) == 0 {
		return "{}"
	}
	r.collection(n, 0)
	return r.String()
}

// member writes a member of a mapping that is indented by some spaces. The first line has
// no indentation, and the last one no line break.
func (r *renderer) member(name string, value *yaml.Node, indent int) {
	r.WriteString(inline(name))
	r.WriteByte(':')
	r.after(value, indent)
}

// item writes an element of a sequence, as member does.
func (r *renderer) item(value *yaml.Node, indent int) {
	value = follow(value)
	r.WriteByte('-')
	if len(value.Content) == 0 {
		r.after(value, indent)
		return
	}
	r.WriteByte(' ')
	r.collection(value, indent+2)
}

// after writes a value behind a colon or a hyphen.
func (r *renderer) after(value *yaml.Node, indent int) {
	value = follow(value)
	switch {
	case value.Kind == yaml.MappingNode && len(value.Content) == 0:
		r.WriteString(" {}")
	case value.Kind == yaml.SequenceNode && len(value.Content) == 0:
		r.WriteString(" []")
	case value.Kind == yaml.ScalarNode:
		r.WriteByte(' ')
		r.scalar(value, indent)
	default:
		r.line(indent + 2)
		r.collection(value, indent+2)
	}
}

func (r *renderer) line(indent int) {
	r.WriteByte('\n')
	r.WriteString(strings.Repeat(" ", indent))
}

// collection writes a mapping or sequence that is not empty.
func (r *renderer) collection(n *yaml.Node, indent int) {
	first := true
	separate := func() {
		if !first {
			r.line(indent)
		}
		first = false
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			separate()
			r.item(item, indent)
		}
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		separate()
		r.member(n.Content[i].Value, n.Content[i+1], indent)
	}
}

func (r *renderer) scalar(n *yaml.Node, indent int) {
	if isFile(n) {
		r.WriteString(fileTag + " " + inline(n.Value))
		return
	}
	s, _ := readScalar(n)
	switch s.kind {
	case 'n':
		r.WriteString("null")
	case 't':
		r.WriteString("true")
	case 'f':
		r.WriteString("false")
	case '0':
		r.WriteString(s.text)
	default:
		if canBeLiteral(s.text) {
			r.literal(s.text, indent+2)
		} else {
			r.WriteString(inline(s.text))
		}
	}
}

// literal writes a text of several lines.
func (r *renderer) literal(text string, indent int) {
	lines, ended := strings.CutSuffix(text, "\n")
	r.WriteByte('|')
	if !ended {
		r.WriteByte('-')
	}
	for line := range strings.SplitSeq(lines, "\n") {
		if line == "" {
			r.WriteByte('\n')
			continue
		}
		r.line(indent)
		r.WriteString(line)
	}
}

// canBeLiteral reports whether a text has several lines that literal can write. It leaves
// out spaces at the beginning and empty lines at the end, whose rules are subtle.
func canBeLiteral(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	last := body[strings.LastIndexByte(body, '\n')+1:]
	return strings.Contains(text, "\n") && strings.TrimLeft(text[:1], " \t\n") != "" && strings.Trim(last, " \t") != "" &&
		!strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && c != '\t' && !isPlainRune(c) })
}

// isPlainRune reports whether a character can stand in YAML without an escape.
func isPlainRune(c rune) bool {
	return c == ' ' || unicode.IsGraphic(c) && c != '\u2028' && c != '\u2029' && c != '\ufeff' && c != '\u00a0'
}

// inline returns a string in one line, in double quotes if it needs them.
func inline(text string) string {
	if isPlain(text) {
		return text
	}
	quoted := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			quoted = append(quoted, '\\', byte(c))
		case c == '\n':
			quoted = append(quoted, `\n`...)
		case c == '\t':
			quoted = append(quoted, `\t`...)
		case c == '\r':
			quoted = append(quoted, `\r`...)
		case isPlainRune(c):
			quoted = append(quoted, string(c)...)
		case c < 0x100:
			quoted = fmt.Appendf(quoted, `\x%02x`, c)
		case c < 0x10000:
			quoted = fmt.Appendf(quoted, `\u%04x`, c)
		default:
			quoted = fmt.Appendf(quoted, `\U%08x`, c)
		}
	}
	return string(append(quoted, '"'))
}

// oldBooleans are booleans for readers of YAML 1.1.
var oldBooleans = []string{"y", "n", "yes", "no", "on", "off"}

// numeric are dates, times and numbers of some reader.
var numeric = regexp.MustCompile(`^[-+.0-9][-+.:_0-9a-fA-FxXoOtTzZ ]*$`)

// isPlain reports whether every reader of YAML takes a text without quotes for this string.
func isPlain(text string) bool {
	if text == "" || strings.ContainsAny(text[:1], "-?:,[]{}#&*!|>'\"%@`=< ") || strings.ContainsAny(text[len(text)-1:], ": ") ||
		strings.Contains(text, ": ") || strings.Contains(text, " #") || strings.ContainsFunc(text, func(c rune) bool { return !isPlainRune(c) }) {
		return false
	}
	s, problem := readScalar(wordNode(text))
	return problem == "" && s.kind == '"' && !numeric.MatchString(text) && !slices.Contains(oldBooleans, strings.ToLower(text))
}
