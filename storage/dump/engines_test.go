package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

var testKey = bytes.Repeat([]byte{1}, badger.KeySize)

func closing(t *testing.T, s *badger.Store, err error) *badger.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// filled is a store in memory with every kind of record.
func filled(t *testing.T) *badger.Store {
	t.Helper()
	s, err := badger.OpenInMemory()
	f := storagetest.Fill(t, closing(t, s, err))
	f.Some()
	f.Much()
	return s
}

func dumped(t *testing.T, s *badger.Store) (content []byte, end dump.End) {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	_, end, err := dump.Follow(bytes.NewReader(b.Bytes()), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), end
}

func reader(t *testing.T, content, key []byte) *dump.Reader {
	t.Helper()
	r, err := dump.NewReader(bytes.NewReader(content), key, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inFolder returns the store of a dump, in a folder.
func inFolder(t *testing.T, content, key, newKey []byte) *badger.Store {
	t.Helper()
	folder, o := filepath.Join(t.TempDir(), "new"), badger.Options{EncryptionKey: newKey}
	if err := badger.Restore(t.Context(), folder, o, reader(t, content, key)); err != nil {
		t.Fatal(err)
	}
	s, err := badger.Open(folder, o)
	return closing(t, s, err)
}

// pages returns all that the lists of a store show.
func pages(t *testing.T, s domain.Store) (text string) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		list, total, err := r.WorkspacePage(domain.Page{Limit: 100})
		text = fmt.Sprintf("%d %s\n", total, list)
		for _, slug := range []string{"default", "team", "last"} {
			id, err1 := r.WorkspaceID(slug)
			list, total, err2 := r.PresetPage(id, domain.AllPresets, domain.Page{Limit: 1000})
			text += fmt.Sprintf("%d %s\n", total, list)
			err = errors.Join(err, err1, err2)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestEngines moves a store from memory to folders, with and without encryption.
func TestEngines(t *testing.T) {
	tier.NoRace(t)
	from := filled(t)
	content, want := dumped(t, from)
	if want.Records < 1500 || want.Entries <= want.Records {
		t.Errorf("got %+v, want more", want)
	}
	var key []byte
	stores := []*badger.Store{}
	for _, newKey := range [][]byte{nil, testKey, testKey, nil} {
		stores = append(stores, inFolder(t, content, key, newKey))
		var end dump.End
		if content, end = dumped(t, stores[len(stores)-1]); end.Digest != want.Digest {
			t.Errorf("got %+v, want %+v", end, want)
		}
		key = newKey
	}
	for _, s := range stores {
		if got, want := pages(t, s), pages(t, from); got != want {
			t.Errorf("got lists\n%.2000s\nwant\n%.2000s", got, want)
		}
		// It is a store like any other.
		f := storagetest.Fill(t, s)
		f.Version("team", "long", `{"model":"next"}`)
		f.Label("team", "pruned", "gone", domain.Target{Version: 9})
		report, err := s.Check(t.Context())
		if err := errors.Join(err, report.Err()); err != nil {
			t.Error(err)
		}
	}
}

// rewritten returns a dump with other records, and with an end that agrees with them.
func rewritten(t *testing.T, content []byte, change func(k records.Key, record []byte) []byte) []byte {
	t.Helper()
	from := reader(t, content, nil)
	var b bytes.Buffer
	to, err := dump.NewWriter(&b, from.Info, nil)
	for err == nil && from.Next() {
		if record := change(from.Key, from.Record); record != nil {
			err = to.Add(from.Key, record)
		}
	}
	if err = errors.Join(err, from.Err); err == nil {
		err = to.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func verified(t *testing.T, content, key []byte) (storage.Report, error) {
	t.Helper()
	_, _, report, err := dump.Verify(t.Context(), bytes.NewReader(content), key, func(string, int, int) {})
	return report, err
}

// TestVerify verifies whole dumps.
func TestVerify(t *testing.T) {
	content, end := dumped(t, filled(t))
	var sealed bytes.Buffer
	if err := dump.Copy(&sealed, reader(t, content, nil), testKey, func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct{ content, key []byte }{{content, nil}, {sealed.Bytes(), testKey}} {
		report, err := verified(t, d.content, d.key)
		if err != nil || report.Err() != nil || report.Records != end.Entries {
			t.Errorf("got %d records, %v, %v, want %d", report.Records, err, report.Err(), end.Entries)
		}
	}
}

// TestVerifyAsRestored removes and changes records of each kind. The dump's report is that of
// the store that is made of it.
func TestVerifyAsRestored(t *testing.T) {
	tier.Slow(t)
	s, err := badger.OpenInMemory()
	storagetest.Fill(t, closing(t, s, err)).Some()
	content, _ := dumped(t, s)
	var kinds []records.Kind
	rewritten(t, content, func(k records.Key, record []byte) []byte {
		if !slices.Contains(kinds, k.Kind()) {
			kinds = append(kinds, k.Kind())
		}
		return record
	})
	if len(kinds) < 12 {
		t.Errorf("the dump has the kinds %q only", kinds)
	}
	damaged := 0
	for _, kind := range kinds {
		for what, change := range map[string]func(k records.Key) []byte{
			"missing": func(records.Key) []byte { return nil },
			"empty":   func(k records.Key) []byte { return records.Seal(k, nil) },
		} {
			first := true
			content := rewritten(t, content, func(k records.Key, record []byte) []byte {
				if k.Kind() == kind && first {
					first = false
					return change(k)
				}
				return record
			})
			got, err := verified(t, content, nil)
			if err != nil {
				t.Errorf("%s %v: got error %v", what, kind, err)
			}
			if got.Err() != nil {
				damaged++
			}
			folder := filepath.Join(t.TempDir(), "new")
			if err := badger.Restore(t.Context(), folder, badger.Options{}, reader(t, content, nil)); err != nil {
				if kind != records.KindReplay { // whose expiry is in it
					t.Errorf("%s %v: restored: got error %v", what, kind, err)
				}
				continue
			}
			want, err := badger.Verify(t.Context(), folder, badger.Options{})
			if err != nil || !slices.Equal(got.Problems, want.Problems) {
				t.Errorf("%s %v: got %q, want %q, %v", what, kind, got.Problems, want.Problems, err)
			}
		}
	}
	t.Logf("%d of %d damaged dumps found", damaged, 2*len(kinds))
	if damaged < 24 {
		t.Error("too few of them")
	}
}
