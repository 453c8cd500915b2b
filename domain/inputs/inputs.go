// Package inputs keeps the inputs of a preset: conversations and values of variables with which its versions are tried.
package inputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

// The bounds of inputs.
const (
	// Most is how many a preset has.
	Most = 100
	// MaxSize bounds the JSON of one, and MaxAll that of all of a preset, in bytes.
	MaxSize = domain.MaxStoredSize
	MaxAll  = 4 << 20
	// Overhead is room in MaxSize for what a stored input has besides its Content.
	Overhead = 1 << 10
)

// Content is what a client says of an input. Its messages, input and variables are nil for none.
type Content struct {
	// Name is unique in the preset.
	Name    string         `json:"name"`
	Dialect domain.Dialect `json:"dialect"`
	// Messages is the conversation of chat and messages, and Input that of responses.
	Messages  jsontext.Value `json:"messages"`
	Input     jsontext.Value `json:"input"`
	Variables jsontext.Value `json:"variables"`
	Notes     *string        `json:"notes"`
}

// Input is an input as clients see it and as it is stored.
type Input struct {
	ID string `json:"id"`
	Content
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	CreatedBy string    `json:"created_by"`
	UpdatedBy string    `json:"updated_by"`
}

// Patch is the body that makes or changes an input, already checked against its schema. An absent member stays as it
// is, and null clears one that may be null.
type Patch struct {
	Name      *string                 `json:"name"`
	Dialect   *domain.Dialect         `json:"dialect"`
	Messages  jsontext.Value          `json:"messages"`
	Input     jsontext.Value          `json:"input"`
	Variables jsontext.Value          `json:"variables"`
	Notes     domain.Settable[string] `json:"notes"`
}

// apply changes in.
func (patch Patch) apply(in *Content) {
	in.Name, in.Dialect = *either(patch.Name, &in.Name), *either(patch.Dialect, &in.Dialect)
	for _, m := range []struct {
		given jsontext.Value
		field *jsontext.Value
	}{{patch.Messages, &in.Messages}, {patch.Input, &in.Input}, {patch.Variables, &in.Variables}} {
		switch {
		case m.given == nil:
		case m.given.Kind() == 'n':
			*m.field = nil
		default:
			*m.field = m.given
		}
	}
	if patch.Notes.Given {
		in.Notes = patch.Notes.Value
	}
}

func either[T any](given, otherwise *T) *T {
	if given != nil {
		return given
	}
	return otherwise
}

// Check returns an Invalid error for what the schema does not say.
func (in Content) Check() error {
	switch {
	case in.Messages != nil && in.Dialect == domain.Responses:
		return domain.InvalidAt("/messages", "is for the dialects chat and messages: responses has input")
	case in.Input != nil && in.Dialect != domain.Responses:
		return domain.InvalidAt("/input", "is for the dialect responses: others have messages")
	}
	var variables map[string]jsontext.Value
	if in.Variables != nil {
		if err := jsonv2.Unmarshal(in.Variables, &variables); err != nil {
			return err
		}
	}
	for name := range variables {
		if whole, _ := domain.CutVariableName(name); name == "" || whole != name {
			return domain.InvalidAt("/variables", "must have names of variables: letters, digits, _ . and -, and the last two not first")
		}
	}
	return nil
}

// decode reads the JSON of a stored input.
func decode(text []byte) (in Input, err error) {
	err = jsonv2.Unmarshal(text, &in)
	in.Content = in.Content.withoutNulls()
	return in, err
}

func (in Content) withoutNulls() Content {
	for _, field := range []*jsontext.Value{&in.Messages, &in.Input, &in.Variables} {
		if field.Kind() == 'n' {
			*field = nil
		}
	}
	return in
}

// ReadContent reads the content of an input, as a file or a server has it, and ignores other members.
func ReadContent(text []byte) (in Content, err error) {
	err = jsonv2.Unmarshal(text, &in)
	return in.withoutNulls(), err
}

var errNotFound = &domain.Error{Kind: domain.NotFound, Message: "Input not found"}

func found(text []byte, err error) ([]byte, error) {
	if errors.Is(err, domain.ErrNotFound) {
		err = errNotFound
	}
	return text, err
}

// List returns a page of the inputs of a preset, the oldest first.
func List(ctx context.Context, s *domain.Service, who domain.Principal, workspace, slug string, page domain.Page) (list domain.Found, err error) {
	err = s.ReadPart(ctx, who, workspace, slug, func(r domain.Reader, p domain.Preset) error {
		var all [][]byte
		list = domain.Found{}
		for text, err := range r.Inputs(p.ID) {
			if err != nil {
				return err
			}
			if list.Total >= page.Offset && len(all) < page.Limit {
				all = append(all, text)
			}
			list.Total++
		}
		list.JSON = slices.Concat([]byte{'['}, bytes.Join(all, []byte{','}), []byte{']'})
		list.Tag = domain.Tag(strconv.AppendInt(slices.Clone(list.JSON), int64(list.Total), 10))
		return nil
	})
	return list, err
}

