package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
)

// newDefaults are the members of a new workspace that a file may set, but for its name.
var newDefaults = map[string]string{
	"description": "null", "default_text_model": "null", "default_image_model": "null", "default_provider_sort": "null",
	"io_logging_api_key_ids": "null", "io_logging_sampling_rate": "1", "is_data_discount_logging_enabled": "true",
	"is_observability_broadcast_enabled": "false", "is_observability_io_logging_enabled": "false", "disabled_server_tools": "null", "limits": "null", "budgets": "null",
}

// Dump reads the workspaces that the key sees, or the one of an id or slug. It reads their
// presets without archived ones. A plan of the Set is empty.
func Dump(ctx context.Context, c *client.Client, only string) (*files.Set, error) {
	r := &reader{client: c}
	if err := r.readWorkspaces(ctx); err != nil {
		return nil, err
	}
	if only != "" {
		r.workspaces = slices.DeleteFunc(r.workspaces, func(w client.Workspace) bool { return w.Slug != only && w.ID != only })
		if len(r.workspaces) == 0 {
			return nil, fmt.Errorf("workspace %q: the key sees no such workspace", only)
		}
	}
	slices.SortFunc(r.workspaces, func(a, b client.Workspace) int { return cmp.Compare(a.Slug, b.Slug) })
	set := new(files.Set)
	for _, w := range r.workspaces {
		dumped, err := r.dump(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", w.Slug, err)
		}
		set.Workspaces = append(set.Workspaces, dumped)
	}
	return set, nil
}

func (r *reader) dump(ctx context.Context, w client.Workspace) (files.Workspace, error) {
	dumped := files.Workspace{Slug: w.Slug}
	members, err := membersOf(w.Raw)
	if err == nil {
		dumped.Stored, err = encode(members)
	}
	if err == nil {
		dumped.Defaults, err = defaultsOf(w, members)
	}
	if err != nil {
		return dumped, err
	}
	list, err := r.list(ctx, w.ID, "")
	if err != nil {
		return dumped, err
	}
	slices.SortFunc(list, func(a, b client.Preset) int { return cmp.Compare(a.Slug, b.Slug) })
	found := make([]*files.Preset, len(list))
	err = inParallel(ctx, len(list), func(ctx context.Context, i int) error {
		p, err := r.preset(ctx, w.ID, list[i].Slug)
		if client.IsStatus(err, http.StatusNotFound) { // somebody archived it
			return nil
		}
		if err == nil {
			found[i], err = p.file(w.Slug)
		}
		if err == nil {
			err = r.dumpInputs(ctx, w.ID, found[i])
		}
		if err != nil {
			return fmt.Errorf("preset %s: %w", list[i].Slug, err)
		}
		return nil
	})
	if err != nil {
		return dumped, err
	}
	for _, p := range found {
		if p != nil {
			dumped.Presets = append(dumped.Presets, *p)
		}
	}
	return dumped, nil
}

// dumpInputs adds the saved inputs of a preset to what its file has.
func (r *reader) dumpInputs(ctx context.Context, workspaceID string, p *files.Preset) error {
	saved, err := r.inputs(ctx, workspaceID, p.Slug)
	p.Inputs = make([]inputs.Content, len(saved))
	for i, one := range saved {
		p.Inputs[i] = one.Content
	}
	return err
}

// membersOf returns the members of a workspace, and of its budgets only the limits, which files have.
func membersOf(workspace json.RawMessage) (members map[string]json.RawMessage, err error) {
	var budgets struct {
		Budgets map[string]struct {
			LimitUSD json.RawMessage `json:"limit_usd"`
		} `json:"budgets"`
	}
	if err = json.Unmarshal(workspace, &members); err == nil {
		err = json.Unmarshal(workspace, &budgets)
	}
	if err == nil && budgets.Budgets != nil {
		members["budgets"], err = encode(budgets.Budgets)
	}
	return members, err
}

// defaultsOf returns the members of a workspace that differ from those of a new workspace, nil for none.
func defaultsOf(w client.Workspace, members map[string]json.RawMessage) (json.RawMessage, error) {
	different := make(map[string]json.RawMessage)
	isFirst := w.Slug == domain.DefaultWorkspaceSlug && w.Name == "Default" // as a first start makes it
	if w.Name != w.Slug && !isFirst {
		different["name"] = members["name"]
	}
	for member, value := range newDefaults {
		stored, ok := members[member]
		if !ok {
			continue // an older server, or no limits or budgets
		}
		if !files.SameDefault(member, json.RawMessage(value), stored) {
			different[member] = stored
		}
	}
	if len(different) == 0 {
		return nil, nil
	}
	return encode(different)
}

// file returns a preset of a server as its file describes it.
func (p preset) file(workspace string) (*files.Preset, error) {
	file := &files.Preset{
		Workspace: workspace, Slug: p.Slug, File: workspace + "/" + p.Slug + ".yaml",
		Description: p.Description, Status: p.Status,
		Version:    files.NewVersion(p.Designated.Dialect, p.Designated.Config, p.Designated.SystemPrompt, p.Designated.Template),
		Designated: p.Designated.Version, Tags: append([]string{}, p.Tags...),
	}
	if p.Name != p.Slug {
		file.Name = &p.Name
	}
	for name, target := range p.Labels {
		if file.Labels == nil {
			file.Labels = make(map[string]files.Label, len(p.Labels))
		}
		file.Labels[name] = files.LabelOf(target)
	}
	if len(p.Policy) > 0 && string(p.Policy) != "null" {
		file.Policy = new(domain.Policy)
		if err := jsonv2.Unmarshal(p.Policy, file.Policy); err != nil {
			return nil, fmt.Errorf("its policy has an unknown form: %w", err)
		}
	}
	if len(p.Limits) > 0 && string(p.Limits) != "null" {
		file.Limits = new(domain.PresetLimits)
		if err := jsonv2.Unmarshal(p.Limits, file.Limits); err != nil {
			return nil, fmt.Errorf("its limits have an unknown form: %w", err)
		}
	}
	return file, nil
}
