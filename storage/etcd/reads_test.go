package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestReadsAreCurrent has writers and readers on three nodes with a cluster of three
// members, which are asked in turn and of which some are behind. What was acknowledged
// before a read began is in it, all of a read is of one moment, and so is a copy whose stamp
// is still good after Sync. Two nodes have room in memory for a few records only.
func TestReadsAreCurrent(t *testing.T) {
	members := cluster(t, 3)
	var stores []*Store
	for _, memory := range []int{0, 16 << 10, 64 << 10} {
		stores = append(stores, open(t, Options{Endpoints: addresses(members), Memory: memory, RequestTimeout: 20 * time.Second}))
	}
	w := newID()
	const presets = 6
	var acknowledged [presets]atomic.Int64
	slug := func(i int) string { return fmt.Sprint("p", i) }
	for i := range presets {
		put(t, stores[0], w, slug(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var writes, reads, copies, good atomic.Int64
	for n, s := range stores {
		for i := range presets {
			all.Go(func() {
				for ctx.Err() == nil {
					number, err := add(t.Context(), s, w, slug(i), fmt.Sprint(n))
					if err != nil {
						t.Errorf("writing: %v", err)
						return
					}
					writes.Add(1)
					for known := acknowledged[i].Load(); known < int64(number) && !acknowledged[i].CompareAndSwap(known, int64(number)); {
						known = acknowledged[i].Load()
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 2 {
			all.Go(func() {
				for i := 0; ctx.Err() == nil; i = (i + 1) % presets {
					current(t, s, w, slug(i), &acknowledged[i])
					reads.Add(1)
				}
			})
		}
		all.Go(func() { // as a cache does
			for i := 0; ctx.Err() == nil; i = (i + 1) % presets {
				stamp := s.Stamps().Preset(w, slug(i))
				kept := current(t, s, w, slug(i), &acknowledged[i])
				before := acknowledged[i].Load()
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				copies.Add(1)
				if stamp != 0 && s.Stamps().Preset(w, slug(i)) == stamp {
					good.Add(1)
					if int64(kept) < before {
						t.Errorf("a copy has version %d and a good stamp, %d was acknowledged", kept, before)
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("RESULT reads are current: writes=%d reads=%d copies=%d of which good=%d", writes.Load(), reads.Load(), copies.Load(), good.Load())
}

// current reads a preset and wants no less than what was acknowledged, and the version that
// it designates.
func current(t *testing.T, s *Store, workspaceID, slug string, acknowledged *atomic.Int64) (latest int) {
	before := acknowledged.Load()
	err := s.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(workspaceID, slug)
		if err != nil {
			return err
		}
		if latest = p.LatestVersion; int64(latest) < before {
			t.Errorf("got version %d, %d was acknowledged before", latest, before)
		}
		if latest > 0 {
			if _, err = r.PresetVersion(p.State(), latest); err == nil {
				_, _, err = r.PresetPage(workspaceID, domain.Page{Limit: 10})
			}
		}
		again, err2 := r.Preset(workspaceID, slug)
		if err == nil && again.LatestVersion != latest {
			t.Errorf("a snapshot has version %d and then %d", latest, again.LatestVersion)
		}
		if err == nil {
			err = err2
		}
		return err
	})
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	return latest
}

// A version that is taken is refused, also where the node does not know it and has taken its
// number for free.
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

// A slug that the node does not know is taken for free, and a request that it does not know
// for a new one, until that is made sure of. Nobody is told what came of that where it was
// wrong, whether or not anything was to be stored.
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
	// The one under an id is another matter than the one under a slug.
	renamed := taken[3]
	renamed.Slug = "renamed"
	if err := other.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(renamed) }); err != nil {
		t.Fatal(err)
	}
	err = one.View(t.Context(), func(r domain.Reader) error {
		if _, err := r.WorkspaceID(taken[3].Slug); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the slug of a workspace that was renamed: got error %v, want ErrNotFound", err)
		}
		_, total, err := r.WorkspacePage(domain.Page{Limit: 10})
		if total != len(taken) {
			t.Errorf("there are %d workspaces, want %d", total, len(taken))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
