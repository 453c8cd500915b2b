package etcdstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestTakenSlug uses a slug and an answered request that the node does not know yet.
func TestTakenSlug(t *testing.T) {
	one, other := open(t, Options{}), open(t, Options{})
	var taken [2]domain.Workspace
	for i := range taken {
		taken[i] = newWorkspace(fmt.Sprint("taken-", i))
		if err := one.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(taken[i]) }); err != nil {
			t.Fatal(err)
		}
	}
	errTaken := errors.New("taken")
	err := other.Update(t.Context(), func(tx domain.Tx) error {
		if _, err := tx.WorkspaceID(taken[0].Slug); err == nil {
			return errTaken
		}
		return tx.PutWorkspace(newWorkspace(taken[0].Slug))
	})
	if !errors.Is(err, errTaken) {
		t.Errorf("a second workspace with a slug: got error %v, want that it is taken", err)
	}
	answered := domain.Replay{ID: domain.ReplayID{1}, Answer: []byte("{}"), ExpiresAt: time.Now().Add(time.Hour)}
	if err := one.Update(t.Context(), func(tx domain.Tx) error { return tx.PutReplay(answered) }); err != nil {
		t.Fatal(err)
	}
	var again error
	err = other.Update(t.Context(), func(tx domain.Tx) error {
		if _, again = tx.Replay(answered.ID); again == nil {
			return nil
		}
		return tx.PutWorkspace(newWorkspace("twice"))
	})
	if err != nil || again != nil {
		t.Errorf("a request that was answered by another node: got error %v, and %v of its answer", err, again)
	}
	// A workspace under an id is cached apart from one under a slug.
	count := func() (total int) {
		err := one.View(t.Context(), func(r domain.Reader) (err error) {
			_, total, err = r.WorkspacePage(domain.Page{Limit: 1})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return total
	}
	before := count()
	renamed := taken[1]
	renamed.Slug = "renamed"
	if err := other.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(renamed) }); err != nil {
		t.Fatal(err)
	}
	err = one.View(t.Context(), func(r domain.Reader) error {
		if _, err := r.WorkspaceID(taken[1].Slug); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the slug of a workspace that was renamed: got error %v, want ErrNotFound", err)
		}
		_, err := r.Workspace(renamed.ID)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if after := count(); after != before {
		t.Errorf("there are %d workspaces, and were %d before one was renamed", after, before)
	}
}

// TestOwnWritesAreKept checks that a node has its own writes in memory. The watch may be
// faster than the answer or slower.
func TestOwnWritesAreKept(t *testing.T) {
	s := open(t, Options{})
	for i := range 200 {
		w := newWorkspace(fmt.Sprint("own-", i))
		if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(w) }); err != nil {
			t.Fatal(err)
		}
		k := records.WorkspaceKey(w.ID)
		if _, known := s.model.Get(string(k), s.model.Latest().Revision, s.model.Latest().Revision); !known {
			t.Fatalf("workspace %d is not in memory", i)
		}
	}

	// Usage would displace the rest.
	_, before := s.model.Stats()
	w := newWorkspace("used")
	id := domain.UsageID{WorkspaceID: w.ID, Start: time.Unix(0, 0)}
	for i := range 2 {
		err := s.Update(t.Context(), func(tx domain.Tx) error {
			if i == 0 {
				if err := tx.PutWorkspace(w); err != nil {
					return err
				}
			}
			if _, err := tx.Usage(id, s.Node()); err != nil && !errors.Is(err, domain.ErrNotFound) {
				return err
			}
			return tx.PutUsage(domain.UsageRow{UsageID: id, Node: s.Node(), Content: make([]byte, 1<<20/8)})
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, size := s.model.Stats(); size > before+10<<10 {
			t.Errorf("after %d writes of usage the node has %d bytes more in memory", i+1, size-before)
		}
	}
}
