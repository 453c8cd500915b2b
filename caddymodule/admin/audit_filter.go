package admin

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
	"github.com/caddy-presets/caddy-presets/domain"
)

type records = iter.Seq2[domain.AuditRecord, error]

// auditFilter says which records of the trail to print. Empty fields do not matter.
type auditFilter struct {
	// workspace is a slug, also an earlier one or that of a deleted workspace, or an id.
	workspace string
	// preset is the slug of a preset.
	preset string
	// since is a duration before now, such as 7d, or a time as RFC 3339 or its date.
	since string
}

// apply returns the records of a trail after a number that pass, at most limit of them, 0 for all. They
// are the newest ones, or else the first.
func (f auditFilter) apply(t trail, after, limit int, newest bool) (records, error) {
	begin, err := f.begin(time.Now())
	if err != nil {
		return nil, err
	}
	if f.preset != "" {
		if f.preset, err = cli.SlugOf(f.preset, "--preset"); err != nil {
			return nil, err
		}
	}
	ids, err := f.workspaces(t)
	if err != nil {
		return nil, err
	}
	passes := func(r domain.AuditRecord) bool {
		return !r.Time.Before(begin) && (f.preset == "" || r.Object.Kind == "preset" && r.Object.Slug == f.preset) &&
			(f.workspace == "" || ids[r.Object.WorkspaceID] || ids[r.Object.ID])
	}
	var kept []domain.AuditRecord
	for r, err := range t.records(after, 0) {
		if err != nil {
			return nil, err
		}
		if !passes(r) {
			continue
		}
		if kept = append(kept, r); limit > 0 && len(kept) > limit {
			if !newest {
				kept = kept[:limit]
				break
			}
			kept = kept[1:]
		}
	}
	return func(yield func(domain.AuditRecord, error) bool) {
		for _, r := range kept {
			if !yield(r, nil) {
				return
			}
		}
	}, nil
}

// begin returns the time of the first record that passes, zero for any.
func (f auditFilter) begin(now time.Time) (time.Time, error) {
	if f.since == "" {
		return time.Time{}, nil
	}
	if age, err := caddy.ParseDuration(f.since); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, f.since); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("--since: must be a duration such as 7d, a date such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z")
}

// workspaces returns the ids of the workspaces that ever had the slug or have the id.
func (f auditFilter) workspaces(t trail) (map[string]bool, error) {
	if f.workspace == "" {
		return nil, nil
	}
	ids := make(map[string]bool)
	for r, err := range t.records(0, 0) {
		if err != nil {
			return nil, err
		}
		if o := r.Object; o.Kind == "workspace" && (o.Slug == f.workspace || o.ID == f.workspace) {
			ids[o.ID] = true
		} else if o.WorkspaceID == f.workspace {
			ids[f.workspace] = true
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("--workspace: the trail has no workspace %s; a deleted one has its id in workspace.delete", f.workspace)
	}
	return ids, nil
}
