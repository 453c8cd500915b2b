package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func newLabelChange(n int) domain.LabelChange {
	return domain.LabelChange{Number: n, Time: timeAt(n), KeyID: "key", UserID: "user", To: &domain.Target{Version: n}}
}

func labelChanges(t *testing.T, s *suite) {
	w := newID()
	p, other := newPreset(w, "p"), newPreset(w, "other")
	full := newLabelChange(2)
	full.KeyID, full.UserID = awkward, awkward
	full.From = &domain.Target{Version: 7}
	full.To = &domain.Target{Split: []domain.Share{{Version: 1, Weight: 10_000}, {Version: 2}}}
	removed := newLabelChange(3)
	removed.From, removed.To = full.To, nil
	type history struct {
		preset  domain.Preset
		label   string
		changes []domain.LabelChange
	}
	// Labels with a common prefix, and one whose end looks like a number in a key.
	histories := []history{
		{p, "a", []domain.LabelChange{newLabelChange(1), full, removed, newLabelChange(4)}},
		{p, "ab", []domain.LabelChange{newLabelChange(1)}},
		{p, "A", []domain.LabelChange{newLabelChange(1), newLabelChange(2)}},
		{p, "a\x00\x00\x00\x00\x00\x00\x00\x01", []domain.LabelChange{newLabelChange(1)}},
		{p, strings.Repeat("z", 64), []domain.LabelChange{newLabelChange(1)}},
		{other, "a", []domain.LabelChange{newLabelChange(1)}},
	}
	for n := range 4 {
		s.mustUpdate(t, func(tx domain.Tx) error {
			for _, h := range histories {
				if n >= len(h.changes) {
					continue
				}
				err := tx.PutLabelChange(h.preset, h.label, h.changes[n])
				if err != nil {
					return err
				}
				wantValue(t, n+1)(tx.LabelChanges(h.preset, h.label))
			}
			return nil
		})
	}
	check := func(r domain.Reader) {
		for _, h := range histories {
			wantValue(t, len(h.changes))(r.LabelChanges(h.preset, h.label))
			for i, want := range h.changes {
				wantValue(t, want)(r.LabelChange(h.preset, h.label, i+1))
			}
			for _, n := range []int{math.MinInt, -1, 0, len(h.changes) + 1, math.MaxInt} {
				wantNotFound(t, fmt.Sprintf("%q, change %d", h.label, n))(r.LabelChange(h.preset, h.label, n))
			}
		}
	}
	s.inBoth(t, check)
	// Only the next number is accepted, and stored changes stay.
	for _, n := range []int{math.MinInt, -1, 0, 1, 3, 4, 6, math.MaxInt} {
		err := s.update(func(tx domain.Tx) error {
			_ = tx.PutLabelChange(p, "a", newLabelChange(n)) // even if the error is ignored
			return nil
		})
		if err == nil {
			t.Errorf("change %d of a label that has 4 was taken", n)
		}
		if n > 0 && !errors.Is(err, domain.ErrTaken) {
			t.Errorf("change %d of a label that has 4: got error %v, want ErrTaken", n, err)
		}
	}
	s.checkAcrossReopen(t, check)
}

// labelManyWriters moves a label through the Service.
func labelManyWriters(t *testing.T, s *suite) {
	w := newWorkspace("w")
	s.put(t, w)
	service := domain.NewService(s.Store)
	for range writers {
		if _, err := createVersion(service, authorIn(w.ID), "p"); err != nil {
			t.Fatal(err)
		}
	}
	mustConcurrently(t, writers, func(i int) error {
		_, err := retry(func() (domain.Outcome, error) {
			return service.PutLabel(context.Background(), authorIn(w.ID), "", "p", "staging", domain.Target{Version: i + 1}, nil)
		})
		return err
	})
	s.mustView(t, func(r domain.Reader) error {
		p, err := r.Preset(w.ID, "p")
		if err != nil {
			return err
		}
		wantValue(t, writers)(r.LabelChanges(p, "staging"))
		at, seen := (*domain.Target)(nil), map[int]bool{}
		for n := 1; n <= writers; n++ {
			c, err := r.LabelChange(p, "staging", n)
			if err != nil {
				return err
			}
			checkSame(t, c.From, at)
			at, seen[c.To.Version] = c.To, true
		}
		if len(seen) != writers || p.Labels["staging"].Version != at.Version {
			t.Errorf("got %d targets and %d in the end, want %d and %d", len(seen), p.Labels["staging"].Version, writers, at.Version)
		}
		return nil
	})
}

