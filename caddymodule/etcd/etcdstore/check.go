package etcdstore

import (
	"cmp"
	"context"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Check reads all records at one revision of the cluster, bypassing memory. It finds records
// that are damaged, and missing records that others refer to. After an error the check is not
// complete: the cluster did not answer, or compacted that revision.
//
// It reads from any member. etcd itself checks that its members hold the same.
func (s *Store) Check(ctx context.Context) (report storage.Report, err error) {
	err = s.withSnapshot(ctx, func(last *snapshot) error {
		last.bypass = true
		c := records.Checker{Report: &report, Pause: func() error { return cmp.Or(ctx.Err(), s.ctx.Err()) }}
		return c.Check(last)
	})
	return report, err
}
