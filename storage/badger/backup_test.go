package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// backUp returns a backup of s.
func backUp(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reading returns a reader of a backup.
func reading(t testing.TB, backup, key []byte) *dump.Reader {
	t.Helper()
	from, err := dump.NewReader(bytes.NewReader(backup), key, true)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// restored returns the store that a backup makes, in a folder of its own.
func restored(t *testing.T, o Options, backup []byte) *Store {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "restored")
	if err := Restore(t.Context(), folder, o, reading(t, backup, testKey)); err != nil {
		t.Fatal(err)
	}
	if report, err := Verify(t.Context(), folder, o); err != nil || report.Err() != nil {
		t.Errorf("the restored store: %v", errors.Join(err, report.Err()))
	}
	s, err := Open(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func digestOf(t *testing.T, s *Store) dump.End {
	t.Helper()
	var sum dump.Summary
	err := viewLanded(s, func(txn *badgerdb.Txn) error {
		return records.EachRecord(snapshot{txn}, func(k records.Key, record []byte) error {
			sum.Add(k, record)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum.End()
}

// stored returns all stored records with their expiry.
func stored(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := viewLanded(s, func(txn *badgerdb.Txn) error {
		it := txn.NewIterator(badgerdb.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			record, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			all[string(it.Item().Key())] = fmt.Sprint(it.Item().ExpiresAt(), " ", string(record))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBackup makes backups of a store while records are written and removed. Each restored
// store is whole. The last one is the same as the original.
func TestBackup(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			withKey(t, key)
			s := mustOpen(t, t.TempDir())
			service := domain.NewService(s)
			service.KeepVersions = 3 // older ones are removed
			if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
				t.Fatal(err)
			}
			var stop atomic.Bool
			var writes atomic.Int64
			var wg sync.WaitGroup
			for writer := range 4 {
				wg.Go(func() {
					for n := 0; !stop.Load(); n++ {
						slug := fmt.Sprintf("p-%d-%d", writer, n%20)
						config := fmt.Appendf(nil, `{"%d":%q}`, n, strings.Repeat("x", n%3000))
						if _, err := service.ReleasePresetVersion(context.Background(), by(""), "", slug, domain.Capture{Config: config}, domain.Release{}); err != nil {
							t.Error(err)
							return
						}
						kept := domain.Replay{ID: domain.ReplayID{byte(writer), byte(n)}, Answer: []byte("{}"), ExpiresAt: time.Now().Add(time.Hour)}
						if err := s.Update(context.Background(), func(tx domain.Tx) error { return tx.PutReplay(kept) }); err != nil {
							t.Error(err)
						}
						writes.Add(1)
					}
				})
			}
			wg.Go(func() {
				for !stop.Load() {
					if err := comeAndGo(service); err != nil {
						t.Error(err)
					}
				}
			})
			defer wg.Wait()
			defer stop.Store(true)
			var backups [][]byte
			for range 2 {
				before := writes.Load()
				wait.Until(t, "twenty writes were made", func() bool { return t.Failed() || writes.Load() >= before+20 })
				backups = append(backups, backUp(t, s))
			}
			stop.Store(true)
			wg.Wait()
			waitUntilPurged(t, s)
			backups = append(backups, backUp(t, s))
			for n, b := range backups {
				again := restored(t, testOptions, b)
				checkWhole(t, again)
				if n < len(backups)-1 {
					continue
				}
				if got, want := digestOf(t, again), digestOf(t, s); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				got, want := stored(t, again), stored(t, s)
				if len(got) != len(want) {
					t.Errorf("got %d records, want %d", len(got), len(want))
				}
				for k, record := range want {
					if got[k] != record {
						t.Errorf("a %v record is another, or expires at another time", records.Key(k).Kind())
					}
				}
				if err := domain.NewService(again).EnsureDefaultWorkspace(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := domain.NewService(again).ReleasePresetVersion(t.Context(), by(""), "", "new", domain.Capture{Config: []byte("{}")}, domain.Release{}); err != nil {
					t.Errorf("writing to a restored store: %v", err)
				}
			}
		})
	}
}

// small returns a backup of a little store, and its folder.
func small(t *testing.T, o Options) (backup []byte, folder string) {
	t.Helper()
	withKey(t, o.EncryptionKey)
	folder = t.TempDir()
	seed(t, folder)
	s := mustOpen(t, folder)
	backup = backUp(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return backup, folder
}

// large returns a backup of some 12 MiB, before compression.
var large = func() func(t *testing.T) []byte {
	var made []byte
	return func(t *testing.T) []byte {
		t.Helper()
		if made != nil {
			return made
		}
		s := mustOpen(t, t.TempDir())
		w := newWorkspace("w")
		w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
		for i := range 30 {
			w.ID, w.Slug = newID(), fmt.Sprint("w-", i)
			if err := s.Update(t.Context(), put(w)); err != nil {
				t.Fatal(err)
			}
		}
		made = backUp(t, s)
		return made
	}
}()

// A backup can be made after a failed write, when writing has stopped.
func TestBackupAfterFailedWrite(t *testing.T) {
	folder := t.TempDir()
	seed(t, folder)
	s := mustOpen(t, folder)
	failCommits(t, s)
	if err := s.Update(t.Context(), put(newWorkspace("lost"))); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	restored(t, Options{}, backUp(t, s))
}

// A damaged store cannot be backed up, and the error shows no content.
func TestBackupOfDamage(t *testing.T) {
	folder := t.TempDir()
	_, p, _ := seed(t, folder)
	k := records.VersionKey(p.ID, 2)
	tamper(t, folder, func(txn *badgerdb.Txn) error {
		item, err := txn.Get(k)
		if err != nil {
			return err
		}
		record, err := item.ValueCopy(nil)
		record[len(record)-1] ^= 1
		return errors.Join(err, txn.Set(k, record))
	})
	s := mustOpen(t, folder)
	err := s.Backup(t.Context(), io.Discard)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "preset version record") || strings.Contains(err.Error(), "needle") {
		t.Errorf("got error %v, want ErrDamaged, the kind of record and no content", err)
	}
	// A table that rots while the store is open.
	folder = t.TempDir()
	seed(t, folder)
	s = mustOpen(t, folder)
	flip(t, folder, "needle-2")
	if err := s.Backup(t.Context(), io.Discard); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "needle") {
		t.Errorf("got error %v, want ErrDamaged and no content", err)
	}
}

// stalled is a writer that waits, from its second write on.
type stalled struct {
	writes  int
	waiting chan struct{}
	goOn    chan struct{}
}

func (w *stalled) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 2 {
		close(w.waiting)
		<-w.goOn
	}
	return len(p), nil
}

// TestBackupEnds closes the store under a backup, and ends one by its context.
func TestBackupEnds(t *testing.T) {
	tier.Race(t)
	t.Parallel()
	for what, end := range map[string]func(s *Store, stop func()) error{
		"closed": func(s *Store, _ func()) error { go s.Close(); return domain.ErrClosed },
		"ended":  func(_ *Store, stop func()) error { stop(); return context.Canceled },
	} {
		folder := t.TempDir()
		s := mustOpen(t, folder)
		fill(t, s, "w", 4000)
		w := newWorkspace("w2")
		w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
		if err := s.Update(t.Context(), put(w)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		to := &stalled{waiting: make(chan struct{}), goOn: make(chan struct{})}
		got := make(chan error)
		go func() {
			err := s.Backup(ctx, to)
			got <- err
		}()
		<-to.waiting
		want := end(s, stop)
		wait.Until(t, "the store closes", func() bool { return what != "closed" || s.closing.Err() != nil })
		close(to.goOn)
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", what, err, want)
		}
		stop()
	}
	s := mustOpen(t, t.TempDir())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), io.Discard); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("after Close: got error %v, want ErrClosed", err)
	}
}
