package domain

import (
	"context"
	"errors"
	"iter"
	"time"
)

const (
	// maxReports bounds the reports of usage that are made at a time: each may take much
	// memory. maxReport is how long one may take, with the wait for its turn.
	maxReports = 2
	maxReport  = 10 * time.Second
)

// errReportTime is the answer to a report that took too long.
var errReportTime = &Error{
	Kind: Unavailable, Message: "The report took too long: ask for a shorter period or for step=day",
}

// PresetUsage calls read with the rows of usage of a preset of any status. of selects days or
// hours and the time, and its other fields are ignored. It returns read's error unchanged.
// The rows end with the call, and read must not call the Service.
//
// Two reads run at a time. One that takes more than ten seconds, with the wait for its turn,
// is Unavailable. The rows end with an error then, and also if ctx ends.
func (s *Service) PresetUsage(ctx context.Context, who Principal, workspace, slug string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	return s.report(ctx, func(ctx context.Context, r Reader) error {
		p, err := presetOf(r, who, workspace, slug)
		if err != nil {
			return err
		}
		of.WorkspaceID, of.PresetID = p.WorkspaceID, &p.ID
		return read(rowsUntil(ctx, r.UsageRows(of)))
	})
}

// WorkspaceUsage is PresetUsage for all rows of the workspace of an id or slug. These
// include requests without a preset. who must be allowed to manage.
func (s *Service) WorkspaceUsage(ctx context.Context, who Principal, ref string, of UsageRange, read func(iter.Seq2[UsageRow, error]) error) error {
	if err := who.CheckManagement(); err != nil {
		return err
	}
	return s.report(ctx, func(ctx context.Context, r Reader) error {
		id, _, err := reachedWorkspace(r, who, ref)
		if err != nil {
			return err
		}
		of.WorkspaceID, of.PresetID = id, nil
		return read(rowsUntil(ctx, r.UsageRows(of)))
	})
}

// report runs fn with a snapshot, as one of maxReports. The ctx of fn has its deadline.
func (s *Service) report(ctx context.Context, fn func(context.Context, Reader) error) (err error) {
	limited, cancel := context.WithTimeout(ctx, s.reportTime)
	defer cancel()
	select {
	case s.reports <- struct{}{}:
		defer func() { <-s.reports }()
		err = s.store.View(limited, func(r Reader) error { return fn(limited, r) })
	case <-limited.Done():
		err = limited.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errReportTime
	}
	return err
}

// rowsUntil returns rows that end with the error of ctx as soon as it ends.
func rowsUntil(ctx context.Context, rows iter.Seq2[UsageRow, error]) iter.Seq2[UsageRow, error] {
	return func(yield func(UsageRow, error) bool) {
		for row, err := range rows {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
