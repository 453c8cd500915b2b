package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
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
	answer, err := r.get(ctx, "/workspaces/"+client.Escape(id), nil, &current)
	if err != nil {
		return nil, err
	}
	before, after := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	for name, value := range wanted {
		stored, ok := current[name]
		if !ok {
			stored = json.RawMessage("null")
		}
		same, err := sameDefault(name, stored, value)
		if err != nil {
			return nil, err
		}
		if !same {
			before[name], after[name] = stored, value
		}
	}
	if len(after) == 0 {
		return nil, nil
	}
	w := &Workspace{Slug: file.Slug, Action: Update, id: id, tag: answer.Tag()}
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

// sameDefault reports whether a server stores a member of a workspace as another value. It
// keeps an empty list of tools as null, and the value of a number but not its text.
func sameDefault(name string, stored, value json.RawMessage) (bool, error) {
	if name == "disabled_server_tools" {
		stored, value = nullIfEmpty(stored), nullIfEmpty(value)
	}
	a, err := strconv.ParseFloat(string(stored), 64)
	b, err2 := strconv.ParseFloat(string(value), 64)
	if err == nil && err2 == nil {
		return a == b, nil
	}
	patch, err := domain.JSONPatch(stored, value)
	return len(patch) == 0, err
}

func nullIfEmpty(list json.RawMessage) json.RawMessage {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) == nil && len(elements) == 0 {
		return json.RawMessage("null")
	}
	return list
}
