package badger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// furnish adds to the store of seed, so that it has every kind of record.
func furnish(t *testing.T, folder string) {
	t.Helper()
	seed(t, folder)
	s := mustOpen(t, folder)
	storagetest.Fill(t, s).Some()
	waitUntilPurged(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// checked returns the report of a Check of s.
func checked(t *testing.T, s *Store) storage.Report {
	t.Helper()
	report, err := s.Check(t.Context())
	if err != nil {
		report.AddProblem("%v", err)
	}
	return report
}

// verified returns the report of a Verify of folder, with its error as a problem.
func verified(t *testing.T, folder string) storage.Report {
	t.Helper()
	report, err := Verify(t.Context(), folder, testOptions)
	if err != nil {
		report.AddProblem("%v", err)
	}
	return report
}

// TestVerify finds nothing in an untouched store. It finds a damaged record, and the loss
// of the commit number, which SEQUENCE reveals.
func TestVerify(t *testing.T) {
	tier.NoRace(t)
	folder := t.TempDir()
	furnish(t, folder)
	if report := verified(t, folder); report.Err() != nil || report.Records == 0 || report.Tables == 0 {
		t.Fatalf("untouched: got %+v, want no problems", report)
	}
	number := records.CommitWrite(1).Key
	for what, damage := range map[string]func(txn *badgerdb.Txn) error{
		"a damaged record":          func(txn *badgerdb.Txn) error { return txn.Set(records.AuditKey(2), []byte("nonsense")) },
		"the commit number removed": func(txn *badgerdb.Txn) error { return txn.Delete(number) },
	} {
		damaged := t.TempDir()
		copyFolder(t, folder, damaged)
		tamper(t, damaged, damage)
		if report := verified(t, damaged); len(report.Problems) == 0 {
			t.Errorf("%s: nothing is found", what)
		}
	}
}

// TestCheckOfEachKind removes, replaces and damages a record of each kind in turn. A check
// finds all of that, and nothing without it.
func TestCheckOfEachKind(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	furnish(t, folder)
	s := mustOpen(t, folder)
	change := func(fn func(txn *badgerdb.Txn) error) {
		t.Helper()
		if err := s.write(fn); err != nil {
			t.Fatal(err)
		}
	}
	if report := checked(t, s); report.Err() != nil || report.Records == 0 || report.Tables == 0 {
		t.Fatalf("untouched: got %+v, want no problems", report)
	}
	all := make(map[string][]byte)
	change(func(txn *badgerdb.Txn) error {
		it := txn.NewIterator(badgerdb.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			record, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			all[string(it.Item().Key())] = record
		}
		return nil
	})
	kinds, lists := make(map[records.Kind]int), make(map[string]bool)
	listed := func(k records.Key) bool { // each list has its own
		return k.Kind() == records.KindListHead || k.Kind() == records.KindListBlock
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k, record := records.Key(name), all[name]
		kinds[k.Kind()]++
		if list := string(k[:3]); listed(k) && !lists[list] {
			lists[list] = true
		} else if kinds[k.Kind()] > 1 {
			continue
		}
		for how, damaged := range map[string][]byte{
			"removed":  nil,
			"replaced": records.Seal(k, []byte("nonsense of its own")),
			"flipped":  bytes.Replace(record, record[len(record)-1:], []byte{record[len(record)-1] ^ 1}, 1),
			"short":    record[:len(record)-1],
		} {
			switch k.Kind() {
			case records.KindReplay, records.KindFeedback, records.KindServed, records.KindSequence:
				if how == "removed" {
					continue // a store may lack the first three; Verify finds that the last is missing
				}
			case records.KindInput:
				if how == "removed" {
					continue // nothing else tells of it
				}
			case records.KindUsage, records.KindSpent:
				if how == "removed" || how == "replaced" {
					continue // nothing else tells of it
				}
			}
			change(func(txn *badgerdb.Txn) error {
				if damaged == nil {
					return txn.Delete(k)
				}
				return txn.Set(k, damaged)
			})
			if report := checked(t, s); len(report.Problems) == 0 {
				t.Errorf("a %v record %s: nothing is found", k.Kind(), how)
			} else if text := strings.Join(report.Problems, " "); strings.Contains(text, "needle") {
				t.Errorf("a %v record %s: %q quotes what is stored", k.Kind(), how, text)
			}
			change(func(txn *badgerdb.Txn) error { return txn.Set(k, record) })
		}
	}
	for _, of := range []records.Kind{
		records.KindWorkspace, records.KindWorkspaceSlug, records.KindPreset, records.KindVersion, records.KindKey, records.KindKeyHash, records.KindLabel, records.KindLabelChange,
		records.KindHistory, records.KindHistoryEntry, records.KindAuditHead, records.KindAudit, records.KindUsage, records.KindServed, records.KindSpent, records.KindInput, records.KindFeedback, records.KindReplay, records.KindListHead, records.KindListBlock, records.KindSequence,
	} {
		if kinds[of] == 0 {
			t.Errorf("there was no %v record", of)
		}
	}
	if report := checked(t, s); report.Err() != nil {
		t.Errorf("restored: %v", report.Err())
	}
	if len(lists) != 2+2 {
		t.Errorf("there were records of the lists %q, want those of workspaces and presets", slices.Sorted(maps.Keys(lists)))
	}
	// A history may count an entry too many.
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k, record := records.Key(name), all[name]
		if k.Kind() != records.KindHistory {
			continue
		}
		payload, err := records.Unseal(k, bytes.Clone(record))
		if err != nil {
			t.Fatal(err)
		}
		payload[len(payload)-1]++
		change(func(txn *badgerdb.Txn) error { return txn.Set(k, records.Seal(k, payload)) })
		if report := checked(t, s); !slices.Equal(report.Problems, []string{"the histories of presets and workspaces are not what the audit trail says"}) {
			t.Errorf("a history with one entry more: got %q", report.Problems)
		}
		change(func(txn *badgerdb.Txn) error { return txn.Set(k, record) })
		break
	}
	// A preset that is disabled becomes an active one, but not in its list.
	restore := func() {
		change(func(txn *badgerdb.Txn) (err error) {
			for k, record := range all {
				err = errors.Join(err, txn.Set([]byte(k), record))
			}
			return err
		})
	}
	for k := range recordsOf(t, s, records.KindPreset) {
		err := s.Update(t.Context(), func(tx domain.Tx) error {
			p, err := tx.Preset(uuid.UUID([]byte(k[2:18])).String(), k[18:])
			if err != nil || p.Status != domain.PresetDisabled {
				return cmp.Or(err, errDeliberate)
			}
			p.Status = domain.PresetActive
			return tx.PutPreset(p)
		})
		if errors.Is(err, errDeliberate) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		active := recordsOf(t, s, records.KindPreset)[k]
		restore()
		change(func(txn *badgerdb.Txn) error { return txn.Set([]byte(k), active) })
		if report := checked(t, s); !slices.Equal(report.Problems, []string{"stored data is damaged: a preset record: it is not at its place in the list"}) {
			t.Errorf("a preset that is active, and disabled in its list: got %q", report.Problems)
		}
	}
	restore()
	change(func(txn *badgerdb.Txn) error { return txn.Set([]byte("stranger"), nil) })
	if report := checked(t, s); len(report.Problems) != 1 {
		t.Errorf("a stranger's record: got %q, want one problem", report.Problems)
	}
}

// TestVerifyPruned distinguishes removed versions from missing ones. It finds versions that
// should have been removed.
func TestVerifyPruned(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	furnish(t, folder)
	s := mustOpen(t, folder)
	pruned, err := domain.NewService(s).PruneVersions(t.Context(), by(""), domain.Pruning{Keep: 1})
	if err != nil || len(pruned) != 1 || pruned[0].Versions != "1" {
		t.Fatalf("got %+v, %v, want that version 1 goes", pruned, err)
	}
	var p domain.Preset
	err = s.View(t.Context(), func(r domain.Reader) (err error) {
		p, err = r.Preset(pruned[0].WorkspaceID, pruned[0].Slug)
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if report := verified(t, folder); report.Err() != nil {
		t.Errorf("pruned: %v", report.Err())
	}
	for i, want := range []string{"there are versions that no preset has", "version 2"} {
		n := i + 1
		k := records.VersionKey(p.ID, n)
		tamper(t, folder, func(txn *badgerdb.Txn) error {
			if n > 1 {
				return txn.Delete(k)
			}
			text, err := (&domain.PresetVersion{PresetID: p.ID, Version: n, Config: []byte("{}")}).JSON()
			payload := append([]byte{2}, text...) // a config of 2 bytes
			return errors.Join(err, txn.Set(k, records.Seal(k, payload)))
		})
		if report := verified(t, folder); !strings.Contains(strings.Join(report.Problems, "; "), want) {
			t.Errorf("got %q, want %q", report.Problems, want)
		}
		tamper(t, folder, func(txn *badgerdb.Txn) error { return txn.Delete(k) })
	}
}

func TestVerifyRefuses(t *testing.T) {
	folder := t.TempDir()
	if _, err := Verify(t.Context(), folder, testOptions); err == nil || !strings.Contains(err.Error(), "not a store") {
		t.Errorf("an empty folder: got error %v, want that it is not a store", err)
	}
	s := mustOpen(t, folder)
	if _, err := Verify(t.Context(), folder, testOptions); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an open store: got error %v, want that it is in use", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if report, err := Verify(t.Context(), folder, testOptions); err != nil || report.Err() != nil {
		t.Errorf("a store without anything: got %v, %v", err, report.Err())
	}
}

// TestCheck looks at a store that is written to, and finds damage in it.
func TestCheck(t *testing.T) {
	folder := t.TempDir()
	furnish(t, folder)
	s := mustOpen(t, folder)
	service := domain.NewService(s)
	for i := range 10 {
		done, writing := make(chan struct{}), make(chan error)
		go func() {
			var err error
			for n := 0; n < 30 && err == nil; n++ { // or there would be ever more to check
				select {
				case <-done:
					writing <- nil
					return
				case <-time.After(time.Millisecond):
					_, err = service.CreateWorkspace(context.Background(), by(""), domain.WorkspacePatch{Name: new("w"), Slug: new(fmt.Sprintf("w-%d-%d", i, n))})
				}
			}
			writing <- err
		}()
		if report, err := s.Check(t.Context()); err != nil || report.Err() != nil || report.Tables == 0 {
			t.Errorf("got %+v, %v, want no problems", report, err)
		}
		close(done)
		if err := <-writing; err != nil {
			t.Fatal(err)
		}
	}
	if status := s.Status(); status.Checked.IsZero() || status.Damage != 0 || !status.Writable || status.NeededBytes < minFree {
		t.Errorf("got %+v, want a checked store that can be written", status)
	}
	if err := s.write(func(txn *badgerdb.Txn) error { return txn.Delete(records.AuditKey(2)) }); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Check(t.Context()); err != nil || !errors.Is(report.Err(), ErrDamaged) {
		t.Errorf("damaged: got %+v, %v, want a problem", report, err)
	}
	if status := s.Status(); status.Damage == 0 {
		t.Error("damage does not count")
	}
}

// TestCheckEnds ends a check when its caller gives up.
func TestCheckEnds(t *testing.T) {
	folder := t.TempDir()
	furnish(t, folder)
	s := mustOpen(t, folder)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want Canceled", err)
	}
	if report, err := s.Check(t.Context()); err != nil || report.Err() != nil {
		t.Errorf("got %v, %v, want no problems", err, report.Err())
	}
}
