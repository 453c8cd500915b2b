package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

const (
	// maxInput bounds all files of an input together, and all answers of a live account, in
	// bytes.
	maxInput = 64 << 20
	// maxFiles bounds the files of a folder.
	maxFiles = 10_000
	// maxParts bounds the members and the items that are read of an input. Each is counted as often
	// as it is read.
	maxParts = 1_000_000
)

// errTooManyParts is the error of an input with more than maxParts.
var errTooManyParts = fmt.Errorf("the input has more than %d members and items", maxParts)

// document is a file of the input.
type document struct {
	// name has no folder. It is empty for the standard input.
	name string
	text []byte
}

// documents returns the files of the input that have one of the extensions, sorted by
// name. One without a dot may be anywhere in the name. A file that is named itself may have any name, and
// may be a pipe.
func (c *conversion) documents(extensions ...string) ([]document, error) {
	left := int64(maxInput)
	if c.input == "-" {
		if c.options.Stdin == nil {
			return nil, errors.New("there is no standard input")
		}
		text, err := readBounded(c.options.Stdin, &left)
		return []document{{text: text}}, err
	}
	file, err := os.Open(c.input)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return c.folder(extensions, &left)
	}
	text, err := readBounded(file, &left)
	return []document{{filepath.Base(c.input), text}}, err
}

// folder returns the files of the folder. Subfolders are not read. A link counts as the file that it
// leads to, so that a pipe cannot hold the reader, and one that leads out of the folder is reported.
func (c *conversion) folder(extensions []string, left *int64) (documents []document, err error) {
	root, err := os.OpenRoot(c.input)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	found := 0
	for _, entry := range entries {
		name := entry.Name()
		isWanted := func(extension string) bool {
			at := strings.LastIndex(strings.ToLower(name), extension)
			return at >= 0 && (extension[0] != '.' || at+len(extension) == len(name))
		}
		if !slices.ContainsFunc(extensions, isWanted) {
			continue
		}
		info, err := root.Stat(name)
		if err == nil && !info.Mode().IsRegular() {
			continue
		}
		if found++; found > maxFiles {
			return nil, fmt.Errorf("%s has more than %d files", c.input, maxFiles)
		}
		var file *os.File
		if err == nil {
			file, err = root.Open(name)
		}
		if err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok {
				err = path.Err
			}
			c.refuse(node{file: name}, "cannot be read, and may be a link out of the folder or to nothing: "+err.Error())
			continue
		}
		text, err := readBounded(file, left)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		documents = append(documents, document{name, text})
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s has no file that ends in %s", c.input, strings.Join(extensions, " or "))
	}
	return documents, nil
}

// readBounded reads what is left of maxInput.
func readBounded(from io.Reader, left *int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(text)); *left < 0 {
		return nil, fmt.Errorf("the input has more than %d bytes", maxInput)
	}
	return text, nil
}

// roots returns the JSON texts of the input's files. A file that is no JSON is reported.
func (c *conversion) roots() (roots []node, err error) {
	documents, err := c.documents(".json")
	for _, d := range documents {
		if root, err := c.file(d.name).parse(d.text); err != nil {
			c.refuse(node{file: d.name}, err.Error())
		} else {
			roots = append(roots, root)
		}
	}
	return roots, err
}

// yamlRoots returns the values of the input's YAML files, of which JSON is a part. A file that cannot be read
// is reported.
func (c *conversion) yamlRoots(extensions ...string) (roots []node, err error) {
	if c.isLive() {
		return nil, errors.New("the source has files alone, and no account that can be read")
	}
	documents, err := c.documents(extensions...)
	for _, d := range documents {
		root := c.file(d.name)
		value, err := files.JSONOf("", d.text)
		if mistakes, ok := errors.AsType[files.Errors](err); ok {
			c.refuse(root, "is no YAML of a configuration: "+strings.TrimPrefix(mistakes[0].Error(), ":"))
			continue
		}
		root.value = bytes.Clone(value)
		roots = append(roots, root)
	}
	return roots, err
}

// prompts collects the versions of prompts by name.
type prompts struct {
	all    []*prompt
	byName map[string]*prompt
}

// of returns the prompt of a name.
func (p *prompts) of(name string) *prompt {
	if found := p.byName[name]; found != nil {
		return found
	}
	if p.byName == nil {
		p.byName = make(map[string]*prompt)
	}
	made := &prompt{name: name}
	p.byName[name] = made
	p.all = append(p.all, made)
	return made
}
