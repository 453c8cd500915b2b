package badger

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestSalvageRevokedKey loses all records of a revocation, and nothing else. They are in a
// part of a log, or in the one block of a table. An earlier record of the key is whole. The
// key must not come to life, unless the operator wants that.
func TestSalvageRevokedKey(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, folder string, o Options, revoke func(*Store)) (damaged string){
		"log": func(t *testing.T, folder string, o Options, revoke func(*Store)) string {
			s := openAgain(t, folder, o)
			change(t, s)
			log, before := usedLog(t, folder)
			revoke(s)
			_, after := usedLog(t, folder)
			change(t, s)
			damaged := killedCopy(t, folder)
			zero(t, filepath.Join(damaged, log), before, after)
			return damaged
		},
		"table": func(t *testing.T, folder string, o Options, revoke func(*Store)) string {
			revoke(openAgain(t, folder, o))
			killed, s := startAfterKill(t, folder, o) // makes a table of the log
			change(t, s)
			damaged := killedCopy(t, killed)
			zero(t, newestOf(t, damaged, "*.sst"), 0, 200)
			return damaged
		},
	} {
		for kind, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				o := Options{EncryptionKey: key}
				folder := t.TempDir()
				s, _, k := openWithOnlyKey(t, folder, o)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				damaged := lose(t, folder, o, func(s *Store) {
					f := storagetest.Fill(t, s)
					f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
				})
				for _, keep := range []bool{false, true} {
					isLive, report := salvageKey(t, damaged, o, keep, k.ID)
					if (len(report.Unchained) > 0) != (name == "table") { // a log is read up to its damage
						t.Errorf("got the records %s behind the lost one", report.Unchained)
					}
					if isLive != keep {
						t.Errorf("keepKeys %t: the key that was revoked is live: %t; lost %+v", keep, !keep, report.Lost)
					}
				}
			})
		}
	}
}

