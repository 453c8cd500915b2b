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

// Diff tells what makes one version of a preset out of another. from and to are
// each the number of a version or a label that stands for one. One that the
// preset does not have is NotFound; one that is empty, or a label with a split,
// is Invalid and named by the query parameter, from or to.
//
// The answer is an object: from and to are the versions' numbers, config a JSON
// Patch (RFC 6902), and system_prompt a unified diff of the prompts, null where
// they are equal. No prompt and an empty one are equal: neither has a line.
//
// Numbers in config are compared by their text, so that none is too long, and
// objects without regard to order. Where an array has more than maxAligned
// elements, those of one index are compared with each other; else what was put
// in or taken out is found. Configs with so much in them that a patch could
// exceed maxPatch give one operation that replaces all.
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
	diff := struct {
		From         int              `json:"from"`
		To           int              `json:"to"`
		Config       []patchOperation `json:"config"`
		SystemPrompt *string          `json:"system_prompt"`
	}{From: source.Version, To: target.Version}
	if diff.Config, err = patchOf(source.Config, target.Config); err != nil {
		return Found{}, fmt.Errorf("comparing two configs: %w", err)
	}
	label := func(v PresetVersion) string { return slug + "@" + strconv.Itoa(v.Version) }
	if diff.SystemPrompt, err = unifiedDiff(label(source), label(target), valueOr(source.SystemPrompt, ""), valueOr(target.SystemPrompt, "")); err != nil {
		return Found{}, fmt.Errorf("comparing two prompts: %w", err)
	}
	// Unlike the other encoder this one writes a json.Number as it is.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(diff)
	return tagged(Found{JSON: bytes.TrimSuffix(text.Bytes(), []byte("\n")), WorkspaceID: workspaceID, Number: target.Version}), err
}

// namedVersion returns the version of p that a query parameter names by its
// number or by a label.
func namedVersion(r Reader, p Preset, name, parameter string) (PresetVersion, error) {
	if name == "" {
		return PresetVersion{}, InvalidAt(parameter, "must be the number of a version, or a label")
	}
	if strings.Trim(name, "0123456789") == "" {
		n, err := strconv.Atoi(name)
		switch {
		case err != nil: // more than any preset has
			return PresetVersion{}, errNoSuchVersion(parameter)
		case n == 0:
			return PresetVersion{}, InvalidAt(parameter, "must be a positive number, or a label")
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

// unifiedDiff returns nil for texts that are equal.
func unifiedDiff(fromLabel, toLabel, from, to string) (*string, error) {
	if from == to {
		return nil, nil
	}
	text, err := udiff.ToUnified(fromLabel, toLabel, from, udiff.Lines(from, to), udiff.DefaultContextLines)
	return &text, err
}

// patchOperation is an operation of a JSON Patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"` // nil for remove; points to nil for null
}

const (
	// maxPatch bounds the size of a patch, and with it what finding one takes,
	// in bytes of all the paths and operations that two configs could have. Tools
	// as large as they may be have half of it.
	maxPatch = 4 << 20
	// maxAligned bounds the arrays that are compared as sequences, which takes
	// time and memory in the square of their length.
	maxAligned = 256
)

// patchOf returns the JSON Patch that makes to out of from, empty and not nil
// where they are equal.
func patchOf(from, to json.RawMessage) ([]patchOperation, error) {
	source, err := decodeConfig(from)
	if err != nil {
		return nil, err
	}
	target, err := decodeConfig(to)
	if err != nil {
		return nil, err
	}
	var e extent
	e.add(source, 0)
	e.add(target, 0)
	if e.patch > maxPatch && !reflect.DeepEqual(source, target) {
		return []patchOperation{{jsondiff.OperationReplace, "", &target}}, nil
	}
	var options []jsondiff.Option
	if e.longest <= maxAligned {
		options = append(options, jsondiff.LCS())
	}
	patch, err := jsondiff.CompareWithoutMarshal(source, target, options...)
	if err != nil {
		return nil, err
	}
	operations := make([]patchOperation, len(patch))
	for i := range patch {
		operations[i] = patchOperation{Op: patch[i].Type, Path: patch[i].Path}
		if patch[i].Type != jsondiff.OperationRemove {
			operations[i].Value = &patch[i].Value
		}
	}
	return operations, nil
}

// decodeConfig reads a config with its numbers as they are written.
func decodeConfig(text json.RawMessage) (config any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&config)
	return config, err
}

// extent is how much there is to compare.
type extent struct {
	patch   int // bytes of a patch that has an operation for every value, without the values
	longest int // elements of the longest array
}

// add adds a value whose path has a length in bytes.
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
