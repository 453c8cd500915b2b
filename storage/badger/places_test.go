package badger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// records returns all records of some kinds, by key.
func records(t *testing.T, s *Store, kinds ...kind) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := s.db.View(func(txn *badgerdb.Txn) error {
		for _, of := range kinds {
			it := txn.NewIterator(badgerdb.IteratorOptions{Prefix: newKey(of, 0)})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				record, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				found[string(it.Item().Key())] = record
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func decoded[T any](t *testing.T, k string, record []byte, decode func([]byte) (T, error)) T {
	t.Helper()
	object, err := decodeRecord(key(k), record, decode)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// checkPlaces counts again, from the objects themselves, and compares with all that
// is stored of lists.
func checkPlaces(t *testing.T, s *Store) {
	t.Helper()
	places, leaves, nodes, ends := map[string]string{}, map[string]*leaf{}, map[string]*node{}, map[string]map[uint64]int{}
	add := func(l list, place uint64, text []byte) {
		k := string(l.placeKey(place))
		if other, taken := places[k]; taken {
			t.Errorf("%s and %s have the same place, %d", other, text, place)
		}
		places[k] = string(text)
		k = string(l.leafKey(place / 512))
		if leaves[k] == nil {
			leaves[k] = new(leaf)
		}
		leaves[k][place%512/64] |= 1 << (place % 64)
		k = string(l.nodeKey(place / 512 / 256))
		if nodes[k] == nil {
			nodes[k] = new(node)
		}
		nodes[k][place/512%256]++
		k = string(l.endKey())
		if ends[k] == nil {
			ends[k] = map[uint64]int{}
		}
		ends[k][place/512/256]++
	}
	for k, record := range records(t, s, kindWorkspace) {
		w := decoded(t, k, record, parseWorkspace)
		add(workspaces(), w.place, w.json)
	}
	for k, record := range records(t, s, kindPreset) {
		p := decoded(t, k, record, parsePreset)
		if archived := p.Status == domain.PresetArchived; archived != (p.place == 0) {
			t.Errorf("%s is %s and has place %d", p.json, p.Status, p.place)
		}
		if p.place != 0 {
			add(append(list{byte(kindPreset)}, k[2:18]...), p.place, p.json)
		}
	}
	stored := records(t, s, kindPlace)
	for k, record := range stored {
		if got := decoded(t, k, record, decodeBytes); string(got) != places[k] {
			t.Errorf("at %q stands %s, want %s", k, got, places[k])
		}
	}
	if len(stored) != len(places) {
		t.Errorf("%d places are stored, want %d", len(stored), len(places))
	}
	stored = records(t, s, kindLeaf)
	for k, record := range stored {
		if got := decoded(t, k, record, decodeLeaf); leaves[k] == nil || got != *leaves[k] {
			t.Errorf("a leaf is %v, want %v", got, leaves[k])
		}
	}
	if len(stored) != len(leaves) {
		t.Errorf("%d leaves are stored, want %d", len(stored), len(leaves))
	}
	stored = records(t, s, kindNode)
	for k, record := range stored {
		if got := decoded(t, k, record, decodeNode); nodes[k] == nil || got != *nodes[k] {
			t.Errorf("a node is %v, want %v", got, nodes[k])
		}
	}
	if len(stored) != len(nodes) {
		t.Errorf("%d nodes are stored, want %d", len(stored), len(nodes))
	}
	for k, record := range records(t, s, kindListEnd) {
		got := map[uint64]int{}
		for _, b := range decoded(t, k, record, decodeListEnd).nodes {
			got[b.number] = b.n
		}
		if !maps.Equal(got, ends[k]) {
			t.Errorf("a list counts %v, want %v", got, ends[k])
		}
		delete(ends, k)
	}
	if len(ends) > 0 {
		t.Errorf("the ends of %d lists are missing", len(ends))
	}
}

// presetPage and workspacePage return pages with the fields that clients see.
func presetPage(r domain.Reader, workspaceID string, page domain.Page) (presets []domain.Preset, total int, err error) {
	text, total, err := r.PresetPage(workspaceID, page)
	if err != nil {
		return nil, 0, err
	}
	return presets, total, json.Unmarshal(text, &presets)
}

func workspacePage(r domain.Reader, page domain.Page) (workspaces []domain.Workspace, total int, err error) {
	text, total, err := r.WorkspacePage(page)
	if err != nil {
		return nil, 0, err
	}
	return workspaces, total, json.Unmarshal(text, &workspaces)
}

func mustOpenInMemory(t *testing.T) *Store {
	t.Helper()
	s, err := OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func newPreset(workspaceID, slug string) domain.Preset {
	return domain.Preset{ID: newID(), WorkspaceID: workspaceID, Slug: slug, Status: domain.PresetActive, LatestVersion: 1}
}

// startAt makes place the last one that was given in a list, as if many changes
// had come before.
func startAt(t *testing.T, s *Store, l list, place uint64) {
	t.Helper()
	err := s.db.Update(func(txn *badgerdb.Txn) error {
		return txn.Set(l.endKey(), encodeListEnd(l.endKey(), listEnd{last: place}))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// border is a place with which a node begins, and so does a leaf.
const border = 5 << (leafBits + nodeBits)

// TestPlaces crosses the border between two nodes, and between leaves, in the
// workspaces and in the presets of one.
func TestPlaces(t *testing.T) {
	s := mustOpenInMemory(t)
	w := newWorkspace("home")
	l, _ := presetsOf(w.ID)
	startAt(t, s, workspaces(), border-100)
	startAt(t, s, l, border-1000)
	homes := []domain.Workspace{w}
	if err := s.Update(t.Context(), put(w)); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var presets []domain.Preset // the one put last comes first
	for round := range 300 {
		var added []domain.Preset
		archives := random.IntN(5) == 0
		err := s.Update(t.Context(), func(tx domain.Tx) error {
			for range 1 + random.IntN(12) {
				p := newPreset(w.ID, fmt.Sprint("p-", random.IntN(400)))
				if archives {
					p.Status = domain.PresetArchived
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
			if p.Status != domain.PresetArchived {
				presets = slices.Insert(presets, 0, p)
			}
		}
		home := newWorkspace(fmt.Sprint("w-", round))
		homes = append(homes, home)
		gone := random.IntN(len(homes))
		err = s.Update(t.Context(), func(tx domain.Tx) error {
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
			checkPlaces(t, s)
		}
	}
	checkPlaces(t, s)
	err := s.View(t.Context(), func(r domain.Reader) error {
		for offset := 0; offset < len(presets)+20; offset += 9 {
			page, total, err := presetPage(r, w.ID, domain.Page{Offset: offset, Limit: 20})
			if err != nil {
				return err
			}
			want := presets[min(offset, len(presets)):min(offset+20, len(presets))]
			if total != len(presets) || !slices.EqualFunc(page, want, func(a, b domain.Preset) bool { return a.ID == b.ID }) {
				t.Errorf("offset %d: got a total of %d and a wrong page, want %d", offset, total, len(presets))
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

// TestPlacesInAGroup lets operations that share a commit move the same presets.
func TestPlacesInAGroup(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := newID()
	release := hold(t, s)
	var fns []func(domain.Tx) error
	for i := range 100 {
		fns = append(fns, func(tx domain.Tx) error {
			p := newPreset(w, fmt.Sprint("p-", i%7))
			if i%10 == 9 {
				p.Status = domain.PresetArchived
			}
			err := tx.PutPreset(p)
			if i%6 == 5 {
				err = errors.Join(err, errDeliberate)
			}
			return err
		})
	}
	wait := enqueue(t, s, fns...)
	release(len(fns))
	var want []string
	for i, err := range wait() {
		if failed := i%6 == 5; failed != errors.Is(err, errDeliberate) || !failed && err != nil {
			t.Errorf("operation %d: got error %v", i, err)
		} else if failed {
			continue
		}
		slug := fmt.Sprint("p-", i%7)
		want = slices.DeleteFunc(want, func(s string) bool { return s == slug })
		if i%10 != 9 {
			want = slices.Insert(want, 0, slug)
		}
	}
	checkPlaces(t, s)
	err := s.View(t.Context(), func(r domain.Reader) error {
		page, _, err := presetPage(r, w, domain.Page{Limit: 10})
		var got []string
		for _, p := range page {
			got = append(got, p.Slug)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
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
	s := mustOpenInMemory(t)
	w := newWorkspace("w")
	l, _ := presetsOf(w.ID)
	startAt(t, s, l, border-70)
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		err := cmp.Or(tx.PutWorkspace(w), tx.PutWorkspace(newWorkspace("x")))
		for i := range 90 {
			err = cmp.Or(err, tx.PutPreset(newPreset(w.ID, fmt.Sprint("p-", i))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := func() (found []string, err error) {
		err = s.View(t.Context(), func(r domain.Reader) error {
			for offset := 0; offset < 90; offset += 30 {
				page, total, err := presetPage(r, w.ID, domain.Page{Offset: offset, Limit: 30})
				if err != nil {
					return err
				}
				for _, p := range page {
					found = append(found, fmt.Sprint(p.Slug, " of ", total))
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
	if err != nil || len(want) != 92 {
		t.Fatalf("got %d objects and error %v, want 92", len(want), err)
	}
	set := func(k string, record []byte) {
		t.Helper()
		err := s.db.Update(func(txn *badgerdb.Txn) error {
			if record == nil {
				return txn.Delete([]byte(k))
			}
			return txn.Set([]byte(k), record)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := records(t, s, kindPlace, kindLeaf, kindNode, kindListEnd)
	for k, intact := range all {
		k := key(k)
		damages := map[string][]byte{"missing": nil, "a bit": slices.Clone(intact), "too short": seal(k, slices.Clone(intact[:len(intact)-1]))}
		damages["a bit"][len(intact)-1] ^= 2
		switch k.kind() {
		case kindPlace:
			delete(damages, "too short") // it may be of any length
		case kindLeaf:
			leaf := decoded(t, string(k), intact, decodeLeaf)
			leaf.set(leaf.taken(0)[0], false)
			damages["one less"] = encodeLeaf(k, &leaf)
		case kindNode:
			node := decoded(t, string(k), intact, decodeNode)
			one := slices.IndexFunc(node[:], func(n uint16) bool { return n > 0 })
			node[one]++
			damages["one more"] = encodeNode(k, &node)
			node[one]--
			node[(one+1)%len(node)], node[one] = node[one], node[(one+1)%len(node)]
			damages["exchanged"] = encodeNode(k, &node)
		case kindListEnd:
			end := decoded(t, string(k), intact, decodeListEnd)
			end.nodes[0].n--
			damages["one less"] = encodeListEnd(k, end)
			end.nodes[0].n += 2
			damages["one more"] = encodeListEnd(k, end)
		}
		for name, record := range damages {
			set(string(k), record)
			if _, err := pages(); !errors.Is(err, ErrDamaged) || errors.Is(err, domain.ErrNotFound) {
				t.Errorf("%v, %s: got error %v, want ErrDamaged", k.kind(), name, err)
			}
		}
		set(string(k), intact)
	}
	if again, err := pages(); err != nil || !slices.Equal(again, want) {
		t.Fatalf("put back: got %d objects and error %v, want all as it was", len(again), err)
	}
	checkPlaces(t, s)

	// Nor is any of it written over.
	p := newPreset(w.ID, "p-0")
	for _, k := range []key{l.leafKey(border>>leafBits - 1), l.nodeKey(4), l.endKey()} {
		intact := records(t, s, k.kind())[string(k)]
		if intact == nil {
			t.Fatalf("there is no such %v", k.kind())
		}
		damaged := slices.Clone(intact)
		damaged[recordHeader] ^= 1
		set(string(k), damaged)
		if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) }); !errors.Is(err, ErrDamaged) {
			t.Errorf("a change beside a damaged %v: got error %v, want ErrDamaged", k.kind(), err)
		}
		if k.kind() != kindListEnd {
			set(string(k), nil)
			if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) }); !errors.Is(err, ErrDamaged) {
				t.Errorf("a change beside a missing %v: got error %v, want ErrDamaged", k.kind(), err)
			}
		}
		set(string(k), intact)
	}
	if again, err := pages(); err != nil || !slices.Equal(again, want) {
		t.Errorf("after refused changes: got %d objects and error %v, want all as it was", len(again), err)
	}
	if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
		t.Error(err)
	}
	checkPlaces(t, s)
}

// TestPlacesOfLists keeps the list of the workspaces apart from that of the
// presets of a workspace whose id is all zeros.
func TestPlacesOfLists(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	zero := uuid.UUID{}.String()
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		return cmp.Or(tx.PutWorkspace(newWorkspace("a")), tx.PutPreset(newPreset(zero, "p")))
	})
	if err != nil {
		t.Fatal(err)
	}
	checkPlaces(t, s)
	err = s.View(t.Context(), func(r domain.Reader) error {
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
