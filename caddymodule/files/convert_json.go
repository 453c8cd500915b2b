package files

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/schema"
)

// maxExpanded bounds the JSON of a file, with the texts of !file, in bytes.
const maxExpanded = 16 << 20

// entry is a member of a mapping.
type entry struct {
	name       string
	key, value *yaml.Node
}

// follow returns the node that an alias stands for, or the node itself, which may be nil.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// entries returns the members of a mapping. Names that are not strings, merge keys and
// repeated names are mistakes. So is another node than a mapping.
func (d *document) entries(n *yaml.Node, path []string) []entry {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		d.mistake(n, path, "must be an object: names, each with a colon and a value")
		return nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.mistake(n, path, unknownTag)
	}
	all := make([]entry, 0, len(n.Content)/2)
	var seen map[string]bool
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := d.name(key, path)
		if !ok {
			continue
		}
		var known bool
		if len(all) < 16 {
			known = slices.ContainsFunc(all, func(e entry) bool { return e.name == name })
		} else {
			if seen == nil {
				seen = make(map[string]bool)
				for _, e := range all {
					seen[e.name] = true
				}
			}
			known, seen[name] = seen[name], true
		}
		if known {
			d.mistake(key, append(path, name), "the name is there already")
			continue
		}
		all = append(all, entry{name, key, value})
	}
	return all
}

// unknownTag is the message for a list or an object with a tag.
const unknownTag = "has an unknown tag: lists and objects have none"

// name returns the name that a key stands for.
func (d *document) name(key *yaml.Node, path []string) (string, bool) {
	switch {
	case key.Kind == yaml.AliasNode:
		d.mistake(key, path, "a name cannot be an alias")
	case key.Kind == yaml.MappingNode:
		d.mistake(key, path, "a name must be a text: put a text with {{…}} in quotes")
	case key.Kind != yaml.ScalarNode:
		d.mistake(key, path, "a name must be a text")
	case key.Tag == "!!merge":
		d.mistake(key, path, "a merge key is not allowed: write the members, or use aliases for values")
	case key.Style&yaml.TaggedStyle != 0 && key.Tag != stringTag:
		d.mistake(key, path, "a name cannot have this tag")
	default:
		if s, problem := readScalar(key); problem == "" && s.kind == '"' {
			return s.text, true
		}
		d.mistake(key, path, "a name must be a text: put it in quotes")
	}
	return "", false
}

// converter writes YAML values as JSON.
type converter struct {
	*document
	json  []byte
	path  []string
	files bool // !file is allowed
	ended bool // a bound is exceeded
}

// value appends the JSON of n. Values with mistakes are null, 0 or empty.
func (c *converter) value(n *yaml.Node) {
	if c.ended {
		return
	}
	if len(c.path) > schema.MaxDepth {
		c.end(n, fmt.Sprintf("must not nest deeper than %d levels", schema.MaxDepth))
		return
	}
	c.content(follow(n))
	if !c.ended && c.expanded+len(c.json) > maxExpanded {
		c.end(n, fmt.Sprintf("a file with the texts of its !file may have at most %d bytes", maxExpanded))
	}
}

// end ends the conversion with a mistake.
func (c *converter) end(n *yaml.Node, message string) {
	c.mistake(n, c.path, message)
	c.ended = true
}

func (c *converter) content(n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		c.json = append(c.json, '{')
		for i, e := range c.entries(n, c.path) {
			if i > 0 {
				c.json = append(c.json, ',')
			}
			c.string(e.name)
			c.json = append(c.json, ':')
			c.path = append(c.path, e.name)
			c.value(e.value)
			c.path = c.path[:len(c.path)-1]
		}
		c.json = append(c.json, '}')
	case yaml.SequenceNode:
		if n.Style&yaml.TaggedStyle != 0 {
			c.mistake(n, c.path, unknownTag)
		}
		c.json = append(c.json, '[')
		for i, item := range n.Content {
			if i > 0 {
				c.json = append(c.json, ',')
			}
			c.path = append(c.path, strconv.Itoa(i))
			c.value(item)
			c.path = c.path[:len(c.path)-1]
		}
		c.json = append(c.json, ']')
	default:
		c.scalar(n)
	}
}

func (c *converter) scalar(n *yaml.Node) {
	if n.Style&yaml.TaggedStyle != 0 && n.Tag == fileTag {
		if !c.files {
			c.mistake(n, c.path, "!file is allowed only in the request")
			c.string("")
			return
		}
		c.string(c.include(n, c.path))
		return
	}
	s, problem := readScalar(n)
	if problem != "" {
		c.mistake(n, c.path, problem)
	}
	switch s.kind {
	case 'n':
		c.json = append(c.json, "null"...)
	case 't':
		c.json = append(c.json, "true"...)
	case 'f':
		c.json = append(c.json, "false"...)
	case '0':
		c.json = append(c.json, s.text...)
	default:
		c.string(s.text)
	}
}

func (c *converter) string(text string) { c.json, _ = jsontext.AppendQuote(c.json, text) }
