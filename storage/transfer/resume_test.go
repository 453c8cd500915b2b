package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// interrupted is a store that calls back before and after each update.
type interrupted struct {
	domain.Store
	updates       int
	before, after func(n int) error
}

func (s *interrupted) Update(ctx context.Context, fn func(domain.Tx) error) error {
	s.updates++
	if err := s.before(s.updates); err != nil {
		return err
	}
	if err := s.Store.Update(ctx, fn); err != nil {
		return err
	}
	return s.after(s.updates)
}

func nothing(int) error { return nil }

// inSmall is Import in small batches.
func inSmall(ctx context.Context, s domain.Store, content []byte) (Summary, error) {
	return importBy(ctx, s, bytes.NewReader(content), 32<<10)
}

// An interrupted import continues, whichever batch and failure interrupted it. Until then
// the store is consistent and cannot be exported.
func TestResume(t *testing.T) {
	tier.Slow(t)
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	content := exported(t, from)
	other := small(t)

	// As often as there are batches.
	to := started(t)
	for batches := 1; ; batches++ {
		if batches > 1000 {
			t.Fatal("the import makes no progress")
		}
		ctx, stop := context.WithCancel(t.Context())
		s := &interrupted{Store: to, before: nothing, after: func(n int) error {
			switch {
			case n < 1+batches%2:
				return nil
			case batches%3 == 0: // it was written, but the answer was lost
				if unfinished, err := Unfinished(t.Context(), to); unfinished || err != nil {
					return errDeliberate
				}
			}
			stop() // the client has gone
			return nil
		}}
		summary, err := inSmall(ctx, s, content)
		stop()
		if err == nil {
			t.Logf("%d interruptions, at last after line %d", batches, summary.Resumed)
			if batches < 10 || summary.Resumed < 1000 {
				t.Errorf("got %+v after %d interruptions", summary, batches)
			}
			break
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, errDeliberate) || !strings.Contains(err.Error(), "run it again with the same file to continue") {
			t.Fatal(err)
		}
		if unfinished, err := Unfinished(t.Context(), to); !unfinished || err != nil {
			t.Fatalf("got unfinished %t, %v", unfinished, err)
		}
		sound(t, to)
		if _, err := Export(t.Context(), to, io.Discard); !errors.Is(err, ErrUnfinished) {
			t.Errorf("got error %v, want ErrUnfinished", err)
		}
		if _, err := inSmall(t.Context(), to, other); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "another file") {
			t.Errorf("another file: got error %v, want that it is refused", err)
		}
		whole(t, to)
	}
	equal(t, exported(t, to), content)
	sound(t, to)
	if unfinished, err := Unfinished(t.Context(), to); unfinished || err != nil {
		t.Errorf("got unfinished %t, %v", unfinished, err)
	}
	sameLists(t, to, from)
}

