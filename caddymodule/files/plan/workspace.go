package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

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
	w := &Workspace{Slug: file.Slug, Action: Update, id: r.ids[file.Slug]}
	slug, _ := json.Marshal(file.Slug) // never fails
	var current map[string]json.RawMessage
	if w.id == "" {
		w.Action = Create
		if wanted["name"] == nil {
			wanted["name"] = slug
		}
	} else if len(wanted) > 0 {
		var stored json.RawMessage
		response, err := r.get(ctx, "/workspaces/"+url.PathEscape(w.id), nil, &stored)
		if err == nil {
			current, err = membersOf(stored)
		}
		if err != nil {
			return nil, err
		}
		w.tag = response.Tag()
	}
	before, after := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	for name, value := range wanted {
		stored, ok := current[name]
		if !ok {
			stored = json.RawMessage("null")
		}
		switch {
		case w.Action == Create:
			after[name] = value
		case !files.SameDefault(name, stored, value):
			before[name], after[name] = stored, value
		}
	}
	if len(after) == 0 {
		return nil, nil
	}
	var err error
	if w.Settings, err = patchOfValues(before, after); err != nil {
		return nil, err
	}
	if w.Action == Create {
		after["slug"] = slug
	}
	w.body, err = encode(after)
	return w, err
}
