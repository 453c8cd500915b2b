package records_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// versionReads counts the versions that are read one by one.
type versionReads struct {
	*memory
	n int
}

func (v *versionReads) Get(k records.Key) ([]byte, error) {
	if k.Kind() == records.KindVersion {
		v.n++
	}
	return v.memory.Get(k)
}

// TestCheckDuringPurge checks a store after each batch of the purge of a workspace. Nothing is
// wrong then, and no version is read twice. Records that nothing leads to are found.
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
		check := func(isSound bool) []string {
			t.Helper()
			var report storage.Report
			reads := &versionReads{memory: m}
			c := records.Checker{Report: &report, Pause: func() error { return nil }}
			if err := c.Check(reads); err != nil {
				t.Fatal(err)
			}
			if isSound && reads.n > 0 {
				t.Errorf("%d versions were read again", reads.n)
			}
			return report.Problems
		}
		if err := m.update(t, func(tx domain.Tx) error { return tx.DeleteWorkspace(deleted) }); err != nil {
			t.Fatal(err)
		}
		batches := 0
		ctx, cancel := context.WithCancel(t.Context())
		go records.Purger{
			View: m.View, Final: func(error) bool { return false }, Logger: zap.NewNop(),
			Update: func(ctx context.Context, fn func(*records.Tx) error) error {
				if problems := check(true); len(problems) > 0 {
					t.Errorf("before batch %d of the purge: got %q, want nothing", batches, problems)
				}
				if batches++; batches == 3 {
					for what, k := range map[string]records.Key{
						"there are changes that no label has":                records.LabelChangeKey(ids[0], "stray", 1),
						"there are summaries of versions that no preset has": records.SummaryKey(uuid.NewString(), 1),
					} {
						m.set(string(k), records.Seal(k, []byte("{}")))
						if problems := check(false); !slices.Contains(problems, what) {
							t.Errorf("got %q, want that %s", problems, what)
						}
						m.set(string(k), nil)
					}
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
		if problems := check(true); len(problems) > 0 || batches < 4 {
			t.Errorf("purged in %d batches: got %q, want nothing", batches, problems)
		}
	})
}
