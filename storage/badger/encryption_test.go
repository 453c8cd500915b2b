package badger

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// testOptions are how tests open stores. TestEncrypted runs some of them once more,
// with a key.
var testOptions Options

// crashKey passes the encryption key to a child process that the test kills.
const crashKey = "BADGER_TEST_CRASH_KEY"

var testKey = []byte("0123456789abcdefghijklmnopqrstuv")

// withKey opens stores with a key until the test ends. It panics in a parallel test, which
// would change the options of others.
func withKey(t *testing.T, key []byte) {
	t.Setenv(crashKey, string(key))
	before := testOptions
	testOptions.EncryptionKey = key
	t.Cleanup(func() { testOptions = before })
}

// An encrypted store keeps every promise of a store on a disk.
func TestEncrypted(t *testing.T) {
	tier.NoRace(t)
	withKey(t, testKey)
	if tier.EveryCase() { // nothing in them depends on the key in particular
		t.Run("store", TestStore)
		t.Run("crash", TestCrash)
	}
	for name, test := range map[string]func(*testing.T){
		"damage": TestDamage, "harmless orphans": TestHarmlessOrphans, "empty logs": TestEmptyLogs,
		"damaged table": TestDamagedTable, "sequence": TestSequence, "settings": TestSettings, "verify": TestVerify,
	} {
		t.Run(name, test)
	}
}

// TestEncryptedSlow is TestEncrypted with slow tests.
func TestEncryptedSlow(t *testing.T) {
	tier.Slow(t)
	withKey(t, testKey)
	for name, test := range map[string]func(*testing.T){
		"shortened table": TestShortenedTable, "shortened manifest": TestShortenedManifest,
		"damaged log": TestDamagedLog, "check": TestCheckOfEachKind,
	} {
		t.Run(name, test)
	}
}

