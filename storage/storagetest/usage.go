package storagetest

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkUsage compares the rows that a range selects with the rows of all that are in it.
func checkUsage(t *testing.T, r domain.Reader, of domain.UsageRange, all []domain.UsageRow) {
	t.Helper()
	var want []domain.UsageRow
	for _, row := range all {
		in := row.Day == of.Day && !row.Start.Before(of.From) && row.Start.Before(of.To)
		if in && (of.WorkspaceID == "" || of.WorkspaceID == row.WorkspaceID) && (of.PresetID == nil || *of.PresetID == row.PresetID) {
			want = append(want, row)
		}
	}
	slices.SortFunc(want, func(a, b domain.UsageRow) int {
		return cmp.Or(strings.Compare(a.WorkspaceID, b.WorkspaceID), strings.Compare(a.PresetID, b.PresetID), a.Start.Compare(b.Start), strings.Compare(a.Node, b.Node))
	})
	got, err := collect(r.UsageRows(of))
	if err != nil {
		t.Errorf("%+v: %v", of, err)
		return
	}
	checkSame(t, got, want)
	for _, row := range want {
		wantValue(t, row.Content)(r.Usage(row.UsageID, row.Node))
	}
}

// usageRows stores rows of presets, hours, days and nodes. It selects, replaces and removes
// them.
func usageRows(t *testing.T, s *suite) {
	day := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	first, second := newWorkspace("first"), newWorkspace("second")
	nodes := []string{"00000000-0000-0000-0000-000000000000", newID()}
	presets := []string{"", newID(), newID()}
	var all []domain.UsageRow
	for _, w := range []domain.Workspace{first, second} {
		for _, preset := range presets {
			for hour := range 5 {
				for i, node := range nodes {
					id := domain.UsageID{WorkspaceID: w.ID, PresetID: preset, Start: day.Add(time.Duration(hour) * time.Hour)}
					all = append(all, domain.UsageRow{UsageID: id, Node: node, Content: bytes.Repeat([]byte{byte(hour), byte(i)}, 1000)})
					id.Day, id.Start = true, day.AddDate(0, 0, hour)
					all = append(all, domain.UsageRow{UsageID: id, Node: node, Content: []byte{byte(i), 1, byte(hour)}})
				}
			}
		}
	}
	s.put(t, first, second)
	putAll := func(tx domain.Tx) (err error) {
		for _, row := range all {
			err = cmp.Or(err, tx.PutUsage(row))
		}
		return err
	}
	periods := [][2]time.Time{
		{{}, day.AddDate(1, 0, 0)},
		{day, day},
		{day.Add(time.Hour), day.Add(3 * time.Hour)},
		{day.Add(time.Nanosecond), day.Add(3*time.Hour + time.Nanosecond)},
		{day.AddDate(0, 0, 1), day.AddDate(0, 0, 3)},
	}
	check := func(r domain.Reader) {
		for _, workspace := range []string{"", first.ID, second.ID, newID()} {
			for _, preset := range []*string{nil, &presets[0], &presets[2], new(newID())} {
				if workspace == "" && preset != nil {
					continue
				}
				for _, days := range []bool{false, true} {
					for _, period := range periods {
						checkUsage(t, r, domain.UsageRange{WorkspaceID: workspace, PresetID: preset, Day: days, From: period[0], To: period[1]}, all)
					}
				}
			}
		}
	}
	s.try(t, true, func(tx domain.Tx) error {
		err := putAll(tx)
		check(tx)
		return err
	})
	wantNotFound(t, "a row of a failed update")(get(s, func(r domain.Reader) ([]byte, error) { return r.Usage(all[0].UsageID, all[0].Node) }))
	s.mustUpdate(t, putAll)
	s.checkAcrossReopen(t, check)

	removed := all[3]
	all = slices.Delete(all, 3, 4)
	all[0].Content = []byte("replaced")
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := cmp.Or(tx.PutUsage(all[0]), tx.RemoveUsage(removed.UsageID, removed.Node), tx.RemoveUsage(removed.UsageID, newID()))
		check(tx)
		return err
	})
	s.checkAcrossReopen(t, check)
}

