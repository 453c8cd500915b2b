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
)

// TestNotFresh checks that a store with any other object is not empty, with any trail.
func TestNotFresh(t *testing.T) {
	content := small(t)
	fresh := func(tx domain.Tx) (domain.Workspace, error) {
		id, err := tx.WorkspaceID(domain.DefaultWorkspaceSlug)
		if err != nil {
			return domain.Workspace{}, err
		}
		return tx.Workspace(id)
	}
	changed := func(edit func(w *domain.Workspace)) func(tx domain.Tx) error {
		return func(tx domain.Tx) error {
			w, err := fresh(tx)
			edit(&w)
			return errors.Join(err, tx.PutWorkspace(w))
		}
	}
	for what, put := range map[string]func(tx domain.Tx) error{
		"a key": func(tx domain.Tx) error {
			return tx.PutKey(domain.Key{ID: "01a20270-d909-79a9-ba18-fd9099bace7c", Kind: domain.InferenceKey})
		},
		"a trail without a workspace": func(tx domain.Tx) error {
			w, err := fresh(tx)
			return errors.Join(err, tx.DeleteWorkspace(w))
		},
		"a changed workspace": changed(func(w *domain.Workspace) { w.UpdatedAt = new(time.Now()) }),
		"another slug":        changed(func(w *domain.Workspace) { w.Slug = "other" }),
		"another record": func(tx domain.Tx) error {
			r, err := tx.AuditRecord(1)
			r.Operation = "workspace.update"
			text, err1 := r.JSON()
			return errors.Join(err, err1, tx.BeginImport(), tx.PutAudit(r, text), tx.EndImport())
		},
		"a record of another workspace": func(tx domain.Tx) error {
			r, err := tx.AuditRecord(1)
			r.Object.ID = "other"
			text, err1 := r.JSON()
			return errors.Join(err, err1, tx.BeginImport(), tx.PutAudit(r, text), tx.EndImport())
		},
	} {
		s := started(t)
		fill(t, s).Update(put)
		if _, err := Import(t.Context(), s, bytes.NewReader(content)); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "goes into an empty store") {
			t.Errorf("%s: got error %v, want ErrStore", what, err)
		}
	}
}

// An import continues only if the store is as it left it, even if the trail is.
func TestProgressChanged(t *testing.T) {
	content := small(t)
	to := started(t)
	s := &interrupted{Store: to, after: nothing, before: func(int) error {
		m := progress{}
		err := to.View(t.Context(), func(r domain.Reader) (err error) {
			m, err = unfinishedProgress(r)
			return err
		})
		if summary, _ := Check(t.Context(), bytes.NewReader(content)); err != nil || m.Line <= 1+summary.Audit {
			return err // the trail is not there yet
		}
		m.Line++
		fill(t, to).Update(m.put)
		return nil
	}}
	if _, err := inSmall(t.Context(), s, content); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "another import of the same file") {
		t.Errorf("got error %v, want that another has written", err)
	}
}

// exportedAt returns an export that was made at a time, and so is another file.
func exportedAt(t *testing.T, at time.Time) []byte {
	t.Helper()
	s := started(t)
	fill(t, s).Some()
	var content bytes.Buffer
	if _, err := export(t.Context(), s, &content, at); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

// If two imports run at the same time, the error of the failed one explains the other and
// the remedy.
func TestAnotherImport(t *testing.T) {
	content := small(t)
	other := exportedAt(t, time.Now().Add(time.Hour))
	const same = "another import of the same file"
	for _, test := range []struct {
		name    string
		before  int // which batch the other begins
		content []byte
		ends    int // before which of its batches
		says    string
	}{
		{"of the same file, finished before the first batch", 1, content, 0, same},
		{"of the same file, before the first batch", 1, content, 2, same},
		{"of the same file, finished", 3, content, 0, same},
		{"of the same file", 3, content, 2, same},
		{"of another file, finished before the first batch", 1, other, 0, "goes into an empty store"},
		{"of another file, before the first batch", 1, other, 2, "an import of another file was begun"},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := started(t)
			s := &interrupted{Store: to, after: nothing, before: func(n int) error {
				if n != test.before {
					return nil
				}
				inner := &interrupted{Store: to, after: nothing, before: func(n int) error {
					if n == test.ends {
						return errDeliberate
					}
					return nil
				}}
				if _, err := inSmall(t.Context(), inner, test.content); (err != nil) != (test.ends > 0) {
					t.Errorf("the other: got error %v", err)
				}
				return nil
			}}
			_, err := inSmall(t.Context(), s, content)
			if !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "lines are stored") {
				t.Errorf("got error %v, want ErrStore with %q", err, test.says)
			}
			imports(t, to, test.content)
			sound(t, to)
			if _, err := inSmall(t.Context(), to, test.content); err != nil {
				t.Errorf("all is there: got error %v", err)
			}
		})
	}
}

