package records_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestPurgeForOthers deletes a workspace on a node that dies before it purges. Another node
// removes the content. Its own purge had ended before, and it gets no token.
func TestPurgeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			records.Purger{View: m.View, Update: m.Update, Interval: time.Minute, Logger: zap.NewNop()}.Run(ctx)
		}()
		synctest.Wait()
		w := domain.Workspace{ID: newID(), Slug: "w"}
		p := domain.Preset{ID: newID(), WorkspaceID: w.ID, Slug: "p", Status: domain.PresetActive}
		err := m.update(t, func(tx domain.Tx) error {
			return errors.Join(tx.PutWorkspace(w), tx.PutPreset(p), tx.PutInput(p.ID, w.ID, []byte("{}")))
		})
		if err == nil {
			err = m.update(t, func(tx domain.Tx) error { return tx.DeleteWorkspace(w) })
		}
		if err != nil {
			t.Fatal(err)
		}
		k := records.PresetKey(w.ID, "p")
		if _, err := m.Get(k); err != nil {
			t.Fatal("the preset is gone before anyone has purged")
		}
		time.Sleep(61 * time.Second) // of the bubble's clock
		synctest.Wait()
		cancel()
		<-done
		for k := range m.stored {
			switch records.Key(k).Kind() {
			case records.KindPreset, records.KindListBlock, records.KindDeleted, records.KindInput:
				t.Errorf("a %v record is still there", records.Key(k).Kind())
			}
		}
	})
}