// Get returns an input.
func Get(ctx context.Context, s *domain.Service, who domain.Principal, workspace, slug, id string) (it domain.Found, err error) {
	err = s.ReadPart(ctx, who, workspace, slug, func(r domain.Reader, p domain.Preset) error {
		text, err := found(r.Input(p.ID, id))
		it = domain.Found{JSON: text, WorkspaceID: p.WorkspaceID, Tag: domain.Tag(text)}
		return err
	})
	return it, err
}

// Create adds an input to a preset, whose state the condition is on. It is a Conflict if the preset has Most of them.
func Create(ctx context.Context, s *domain.Service, w domain.Write, workspace, slug string, patch Patch) (domain.Outcome, error) {
	return s.ChangePart(ctx, w, workspace, slug, true, func(tx domain.Tx, p domain.Preset, w domain.Write, id string, now time.Time) (domain.Part, error) {
		in := Input{ID: id, CreatedAt: now, CreatedBy: w.Who.UserID}
		patch.apply(&in.Content)
		return put(tx, p, in, w, now, "preset.create_input")
	})
}

// Update changes an input. If it has these values already, nothing changes.
func Update(ctx context.Context, s *domain.Service, w domain.Write, workspace, slug, id string, patch Patch) (domain.Outcome, error) {
	return s.ChangePart(ctx, w, workspace, slug, false, func(tx domain.Tx, p domain.Preset, w domain.Write, _ string, now time.Time) (domain.Part, error) {
		in, text, err := present(tx, p, w, id)
		if err != nil {
			return domain.Part{}, err
		}
		patch.apply(&in.Content)
		if same, err := jsonv2.Marshal(in); err != nil || bytes.Equal(same, text) {
			return domain.Part{JSON: text}, err
		}
		return put(tx, p, in, w, now, "preset.update_input")
	})
}

// Delete removes an input.
func Delete(ctx context.Context, s *domain.Service, w domain.Write, workspace, slug, id string) (domain.Outcome, error) {
	return s.ChangePart(ctx, w, workspace, slug, false, func(tx domain.Tx, p domain.Preset, w domain.Write, _ string, _ time.Time) (domain.Part, error) {
		in, _, err := present(tx, p, w, id)
		if err != nil {
			return domain.Part{}, err
		}
		return domain.Part{ID: id, Name: in.Name, Operation: "preset.delete_input"}, tx.RemoveInput(p.ID, id)
	})
}

// present returns an input that is there, with its JSON, and checks the condition of its change.
func present(r domain.Reader, p domain.Preset, w domain.Write, id string) (in Input, text []byte, err error) {
	if text, err = found(r.Input(p.ID, id)); err == nil {
		err = w.Condition.Check(domain.Tag(text))
	}
	if err == nil {
		in, err = decode(text)
	}
	return in, text, err
}

// put stores an input beside the others of its preset.
func put(tx domain.Tx, p domain.Preset, in Input, w domain.Write, now time.Time, operation string) (part domain.Part, err error) {
	if err := in.Check(); err != nil {
		return part, err
	}
	in.UpdatedAt, in.UpdatedBy = now, w.Who.UserID
	text, err := jsonv2.Marshal(in)
	if err != nil {
		return part, err
	}
	if len(text) > MaxSize {
		return part, domain.InvalidAt("", fmt.Sprintf("an input must be at most %d bytes, is %d", MaxSize, len(text)))
	}
	others, size := 0, len(text)
	for text, err := range tx.Inputs(p.ID) {
		if err != nil {
			return part, err
		}
		other, err := decode(text)
		switch {
		case err != nil:
			return part, err
		case other.ID == in.ID:
			continue
		case other.Name == in.Name:
			return part, domain.InvalidAt("/name", "is that of another input of the preset")
		}
		others++
		size += len(text)
	}
	switch {
	case others >= Most:
		return part, &domain.Error{Kind: domain.Conflict, Message: fmt.Sprintf("The preset has %d inputs, and takes no more", Most)}
	case size > MaxAll:
		return part, domain.InvalidAt("", fmt.Sprintf("the inputs of a preset must be at most %d bytes in all, are %d", MaxAll, size))
	}
	return domain.Part{JSON: text, ID: in.ID, Name: in.Name, Operation: operation}, tx.PutInput(p.ID, in.ID, text)
}
