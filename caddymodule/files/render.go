package files

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// textNode returns the node of a string. The encoder chooses quotes for a line that needs some.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: stringTag, Value: text}
	meaning, problem := readScalar(wordNode(text))
	switch {
	case canBeLiteral(text):
		n.Style = yaml.LiteralStyle
	case problem != "" || meaning.kind != '"' || text == "<<" || strings.ContainsFunc(text, func(c rune) bool { return !isPlainRune(c) }):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// wordNode returns a node for a number, true, false, null, or a word that is a string.
func wordNode(word string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: word} }

func isFile(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 && n.Tag == fileTag
}

func put(mapping *yaml.Node, name string, value *yaml.Node) {
	key := textNode(name)
	if key.Style == yaml.LiteralStyle {
		key.Style = yaml.DoubleQuotedStyle
	}
	mapping.Content = append(mapping.Content, key, value)
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

// canBeLiteral reports whether a text has several lines that a literal can have. It leaves
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
