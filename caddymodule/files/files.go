// Package files reads and writes presets as files. Each workspace has a folder, and each
// preset a YAML file in it.
//
//	presets/
//	  <workspace>/
//	    .workspace.yaml   the defaults of the workspace, optional
//	    <slug>.yaml       a preset
//	    <slug>.md         its prompt, if the YAML file says !file <slug>.md
//
// docs/files.md has the format. A file is checked like a request of the API, and read
// strictly. The package knows no server: package plan compares a Set with one.
package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
)

// Set is the content of a folder. Its workspaces are sorted by slug.
type Set struct {
	Workspaces []Workspace
}

// Workspace is the content of a workspace's folder. Its presets are sorted by slug.
type Workspace struct {
	Slug string
	// Defaults is a JSON object, as PATCH /workspaces/{id} takes it. It has the members
	// that .workspace.yaml names, and is nil without that file.
	Defaults json.RawMessage
	// Stored is the workspace as a server shows it, for Write. It makes a member that a file
	// names stay there, with this value. It is nil if unknown, and in a Set that was read.
	Stored  json.RawMessage
	Presets []Preset
}

// Preset is the content of a preset's file.
type Preset struct {
	Workspace string // the slug
	Slug      string
	// File is the path of the preset's file below the folder, with slashes.
	File string
	// Name is nil if the file has none. The preset's name then stays as it is, and a new
	// preset has its slug as its name.
	Name *string
	// Description is nil for none.
	Description *string
	// Status is domain.PresetActive or domain.PresetDisabled.
	Status domain.PresetStatus
	// Labels are all labels of the preset.
	Labels map[string]Label
	// Policy is nil for none.
	Policy *domain.Policy
	// Tags and Inputs are nil if the file has none. Those of the preset then stay as they are.
	Tags   []string
	Inputs []inputs.Content
	// Limits are nil for none.
	Limits *domain.PresetLimits
	// Earlier are versions that a new preset gets before Version, oldest first. They are
	// numbered from 1. They are not compared with a preset that has other versions.
	Earlier []Version
	// Version is what requests get.
	Version Version
	// Designated is the number of Version on a server, for Write. It is 0 if unknown, and
	// in a Set that was read.
	Designated int
}

// Version is a version as a file has it.
type Version struct {
	// Message is the author's reason, nil for none. Only Earlier versions have one.
	Message *string
	// Request is the body to POST: the request of the file as JSON, with every !file put
	// in. Numbers have the text of the file. Members that the API requires and the file
	// leaves out are not added; the API requires none.
	Request json.RawMessage
	// Capture is what the server stores of Request.
	Capture domain.Capture
}

// Label is the target of a label in a file.
type Label struct {
	// Version is the target, if there is no split.
	Version Number
	// Split is nil unless the label stands for several versions.
	Split []Share
}

// LabelOf returns a label of a server.
func LabelOf(target domain.Target) Label {
	l := Label{Version: Number(target.Version)}
	for _, share := range target.Split {
		l.Split = append(l.Split, Share{Version: Number(share.Version), Weight: share.Weight})
	}
	return l
}

// String returns the target for people, such as 3, latest or 2:90,latest:10.
func (l Label) String() string {
	if l.Split == nil {
		return l.Version.String()
	}
	shares := make([]string, len(l.Split))
	for i, share := range l.Split {
		shares[i] = share.Version.String() + ":" + strconv.Itoa(share.Weight)
	}
	return strings.Join(shares, ",")
}

// Share is a part of a split.
type Share struct {
	Version Number `json:"version"`
	Weight  int    `json:"weight"`
}

// Number is the number of a version. The zero value is "latest": the version that the
// file describes.
type Number int

// Latest is the version that the file describes.
const Latest Number = 0

// String returns the number, or latest.
func (n Number) String() string {
	if n == Latest {
		return "latest"
	}
	return strconv.Itoa(int(n))
}

// MarshalJSON returns the number, or "latest".
func (n Number) MarshalJSON() ([]byte, error) {
	if n == Latest {
		return json.Marshal(n.String())
	}
	return json.Marshal(int(n))
}

// UnmarshalJSON reads a number, such as 2 or 2.0, or "latest".
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == `"latest"` {
		*n = Latest
		return nil
	}
	number, err := strconv.ParseFloat(string(text), 64)
	if *n = Number(number); err != nil || float64(*n) != number {
		return errors.New("must be the number of a version, or latest")
	}
	return nil
}

// UnmarshalJSON reads a version and a weight, such as 2 or 2.0.
func (s *Share) UnmarshalJSON(text []byte) error {
	var share struct{ Version, Weight Number }
	err := json.Unmarshal(text, &share)
	s.Version, s.Weight = share.Version, int(share.Weight)
	return err
}

// UnmarshalJSON reads what a file says: a version, or an object with a split.
func (l *Label) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() != '{' {
		return json.Unmarshal(text, &l.Version)
	}
	var object struct{ Split []Share }
	err := json.Unmarshal(text, &object)
	l.Split = object.Split
	return err
}

// MarshalJSON returns an object with version or split, as the API has them.
func (l Label) MarshalJSON() ([]byte, error) {
	if l.Split != nil {
		return json.Marshal(map[string]any{"split": l.Split})
	}
	return json.Marshal(map[string]any{"version": l.Version})
}

// Error is a mistake in a file.
type Error struct {
	File string `json:"file"` // below the folder, with slashes
	// Line and Column count from 1. They are 0 if the mistake has no place.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is the JSON Pointer of the value, such as /responses/tools/0/name, or empty. A
	// long one ends in an ellipsis. It has the names of the file as they are.
	Path    string `json:"path"`
	Message string `json:"message"` // never shows a value of the file
}

// Error returns the mistake in one line, such as
// default/mail.yaml:3:5: /responses/temperature: must be a number.
// Characters of names that could command a terminal are escapes there.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(terminal.Escape(e.File))
	if e.Line > 0 {
		fmt.Fprintf(&text, ":%d:%d", e.Line, e.Column)
	}
	if e.Path != "" {
		text.WriteString(": " + terminal.Escape(e.Path))
	}
	if text.Len() > 0 {
		text.WriteString(": ")
	}
	return text.String() + e.Message
}

// MaxErrors bounds the mistakes in the text of Errors.
const MaxErrors = 100

// Errors are the mistakes of a folder, sorted by file and place.
type Errors []*Error

// Error returns the first mistakes, one in each line, and how many more there are.
func (e Errors) Error() string {
	lines := make([]string, min(len(e), MaxErrors))
	for i := range lines {
		lines[i] = e[i].Error()
	}
	if more := len(e) - MaxErrors; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more mistakes", more))
	}
	return strings.Join(lines, "\n")
}
