package files

import (
	"bytes"
	"cmp"
	"slices"

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
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
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
		if value := c.Content[i]; part.Kind == yaml.AliasNode && len(value.Content) > 0 && c.Kind == yaml.MappingNode {
			key := c.Content[i-1] // which has the comment of a block
			key.LineComment, value.LineComment = cmp.Or(key.LineComment, value.LineComment), ""
		}
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
