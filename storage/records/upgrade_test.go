package records_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// shared is an engine that others change, too: before its first update, once.
type shared struct {
	*memory
	others func()
}

func (s *shared) Update(ctx context.Context, fn func(*records.Tx) error) error {
	if others := s.others; others != nil {
		s.others = nil
		others()
	}
	return s.memory.Update(ctx, fn)
}

// Of several nodes that upgrade a store together, one may be behind: what it saw as
// disabled was activated or removed by another one's client.
func TestUpgradeBesideOthers(t *testing.T) {
	m := newMemory()
	w := newWorkspace("w")
	var presets []domain.Preset
	for _, slug := range []string{"activated", "removed", "stays"} {
		p := newPreset(w.ID, slug)
		p.Status, p.LatestVersion = domain.PresetDisabled, 0
		presets = append(presets, p)
	}
	m.update(t, func(tx domain.Tx) error {
		if err := tx.PutWorkspace(w); err != nil {
			return err
		}
		for _, p := range presets {
			if err := tx.PutPreset(p); err != nil {
				return err
			}
		}
		return nil
	})
	for k, record := range recordstest.Unlisted(t, m) {
		m.set(k, record)
	}
	e := &shared{memory: m}
	e.others = func() {
		if err := records.Upgrade(t.Context(), m); err != nil { // the node that is ahead
			t.Fatal(err)
		}
		activated := presets[0]
		activated.Status = domain.PresetActive
		if err := m.update(t, func(tx domain.Tx) error { return tx.PutPreset(activated) }); err != nil {
			t.Fatal(err)
		}
		for k, record := range recordstest.Records(t, m, records.KindPreset) {
			if bytes.Contains(record, []byte(`"slug":"removed"`)) {
				delete(m.stored, k)
			}
		}
	}
	if err := records.Upgrade(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	err := m.view(t, func(r domain.Reader) error {
		for filter, want := range map[domain.PresetFilter]int{domain.DisabledPresets: 2, domain.ActivePresets: 1} {
			page, total, err := r.PresetPage(w.ID, filter, domain.Page{Limit: 10})
			if total != want {
				t.Errorf("filter %v: got %d presets in %s, %v, want %d", filter, total, page, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