func newAudit(n int) domain.AuditRecord {
	return domain.AuditRecord{
		Number: n, Time: timeAt(n), KeyID: "key", UserID: "user", RequestID: "request", Operation: "preset.update",
		Object: domain.AuditObject{Kind: "preset", ID: newID(), WorkspaceID: newID(), Slug: slugOf(n)},
		Before: n, After: n + 1,
		Previous: domain.AuditHash(domain.HashSecret(fmt.Sprint(n - 1))), Hash: domain.AuditHash(domain.HashSecret(fmt.Sprint(n))),
	}
}

func auditRoundTrip(t *testing.T, s *suite) {
	s.view(t, func(r domain.Reader) { wantValue(t, domain.AuditHead{})(r.AuditHead()) })
	full, empty := newAudit(2), domain.AuditRecord{Number: 3}
	full.KeyID, full.UserID, full.RequestID, full.Operation = awkward, awkward, awkward, awkward
	full.Object = domain.AuditObject{Kind: awkward, ID: awkward, WorkspaceID: awkward, Slug: awkward, Label: awkward, Draft: 7, Message: awkward}
	full.Before, full.After = math.MaxInt, math.MinInt
	full.Time = time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.UTC)
	var want []domain.AuditRecord
	for n := range 300 {
		want = append(want, newAudit(n+1))
	}
	want[1], want[2] = full, empty
	for _, part := range [][]domain.AuditRecord{want[:1], want[1:4], want[4:299], want[299:]} {
		s.mustUpdate(t, func(tx domain.Tx) error {
			for _, r := range part {
				if err := putAudit(tx, r); err != nil {
					return err
				}
				wantValue(t, domain.AuditHead{Count: r.Number, Hash: r.Hash})(tx.AuditHead())
				wantValue(t, r)(tx.AuditRecord(r.Number))
			}
			return nil
		})
	}
	check := func(r domain.Reader) {
		wantValue(t, domain.AuditHead{Count: 300, Hash: want[299].Hash})(r.AuditHead())
		for i, w := range want {
			wantValue(t, w)(r.AuditRecord(i + 1))
		}
		for _, n := range []int{math.MinInt, -1, 0, 301, math.MaxInt} {
			wantNotFound(t, fmt.Sprint("record ", n))(r.AuditRecord(n))
		}
		for _, after := range []int{math.MinInt, -1, 0, 1, 150, 299, 300, math.MaxInt} {
			i := after
			for record, err := range r.AuditTrail(after) {
				if i = max(i, 0); i >= len(want) {
					t.Fatalf("the trail after record %d does not end with record %d", after, len(want))
				}
				wantValue(t, want[i])(record, err)
				i++
			}
			if i < 300 {
				t.Errorf("the trail after record %d ends with record %d", after, i)
			}
		}
	}
	s.inBoth(t, check)
	// Only the next number is accepted, and stored records stay.
	for _, n := range []int{math.MinInt, -1, 0, 1, 299, 300, 302, math.MaxInt} {
		err := s.update(func(tx domain.Tx) error {
			_ = putAudit(tx, newAudit(n)) // even if the error is ignored
			return nil
		})
		if err == nil {
			t.Errorf("record %d behind number 300 was taken", n)
		}
	}
	// A failed change leaves no gap.
	s.try(t, true, func(tx domain.Tx) error { return putAudit(tx, newAudit(301)) })
	s.checkAcrossReopen(t, check)
}

