package badger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// crashFolder passes the folder to a child process that the test kills.
const crashFolder = "BADGER_TEST_CRASH_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(crashFolder); folder != "" {
		testOptions.EncryptionKey = []byte(os.Getenv(crashKey))
		writeUntilKilled(folder)
	}
	if folder := os.Getenv(restoreFolder); folder != "" {
		restoreUntilKilled(folder)
	}
	if strconv.IntSize < 64 { // the engine refuses to run
		flag.Parse()
		_ = flag.Set("test.run", "^TestPlatform$")
	}
	debug.SetGCPercent(400) // each test leaves the buffers of a store
	undo := storagetest.UseMemory()
	code := m.Run()
	undo()
	os.Exit(code)
}

// keptAnswer is the id of the answer that seed stores.
var keptAnswer = domain.ReplayID{1}

// seed creates a store with a workspace, a preset, a label, a kept answer and a key. The
// preset has three versions. The label was set twice.
func seed(t *testing.T, folder string) (w domain.Workspace, p domain.Preset, k domain.Key) {
	t.Helper()
	s, err := Open(folder, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	service := domain.NewService(s)
	created, err := service.CreateWorkspace(t.Context(), by(""), domain.WorkspacePatch{Name: new("w"), Slug: new("w")})
	if err != nil {
		t.Fatal(err)
	}
	w = created.Workspace
	for i := range 3 {
		in := domain.Capture{Config: fmt.Appendf(nil, `{"needle-%d":1}`, i+1)}
		out, err := service.ReleasePresetVersion(t.Context(), by(w.ID), "", "p", in, domain.Release{})
		if err != nil {
			t.Fatal(err)
		}
		p = out.Preset
	}
	for n := range 2 {
		out, err := service.PutLabel(t.Context(), by(w.ID), "", "p", "staging", domain.Target{Version: n + 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p = out.Preset
	}
	kept := domain.Replay{ID: keptAnswer, Answer: []byte("{}"), ExpiresAt: time.Now().Add(time.Hour)}
	if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutReplay(kept) }); err != nil {
		t.Fatal(err)
	}
	if k, _, err = service.IssueKey(t.Context(), by(""), domain.NewKey{Kind: domain.ManagementKey}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return w, p, k
}

// tamper changes records behind the store's back.
func tamper(t *testing.T, folder string, fn func(txn *badgerdb.Txn) error) {
	t.Helper()
	db, err := badgerdb.Open(settings(folder, testOptions))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedTrail reads the records before a damaged one.
func TestDamagedTrail(t *testing.T) {
	folder := t.TempDir()
	seed(t, folder)
	s := mustOpen(t, folder)
	if err := s.write(func(txn *badgerdb.Txn) error { return txn.Delete(records.AuditKey(2)) }); err != nil {
		t.Fatal(err)
	}
	service := domain.NewService(s)
	if trail, _, err := service.AuditTrail(t.Context(), 0, 1); err != nil || len(trail) != 1 {
		t.Errorf("got %d records, %v, want the first", len(trail), err)
	}
	if _, _, err := service.AuditTrail(t.Context(), 0, 2); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("got error %v, want that a record is damaged", err)
	}
}

func TestDamage(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	folder := t.TempDir()
	w, p, k := seed(t, folder)
	reads := map[string]func(domain.Reader) error{
		"workspace":         func(r domain.Reader) error { _, err := r.Workspace(w.ID); return err },
		"workspace by slug": func(r domain.Reader) error { _, err := workspaceBySlug(r, w.Slug); return err },
		"workspace JSON":    func(r domain.Reader) error { _, err := r.WorkspaceJSON(w.ID); return err },
		"preset":            func(r domain.Reader) error { _, err := r.Preset(w.ID, p.Slug); return err },
		"preset JSON":       func(r domain.Reader) error { _, _, err := r.PresetJSON(w.ID, p.Slug); return err },
		"version":           func(r domain.Reader) error { _, err := r.PresetVersion(p.State(), 2); return err },
		"version JSON":      func(r domain.Reader) error { _, err := r.PresetVersionJSON(p.State(), 2); return err },
		"key":               func(r domain.Reader) error { _, err := r.Key(k.ID); return err },
		"key by hash":       func(r domain.Reader) error { _, err := r.KeyByHash(k.Hash); return err },
		"keys":              func(r domain.Reader) error { _, err := r.Keys(); return err },
		"label":             func(r domain.Reader) error { _, err := r.LabelChanges(p, "staging"); return err },
		"label change":      func(r domain.Reader) error { _, err := r.LabelChange(p, "staging", 1); return err },
		"audit head":        func(r domain.Reader) error { _, err := r.AuditHead(); return err },
		"audit record":      func(r domain.Reader) error { _, err := r.AuditRecord(2); return err },
		"audit trail": func(r domain.Reader) (err error) {
			for _, err = range r.AuditTrail(0) {
			}
			return err
		},
		"kept answer": func(r domain.Reader) error { _, err := r.Replay(keptAnswer); return err },
		"workspace page": func(r domain.Reader) error {
			_, _, err := r.WorkspacePage(domain.Page{Limit: 1})
			return err
		},
		"preset page": func(r domain.Reader) error {
			_, _, err := r.PresetPage(w.ID, domain.ListedPresets, domain.Page{Limit: 1})
			return err
		},
		"presets": func(r domain.Reader) (err error) {
			for _, err = range r.Presets(w.ID) { // the last one is the error's
			}
			return err
		},
	}
	s := mustOpen(t, folder)
	change := func(fn func(txn *badgerdb.Txn) error) {
		t.Helper()
		if err := s.write(fn); err != nil {
			t.Fatal(err)
		}
	}
	ofPresets := append(records.KindListBlock.Prefix(), 'p')
	ofPresets = append(append(ofPresets, records.WorkspaceKey(w.ID)[2:]...), 255, 255, 255, 255, 255, 255, 255, 255)
	for _, test := range []struct {
		name    string
		key     records.Key
		missing bool // is damage, too
		affects []string
	}{
		{"workspace", records.WorkspaceKey(w.ID), false, []string{"workspace", "workspace JSON", "workspace by slug", "workspace page"}},
		{"workspace slug", records.WorkspaceSlugKey(w.Slug), false, []string{"workspace by slug"}},
		{"preset", records.PresetKey(w.ID, p.Slug), false, []string{"preset", "preset JSON", "presets", "preset page"}},
		{"preset version", records.VersionKey(p.ID, 2), true, []string{"version", "version JSON"}},
		{"issued key", records.KeyKey(k.ID), false, []string{"key", "key by hash", "keys"}},
		{"issued key hash", records.KeyHashKey(k.Hash), false, []string{"key by hash"}},
		{"label", records.LabelKey(p.ID, "staging"), false, []string{"label", "label change"}},
		{"label change", records.LabelChangeKey(p.ID, "staging", 1), true, []string{"label change"}},
		{"audit head", records.AuditHeadKey(), false, []string{"audit head", "audit record", "audit trail"}},
		{"audit", records.AuditKey(2), true, []string{"audit record", "audit trail"}},
		{"kept answer", records.ReplayKey(keptAnswer), false, []string{"kept answer"}},
		{"list block", ofPresets, false, []string{"preset page"}},
		{"list head", append(records.KindListHead.Prefix(), 'w'), false, []string{"workspace page"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := test.key
			intact := recordsOf(t, s, key.Kind())[string(key)]
			defer change(func(txn *badgerdb.Txn) error { return txn.Set(key, intact) })
			check := func(what string) {
				t.Helper()
				for name, read := range reads {
					err := s.View(t.Context(), read)
					damaged := slices.Contains(test.affects, name)
					switch {
					case !damaged && err != nil:
						t.Errorf("%s: reading the %s: got error %v, want none", what, name, err)
					case damaged && (!errors.Is(err, ErrDamaged) || errors.Is(err, domain.ErrNotFound)):
						t.Errorf("%s: reading the %s: got error %v, want ErrDamaged", what, name, err)
					case damaged && !strings.Contains(err.Error(), test.name):
						t.Errorf("%s: error %q does not name the kind of record, %s", what, err, test.name)
					}
				}
			}
			for range 3 {
				at, bit := rand.IntN(len(intact)), byte(1)<<rand.IntN(8)
				change(func(txn *badgerdb.Txn) error {
					flipped := bytes.Clone(intact)
					flipped[at] ^= bit
					return txn.Set(key, flipped)
				})
				check(fmt.Sprintf("byte %d ^ %#x", at, bit))
			}
			for _, record := range [][]byte{{}, intact[:len(records.Seal(key, nil))-1], intact[:len(intact)-1], append(bytes.Clone(intact), 0)} {
				change(func(txn *badgerdb.Txn) error { return txn.Set(key, record) })
				check(fmt.Sprintf("%d of %d bytes", len(record), len(intact)))
			}
			// A correct checksum over an invalid record.
			change(func(txn *badgerdb.Txn) error {
				return txn.Set(key, records.Seal(key, []byte("no such record")))
			})
			check("no such record")
			if test.missing {
				change(func(txn *badgerdb.Txn) error { return txn.Delete(key) })
				check("missing")
			}
		})
	}
	t.Run("another's record", func(t *testing.T) {
		change(func(txn *badgerdb.Txn) error {
			item, err := txn.Get(records.VersionKey(p.ID, 1))
			if err != nil {
				return err
			}
			record, err := item.ValueCopy(nil)
			return errors.Join(err, txn.Set(records.VersionKey(p.ID, 2), record))
		})
		err := s.View(t.Context(), func(r domain.Reader) error { _, err := r.PresetVersion(p.State(), 2); return err })
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("got error %v, want ErrDamaged", err)
		}
	})
	t.Run("dangling", func(t *testing.T) {
		change(func(txn *badgerdb.Txn) error {
			return errors.Join(txn.Delete(records.WorkspaceKey(w.ID)), txn.Delete(records.KeyKey(k.ID)))
		})
		_, err := domain.NewService(s).Workspace(t.Context(), domain.Principal{Kind: domain.ManagementKey}, w.Slug)
		if err == nil || domain.KindOf(err) != domain.Internal {
			t.Errorf("a slug without its workspace: got error %v, want an internal one", err)
		}
		err = s.View(t.Context(), func(r domain.Reader) error { _, err := r.KeyByHash(k.Hash); return err })
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("a hash without its key: got error %v, want ErrDamaged", err)
		}
	})
}

