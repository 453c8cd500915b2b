package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// watched names the stamps of objects.
type watched map[string]stampOf

type stampOf = func(*domain.Stamps) domain.Stamp

func ofPreset(workspaceID, slug string) stampOf {
	return func(s *domain.Stamps) domain.Stamp { return s.Preset(workspaceID, slug) }
}

func ofWorkspace(ref string) stampOf {
	return func(s *domain.Stamps) domain.Stamp { return s.Workspace(ref) }
}

func ofKey(hash domain.KeyHash) stampOf {
	return func(s *domain.Stamps) domain.Stamp { return s.Key(hash) }
}

func ofPresets(workspaceID string) stampOf {
	return func(s *domain.Stamps) domain.Stamp { return s.Presets(workspaceID) }
}

// unchangedObjects are 250 objects and lists that do not change.
func unchangedObjects() watched {
	all := watched{}
	workspace := newID()
	for i := range 50 {
		all[fmt.Sprint("preset ", i)] = ofPreset(workspace, slugOf(i))
		all[fmt.Sprint("workspace id ", i)] = ofWorkspace(newID())
		all[fmt.Sprint("presets ", i)] = ofPresets(newID())
		all[fmt.Sprint("workspace slug ", i)] = ofWorkspace(slugOf(i))
		all[fmt.Sprint("key ", i)] = ofKey(domain.HashSecret(newID()))
	}
	return all
}

// read returns the present stamp of each object.
func (w watched) read(s *suite) map[string]domain.Stamp {
	stamps := map[string]domain.Stamp{}
	for name, stamp := range w {
		stamps[name] = stamp(s.Stamps())
	}
	return stamps
}

// changed returns the names of the objects whose stamp differs from the earlier one.
func (w watched) changed(s *suite, earlier map[string]domain.Stamp) (names []string) {
	for name, stamp := range w {
		if stamp(s.Stamps()) != earlier[name] {
			names = append(names, name)
		}
	}
	return names
}

// checkMostlyUnchanged allows for objects that share a stamp.
func (w watched) checkMostlyUnchanged(t *testing.T, s *suite, what string, earlier map[string]domain.Stamp) {
	t.Helper()
	if names := w.changed(s, earlier); len(names) > len(w)/10 {
		t.Errorf("%s: the stamps of %d of %d objects that did not change did: %q", what, len(names), len(w), names)
	}
}

