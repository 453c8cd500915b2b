package etcdstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestReadsAreCurrent runs writers and readers on three nodes with a cluster of three
// members. The nodes ask the members in turn, and some members lag behind. A read has all
// writes acknowledged before it, and all of it has one revision. The same holds for a copy
// whose stamp is valid after Sync. Two nodes have memory for only a few records.
func TestReadsAreCurrent(t *testing.T) {
	members := cluster(t, 3)
	var stores []*Store
	for _, memory := range []int{0, 16 << 10, 64 << 10} {
		stores = append(stores, open(t, Options{Endpoints: addresses(members), Memory: memory}))
	}
	w := newID()
	const presets = 6
	var acknowledged [presets]atomic.Int64
	slug := func(i int) string { return fmt.Sprint("p", i) }
	for i := range presets {
		put(t, stores[0], w, slug(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var writes, reads, good atomic.Int64
	defer func() {
		t.Logf("RESULT reads are current: writes=%d reads=%d good copies=%d", writes.Load(), reads.Load(), good.Load())
	}()
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
				if stamp != 0 && s.Stamps().Preset(w, slug(i)) == stamp {
					good.Add(1)
					if int64(kept) < before {
						t.Errorf("a copy has version %d and a good stamp, %d was acknowledged", kept, before)
					}
				}
			}
		})
	}
	defer all.Wait()
	defer cancel()
	wait.Until(t, "there are enough writes, reads and copies with a good stamp", func() bool {
		return t.Failed() || writes.Load() >= 1000 && reads.Load() >= 1000 && good.Load() >= 5
	})
}

// current reads a preset. It fails if the version or the designated one is older than
// acknowledged.
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
				_, _, err = r.PresetPage(workspaceID, domain.ListedPresets, domain.Page{Limit: 10})
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

// TestMemberWithoutStore reads from a member that lags so far behind that it has no store yet.
// An empty prefix has the same answer.
func TestMemberWithoutStore(t *testing.T) {
	s := open(t, Options{})
	s.anyMember = newFetcher(&Store{client: s.client, dialErrors: s.dialErrors, prefix: prefix(t) + "empty/", timeout: s.timeout, ctx: s.ctx, logger: s.logger}, clientv3.WithSerializable())
	w := newID()
	put(t, s, w, "p")
	if got := versions(t, s, w, "p"); len(got) != 0 {
		t.Errorf("got versions %q, want none", got)
	}
}

// TestColdPage reads a page of 50 presets that are not in memory. The reads share requests.
func TestColdPage(t *testing.T) {
	w := newID()
	writer := open(t, Options{})
	for i := range 50 {
		put(t, writer, w, fmt.Sprint("p-", i))
	}
	proxy := newRetrier(t, shared.address)
	reader := open(t, Options{Endpoints: []string{proxy.address}, MaxStaleness: time.Minute})
	page := func() int64 {
		before := proxy.requests.Load()
		err := reader.View(t.Context(), func(r domain.Reader) error {
			_, total, err := r.PresetPage(w, domain.ListedPresets, domain.Page{Limit: 50})
			if total != 50 {
				t.Errorf("got %d presets, want 50", total)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return proxy.requests.Load() - before
	}
	if cold, warm := page(), page(); cold > 25 || warm > 25 {
		t.Errorf("a page took %d requests, and again %d, want at most 25", cold, warm)
	}
}
