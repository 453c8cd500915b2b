package files

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/schema"
)

const (
	// maxExpanded bounds the JSON of a file, with the texts of !file, in bytes.
	maxExpanded = 16 << 20
	// maxAliased bounds the JSON that all aliases of a file stand for, in bytes.
	maxAliased = 1 << 20
)

// follow returns the node that an alias stands for, or the node itself, which may be nil.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// name returns the name that a key stands for.
func (d *document) name(key *yaml.Node, path []string) (string, bool) {
	switch {
	case key.Kind == yaml.MappingNode:
		d.mistake(key, path, "a name must be a text: put a text with {{…}} in quotes")
	case key.Tag == "!!merge":
		d.mistake(key, path, "a merge key is not allowed: write the members, or use aliases for values")
	default:
		if s, problem := readScalar(key); key.Kind == yaml.ScalarNode && problem == "" && s.kind == '"' {
			return s.text, true
		}
		d.mistake(key, path, "a name must be a text: put it in quotes, without an alias or a tag")
	}
	return "", false
}

// converter writes the values of a document as JSON.
type converter struct {
	*document
	json []byte
	path []string
	// isRequest reports whether a request has a path, where !file is allowed; nil for nowhere.
	isRequest func(path []string) bool
	// requests are apart, by their JSON Pointers. {} is in their places.
	requests  map[string][]byte
	inRequest bool
	apart     int                 // the size of requests and of what is around them
	open      map[*yaml.Node]bool // the values with anchors around this one
	// alias is the alias around this value, nil for none. It is at aliasPath, and begins at aliasStart.
	alias      *yaml.Node
	aliasPath  []string
	aliasStart int
	aliased    int  // what the aliases before it stand for, in bytes
	ended      bool // a bound is exceeded
}

// toJSON converts the whole document. It is not ok if that ended early. Values with mistakes, which
// are added, have other values there.
func (d *document) toJSON(isRequest func(path []string) bool) (c *converter, ok bool) {
	c = &converter{document: d, isRequest: isRequest, requests: make(map[string][]byte), open: make(map[*yaml.Node]bool)}
	c.value(d.root)
	return c, !c.ended
}

// size is what was written so far, in bytes.
func (c *converter) size() int { return c.apart + len(c.json) }

// value appends the JSON of n. Values with mistakes are null, 0 or empty.
func (c *converter) value(n *yaml.Node) {
	target := follow(n)
	switch {
	case c.ended:
		return
	case len(c.path) > schema.MaxDepth:
		c.end(n, c.path, fmt.Sprintf("must not nest deeper than %d levels", schema.MaxDepth))
		return
	case c.open[target]:
		c.end(n, c.path, "the alias stands for a value around it")
		return
	}
	if target.Anchor != "" {
		c.open[target] = true
		defer delete(c.open, target)
	}
	if n.Kind == yaml.AliasNode && c.alias == nil {
		c.alias, c.aliasPath, c.aliasStart = n, slices.Clone(c.path), c.size()
		defer func() {
			c.aliased += c.size() - c.aliasStart
			c.alias = nil
		}()
	}
	if c.isRequest != nil && !c.inRequest && c.isRequest(c.path) {
		around := c.json
		c.apart += len(around)
		c.json, c.inRequest = nil, true
		c.content(target)
		c.requests[pointer(c.path)] = c.json
		c.apart += len(c.json) - len(around)
		c.json, c.inRequest = append(around, "{}"...), false
	} else {
		c.content(target)
	}
	switch {
	case c.ended:
	case c.alias != nil && c.aliased+c.size()-c.aliasStart > maxAliased:
		c.end(c.alias, c.aliasPath, fmt.Sprintf("the aliases of a file may stand for at most %d bytes", maxAliased))
	case c.size() > maxExpanded:
		c.end(n, c.path, fmt.Sprintf("a file with the texts of its !file may have at most %d bytes", maxExpanded))
	}
}

// end ends the conversion with a mistake.
func (c *converter) end(n *yaml.Node, path []string, message string) {
	c.mistake(n, path, message)
	c.ended = true
}

func (c *converter) content(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 {
		c.mistake(n, c.path, "has an unknown tag: lists and objects have none")
	}
	switch n.Kind {
	case yaml.MappingNode:
		c.json = append(c.json, '{')
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, ok := c.name(n.Content[i], c.path)
			if !ok {
				continue
			}
			c.path = append(c.path, name)
			if seen[name] {
				c.mistake(n.Content[i], c.path, "the name is there already")
			} else {
				if len(seen) > 0 {
					c.json = append(c.json, ',')
				}
				c.string(name)
				c.json = append(c.json, ':')
				c.value(n.Content[i+1])
			}
			seen[name] = true
			c.path = c.path[:len(c.path)-1]
		}
		c.json = append(c.json, '}')
	case yaml.SequenceNode:
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
		if !c.inRequest {
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
	if s.kind == '"' {
		c.string(s.text)
	} else {
		c.json = append(c.json, s.word()...)
	}
}

func (c *converter) string(text string) { c.json, _ = jsontext.AppendQuote(c.json, text) }

// JSONOf returns the value of a YAML text as JSON. It reads the text as strictly as a
// preset's file, and numbers keep their text. A text without a value is null. file names
// the text in mistakes. The error is Errors.
func JSONOf(file string, text []byte) (json.RawMessage, error) {
	r := &reader{}
	value := json.RawMessage("null")
	if d, ok := r.parse(nil, file, text); ok && d.root != nil {
		c, _ := d.toJSON(nil) // if it is not ok, there are mistakes
		value = c.json
	}
	if err := r.mistakes.err(); err != nil {
		return nil, err
	}
	return value, nil
}
