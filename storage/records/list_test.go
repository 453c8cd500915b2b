package records_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// presetPage and workspacePage return pages with the fields that clients see.
func presetPage(r domain.Reader, workspaceID string, page domain.Page) (presets []domain.Preset, total int, err error) {
	return recordstest.PresetPage(r, workspaceID, domain.ListedPresets, page)
}

func workspacePage(r domain.Reader, page domain.Page) (workspaces []domain.Workspace, total int, err error) {
	text, total, err := r.WorkspacePage(page)
	if err != nil {
		return nil, 0, err
	}
	err = json.Unmarshal(text, &workspaces)
	return workspaces, total, err
}

// TestLastPlace puts the preset that was put last again. The list stays as it is, and shows
// the new state.
func TestLastPlace(t *testing.T) {
	s := newMemory()
	w := newWorkspace("home")
	put := func(slug, name string) map[string][]byte {
		p := newPreset(w.ID, slug)
		p.Name = name
		if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
			t.Fatal(err)
		}
		return recordstest.Records(t, s, records.KindListHead, records.KindListBlock)
	}
	put("first", "one")
	before := put("second", "two")
	if after := put("second", "three"); len(after) != 2 || !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("the list has changed from %q to %q", before, after)
	}
	recordstest.CheckLists(t, s)
	err := s.view(t, func(r domain.Reader) error {
		page, _, err := presetPage(r, w.ID, domain.Page{Limit: 10})
		if len(page) != 2 || page[0].Name != "three" || page[1].Name != "one" {
			t.Errorf("got %v, want the two with the newest one's new name first", page)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDamagedLists removes, changes and swaps each record of the lists of a store. Pages are
// then as they were, or fail.
func TestDamagedLists(t *testing.T) {
	s := newMemory()
	w := newWorkspace("w")
	err := s.update(t, func(tx domain.Tx) error {
		err := cmp.Or(tx.PutWorkspace(w), tx.PutWorkspace(newWorkspace("x")))
		for i := range 90 {
			p := newPreset(w.ID, fmt.Sprint("p-", i))
			switch i % 9 {
			case 4:
				p.Status = domain.PresetDisabled
			case 7:
				p.Status = domain.PresetArchived
			}
			err = cmp.Or(err, tx.PutPreset(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := func() (found []string, err error) {
		err = s.view(t, func(r domain.Reader) error {
			for _, filter := range []domain.PresetFilter{
				domain.ListedPresets, domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets, domain.AllPresets,
			} {
				for offset := 0; offset < 90; offset += 30 {
					page, total, err := recordstest.PresetPage(r, w.ID, filter, domain.Page{Offset: offset, Limit: 30})
					if err != nil {
						return err
					}
					for _, p := range page {
						found = append(found, fmt.Sprint(filter, p.Slug, " of ", total))
					}
				}
			}
			page, total, err := workspacePage(r, domain.Page{Limit: 50})
			for _, w := range page {
				found = append(found, fmt.Sprint(w.Slug, " of ", total))
			}
			return err
		})
		return found, err
	}
	want, err := pages()
	if err != nil || len(want) != 80+70+10+10+90+2 {
		t.Fatalf("got %d objects and error %v, want 262", len(want), err)
	}
	all := recordstest.Records(t, s, records.KindListBlock, records.KindListHead)
	for k, intact := range all {
		k := records.Key(k)
		payload, err := records.Unseal(k, intact)
		if err != nil {
			t.Fatal(err)
		}
		damages := map[string][]byte{"missing": nil, "a bit": slices.Clone(intact), "too short": records.Seal(k, payload[:len(payload)-1])}
		damages["a bit"][len(intact)-1] ^= 2
		changed := func(name string, at int, by byte) {
			payload := slices.Clone(payload)
			payload[at] += by
			damages[name] = records.Seal(k, payload)
		}
		if k.Kind() == records.KindListBlock {
			changed("another state", 0, 1)
			changed("another name", 2, 1)
			changed("an unknown state", 0, 4)
		} else {
			counted := len(payload) - 4 // of workspaces
			if payload[counted] == 0 {
				counted++ // of active presets
			}
			changed("one less", counted, 255)
			changed("one more", counted, 1)
		}
		for name, record := range damages {
			s.set(string(k), record)
			if _, err := pages(); !errors.Is(err, storage.ErrDamaged) || errors.Is(err, domain.ErrNotFound) {
				t.Errorf("%v, %s: got error %v, want ErrDamaged", k.Kind(), name, err)
			}
		}
		s.set(string(k), intact)
	}
	if again, err := pages(); err != nil || !slices.Equal(again, want) {
		t.Fatalf("put back: got %d objects and error %v, want all as it was", len(again), err)
	}
	recordstest.CheckLists(t, s)

	// The records are not overwritten either.
	p := newPreset(w.ID, "p-0")
	for k, intact := range all {
		k := records.Key(k)
		if k[2] != 'p' {
			continue
		}
		damaged := slices.Clone(intact)
		damaged[len(records.Seal(k, nil))] ^= 1
		isNewest, isMiddle := k[len(k)-1] == 253, k[len(k)-1] == 254
		for name, record := range map[string][]byte{"damaged": damaged, "missing": nil} {
			if k.Kind() == records.KindListBlock && (isMiddle || isNewest && record == nil) {
				continue // the change does not read it, or cannot tell that it was there
			}
			s.set(string(k), record)
			if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("a change beside a %s %v: got error %v, want ErrDamaged", name, k.Kind(), err)
			}
		}
		s.set(string(k), intact)
	}
	if again, err := pages(); err != nil || !slices.Equal(again, want) {
		t.Errorf("after refused changes: got %d objects and error %v, want all as it was", len(again), err)
	}
	if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
		t.Error(err)
	}
	recordstest.CheckLists(t, s)
}
