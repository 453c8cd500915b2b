package records_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// A missing version cannot be removed. The call then removes nothing.
func TestPruneRefused(t *testing.T) {
	s := newMemory()
	p := newPreset(newID(), "p")
	p.LatestVersion = 3
	err := s.update(t, func(tx domain.Tx) error {
		err := tx.PutPreset(p)
		for n := 1; n <= 3; n++ {
			err = cmp.Or(err, tx.PutPresetVersion(p, domain.PresetVersion{Version: n, Config: []byte("{}")}))
		}
		return cmp.Or(err, tx.PruneVersions(p, []int{2}))
	})
	if err != nil {
		t.Fatal(err)
	}
	unknown := newPreset(newID(), "p")
	for name, prune := range map[string]func(tx domain.Tx) error{
		"removed before":    func(tx domain.Tx) error { return tx.PruneVersions(p, []int{1, 2}) },
		"never there":       func(tx domain.Tx) error { return tx.PruneVersions(p, []int{1, 4}) },
		"no number":         func(tx domain.Tx) error { return tx.PruneVersions(p, []int{0}) },
		"unknown preset":    func(tx domain.Tx) error { return tx.PruneVersions(unknown, []int{1}) },
		"unknown workspace": func(tx domain.Tx) error { return tx.PruneVersions(domain.Preset{Slug: "p"}, []int{1}) },
	} {
		var inside error
		err := s.update(t, func(tx domain.Tx) error {
			inside = prune(tx)
			return nil
		})
		if err == nil || !errors.Is(err, inside) {
			t.Errorf("%s: got error %v, of the update %v, want one and the same", name, inside, err)
		}
	}
	if left := recordstest.Records(t, s, records.KindVersion); len(left) != 2 {
		t.Errorf("%d versions are left, want 2", len(left))
	}
}

// TestOverlookedFailure makes writes that fail. The change fails with the first of them, although its
// function ignores that.
func TestOverlookedFailure(t *testing.T) {
	invalid, large, text := newWorkspace("invalid"), newWorkspace("large"), newWorkspace("text")
	invalid.ID = "no UUID"
	large.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("x", records.MaxRecord) + `"]`)
	text.Name = "\xff"
	for want, w := range map[string]domain.Workspace{"not a UUID": invalid, "more than the": large, "UTF-8": text} {
		m := newMemory()
		err := m.update(t, func(tx domain.Tx) error {
			_, _ = tx.PutWorkspace(newWorkspace("before")), tx.PutWorkspace(w)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) || len(m.stored) > 0 {
			t.Errorf("got error %v and %d records, want an error about %q and none", err, len(m.stored), want)
		}
	}
}

// TestPanickingRead panics in reads, as an engine may do on damaged files.
func TestPanickingRead(t *testing.T) {
	p := newPreset(newID(), "p")
	for name, read := range map[string]func(r *records.Reader) error{
		"looked up": func(r *records.Reader) error { _, err := r.Preset(p.WorkspaceID, p.Slug); return err },
		"gone through": func(r *records.Reader) error {
			for _, err := range r.Presets(p.WorkspaceID) {
				return err
			}
			return nil
		},
	} {
		err := read(records.NewReader(panicking{}))
		if want := "stored data is damaged: reading a preset record: panic: index out of range"; !errors.Is(err, storage.ErrDamaged) || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", name, err, want)
		}
	}
}

type panicking struct{}

func (panicking) Get(records.Key) ([]byte, error)      { panic("index out of range") }
func (panicking) Iterate(records.Key) records.Iterator { panic("index out of range") }

// TestFailingReads makes each read of an engine fail in turn. The failure must be reported
// neither as damage nor as the end of the records.
func TestFailingReads(t *testing.T) {
	m := newMemory()
	w := newWorkspace("w")
	var p domain.Preset
	err := m.update(t, func(tx domain.Tx) error {
		err := cmp.Or(tx.PutWorkspace(w), tx.PutKey(domain.Key{ID: newID()}), tx.PutKey(domain.Key{ID: newID(), Hash: domain.KeyHash{1}}))
		for i := range 30 {
			p = newPreset(w.ID, fmt.Sprint("p-", i))
			p.DesignatedVersion = 1
			v := domain.PresetVersion{PresetID: p.ID, Version: 1, Config: []byte("{}")}
			err = cmp.Or(err, tx.PutPreset(p), tx.PutPresetVersion(p, v))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	deliberate := errors.New("deliberate")
	for name, do := range map[string]func() error{
		"workspace": func() error {
			return m.view(t, func(r domain.Reader) error { _, err := r.Workspace(w.ID); return err })
		},
		"keys":       func() error { return m.view(t, func(r domain.Reader) error { _, err := r.Keys(); return err }) },
		"audit head": func() error { return m.view(t, func(r domain.Reader) error { _, err := r.AuditHead(); return err }) },
		"page": func() error {
			return m.view(t, func(r domain.Reader) error {
				_, _, err := r.PresetPage(w.ID, domain.ListedPresets, domain.Page{Limit: 20})
				return err
			})
		},
		"page of none": func() error {
			return m.view(t, func(r domain.Reader) error {
				_, _, err := r.PresetPage(newID(), domain.ListedPresets, domain.Page{Limit: 20})
				return err
			})
		},
		"presets": func() error {
			return m.view(t, func(r domain.Reader) (err error) {
				for _, err = range r.Presets(w.ID) {
				}
				return err
			})
		},
		"change": func() error {
			return m.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) })
		},
		"check": func() error {
			c := records.Checker{Pause: func() error { return nil }, Report: new(storage.Report)}
			err := c.Check(m)
			if len(c.Report.Problems) > 0 { // it reports records that it cannot read
				err = deliberate
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 1000 {
				before := maps.Clone(m.stored)
				m.failed, m.passes = deliberate, n
				err := do()
				all := m.passes >= 0
				m.failed = nil
				if all {
					if err != nil || n == 0 {
						t.Errorf("without a failure of its %d reads: got error %v", n, err)
					}
					return
				}
				if !errors.Is(err, deliberate) || errors.Is(err, storage.ErrDamaged) {
					t.Errorf("read %d failed: got error %v, want %v", n+1, err, deliberate)
				}
				if !maps.EqualFunc(m.stored, before, bytes.Equal) {
					t.Errorf("read %d failed: there was a change", n+1)
				}
			}
			t.Error("it reads without an end")
		})
	}
}
