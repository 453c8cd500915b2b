package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// awkward is text that a careless encoder would change.
const awkward = "Ünï ☃ 😀 <b>&\"'\\/\u2028\u2029\t\n\r\u007f\u0000 é e\u0301 \ufeff\ufffd"

var manager = domain.Principal{KeyID: "test", UserID: "ann", Kind: domain.ManagementKey}

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

// filler puts things into a store.
type filler struct {
	t testing.TB
	*domain.Service
	store domain.Store
}

func fill(t testing.TB, s domain.Store) filler { return filler{t, domain.NewService(s), s} }

func (f filler) must(_ any, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f filler) version(workspace, slug, config string) {
	f.t.Helper()
	f.must(f.CreatePresetVersion(f.t.Context(), domain.By(manager), workspace, slug, domain.Capture{Dialect: domain.Chat, Config: []byte(config)}))
}

func (f filler) label(workspace, slug, label string, to domain.Target) {
	f.t.Helper()
	f.must(f.PutLabel(f.t.Context(), domain.By(manager), workspace, slug, label, to))
}

func (f filler) update(fn func(tx domain.Tx) error) {
	f.t.Helper()
	f.must(nil, f.store.Update(f.t.Context(), fn))
}

// some puts a little of everything into a store.
func (f filler) some() {
	t, ctx, by := f.t, f.t.Context(), domain.By(manager)
	t.Helper()
	f.must(nil, f.EnsureDefaultWorkspace(ctx))
	for _, slug := range []string{"team", "gone", "last"} {
		f.must(f.CreateWorkspace(ctx, by, domain.NewWorkspace{Name: awkward, Slug: slug, IOLoggingAPIKeyIDs: []byte(`["a",9007199254740993]`)}))
	}
	f.version("gone", "p", `{"model":"m"}`)
	f.must(f.DeleteWorkspace(ctx, by, "gone", domain.WorkspaceDeletion{}))
	f.must(f.DeleteWorkspace(ctx, by, "default", domain.WorkspaceDeletion{ConfirmDefault: true}))

	for n := range 9 {
		f.version("team", "pruned", fmt.Sprintf(`{"model":"m%d"}`, n))
		if n == 1 {
			f.label("team", "pruned", "staging", domain.Target{Version: 2})
		}
	}
	f.label("team", "pruned", "gone", domain.Target{Version: 9})
	f.must(f.DeleteLabel(ctx, by, "team", "pruned", "gone"))
	f.must(f.DesignateVersion(ctx, by, "team", "pruned", domain.Designation{Version: 5}))
	f.must(f.Service.PruneVersions(ctx, by, domain.Pruning{Keep: 2}))
	f.label("team", "pruned", "staging", domain.Target{Split: []domain.Share{{Version: 2, Weight: 10}, {Version: 9, Weight: 0}}})
	f.label("team", "pruned", "gone", domain.Target{Version: 8})
	f.label("team", "pruned", "Gone", domain.Target{Version: 8})

	f.version("", "first", "{\n\t\"model\" : \"m\\ud83d\",\r\n\"model\":1.0e+02 , \"x\":\"☃\u2028\"}")
	f.version("", "archived", `{"model":"a"}`)
	f.version("", "disabled", `{"model":"d"}`)
	f.version("", "archived-too", `{"model":"b"}`)
	f.version("", "archived-too", `{"model":"c"}`)
	f.label("", "archived-too", "l", domain.Target{Version: 1})
	f.must(f.ArchivePreset(ctx, by, "", "archived-too"))
	f.must(f.ArchivePreset(ctx, by, "", "archived"))
	disabled, description := domain.PresetDisabled, awkward
	f.must(f.UpdatePreset(ctx, by, "", "disabled", domain.PresetPatch{
		Status: &disabled, Name: &description, Description: domain.Settable[string]{Given: true, Value: &description},
	}))
	f.version("", "zzz", `{}`)
	f.version("", "first", `{}`)

	prompt := awkward
	w := by
	w.Idempotency = domain.Idempotency{Key: "again", Request: [32]byte{1, 2, 3}}
	f.must(f.CreatePresetVersion(ctx, w, "last", "prompt", domain.Capture{Dialect: domain.Messages, SystemPrompt: &prompt, Config: []byte("{ }")}))
	later := time.Now().Add(time.Hour).UTC()
	f.update(func(tx domain.Tx) error {
		return errors.Join(
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{1}, Request: []byte{}, Answer: []byte("\xff{\n"), Workspace: awkward, Version: 3, ExpiresAt: later}),
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{2}, Request: []byte{9}, ExpiresAt: later}),
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{3}, Request: []byte{9}, ExpiresAt: later.Add(-2 * time.Hour)}), // expired
		)
	})

	for _, in := range []domain.NewKey{
		{Kind: domain.ManagementKey, Name: "key ☃"},
		{Kind: domain.InferenceKey, UserID: "bob", Workspace: "team", Lifetime: time.Hour},
		{Kind: domain.InferenceKey},
	} {
		k, secret, err := f.IssueKey(ctx, by, in)
		f.must(k, err)
		if in.Name != "" {
			continue
		}
		f.must(f.RevokeKey(ctx, by, k.ID))
		if in.UserID != "" { // used once
			f.update(func(tx domain.Tx) error {
				k, err := tx.KeyByHash(domain.HashSecret(secret))
				used := k.CreatedAt.Add(time.Millisecond)
				k.LastUsedAt = &used
				return errors.Join(err, tx.PutKey(k))
			})
		}
	}
}

