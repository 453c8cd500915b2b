package domain

import (
	"context"
	"iter"
)

// PresetUsage calls read with the rows of usage of a preset of any status. of selects days or
// hours and the time, and its other fields are ignored. It returns read's error unchanged.
// The rows end with the call, and read must not call the Service.
func (s *Service) PresetUsage(ctx context.Context, who Principal, workspace, slug string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	return s.store.View(ctx, func(r Reader) error {
		p, err := presetOf(r, who, workspace, slug)
		if err != nil {
			return err
		}
		of.WorkspaceID, of.PresetID = p.WorkspaceID, &p.ID
		return read(r.UsageRows(of))
	})
}

// WorkspaceUsage is PresetUsage for all rows of the workspace of an id or slug, with those of
// requests without a preset. who must be allowed to manage.
func (s *Service) WorkspaceUsage(ctx context.Context, who Principal, ref string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	if err := who.MayManage(); err != nil {
		return err
	}
	return s.store.View(ctx, func(r Reader) error {
		id, _, err := reachedWorkspace(r, who, ref)
		if err != nil {
			return err
		}
		of.WorkspaceID, of.PresetID = id, nil
		return read(r.UsageRows(of))
	})
}
