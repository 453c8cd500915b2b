package files

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

type document struct {
	*reader
	file string // below the folder, with slashes
	text []byte
	// page is the whole, and root its value, nil if the file has none.
	page, root *yaml.Node
	// folder has the files that !file names.
	folder folder
	// texts are the texts that nodes with !file stand for.
	texts   map[*yaml.Node]string
	secrets int // how many findSecretsBelow found
	failed  bool
}

func (d *document) mistake(n *yaml.Node, path []string, message string) {
	d.failed = true
	e := &Error{File: d.file, Path: withoutSecrets(pointer(path)), Message: message}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	d.mistakes.add(e)
}

// mistakesOf adds the mistakes that a check of n found. n is at path. A missing value is
// reported at the value that should have it.
func (d *document) mistakesOf(n *yaml.Node, path []string, err error) {
	add := func(at, message string) {
		names := slices.Collect(jsontext.Pointer(at).Tokens())
		place := append(slices.Clip(path), names...)
		value := locate(n, names)
		if last := len(names) - 1; strings.HasPrefix(message, "name ") { // which is not allowed
			value = cmp.Or(keyOf(locate(n, names[:last]), names[last]), value)
		}
		d.mistake(value, place, message)
	}
	if refused, ok := errors.AsType[*schema.Error](err); ok {
		for _, v := range refused.Violations {
			add(v.Path, v.Message)
		}
	} else if refused, ok := errors.AsType[*domain.Error](err); ok {
		for _, issue := range refused.Issues {
			add(issue.Path, issue.Message)
		}
	} else {
		d.mistake(n, path, err.Error())
	}
}

// locate returns the value at a path of names and indexes from n. If there is none, it
// returns the last one on the way.
func locate(n *yaml.Node, names []string) *yaml.Node {
	for _, name := range names {
		next := child(n, name)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// child returns a member of a mapping or an element of a sequence, nil if there is none. n may be nil.
func child(n *yaml.Node, name string) *yaml.Node {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		if i := keyIndex(n, name); i >= 0 {
			return n.Content[i+1]
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

func keyIndex(n *yaml.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// keyOf returns the key of a mapping, nil for none.
func keyOf(n *yaml.Node, name string) *yaml.Node {
	if i := keyIndex(n, name); n.Kind == yaml.MappingNode && i >= 0 {
		return n.Content[i]
	}
	return nil
}

func (d *document) include(n *yaml.Node, at []string) string {
	if n.Kind != yaml.ScalarNode {
		d.mistake(n, at, "!file needs the name of a file")
		return ""
	}
	name, problem := includeName(n.Value)
	var text []byte
	if problem == "" {
		text, problem = d.folder.read(name)
		d.findSecrets(path.Join(path.Dir(d.file), name), text)
	}
	if problem == "" && !utf8.Valid(text) {
		problem = "the file is not UTF-8"
	}
	if problem != "" {
		d.mistake(n, at, problem)
		return ""
	}
	d.texts[n] = string(withoutFinalBreak(text))
	return d.texts[n]
}

// includeName returns the path that !file names, cleaned, or a problem.
func includeName(name string) (clean, problem string) {
	clean = path.Clean(name)
	switch {
	case name == "" || clean == ".":
		return "", "!file needs the name of a file"
	case !fs.ValidPath(clean) || strings.ContainsAny(name, "\\:\x00") || slices.Contains(strings.Split(name, "/"), ".."):
		return "", "the file must be in the preset's own folder: its name has no .., no backslash, no colon and no slash before it"
	}
	return clean, ""
}

func withoutFinalBreak(text []byte) []byte {
	if rest, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		return bytes.TrimSuffix(rest, []byte("\r"))
	}
	return text
}