// flip changes one byte in the middle of needle, in the table of a folder that holds it. In a folder
// that is encrypted it changes another byte of a block.
func flip(t *testing.T, folder, needle string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content := readFile(t, name)
		at := bytes.Index(content, []byte(needle)) + len(needle)/2
		if len(testOptions.EncryptionKey) > 0 {
			at = len(content) / 4
		}
		if at > len(needle) {
			patch(t, name, int64(at), []byte{content[at] ^ 0x10})
			return
		}
	}
	t.Fatalf("no table of %s holds %q", folder, needle)
}

// A test cannot cut the power, so this one checks the setting that makes a commit survive a
// power cut. Without the setting, the tests that kill the process would still pass.
func TestSettings(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	o := s.db.Opts()
	if !o.SyncWrites || o.NumVersionsToKeep != 1 {
		t.Errorf("got SyncWrites %t, NumVersionsToKeep %d, want true, 1", o.SyncWrites, o.NumVersionsToKeep)
	}
	if o.ValueThreshold <= records.MaxRecord || s.db.MaxBatchSize() <= o.ValueThreshold {
		t.Errorf("got ValueThreshold %d, want it above %d, the largest record, and below %d, the largest transaction", o.ValueThreshold, records.MaxRecord, s.db.MaxBatchSize())
	}
}

