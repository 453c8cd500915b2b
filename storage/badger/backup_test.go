package badger

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
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
	err := s.view(t.Context(), func(r *reader) error {
		for k := range records(t, s, kindPreset) {
			p, err := load(r, key(k), parsePreset)
			if err != nil {
				return err
			}
			for n := range p.PresetState.Versions() {
				if _, err := r.PresetVersion(p.PresetState, n); err != nil {
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
			o := Options{EncryptionKey: key}
			s, err := Open(t.TempDir(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
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
			if unchanged, _ := backUp(t, s, &info); len(unchanged) > len(backups[0])/2 {
				t.Errorf("an incremental backup without a change has %d bytes, the full one %d", len(unchanged), len(backups[0]))
			}
			for n := range backups {
				again := restored(t, o, nil, backups[:n+1]...)
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
						t.Errorf("a %v record is another, or expires at another time", kind(k[1]))
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

// What expires between the backup and its restoration stays away.
func TestRestoreExpired(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	put := func(n byte, expires time.Time) {
		k := replayKey(domain.ReplayID{n})
		record, err := encodeReplay(k, domain.Replay{ID: domain.ReplayID{n}, Answer: []byte("{}")})
		if err == nil {
			err = s.db.Update(func(txn *badgerdb.Txn) error {
				return txn.SetEntry(&badgerdb.Entry{Key: k, Value: record, ExpiresAt: uint64(expires.Unix())})
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	soon := time.Now().Add(2 * time.Second)
	put(1, soon)
	put(2, soon.Add(time.Hour))
	full, info := backUp(t, s, nil)
	more, _ := backUp(t, s, &info)
	time.Sleep(time.Until(soon.Add(1100 * time.Millisecond)))
	again := restored(t, Options{}, nil, full, more)
	if got := records(t, again, kindReplay); len(got) != 1 {
		t.Errorf("got %d kept answers, want the one that has not expired", len(got))
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

// readWhole reads a backup as Restore does.
func readWhole(content, key []byte) error {
	b, err := openBackup(bytes.NewReader(content), key)
	if err != nil {
		return err
	}
	for b.next() {
	}
	return b.err
}

// TestDamagedBackup cuts a backup at each length and flips a bit of each byte.
func TestDamagedBackup(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			full, incremental, _ := small(t, Options{EncryptionKey: key})
			refused := func(what string, content []byte, restoring bool) {
				t.Helper()
				if err := readWhole(content, key); !errors.Is(err, ErrNotRestorable) {
					t.Errorf("%s: got error %v, want ErrNotRestorable", what, err)
				}
				if key == nil {
					if _, _, err := CheckBackup(bytes.NewReader(content)); !errors.Is(err, ErrNotRestorable) {
						t.Errorf("%s: checked: got error %v, want ErrNotRestorable", what, err)
					}
				}
				if !restoring {
					return
				}
				parent := t.TempDir()
				_, _, err := Restore(t.Context(), filepath.Join(parent, "a", "b"), Options{}, key, files(content)[0])
				if !errors.Is(err, ErrNotRestorable) || !strings.Contains(err.Error(), "backup-0: ") {
					t.Errorf("%s: restored: got error %v, want ErrNotRestorable and the name", what, err)
				}
				if left := listFolder(parent); left != "." {
					t.Errorf("%s: the refused restore left %s", what, left)
				}
			}
			for _, whole := range [][]byte{full, incremental} {
				if err := readWhole(whole, key); err != nil {
					t.Fatal(err)
				}
				for n := range whole {
					restoring := n%211 == 0 && &whole[0] == &full[0]
					cut := whole[:n]
					refused(fmt.Sprintf("%d of %d bytes", n, len(whole)), cut, restoring)
					if key != nil { // of these, what a look without the key finds
						if _, _, err := CheckBackup(bytes.NewReader(cut)); !errors.Is(err, ErrNotRestorable) {
							t.Errorf("%d of %d bytes: checked: got error %v, want ErrNotRestorable", n, len(whole), err)
						}
					}
					flipped := bytes.Clone(whole)
					flipped[n] ^= 1 << (n % 8)
					refused(fmt.Sprintf("byte %d flipped", n), flipped, restoring)
				}
				refused("something behind the end", append(bytes.Clone(whole), 0), true)
				refused("twice", append(bytes.Clone(whole), whole...), false)
			}
			refused("empty", nil, true)
		})
	}
}

// chunks returns the parts of a backup: the lines, the chunks with their lengths, and
// the end.
func chunks(t *testing.T, backup []byte) (lines []byte, chunks [][]byte, end []byte) {
	t.Helper()
	at := bytes.IndexByte(backup, '\n') + 1
	at += bytes.IndexByte(backup[at:], '\n') + 1
	lines, rest := backup[:at], backup[at:]
	for {
		n := binary.BigEndian.Uint32(rest)
		if n == 0 {
			return lines, chunks, rest
		}
		chunks = append(chunks, rest[:4+n])
		rest = rest[4+n:]
	}
}

// Chunks that are all right by themselves are not in another place, or backup.
func TestRearrangedBackup(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			o := Options{EncryptionKey: key}
			s, err := Open(t.TempDir(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			w := newWorkspace("w")
			w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
			for i := range 20 {
				w.ID, w.Slug = newID(), fmt.Sprint("w-", i)
				if err := s.Update(t.Context(), put(w)); err != nil {
					t.Fatal(err)
				}
			}
			one, _ := backUp(t, s, nil)
			two, _ := backUp(t, s, nil)
			lines, c, end := chunks(t, one)
			others, d, otherEnd := chunks(t, two)
			if len(c) < 3 {
				t.Fatalf("the backup has %d chunks, want more", len(c))
			}
			if err := readWhole(bytes.Join([][]byte{lines, bytes.Join(c, nil), end}, nil), key); err != nil {
				t.Fatal(err)
			}
			for what, parts := range map[string][][]byte{
				"left out":          {lines, c[0], bytes.Join(c[2:], nil), end},
				"the last left out": {lines, bytes.Join(c[:len(c)-1], nil), end},
				"all left out":      {lines, end},
				"twice":             {lines, c[0], c[0], bytes.Join(c[1:], nil), end},
				"exchanged":         {lines, c[1], c[0], bytes.Join(c[2:], nil), end},
				"another's":         {lines, d[0], bytes.Join(c[1:], nil), end},
				"another's end":     {lines, bytes.Join(c, nil), otherEnd},
				"another's lines":   {others, bytes.Join(c, nil), end},
				"a chunk as end":    {lines, bytes.Join(c, nil), {0, 0, 0, 0}, c[0]},
			} {
				if err := readWhole(bytes.Join(parts, nil), key); !errors.Is(err, ErrNotRestorable) {
					t.Errorf("%s: got error %v, want ErrNotRestorable", what, err)
				}
			}
		})
	}
}

func TestRestoreRefuses(t *testing.T) {
	full, incremental, folder := small(t, Options{})
	s := mustOpen(t, folder)
	_, info := backUp(t, s, nil)
	if err := s.Update(t.Context(), put(newWorkspace("even later"))); err != nil {
		t.Fatal(err)
	}
	later, _ := backUp(t, s, &info)
	secret, secretIncremental, _ := small(t, Options{EncryptionKey: testKey})
	line := func(old, to string) []byte { return bytes.Replace(full, []byte(old), []byte(to), 1) }
	short := testKey[:16]
	for _, test := range []struct {
		name    string
		o       Options
		key     []byte
		backups [][]byte
		want    string // in the error; empty when it is restored
	}{
		{"full", Options{}, nil, [][]byte{full}, ""},
		{"with its incremental", Options{}, nil, [][]byte{full, incremental}, ""},
		{"with both", Options{}, nil, [][]byte{full, incremental, later}, ""},
		{"incremental alone", Options{}, nil, [][]byte{incremental}, "the first must be a full one"},
		{"incremental twice", Options{}, nil, [][]byte{full, incremental, incremental}, "backup-2: "},
		{"wrong order", Options{}, nil, [][]byte{full, later, incremental}, "backup-1: the backup cannot be used: it continues a backup of commit"},
		{"one left out", Options{}, nil, [][]byte{full, later}, "it continues a backup of commit"},
		{"two full ones", Options{}, nil, [][]byte{full, full}, "none can follow another"},
		{"another store's incremental", Options{}, nil, [][]byte{full, secretIncremental}, "needs the key"},
		{"another store's incremental, with its key", Options{EncryptionKey: testKey}, nil, [][]byte{full, secretIncremental}, "it is of another store"},
		{"no backup", Options{}, nil, [][]byte{[]byte("PK\x03\x04" + strings.Repeat("x", 1000))}, "it is no backup of presets"},
		{"one endless line", Options{}, nil, [][]byte{[]byte(strings.Repeat("x", 1<<20))}, "it is no backup of presets"},
		{"newer backup format", Options{}, nil, [][]byte{line("backup 1\n", "backup 22\n")}, "version 22 of the format and needs a newer version"},
		{"newer store format", Options{}, nil, [][]byte{line(fmt.Sprintf(`"store_format":%d`, storeFormat), fmt.Sprintf(`"store_format":%d`, storeFormat+1))}, "needs a newer version"},
		{"no format", Options{}, nil, [][]byte{line(`"store_format"`, `"stare_format"`)}, "not those of a backup"},
		{"encrypted", Options{}, testKey, [][]byte{secret, secretIncremental}, ""},
		{"encrypted, into such", Options{EncryptionKey: testKey}, nil, [][]byte{secret}, ""},
		{"encrypted anew", Options{EncryptionKey: bytes.Repeat([]byte{7}, KeySize)}, testKey, [][]byte{secret, secretIncremental}, ""},
		{"into an encrypted one", Options{EncryptionKey: testKey}, nil, [][]byte{full, incremental}, ""},
		{"no key", Options{}, nil, [][]byte{secret}, "it is encrypted, and needs the key"},
		{"wrong key", Options{}, bytes.Repeat([]byte{7}, KeySize), [][]byte{secret}, "the key is not the one"},
		{"short key", Options{}, short, [][]byte{secret}, "the key is not the one"},
		{"short key of the store", Options{EncryptionKey: short}, testKey, [][]byte{secret}, "has 16 bytes"},
		{"not encrypted though it should be", Options{}, testKey, [][]byte{full}, "it is not encrypted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			to := filepath.Join(parent, "new")
			all := files(test.backups...)
			_, end, err := Restore(t.Context(), to, test.o, test.key, all[0], all[1:]...)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				s, err := Open(to, test.o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if got := digestOf(t, s); got != fmt.Sprint(end.Records, " ", end.Digest) {
					t.Errorf("got digest %s, want %+v", got, end)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), string(testKey)) {
				t.Errorf("got error %v, want one with %q and no key", err, test.want)
			}
			if left := listFolder(parent); left != "." {
				t.Errorf("it left %s", left)
			}
		})
	}
}

// A base that says the right things and is another one leads to the wrong content,
// and that is found.
func TestRestoreOnWrongBase(t *testing.T) {
	full, incremental, folder := small(t, Options{})
	lines, _, _ := chunks(t, full)
	var info BackupInfo
	if err := json.Unmarshal(bytes.SplitN(lines, []byte("\n"), 3)[1], &info); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, folder)
	// forged is a backup of what is in the store now that claims to be the full one.
	forged := func(leaveOut kind) []byte {
		var b bytes.Buffer
		w, err := newBackupWriter(&b, info, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := newDigest()
		err = s.db.View(func(txn *badgerdb.Txn) error {
			return eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
				if key(item.Key()).kind() == leaveOut {
					return nil
				}
				d.add(item.Key(), record)
				return w.record(item.KeyCopy(nil), item.ExpiresAt(), record)
			})
		})
		if err := errors.Join(err, w.end(BackupEnd{Records: d.records, Digest: d.text()})); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if err := s.Update(t.Context(), func(tx domain.Tx) error {
		return tx.PutKey(domain.Key{ID: newID(), Kind: domain.ManagementKey})
	}); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		base []byte
		want string
	}{
		"a record less": {forged(kindVersion), "a preset version record that it does not change is missing"},
		"its own":       {full, ""},
	} {
		parent := t.TempDir()
		all := files(test.base, incremental)
		_, _, err := Restore(t.Context(), filepath.Join(parent, "new"), Options{}, nil, all[0], all[1])
		if (err != nil) != (test.want != "") || err != nil && (!strings.Contains(err.Error(), test.want) || listFolder(parent) != ".") {
			t.Errorf("%s: got error %v and %s, want %q and nothing left", what, err, listFolder(parent), test.want)
		}
	}
	// The records are there, but one of them is not what it was.
	tampered := func() []byte {
		var b bytes.Buffer
		w, err := newBackupWriter(&b, info, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := openBackup(bytes.NewReader(full), nil)
		if err != nil {
			t.Fatal(err)
		}
		for r.next() {
			record := r.record
			if r.key.kind() == kindVersion {
				record = encodeBytes(r.key, []byte("another"))
			}
			if err := w.record(r.key, r.expires, record); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(r.err, w.end(r.end)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	parent := t.TempDir()
	if _, _, err := Restore(t.Context(), filepath.Join(parent, "new"), Options{}, nil, files(tampered)[0]); !errors.Is(err, ErrNotRestorable) ||
		!strings.Contains(err.Error(), "with the digest") || listFolder(parent) != "." {
		t.Errorf("got error %v and %s, want one about the digest and nothing left", err, listFolder(parent))
	}
}

// A folder that holds anything is left alone, and an empty one is as it was after a
// refusal.
func TestRestoreFolder(t *testing.T) {
	full, _, source := small(t, Options{})
	damaged := bytes.Clone(full)
	damaged[len(damaged)-1] ^= 1
	write := func(t *testing.T, name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, folder string)
		backup  []byte
		want    string
	}{
		{"a file", func(t *testing.T, folder string) { write(t, filepath.Join(folder, "notes.txt"), "mine") }, full, "not empty"},
		{"a store", func(t *testing.T, folder string) { copyFolder(t, source, folder) }, full, "not empty"},
		{"what a first start left", func(t *testing.T, folder string) { write(t, filepath.Join(folder, "STORE-1"), "") }, full, "not empty"},
		{"empty", func(*testing.T, string) {}, damaged, "changed or damaged"},
		{"mounted", func(t *testing.T, folder string) {
			if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, damaged, "changed or damaged"},
		{"empty, and right", func(*testing.T, string) {}, full, ""},
		{"mounted, and right", func(t *testing.T, folder string) {
			if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, full, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			test.prepare(t, folder)
			look := func() string {
				info, err := os.Stat(folder)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(info.Mode(), " ", listFolder(folder))
			}
			before := look()
			_, _, err := Restore(t.Context(), folder, Options{}, nil, files(test.backup)[0])
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				mustOpen(t, folder)
				if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
					t.Errorf("got %v, %v, want mode 700", info.Mode(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if after := look(); after != before {
				t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
			}
		})
	}
	t.Run("disk full", func(t *testing.T) {
		for _, from := range []int{0, 2 << 10} {
			parent := t.TempDir()
			content := &counted{Reader: bytes.NewReader(large(t))}
			r := restore{ctx: t.Context(), free: func(string) (uint64, error) {
				if content.read.Load() >= int64(from) {
					return 0, nil
				}
				return 2 * minFree, nil
			}}
			err := r.into(filepath.Join(parent, "a"), []BackupFile{{"backup-0", content}})
			if !errors.Is(err, ErrDiskFull) || listFolder(parent) != "." {
				t.Errorf("got error %v and %s, want ErrDiskFull and nothing left", err, listFolder(parent))
			}
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		parent := t.TempDir()
		_, _, err := Restore(ctx, filepath.Join(parent, "a"), Options{}, nil, files(large(t))[0])
		if !errors.Is(err, context.Canceled) || listFolder(parent) != "." {
			t.Errorf("got error %v and %s, want that it was given up and nothing left", err, listFolder(parent))
		}
	})
}

// counted counts what is read, some hundred bytes at a time.
type counted struct {
	io.Reader
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), 300)])
	c.read.Add(int64(n))
	return n, err
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
	s.committer.commit = func(txn *badgerdb.Txn) error { return errors.Join(txn.Commit(), errDeliberate) }
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
	k, _ := versionKey(p.ID, 2)
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

// A backup of an older format is restored as such, and then upgraded.
func TestRestoreOlderFormat(t *testing.T) {
	folder := t.TempDir()
	want := format1(t, folder)
	db, err := badgerdb.Open(settings(folder, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := newBackupWriter(&b, BackupInfo{Kind: FullBackup, Store: "x", Format: 1, CreatedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDigest()
	err = db.View(func(txn *badgerdb.Txn) error {
		return eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
			d.add(item.Key(), record)
			return w.record(item.Key(), 0, record)
		})
	})
	if err := errors.Join(err, w.end(BackupEnd{Records: d.records, Digest: d.text()}), db.Close()); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, _, err := Restore(t.Context(), to, Options{}, nil, files(b.Bytes())[0]); err != nil {
		t.Fatal(err)
	}
	if m, err := readMarker(to, Options{}); err != nil || m.Format != 1 || m.State != stateReady {
		t.Errorf("got marker %+v, %v, want a ready one of format 1", m, err)
	}
	s := mustOpen(t, to)
	upgraded(t, s, want)
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
		for what == "closed" && !s.readers.isClosed() {
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

// restoreFolder names the folder for a child process that restores what comes on its
// standard input, and is killed.
const restoreFolder = "BADGER_TEST_RESTORE_FOLDER"

func restoreUntilKilled(folder string) {
	_, _, err := Restore(context.Background(), folder, Options{}, nil, BackupFile{"-", os.Stdin})
	fmt.Println("the restore ended:", err)
	os.Exit(1)
}

// TestKilledRestore kills a process that has restored a part of a backup.
func TestKilledRestore(t *testing.T) {
	whole := large(t)
	_, parts, end := chunks(t, whole)
	for _, n := range []int{len(whole) - len(end), len(whole) - len(end) - len(parts[len(parts)-1])} {
		folder := filepath.Join(t.TempDir(), "restored")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), restoreFolder+"="+folder)
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		child.Stdout, child.Stderr = &out, &out
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = in.Write(whole[:n]) // which the child has read but for what the pipe holds
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(folder, "*.mem")); len(found) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the child restores nothing: %s", out.String())
			}
		}
		if err := errors.Join(err, child.Process.Kill()); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // killed
		in.Close()
		before := listFolder(folder)
		if _, err := Open(folder, Options{}); err == nil || !strings.Contains(err.Error(), "a restore into "+folder) || errors.Is(err, ErrDamaged) {
			t.Errorf("Open: got error %v, want that a restore was cut short", err)
		}
		if _, _, err := Restore(t.Context(), folder, Options{}, nil, files(whole)[0]); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("Restore: got error %v, want that the folder is not empty", err)
		}
		if after := listFolder(folder); after != before || before == "." {
			t.Errorf("the folder changed\nfrom %s\nto   %s", before, after)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Restore(t.Context(), folder, Options{}, nil, files(whole)[0]); err != nil {
			t.Errorf("once it is emptied: %v", err)
		}
	}
}

// Two restores at a time do not share a folder.
func TestTwoRestores(t *testing.T) {
	full, _, _ := small(t, Options{})
	folder := filepath.Join(t.TempDir(), "store")
	var wg sync.WaitGroup
	var succeeded atomic.Int64
	for range 4 {
		wg.Go(func() {
			if _, _, err := Restore(context.Background(), folder, Options{}, nil, files(full)[0]); err == nil {
				succeeded.Add(1)
			}
		})
	}
	wg.Wait()
	if n := succeeded.Load(); n != 1 {
		t.Errorf("%d restores succeeded, want one", n)
	}
	mustOpen(t, folder)
}

// FuzzBackup reads what is no backup, and what is one around chunks that none has.
func FuzzBackup(f *testing.F) {
	info := BackupInfo{Kind: IncrementalBackup, Base: &BackupState{}, Store: "x", Format: 1, CreatedAt: time.Unix(1, 0).UTC()}
	var b bytes.Buffer
	w, err := newBackupWriter(&b, info, nil)
	if err != nil {
		f.Fatal(err)
	}
	lines := b.Len()
	k := keyHashKey(domain.KeyHash{1})
	for _, add := range []func() error{
		func() error { return w.record(auditKey(1), 0, encodeBytes(auditKey(1), []byte("{}"))) },
		func() error { return w.unchanged(k) },
	} {
		if err := add(); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(bytes.Clone(w.chunk), true)
	if err := w.end(BackupEnd{}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes()[:lines], false)
	f.Fuzz(func(t *testing.T, content []byte, within bool) {
		if within {
			var b bytes.Buffer
			w, err := newBackupWriter(&b, info, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.chunk = append(w.chunk, content...)
			if err := w.end(BackupEnd{}); err != nil {
				t.Fatal(err)
			}
			content = b.Bytes()
		}
		r, err := openBackup(bytes.NewReader(content), testKey)
		var before key
		for err == nil && r.next() {
			if bytes.Compare(r.key, before) <= 0 {
				t.Errorf("key %x comes after %x", r.key, before)
			}
			before = r.key
			if r.record == nil {
				continue
			}
			if _, err := unseal(r.key, r.record); err != nil {
				t.Errorf("an entry: %v", err)
			}
		}
		if err == nil {
			err = r.err
		}
		if err != nil && !errors.Is(err, ErrNotRestorable) {
			t.Errorf("got error %v, want ErrNotRestorable", err)
		}
		if _, _, checked := CheckBackup(bytes.NewReader(content)); checked != nil && err == nil {
			t.Errorf("it can be restored, but checking it says %v", checked)
		}
		if _, err := ReadBackupInfo(bytes.NewReader(content)); err != nil && !errors.Is(err, ErrNotRestorable) {
			t.Errorf("got error %v, want ErrNotRestorable", err)
		}
	})
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