// auditManyWriters checks the chain after changes of many writers, some of which fail.
func auditManyWriters(t *testing.T, s *suite) {
	w := newWorkspace("w")
	s.put(t, w)
	service := domain.NewService(s.Store)
	const each = 5
	mustConcurrently(t, writers, func(i int) error {
		for n := range each {
			terms := authorIn(w.ID)
			terms.RequestID = fmt.Sprint(i, "-", n)
			if _, err := createVersionAmongWriters(service, terms, slugOf(i%7)); err != nil {
				return err
			}
			if _, err := service.ReleasePresetVersion(context.Background(), authorIn(w.ID), "missing", "p", domain.Capture{}, domain.Release{}); err == nil {
				return errors.New("a version was made in a workspace that does not exist")
			}
		}
		return nil
	})
	check := func() {
		var at domain.AuditHead
		seen := map[string]bool{}
		for {
			records, head, err := domain.NewService(s.Store).AuditTrail(t.Context(), at.Count, 100)
			if err != nil {
				t.Fatal(err)
			}
			if at, err = domain.VerifyAudit(at, records); err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				seen[r.RequestID] = true
			}
			if len(records) == 0 {
				checkSame(t, at, head)
				break
			}
		}
		if at.Count != writers*each || len(seen) != writers*each {
			t.Errorf("got %d records of %d changes, want %d of as many", at.Count, len(seen), writers*each)
		}
	}
	check()
	s.reopen(t)
	check()
}

func replays(t *testing.T, s *suite) {
	later := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
	replay := func(name string, answer []byte) domain.Replay {
		return domain.Replay{
			ID: domain.ReplayID(domain.HashSecret(name)), Request: bytes.Repeat([]byte{0xff, 0}, 16), Answer: answer,
			Workspace: awkward, Version: 7, ExpiresAt: later,
		}
	}
	want := []domain.Replay{
		replay("json", []byte(` {"a" : 1.0e+02 ,"a":"\u00e9`+awkward+`" } `)),
		replay("none", nil),
		replay("any bytes", []byte("\xff\xfe\x00{")),
		{ID: domain.ReplayID(domain.HashSecret("empty")), Request: []byte{}, ExpiresAt: later},
		{Request: []byte{}, ExpiresAt: later},
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		for _, r := range want {
			given := r
			given.Answer, given.Request = bytes.Clone(r.Answer), bytes.Clone(r.Request)
			if err := tx.PutReplay(given); err != nil {
				return err
			}
			clear(given.Answer) // the caller may reuse it
			clear(given.Request)
			wantValue(t, r)(tx.Replay(r.ID))
		}
		return nil
	})
	check := func(r domain.Reader) {
		for _, w := range want {
			for range 2 {
				got, err := r.Replay(w.ID)
				wantValue(t, w)(got, err)
				clear(got.Answer) // the caller may modify it
				clear(got.Request)
			}
		}
		wantNotFound(t, "another id")(r.Replay(domain.ReplayID{1}))
	}
	s.inBoth(t, check)
	want[0].Version, want[0].Answer, want[0].ExpiresAt = 8, []byte("{}"), later.Add(time.Hour)
	want[1].Answer = []byte("[]")
	want[2].Answer = nil
	s.mustUpdate(t, func(tx domain.Tx) error { return put(tx, want[:3]...) })
	s.inBoth(t, check)
	s.try(t, true, func(tx domain.Tx) error { return tx.PutReplay(replay("json", nil)) })
	s.checkAcrossReopen(t, check)
}

// replayManyWriters requests the same change many times at once.
func replayManyWriters(t *testing.T, s *suite) {
	w := newWorkspace("w")
	s.put(t, w)
	service := domain.NewService(s.Store)
	terms := authorIn(w.ID)
	terms.Idempotency.Key = "once"
	outcomes := make([]domain.Outcome, writers)
	mustConcurrently(t, writers, func(i int) (err error) {
		outcomes[i], err = createVersionAmongWriters(service, terms, "p")
		return err
	})
	recorded := slices.DeleteFunc(slices.Clone(outcomes), func(out domain.Outcome) bool { return len(out.Records) == 0 })
	if len(recorded) != 1 {
		t.Errorf("the change was made %d times, want once", len(recorded))
	}
	s.reopen(t)
	again, err := createVersion(domain.NewService(s.Store), terms, "p")
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range append(outcomes, again) {
		if !bytes.Equal(out.JSON, recorded[0].JSON) || out.Number != 1 || out.WorkspaceID != w.ID {
			t.Errorf("writer %d: got version %d and %s, want 1 and %s", i, out.Number, out.JSON, recorded[0].JSON)
		}
	}
}

// putAudit adds r to the trail, in its own JSON.
func putAudit(tx domain.Tx, r domain.AuditRecord) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return tx.PutAudit(r, text)
}
