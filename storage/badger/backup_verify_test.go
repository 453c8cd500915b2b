package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// verifyBackup verifies a backup, and checks that no temporary file is left.
func verifyBackup(t *testing.T, backup []byte, by BackupVerification) (storage.Report, error) {
	t.Helper()
	by.Folder = t.TempDir()
	_, _, report, err := VerifyBackup(t.Context(), bytes.NewReader(backup), int64(len(backup)), by)
	if left := listFolder(by.Folder); left != "." {
		t.Errorf("the verification left %s", left)
	}
	return report, err
}

// furnished returns a backup of a store with every kind of record. count is how many records
// a check of that store counts.
func furnished(t *testing.T, key []byte) (backup []byte, count int) {
	t.Helper()
	withKey(t, key)
	folder := t.TempDir()
	furnish(t, folder)
	s := mustOpen(t, folder)
	defer s.Close()
	return backUp(t, s), checked(t, s).Records
}

// rewritten returns a backup with other records, and with an end that agrees with them.
func rewritten(t *testing.T, backup []byte, change func(k records.Key, record []byte) (changed []byte)) []byte {
	t.Helper()
	from, err := openBackup(bytes.NewReader(backup), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	to, err := newBackupWriter(&b, from.info, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := newDigest()
	for from.next() {
		record := change(from.key, from.record)
		if record == nil {
			continue
		}
		d.add(from.key, record)
		if err := to.record(from.key, from.expires, record); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(from.err, to.end(BackupEnd{Records: d.records, Digest: d.text()})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestVerifyBackup verifies whole backups, in memory and with a temporary file.
func TestVerifyBackup(t *testing.T) {
	tier.NoRace(t)
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		backup, count := furnished(t, key)
		for _, memory := range []int64{0, 1} {
			var spilled int64
			var units []ProgressUnit
			report, err := verifyBackup(t, backup, BackupVerification{
				Key: key, memory: memory,
				Spill: func(folder string, size int64) error {
					if info, err := os.Stat(folder); err != nil || !info.IsDir() {
						t.Errorf("%s is no folder: %v", folder, err)
					}
					// A process that is killed from here on leaves nothing.
					if left := listFolder(folder); left != "." && runtime.GOOS != "windows" {
						t.Errorf("the temporary file has a name: %s", left)
					}
					spilled = size
					return nil
				},
				Progress: func(unit ProgressUnit, done, all int64) {
					if units = append(units, unit); done < 0 || done > all || unit == ProgressBytes && all != int64(len(backup)) {
						t.Errorf("%s: %d of %d %s", name, done, all, unit)
					}
				},
			})
			if err != nil || report.Err() != nil || report.Records != count {
				t.Errorf("%s: got %d records, %v, %v, want %d", name, report.Records, err, report.Err(), count)
			}
			if (spilled > 0) != (memory > 0) {
				t.Errorf("%s: memory %d: a temporary file of %d bytes was announced", name, memory, spilled)
			}
			if units = slices.Compact(units); !slices.Equal(units, []ProgressUnit{ProgressBytes, ProgressRecords}) {
				t.Errorf("%s: got the progress of %v", name, units)
			}
		}
	}
}

// TestVerifyDamagedBackup cuts a backup at each length and flips a bit of each byte,
// or of every fifth in a sample.
func TestVerifyDamagedBackup(t *testing.T) {
	tier.NoRace(t)
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			full, _ := small(t, Options{EncryptionKey: key})
			begin := bytes.IndexByte(full, '\n') + 1
			begin += bytes.IndexByte(full[begin:], '\n') + 1 // of the chunks
			refused := func(what string, content []byte, damaged bool) {
				t.Helper()
				_, err := verifyBackup(t, content, BackupVerification{Key: key})
				if !errors.Is(err, ErrNotRestorable) || damaged && !errors.Is(err, storage.ErrDamaged) {
					t.Errorf("%s: got error %v", what, err)
				}
			}
			for n := 0; n < len(full); n += tier.Sample(5) {
				refused(fmt.Sprintf("%d of %d bytes", n, len(full)), full[:n], n >= len(BackupMagic))
				flipped := bytes.Clone(full)
				flipped[n] ^= 1 << (n % 8)
				refused(fmt.Sprintf("byte %d flipped", n), flipped, n >= begin)
			}
			refused("something behind the end", append(bytes.Clone(full), 0), true)
		})
	}
}

// TestVerifyBackupKeys verifies with wrong keys. That is no damage.
func TestVerifyBackupKeys(t *testing.T) {
	tier.NoRace(t)
	encrypted, _ := small(t, Options{EncryptionKey: testKey})
	plain, _ := small(t, Options{})
	for _, tc := range []struct {
		backup, key []byte
		says        string
	}{
		{encrypted, nil, "it is encrypted, and needs the key"},
		{encrypted, bytes.Repeat([]byte{7}, KeySize), "the key is not the one"},
		{plain, testKey, "it is not encrypted, but a key was named for it"},
		{nil, nil, "it is no backup of presets"},
		{[]byte("caddy-presets backup 2\n{}\n"), nil, "needs a newer version"},
	} {
		_, err := verifyBackup(t, tc.backup, BackupVerification{Key: tc.key})
		if len(tc.backup) == 0 {
			tc.says = "it was cut short"
		}
		if !errors.Is(err, ErrNotRestorable) || errors.Is(err, storage.ErrDamaged) != (len(tc.backup) == 0) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("got error %v, want one with %q", err, tc.says)
		}
	}
}

