package plan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// recentChanges is how many changes of a preset are looked at for its drift.
	recentChanges = 20
	// concurrency is how many requests read from a server at a time.
	concurrency = 16
)

// inParallel calls read with all indexes below count. It returns the first error.
func inParallel(ctx context.Context, count int, read func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range count {
		group.Go(func() error { return read(ctx, i) })
	}
	return group.Wait()
}

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
	archived map[string][]client.Preset // by the workspace's id
}

func (r *reader) get(ctx context.Context, path string, query url.Values, into any) (*client.Response, error) {
	response, err := r.client.Do(ctx, client.Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return nil, err
	}
	return response, client.Decode(response.Data, into)
}

func in(workspaceID string) url.Values { return url.Values{"workspace_id": {workspaceID}} }

func collect[T any](ctx context.Context, r *reader, path string, query url.Values) (all []T, err error) {
	for one, err := range client.Decoded[T](r.client.Elements(ctx, path, query)) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

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

// list reads the presets of a workspace that have a status, empty for all but archived ones. It is in the
// order of the slugs, in which a change moves no preset.
func (r *reader) list(ctx context.Context, workspaceID string, status domain.PresetStatus) ([]client.Preset, error) {
	query := in(workspaceID)
	query.Set("sort", "slug")
	query.Set("order", "asc")
	if status != "" {
		query.Set("status", string(status))
	}
	return collect[client.Preset](ctx, r, "/presets", query)
}

// preset reads a preset with its designated version. An archived one is a 404.
func (r *reader) preset(ctx context.Context, workspaceID, slug string) (preset, error) {
	var p preset
	response, err := r.get(ctx, client.PresetPath(slug), in(workspaceID), &p)
	if err != nil {
		return preset{}, err
	}
	p.tag = response.Tag()
	return p, nil
}

// archivedPreset returns an archived preset. It reads the list of a workspace once.
func (r *reader) archivedPreset(ctx context.Context, workspaceID, slug string) (p client.Preset, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, ok := r.archived[workspaceID]
	if !ok {
		if list, err = r.list(ctx, workspaceID, domain.PresetArchived); err != nil {
			return p, false, err
		}
		if r.archived == nil {
			r.archived = make(map[string][]client.Preset)
		}
		r.archived[workspaceID] = list
	}
	if i := slices.IndexFunc(list, func(p client.Preset) bool { return p.Slug == slug }); i >= 0 {
		return list[i], true, nil
	}
	return p, false, nil
}

// versions returns how many versions a preset has, and a page with one of them.
func (r *reader) versions(ctx context.Context, workspaceID, slug string, offset int, summary bool) (page []client.Version, total int, err error) {
	query := in(workspaceID)
	query.Set("offset", strconv.Itoa(offset))
	query.Set("limit", "1")
	if summary {
		query.Set("fields", "summary")
	}
	response, err := r.get(ctx, client.PresetPath(slug, "versions"), query, &page)
	if err != nil {
		return nil, 0, err
	}
	return page, response.Total, nil
}

// newest returns the version of the highest number, which requests may not get yet.
func (r *reader) newest(ctx context.Context, workspaceID string, p preset) (client.Version, error) {
	_, total, err := r.versions(ctx, workspaceID, p.Slug, 0, true)
	if err != nil || total == 1 {
		return p.Designated, err
	}
	page, now, err := r.versions(ctx, workspaceID, p.Slug, total-1, false)
	if err == nil && (len(page) != 1 || now != total) {
		err = errors.New("the versions change while they are read: plan again")
	}
	if err != nil {
		return client.Version{}, err
	}
	return page[0], nil
}

// hasVersion reports whether a preset has a version. A preset that was archived is a 404.
func (r *reader) hasVersion(ctx context.Context, workspaceID, slug string, number int) (bool, error) {
	var v struct{}
	_, err := r.get(ctx, client.PresetPath(slug, "versions", strconv.Itoa(number)), in(workspaceID), &v)
	if client.IsStatus(err, http.StatusNotFound) {
		_, err = r.preset(ctx, workspaceID, slug)
		return false, err
	}
	return err == nil, err
}

// label reads a label and its entity tag. One that was removed stands for nothing. One of a preset
// that was archived is a 404.
func (r *reader) label(ctx context.Context, workspaceID, slug, name string) (now files.Label, tag string, err error) {
	var stored domain.Target
	response, err := r.get(ctx, client.PresetPath(slug, "labels", name), in(workspaceID), &stored)
	if err != nil {
		return now, "", err
	}
	return files.LabelOf(stored), response.Tag(), nil
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

func (r *reader) countChanges(ctx context.Context, workspaceID, slug string) (int, error) {
	return r.history(ctx, workspaceID, slug, 1, &[]struct{}{})
}

// history reads the last changes of a preset. It returns how many there were.
func (r *reader) history(ctx context.Context, workspaceID, slug string, limit int, into any) (total int, err error) {
	query := in(workspaceID)
	query.Set("limit", strconv.Itoa(limit))
	response, err := r.get(ctx, client.PresetPath(slug, "history"), query, into)
	if err != nil {
		return 0, err
	}
	return response.Total, nil
}
