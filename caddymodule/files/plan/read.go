package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// requestTimeout bounds a request with its repetitions.
	requestTimeout = 2 * time.Minute
	// maxReads bounds how often the newest version is read that changes meanwhile.
	maxReads = 10
	// recentChanges is how many changes of a preset are looked at for its drift.
	recentChanges = 20
)

// preset is a preset of a server with the version that requests get, and its entity tag.
type preset struct {
	client.Preset
	tag string
}

// reader reads from a server. It is safe for concurrent use after readWorkspaces.
type reader struct {
	client     *client.Client
	owner      string
	workspaces []client.Workspace
	ids        map[string]string // of workspaces by slug

	mu       sync.Mutex
	archived map[string]map[string]client.Preset // by the workspace's id and the slug
}

// get sends a GET request and decodes the answer's data.
func (r *reader) get(ctx context.Context, path string, query url.Values, into any) (*client.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := r.client.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(response.Data, into); err != nil {
		return nil, fmt.Errorf("the answer to GET %s has an unknown form: %w", path, err)
	}
	return response, nil
}

// presetPath returns the path of a preset, and what is below it.
func presetPath(slug, below string) string { return "/presets/" + client.Escape(slug) + below }

// in returns the query that selects a workspace.
func in(workspaceID string) url.Values { return url.Values{"workspace_id": {workspaceID}} }

// collect reads all elements of a list.
func collect[T any](ctx context.Context, r *reader, path string, query url.Values) (all []T, err error) {
	for element, err := range r.client.Elements(ctx, path, query) {
		if err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal(element, &one); err != nil {
			return nil, fmt.Errorf("the answer to GET %s has an unknown form: %w", path, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// readWorkspaces reads the workspaces that the key sees.
func (r *reader) readWorkspaces(ctx context.Context) error {
	all, err := collect[client.Workspace](ctx, r, "/workspaces", nil)
	if err != nil {
		return fmt.Errorf("listing the workspaces: %w", err)
	}
	r.workspaces, r.ids = all, make(map[string]string, len(all))
	for _, w := range all {
		r.ids[w.Slug] = w.ID
	}
	return nil
}

// list reads the presets of a workspace that have a status, empty for all but archived ones.
func (r *reader) list(ctx context.Context, workspaceID string, status domain.PresetStatus) ([]client.Preset, error) {
	query := in(workspaceID)
	if status != "" {
		query.Set("status", string(status))
	}
	return collect[client.Preset](ctx, r, "/presets", query)
}

// preset reads a preset with its designated version. An archived one is a 404.
func (r *reader) preset(ctx context.Context, workspaceID, slug string) (preset, error) {
	var p preset
	response, err := r.get(ctx, presetPath(slug, ""), in(workspaceID), &p)
	if err != nil {
		return preset{}, err
	}
	p.tag = response.Tag()
	return p, nil
}

// archivedPreset returns an archived preset. It reads the list of a workspace once.
func (r *reader) archivedPreset(ctx context.Context, workspaceID, slug string) (client.Preset, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.archived[workspaceID]
	if !ok {
		list, err := r.list(ctx, workspaceID, domain.PresetArchived)
		if err != nil {
			return client.Preset{}, false, err
		}
		known = make(map[string]client.Preset, len(list))
		for _, p := range list {
			known[p.Slug] = p
		}
		if r.archived == nil {
			r.archived = make(map[string]map[string]client.Preset)
		}
		r.archived[workspaceID] = known
	}
	p, ok := known[slug]
	return p, ok, nil
}

// versions returns how many versions a preset has, and a page of them.
func (r *reader) versions(ctx context.Context, workspaceID, slug string, offset, limit int, summary bool) (page []client.Version, total int, err error) {
	query := in(workspaceID)
	query.Set("offset", strconv.Itoa(offset))
	query.Set("limit", strconv.Itoa(limit))
	if summary {
		query.Set("fields", "summary")
	}
	response, err := r.get(ctx, presetPath(slug, "/versions"), query, &page)
	if err != nil {
		return nil, 0, err
	}
	return page, response.Total, nil
}

// newest returns the version of the highest number, which requests may not get yet.
func (r *reader) newest(ctx context.Context, workspaceID string, p preset) (client.Version, error) {
	_, total, err := r.versions(ctx, workspaceID, p.Slug, 0, 1, true)
	for range maxReads {
		if err != nil {
			return client.Version{}, err
		}
		if total == 1 {
			return p.Designated, nil
		}
		var page []client.Version
		last := total - 1
		page, total, err = r.versions(ctx, workspaceID, p.Slug, last, 1, false)
		if err == nil && len(page) == 1 && total == last+1 {
			return page[0], nil
		}
	}
	return client.Version{}, errors.New("the versions change while they are read")
}

// hasVersion reports whether a preset has a version. A preset that was archived is a 404.
func (r *reader) hasVersion(ctx context.Context, workspaceID, slug string, number int) (bool, error) {
	var v struct{}
	_, err := r.get(ctx, presetPath(slug, "/versions/"+strconv.Itoa(number)), in(workspaceID), &v)
	if client.IsStatus(err, http.StatusNotFound) {
		_, err = r.preset(ctx, workspaceID, slug)
		return false, err
	}
	return err == nil, err
}

// label is a label of a preset.
type label struct {
	domain.Target
	tag string
}

// label reads a label. One that was removed stands for nothing. One of a preset that was
// archived is a 404.
func (r *reader) label(ctx context.Context, workspaceID, slug, name string) (label, error) {
	var l label
	response, err := r.get(ctx, presetPath(slug, "/labels/"+client.Escape(name)), in(workspaceID), &l)
	if err != nil {
		return label{}, err
	}
	l.tag = response.Tag()
	return l, nil
}

// hasDrifted reports whether somebody else changed a preset of the owner after the owner's last
// change. The removal of old versions is no such change.
func (r *reader) hasDrifted(ctx context.Context, workspaceID string, p client.Preset) (bool, error) {
	if p.ManagedBy == nil || *p.ManagedBy != r.owner {
		return false, nil
	}
	var history []domain.HistoryEntry
	if _, err := r.history(ctx, workspaceID, p.Slug, recentChanges, &history); err != nil {
		return false, err
	}
	for _, change := range history {
		if change.Operation != "preset.prune" {
			return change.Override != nil, nil
		}
	}
	return false, nil
}

// newestMade returns the number of the last version that a preset of any status got. It is 0
// if the history does not have it, as after a salvage.
func (r *reader) newestMade(ctx context.Context, workspaceID, slug string) (int, error) {
	for element, err := range r.client.Elements(ctx, presetPath(slug, "/history"), in(workspaceID)) {
		if err != nil {
			return 0, err
		}
		var change domain.HistoryEntry
		if err := json.Unmarshal(element, &change); err != nil {
			return 0, fmt.Errorf("the history has an unknown form: %w", err)
		}
		if change.Operation == "preset.create_version" && change.Version != nil {
			return *change.Version, nil
		}
	}
	return 0, nil
}

// countChanges returns how many changes of a preset there were.
func (r *reader) countChanges(ctx context.Context, workspaceID, slug string) (int, error) {
	return r.history(ctx, workspaceID, slug, 1, &[]struct{}{})
}

// history reads the last changes of a preset. It returns how many there were.
func (r *reader) history(ctx context.Context, workspaceID, slug string, limit int, into any) (total int, err error) {
	query := in(workspaceID)
	query.Set("limit", strconv.Itoa(limit))
	response, err := r.get(ctx, presetPath(slug, "/history"), query, into)
	if err != nil {
		return 0, err
	}
	return response.Total, nil
}