// usageRefused puts rows that cannot be stored.
func usageRefused(t *testing.T, s *suite) {
	w, gone := newWorkspace("w"), newWorkspace("gone")
	s.put(t, w, gone)
	hour := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	row := domain.UsageRow{UsageID: domain.UsageID{WorkspaceID: w.ID, Start: hour}, Node: newID(), Content: []byte("x")}
	for name, change := range map[string]func(*domain.UsageRow){
		"no workspace":    func(r *domain.UsageRow) { r.WorkspaceID = "" },
		"no UUID":         func(r *domain.UsageRow) { r.PresetID = "preset" },
		"no node":         func(r *domain.UsageRow) { r.Node = "" },
		"part of an hour": func(r *domain.UsageRow) { r.Start = hour.Add(time.Second) },
		"part of a day":   func(r *domain.UsageRow) { r.Day = true },
		"before 1970":     func(r *domain.UsageRow) { r.Start = time.Unix(-3600, 0) },
		"too large":       func(r *domain.UsageRow) { r.Content = make([]byte, domain.MaxUsageSize+1) },
	} {
		wrong := row
		change(&wrong)
		if err := s.update(func(tx domain.Tx) error { return tx.PutUsage(wrong) }); err == nil || errors.Is(err, domain.ErrNotFound) {
			t.Errorf("%s: got error %v, want a refusal", name, err)
		}
	}
	row.Content = bytes.Repeat([]byte{7}, domain.MaxUsageSize)
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutUsage(row) })
	s.checkAcrossReopen(t, func(r domain.Reader) { wantValue(t, row.Content)(r.Usage(row.UsageID, row.Node)) })

	row.WorkspaceID = gone.ID
	s.mustUpdate(t, func(tx domain.Tx) error { return cmp.Or(tx.PutUsage(row), tx.DeleteWorkspace(gone)) })
	for _, id := range []string{gone.ID, newID()} {
		row.WorkspaceID = id
		if err := s.update(func(tx domain.Tx) error { return tx.PutUsage(row) }); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("a row of a workspace that is not stored: got error %v, want ErrNotFound", err)
		}
	}
}

// served stores when versions were last served, and replaces it.
func served(t *testing.T, s *suite) {
	w, other, gone := newWorkspace("w"), newWorkspace("other"), newWorkspace("gone")
	s.put(t, w, other, gone, newPreset(w.ID, "p"), newPreset(w.ID, "pq"))
	large := make(domain.Served)
	for n := range domain.MaxServed {
		large[1+3*n] = int64(500_000 + n)
	}
	for _, want := range []domain.Served{{1: 0}, {1: 500_000, 2: 7, 1 << 30: 500_001}, large} {
		s.mustUpdate(t, func(tx domain.Tx) error {
			err := tx.PutServed(w.ID, "p", want)
			wantValue(t, want)(tx.Served(w.ID, "p"))
			return err
		})
		s.checkAcrossReopen(t, func(r domain.Reader) {
			wantValue(t, want)(r.Served(w.ID, "p"))
			for _, of := range [][2]string{{w.ID, "pq"}, {other.ID, "p"}, {w.ID, ""}, {"", "p"}} {
				if got, err := r.Served(of[0], of[1]); len(got) > 0 || err != nil {
					t.Errorf("%q: got %v and %v, want nothing", of, got, err)
				}
			}
		})
	}
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.DeleteWorkspace(gone) })
	for _, id := range []string{gone.ID, newID()} {
		if err := s.update(func(tx domain.Tx) error { return tx.PutServed(id, "p", domain.Served{1: 1}) }); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("a workspace that is not stored: got error %v, want ErrNotFound", err)
		}
	}
}
