package badger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
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
	records.KindPreset, records.KindVersion, records.KindSummary, records.KindLabel, records.KindLabelChange, records.KindUsage, records.KindServed,
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
	commits := 0
	s.committer.commit = func(commit func() error) error {
		if commits++; commits == 5 {
			s.stop()
		}
		return commit()
	}
	remove(t, s, w)
	<-s.purged
	if left := contents(t, s); left <= alone || left >= whole {
		t.Errorf("%d records are left when the purger was stopped, want more than %d and less than %d", left, alone, whole)
	}
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

// TestPurgeInParts never removes more records at once than its bound. It removes a preset
// after everything that it leads to, so an interrupted purge can find the rest.
func TestPurgeInParts(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := newWorkspace("w")
	const versions = 3*records.PurgeBatch + 7
	p := newPreset(w.ID, "p")
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		err := cmp.Or(tx.PutWorkspace(w), tx.PutPreset(p), tx.PutPreset(newPreset(w.ID, "q")))
		for n := 1; n <= versions; n++ {
			err = cmp.Or(err, tx.PutPresetVersion(p, domain.PresetVersion{Version: n}), tx.PutLabelChange(p, "staging", domain.LabelChange{Number: n}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := contents(t, s)
	// written has what the committer has written. The last commit has not landed yet.
	written := func(kinds ...records.Kind) map[string][]byte {
		txn := newest(s.db)
		defer txn.Discard()
		return recordstest.Records(t, snapshot{txn}, kinds...)
	}
	var most, parts int // of the committer's goroutine alone until all is done
	s.committer.commit = func(commit func() error) error {
		before := len(written(workspaceKinds...))
		err := commit()
		after := len(written(workspaceKinds...))
		if removed := before - after; removed > 0 {
			most, parts = max(most, removed), parts+1
		}
		left := written(records.KindVersion, records.KindSummary, records.KindLabel, records.KindLabelChange)
		if presets := written(records.KindPreset); len(left) > 0 && len(presets) == 0 {
			t.Errorf("the presets are gone, but %d of their versions and labels are left", len(left))
		}
		if after > 2 && len(written(records.KindDeleted)) == 0 {
			t.Errorf("nothing tells of the deletion any more, but %d records are left", after)
		}
		return err
	}
	remove(t, s, w)
	waitUntilPurged(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if least := whole / records.PurgeBatch; parts < least || most > records.PurgeBatch {
		t.Errorf("%d records went in %d parts, of %d at most, want at least %d parts of %d", whole, parts, most, least, records.PurgeBatch)
	}
}

// TestPurgeStopsWriting gives up where writing has stopped.
func TestPurgeStopsWriting(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	w := fill(t, s, "w", 50)
	deleted := make(chan struct{})
	s.committer.commit = func(commit func() error) error {
		select {
		case <-deleted:
			return errDeliberate
		default:
			close(deleted)
			return commit()
		}
	}
	remove(t, s, w)
	select {
	case <-s.purged:
	case <-time.After(wait.Limit):
		t.Error("the purger still runs although nothing can be written")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, folder)
	waitUntilPurged(t, s)
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

// TestCloseWaitsForPurger blocks the purger while it logs a damaged preset. It still reads
// the files then, so Close must not reach them.
func TestCloseWaitsForPurger(t *testing.T) {
	before := runtime.NumGoroutine()
	inside, leave := make(chan struct{}), make(chan struct{})
	core, _ := observer.New(zapcore.WarnLevel)
	hold := zap.Hooks(func(zapcore.Entry) error {
		close(inside)
		<-leave
		return nil
	})
	s, err := openFolder(t.TempDir(), Options{Logger: zap.New(core, hold)}, ample) // or it told of a small disk, too
	if err != nil {
		t.Fatal(err)
	}
	w := fill(t, s, "w", 50)
	k := records.PresetKey(w.ID, "p-7")
	if err := s.write(func(txn *badgerdb.Txn) error { return txn.Set(k, []byte("nonsense")) }); err != nil {
		t.Fatal(err)
	}
	remove(t, s, w)
	<-inside
	s.limit = 50 * time.Millisecond
	if s.Close() == nil {
		t.Error("Close returned no error while the purger was reading")
	}
	close(leave)
	checkGoroutines(t, before)
}

// TestPurgeBesideWriters keeps writing while much is removed.
func TestPurgeBesideWriters(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := fill(t, s, "w", 600)
	home := fill(t, s, "home", 50)
	partly := func(r domain.Reader) bool { // some of the workspace is removed, and some is not
		left := 0
		for range r.Presets(w.ID) {
			left++
		}
		return 0 < left && left < 600
	}
	var beside atomic.Bool // a change ran then
	s.committer.commit = func(commit func() error) error {
		begun := false
		err := s.View(context.Background(), func(r domain.Reader) error {
			begun = !beside.Load() && partly(r)
			return nil
		})
		for begun && !beside.Load() && s.queued() == 0 { // the removal goes on once a change waits
			time.Sleep(time.Millisecond)
		}
		return cmp.Or(err, commit())
	}
	remove(t, s, w)
	for written := 0; len(recordsOf(t, s, records.KindDeleted)) > 0; written++ {
		err := s.Update(context.Background(), func(tx domain.Tx) error {
			if partly(tx) {
				beside.Store(true)
			}
			return tx.PutPreset(newPreset(home.ID, fmt.Sprint("new-", written)))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	waitUntilPurged(t, s)
	if !beside.Load() {
		t.Error("no change took place while the workspace was removed")
	}
	checkLists(t, s)
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
