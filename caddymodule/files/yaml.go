package files

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// bom is the mark that some editors put before UTF-8.
var bom = []byte("\xef\xbb\xbf")

// parse returns the only document of a YAML text. It is nil for a text without any value. A mistake has
// no file.
func parse(text []byte) (*yaml.Node, *Error) {
	text = bytes.TrimPrefix(text, bom)
	if at, message := firstInvalid(text); message != "" {
		line, column := placeOf(text, at)
		return nil, &Error{Line: line, Column: column, Message: message}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxProblem(text, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Column: second.Column, Message: "a file has one document: remove this one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(text, err)
	}
	return &document, nil
}

// lineEnds are the characters besides the line feed that end a line for the YAML library, with
// their escapes. Editors show no new line, so a setting may hide behind a comment.
var lineEnds = map[rune]string{'\u2028': `\L`, '\u2029': `\P`, '\u0085': `\N`, '\r': `\r`}

// firstInvalid returns the index of the first character that no file may have, and why. The message
// is empty if there is none. A carriage return before a line feed is allowed.
func firstInvalid(text []byte) (at int, message string) {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError && size <= 1:
			return at, "is not UTF-8"
		case r == '\r' && bytes.HasPrefix(text[at+1:], []byte{'\n'}):
		case r >= utf8.RuneSelf || r == '\r':
			if escape := lineEnds[r]; escape != "" {
				return at, "has an invisible end of a line: remove it, or write it as " + escape + " in double quotes"
			}
		}
		at += size
	}
	return at, ""
}

// placeOf returns the line and the column of a byte of text. Both count from 1, columns in
// characters.
func placeOf(text []byte, at int) (line, column int) {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}

// syntaxProblem returns the problem of a text that is not YAML. The library often names
// the line where a block begins. So the line here is the first one with which the lines
// above it are not YAML any more.
func syntaxProblem(text []byte, err error) *Error {
	lines := bytes.SplitAfter(text, []byte{'\n'})
	ends := make([]int, len(lines)+1) // of the first i lines
	for i, line := range lines {
		ends[i+1] = ends[i] + len(line)
	}
	good, bad := 0, len(lines)
	for bad-good > 1 {
		middle := (good + bad) / 2
		if isYAML(text[:ends[middle]]) {
			good = middle
		} else {
			bad = middle
		}
	}
	line := string(lines[good])
	content := strings.TrimLeft(line, " \t")
	p := &Error{Line: good + 1, Column: len(line) - len(content) + 1, Message: "is not valid YAML"}
	indentation := line[:len(line)-len(content)]
	for _, known := range syntaxProblems {
		if strings.Contains(err.Error(), known.library) {
			p.Message = known.message
			break
		}
	}
	if begin := unquoted.FindStringSubmatch(content); begin != nil && !strings.Contains(err.Error(), "unknown anchor") {
		p.Message = begin[1] + " cannot begin a text: put the text in quotes"
	}
	if strings.Contains(content, `\/`) && strings.Contains(err.Error(), "unknown escape character") {
		p.Message = `\/ is an escape of JSON alone: write /`
	}
	if strings.Contains(indentation, "\t") && strings.Contains(err.Error(), "found ") {
		p.Message = tabMessage
	}
	return p
}

// unquoted matches a line whose text begins as something else of YAML: a variable of a template as a
// mapping, and emphasis of Markdown as an alias.
var unquoted = regexp.MustCompile(`^(?:- +)*(?:[^\s"'{}\[\]]+: +)?(\{\{|\*)`)

func isYAML(text []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

const tabMessage = "a tab cannot indent a line: use spaces"

// syntaxProblems are messages of the library, and what they mean.
var syntaxProblems = []struct{ library, message string }{
	{"found a tab character", tabMessage},
	{"cannot start any token", "this character cannot begin a text: put the text in quotes"},
	{"mapping values are not allowed", "a colon cannot stand here: check the indentation, or put the text in quotes"},
	{"did not find expected key", "does not fit the lines above: check the indentation and the quotes"},
	{"did not find expected '-' indicator", "does not fit the list above: check the indentation"},
	{"block sequence entries are not allowed", "a list cannot begin here: begin it in a line of its own"},
	{"could not find expected ':'", "a colon is missing behind the name"},
	{"found unexpected end of stream", "a quote is not closed"},
	{"found unexpected document indicator", "a quote is not closed"},
	{"did not find expected node content", "a bracket is not closed, or a value is missing"},
	{"did not find expected ',' or", "a bracket is not closed, or a comma is missing"},
	{"unknown anchor", "the alias names an anchor that is not there: put a text that begins with * in quotes"},
	{"control characters are not allowed", "control characters cannot stand in YAML: write them as escapes in double quotes"},
	{"unknown escape character", "there is no such escape in double quotes"},
	{"invalid Unicode character escape", "the escape is no character"},
	{"found undefined tag handle", "the tag is unknown"},
	{"exceeded max depth", "nests too deep"},
}
