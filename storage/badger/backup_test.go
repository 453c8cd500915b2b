package badger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// backUp returns a backup of s and what it says of itself.
func backUp(t *testing.T, s *Store, base *BackupInfo) ([]byte, BackupInfo) {
	t.Helper()
	var b bytes.Buffer
	info, end, err := s.Backup(t.Context(), &b, base)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadBackupInfo(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	checked, readEnd, err := CheckBackup(bytes.NewReader(b.Bytes()))
	if err != nil || readEnd != end {
		t.Fatalf("got end %+v and error %v, want %+v", readEnd, err, end)
	}
	want, _ := json.Marshal(info)
	for _, got := range []BackupInfo{read, checked} {
		if got, _ := json.Marshal(got); !bytes.Equal(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	return b.Bytes(), info
}

func files(backups ...[]byte) (all []BackupFile) {
	for i, b := range backups {
		all = append(all, BackupFile{fmt.Sprint("backup-", i), bytes.NewReader(b)})
	}
	return all
}

// restored returns the store that backups make, in a folder of its own.
func restored(t *testing.T, o Options, backupKey []byte, backups ...[]byte) *Store {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "restored")
	all := files(backups...)
	if _, _, err := Restore(t.Context(), folder, o, backupKey, all[0], all[1:]...); err != nil {
		t.Fatal(err)
	}
	if report, err := Verify(t.Context(), folder, o); err != nil || report.Err() != nil {
		t.Errorf("what was restored: %v", errors.Join(err, report.Err()))
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

func digestOf(t *testing.T, s *Store) string {
	t.Helper()
	text, records, err := s.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(records, " ", text)
}

// stored returns all that is stored, with when it expires.
func stored(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := s.db.View(func(txn *badgerdb.Txn) error {
		return eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
			all[string(item.Key())] = fmt.Sprint(item.ExpiresAt(), " ", string(record))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkVersions makes sure that no version of a preset is missing.
func checkVersions(t *testing.T, s *Store) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		for k := range recordsOf(t, s, records.KindPreset) {
			p, _, err := r.PresetJSON(uuid.UUID([]byte(k[2:18])).String(), k[18:])
			if err != nil {
				return err
			}
			for n := range p.Versions() {
				if _, err := r.PresetVersion(p, n); err != nil {
					return fmt.Errorf("version %d of %d: %w", n, p.LatestVersion, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBackup makes a full backup and incremental ones of a store that is written to
// all the while, and what is stored of it removed, and restores as many of them as
// there are. Each restored store is whole; the last one is the same as the original.
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
						if _, err := service.CreatePresetVersion(context.Background(), by(""), "", slug, domain.Capture{Config: config}); err != nil {
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
			var backups [][]byte
			var last *BackupInfo
			for range 5 {
				for before := writes.Load(); writes.Load() < before+20; {
					time.Sleep(time.Millisecond)
				}
				b, info := backUp(t, s, last)
				backups, last = append(backups, b), &info
			}
			stop.Store(true)
			wg.Wait()
			waitUntilPurged(t, s)
			b, info := backUp(t, s, last)
			backups = append(backups, b)
			unchanged, _ := backUp(t, s, &info)
			if full, _ := backUp(t, s, nil); len(unchanged) > len(full)/2 {
				t.Errorf("an incremental backup without a change has %d bytes, a full one %d", len(unchanged), len(full))
			}
			for n := range backups {
				again := restored(t, testOptions, nil, backups[:n+1]...)
				checkWhole(t, again)
				checkVersions(t, again)
				if again.id == s.id {
					t.Error("the restored store has the id of the original")
				}
				if n < len(backups)-1 {
					continue
				}
				if got, want := digestOf(t, again), digestOf(t, s); got != want {
					t.Errorf("got %s, want %s", got, want)
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
				if _, err := domain.NewService(again).CreatePresetVersion(t.Context(), by(""), "", "new", domain.Capture{Config: []byte("{}")}); err != nil {
					t.Errorf("writing to a restored store: %v", err)
				}
			}
		})
	}
}

// small returns a backup of a little store and an incremental one, and the folder.
func small(t *testing.T, o Options) (full, incremental []byte, folder string) {
	t.Helper()
	withKey(t, o.EncryptionKey)
	folder = t.TempDir()
	seed(t, folder)
	s := mustOpen(t, folder)
	full, info := backUp(t, s, nil)
	if err := s.Update(t.Context(), put(newWorkspace("later"))); err != nil {
		t.Fatal(err)
	}
	incremental, _ = backUp(t, s, &info)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return full, incremental, folder
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
		made, _ = backUp(t, s, nil)
		return made
	}
}()

// No incremental backup is made since one that the store did not come from.
func TestBackupBase(t *testing.T) {
	folder, twin := t.TempDir(), t.TempDir()
	seed(t, folder)
	copyFolder(t, folder, twin)
	s, other := mustOpen(t, folder), mustOpen(t, twin)
	change := func(s *Store) {
		t.Helper()
		if _, err := domain.NewService(s).CreateWorkspace(t.Context(), by(""), domain.NewWorkspace{Name: "n", Slug: "w-" + newID()}); err != nil {
			t.Fatal(err)
		}
	}
	_, start := backUp(t, s, nil)
	change(other)
	_, past := backUp(t, other, nil)
	check := func(what string, base BackupInfo, want string) {
		t.Helper()
		var b bytes.Buffer
		_, _, err := s.Backup(t.Context(), &b, &base)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		if !errors.Is(err, ErrBaseRefused) || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("%s: got error %v and %d bytes, want ErrBaseRefused with %q and none", what, err, b.Len(), want)
		}
	}
	check("its own", start, "")
	check("a copy's that is ahead", past, "newer than the store")
	change(s)
	check("a copy's", past, "another past")
	check("its own", start, "")
	_, elsewhere := backUp(t, mustOpen(t, t.TempDir()), nil)
	check("another store's", elsewhere, "of another store")
	older := start
	older.Format--
	check("of an older format", older, "which has format")
	unsettled := start
	unsettled.Unsettled = true
	check("an unsettled one", unsettled, "writing has stopped")

	// After a failed write there are full ones alone.
	s.committer.commit = func(commit func() error) error { return errors.Join(commit(), errDeliberate) }
	if err := s.Update(t.Context(), put(newWorkspace("lost"))); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	check("when writing has stopped", start, "writing has stopped")
	full, info := backUp(t, s, nil)
	if !info.Unsettled {
		t.Error("a backup that is made when writing has stopped does not say so")
	}
	restored(t, Options{}, nil, full)
}

// Of a damaged store no backup is made, and the error shows no content.
func TestBackupOfDamage(t *testing.T) {
	folder := t.TempDir()
	_, p, _ := seed(t, folder)
	k, _ := records.VersionKey(p.ID, 2)
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
	_, _, err := s.Backup(t.Context(), io.Discard, nil)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "preset version record") || strings.Contains(err.Error(), "needle") {
		t.Errorf("got error %v, want ErrDamaged, the kind of record and no content", err)
	}
	if _, _, err := s.Digest(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("Digest: got error %v, want ErrDamaged", err)
	}
	// A table that rots while the store is open.
	folder = t.TempDir()
	seed(t, folder)
	s = mustOpen(t, folder)
	flip(t, folder, "*.sst", "needle-2")
	if _, _, err := s.Backup(t.Context(), io.Discard, nil); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "needle") {
		t.Errorf("got error %v, want ErrDamaged and no content", err)
	}
}

func TestEncryptedBackupHoldsNoPrompt(t *testing.T) {
	const canary = "CANARY-of-a-prompt"
	for _, key := range [][]byte{nil, testKey} {
		s, err := Open(t.TempDir(), Options{EncryptionKey: key})
		if err != nil {
			t.Fatal(err)
		}
		service := domain.NewService(s)
		if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
			t.Fatal(err)
		}
		in := domain.Capture{Config: []byte(`{"` + canary + `":1}`), SystemPrompt: new(canary)}
		if _, err := service.CreatePresetVersion(t.Context(), by(""), "", canary, in); err != nil {
			t.Fatal(err)
		}
		b, _ := backUp(t, s, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// What a thief without the key could do: undo the compression.
		_, parts, _ := chunks(t, b)
		found := bytes.Contains(b, []byte(canary))
		decoder, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if plain, err := decoder.DecodeAll(part[4:len(part)-32], nil); err == nil {
				found = found || bytes.Contains(plain, []byte(canary))
			}
		}
		if found != (key == nil) {
			t.Errorf("with a key of %d bytes: found the prompt: %t", len(key), found)
		}
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
	for what, end := range map[string]func(s *Store, stop func()) error{
		"closed": func(s *Store, _ func()) error { go s.Close(); return domain.ErrClosed },
		"ended":  func(_ *Store, stop func()) error { stop(); return context.Canceled },
	} {
		folder := t.TempDir()
		s := mustOpen(t, folder)
		if what == "closed" {
			s.limit = time.Minute
		}
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
			_, _, err := s.Backup(ctx, to, nil)
			got <- err
		}()
		<-to.waiting
		want := end(s, stop)
		for what == "closed" && !s.readers.IsClosed() {
			time.Sleep(time.Millisecond)
		}
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
	if _, _, err := s.Backup(t.Context(), io.Discard, nil); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("after Close: got error %v, want ErrClosed", err)
	}
}

// BenchmarkBackup makes and restores backups of 100,000 presets of one version, with
// prompts of 150 words: a full one, an incremental one without a change, and the
// restoration of the full one.
func BenchmarkBackup(b *testing.B) {
	const presets, words = 100_000, 150
	vocabulary := strings.Fields("you are a helpful assistant who answers in short friendly emails about orders returns " +
		"and refunds never promise what cannot be kept and always say which document it is from")
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		o := Options{EncryptionKey: key}
		s, err := Open(b.TempDir(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		w := newWorkspace("w")
		err = s.Update(b.Context(), put(w))
		for i := 0; i < presets && err == nil; i += 200 {
			err = s.Update(b.Context(), func(tx domain.Tx) error {
				for j := i; j < i+200; j++ {
					var prompt strings.Builder
					for range words {
						prompt.WriteString(vocabulary[rand.IntN(len(vocabulary))] + " ")
					}
					p := newPreset(w.ID, fmt.Sprint("p-", j))
					v := domain.PresetVersion{ID: newID(), PresetID: p.ID, Version: 1, Config: []byte(`{"model":"openai/gpt-5-mini"}`), SystemPrompt: new(prompt.String())}
					if err := errors.Join(tx.PutPresetVersion(p, v), tx.PutPreset(p)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			b.Fatal(err)
		}
		var base *BackupInfo
		var full bytes.Buffer
		for _, kind := range []BackupKind{FullBackup, IncrementalBackup} {
			b.Run(fmt.Sprint(name, "/", kind), func(b *testing.B) {
				var out bytes.Buffer
				var info BackupInfo
				for b.Loop() {
					out.Reset()
					var err error
					if info, _, err = s.Backup(b.Context(), &out, base); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(out.Len())/(1<<20), "MiB")
				if kind == FullBackup {
					base, full = &info, out
				}
			})
		}
		b.Run(name+"/restore", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Restore(b.Context(), filepath.Join(b.TempDir(), "new"), o, nil, files(full.Bytes())[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
