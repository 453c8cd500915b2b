package badger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// fill stores a workspace of n presets, each with two versions, a label and a row of usage.
func fill(t *testing.T, s *Store, slug string, n int) domain.Workspace {
	t.Helper()
	w := newWorkspace(slug)
	if err := s.Update(t.Context(), put(w)); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 50 {
		err := s.Update(t.Context(), func(tx domain.Tx) error {
			for j := i; j < i+50; j++ {
				p := newPreset(w.ID, fmt.Sprint("p-", j))
				err := tx.PutLabelChange(p, "staging", domain.LabelChange{Number: 1})
				for v := 1; v <= 2; v++ {
					err = cmp.Or(err, tx.PutPresetVersion(p, domain.PresetVersion{Version: v, Config: []byte("{}")}))
				}
				used := domain.UsageRow{UsageID: domain.UsageID{WorkspaceID: w.ID, PresetID: p.ID, Start: time.Unix(3600, 0)}, Node: s.Node()}
				if err := cmp.Or(err, tx.PutPreset(p), tx.PutUsage(used), tx.PutServed(w.ID, p.Slug, domain.Served{1: 2})); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func remove(t *testing.T, s *Store, w domain.Workspace) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.DeleteWorkspace(w) }); err != nil {
		t.Fatal(err)
	}
}

// workspaceKinds are the kinds of records in a workspace, and of its deletion.
var workspaceKinds = []records.Kind{
	records.KindPreset, records.KindVersion, records.KindLabel, records.KindLabelChange, records.KindUsage, records.KindServed,
	records.KindListBlock, records.KindListHead, records.KindDeleted,
}

// contents counts the records that a workspace can leave behind.
func contents(t *testing.T, s *Store) int {
	t.Helper()
	return len(recordsOf(t, s, workspaceKinds...))
}

func waitUntilPurged(t *testing.T, s *Store) {
	t.Helper()
	if !wait.Eventually(func() bool { return len(recordsOf(t, s, records.KindDeleted)) == 0 }) {
		t.Fatalf("%d records are left", contents(t, s))
	}
}

// TestPurge leaves nothing of a deleted workspace, and all of the others.
func TestPurge(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	fill(t, s, "before", 50)
	before := contents(t, s)
	w := fill(t, s, "w", 300)
	after := contents(t, s) - before
	fill(t, s, "after", 50)
	whole := contents(t, s)
	remove(t, s, w)
	waitUntilPurged(t, s)
	if got, want := contents(t, s), whole-after; got != want {
		t.Errorf("%d records are left, want %d", got, want)
	}
	id := uuid.MustParse(w.ID)
	for k := range recordsOf(t, s, records.KindPreset, records.KindUsage, records.KindServed, records.KindListBlock, records.KindListHead, records.KindDeleted) {
		if bytes.Contains([]byte(k), id[:]) {
			t.Errorf("a %v of the deleted workspace is left", records.Key(k).Kind())
		}
	}
	checkLists(t, s)
}

// TestPurgeGoesOn closes the store in the middle of it, and then before the next
// workspace has begun.
func TestPurgeGoesOn(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	keep := fill(t, s, "keep", 50)
	alone := contents(t, s)
	w := fill(t, s, "w", 300)
	whole := contents(t, s)
	remove(t, s, w)
	wait.Until(t, "the purger has begun", func() bool { return contents(t, s) < whole })
	s.stop()
	<-s.purged
	remove(t, s, fill(t, s, "x", 50))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, folder)
	waitUntilPurged(t, s)
	if left := contents(t, s); left != alone {
		t.Errorf("%d records are left, want %d", left, alone)
	}
	err := s.View(t.Context(), func(r domain.Reader) error {
		page, total, err := presetPage(r, keep.ID, domain.Page{Limit: 50})
		if len(page) != 50 || total != 50 {
			t.Errorf("got %d presets of %d, want 50", len(page), total)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	checkLists(t, s)
}

// TestPurgeOfDamaged goes on behind a preset whose record is damaged.
func TestPurgeOfDamaged(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := fill(t, s, "w", 50)
	k := records.PresetKey(w.ID, "p-7")
	if err := s.write(func(txn *badgerdb.Txn) error { return txn.Set(k, []byte("nonsense")) }); err != nil {
		t.Fatal(err)
	}
	remove(t, s, w)
	waitUntilPurged(t, s)
	if left := recordsOf(t, s, records.KindPreset); len(left) > 0 {
		t.Errorf("%d presets are left", len(left))
	}
	if left := recordsOf(t, s, records.KindVersion); len(left) != 2 { // of the damaged one, which led to them
		t.Errorf("%d versions are left, want 2", len(left))
	}
}

// TestOrphanOfRemoved finds a table that a crash left and whose records were all removed
// later. That is no damage.
func TestOrphanOfRemoved(t *testing.T) {
	folder := t.TempDir()
	w, _, _ := seed(t, folder)
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	content := readFile(t, tables[0])
	s := mustOpen(t, folder)
	remove(t, s, w)
	waitUntilPurged(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := badgerdb.Open(settings(folder, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	k := records.WorkspaceKey(w.ID)
	err = db.View(func(txn *badgerdb.Txn) error {
		if hasVersionSince(txn, k, 0) {
			return errors.New("there is still a trace of the workspace")
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "000901.sst"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, folder)
}

// TestPurgeOfPreset leaves nothing of an erased preset, not even answers that were kept, and all of others.
func TestPurgeOfPreset(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := fill(t, s, "w", 50)
	kinds := append([]records.Kind{records.KindReplay, records.KindSpent}, workspaceKinds...)
	p := newPreset(w.ID, "gone")
	before := len(recordsOf(t, s, kinds...))
	err := s.Update(t.Context(), func(tx domain.Tx) (err error) {
		for n := range domain.MaxChangeRemoved / 10 {
			err = cmp.Or(err, tx.PutPresetVersion(p, domain.PresetVersion{Version: n + 1, Config: []byte("{}")}))
		}
		p.LatestVersion = domain.MaxChangeRemoved / 10
		for n := range 2 * records.PurgeBatch {
			err = cmp.Or(err, tx.PutLabelChange(p, "staging", domain.LabelChange{Number: n + 1}))
		}
		for i, answer := range []string{`{"id":"` + p.ID + `"}`, `{"id":"other"}`} {
			err = cmp.Or(err, tx.PutReplay(domain.Replay{ID: domain.ReplayID{byte(i)}, Answer: []byte(answer), ExpiresAt: time.Now().Add(time.Hour)}))
		}
		return cmp.Or(err, tx.PutPreset(p), tx.PutServed(w.ID, p.Slug, domain.Served{1: 2}), tx.PutSpent(p.ID, []byte("1")))
	})
	if err == nil {
		err = s.Update(t.Context(), func(tx domain.Tx) error { return tx.DeletePreset(p) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if left := recordsOf(t, s, records.KindVersion); len(left) != 100 {
		t.Errorf("%d versions are left at once, want those of the others", len(left))
	}
	waitUntilPurged(t, s)
	if left := len(recordsOf(t, s, kinds...)); left != before+1 {
		t.Errorf("%d records are left, want %d and one answer", left, before)
	}
}
