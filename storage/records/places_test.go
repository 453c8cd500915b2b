package records_test

import (
	"cmp"
	"encoding/binary"
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
	return filteredPage(r, workspaceID, domain.ListedPresets, page)
}

func filteredPage(r domain.Reader, workspaceID string, filter domain.PresetFilter, page domain.Page) (presets []domain.Preset, total int, err error) {
	text, total, err := r.PresetPage(workspaceID, filter, page)
	if err != nil {
		return nil, 0, err
	}
	err = json.Unmarshal(text, &presets)
	return presets, total, err
}

func workspacePage(r domain.Reader, page domain.Page) (workspaces []domain.Workspace, total int, err error) {
	text, total, err := r.WorkspacePage(page)
	if err != nil {
		return nil, 0, err
	}
	err = json.Unmarshal(text, &workspaces)
	return workspaces, total, err
}

// list is the part of a list's keys behind their kind.
type list string

const workspaces list = "w"

func presetsOf(workspaceID string) list {
	id := uuid.MustParse(workspaceID)
	return list("p" + string(id[:]))
}

func (l list) key(of records.Kind, number ...uint64) records.Key {
	k := append(of.Prefix(), l...)
	for _, n := range number {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// startAt sets the last place given in a list, as after many changes.
func startAt(s *memory, l list, place uint64) {
	k := l.key(records.KindListEnd)
	s.set(string(k), records.Seal(k, binary.BigEndian.AppendUint64(nil, place)))
}

// border is a place with which a node begins, and so does a leaf.
const border = 5 * 256 * 512

// TestPlaces crosses the border between two nodes, and between leaves, in the
// workspaces and in the presets of one.
func TestPlaces(t *testing.T) {
	s := newMemory()
	w := newWorkspace("home")
	l := presetsOf(w.ID)
	startAt(s, workspaces, border-100)
	startAt(s, l, border-1000)
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
			recordstest.CheckPlaces(t, s)
		}
	}
	recordstest.CheckPlaces(t, s)
	err := s.view(t, func(r domain.Reader) error {
		for filter, without := range map[domain.PresetFilter][]domain.PresetStatus{
			domain.ListedPresets:   {domain.PresetArchived},
			domain.ActivePresets:   {domain.PresetArchived, domain.PresetDisabled},
			domain.DisabledPresets: {domain.PresetArchived, domain.PresetActive},
			domain.ArchivedPresets: {domain.PresetActive, domain.PresetDisabled},
			domain.AllPresets:      nil,
		} {
			presets := slices.DeleteFunc(slices.Clone(presets), func(p domain.Preset) bool { return slices.Contains(without, p.Status) })
			for offset := 0; offset < len(presets)+20; offset += 9 {
				page, total, err := filteredPage(r, w.ID, filter, domain.Page{Offset: offset, Limit: 20})
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

// TestLastPlace puts the preset that was put last again. It keeps its place, and the copy
// there is new.
func TestLastPlace(t *testing.T) {
	s := newMemory()
	w := newWorkspace("home")
	l := presetsOf(w.ID)
	put := func(slug, name string) map[string][]byte {
		p := newPreset(w.ID, slug)
		p.Name = name
		if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
			t.Fatal(err)
		}
		return maps.Clone(s.stored)
	}
	put("first", "one")
	before := put("second", "two")
	after := put("second", "three")
	for _, k := range []records.Key{l.key(records.KindListEnd), l.key(records.KindNode, 0), l.key(records.KindLeaf, 0)} {
		if string(before[string(k)]) != string(after[string(k)]) {
			t.Errorf("the record of the %v has changed", k.Kind())
		}
	}
	recordstest.CheckPlaces(t, s)
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

// TestDamagedPlaces removes, changes and swaps each record of the lists of a
// store. Pages are then as they were, or fail.
func TestDamagedPlaces(t *testing.T) {
	s := newMemory()
	w := newWorkspace("w")
	l := presetsOf(w.ID)
	startAt(s, l, border-70)
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
					page, total, err := filteredPage(r, w.ID, filter, domain.Page{Offset: offset, Limit: 30})
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
	all := recordstest.Records(t, s, records.KindPlace, records.KindLeaf, records.KindNode, records.KindListEnd)
	for k, intact := range all {
		k := records.Key(k)
		payload, err := records.Unseal(k, intact)
		if err != nil {
			t.Fatal(err)
		}
		damages := map[string][]byte{"missing": nil, "a bit": slices.Clone(intact), "too short": records.Seal(k, payload[:len(payload)-1])}
		damages["a bit"][len(intact)-1] ^= 2
		changed := func(name string, change func(payload []byte)) {
			payload := slices.Clone(payload)
			change(payload)
			damages[name] = records.Seal(k, payload)
		}
		switch k.Kind() {
		case records.KindPlace:
			delete(damages, "too short") // it may be of any length
		case records.KindLeaf:
			taken := 1 + slices.IndexFunc(payload[1:], func(b byte) bool { return b > 0 })
			changed("one less", func(leaf []byte) { leaf[taken] &= leaf[taken] - 1 })
			changed("another state", func(leaf []byte) { leaf[0] = (leaf[0] + 1) % 3 })
			changed("an unknown state", func(leaf []byte) { leaf[0] = 3 })
		case records.KindNode:
			counted := 1 + slices.IndexFunc(payload[1:513], func(b byte) bool { return b > 0 })/2*2
			changed("one more", func(node []byte) { node[counted+1]++ })
			changed("another state", func(node []byte) { node[0] = (node[0] + 1) % 3 })
			changed("an unknown state", func(node []byte) { node[0] = 3 })
			changed("exchanged", func(node []byte) {
				one, other := node[counted:counted+2], node[1+(counted+1)%512:]
				one[0], one[1], other[0], other[1] = other[0], other[1], one[0], one[1]
			})
		case records.KindListEnd:
			changed("one less", func(end []byte) { end[8+15]-- })
			changed("one more", func(end []byte) { end[8+15]++ })
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
	recordstest.CheckPlaces(t, s)

	// The records are not overwritten either.
	p := newPreset(w.ID, "p-0")
	for _, k := range []records.Key{l.key(records.KindLeaf, border/512-1), l.key(records.KindNode, 4), l.key(records.KindListEnd)} {
		intact := recordstest.Records(t, s, k.Kind())[string(k)]
		if intact == nil {
			t.Fatalf("there is no such %v", k.Kind())
		}
		damaged := slices.Clone(intact)
		damaged[len(records.Seal(k, nil))] ^= 1
		s.set(string(k), damaged)
		if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("a change beside a damaged %v: got error %v, want ErrDamaged", k.Kind(), err)
		}
		if k.Kind() != records.KindListEnd {
			s.set(string(k), nil)
			if err := s.update(t, func(tx domain.Tx) error { return tx.PutPreset(p) }); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("a change beside a missing %v: got error %v, want ErrDamaged", k.Kind(), err)
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
	recordstest.CheckPlaces(t, s)
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
	recordstest.CheckPlaces(t, s)
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