// much adds what takes several batches, and the largest of what there can be.
func (f filler) much() {
	f.t.Helper()
	for n := range 230 {
		f.version("", fmt.Sprintf("page-%d", n*7919%230), `{"model":"m"}`)
	}
	for n := range 250 {
		f.version("team", "long", fmt.Sprintf(`{"model":"m%d"}`, n))
		if n%2 == 0 {
			f.label("team", "long", fmt.Sprintf("l%d", n%7), domain.Target{Version: n + 1})
		}
	}
	f.must(f.Service.PruneVersions(f.t.Context(), domain.By(manager), domain.Pruning{Keep: 200}))
	large := strings.Repeat("x", domain.MaxStoredSize-2000)
	quotes := `{"tools":[` + strings.Repeat("\n", domain.MaxStoredSize-2000) + `]}`
	control := strings.Repeat("\x01", domain.MaxStoredSize/6-500)
	f.must(f.CreateWorkspace(f.t.Context(), domain.By(manager), domain.NewWorkspace{Name: "n", Slug: "large", Description: &large}))
	for _, c := range []domain.Capture{
		{Config: []byte(quotes)},
		{Config: []byte(`{"a":"` + large + `"}`)},
		{Config: []byte("{}"), SystemPrompt: &control},
		{Config: []byte(`{"a":"` + strings.Repeat("\xff", domain.MaxStoredSize-2000) + `"}`)}, // no UTF-8
	} {
		f.must(f.CreatePresetVersion(f.t.Context(), domain.By(manager), "large", "large", c))
	}
}

var at = time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)

// exported returns an export of a store as if it were made at a certain time, but for
// answers that have expired.
func exported(t testing.TB, s domain.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	summary, err := export(t.Context(), s, &b, at)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := Check(t.Context(), bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
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

// equal tells where two files differ.
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

// sound checks that all that is in a store is in order.
func sound(t testing.TB, s *badger.Store) {
	t.Helper()
	for range 100 {
		report, err := s.Check(t.Context())
		if err == nil {
			err = report.Err()
		}
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "deleted") {
			t.Fatal(err)
		}
	}
}

// What is exported, imported and exported again is the same, byte by byte.
func TestRoundTrip(t *testing.T) {
	from := newStore(t)
	f := fill(t, from)
	f.some()
	f.much()
	want := exported(t, from)
	for what, to := range map[string]*badger.Store{"empty": newStore(t), "just started": started(t)} {
		t.Run(what, func(t *testing.T) {
			summary := imports(t, to, want)
			if summary.Versions < 440 || summary.Keys != 3 || summary.Answers != 4 || summary.Resumed != 0 {
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
			f.version("team", "long", `{"model":"next"}`)
			f.label("team", "pruned", "gone", domain.Target{Version: 9})
			sound(t, to)
		})
	}
	if !bytes.Contains(want, []byte(`"base64"`)) || !bytes.Contains(want, []byte(`"kept"`)) {
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
				list, total, err2 := r.PresetPage(id, domain.Page{Limit: 1000})
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
	fill(t, from).some()
	content := exported(t, from)
	for what, put := range map[string]func(f filler){
		"another workspace": func(f filler) {
			f.must(f.CreateWorkspace(t.Context(), domain.By(manager), domain.NewWorkspace{Name: "n", Slug: "n"}))
		},
		"a preset": func(f filler) { f.version("", "p", "{}") },
		"a key": func(f filler) {
			k, _, err := f.IssueKey(t.Context(), domain.By(manager), domain.NewKey{Kind: domain.InferenceKey})
			f.must(k, err)
		},
		"the same": func(f filler) { f.some() },
		"a changed workspace": func(f filler) {
			name := "n"
			f.must(f.UpdateWorkspace(t.Context(), domain.By(manager), "default", domain.WorkspacePatch{Name: &name}, nil))
		},
		"a preset without a record": func(f filler) {
			f.update(func(tx domain.Tx) error {
				id, err := tx.WorkspaceID("default")
				p := domain.Preset{ID: uuid.NewString(), Slug: "p", Status: domain.PresetArchived, WorkspaceID: id}
				return errors.Join(err, tx.PutPreset(p))
			})
		},
	} {
		s := started(t)
		put(fill(t, s))
		before := all(t, s)
		if _, err := Import(t.Context(), s, bytes.NewReader(content)); !errors.Is(err, ErrStore) {
			t.Errorf("%s: got error %v, want ErrStore", what, err)
		}
		if after := all(t, s); after != before {
			t.Errorf("%s: the store was changed", what)
		}
	}
}

// all returns a text that differs when what is stored does.
func all(t *testing.T, s *badger.Store) string {
	t.Helper()
	var b bytes.Buffer
	_, end, err := s.Backup(context.Background(), &b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return end.Digest
}
