package domain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/wI2L/jsondiff"
)

// Diff returns the difference between two versions of a preset. from and to are each the
// number of a version, or a label. A version that the preset does not have is NotFound. An
// empty value, or a label with a split, is Invalid; the error names the query parameter,
// from or to.
//
// The answer is an object. from and to are the versions' numbers. config is a JSON Patch
// (RFC 6902). system_prompt is a unified diff of the prompts, null if they are equal. A
// missing prompt equals an empty one. template is a JSON Patch of the templates; that of a
// version without one is null.
//
// Numbers are compared by their text, so they may have any length. The order of an object's
// members does not count. If no array has more than 256 elements, the patch shows inserted and
// removed elements. Otherwise elements are compared by their index. If a patch could exceed 4
// MiB, it is one operation that replaces the whole.
func (s *Service) Diff(ctx context.Context, who Principal, workspace, slug, from, to string) (Found, error) {
	var source, target PresetVersion
	var workspaceID string
	err := s.store.View(ctx, func(r Reader) error {
		p, err := visiblePreset(r, who, workspace, slug)
		if err != nil {
			return err
		}
		workspaceID = p.WorkspaceID
		if source, err = namedVersion(r, p, from, "from"); err != nil {
			return err
		}
		target, err = namedVersion(r, p, to, "to")
		return err
	})
	if err != nil {
		return Found{}, err
	}
	diff := VersionDiff{From: source.Version, To: target.Version}
	if diff.Config, err = JSONPatch(source.Config, target.Config); err != nil {
		return Found{}, fmt.Errorf("comparing two configs: %w", err)
	}
	if diff.Template, err = JSONPatch(source.Template.JSON(), target.Template.JSON()); err != nil {
		return Found{}, fmt.Errorf("comparing two templates: %w", err)
	}
	label := func(v PresetVersion) string { return slug + "@" + strconv.Itoa(v.Version) }
	if diff.SystemPrompt, err = UnifiedDiff(label(source), label(target), valueOr(source.SystemPrompt, ""), valueOr(target.SystemPrompt, "")); err != nil {
		return Found{}, fmt.Errorf("comparing two prompts: %w", err)
	}
	text, err := encodeValue(diff)
	return tagged(Found{JSON: text, WorkspaceID: workspaceID, Number: target.Version}), err
}

// VersionDiff is the difference between two versions, as clients see it.
type VersionDiff struct {
	From   int              `json:"from"` // the number of a version, as To
	To     int              `json:"to"`
	Config []PatchOperation `json:"config"`
	// SystemPrompt is nil if the prompts are equal.
	SystemPrompt *string          `json:"system_prompt"`
	Template     []PatchOperation `json:"template"`
}

// namedVersion returns the version of p that a query parameter names by number or label.
func namedVersion(r Reader, p Preset, name, parameter string) (PresetVersion, error) {
	if name == "" {
		return PresetVersion{}, InvalidAt(parameter, "must be the number of a version, or a label")
	}
	if strings.Trim(name, "0123456789") == "" {
		if name[0] == '0' {
			return PresetVersion{}, InvalidAt(parameter, "must be a positive number without leading zeros, or a label")
		}
		n, ok := ParseNumber(name)
		if !ok { // it is higher than that of any version
			return PresetVersion{}, errNoSuchVersion(parameter)
		}
		return versionOf(r, p, n, parameter)
	}
	if !labelPattern.MatchString(name) {
		return PresetVersion{}, InvalidAt(parameter, "must be the number of a version, or a label")
	}
	n, err := p.versionOfLabel(name, parameter)
	if err != nil {
		return PresetVersion{}, err
	}
	return versionOf(r, p, n, parameter)
}

// UnifiedDiff returns the unified diff of two texts, with three lines of context and the
// labels in its first lines. It returns nil if the texts are equal.
func UnifiedDiff(fromLabel, toLabel, from, to string) (*string, error) {
	if from == to {
		return nil, nil
	}
	text, err := udiff.ToUnified(fromLabel, toLabel, from, udiff.Lines(from, to), udiff.DefaultContextLines)
	return &text, err
}

// PatchOperation is an operation of a JSON Patch (RFC 6902).
type PatchOperation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"` // nil for remove
}

const (
	// maxPatch bounds the size of a patch, and so the cost of finding one. It counts the
	// bytes of all paths and operations that two values could have. Tools of the maximum
	// size take half of it.
	maxPatch = 4 << 20
	// maxAligned bounds the arrays that are compared as sequences. That takes time and
	// memory quadratic in their length.
	maxAligned = 256
)

// JSONPatch returns the JSON Patch that turns one JSON value into another, as Diff does. If
// they are equal, it is empty and not nil. null is the value of what does not exist.
func JSONPatch(from, to json.RawMessage) ([]PatchOperation, error) {
	source, err := decodeValue(from)
	if err != nil {
		return nil, err
	}
	target, err := decodeValue(to)
	if err != nil {
		return nil, err
	}
	var e extent
	e.add(source, 0)
	e.add(target, 0)
	// If only one is null, that one is no template.
	if (source == nil) != (target == nil) || e.patch > maxPatch && !reflect.DeepEqual(source, target) {
		value, err := encodeValue(target)
		return []PatchOperation{{jsondiff.OperationReplace, "", value}}, err
	}
	var options []jsondiff.Option
	if e.longest <= maxAligned {
		options = append(options, jsondiff.LCS())
	}
	patch, err := jsondiff.CompareWithoutMarshal(source, target, options...)
	if err != nil {
		return nil, err
	}
	operations := make([]PatchOperation, len(patch))
	for i := range patch {
		operations[i] = PatchOperation{Op: patch[i].Type, Path: patch[i].Path}
		if patch[i].Type == jsondiff.OperationRemove {
			continue
		}
		if operations[i].Value, err = encodeValue(patch[i].Value); err != nil {
			return nil, err
		}
	}
	return operations, nil
}

// encodeValue returns the JSON of a value. Unlike the jsonv2 encoder, it writes a json.Number
// unchanged.
func encodeValue(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// decodeValue decodes JSON and keeps the text of its numbers.
func decodeValue(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// extent is the amount of data to compare.
type extent struct {
	patch   int // the size of a patch with an operation for every value, without the values
	longest int // the length of the longest array
}

// add adds a value. path is the length of its path in bytes.
func (e *extent) add(value any, path int) {
	const operation = len(`{"op":"replace","path":"","value":},`)
	const index = len("/131072") // of an element in the longest array that fits
	e.patch += operation + path
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			e.add(member, path+len("/")+len(name))
		}
	case []any:
		e.longest = max(e.longest, len(value))
		for _, element := range value {
			e.add(element, path+index)
		}
	}
}
