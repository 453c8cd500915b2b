package files

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rewritten returns the text of the document with another value. It keeps all comments but those of
// members that go, the order of members, and the form of each value that means the same.
func (d *document) rewritten(wanted *yaml.Node) ([]byte, error) {
	root := d.merged(d.root, wanted)
	if root == d.root {
		return d.text, nil
	}
	page := *d.page
	page.Content = []*yaml.Node{root}
	return encoded(&page)
}

// encoded returns the text of a value, with two spaces for each level.
func encoded(n *yaml.Node) ([]byte, error) {
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	err := errors.Join(e.Encode(n), e.Close())
	return text.Bytes(), err
}

// merged returns wanted with what a person wrote at old, or old itself if it means the same.
func (d *document) merged(old, wanted *yaml.Node) *yaml.Node {
	if d.means(old, wanted) {
		return old
	}
	n := *wanted
	n.HeadComment, n.LineComment, n.FootComment = old.HeadComment, old.LineComment, old.FootComment
	if old.Kind != wanted.Kind || n.Kind == yaml.ScalarNode {
		return &n
	}
	n.Content, n.Style = nil, old.Style&yaml.FlowStyle
	if n.Kind == yaml.MappingNode {
		d.mergeMembers(&n, old, wanted)
		return &n
	}
	for i, item := range wanted.Content {
		at := slices.IndexFunc(old.Content, func(other *yaml.Node) bool { return d.means(other, item) })
		isFree := at < 0 && i < len(old.Content) && !slices.ContainsFunc(wanted.Content, func(other *yaml.Node) bool { return d.means(old.Content[i], other) })
		switch {
		case at >= 0:
			item = old.Content[at]
		case isFree:
			item = d.merged(old.Content[i], item)
		}
		n.Content = append(n.Content, item)
	}
	return &n
}

// mergeMembers adds members to n: those of old in their order, and each new one before the member that
// follows it in wanted.
func (d *document) mergeMembers(n, old, wanted *yaml.Node) {
	for i := 0; i < len(old.Content); i += 2 {
		if value := child(wanted, old.Content[i].Value); value != nil {
			n.Content = append(n.Content, old.Content[i], d.merged(old.Content[i+1], value))
		}
	}
	next := len(n.Content)
	for i := len(wanted.Content) - 2; i >= 0; i -= 2 {
		key := wanted.Content[i]
		if child(old, key.Value) == nil {
			n.Content = slices.Insert(n.Content, next, key, wanted.Content[i+1])
			continue
		}
		next = keyIndex(n, key.Value)
	}
	// The line with the schema stays the first one.
	if len(old.Content) == 0 || len(n.Content) == 0 {
		return
	}
	if first, now := old.Content[0], n.Content[0]; now != first && strings.HasPrefix(first.HeadComment, schemaComment) {
		now.HeadComment, first.HeadComment = first.HeadComment, ""
	}
}

// means reports whether a value of the document means the same as another one. The order of members
// does not count.
func (d *document) means(old, other *yaml.Node) bool {
	switch {
	case old == other:
		return true
	case isFile(old) || isFile(other):
		if isFile(old) && isFile(other) {
			return old.Value == other.Value
		}
		s, _ := readScalar(other)
		return isFile(old) && other.Kind == yaml.ScalarNode && s.kind == '"' && s.text == d.texts[old]
	case old.Kind != other.Kind || len(old.Content) != len(other.Content):
		return false
	case old.Kind == yaml.ScalarNode:
		x, _ := readScalar(old)
		y, _ := readScalar(other)
		return x == y
	case old.Kind == yaml.SequenceNode:
		return slices.EqualFunc(old.Content, other.Content, d.means)
	}
	for i := 0; i < len(old.Content); i += 2 {
		if value := child(other, old.Content[i].Value); value == nil || !d.means(old.Content[i+1], value) {
			return false
		}
	}
	return true
}