// whole checks that clients that can see a preset can see all of it.
func whole(t *testing.T, s *badger.Store) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		id, err := r.WorkspaceID("default")
		if err != nil {
			return err // there is one at any time
		}
		if team, err := r.WorkspaceID("team"); err == nil {
			id = team
		}
		for p, err := range r.Presets(id) {
			if err != nil {
				return err
			}
			if p.Status != domain.PresetArchived && p.Slug == "long" && (p.LatestVersion != 250 || len(p.Labels) != 7) {
				t.Errorf("a part of a preset can be seen: %d versions, %d labels", p.LatestVersion, len(p.Labels))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An import is continued only with the same file. A file with a different beginning, or
// that ends too early, is refused.
func TestResumeOtherFile(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	to := newStore(t)
	s := &interrupted{Store: to, before: nothing, after: func(int) error { return errDeliberate }}
	if _, err := inSmall(t.Context(), s, content); !errors.Is(err, errDeliberate) {
		t.Fatal(err)
	}
	changed := bytes.Replace(content, []byte(`"slug":"team"`), []byte(`"slug":"meat"`), 1)
	if bytes.Equal(changed, content) {
		t.Fatal("nothing was changed")
	}
	changed = sealed(t, lines(changed), counts)
	if _, err := inSmall(t.Context(), to, changed); !errors.Is(err, ErrStore) && !errors.Is(err, ErrFile) {
		t.Errorf("got error %v, want that it is refused", err)
	}
	short := sealed(t, all[:10], Counts{Audit: 9})
	if _, err := inSmall(t.Context(), to, short); !errors.Is(err, ErrStore) {
		t.Errorf("got error %v, want ErrStore", err)
	}
	imports(t, to, content)
	equal(t, exported(t, to), content)
}

// An import that was written completely, but whose answer was lost, is found to be
// finished. It must be begun again within a day and with the same file.
func TestLostAnswer(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	to := started(t)
	s := &interrupted{Store: to, before: nothing, after: func(int) error {
		if unfinished, err := Unfinished(t.Context(), to); unfinished || err != nil {
			return err
		}
		return errDeliberate
	}}
	if _, err := inSmall(t.Context(), s, content); !errors.Is(err, errDeliberate) {
		t.Fatal(err)
	}
	again := func() error {
		summary, err := inSmall(t.Context(), readOnly(t, "again", to), content)
		if err == nil && (summary.Counts != counts || summary.Resumed != len(all)) {
			t.Errorf("got %+v", summary)
		}
		return err
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	equal(t, exported(t, to), content)
	fill(t, to).Version("", "later", "{}")
	if err := again(); err != nil {
		t.Error(err)
	}
	changed := sealed(t, lines(bytes.Replace(content, []byte(`"slug":"team"`), []byte(`"slug":"meat"`), 1)), counts)
	from := newStore(t)
	fill(t, from).Some()
	for what, other := range map[string][]byte{
		"changed": changed, "short": sealed(t, all[:10], Counts{Audit: 9}), "of another store": exported(t, from),
	} {
		_, err := inSmall(t.Context(), to, other)
		if !errors.Is(err, ErrStore) && !errors.Is(err, ErrFile) || strings.Contains(err.Error(), "not finished") {
			t.Errorf("%s: got error %v, want that the store is not empty", what, err)
		}
	}
	fill(t, to).Update(func(tx domain.Tx) error {
		kept, err := tx.Replay(progressID)
		if left := time.Until(kept.ExpiresAt); left > doneLifetime || left < doneLifetime/2 {
			t.Errorf("the progress stays for %v", left)
		}
		kept.ExpiresAt = time.Now().Add(-time.Minute) // so that it is gone at once, which is told in seconds
		return errors.Join(err, tx.PutReplay(kept))
	})
	if err := again(); !errors.Is(err, ErrStore) {
		t.Errorf("after a day: got error %v, want that the store is not empty", err)
	}
}

// Clients change nothing while an import is unfinished, whether it runs or was interrupted.
// Writes before its first batch are not lost.
func TestWrittenMeanwhile(t *testing.T) {
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	content := exported(t, from)
	for _, at := range []int{1, 2, 9, 20} {
		to := started(t)
		change := func() error {
			f := fill(t, to)
			_, err := f.CreatePresetVersion(t.Context(), f.By, "", "meanwhile", domain.Capture{Dialect: domain.Chat, Config: []byte(`{}`)})
			return err
		}
		s := &interrupted{Store: to, after: nothing, before: func(n int) error {
			if n != at {
				return nil
			}
			err := change()
			if (err == nil) != (at == 1) || err != nil && domain.KindOf(err) != domain.Unavailable {
				t.Errorf("before batch %d: got error %v of a change", at, err)
			}
			if at == 20 {
				return errDeliberate
			}
			return nil
		}}
		_, err := inSmall(t.Context(), s, content)
		switch {
		case at == 1:
			if !errors.Is(err, ErrStore) {
				t.Errorf("got error %v, want ErrStore", err)
			}
			if _, err := inSmall(t.Context(), to, content); !errors.Is(err, ErrStore) {
				t.Errorf("again: got error %v, want ErrStore", err)
			}
			sound(t, to)
			continue
		case at == 20:
			if !errors.Is(err, errDeliberate) || change() == nil {
				t.Errorf("got error %v, want that it was interrupted and that nothing can be changed", err)
			}
			imports(t, to, content)
		case err != nil:
			t.Fatal(err)
		}
		equal(t, exported(t, to), content)
		if err := change(); err != nil {
			t.Errorf("the import is finished: got error %v of a change", err)
		}
	}
}

// A write that bypasses the Service makes the import fail.
func TestWrittenPast(t *testing.T) {
	content := small(t)
	to := started(t)
	s := &interrupted{Store: to, after: nothing, before: func(n int) error {
		if n == 2 {
			fill(t, to).Update(func(tx domain.Tx) error {
				head, err := tx.AuditHead()
				return errors.Join(err, tx.PutAudit(domain.AuditRecord{Number: head.Count + 1}, []byte("{}")))
			})
		}
		return nil
	}}
	if _, err := inSmall(t.Context(), s, content); !errors.Is(err, ErrStore) {
		t.Errorf("got error %v, want ErrStore", err)
	}
	if _, err := inSmall(t.Context(), to, content); !errors.Is(err, ErrStore) {
		t.Errorf("again: got error %v, want ErrStore", err)
	}
}

// If two imports run at the same time, one fails and the other finishes.
func TestTwoImports(t *testing.T) {
	content := small(t)
	to := started(t)
	var inner error
	s := &interrupted{Store: to, after: nothing, before: func(n int) error {
		if n == 2 {
			_, inner = inSmall(t.Context(), to, content)
		}
		return nil
	}}
	if _, err := inSmall(t.Context(), s, content); !errors.Is(err, ErrStore) || inner != nil {
		t.Errorf("got errors %v and %v, want ErrStore and none", err, inner)
	}
	equal(t, exported(t, to), content)
}

// sized is a store that measures updates.
type sized struct {
	domain.Store
	t             testing.TB
	count, bytes  int // the most
	updates, puts int
}

func (s *sized) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return s.Store.Update(ctx, func(tx domain.Tx) error {
		m := &measured{Tx: tx}
		err := fn(m)
		s.updates++
		s.puts += m.count
		if s.count = max(s.count, m.count); m.count > 1 {
			s.bytes = max(s.bytes, m.bytes)
		}
		return err
	})
}

type measured struct {
	domain.Tx
	count, bytes int
}

func (m *measured) add(n int) {
	m.count++
	m.bytes += n + objectCost
}

func (m *measured) PutAudit(r domain.AuditRecord, text []byte) error {
	m.add(len(text))
	return m.Tx.PutAudit(r, text)
}

func (m *measured) PutWorkspace(w domain.Workspace) error {
	text, _ := w.JSON()
	m.add(2 * len(text))
	return m.Tx.PutWorkspace(w)
}

func (m *measured) PutPreset(p domain.Preset) error {
	text, _ := p.JSON()
	m.add(2 * len(text))
	return m.Tx.PutPreset(p)
}

func (m *measured) PutPresetVersion(p domain.Preset, v domain.PresetVersion) error {
	text, _ := v.JSON()
	m.add(len(text))
	return m.Tx.PutPresetVersion(p, v)
}

func (m *measured) PutLabelChange(p domain.Preset, label string, c domain.LabelChange) error {
	m.add(500)
	return m.Tx.PutLabelChange(p, label, c)
}

func (m *measured) PutKey(k domain.Key) error {
	m.add(500)
	return m.Tx.PutKey(k)
}

func (m *measured) PutReplay(r domain.Replay) error {
	m.add(len(r.Answer) + 200)
	return m.Tx.PutReplay(r)
}

// Batches are as large as an engine with small transactions can take.
func TestBatches(t *testing.T) {
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	f.Update(func(tx domain.Tx) (err error) { // the smallest objects
		for n := range 1200 {
			err = errors.Join(err, tx.PutReplay(domain.Replay{ID: domain.ReplayID{byte(n >> 8), byte(n), 1}, Request: []byte{}, ExpiresAt: time.Now().Add(time.Hour)}))
		}
		return err
	})
	s := &sized{Store: newStore(t), t: t}
	if _, err := Import(t.Context(), s, bytes.NewReader(exported(t, from))); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects in %d batches, at most %d and %d bytes in one", s.puts, s.updates, s.count, s.bytes)
	if s.count > domain.MaxChangeObjects || s.bytes > domain.MaxChangeSize || s.updates > s.puts/50 {
		t.Errorf("want at most %d objects and %d bytes", domain.MaxChangeObjects, domain.MaxChangeSize)
	}
}