// TestVerifyBackupAsRestored removes and changes records of each kind. The backup's report
// is that of the store which Restore makes of it.
func TestVerifyBackupAsRestored(t *testing.T) {
	tier.Slow(t)
	backup, _ := furnished(t, nil)
	kinds := map[records.Kind]bool{}
	rewritten(t, backup, func(k records.Key, record []byte) []byte {
		kinds[k.Kind()] = true
		return record
	})
	if len(kinds) < 18 {
		t.Errorf("the backup has %d kinds of records only", len(kinds))
	}
	damaged := 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for what, change := range map[string]func(k records.Key, record []byte) []byte{
			"missing": func(records.Key, []byte) []byte { return nil },
			"empty":   func(k records.Key, _ []byte) []byte { return records.Seal(k, nil) },
		} {
			first := true
			content := rewritten(t, backup, func(k records.Key, record []byte) []byte {
				if k.Kind() == kind && first {
					first = false
					return change(k, record)
				}
				return record
			})
			var want storage.Report
			folder := filepath.Join(t.TempDir(), "restored")
			_, _, wantErr := Restore(t.Context(), folder, Options{}, nil, fileOf(content))
			if wantErr == nil {
				var err error
				if want, err = Verify(t.Context(), folder, Options{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, memory := range []int64{0, 1} {
				got, err := verifyBackup(t, content, BackupVerification{memory: memory})
				if (err != nil) != (wantErr != nil) || got.Records != want.Records && wantErr == nil || !slices.Equal(got.Problems, want.Problems) {
					t.Errorf("%s %v: got %d records, %q, %v, want %d, %q, %v", what, kind, got.Records, got.Problems, err, want.Records, want.Problems, wantErr)
				}
				if err != nil || got.Err() != nil {
					damaged++
				}
			}
		}
	}
	t.Logf("%d of %d damaged backups found", damaged, 4*len(kinds))
	if damaged < 60 {
		t.Error("too few of them")
	}
}

// TestVerifyBackupEnds ends a verification early: there is no space, or nobody waits.
func TestVerifyBackupEnds(t *testing.T) {
	tier.NoRace(t)
	backup, _ := small(t, Options{})
	full := errors.New("no space")
	if _, err := verifyBackup(t, backup, BackupVerification{memory: 1, Spill: func(string, int64) error { return full }}); !errors.Is(err, full) {
		t.Errorf("got error %v", err)
	}
	for _, memory := range []int64{0, 1} {
		for stopAt := range 4 {
			ctx, stop := context.WithCancel(t.Context())
			steps := 0
			folder := t.TempDir()
			_, _, _, err := VerifyBackup(ctx, bytes.NewReader(backup), int64(len(backup)), BackupVerification{
				Folder: folder, memory: memory,
				Progress: func(ProgressUnit, int64, int64) {
					if steps++; steps > stopAt {
						stop()
					}
				},
			})
			stop()
			if err != nil && !errors.Is(err, context.Canceled) || err == nil && stopAt < 1 {
				t.Errorf("stopped at step %d: got error %v", stopAt, err)
			}
			if left := listFolder(folder); left != "." {
				t.Errorf("stopped at step %d: %s is left", stopAt, left)
			}
		}
	}
	absent := filepath.Join(t.TempDir(), "absent")
	_, _, report, err := VerifyBackup(t.Context(), bytes.NewReader(backup), 1, BackupVerification{Folder: absent, memory: 1})
	if !errors.Is(err, os.ErrNotExist) || report.Records != 0 {
		t.Errorf("without the folder: got %+v, %v", report, err)
	}
}

// TestSpool compares a spool with the records that were put into it.
func TestSpool(t *testing.T) {
	for _, inFile := range []bool{false, true} {
		var file *os.File
		if inFile {
			var err error
			if file, _, err = newScratch(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
		s := newSpool(file)
		const canary = "CANARY"
		all := map[string][]byte{}
		for n := range 3000 {
			all[fmt.Sprintf("%03d/%04d", n%7, n*n%9973)] = []byte(canary + strings.Repeat("r", n%500))
		}
		all["003/5"] = bytes.Repeat([]byte("l"), 3*spoolBlock)
		keys := slices.Sorted(maps.Keys(all))
		for _, k := range keys {
			if err := s.add(records.Key(k), all[k]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if len(s.blocks) < 8 {
			t.Errorf("it has %d blocks only", len(s.blocks))
		}
		for _, k := range keys {
			if got, err := s.Get(records.Key(k)); err != nil || !bytes.Equal(got, all[k]) {
				t.Fatalf("%s: got %d bytes, %v", k, len(got), err)
			}
			for _, absent := range []string{k + "\x00", k[:len(k)-1]} {
				if _, err := s.Get(records.Key(absent)); all[absent] == nil && !errors.Is(err, domain.ErrNotFound) {
					t.Fatalf("%q: got error %v", absent, err)
				}
			}
		}
		for _, prefix := range []string{"", "0", "000", "003", "003/5", "006/", "9", "/"} {
			for _, from := range []string{"", "0", "002/5", "003/5", "004/9972", "9"} {
				var got, want []string
				it := s.Iterate(records.Key(prefix))
				for it.Seek(records.Key(from)); it.Valid(); it.Next() {
					value, err := it.Value()
					if err != nil || !bytes.Equal(value, all[string(it.Key())]) || it.Size() != len(value) {
						t.Fatalf("%s: got %d bytes, %v", it.Key(), len(value), err)
					}
					got = append(got, string(it.Key()))
				}
				if err := it.Err(); err != nil {
					t.Error(err)
				}
				it.Close()
				for _, k := range keys {
					if strings.HasPrefix(k, prefix) && k >= from {
						want = append(want, k)
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%q from %q: got %d keys, want %d", prefix, from, len(got), len(want))
				}
			}
		}
		if file == nil {
			continue
		}
		content, err := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64)) // its name is gone
		// Random bytes may have a short text.
		if err != nil || bytes.Contains(content, []byte(canary)) || bytes.Contains(content, []byte(keys[0])) {
			t.Errorf("the file shows what it holds: %v", err)
		}
		// A file that is damaged or gone says nothing about the backup.
		content[len(content)/2] ^= 1
		clear(s.cached[:])
		if _, err := file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		it := s.Iterate(nil)
		for it.Seek(nil); it.Valid(); it.Next() {
		}
		if err := it.Err(); !errors.Is(err, domain.ErrUnavailable) || s.failed == nil {
			t.Errorf("a damaged file: got error %v and %v", err, s.failed)
		}
		s.remove()
		clear(s.cached[:])
		s.failed = nil
		if _, err := s.Get(records.Key(keys[0])); err == nil || s.failed == nil {
			t.Errorf("without the file: got error %v", err)
		}
	}
	if _, err := newSpool(nil).Get(records.Key("x")); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("an empty one: got error %v", err)
	}
}

// BenchmarkVerifyBackup verifies a backup of some 12 MiB.
func BenchmarkVerifyBackup(b *testing.B) {
	for name, memory := range map[string]int64{"memory": maxVerifyMemory, "file": 1} {
		b.Run(name, func(b *testing.B) {
			s, err := OpenInMemory()
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f := storagetest.Fill(b, s)
			f.Some()
			f.Much()
			var backup bytes.Buffer
			if _, _, err := s.Backup(b.Context(), &backup); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				_, _, report, err := VerifyBackup(b.Context(), bytes.NewReader(backup.Bytes()), int64(backup.Len()), BackupVerification{memory: memory})
				if err != nil || report.Err() != nil {
					b.Fatal(err, report.Err())
				}
			}
		})
	}
}