func stampsOfChanges(t *testing.T, s *suite) {
	w, heir := newWorkspace("former"), newWorkspace("heir")
	p, k := newPreset(w.ID, "p"), newKey(1)
	p.LatestVersion = 2
	byID, former, latter, heirs := ofWorkspace(w.ID), ofWorkspace("former"), ofWorkspace("latter"), ofWorkspace("heir")
	renamed, anotherSecret := w, k
	renamed.Slug, anotherSecret.Hash = "latter", domain.HashSecret("another")
	for _, step := range []struct {
		what   string
		change func(tx domain.Tx) error
		of     watched
	}{
		{
			"a new workspace",
			func(tx domain.Tx) error { return tx.PutWorkspace(w) },
			watched{"its id": byID, "its slug": former, "its list": (*domain.Stamps).Workspaces},
		}, {
			"a field of a workspace",
			func(tx domain.Tx) error { w.Name = "changed"; return tx.PutWorkspace(w) },
			watched{"its id": byID, "its slug": former, "its list": (*domain.Stamps).Workspaces},
		}, {
			"the slug of a workspace",
			func(tx domain.Tx) error { return tx.PutWorkspace(renamed) },
			watched{"its id": byID, "its slug": latter, "its former slug": former, "its list": (*domain.Stamps).Workspaces},
		}, {
			"a slug and back",
			func(tx domain.Tx) error { return put(tx, w, renamed) },
			watched{"its id": byID, "its slug": latter, "its list": (*domain.Stamps).Workspaces},
		}, {
			"a slug taken over",
			func(tx domain.Tx) error {
				given := renamed
				given.Slug = "heir"
				heir.Slug = "latter"
				return put(tx, given, heir)
			},
			watched{
				"its id": byID, "its slug": heirs, "its former slug": latter, "the other's id": ofWorkspace(heir.ID),
				"their list": (*domain.Stamps).Workspaces,
			},
		}, {
			"a new preset",
			func(tx domain.Tx) error { return tx.PutPreset(p) },
			watched{"it": ofPreset(w.ID, "p"), "its list": ofPresets(w.ID)},
		}, {
			"another version of a preset",
			func(tx domain.Tx) error {
				p.DesignatedVersion = 2
				return errors.Join(tx.PutPresetVersion(p, newVersion(p, 1, "{}")), tx.PutPresetVersion(p, newVersion(p, 2, "{}")), tx.PutPreset(p))
			},
			watched{"it": ofPreset(w.ID, "p"), "its list": ofPresets(w.ID)},
		}, {
			"a pruned version", // no list shows it
			func(tx domain.Tx) error {
				p.Kept = domain.Kept{From: 2}
				return tx.PruneVersions(p, []int{1})
			},
			watched{"it": ofPreset(w.ID, "p")},
		}, {
			"a served version", // no list shows it
			func(tx domain.Tx) error { return tx.PutServed(w.ID, "p", domain.Served{2: 5}) },
			watched{"it": ofPreset(w.ID, "p")},
		}, {
			"a new key",
			func(tx domain.Tx) error { return tx.PutKey(k) },
			watched{"its hash": ofKey(k.Hash)},
		}, {
			"a revoked key",
			func(tx domain.Tx) error { k.RevokedAt = new(timeAt(5)); return tx.PutKey(k) },
			watched{"its hash": ofKey(k.Hash)},
		}, {
			"a key of another secret",
			func(tx domain.Tx) error { return tx.PutKey(anotherSecret) },
			watched{"its hash": ofKey(anotherSecret.Hash), "its former hash": ofKey(k.Hash)},
		}, {
			"a removed key",
			func(tx domain.Tx) error { return tx.DeleteKey(anotherSecret) },
			watched{"its hash": ofKey(anotherSecret.Hash)},
		}, {
			"a deleted workspace",
			func(tx domain.Tx) error { return tx.DeleteWorkspace(heir) },
			watched{"its id": ofWorkspace(heir.ID), "its slug": latter, "its list": (*domain.Stamps).Workspaces},
		}, {
			"a preset archived",
			func(tx domain.Tx) error { p.Status = domain.PresetArchived; return tx.PutPreset(p) },
			watched{"it": ofPreset(w.ID, "p"), "its list": ofPresets(w.ID)},
		}, {
			"a preset restored",
			func(tx domain.Tx) error { p.Status = domain.PresetActive; return tx.PutPreset(p) },
			watched{"it": ofPreset(w.ID, "p"), "its list": ofPresets(w.ID)},
		}, {
			"several objects",
			func(tx domain.Tx) error {
				return put[any](tx, newWorkspace("new"), p, newPreset(w.ID, "q"), anotherSecret)
			},
			watched{"a slug": ofWorkspace("new"), "p": ofPreset(w.ID, "p"), "q": ofPreset(w.ID, "q"), "a hash": ofKey(anotherSecret.Hash)},
		}, {
			"an erased preset",
			func(tx domain.Tx) error { return tx.DeletePreset(p) },
			watched{"it": ofPreset(w.ID, "p"), "its list": ofPresets(w.ID)},
		},
	} {
		others := unchangedObjects()
		before, othersBefore := step.of.read(s), others.read(s)
		s.mustUpdate(t, step.change)
		if changed := step.of.changed(s, before); len(changed) != len(step.of) {
			t.Errorf("%s: the stamps of only %q changed", step.what, changed)
		}
		others.checkMostlyUnchanged(t, s, step.what, othersBefore)
	}
}

// stampsStay reads 200 objects, half of which exist, and fails to change them.
func stampsStay(t *testing.T, s *suite) {
	objects := watched{}
	var all [50][]any
	for i := range all {
		w, k := newWorkspace(slugOf(i)), newKey(i)
		p := newPreset(w.ID, slugOf(i))
		all[i] = []any{w, p, k}
		objects[fmt.Sprint("workspace id ", i)] = ofWorkspace(w.ID)
		objects[fmt.Sprint("workspace slug ", i)] = ofWorkspace(w.Slug)
		objects[fmt.Sprint("preset ", i)] = ofPreset(w.ID, p.Slug)
		objects[fmt.Sprint("key ", i)] = ofKey(k.Hash)
	}
	s.put(t, slices.Concat(all[:len(all)/2]...)...)
	before := objects.read(s)
	s.inBoth(t, func(r domain.Reader) {
		for _, of := range all {
			w, p, k := of[0].(domain.Workspace), of[1].(domain.Preset), of[2].(domain.Key)
			_, err1 := r.Workspace(w.ID)
			_, err2 := workspaceBySlug(r, w.Slug)
			_, err3 := r.Preset(w.ID, p.Slug)
			_, err4 := r.KeyByHash(k.Hash)
			_, err5 := collect(r.Presets(w.ID))
			for _, err := range []error{err1, err2, err3, err4, err5} {
				if err != nil && !errors.Is(err, domain.ErrNotFound) {
					t.Error(err)
				}
			}
		}
	})
	objects.checkMostlyUnchanged(t, s, "reads", before)

	before = objects.read(s)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, of := range all {
		s.try(t, true, func(tx domain.Tx) error { return put(tx, of...) })
		if err := s.Update(ended, func(tx domain.Tx) error { return put(tx, of...) }); err == nil {
			t.Fatal("an update took place whose context had ended")
		}
	}
	objects.checkMostlyUnchanged(t, s, "failed updates", before)
}