// TestShortenedTable damages tables so that Badger itself panics, on a goroutine where no
// caller can recover.
func TestShortenedTable(t *testing.T) {
	tier.Slow(t) // the race detector has a shadow of 8 GiB for a table of 2 GiB
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, table string, size int64){
		"empty":     func(t *testing.T, table string, _ int64) { truncate(t, table, 0) },
		"3 bytes":   func(t *testing.T, table string, _ int64) { truncate(t, table, 3) },
		"100 bytes": func(t *testing.T, table string, _ int64) { truncate(t, table, 100) },
		"half":      func(t *testing.T, table string, size int64) { truncate(t, table, size/2) },
		"all but 1": func(t *testing.T, table string, size int64) { truncate(t, table, size-1) },
		"2 GiB":     func(t *testing.T, table string, _ int64) { truncate(t, table, 2<<30) },
		"huge checksum": func(t *testing.T, table string, size int64) {
			patch(t, table, size-4, []byte{0x7f, 0xff, 0xff, 0xff})
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			seed(t, folder)
			tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatalf("got tables %v, %v, want some", tables, err)
			}
			info, err := os.Stat(tables[0])
			if err != nil {
				t.Fatal(err)
			}
			damage(t, tables[0], info.Size())
			s, err := Open(folder, testOptions)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
				t.Errorf("got %v, want ErrDamaged and the name of the table", err)
			}
		})
	}
}

