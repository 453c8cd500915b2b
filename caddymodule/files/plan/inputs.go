package plan

import (
	"context"
	"net/http"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
)

// InputChange is the change of a saved input: Create, Update or Remove.
type InputChange struct {
	Name   string `json:"name"`
	Action Action `json:"action"`

	id, tag string // of the input on the server, empty for a new one
	body    []byte
}

// Remove is the action for an input that the file does not have.
const Remove Action = "remove"

// savedInput is an input of a server.
type savedInput struct {
	ID string `json:"id"`
	inputs.Content
}

// inputs reads the inputs of a preset. A server that knows none has none.
func (r *reader) inputs(ctx context.Context, workspaceID, slug string) ([]savedInput, error) {
	saved := []savedInput{}
	for text, err := range r.client.Elements(ctx, client.PresetPath(slug, "inputs"), in(workspaceID)) {
		if client.IsStatus(err, http.StatusNotFound) {
			return saved, nil
		}
		if err != nil {
			return nil, err
		}
		var one savedInput
		if err := client.Decode(text, &one); err != nil {
			return nil, err
		}
		if one.Content, err = inputs.ReadContent(text); err != nil {
			return nil, err
		}
		saved = append(saved, one)
	}
	return saved, nil
}

// compareInputs finds the changes of inputs: removals first, then in the order of the file. A file without a list leaves
// the inputs as they are.
func (r *reader) compareInputs(ctx context.Context, c *Change) error {
	if c.file.Inputs == nil {
		return nil
	}
	saved, err := r.inputs(ctx, c.workspaceID, c.Slug)
	if err != nil {
		return err
	}
	for _, one := range saved {
		if !slices.ContainsFunc(c.file.Inputs, func(in inputs.Content) bool { return in.Name == one.Name }) {
			c.Inputs = append(c.Inputs, InputChange{Name: one.Name, Action: Remove, id: one.ID})
		}
	}
	if err := c.addInputs(saved); err != nil {
		return err
	}
	for i := range c.Inputs {
		change := &c.Inputs[i]
		if change.id == "" {
			continue
		}
		var found struct{}
		response, err := r.get(ctx, client.PresetPath(c.Slug, "inputs", change.id), in(c.workspaceID), &found)
		if err != nil {
			return err
		}
		change.tag = response.Tag()
	}
	return nil
}

// addInputs adds the changes of inputs that the file has.
func (c *Change) addInputs(saved []savedInput) error {
	for _, wanted := range c.file.Inputs {
		change := InputChange{Name: wanted.Name, Action: Create}
		if i := slices.IndexFunc(saved, func(one savedInput) bool { return one.Name == wanted.Name }); i >= 0 {
			if files.SameInput(saved[i].Content, wanted) {
				continue
			}
			change.Action, change.id = Update, saved[i].ID
		}
		var err error
		if change.body, err = encode(wanted); err != nil {
			return err
		}
		c.Inputs = append(c.Inputs, change)
	}
	return nil
}

// setInputs makes the changes of inputs. No other input has the name of a new one, so that needs no condition.
func (s *sequence) setInputs(ctx context.Context, c *Change) error {
	for _, change := range c.Inputs {
		r, only := client.Request{Method: http.MethodPost, Path: client.PresetPath(c.Slug, "inputs"), Body: change.body}, condition{}
		if change.id != "" {
			r.Method, r.Path, only = http.MethodPatch, client.PresetPath(c.Slug, "inputs", change.id), ifMatch(change.tag)
		}
		if change.Action == Remove {
			r.Method = http.MethodDelete
		}
		if _, err := s.send(ctx, r, only); err != nil {
			return err
		}
	}
	return nil
}
