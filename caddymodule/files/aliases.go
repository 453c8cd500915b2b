package files

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxAliased bounds the JSON that all aliases of a file stand for, in bytes.
const maxAliased = 1 << 20

// aliasChecker measures the values of a document, and what its aliases stand for.
type aliasChecker struct {
	*document
	path    []string
	sizes   map[*yaml.Node]int // of the values with anchors that are measured
	aliased int                // what the aliases so far stand for, in bytes
	refused bool
}

// checkAliases reports an alias in its own value, and aliases that stand for more than
// maxAliased. Then it is not ok. Otherwise a walk that follows all aliases ends soon.
func (d *document) checkAliases(root *yaml.Node) (ok bool) {
	c := aliasChecker{document: d, sizes: make(map[*yaml.Node]int)}
	c.measure(root)
	return !c.refused
}

// measure returns about how many bytes of JSON a value is, or more than maxAliased. Texts of
// !file do not count.
func (c *aliasChecker) measure(n *yaml.Node) (size int) {
	switch n.Kind {
	case yaml.AliasNode:
		return c.alias(n)
	case yaml.MappingNode:
		size = len("{}")
		for i := 0; i+1 < len(n.Content); i += 2 {
			size += c.measure(n.Content[i]) + c.measureIn(n.Content[i].Value, n.Content[i+1])
		}
	case yaml.SequenceNode:
		size = len("[]")
		for i, item := range n.Content {
			size += c.measureIn(strconv.Itoa(i), item)
		}
	default:
		size = len(n.Value) + len(`"",`)
	}
	size = min(size, maxAliased+1)
	if n.Anchor != "" {
		c.sizes[n] = size
	}
	return size
}

// measureIn measures a member or an element.
func (c *aliasChecker) measureIn(name string, n *yaml.Node) int {
	c.path = append(c.path, name)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	return c.measure(n)
}

// alias measures what an alias stands for. That stands before the alias, so it is measured
// already, or it is around the alias.
func (c *aliasChecker) alias(n *yaml.Node) int {
	size, ok := c.sizes[n.Alias]
	wasTooMuch := c.aliased > maxAliased
	c.aliased = min(c.aliased+size, maxAliased+1)
	switch {
	case !ok:
		c.refuse(n, "the alias stands for a value around it")
	case c.aliased > maxAliased && !wasTooMuch:
		c.refuse(n, fmt.Sprintf("the aliases of a file may stand for at most %d bytes", maxAliased))
	}
	return size
}

func (c *aliasChecker) refuse(n *yaml.Node, message string) {
	c.mistake(n, c.path, message)
	c.refused = true
}
