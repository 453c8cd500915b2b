package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// compareWorkspace compares a workspace with the server. It is nil if nothing differs.
func (r *reader) compareWorkspace(ctx context.Context, file *files.Workspace) (*Workspace, error) {
	wanted := make(map[string]json.RawMessage)
	if file.Defaults != nil {
		if err := json.Unmarshal(file.Defaults, &wanted); err != nil {
			return nil, fmt.Errorf("reading its defaults: %w", err)
		}
	}
	id, exists := r.ids[file.Slug]
	if !exists {
		return newWorkspace(file.Slug, wanted)
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	var current map[string]json.RawMessage
	response, err := r.get(ctx, "/workspaces/"+client.Escape(id), nil, &current)
	if err != nil {
		return nil, err
	}
	before, after := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	for name, value := range wanted {
		stored, ok := current[name]
		if !ok {
			stored = json.RawMessage("null")
		}
		if !files.SameDefault(name, stored, value) {
			before[name], after[name] = stored, value
		}
	}
	if len(after) == 0 {
		return nil, nil
	}
	w := &Workspace{Slug: file.Slug, Action: Update, id: id, tag: response.Tag()}
	if w.Settings, err = patchOfValues(before, after); err != nil {
		return nil, err
	}
	w.body, err = encode(after)
	return w, err
}

// newWorkspace returns the creation of a workspace with some members.
func newWorkspace(slug string, members map[string]json.RawMessage) (*Workspace, error) {
	w := &Workspace{Slug: slug, Action: Create}
	quoted, err := json.Marshal(slug)
	if err != nil {
		return nil, err
	}
	body := map[string]json.RawMessage{"name": quoted}
	maps.Copy(body, members)
	if w.Settings, err = patchOfValues(struct{}{}, body); err != nil {
		return nil, err
	}
	body["slug"] = quoted
	w.body, err = encode(body)
	return w, err
}