// stampsAndReaders keeps copies of presets as the protocol requires. A copy is served only
// while the stamp equals the one from before the read. Under a zero stamp it is never
// served. While presets change, no read may return less than was acknowledged before it. It
// may not return less than an earlier read that had ended before it.
func stampsAndReaders(t *testing.T, s *suite) {
	const (
		objects = 24
		readers = 4
		each    = 60 // changes per writer
	)
	workspace := newID()
	var presets []any
	for i := range objects {
		presets = append(presets, newPreset(workspace, slugOf(i)))
	}
	s.put(t, presets...)
	type copied struct {
		stamp   domain.Stamp
		version int
	}
	var (
		kept         [objects]atomic.Pointer[copied]
		acknowledged [objects]atomic.Int64 // or seen
		working      atomic.Int64
		served       atomic.Int64 // reads that a copy answered
	)
	look := func(i int) error {
		least := acknowledged[i].Load()
		stamp := s.Stamps().Preset(workspace, slugOf(i))
		c, how := kept[i].Load(), "kept"
		if c == nil || c.stamp != stamp || stamp == 0 {
			p, err := s.preset(workspace, slugOf(i))
			if err != nil {
				return err
			}
			c, how = &copied{stamp, p.LatestVersion}, "read"
			if stamp != 0 {
				kept[i].Store(c)
			}
		} else {
			served.Add(1)
		}
		if int64(c.version) < least {
			return fmt.Errorf("preset %d: %s version %d when %d was acknowledged or seen", i, how, c.version, least)
		}
		raiseTo(&acknowledged[i], c.version)
		return nil
	}
	working.Store(writers)
	mustConcurrently(t, writers+readers, func(n int) error {
		if n >= writers {
			for working.Load() > 0 {
				if err := look(rand.IntN(objects)); err != nil {
					return err
				}
				runtime.Gosched()
			}
			return nil
		}
		defer working.Add(-1)
		for range each {
			i, version := rand.IntN(objects), 0
			if err := look(i); err != nil { // makes a copy that becomes stale
				return err
			}
			err := s.update(func(tx domain.Tx) error {
				p, err := tx.Preset(workspace, slugOf(i))
				if err != nil {
					return err
				}
				p.LatestVersion++
				version = p.LatestVersion
				return tx.PutPreset(p)
			})
			if err != nil {
				return err
			}
			raiseTo(&acknowledged[i], version)
			if err := look(i); err != nil {
				return err
			}
		}
		return nil
	})
	if served.Load() == 0 {
		t.Error("no copy was ever served: the test proves nothing")
	}
}

// raiseTo makes n at least as large as to.
func raiseTo(n *atomic.Int64, to int) {
	for known := n.Load(); int64(to) > known; known = n.Load() {
		if n.CompareAndSwap(known, int64(to)) {
			return
		}
	}
}

// stampsAfterReopen reopens a store. Copies from before must not be trusted.
func stampsAfterReopen(t *testing.T, s *suite) {
	w := newWorkspace("w")
	objects := unchangedObjects()
	objects["id"], objects["slug"], objects["versions"] = ofWorkspace(w.ID), ofWorkspace(w.Slug), (*domain.Stamps).Versions
	for range 3 {
		s.put(t, w)
		before := objects.read(s)
		for name, stamp := range before {
			if stamp == 0 {
				t.Errorf("%s: the stamp is zero", name)
			}
		}
		s.reopen(t)
		if changed := objects.changed(s, before); len(changed) != len(objects) {
			t.Errorf("reopened: the stamps of only %d of %d objects are others", len(changed), len(objects))
		}
	}
}