// TestEncryptedFolder searches all files of a store for a prompt, while it is open and
// afterwards. It also searches the log.
func TestEncryptedFolder(t *testing.T) {
	const canary = "CANARY-of-a-prompt"
	found := func(folder string) (in []string) {
		err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || name == "LOCK" { // which Windows does not let anyone read
				return err
			}
			text, err := os.ReadFile(filepath.Join(folder, name))
			if errors.Is(err, fs.ErrNotExist) { // an open store removes files
				return nil
			}
			if bytes.Contains(text, []byte(canary)) {
				in = append(in, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	for _, key := range [][]byte{nil, testKey} {
		folder := t.TempDir()
		core, logs := observer.New(zapcore.DebugLevel)
		s, err := Open(folder, Options{EncryptionKey: key, Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		service := domain.NewService(s)
		w, err := service.CreateWorkspace(t.Context(), by(""), domain.WorkspacePatch{Name: new("w"), Slug: new("w-" + strings.ToLower(canary)), Description: domain.Settable[string]{Given: true, Value: new(canary)}})
		if err != nil {
			t.Fatal(err)
		}
		in := domain.Capture{Config: []byte(`{"` + canary + `":1}`), SystemPrompt: new(canary)}
		if _, err := service.ReleasePresetVersion(t.Context(), by(w.Workspace.ID), "", canary, in, domain.Release{}); err != nil {
			t.Fatal(err)
		}
		open := found(folder)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		closed := found(folder)
		if plain := len(key) == 0; (len(open) > 0) != plain || (len(closed) > 0) != plain {
			t.Errorf("with a key of %d bytes: found the prompt in %v, and after Close in %v", len(key), open, closed)
		}
		for _, entry := range logs.All() {
			if line := entry.Message; strings.Contains(line, canary) || strings.Contains(line, string(testKey)) {
				t.Errorf("the prompt or the key was logged: %s", line)
			}
		}
	}
}

func TestEncryptionKey(t *testing.T) {
	other := bytes.Repeat([]byte{7}, KeySize)
	registry := func(change func(content []byte) []byte) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) {
			name := filepath.Join(folder, badgerdb.KeyRegistryFileName)
			content := change(readFile(t, name))
			if err := errors.Join(os.Remove(name), os.WriteFile(name, content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name         string
		made, opened []byte
		change       func(t *testing.T, folder string)
		want         string // in the error; empty when it opens
		wantIs       error
	}{
		{"the key", testKey, testKey, nil, "", nil},
		{"no key", testKey, nil, nil, "is encrypted: name the file", ErrMisused},
		{"another key", testKey, other, nil, "not the one that the store", ErrMisused},
		{"a key for a store without", nil, testKey, nil, "is not encrypted", ErrMisused},
		{"a short key", testKey, testKey[:16], nil, "16 bytes", ErrMisused},
		{"a short key for a store without", nil, testKey[:31], nil, "31 bytes", ErrMisused},
		{"registry cut", testKey, testKey, registry(func(c []byte) []byte { return c[:len(c)-1] }), "restore a backup", ErrDamaged},
		{"registry cut behind its head", testKey, testKey, registry(func(c []byte) []byte { return c[:30] }), "restore a backup", ErrDamaged},
		{"registry cut to its head", testKey, testKey, registry(func(c []byte) []byte { return c[:28] }), "restore a backup", ErrDamaged},
		{"registry cut in its head", testKey, testKey, registry(func(c []byte) []byte { return c[:20] }), "restore a backup", ErrDamaged},
		{"registry empty", testKey, testKey, registry(func([]byte) []byte { return nil }), "restore a backup", ErrDamaged},
		{"registry flipped", testKey, testKey, registry(func(c []byte) []byte { c[len(c)-1] ^= 1; return c }), "restore a backup", ErrDamaged},
		{"registry's head flipped", testKey, testKey, registry(func(c []byte) []byte { c[20] ^= 1; return c }), "KEYREGISTRY: ", ErrDamaged},
		{"registry gone", testKey, testKey, func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, badgerdb.KeyRegistryFileName)); err != nil {
				t.Fatal(err)
			}
		}, "KEYREGISTRY is gone", ErrDamaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			withKey(t, test.made)
			seed(t, folder)
			if test.change != nil {
				test.change(t, folder)
			}
			before := listFolder(folder)
			s, err := Open(folder, Options{EncryptionKey: test.opened})
			if err == nil {
				err = s.Close()
			}
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				m, err := decodeMarker(readFile(t, filepath.Join(folder, MarkerName)))
				if err != nil || m.KeyCheck != keyCheck(test.opened, m.ID) {
					t.Errorf("got marker %+v, %v, want one with a check of the key", m, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.wantIs) {
				t.Errorf("got error %v, want %v with %q", err, test.wantIs, test.want)
			}
			for _, other := range []error{ErrDamaged, ErrMisused, errUnavailable} {
				if !errors.Is(test.wantIs, other) && errors.Is(err, other) {
					t.Errorf("got error %v, want that it is not %v", err, other)
				}
			}
			if strings.Contains(err.Error(), string(testKey)) {
				t.Error("the error shows the key")
			}
			if after := listFolder(folder); before != after {
				t.Errorf("a refused folder changed\nfrom %s\nto   %s", before, after)
			}
		})
	}
}

// A table that is missing in the MANIFEST has the only copy of its records. Its key is not
// named, but there is only one.
func TestOneDataKey(t *testing.T) {
	withKey(t, testKey)
	folder := t.TempDir()
	for range 3 {
		s := mustOpen(t, folder)
		if err := errors.Join(s.Update(t.Context(), put(newWorkspace(newID()))), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	registry, err := badgerdb.OpenKeyRegistry(badgerdb.KeyRegistryOptions{Dir: folder, ReadOnly: true, EncryptionKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.DataKey(theDataKey); err != nil {
		t.Error(err)
	}
	if _, err := registry.DataKey(theDataKey + 1); err == nil {
		t.Error("there is a second data key")
	}
}
