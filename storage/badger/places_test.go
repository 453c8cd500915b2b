package badger

import (
	"cmp"
	"errors"
	"fmt"
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
	places, counts, totals := map[string]string{}, map[string]uint64{}, map[string]int{}
	add := func(l list, place uint64, name string) {
		totals[string(l.endKey())]++
		k := string(l.levelKey(0, place))
		if other, taken := places[k]; taken {
			t.Errorf("%q and %q have the same place, %d", other, name, place)
		}
		places[k] = name
		for level := 1; level <= topLevel; level++ {
			counts[string(l.levelKey(level, place>>(6*level)))]++
		}
	}
	for k, record := range records(t, s, kindWorkspace) {
		w := decoded(t, k, record, decodeJSON[storedWorkspace])
		add(workspaces(), w.Place, w.ID)
	}
	for k, record := range records(t, s, kindPreset) {
		p := decoded(t, k, record, decodeJSON[storedPreset])
		if archived := p.Status == domain.PresetArchived; archived != (p.Place == 0) {
			t.Errorf("%s is %s and has place %d", p.Slug, p.Status, p.Place)
		}
		if l, _ := presetsOf(p.WorkspaceID); p.Place != 0 {
			add(l, p.Place, p.Slug)
		}
	}
	stored := records(t, s, kindPlace)
	for k, record := range stored {
		if got := decoded(t, k, record, decodeID); got != places[k] {
			t.Errorf("at place %d stands %q, want %q", key(k).number(), got, places[k])
		}
	}
	if len(stored) != len(places) {
		t.Errorf("%d places are stored, want %d", len(stored), len(places))
	}
	stored = records(t, s, kindCount)
	for k, record := range stored {
		if got := decoded(t, k, record, decodeNumber); got != counts[k] {
			t.Errorf("a count is %d, want %d", got, counts[k])
		}
	}
	if len(stored) != len(counts) {
		t.Errorf("%d counts are stored, want %d", len(stored), len(counts))
	}
	for k, record := range records(t, s, kindListEnd) {
		if got := decoded(t, k, record, decodeListEnd); got.total != totals[k] {
			t.Errorf("a total is %d, want %d", got.total, totals[k])
		}
		delete(totals, k)
	}
	if len(totals) > 0 {
		t.Errorf("the ends of %d lists are missing", len(totals))
	}
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

// TestPlaces crosses the border between two buckets of the top level, and of all
// others, in the workspaces and in the presets of one.
func TestPlaces(t *testing.T) {
	s := mustOpenInMemory(t)
	const border = 5 << (bucketBits * topLevel)
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
			page, total, err := r.PresetPage(w.ID, domain.Page{Offset: offset, Limit: 20})
			if err != nil {
				return err
			}
			want := presets[min(offset, len(presets)):min(offset+20, len(presets))]
			if total != len(presets) || !slices.EqualFunc(page, want, func(a, b domain.Preset) bool { return a.ID == b.ID }) {
				t.Errorf("offset %d: got a total of %d and a wrong page, want %d", offset, total, len(presets))
			}
		}
		page, total, err := r.WorkspacePage(domain.Page{Limit: math.MaxInt})
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
		page, _, err := r.PresetPage(w, domain.Page{Limit: 10})
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
	startAt(t, s, l, 5<<(bucketBits*topLevel)-70)
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
				page, total, err := r.PresetPage(w.ID, domain.Page{Offset: offset, Limit: 30})
				if err != nil {
					return err
				}
				for _, p := range page {
					found = append(found, fmt.Sprint(p.Slug, " of ", total))
				}
			}
			page, total, err := r.WorkspacePage(domain.Page{Limit: 50})
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
	all := records(t, s, kindPlace, kindCount, kindListEnd)
	for k, intact := range all {
		k := key(k)
		damages := map[string][]byte{"missing": nil, "a bit": slices.Clone(intact)}
		damages["a bit"][len(intact)-1] ^= 2
		switch k.kind() {
		case kindPlace:
			damages["another name"] = encodeID(k, "p-7")
			damages["an unknown name"] = encodeID(k, "unknown")
		case kindCount:
			damages["one more"] = encodeNumber(k, decoded(t, string(k), intact, decodeNumber)+1)
			damages["none"] = encodeNumber(k, 0)
			damages["below none"] = encodeNumber(k, math.MaxUint64)
		case kindListEnd:
			end := decoded(t, string(k), intact, decodeListEnd)
			end.total--
			damages["one less"] = encodeListEnd(k, end)
		}
		if k.kind() != kindListEnd {
			other := slices.Clone(k)
			other[len(other)-1] ^= bucketSize / 2 // still in the same bucket
			set(string(other), seal(other, slices.Clone(intact)))
			if _, err := pages(); all[string(other)] == nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%v, one too many: got error %v, want ErrDamaged", k.kind(), err)
			}
			set(string(other), all[string(other)])
		}
		for name, record := range damages {
			set(string(k), record)
			if _, err := pages(); name == "another name" && string(intact) == string(record) {
				continue
			} else if !errors.Is(err, ErrDamaged) || errors.Is(err, domain.ErrNotFound) {
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
	for _, k := range []key{l.levelKey(1, 5<<(bucketBits*(topLevel-1))-2), l.levelKey(topLevel, 4), l.endKey()} {
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
		if k.kind() == kindCount {
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
		presets, total, err1 := r.PresetPage(zero, domain.Page{Limit: 5})
		if len(presets) != 1 || total != 1 {
			t.Errorf("got %d presets of %d, want 1", len(presets), total)
		}
		homes, total, err2 := r.WorkspacePage(domain.Page{Limit: 5})
		if len(homes) != 1 || total != 1 {
			t.Errorf("got %d workspaces of %d, want 1", len(homes), total)
		}
		return cmp.Or(err1, err2)
	})
	if err != nil {
		t.Error(err)
	}
}
