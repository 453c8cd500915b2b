package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/schema"
)

// maxExpanded bounds the JSON of a file, with the texts of !file, in bytes.
const maxExpanded = 16 << 20

// name returns the name that a key stands for.
func (d *document) name(key *yaml.Node, path []string) (string, bool) {
	switch {
	case key.Kind == yaml.MappingNode:
		d.mistake(key, path, "a name must be a text: put a text with {{…}} in quotes")
	case key.Tag == "!!merge":
		d.mistake(key, path, "a merge key is not allowed: write the members")
	default:
		if s, problem := readScalar(key); key.Kind == yaml.ScalarNode && problem == "" && s.kind == '"' {
			return s.text, true
		}
		d.mistake(key, path, "a name must be a text: put it in quotes, without an alias or a tag")
	}
	return "", false
}

type converter struct {
	*document
	json []byte
	path []string
	// isRequest reports whether a request has a path, where !file is allowed; nil for nowhere.
	isRequest func(path []string) bool
	// requests are apart, by their JSON Pointers. {} is in their places.
	requests  map[string][]byte
	inRequest bool
	apart     int  // the size of requests
	ended     bool // a bound is exceeded
}

// toJSON converts the whole document. It is not ok if that ended early. Values with mistakes, which
// are added, have other values there.
func (d *document) toJSON(isRequest func(path []string) bool) (c *converter, ok bool) {
	c = &converter{document: d, isRequest: isRequest, requests: make(map[string][]byte)}
	c.value(d.root)
	return c, !c.ended
}

// value appends the JSON of n. Values with mistakes are null, 0 or empty.
func (c *converter) value(n *yaml.Node) {
	switch {
	case c.ended:
		return
	case len(c.path) > schema.MaxDepth:
		c.end(n, fmt.Sprintf("must not nest deeper than %d levels", schema.MaxDepth))
		return
	case c.isRequest != nil && !c.inRequest && c.isRequest(c.path):
		start := len(c.json)
		c.inRequest = true
		c.content(n)
		c.inRequest = false
		request := bytes.Clone(c.json[start:])
		c.requests[pointer(c.path)] = request
		c.json, c.apart = append(c.json[:start], "{}"...), c.apart+len(request)
	default:
		c.content(n)
	}
	if !c.ended && c.apart+len(c.json) > maxExpanded {
		c.end(n, fmt.Sprintf("a file with the texts of its !file may have at most %d bytes", maxExpanded))
	}
}

func (c *converter) end(n *yaml.Node, message string) {
	c.mistake(n, c.path, message)
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
	case yaml.AliasNode:
		c.end(n, "an alias is not allowed: write the value, or put a text that begins with * in quotes")
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
	if d, ok := r.parse(folder{}, file, text); ok && d.root != nil {
		c, _ := d.toJSON(nil) // if it is not ok, there are mistakes
		value = c.json
	}
	if err := r.mistakes.err(); err != nil {
		return nil, err
	}
	return value, nil
}
