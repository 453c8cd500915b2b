package records_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

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

// TestLists puts and deletes objects of two lists at random, over many blocks, and compares
// pages and the whole list with a model.
func TestLists(t *testing.T) {
	s := newMemory()
	w := newWorkspace("home")
	homes := []domain.Workspace{w}
	if err := s.update(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) }); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var presets []domain.Preset // the one put last comes first
	for round := range 300 {
		var added []domain.Preset
		archives := random.IntN(5) == 0
		err := s.update(t, func(tx domain.Tx) error {
			for range 1 + random.IntN(12) {
				p := newPreset(w.ID, fmt.Sprint("p-", random.IntN(400)))
				if len(presets) > 0 && random.IntN(5) == 0 {
					p.Slug = presets[0].Slug // or the preset that was last until now
				}
				if archives {
					p.Status = domain.PresetArchived
				} else if random.IntN(4) == 0 {
					p.Status = domain.PresetDisabled
				}
				added = append(added, p)
				if err := tx.PutPreset(p); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range added {
			presets = slices.DeleteFunc(presets, func(q domain.Preset) bool { return p.Slug == q.Slug })
			presets = slices.Insert(presets, 0, p)
		}
		home := newWorkspace(fmt.Sprint("w-", round))
		homes = append(homes, home)
		gone := random.IntN(len(homes))
		err = s.update(t, func(tx domain.Tx) error {
			err := tx.PutWorkspace(home)
			if homes[gone].ID != w.ID && round%3 == 0 {
				err = cmp.Or(err, tx.DeleteWorkspace(homes[gone]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if homes[gone].ID != w.ID && round%3 == 0 {
			homes = slices.Delete(homes, gone, gone+1)
		}
		if round%60 == 0 {
			recordstest.CheckLists(t, s)
		}
	}
	recordstest.CheckLists(t, s)
	err := s.view(t, func(r domain.Reader) error {
		for filter, without := range map[domain.PresetFilter][]domain.PresetStatus{
			domain.ListedPresets:   {domain.PresetArchived},
			domain.ActivePresets:   {domain.PresetArchived, domain.PresetDisabled},
			domain.DisabledPresets: {domain.PresetArchived, domain.PresetActive},
			domain.ArchivedPresets: {domain.PresetActive, domain.PresetDisabled},
			domain.AllPresets:      nil,
		} {
			presets := slices.DeleteFunc(slices.Clone(presets), func(p domain.Preset) bool { return slices.Contains(without, p.Status) })
			var slugs []string
			for text, err := range r.PresetList(w.ID, filter) {
				var p domain.Preset
				if err := cmp.Or(err, json.Unmarshal(text, &p)); err != nil {
					return err
				}
				slugs = append(slugs, p.Slug)
			}
			if !slices.EqualFunc(slugs, presets, func(slug string, p domain.Preset) bool { return slug == p.Slug }) {
				t.Errorf("%q: the whole list has %d presets, want %d in their order", filter, len(slugs), len(presets))
			}
			for offset := 0; offset < len(presets)+20; offset += 9 {
				page, total, err := recordstest.PresetPage(r, w.ID, filter, domain.Page{Offset: offset, Limit: 20})
				if err != nil {
					return err
				}
				want := presets[min(offset, len(presets)):min(offset+20, len(presets))]
				if total != len(presets) || !slices.EqualFunc(page, want, func(a, b domain.Preset) bool { return a.ID == b.ID }) {
					t.Errorf("%q, offset %d: got a total of %d and a wrong page, want %d", filter, offset, total, len(presets))
				}
			}
		}
		page, total, err := workspacePage(r, domain.Page{Limit: math.MaxInt})
		if total != len(homes) || !slices.EqualFunc(page, homes, func(a, b domain.Workspace) bool { return a.ID == b.ID }) {
			t.Errorf("got %d workspaces, want %d in their order", total, len(homes))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
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

// TestPlacesOfLists checks that two lists have distinct keys. One has the workspaces, the
// other the presets of a workspace whose id is all zeros.
func TestPlacesOfLists(t *testing.T) {
	s := newMemory()
	zero := uuid.UUID{}.String()
	err := s.update(t, func(tx domain.Tx) error {
		return cmp.Or(tx.PutWorkspace(newWorkspace("a")), tx.PutPreset(newPreset(zero, "p")))
	})
	if err != nil {
		t.Fatal(err)
	}
	recordstest.CheckLists(t, s)
	err = s.view(t, func(r domain.Reader) error {
		presets, total, err1 := presetPage(r, zero, domain.Page{Limit: 5})
		if len(presets) != 1 || total != 1 {
			t.Errorf("got %d presets of %d, want 1", len(presets), total)
		}
		homes, total, err2 := workspacePage(r, domain.Page{Limit: 5})
		if len(homes) != 1 || total != 1 {
			t.Errorf("got %d workspaces of %d, want 1", len(homes), total)
		}
		return cmp.Or(err1, err2)
	})
	if err != nil {
		t.Error(err)
	}
}