// If a MANIFEST has lost its end, Badger deletes the tables that it no longer names. The
// store must not be served without these tables, and they must not be deleted.
func TestShortenedManifest(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	source := t.TempDir()
	w, p, _ := seed(t, source) // closed, so all of it is in a table
	s := mustOpen(t, source)
	if _, err := domain.NewService(s).CreateWorkspace(t.Context(), by(""), domain.WorkspacePatch{Name: new("later"), Slug: new("later")}); err != nil {
		t.Fatal(err)
	}
	crashed := t.TempDir() // as a kill would leave it: what came later is in the log alone
	copyFolder(t, source, crashed)
	whole := readFile(t, filepath.Join(crashed, badgerdb.ManifestFilename))
	restored := ""
	for length := 8; length < len(whole); length += 7 * tier.Sample(5) {
		folder := t.TempDir()
		copyFolder(t, crashed, folder)
		truncate(t, filepath.Join(folder, badgerdb.ManifestFilename), int64(length))
		for attempt := range 2 {
			s, err := Open(folder, testOptions)
			if err == nil {
				_ = s.Close()
			}
			if err == nil {
				t.Fatalf("%d of %d bytes, attempt %d: the store opens", length, len(whole), attempt)
			}
		}
		restored = folder
	}
	// With the MANIFEST restored, all records are there.
	if err := os.WriteFile(filepath.Join(restored, badgerdb.ManifestFilename), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, restored)
	err := s.View(t.Context(), func(r domain.Reader) error {
		if _, err := r.PresetVersion(p.State(), 3); err != nil {
			return err
		}
		if got, err := workspaceBySlug(r, "w"); err != nil || got.ID != w.ID {
			return fmt.Errorf("got workspace %s, %w", got.ID, err)
		}
		_, err := workspaceBySlug(r, "later")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHarmlessOrphans checks that a table left by a crash is no damage if it is
// unfinished. It is no damage either if other tables have all of its records.
func TestHarmlessOrphans(t *testing.T) {
	folder := t.TempDir()
	_, p, _ := seed(t, folder)
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	content := readFile(t, tables[0])
	for name, content := range map[string][]byte{"000901.sst": content, "000902.sst": content[:len(content)/2], "000903.sst": nil} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, folder)
	if err := s.View(t.Context(), func(r domain.Reader) error {
		_, err := r.PresetVersion(p.State(), 3)
		return err
	}); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, probePattern)); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no copy left", left, err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	copyUnchanged(t, from, to, func() error { return os.CopyFS(to, os.DirFS(from)) })
}

// copyUnchanged copies the folder of a store that may be open. Badger may write a log to a
// table meanwhile, and a purge may make a commit. It begins again then.
func copyUnchanged(t *testing.T, from, to string, copyAll func() error) {
	t.Helper()
	for end := time.Now().Add(wait.Limit); ; {
		before, sequence := sizesIn(t, from), readSequence(from)
		err := copyAll()
		if err == nil && maps.Equal(before, sizesIn(t, from)) && readSequence(from) == sequence {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the store changes all the time: %v", err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// readSequence returns the content of the sequence file in a folder, which each commit changes.
func readSequence(folder string) string {
	content, _ := os.ReadFile(filepath.Join(folder, sequenceName)) // it may be missing
	return string(content)
}

// sizesIn returns the sizes of the files in a folder, by their names.
func sizesIn(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]int64)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // it may be gone
			sizes[entry.Name()] = info.Size()
		}
	}
	return sizes
}

func truncate(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, name string, at int64, with []byte) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(with, at); err != nil {
		t.Fatal(err)
	}
}

