package records_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestCheckDuringPurge checks a store after each batch of the purge of a workspace. Nothing is
// wrong then, and a version that is missing elsewhere is found.
func TestCheckDuringPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var ids []string
		deleted := newWorkspace("deleted")
		for _, w := range []domain.Workspace{newWorkspace("kept"), deleted} {
			err := m.update(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
			for n := range 40 {
				p := newPreset(w.ID, fmt.Sprint("p-", n))
				p.LatestVersion, p.DesignatedVersion, p.Kept.From = 3, 3, 1
				p.Labels = map[string]domain.Target{"l": {Version: 1}}
				ids = append(ids, p.ID)
				err = cmp.Or(err, m.update(t, func(tx domain.Tx) (err error) {
					for v := range 3 {
						err = cmp.Or(err, tx.PutPresetVersion(p, domain.PresetVersion{ID: newID(), PresetID: p.ID, Version: v + 1, Config: []byte("{}")}))
						err = cmp.Or(err, tx.PutLabelChange(p, "l", domain.LabelChange{Number: v + 1, To: &domain.Target{Version: 1}}))
					}
					return cmp.Or(err, tx.PutPreset(p))
				}))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		check := func() []string {
			t.Helper()
			var report storage.Report
			c := records.Checker{Report: &report, Pause: func() error { return nil }}
			if err := c.Check(m); err != nil {
				t.Fatal(err)
			}
			return report.Problems
		}
		if err := m.update(t, func(tx domain.Tx) error { return tx.DeleteWorkspace(deleted) }); err != nil {
			t.Fatal(err)
		}
		batches := 0
		ctx, cancel := context.WithCancel(t.Context())
		go records.Purger{
			View: m.View, Logger: zap.NewNop(),
			Update: func(ctx context.Context, fn func(*records.Tx) error) error {
				if problems := check(); len(problems) > 0 {
					t.Errorf("before batch %d of the purge: got %q, want nothing", batches, problems)
				}
				if batches++; batches == 3 {
					k := records.VersionKey(ids[0], 1)
					stored := m.stored[string(k)]
					m.set(string(k), nil)
					if problems := check(); len(problems) != 1 {
						t.Errorf("got %q, want the missing version", problems)
					}
					m.set(string(k), stored)
				}
				before := len(m.stored)
				err := m.Update(ctx, fn)
				if removed := before - len(m.stored); removed > records.PurgeBatch {
					t.Errorf("batch %d removed %d records, want %d at most", batches, removed, records.PurgeBatch)
				}
				return err
			},
		}.Run(ctx)
		synctest.Wait()
		cancel()
		if problems := check(); len(problems) > 0 || batches < 3 {
			t.Errorf("purged in %d batches: got %q, want nothing", batches, problems)
		}
	})
}
