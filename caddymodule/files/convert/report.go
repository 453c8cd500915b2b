package convert

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

// Report tells what a conversion made, and what has no counterpart. It has names and places,
// and never the text of a prompt or the value of a setting.
type Report struct {
	Source  Source    `json:"source"`
	Written []Written `json:"written"`
	Entries []Entry   `json:"entries"`
}

// Written is a preset that was made.
type Written struct {
	// Prompt is the name in the source.
	Prompt    string `json:"prompt"`
	Workspace string `json:"workspace"`
	Slug      string `json:"slug"`
	// Version is the number of the version in the source that requests get, 0 if unknown.
	Version int `json:"version"`
	// Versions is how many versions the file has.
	Versions int `json:"versions"`
}

// Kind is the kind of an Entry.
type Kind string

const (
	// NotWritten is a prompt or a version that no file has.
	NotWritten Kind = "not_written"
	// LeftOut is a part that has no counterpart.
	LeftOut Kind = "left_out"
	// Changed is a part that is another one here, or that needs a look.
	Changed Kind = "changed"
)

// Entry is a finding of a conversion.
type Entry struct {
	Kind Kind `json:"kind"`
	// Prompt is the name of the prompt in the source, empty if the finding has none.
	Prompt string `json:"prompt,omitempty"`
	// Version is its number in the source, 0 if unknown, or if the prompt as a whole is meant.
	Version int `json:"version,omitempty"`
	// File is the file of the input, or the path of a request to a live account.
	File string `json:"file,omitempty"`
	// Path is the JSON Pointer of the part in that file.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// Count returns the number of entries of a kind.
func (r *Report) Count(kind Kind) (count int) {
	for _, e := range r.Entries {
		if e.Kind == kind {
			count++
		}
	}
	return count
}

// kinds are in the order of a report for people, with what its lines begin with.
var kinds = []struct {
	kind Kind
	text string
}{{NotWritten, "not written"}, {LeftOut, "left out"}, {Changed, "different"}}

// Print writes the report for people, a finding in each line. Control characters of names
// are escaped.
func (r *Report) Print(w io.Writer) error {
	var text strings.Builder
	for _, p := range r.Written {
		fmt.Fprintf(&text, "written: %s/%s.yaml: %s", p.Workspace, p.Slug, terminal.Escape(p.Prompt))
		if p.Version > 0 {
			fmt.Fprintf(&text, ", version %d", p.Version)
		}
		if p.Versions > 1 {
			fmt.Fprintf(&text, ", with %d earlier", p.Versions-1)
		}
		text.WriteByte('\n')
	}
	for _, kind := range kinds {
		for _, e := range r.Entries {
			if e.Kind == kind.kind {
				text.WriteString(kind.text + ": " + e.line() + "\n")
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// line returns the entry for people.
func (e *Entry) line() string {
	var parts []string
	if e.Prompt != "" {
		name := terminal.Escape(e.Prompt)
		if e.Version > 0 {
			name += " version " + strconv.Itoa(e.Version)
		}
		parts = append(parts, name)
	}
	if e.File != "" {
		parts = append(parts, terminal.Escape(e.File))
	}
	if e.Path != "" {
		parts = append(parts, terminal.Escape(e.Path))
	}
	return strings.Join(append(parts, terminal.Escape(e.Message)), ": ")
}
