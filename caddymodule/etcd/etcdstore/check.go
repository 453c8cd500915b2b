package etcdstore

import (
	"context"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Report is what a look at all that is in a store has found.
type Report = records.Report

// Check looks at all records in the cluster, as they are at one moment, and finds out
// whether each is whole and there are those that others say. What this node has in memory
// counts for nothing. An error says that it was not all: the cluster was away, or has
// compacted what was stored when the check began and was changed since.
//
// It reads from whichever member answers. That the members hold the same is for etcd to
// check.
func (s *Store) Check(ctx context.Context) (report Report, err error) {
	if !s.calls.Enter() {
		return report, domain.ErrClosed
	}
	defer s.calls.Leave()
	last, at, err := s.sync(ctx)
	if err != nil {
		return report, err
	}
	c := records.Checker{Problem: report.Problem, Pause: s.ctx.Err}
	err = c.Check(stored{&snapshot{ctx: ctx, store: s, last: last, revision: at}})
	report.Records = c.Records
	return report, err
}

// stored is a snapshot that does not look into memory.
type stored struct{ *snapshot }

// Get implements records.Snapshot.
func (s stored) Get(k records.Key) ([]byte, error) {
	record, err := s.loadAt(string(k))
	if err == nil && record == nil {
		err = domain.ErrNotFound
	}
	return record, err
}
