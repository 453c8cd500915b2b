package etcdstore

import (
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestTrailIsReadInPages reads an audit trail that is not in memory. One request returns
// many records. One request for each took minutes for a long trail.
func TestTrailIsReadInPages(t *testing.T) {
	t.Parallel()
	const length = 1000
	err := open(t, Options{}).Update(t.Context(), func(tx domain.Tx) error {
		for n := 1; n <= length; n++ {
			record := domain.AuditRecord{Number: n, Time: time.Unix(int64(n), 0).UTC(), Operation: "preset.update", Object: domain.AuditObject{Kind: "preset", ID: newID()}}
			text, err := record.JSON()
			if err != nil {
				return err
			}
			if err := tx.PutAudit(record, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRetrier(t, sharedAddress(t))
	s := open(t, Options{Endpoints: []string{r.address}})
	before := r.requests.Load()
	records, head, err := domain.NewService(s).AuditTrail(t.Context(), 0, length)
	if err != nil || len(records) != length || head.Count != length {
		t.Fatalf("got %d of %d records, %v", len(records), head.Count, err)
	}
	if got := r.requests.Load() - before; got > length/8 {
		t.Errorf("got %d requests for %d records, want at most %d", got, length, length/8)
	}
}
