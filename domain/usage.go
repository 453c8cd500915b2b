package domain

import (
	"context"
	"iter"
	"time"
)

// UsageID names a row of usage, of an hour or a day. It is that of one preset, or of the
// requests without one.
type UsageID struct {
	WorkspaceID string
	// PresetID is empty for requests without a preset.
	PresetID string
	// Day tells the row of a day from that of an hour.
	Day bool
	// Start is the beginning of the hour or the day, in UTC. It is not before 1970.
	Start time.Time
}

// UsageRow is a row of usage. Each node of a store has rows of its own, and their sum counts.
type UsageRow struct {
	UsageID
	// Node is the Store.Node of the node that writes the row.
	Node string
	// Content is a row as package usage encodes it. It has at most MaxUsageSize bytes.
	Content []byte
}

// MaxUsageSize bounds the content of a row of usage, in bytes.
const MaxUsageSize = 256 << 10

// UsageRange selects rows of usage.
type UsageRange struct {
	// WorkspaceID selects the rows of a workspace. Empty selects those of all.
	WorkspaceID string
	// PresetID selects the rows of a preset of the workspace, and &"" those of requests
	// without one. nil selects all rows of the workspace.
	PresetID *string
	// Day selects rows of days, and not of hours.
	Day bool
	// From and To select rows that start in this time. To is exclusive.
	From, To time.Time
}

// PresetUsage calls read with the rows of usage of a preset of any status. of selects days or
// hours and the time, and its other fields are ignored. It returns read's error unchanged.
// The rows end with the call, and read must not call the Service.
//
// Two reads run at a time. One that takes more than ten seconds, with the wait for its turn,
// is Unavailable. The rows end with an error then, and also if ctx ends.
func (s *Service) PresetUsage(ctx context.Context, who Principal, workspace, slug string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	return s.report(ctx, of, read, func(r Reader, of *UsageRange) error {
		p, err := presetOf(r, who, workspace, slug)
		of.WorkspaceID, of.PresetID = p.WorkspaceID, &p.ID
		return err
	})
}

// WorkspaceUsage is PresetUsage for all rows of the workspace of an id or slug. These
// include requests without a preset. who must be allowed to manage.
func (s *Service) WorkspaceUsage(ctx context.Context, who Principal, ref string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	if err := who.CheckManagement(); err != nil {
		return err
	}
	return s.report(ctx, of, read, func(r Reader, of *UsageRange) error {
		id, _, err := reachedWorkspace(r, who, ref)
		of.WorkspaceID, of.PresetID = id, nil
		return err
	})
}

// RowsOfKeys is WorkspaceUsage without a question of rights, for figures of keys that the caller
// may see. workspaceID is empty for all workspaces.
func (s *Service) RowsOfKeys(ctx context.Context, workspaceID string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	return s.report(ctx, of, read, func(_ Reader, of *UsageRange) error {
		of.WorkspaceID, of.PresetID = workspaceID, nil
		return nil
	})
}

// report calls read with the rows of the object that find puts into of.
func (s *Service) report(ctx context.Context, of UsageRange, read func(iter.Seq2[UsageRow, error]) error, find func(Reader, *UsageRange) error) error {
	return s.reports.run(ctx, func(ctx context.Context) error {
		return s.store.View(ctx, func(r Reader) error {
			if err := find(r, &of); err != nil {
				return err
			}
			return read(until(ctx, r.UsageRows(of)))
		})
	})
}

// FeedbackSecret authenticates the handles by which requests get feedback. All nodes of a
// store share it. It is never shown.
type FeedbackSecret [32]byte

// String hides the secret from logs and errors.
func (FeedbackSecret) String() string { return "hidden" }

// GoString hides the secret from logs and errors.
func (FeedbackSecret) GoString() string { return "hidden" }

// FeedbackPreset returns the ids of a preset, of any status, and of its workspace. Every key
// that reaches the preset may give feedback.
func (s *Service) FeedbackPreset(ctx context.Context, who Principal, workspace, slug string) (workspaceID, presetID string, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		p, err := presetOf(r, who, workspace, slug)
		workspaceID, presetID = p.WorkspaceID, p.ID
		return err
	})
	return workspaceID, presetID, err
}
