package badger

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// viewLanded calls fn with a transaction of the last version that has landed. Badger's own
// View also shows a part of a commit in flight.
func viewLanded(s *Store, fn func(*badgerdb.Txn) error) error {
	txn, at := s.versions.latest()
	defer s.versions.release(at)
	defer txn.Discard()
	return fn(txn)
}

// showing calls fn with a snapshot of the store.
func showing(s *Store, fn func(records.Snapshot)) {
	_ = viewLanded(s, func(txn *badgerdb.Txn) error {
		fn(snapshot{txn})
		return nil
	})
}

// recordsOf returns all records of some kinds, by key.
func recordsOf(t *testing.T, s *Store, kinds ...records.Kind) (found map[string][]byte) {
	t.Helper()
	showing(s, func(shown records.Snapshot) { found = recordstest.Records(t, shown, kinds...) })
	return found
}

// checkLists recounts the objects in lists.
func checkLists(t *testing.T, s *Store) {
	t.Helper()
	showing(s, func(shown records.Snapshot) { recordstest.CheckLists(t, shown) })
}

// presetPage returns a page with the fields that clients see.
func presetPage(r domain.Reader, workspaceID string, page domain.Page) (presets []domain.Preset, total int, err error) {
	return recordstest.PresetPage(r, workspaceID, domain.ListedPresets, page)
}

func newPreset(workspaceID, slug string) domain.Preset {
	return domain.Preset{ID: newID(), WorkspaceID: workspaceID, Slug: slug, Status: domain.PresetActive, LatestVersion: 1}
}

// TestListInAGroup lets operations that share a commit move the same presets.
func TestListInAGroup(t *testing.T) {
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
	checkLists(t, s)
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
