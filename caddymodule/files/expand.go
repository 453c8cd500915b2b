package files

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// rendered returns the text of a new file.
func rendered(header string, root *yaml.Node) []byte {
	var r renderer
	r.WriteString(header)
	if len(root.Content) == 0 {
		r.WriteString("{}")
	} else {
		r.collection(root, 0)
	}
	r.WriteByte('\n')
	return r.Bytes()
}

func hasAlias(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return true
	}
	for _, part := range n.Content {
		if hasAlias(part) {
			return true
		}
	}
	return false
}

// expand returns a copy of n with the values of aliases in their place. Comments stay.
func expand(n *yaml.Node) *yaml.Node {
	c := *n
	if n.Kind == yaml.AliasNode {
		c = *n.Alias
		c.HeadComment, c.LineComment, c.FootComment = n.HeadComment, n.LineComment, n.FootComment
	}
	c.Anchor = ""
	parts := c.Content
	c.Content = make([]*yaml.Node, len(parts))
	for i, part := range parts {
		c.Content[i] = expand(part)
	}
	return &c
}

// encode returns the text of a document.
func encode(root *yaml.Node) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return text.Bytes(), encoder.Close()
}
