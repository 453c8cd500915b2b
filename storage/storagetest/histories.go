package storagetest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// checkHistories compares pages of the histories of all objects of a trail with the trail.
func checkHistories(t *testing.T, r domain.Reader, trail []domain.AuditRecord) error {
	t.Helper()
	want := make(map[string][]int)
	for _, record := range trail {
		for _, id := range record.Concerns() {
			want[id] = append(want[id], record.Number)
		}
	}
	want[newID()], want[""], want[awkward] = nil, nil, nil
	for id, numbers := range want {
		slices.Reverse(numbers)
		offsets := []int{0, 1, 62, 63, 64, 65, 127, 128, 129, len(numbers) - 1, len(numbers), len(numbers) + 1, math.MaxInt}
		for _, offset := range append(offsets, rand.N(len(numbers)+1)) {
			page := domain.Page{Offset: max(offset, 0), Limit: 1 + rand.N(domain.MaxPage)}
			begin := min(page.Offset, len(numbers))
			part := numbers[begin : begin+min(page.Limit, len(numbers)-begin)]
			got, total, err := r.History(id, page)
			if err != nil {
				return err
			}
			if !slices.Equal(got, part) || total != len(numbers) {
				t.Errorf("%+v: got records %v of %d, want %v of %d", page, got, total, part, len(numbers))
			}
		}
	}
	return nil
}

// objectHistories checks histories of several lengths, with their own writes.
func objectHistories(t *testing.T, s *suite) {
	home, other, often := newID(), newID(), newID()
	var trail []domain.AuditRecord
	for n := 1; n <= 400; n++ {
		r := newAudit(n)
		switch rand.N(6) {
		case 0:
			r.Object = domain.AuditObject{Kind: "workspace", ID: home, WorkspaceID: home}
		case 1:
			r.Object = domain.AuditObject{Kind: "key", ID: newID(), WorkspaceID: other}
		case 2:
			r.Object = domain.AuditObject{Kind: "key", ID: newID()}
		case 3:
			r.Operation, r.Before = "preset.create_version", 0
			r.Object.WorkspaceID = home
		default:
			r.Object.ID, r.Object.WorkspaceID = often, home
		}
		trail = append(trail, r)
	}
	for i := 0; i < len(trail); {
		part := trail[i:min(len(trail), i+1+rand.N(150))]
		i += len(part)
		s.mustUpdate(t, func(tx domain.Tx) error {
			for _, r := range part {
				if err := putAudit(tx, r); err != nil {
					return err
				}
			}
			return checkHistories(t, tx, trail[:i])
		})
		if err := s.update(func(tx domain.Tx) error { return cmp.Or(putAudit(tx, newAudit(i+1)), errDeliberate) }); !errors.Is(err, errDeliberate) {
			t.Errorf("got error %v, want the function's own", err)
		}
		s.mustView(t, func(r domain.Reader) error { return checkHistories(t, r, trail[:i]) })
	}
	s.reopen(t)
	s.inBoth(t, func(r domain.Reader) {
		if err := checkHistories(t, r, trail); err != nil {
			t.Error(err)
		}
	})
}

// historiesManyWriters compares histories with the trail after changes of many writers, some
// of which fail. One of the workspaces is deleted.
func historiesManyWriters(t *testing.T, s *suite) {
	kept, gone := newWorkspace("kept"), newWorkspace("gone")
	s.put(t, kept, gone)
	service := domain.NewService(s.Store)
	mustConcurrently(t, writers, func(i int) (err error) {
		for n := range 4 {
			w := []domain.Workspace{kept, gone}[n%2]
			_, err1 := createVersionAmongWriters(service, authorIn(w.ID), slugOf(i%5))
			err = cmp.Or(err, err1)
			_, _ = retry(func() (domain.Outcome, error) {
				return service.DesignateVersion(context.Background(), authorIn(w.ID), "", slugOf(i%9), domain.Designation{Version: 3})
			})
		}
		return err
	})
	if _, err := service.DeleteWorkspace(t.Context(), authorIn(""), "gone", domain.WorkspaceDeletion{}); err != nil {
		t.Fatal(err)
	}
	check := func(r domain.Reader) error {
		head, err := r.AuditHead()
		if err != nil || head.Count < 4*writers {
			t.Errorf("got %d records, %v", head.Count, err)
		}
		var trail []domain.AuditRecord
		for n := range head.Count {
			record, err := r.AuditRecord(n + 1)
			if err != nil {
				return err
			}
			trail = append(trail, record)
		}
		return checkHistories(t, r, trail)
	}
	s.mustView(t, check)
	s.reopen(t)
	s.mustView(t, check)
}
