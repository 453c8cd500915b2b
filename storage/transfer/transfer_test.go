package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

func newStore(t testing.TB) *badger.Store {
	t.Helper()
	s, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// started is a new store that a server was started with.
func started(t testing.TB) *badger.Store {
	t.Helper()
	s := newStore(t)
	if err := domain.NewService(s).EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func fill(t testing.TB, s domain.Store) storagetest.Filler { return storagetest.Fill(t, s) }

var at = time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)

// exported returns an export of a store with the fixed time at. It lacks the answers that
// the store has dropped as expired.
func exported(t testing.TB, s domain.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	summary, err := export(t.Context(), s, &b, at)
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	checked, err := Follow(t.Context(), bytes.NewReader(b.Bytes()), func(objects int) { followed = objects })
	if err != nil {
		t.Fatal(err)
	}
	about, err := Objects(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	// The content of a deleted workspace is removed a little later.
	if want := summary.Total() - summary.Answers; followed != want || about < want || about > want+10 {
		t.Errorf("got %d objects of about %d, want %d", followed, about, want)
	}
	if checked != summary {
		t.Errorf("got %+v of a file of which Export said %+v", checked, summary)
	}
	return b.Bytes()
}

func imports(t testing.TB, s domain.Store, content []byte) Summary {
	t.Helper()
	summary, err := Import(t.Context(), s, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// equal reports the first difference between two files.
func equal(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	g, w := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			t.Fatalf("line %d:\ngot  %.500s\nwant %.500s", i+1, g[i], w[i])
		}
	}
	t.Fatalf("got %d lines, want %d", len(g), len(w))
}

// sound checks that the content of a store is consistent.
func sound(t testing.TB, s *badger.Store) {
	t.Helper()
	report, err := s.Check(t.Context())
	if err := errors.Join(err, report.Err()); err != nil {
		t.Fatal(err)
	}
}

// Exporting, importing and exporting again gives the same bytes.
func TestRoundTrip(t *testing.T) {
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	want := exported(t, from)
	for what, to := range map[string]*badger.Store{"empty": newStore(t), "just started": started(t)} {
		t.Run(what, func(t *testing.T) {
			summary := imports(t, to, want)
			if summary.Versions < 440 || summary.Keys != 3 || summary.Answers != 6 || summary.Resumed != 0 {
				t.Errorf("got %+v", summary)
			}
			equal(t, exported(t, to), want)
			sound(t, to)
			sameLists(t, to, from)
			if unfinished, err := Unfinished(t.Context(), to); unfinished || err != nil {
				t.Errorf("got unfinished %t, %v", unfinished, err)
			}
			// It is a store like any other.
			f := fill(t, to)
			f.Version("team", "long", `{"model":"next"}`)
			f.Label("team", "pruned", "gone", domain.Target{Version: 9})
			sound(t, to)
		})
	}
	if !bytes.Contains(want, []byte(`"kept"`)) {
		t.Error("not all was in it")
	}
}

// sameLists compares the pages of two stores.
func sameLists(t *testing.T, a, b domain.Store) {
	t.Helper()
	lists := func(s domain.Store) (text string) {
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
	if x, y := lists(a), lists(b); x != y {
		t.Errorf("got lists\n%.2000s\nwant\n%.2000s", x, y)
	}
}

// An import goes into a store in which nothing is.
func TestImportRefused(t *testing.T) {
	from := newStore(t)
	fill(t, from).Some()
	content := exported(t, from)
	for what, put := range map[string]func(f storagetest.Filler){
		"another workspace": func(f storagetest.Filler) {
			f.Must(f.CreateWorkspace(t.Context(), f.By, domain.NewWorkspace{Name: "n", Slug: "n"}))
		},
		"a preset": func(f storagetest.Filler) { f.Version("", "p", "{}") },
		"a key": func(f storagetest.Filler) {
			k, _, err := f.IssueKey(t.Context(), f.By, domain.NewKey{Kind: domain.InferenceKey})
			f.Must(k, err)
		},
		"the same": func(f storagetest.Filler) { f.Some() },
		"a changed workspace": func(f storagetest.Filler) {
			name := "n"
			f.Must(f.UpdateWorkspace(t.Context(), f.By, "default", domain.WorkspacePatch{Name: &name}, nil))
		},
		"a preset without a record": func(f storagetest.Filler) {
			f.Update(func(tx domain.Tx) error {
				id, err := tx.WorkspaceID("default")
				p := domain.Preset{ID: uuid.NewString(), Slug: "p", Status: domain.PresetArchived, WorkspaceID: id}
				return errors.Join(err, tx.PutPreset(p))
			})
		},
	} {
		s := started(t)
		put(fill(t, s))
		if _, err := Import(t.Context(), readOnly(t, what, s), bytes.NewReader(content)); !errors.Is(err, ErrStore) {
			t.Errorf("%s: got error %v, want ErrStore", what, err)
		}
	}
}

// readOnly is a store that fails the test on any change. Comparing the content would not
// do, because the store itself purges deleted workspaces.
func readOnly(t *testing.T, what string, s domain.Store) domain.Store {
	return &interrupted{Store: s, before: nothing, after: func(int) error {
		t.Errorf("%s: the store was changed", what)
		return nil
	}}
}