// The default workspace that a server has made goes though none takes its place.
func TestFreshGoes(t *testing.T) {
	content, _ := edited(t, small(t), func(l *line) bool {
		if l.Workspace == nil || l.Workspace.Slug != domain.DefaultWorkspaceSlug {
			return false
		}
		l.Workspace.Slug = "former"
		return true
	})
	s := started(t)
	imports(t, s, content)
	equal(t, bytes.Join(lines(exported(t, s)), nil), bytes.Join(lines(content), nil))
	sound(t, s)
}

// Kept answers that have expired when an export is made are not in it.
func TestExpiredAnswers(t *testing.T) {
	s := newStore(t)
	f := fill(t, s)
	f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
	now := time.Now().UTC().Truncate(time.Second)
	f.Update(func(tx domain.Tx) error {
		return errors.Join(
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{1}, Request: []byte{}, ExpiresAt: now}),
			tx.PutReplay(domain.Replay{ID: domain.ReplayID{2}, Request: []byte{}, ExpiresAt: now.Add(time.Second)}))
	})
	for after, want := range map[time.Duration]int{-time.Second: 2, 0: 1, time.Second: 0} {
		if summary, err := export(t.Context(), s, io.Discard, now.Add(after)); err != nil || summary.Answers != want {
			t.Errorf("after %v: got %d answers, %v, want %d", after, summary.Answers, err, want)
		}
	}
}

// TestExportOfAnotherEnd checks that a trail is not exported if its end differs from the
// store's.
func TestExportOfAnotherEnd(t *testing.T) {
	s := started(t)
	fill(t, s).Update(func(tx domain.Tx) error {
		r, err := tx.AuditRecord(1)
		text, err1 := r.JSON()
		r.Hash[0] ^= 1 // of the head alone
		return errors.Join(err, err1, tx.BeginImport(), tx.PutAudit(r, text), tx.EndImport())
	})
	if _, err := Export(t.Context(), s, io.Discard); err == nil || !strings.Contains(err.Error(), "does not end with what the store says") {
		t.Errorf("got error %v, want that the trail does not end so", err)
	}
}

// forgetful is a store whose lists lack their last preset, like a damaged one.
type forgetful struct{ domain.Store }

func (s forgetful) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.Store.View(ctx, func(r domain.Reader) error { return fn(lacking{r}) })
}

type lacking struct{ domain.Reader }

func (r lacking) PresetPage(workspaceID string, filter domain.PresetFilter, page domain.Page) ([]byte, int, error) {
	list, total, err := r.Reader.PresetPage(workspaceID, filter, page)
	return list, max(0, total-1), err
}

// A preset that is in no list is not left out in silence.
func TestExportOfShortList(t *testing.T) {
	s := started(t)
	f := fill(t, s)
	f.Version("", "a", "{}")
	f.Version("", "b", "{}")
	if _, err := Export(t.Context(), forgetful{s}, io.Discard); err == nil || !strings.Contains(err.Error(), "1 presets are listed, and 2 are stored") {
		t.Errorf("got error %v, want that the list is short", err)
	}
}
