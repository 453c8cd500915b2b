package badger

import (
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