// TestSalvageLogEnd damages the end of a log, which has the revocation of a key. SEQUENCE does not
// tell of that commit, as after a power cut: it was not on the disk yet. The key must not come to
// life, and the report says what may be lost, and since when.
func TestSalvageLogEnd(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	for kind, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		o := Options{EncryptionKey: key}
		folder := t.TempDir()
		s, f, k := openWithOnlyKey(t, folder, o)
		change(t, s)
		before := readFile(t, filepath.Join(folder, sequenceName))
		var last time.Time
		if err := s.View(t.Context(), func(r domain.Reader) error {
			head, err := r.AuditHead()
			if err == nil {
				var a domain.AuditRecord
				a, err = r.AuditRecord(head.Count)
				last = a.Time
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
		killed := killedCopy(t, folder)
		if err := os.WriteFile(filepath.Join(killed, sequenceName), before, 0o600); err != nil {
			t.Fatal(err)
		}
		log, used := usedLog(t, killed)
		for how, damage := range map[string]func(content []byte){
			"whole":       func([]byte) {},
			"flipped":     func(content []byte) { content[used-40] ^= 1 },
			"not written": func(content []byte) { clear(content[used-40:]) },
		} {
			damaged := killedCopy(t, killed)
			content := readFile(t, filepath.Join(damaged, log))
			damage(content)
			if err := os.WriteFile(filepath.Join(damaged, log), content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, keep := range []bool{false, true} {
				isLive, report := salvageKey(t, damaged, o, keep, k.ID)
				if isLive != (keep && how != "whole") {
					t.Errorf("%s, %s, keepKeys %t: the key that was revoked is live: %t", kind, how, keep, isLive)
				}
				isNamed := slices.ContainsFunc(report.Lost, func(l storage.Loss) bool {
					return l.Kind == "commits" && strings.Contains(l.What, "revocations") && strings.Contains(l.What, last.UTC().Format(time.RFC3339))
				})
				if isNamed == (how == "whole") {
					t.Errorf("%s, %s: got %+v", kind, how, report.Lost)
				}
			}
		}
	}
}

// revokedInLog makes a store with a log that has the revocation of a key. A later log has the
// last commit. It returns the first one.
func revokedInLog(t *testing.T, o Options) (folder, log string, k domain.Key) {
	t.Helper()
	folder = t.TempDir()
	s, _, k := openWithOnlyKey(t, folder, o)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAgain(t, folder, o)
	f := storagetest.Fill(t, s)
	f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
	killed := killedCopy(t, folder)
	log, _ = usedLog(t, killed)
	later, s := startAfterKill(t, killed, o) // makes a table of the log, which the killed store lacks
	change(t, s)
	later = killedCopy(t, later)
	laterLog, _ := usedLog(t, later)
	for _, name := range []string{laterLog, sequenceName} {
		if err := os.WriteFile(filepath.Join(killed, name), readFile(t, filepath.Join(later, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return killed, log, k
}

// TestSalvageLostLog loses the log that has the revocation of a key. The key must not come to
// life.
func TestSalvageLostLog(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	killed, log, k := revokedInLog(t, testOptions)
	for name, lose := range map[string]func(name string) error{
		"removed":   os.Remove,
		"no entry":  func(name string) error { return os.Truncate(name, 20) },
		"all zeros": func(name string) error { return os.WriteFile(name, make([]byte, len(readFile(t, name))), 0o600) },
	} {
		damaged := killedCopy(t, killed)
		if err := lose(filepath.Join(damaged, log)); err != nil {
			t.Fatal(err)
		}
		isLive, report := salvageKey(t, damaged, testOptions, false, k.ID)
		if isLive {
			t.Errorf("%s: the key that was revoked is live", name)
		}
		if len(report.Lost) == 0 {
			t.Errorf("%s: got %+v, want a loss", name, report)
		}
	}
}

// TestSalvageLostTable loses the MANIFEST, and the table that has the revocation of a key. Later
// tables are whole. The key must not come to life.
func TestSalvageLostTable(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	s, _, k := openWithKey(t, folder, testOptions)
	if err := s.Close(); err != nil { // which makes the first table
		t.Fatal(err)
	}
	s = openAgain(t, folder, testOptions)
	f := storagetest.Fill(t, s)
	f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
	for range 2 { // two more tables, of the logs of the killed stores
		folder, s = startAfterKill(t, folder, testOptions)
		change(t, s)
	}
	damaged := killedCopy(t, folder)
	tables, err := filepath.Glob(filepath.Join(damaged, "*.sst"))
	if err != nil || len(tables) != 3 {
		t.Fatalf("got tables %v, %v, want three", tables, err)
	}
	for _, name := range []string{tables[1], filepath.Join(damaged, badgerdb.ManifestFilename)} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []bool{false, true} {
		isLive, report := salvageKey(t, damaged, testOptions, keep, k.ID)
		if isLive != keep || len(report.Lost) == 0 {
			t.Errorf("keepKeys %t: the key that was revoked is live: %t; got %+v", keep, isLive, report)
		}
	}
}

// TestSalvageLostManifest loses the MANIFEST, and nothing else. It is unknown whether a table is
// lost, too. So keys are revoked, and all else is there.
func TestSalvageLostManifest(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	_, _, k := openWithOnlyKey(t, folder, testOptions)
	killed := killedCopy(t, folder)
	for name, lose := range map[string]func(name string) error{
		"removed": os.Remove,
		"empty":   func(name string) error { return os.Truncate(name, 0) },
	} {
		damaged := killedCopy(t, killed)
		if err := lose(filepath.Join(damaged, badgerdb.ManifestFilename)); err != nil {
			t.Fatal(err)
		}
		isLive, report := salvageKey(t, damaged, testOptions, false, k.ID)
		if isLive {
			t.Errorf("%s: the key is live", name)
		}
		for _, l := range report.Lost {
			if l.Kind != "file" && l.Kind != "commits" && l.Kind != "key" {
				t.Errorf("%s: got %+v, want only what nothing tells of", name, l)
			}
		}
		if len(report.Lost) != 3 {
			t.Errorf("%s: got %+v, want the MANIFEST and two losses", name, report)
		}
	}
}

// openWithOnlyKey makes a store with a workspace and an inference key. All of its records have
// space in one block of a table.
func openWithOnlyKey(t *testing.T, folder string, o Options) (*Store, storagetest.Filler, domain.Key) {
	t.Helper()
	s := openAgain(t, folder, o)
	f := storagetest.Fill(t, s)
	f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
	return s, f, issueKey(t, f)
}

// openWithKey makes a store with some records and an inference key.
func openWithKey(t *testing.T, folder string, o Options) (*Store, storagetest.Filler, domain.Key) {
	t.Helper()
	s := openAgain(t, folder, o)
	f := storagetest.Fill(t, s)
	f.Some()
	return s, f, issueKey(t, f)
}

// issueKey issues an inference key of the default workspace.
func issueKey(t *testing.T, f storagetest.Filler) domain.Key {
	t.Helper()
	k, _, err := f.IssueKey(t.Context(), f.By, domain.NewKey{Kind: domain.InferenceKey})
	f.Must(k, err)
	return k
}

// change makes a change that concerns no key.
func change(t *testing.T, s *Store) {
	t.Helper()
	f := storagetest.Fill(t, s)
	f.Version("default", "after", `{"model":"m"}`)
}

// openAgain opens the store in a folder until the end of the test.
func openAgain(t *testing.T, folder string, o Options) *Store {
	t.Helper()
	s, err := Open(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// killedCopy copies the folder of an open store, as a kill leaves it.
func killedCopy(t *testing.T, folder string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "killed")
	copyFolder(t, folder, to)
	return to
}

// startAfterKill opens a copy of the folder of an open store, as a kill leaves it. It returns
// once the copy has tables in the place of the logs, whose records may be in both before.
func startAfterKill(t *testing.T, folder string, o Options) (copied string, s *Store) {
	t.Helper()
	copied = killedCopy(t, folder)
	logs, err := filepath.Glob(filepath.Join(copied, "*.mem"))
	logs = slices.DeleteFunc(logs, func(log string) bool { return len(readFile(t, log)) == 0 }) // reserved ones
	if err != nil || len(logs) == 0 {
		t.Fatalf("got the logs %v, %v", logs, err)
	}
	s = openAgain(t, copied, o)
	wait.Until(t, "no earlier log is left", func() bool {
		return !slices.ContainsFunc(logs, func(log string) bool {
			_, err := os.Stat(log)
			return err == nil
		})
	})
	return copied, s
}

// newestOf returns the file with the highest number.
func newestOf(t *testing.T, folder, pattern string) string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, pattern))
	if len(names) == 0 {
		t.Fatalf("no file %s in %s", pattern, folder)
	}
	return slices.Max(names)
}

// usedLog returns the log that has entries, and its used length.
func usedLog(t *testing.T, folder string) (name string, used int) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "*.mem"))
	for _, file := range names {
		if n := len(bytes.TrimRight(readFile(t, file), "\x00")); n > used {
			name, used = filepath.Base(file), n
		}
	}
	if name == "" {
		t.Fatalf("none of the logs %v has entries", names)
	}
	return name, used
}

// zero overwrites a part of a file with zeros, as a disk does that lost a page.
func zero(t *testing.T, name string, from, to int) {
	t.Helper()
	content := readFile(t, name)
	clear(content[from:to])
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// salvageKey salvages a store, and reports whether a key of the new one is live.
func salvageKey(t *testing.T, damaged string, o Options, keepKeys bool, id string) (isLive bool, report storage.Salvage) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	report, err := Salvage(t.Context(), damaged, to, o, keepKeys)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(to, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k, err := domain.NewService(s).Key(t.Context(), domain.Principal{Kind: domain.ManagementKey}, id)
	if err != nil {
		t.Fatal(err)
	}
	return k.Live(time.Now()), report
}

// TestSalvageRemovedKey salvages a store from which a key was removed. The key is not lost.
func TestSalvageRemovedKey(t *testing.T) {
	t.Parallel()
	folder, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	s, f, k := openWithKey(t, folder, testOptions)
	f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
	f.Must(f.RemoveKey(t.Context(), f.By, k.ID))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Salvage(t.Context(), folder, to, testOptions, true)
	if err != nil || len(report.Lost) > 0 {
		t.Fatalf("got %+v, %v, want nothing lost", report, err)
	}
	for _, l := range exportOf(t, to, testOptions).about {
		if l.Kind == "key" && l.ID == k.ID {
			t.Error("the removed key is back")
		}
	}
}