// TestEmptyLogs has empty logs. A kill leaves them when Badger has just created them, or is
// about to remove them.
func TestEmptyLogs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w, p, _ := seed(t, folder)
	for range 2 {
		for _, name := range []string{"000000.vlog", "000900.vlog", "000901.vlog", "00000.mem", "00900.mem", "00901.mem"} {
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(folder, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(t.Context(), func(r domain.Reader) error {
			_, err1 := workspaceBySlug(r, w.Slug)
			_, err2 := r.PresetVersion(p.State(), 3)
			return errors.Join(err1, err2)
		})
		if err := errors.Join(err, s.Update(t.Context(), put(newWorkspace(newID()))), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// In a store that never came to be, too.
	folder = t.TempDir()
	for name, content := range map[string][]byte{MarkerName: []byte(markerText(t, stateNew)), "000001.vlog": nil, "00001.mem": nil} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, folder)
}

// TestDamagedTable flips a byte on the disk. Under an open store the record's checksum has
// to find it. The test also flips one before the store is opened.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, p, _ := seed(t, folder)
	s := mustOpen(t, folder)
	flip(t, folder, "needle-2")
	for n, damaged := range []bool{false, true, false} {
		if len(testOptions.EncryptionKey) > 0 {
			break // the block may still be in the cache
		}
		err := s.View(t.Context(), func(r domain.Reader) error { _, err := r.PresetVersion(p.State(), n+1); return err })
		if errors.Is(err, ErrDamaged) != damaged || !damaged && err != nil {
			t.Errorf("version %d: got error %v, want ErrDamaged: %v", n+1, err, damaged)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(folder, testOptions)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), folder) {
		t.Errorf("Open: got error %v, want ErrDamaged and the folder's name", err)
	}
}

// TestDamagedLog copies a running store, as a crash would leave it, and flips
// a byte in its write-ahead log. Badger opens that, without what follows.
func TestDamagedLog(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	folder, crashed := t.TempDir(), t.TempDir()
	s := mustOpen(t, folder)
	var log string
	var ends [10]int // of the changes in the log
	for i := range ends {
		if err := s.Update(t.Context(), put(newWorkspace(fmt.Sprint("w-", i)))); err != nil {
			t.Fatal(err)
		}
		log, ends[i] = usedLog(t, folder)
	}
	snapshot := func(to string) {
		t.Helper()
		for _, name := range strings.Fields(listFolder(folder))[1:] {
			if name == "LOCK" { // which Windows does not let anyone read
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err := errors.Join(err, os.WriteFile(filepath.Join(to, name), content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	snapshot(crashed)
	again := mustOpen(t, crashed)
	if _, err := workspace(again, "w-9"); err != nil {
		t.Errorf("after a crash without damage: %v", err)
	}
	crashed = t.TempDir()
	snapshot(crashed)
	at, log := (ends[6]+ends[7])/2, filepath.Join(crashed, log)
	patch(t, log, int64(at), []byte{readFile(t, log)[at] ^ 0x10})
	_, err := Open(crashed, testOptions)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "the last 3 are missing") {
		t.Fatalf("got error %v, want ErrDamaged that counts 3 commits", err)
	}
	// The operator's way out.
	if err := os.Remove(filepath.Join(crashed, sequenceName)); err != nil {
		t.Fatal(err)
	}
	again = mustOpen(t, crashed)
	if _, err := workspace(again, "w-6"); err != nil {
		t.Errorf("before the damage: %v", err)
	}
	if _, err := workspace(again, "w-7"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("after the damage: got error %v, want ErrNotFound", err)
	}
}

// TestSequence damages the sequence file. Only a missing file counts as none.
func TestSequence(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	seed(t, folder)
	name := filepath.Join(folder, sequenceName)
	good := string(readFile(t, name))
	contents := []string{"", "short", strings.Repeat("\xff", 12), strings.Repeat("\x00", 12), strings.Repeat("x", 100), good + "\x00"}
	for i := range len(good) {
		contents = append(contents, good[:i], good[:i]+string([]byte{good[i] ^ 1<<rand.IntN(8)})+good[i+1:])
	}
	for _, content := range contents {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, opening := Open(folder, testOptions)
		for _, err := range []error{opening, VerifyQuickly(folder, testOptions)} {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "remove that file") || !strings.Contains(err.Error(), name) {
				t.Errorf("content %q: got %v, want ErrDamaged and what to do", content, err)
			}
		}
		if got := string(readFile(t, name)); got != content {
			t.Errorf("content %q has become %q", content, got)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, folder)
	if got := string(readFile(t, name)); got != good {
		t.Errorf("the new file has %q, want %q", got, good)
	}
	if _, err := openSequence(filepath.Join(folder, "missing"), 1); domain.KindOf(err) != domain.Unavailable || errors.Is(err, ErrDamaged) {
		t.Errorf("a file that cannot be made: got %v, want ErrUnavailable alone", err)
	}
}

func TestMarker(t *testing.T) {
	write := func(t *testing.T, folder, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, folder string, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, folder string)
		want    string // in the error; empty when it opens
	}{
		{"empty folder", func(*testing.T, string) {}, ""},
		{"folder missing", func(t *testing.T, folder string) { remove(t, folder, ".") }, ""},
		{"mounted file system", func(t *testing.T, folder string) {
			if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"store", func(t *testing.T, folder string) { seed(t, folder) }, ""},
		{"MANIFEST gone", func(t *testing.T, folder string) {
			seed(t, folder)
			remove(t, folder, badgerdb.ManifestFilename)
		}, "restore a backup"},
		{"MANIFEST damaged", func(t *testing.T, folder string) {
			seed(t, folder)
			write(t, folder, badgerdb.ManifestFilename, "nonsense nonsense")
		}, "MANIFEST: manifest has bad magic"},
		{"all but STORE gone", func(t *testing.T, folder string) {
			write(t, folder, MarkerName, markerText(t, stateReady))
		}, "data files are gone"},
		{"STORE gone", func(t *testing.T, folder string) {
			seed(t, folder)
			remove(t, folder, MarkerName)
		}, "has lost its STORE file"},
		{"all of ours but BALLAST gone", func(t *testing.T, folder string) {
			seed(t, folder)
			remove(t, folder, MarkerName, sequenceName)
			write(t, folder, ballastName, "")
		}, "has lost its STORE file"},
		{"another's database", func(t *testing.T, folder string) {
			seed(t, folder)
			remove(t, folder, MarkerName, sequenceName)
		}, "not a store of presets"},
		{"a bit of STORE flipped", func(t *testing.T, folder string) {
			seed(t, folder)
			text := readFile(t, filepath.Join(folder, MarkerName))
			text[rand.IntN(len(text))] ^= 1 << rand.IntN(8)
			write(t, folder, MarkerName, string(text))
		}, "STORE file"},
		{"STORE without its checksum", func(t *testing.T, folder string) {
			seed(t, folder)
			text, _, _ := strings.Cut(string(readFile(t, filepath.Join(folder, MarkerName))), "\n")
			write(t, folder, MarkerName, text)
		}, "STORE file"},
		{"STORE damaged", func(t *testing.T, folder string) {
			seed(t, folder)
			write(t, folder, MarkerName, `{"format":1,"state`)
		}, "STORE file"},
		{"STORE empty", func(t *testing.T, folder string) { write(t, folder, MarkerName, "") }, "STORE file"},
		{"state unknown", func(t *testing.T, folder string) { write(t, folder, MarkerName, markerText(t, "x")) }, "STORE file"},
		{"newer format", func(t *testing.T, folder string) {
			seed(t, folder)
			text, err := encodeMarker(marker{Format: storeFormat + 1, State: stateReady})
			if err != nil {
				t.Fatal(err)
			}
			write(t, folder, MarkerName, string(text))
		}, "newer version"},
		{"another's folder", func(t *testing.T, folder string) { write(t, folder, "notes.txt", "mine") }, "neither empty nor a store"},
		{"tables only", func(t *testing.T, folder string) {
			seed(t, folder)
			remove(t, folder, MarkerName, badgerdb.ManifestFilename, sequenceName)
		}, "neither empty nor a store"},
		// The files that a crash of a first start leaves.
		{"crash before STORE", func(t *testing.T, folder string) { write(t, folder, "STORE-123", `{"form`) }, ""},
		{"crash after STORE", func(t *testing.T, folder string) { write(t, folder, MarkerName, markerText(t, stateNew)) }, ""},
		{"crash in Badger", func(t *testing.T, folder string) {
			write(t, folder, MarkerName, markerText(t, stateNew))
			write(t, folder, "MANIFEST-REWRITE", "Bd")
			write(t, folder, "LOCK", "1\n")
		}, ""},
		{"crash before ready", func(t *testing.T, folder string) {
			seed(t, folder)
			write(t, folder, MarkerName, markerText(t, stateNew))
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			test.prepare(t, folder)
			before := listFolder(folder)
			s, err := Open(folder, testOptions)
			if test.want != "" {
				if err == nil {
					_ = s.Close()
					t.Fatal("got no error")
				}
				if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), folder) {
					t.Errorf("got error %q, want one with %q and the folder", err, test.want)
				}
				if after := listFolder(folder); before != after {
					t.Errorf("a refused folder changed\nfrom %s\nto   %s", before, after)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			m, err := decodeMarker(readFile(t, filepath.Join(folder, MarkerName)))
			if err != nil {
				t.Fatal(err)
			}
			if m.Format != storeFormat || m.State != stateReady || m.ID == "" {
				t.Errorf("got marker %+v, want a ready one", m)
			}
			mustOpen(t, folder)
		})
	}
}

// markerText returns the content of the STORE file of a store in a state.
func markerText(t *testing.T, state string) string {
	t.Helper()
	key := testOptions.EncryptionKey
	text, err := encodeMarker(marker{Format: storeFormat, ID: "x", State: state, Encrypted: len(key) > 0, KeyCheck: keyCheck(key, "x")})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func listFolder(folder string) string {
	var names []string
	_ = fs.WalkDir(os.DirFS(folder), ".", func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, name)
		return nil
	})
	return strings.Join(names, " ")
}

func TestFolderMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	folder := filepath.Join(t.TempDir(), "a", "b")
	check := func() {
		t.Helper()
		s, err := Open(folder, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("got mode %o, want 700", got)
		}
	}
	check()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestInUse(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	_, err := Open(folder, testOptions)
	if err == nil {
		t.Fatal("a folder in use was opened")
	}
	if !errors.Is(err, ErrInUse) || !errors.Is(err, ErrMisused) || !strings.Contains(err.Error(), folder) {
		t.Errorf("got error %v, want that the folder is in use", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Errorf("the one that has it: %v", err)
	}
}

func TestLogger(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	s, err := openFolder(t.TempDir(), Options{Logger: zap.New(core)}, ample) // or it told of a small disk, too
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	made := logs.FilterMessage("a new store was made")
	if made.Len() != 1 || logs.Len() == 1 {
		t.Errorf("got %d messages, %d of them that a store was made, want that once and more", logs.Len(), made.Len())
	}
	for _, entry := range logs.All() {
		if entry.Message == "a new store was made" && entry.Level == zapcore.InfoLevel {
			continue
		}
		if entry.Level != zapcore.DebugLevel || strings.HasSuffix(entry.Message, "\n") {
			t.Errorf("got %v %q, want debug messages of one line", entry.Level, entry.Message)
		}
	}
}

func TestFreeSpace(t *testing.T) {
	free, err := freeSpace(t.TempDir())
	if err != nil || free == 0 {
		t.Errorf("got %d, %v, want some", free, err)
	}
	if free == math.MaxUint64 {
		t.Skip("the free space is not known on this system")
	}
	if _, err := freeSpace(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing folder has free space")
	}
}

// writeUntilKilled adds versions to a few presets from eight goroutines and
// prints each that was acknowledged. Another one makes workspaces and deletes
// them.
func writeUntilKilled(folder string) {
	s, err := Open(folder, testOptions)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	service := domain.NewService(s)
	if err := service.EnsureDefaultWorkspace(context.Background()); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if err := comeAndGo(service); err != nil {
				mu.Lock()
				fmt.Println("error", err)
				mu.Unlock()
			}
		}
	})
	for range 8 {
		wg.Go(func() {
			for {
				slug := fmt.Sprint("p", rand.IntN(5))
				config := fmt.Appendf(nil, `{"%d": %q}`, rand.Uint64(), strings.Repeat("x", rand.IntN(4000)))
				out, err := service.ReleasePresetVersion(context.Background(), by(""), "", slug, domain.Capture{Config: config}, domain.Release{})
				mu.Lock()
				if err != nil {
					fmt.Println("error", err)
				}
				fmt.Println("ack", slug, out.Version.Version, out.Version.ID, hashOf(config))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// comeAndGo makes a workspace with presets and deletes it.
func comeAndGo(service *domain.Service) error {
	ctx := context.Background()
	out, err := service.CreateWorkspace(ctx, by(""), domain.WorkspacePatch{Name: new("passing"), Slug: new("w-" + newID())})
	if err != nil {
		return err
	}
	id := out.Workspace.ID
	for i := range 20 {
		if _, err := service.ReleasePresetVersion(ctx, by(id), "", fmt.Sprint("p", i%7), domain.Capture{Config: []byte("{}")}, domain.Release{}); err != nil {
			return err
		}
	}
	_, err = service.DeleteWorkspace(ctx, by(""), id, domain.WorkspaceDeletion{})
	return err
}

// checkWhole checks that the stored records are consistent.
func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	waitUntilPurged(t, s)
	var report storage.Report
	err := viewLanded(s, func(txn *badgerdb.Txn) error {
		return checkRecords(txn, &report, func() error { return nil })
	})
	if err := errors.Join(err, report.Err()); err != nil {
		t.Error(err)
	}
}

// TestCrash kills a writing process at random moments. Each time all acknowledged writes
// are there, and no version is missing.
func TestCrash(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	type acknowledged struct{ id, hash string }
	acks := map[string]map[int]acknowledged{}
	total := 0
	cycles := 6 / tier.Sample(2)
	for cycle := range cycles {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashFolder+"="+folder) // withKey sets crashKey
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The first ones may not even get to open the store. The others get to write.
		moment := rand.N(time.Duration(cycle*150+50) * time.Millisecond)
		kill := sync.OnceFunc(func() { time.AfterFunc(moment, func() { _ = child.Process.Kill() }) })
		if cycle < cycles/2 {
			kill()
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			kill()
			var slug string
			var n int
			var ack acknowledged
			if _, err := fmt.Sscan(strings.TrimPrefix(lines.Text(), "ack "), &slug, &n, &ack.id, &ack.hash); err != nil {
				if strings.HasPrefix(lines.Text(), "error") {
					t.Errorf("cycle %d: %s", cycle, lines.Text())
				}
				continue // the line it died in
			}
			if acks[slug] == nil {
				acks[slug] = map[int]acknowledged{}
			}
			if _, twice := acks[slug][n]; twice {
				t.Errorf("cycle %d: version %d of %s was given out twice", cycle, n, slug)
			}
			acks[slug][n] = ack
			total++
		}
		_ = child.Wait() // killed

		s, err := Open(folder, testOptions)
		if err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		err = s.View(t.Context(), func(r domain.Reader) error {
			for slug, versions := range acks {
				w, err := workspaceBySlug(r, domain.DefaultWorkspaceSlug)
				if err != nil {
					return err
				}
				p, err := r.Preset(w.ID, slug)
				if err != nil {
					return err
				}
				for n := 1; n <= p.LatestVersion; n++ {
					v, err := r.PresetVersion(p.State(), n)
					if err != nil {
						return fmt.Errorf("version %d of %d of %s: %w", n, p.LatestVersion, slug, err)
					}
					ack, known := versions[n]
					if got := (acknowledged{v.ID, hashOf(v.Config)}); known && got != ack {
						t.Errorf("version %d of %s: got %v, want %v", n, slug, got, ack)
					}
					delete(versions, n)
				}
				if len(versions) > 0 {
					t.Errorf("cycle %d: %d acknowledged versions of %s are beyond the last one, %d", cycle, len(versions), slug, p.LatestVersion)
				}
				acks[slug] = map[int]acknowledged{}
			}
			return nil
		})
		checkWhole(t, s)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
	}
	t.Logf("%d acknowledged writes", total)
	if total == 0 {
		t.Error("nothing was acknowledged")
	}
}

func hashOf(config []byte) string { return fmt.Sprintf("%x", domain.HashSecret(string(config))) }
