package etcdstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestTakenVersion creates a version with a number in use that the node does not know. The
// node assumes that the number is free. The version is refused.
func TestTakenVersion(t *testing.T) {
	one := open(t, Options{})
	w := newID()
	put(t, one, w, "p")
	want, err := add(t.Context(), one, w, "p", "first")
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, Options{})
	var runs int
	err = other.Update(t.Context(), func(tx domain.Tx) error {
		p, err := tx.Preset(w, "p")
		if err != nil {
			return err
		}
		runs++
		return tx.PutPresetVersion(p, domain.PresetVersion{ID: newID(), PresetID: p.ID, Version: want, Config: []byte(`{"model":"second"}`)})
	})
	if err == nil || runs < 2 {
		t.Errorf("got error %v in run %d, want one in a later run than the first", err, runs)
	}
	if err := one.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(w, "p")
		if err != nil {
			return err
		}
		v, err := r.PresetVersion(p.State(), want)
		if err == nil && string(v.Config) == `{"model":"second"}` {
			t.Error("a version was replaced")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestTakenSlug uses slugs and requests that the node does not know. The node assumes that
// they are new until etcd confirms it. No caller gets a result of a wrong assumption, with
// or without a write.
func TestTakenSlug(t *testing.T) {
	one, other := open(t, Options{}), open(t, Options{})
	var taken [4]domain.Workspace
	for i := range taken {
		taken[i] = newWorkspace(fmt.Sprint("taken-", i))
		if err := one.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(taken[i]) }); err != nil {
			t.Fatal(err)
		}
	}
	errTaken, errMissing := errors.New("taken"), errors.New("missing")
	runs := 0
	err := other.Update(t.Context(), func(tx domain.Tx) error {
		runs++
		if _, err := tx.WorkspaceID(taken[0].Slug); err == nil {
			return errTaken
		}
		return tx.PutWorkspace(newWorkspace(taken[0].Slug))
	})
	if !errors.Is(err, errTaken) || runs < 2 {
		t.Errorf("a second workspace with a slug: got error %v in run %d, want that it is taken, in a later run than the first", err, runs)
	}
	err = other.Update(t.Context(), func(tx domain.Tx) error {
		if _, err := tx.WorkspaceID(taken[1].Slug); err != nil {
			return errMissing
		}
		return nil
	})
	if err != nil {
		t.Errorf("an error that came of a guess: %v", err)
	}
	var found string
	err = other.Update(t.Context(), func(tx domain.Tx) error {
		found, _ = tx.WorkspaceID(taken[2].Slug)
		return nil
	})
	if err != nil || found != taken[2].ID {
		t.Errorf("what changes nothing: got %q, %v, want %s", found, err, taken[2].ID)
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
	renamed := taken[3]
	renamed.Slug = "renamed"
	if err := other.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(renamed) }); err != nil {
		t.Fatal(err)
	}
	err = one.View(t.Context(), func(r domain.Reader) error {
		if _, err := r.WorkspaceID(taken[3].Slug); !errors.Is(err, domain.ErrNotFound) {
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

// TestGuessThenMiss runs a change that misses a record in memory. The change runs again
// with the record. Its earlier assumptions cause no reads.
func TestGuessThenMiss(t *testing.T) {
	s := open(t, Options{})
	warm(t, s)
	w, id, runs := newID(), domain.ReplayID{7}, 0
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		runs++
		if _, err := tx.Replay(id); !errors.Is(err, domain.ErrNotFound) {
			return err
		}
		if _, err := tx.Preset(w, "new"); !errors.Is(err, domain.ErrNotFound) {
			return err
		}
		return tx.PutWorkspace(newWorkspace("made"))
	})
	if err != nil || runs != 2 {
		t.Errorf("got error %v after %d runs, want 2", err, runs)
	}
	if _, read := s.model.Get(string(records.ReplayKey(id)), s.model.Latest().Revision, s.model.Latest().Revision); read {
		t.Error("a guessed record was read")
	}
}

// warm writes a workspace, so that the records that every change needs are in memory.
func warm(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(newWorkspace("warm-" + newID())) }); err != nil {
		t.Fatal(err)
	}
}

// TestWrongGuessesHinderNobody makes wrong assumptions continuously. Other writes still
// succeed, on this node and on others.
func TestWrongGuessesHinderNobody(t *testing.T) {
	const taken = 200
	one, s := open(t, Options{}), open(t, Options{})
	for i := range taken {
		if err := one.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(newWorkspace(fmt.Sprint("taken-", i))) }); err != nil {
			t.Fatal(err)
		}
	}
	w := newID()
	put(t, s, w, "p")
	warm(t, s)
	overtaken := s.committer.overtaken.Load()
	errTaken := errors.New("taken")
	var all sync.WaitGroup
	written, most := 0, 0
	for i := range taken {
		all.Go(func() {
			err := s.Update(t.Context(), func(tx domain.Tx) error {
				if _, err := tx.WorkspaceID(fmt.Sprint("taken-", i)); err == nil {
					return errTaken
				}
				return tx.PutWorkspace(newWorkspace(fmt.Sprint("taken-", i)))
			})
			if !errors.Is(err, errTaken) {
				t.Errorf("got error %v, want that the slug is taken", err)
			}
		})
		if i%5 > 0 { // a write waits for its commit, beside several guesses
			continue
		}
		written++
		runs := 0
		err := s.Update(t.Context(), func(tx domain.Tx) error {
			runs++
			p, err := tx.Preset(w, "p")
			if err != nil {
				return err
			}
			p.Name = fmt.Sprint(written)
			return tx.PutPreset(p)
		})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, runs)
	}
	all.Wait()
	// It runs at most once more, and once more for each wait behind others.
	if most > 6 {
		t.Errorf("a write that guessed nothing was run %d times", most)
	}
	if n := s.committer.overtaken.Load() - overtaken; n > 0 {
		t.Errorf("%d commits are said to have been overtaken by those of other nodes, which made none", n)
	}
	t.Logf("RESULT wrong guesses: %d writes beside %d, run %d times at most", written, taken, most)
}

// TestGuessesWithoutSpace repeats an answered request while etcd accepts no change. The
// node first takes the request for a new one, and then answers it.
func TestGuessesWithoutSpace(t *testing.T) {
	members := cluster(t, 1, "--quota-backend-bytes", fmt.Sprint(4<<20))
	one, other := open(t, Options{Endpoints: addresses(members)}), open(t, Options{Endpoints: addresses(members)})
	answered := domain.Replay{ID: domain.ReplayID{1}, Answer: []byte("{}"), ExpiresAt: time.Now().Add(time.Hour)}
	if err := one.Update(t.Context(), func(tx domain.Tx) error { return tx.PutReplay(answered) }); err != nil {
		t.Fatal(err)
	}
	warm(t, other)
	reachQuota(t, client(t, addresses(members)...))
	for name, s := range map[string]*Store{"which answered": one, "which did not": other} {
		var again error
		request := func(id domain.ReplayID) error {
			return s.Update(t.Context(), func(tx domain.Tx) error {
				if _, again = tx.Replay(id); again == nil {
					return nil
				}
				if err := tx.PutReplay(domain.Replay{ID: id, ExpiresAt: answered.ExpiresAt}); err != nil {
					return err
				}
				return tx.PutWorkspace(newWorkspace("twice"))
			})
		}
		if err := request(answered.ID); err != nil || again != nil {
			t.Errorf("a request that was answered, by the node %s: got error %v, and %v of its answer", name, err, again)
		}
		if err := request(domain.ReplayID{2}); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("a new request, by the node %s: got error %v, want that it is unavailable", name, err)
		}
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
