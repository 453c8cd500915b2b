// Package recordstest checks what an engine has stored, in the tests of engines.
package recordstest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Records returns the records of some kinds that a snapshot shows, by key.
func Records(t *testing.T, s records.Snapshot, kinds ...records.Kind) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, of := range kinds {
		it := s.Iterate(of.Prefix())
		for it.Seek(of.Prefix()); it.Valid(); it.Next() {
			record, err := it.Value()
			if err != nil {
				t.Error(err)
			}
			found[string(it.Key())] = append([]byte{}, record...)
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		it.Close()
	}
	return found
}

// CheckLists compares the lists that a snapshot shows with the objects themselves.
func CheckLists(t *testing.T, s records.Snapshot) {
	t.Helper()
	r := records.NewReader(s)
	check := func(name string, want []string, total int, text []byte, err error) {
		t.Helper()
		var listed []struct{ ID string }
		if err == nil {
			err = json.Unmarshal(text, &listed)
		}
		var got []string
		for _, object := range listed {
			got = append(got, object.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || total != len(want) || !slices.Equal(got, want) {
			t.Errorf("the list of %s has %q of %d and error %v, want %q", name, got, total, err, want)
		}
	}
	everything := domain.Page{Limit: math.MaxInt}
	var workspaces []string
	for k := range Records(t, s, records.KindWorkspace) {
		workspaces = append(workspaces, uuid.UUID([]byte(k[2:])).String())
	}
	text, total, err := r.WorkspacePage(everything)
	check("workspaces", workspaces, total, text, err)

	lists := map[string]bool{"w": true}
	for k := range Records(t, s, records.KindPreset) {
		lists["p"+k[2:18]] = true
	}
	for k := range Records(t, s, records.KindListBlock, records.KindListHead) {
		list := k[2:]
		if records.Key(k).Kind() == records.KindListBlock {
			list = list[:len(list)-8]
		}
		if !lists[list] {
			t.Errorf("there is a %v without an object", records.Key(k).Kind())
		}
	}
	delete(lists, "w")
	for list := range lists {
		workspace := uuid.UUID([]byte(list[1:])).String()
		for _, status := range []domain.PresetStatus{domain.PresetActive, domain.PresetDisabled, domain.PresetArchived} {
			var want []string
			for p, err := range r.Presets(workspace) {
				if err != nil {
					t.Error(err)
				} else if p.Status == status {
					want = append(want, p.ID)
				}
			}
			text, total, err := r.PresetPage(workspace, domain.PresetFilter(status), everything)
			check(fmt.Sprint(status, " presets"), want, total, text, err)
		}
	}
}

// PresetPage returns a page of presets with the fields that clients see, and how many there are in all.
func PresetPage(r domain.Reader, workspaceID string, filter domain.PresetFilter, page domain.Page) (presets []domain.Preset, total int, err error) {
	text, total, err := r.PresetPage(workspaceID, filter, page)
	if err != nil {
		return nil, 0, err
	}
	err = json.Unmarshal(text, &presets)
	return presets, total, err
}
