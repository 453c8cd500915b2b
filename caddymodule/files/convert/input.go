package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxInput bounds all files of an input together, and all answers of a live account, in
	// bytes.
	maxInput = 64 << 20
	// maxFiles bounds the files of a folder.
	maxFiles = 10_000
	// maxPrompts bounds the prompts and versions of an input, and each list of a live account.
	maxPrompts = 20_000
)

// document is a file of the input.
type document struct {
	// name has no folder. It is empty for the standard input.
	name string
	text []byte
}

// documents returns the files of the input that have one of the extensions, sorted by
// name. A file that is named itself may have any name. Subfolders are not read. Links out
// of a folder are not followed.
func (c *conversion) documents(extensions ...string) ([]document, error) {
	left := int64(maxInput)
	if c.input == "-" {
		if c.options.Stdin == nil {
			return nil, errors.New("there is no standard input")
		}
		text, err := readBounded(c.options.Stdin, &left)
		return []document{{text: text}}, err
	}
	info, err := os.Stat(c.input)
	if err != nil {
		return nil, err
	}
	var names []string
	switch {
	case info.Mode().IsRegular():
		names = []string{c.input}
	case info.IsDir():
		if names, err = c.namesIn(extensions); err != nil {
			return nil, err
		}
	default:
		// A pipe has a writer, who decides how long it is.
		file, err := os.Open(c.input)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		text, err := readBounded(file, &left)
		return []document{{name: filepath.Base(c.input), text: text}}, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no file that ends in %s", c.input, strings.Join(extensions, " or "))
	}
	open := os.Open
	if info.IsDir() {
		root, err := os.OpenRoot(c.input)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		open = root.Open
	}
	documents := make([]document, 0, len(names))
	for _, name := range names {
		file, err := open(name)
		if err != nil && info.IsDir() {
			c.unreadable(name, cannotBeRead(err))
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := readBounded(file, &left)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		documents = append(documents, document{name: filepath.Base(name), text: text})
	}
	return documents, nil
}

// cannotBeRead returns the message about a file of a folder that could not be opened.
func cannotBeRead(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return "cannot be read, and may be a link out of the folder or to nothing: " + err.Error()
}

// namesIn returns the files of the folder with one of the extensions. A link counts as the
// file that it leads to, so that a pipe cannot hold the reader. One that leads out of the folder is
// reported.
func (c *conversion) namesIn(extensions []string) (names []string, err error) {
	root, err := os.OpenRoot(c.input)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := os.ReadDir(c.input)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !slices.Contains(extensions, strings.ToLower(filepath.Ext(name))) {
			continue
		}
		info, err := root.Stat(name)
		if err != nil {
			c.unreadable(name, cannotBeRead(err))
			continue
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if names = append(names, name); len(names) > maxFiles {
			return nil, fmt.Errorf("%s has more than %d files", c.input, maxFiles)
		}
	}
	return names, nil
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
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		root, err := parse(d.name, "", d.text)
		if err != nil {
			c.unreadable(d.name, err.Error())
			continue
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// unreadable reports a file of the input that cannot be read.
func (c *conversion) unreadable(file, message string) {
	c.report.Entries = append(c.report.Entries, Entry{Kind: NotWritten, File: file, Message: message})
}

// refuse reports a part of the input that is no prompt.
func (c *conversion) refuse(at node, message string) {
	c.report.Entries = append(c.report.Entries, Entry{Kind: NotWritten, File: at.file, Path: at.path, Message: message})
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

// errTooManyPrompts is the error of an input with more than maxPrompts.
var errTooManyPrompts = fmt.Errorf("the input has more than %d prompts or versions", maxPrompts)
