package storagetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func checkLabelNames(t *testing.T, r domain.Reader, p domain.Preset, want ...string) {
	t.Helper()
	got, err := collect(r.LabelNames(p))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got labels %q and error %v, want %q", got, err, want)
	}
	for label, err := range r.LabelNames(p) {
		if err != nil || label != want[0] {
			t.Errorf("got first label %q and error %v, want %q", label, err, want[0])
		}
		break
	}
}

// manyListed lists more labels and kept answers than fit into one page. The update adds to
// them and reads other objects meanwhile.
func manyListed(t *testing.T, s *suite) {
	tier.NoRace(t)
	const many = 5000
	p := newPreset(newID(), "p")
	later := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
	var labels []string
	var answers []domain.Replay
	for n := range many {
		labels = append(labels, fmt.Sprintf("%05d", n))
		answers = append(answers, domain.Replay{ID: domain.ReplayID{byte(n >> 8), byte(n)}, Request: []byte{1}, ExpiresAt: later})
	}
	put := func(tx domain.Tx, n int) error {
		return cmp.Or(tx.PutLabelChange(p, labels[n], newLabelChange(1)), tx.PutReplay(answers[n]))
	}
	for some := range slices.Chunk(rand.Perm(many), 50) {
		s.mustUpdate(t, func(tx domain.Tx) (err error) {
			for _, n := range some {
				if n%100 != 0 {
					err = cmp.Or(err, put(tx, n))
				}
			}
			return err
		})
	}
	s.mustUpdate(t, func(tx domain.Tx) (err error) {
		for n := 0; n < many; n += 100 {
			err = cmp.Or(err, put(tx, n))
		}
		if err != nil {
			return err
		}
		i := 0
		for label, err := range tx.LabelNames(p) {
			if err != nil || label != labels[i] {
				t.Fatalf("label %d: got %q and error %v", i, label, err)
			}
			if n, err := tx.LabelChanges(p, label); n != 1 || err != nil {
				t.Fatalf("label %d: got %d changes and error %v", i, n, err)
			}
			i++
		}
		if i != many {
			t.Errorf("got %d labels, want %d", i, many)
		}
		checkReplays(t, tx, answers)
		return nil
	})
	s.view(t, func(r domain.Reader) { checkReplays(t, r, answers) })
}

func checkReplays(t *testing.T, r domain.Reader, want []domain.Replay) {
	t.Helper()
	want = slices.SortedFunc(slices.Values(want), func(a, b domain.Replay) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	wantValue(t, want)(collect(r.Replays()))
}

// importBegun checks that BeginImport empties only a trail of one record. It marks the
// trail's end until the import has ended.
func importBegun(t *testing.T, s *suite) {
	begin := func(records ...domain.AuditRecord) error {
		return s.update(func(tx domain.Tx) error { return cmp.Or(tx.BeginImport(), put(tx, records...)) })
	}
	check := func(importing bool, want ...domain.AuditRecord) {
		t.Helper()
		s.view(t, func(r domain.Reader) {
			head := domain.AuditHead{Count: len(want), Importing: importing}
			for i, w := range want {
				wantValue(t, w)(r.AuditRecord(i + 1))
				head.Hash = w.Hash
			}
			wantValue(t, head)(r.AuditHead())
			wantNotFound(t, "behind the end")(r.AuditRecord(len(want) + 1))
		})
	}
	end := func() { s.mustUpdate(t, func(tx domain.Tx) error { return tx.EndImport() }) }
	end()
	check(false)
	two := []domain.AuditRecord{newAudit(1), newAudit(2)}
	for _, records := range [][]domain.AuditRecord{nil, {newAudit(1)}, {}, {newAudit(1)}, {newAudit(1)}, two} {
		if err := begin(records...); err != nil {
			t.Fatal(err)
		}
		check(true, records...)
		end()
		check(false, records...)
	}
	s.reopen(t)
	if err := begin(); err == nil {
		t.Error("a trail of two records was emptied")
	}
	if err := s.update(func(tx domain.Tx) error { _ = tx.BeginImport(); return nil }); err == nil {
		t.Error("a trail of two records was emptied where the error was overlooked")
	}
	check(false, two...)
}

// importUnfinished checks that the Service changes nothing until an import has ended, also
// after the store was reopened.
func importUnfinished(t *testing.T, s *suite) {
	change := func() error {
		_, err := domain.NewService(s).CreateWorkspace(t.Context(), authorIn(""), domain.NewWorkspace{Name: "n", Slug: "n"})
		return err
	}
	refused := func() {
		t.Helper()
		if err := change(); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "import") {
			t.Errorf("got error %v, want ErrUnavailable that tells of the import", err)
		}
	}
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.BeginImport() })
	refused()
	s.put(t, newAudit(1), newAudit(2))
	refused()
	s.reopen(t)
	refused()
	s.view(t, func(r domain.Reader) { wantNotFound(t, "what was refused")(r.WorkspaceID("n")) })
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.EndImport() })
	if err := change(); err != nil {
		t.Errorf("the import has ended: got error %v", err)
	}
}
