package etcdstore

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestStale disconnects a store from the cluster.
func TestStale(t *testing.T) {
	const maxStaleness = 2 * time.Second
	logs, logged := observer.New(zap.InfoLevel)
	p := newProxy(t, sharedAddress(t))
	s := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: maxStaleness, Logger: zap.New(logs)})
	other := open(t, Options{})
	w := newID()
	put(t, other, w, "p")
	wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
	good := time.Now()
	wait.Until(t, "a stamp stays good while the cluster answers", func() bool {
		if s.Stamps().Preset(w, "p") == 0 { // an answer was late
			good = time.Now()
		}
		return time.Since(good) > maxStaleness*3/2
	})
	for name, fail := range map[string]func(){
		"cut": func() { p.setCut(true) },
		"mute": func() {
			p.set(func() { p.swallowing = [2]bool{true, true} })
		},
	} {
		kept := s.Stamps().Preset(w, "p")
		fail()
		begun := time.Now()
		number, err := add(t.Context(), other, w, "p", name)
		if err != nil {
			t.Fatal(err)
		}
		took := wait.Until(t, "stamps are zero", func() bool {
			stale := time.Since(begun) > maxStaleness
			zero := s.Stamps().Preset(w, "p") == 0
			if stale && !zero {
				t.Fatalf("%s: a stamp is good for longer than %v", name, maxStaleness)
			}
			return zero
		})
		view := s.View(t.Context(), func(domain.Reader) error { return nil })
		sync := s.Sync(t.Context())
		before := time.Now()
		update := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(newPreset(w, "q")) })
		refused := time.Since(before)
		for what, err := range map[string]error{"View": view, "Sync": sync, "Update": update} {
			if !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("%s: %s: got error %v, want that it is unavailable", name, what, err)
			}
		}
		goroutines := runtime.NumGoroutine()
		time.Sleep(maxStaleness + time.Second - time.Since(begun))
		wait.Until(t, "there are no more goroutines than before", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
		p.set(func() { p.cut = false })
		p.renew()
		healed := wait.Until(t, "stamps are good again", func() bool { return s.Stamps().Preset(w, "p") != 0 })
		if s.Stamps().Preset(w, "p") == kept {
			t.Errorf("%s: the stamp is what it was before the other's change", name)
		}
		var got domain.Preset
		wait.Until(t, "the preset is read", func() bool {
			return s.View(t.Context(), func(r domain.Reader) (err error) { got, err = r.Preset(w, "p"); return err }) == nil
		})
		if got.LatestVersion != number {
			t.Errorf("%s: got %d versions, want the other's, which is %d", name, got.LatestVersion, number)
		}
		t.Logf("RESULT stale, %s: zero after %v, Update refused in %v, healed in %v", name, took, refused, healed)
	}
	if n := logged.Len(); n > 20 {
		t.Errorf("%d lines were logged", n)
	}
	for _, line := range logged.All() {
		t.Log(line.LoggerName, line.Message, line.ContextMap())
	}
}

// TestAway stops a cluster's answers for a while. Once all data is stale, requests do not
// wait. When the cluster continues, all are served at once.
func TestAway(t *testing.T) {
	p := newProxy(t, sharedAddress(t))
	hasty := open(t, Options{Endpoints: []string{p.address}, RequestTimeout: time.Second})
	s := open(t, Options{Endpoints: []string{p.address}, RequestTimeout: time.Minute, MaxStaleness: time.Second})
	w := newID()
	put(t, open(t, Options{}), w, "p")
	look := func(s *Store) error {
		return s.View(t.Context(), func(domain.Reader) error { return nil })
	}
	calls := map[string]func() error{
		"View":   func() error { return look(s) },
		"Sync":   func() error { return s.Sync(t.Context()) },
		"Update": func() error { _, err := add(t.Context(), s, w, "q", "x"); return err },
	}
	p.set(func() { p.paused = [2]bool{true, true} })
	if err := look(hasty); !errors.Is(err, domain.ErrUnavailable) { // it waits, because an election may be in progress
		t.Errorf("got error %v, want that it is unavailable", err)
	}
	wait.Until(t, "all is stale", func() bool { return s.watcher.CheckAvailable() != nil })
	var all sync.WaitGroup
	for range 100 {
		for name, call := range calls {
			all.Go(func() {
				begun := time.Now()
				if err := call(); !errors.Is(err, domain.ErrUnavailable) || time.Since(begun) > 30*time.Second { // RequestTimeout is longer
					t.Errorf("%s: got error %v after %v, want that it is unavailable at once", name, err, time.Since(begun))
				}
			})
		}
	}
	all.Wait()
	p.set(func() { p.paused = [2]bool{} })
	healed := wait.Until(t, "it is served", func() bool { return look(s) == nil })
	wait.Until(t, "a change is made", func() bool { _, err := add(t.Context(), s, w, "p", "x"); return err == nil })
	t.Logf("RESULT away: served %v after the cluster goes on", healed)
}

// TestWatching checks Status.Watching when no member is left to report a loss of
// contact.
func TestWatching(t *testing.T) {
	members := cluster(t, 3)
	proxies, endpoints := proxied(t, members)
	s := open(t, Options{Endpoints: endpoints, MaxStaleness: 2 * time.Second})
	paused := func(is bool) {
		for _, p := range proxies {
			p.set(func() { p.paused = [2]bool{is, is} })
		}
	}
	watching := func() bool { return s.Status().Watching }
	wait.Until(t, "the watch works", watching)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"silent", func() { paused(true) }, func() { paused(false) }},
		{"killed", func() {
			for _, m := range members {
				m.kill()
			}
		}, func() {
			for _, m := range members {
				if err := m.start(); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		outage.begin()
		gone := wait.Until(t, outage.name+": the status does not say any more that the watch works", func() bool { return !watching() })
		outage.end()
		back := wait.Until(t, outage.name+": the watch works again", watching)
		t.Logf("RESULT watching, %s: gone after %v, back after %v", outage.name, gone, back)
	}
}

// TestCompacted compacts revisions that a disconnected store has not read.
func TestCompacted(t *testing.T) {
	p := newProxy(t, sharedAddress(t))
	s, other := open(t, Options{Endpoints: []string{p.address}}), open(t, Options{})
	w := newID()
	put(t, s, w, "p")
	versions(t, s, w, "p") // in memory
	before := s.Stamps().Preset(w, "p")
	p.setCut(true)
	for i := range 5 {
		if _, err := add(t.Context(), other, w, "p", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client(t).Compact(t.Context(), other.model.Latest().Revision); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.cut = false })
	wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
	if got := versions(t, s, w, "p"); len(got) != 5 {
		t.Errorf("got versions %q, want 5", got)
	}
	if settled(t, s, w, "p") == before {
		t.Error("the stamp is the same")
	}
	if got := s.Status().Resets; got != 1 {
		t.Errorf("got %d resets, want 1", got)
	}
	if _, err := add(t.Context(), s, w, "p", "own"); err != nil {
		t.Error(err)
	}
	wait.Until(t, "the watch goes on", func() bool {
		if _, err := add(t.Context(), other, w, "p", "other"); err != nil {
			t.Fatal(err)
		}
		return s.Sync(t.Context()) == nil
	})
}

// TestForeignKeys puts foreign keys under the prefix.
func TestForeignKeys(t *testing.T) {
	admin, s := client(t), open(t, Options{})
	w := newID()
	put(t, s, w, "p")
	for _, key := range []string{"", "x", "\x01", "\x01p", "\x01w", "\x01o", "\x01op", "\x01h", "\x01s", "\x01k123", "\xff\xff", "b/\x00last"} {
		if _, err := admin.Put(t.Context(), prefix(t)+key, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Delete(t.Context(), prefix(t)+key); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, Options{})
	if _, err := add(t.Context(), other, w, "p", "later"); err != nil {
		t.Fatal(err)
	}
	if got := versions(t, s, w, "p"); len(got) != 1 {
		t.Errorf("got versions %q, want one", got)
	}
	if got := s.Status().Resets; got != 0 {
		t.Errorf("got %d resets, want none", got)
	}
}

// reachQuota fills etcd's database to its quota.
func reachQuota(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	for range 100 {
		if _, err := admin.Put(t.Context(), "filler", strings.Repeat("x", 200<<10)); err != nil {
			return
		}
	}
	t.Fatal("the quota was not reached")
}

// TestQuota fills etcd's database to its quota.
func TestQuota(t *testing.T) {
	members := cluster(t, 1, "--quota-backend-bytes", fmt.Sprint(4<<20))
	logs, logged := observer.New(zap.InfoLevel)
	s := open(t, Options{Endpoints: addresses(members), RequestTimeout: time.Minute, Logger: zap.New(logs)})
	w := newID()
	put(t, s, w, "p")
	admin := client(t, addresses(members)...)
	reachQuota(t, admin)
	var slowest time.Duration
	for range 5 {
		begun := time.Now()
		if _, err := add(t.Context(), s, w, "p", "refused"); !errors.Is(err, domain.ErrUnavailable) || errors.Is(err, domain.ErrUnknown) {
			t.Errorf("got error %v, want that it is unavailable", err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	if slowest > 30*time.Second { // RequestTimeout is longer
		t.Errorf("a refusal took %v", slowest)
	}
	if s.Status().Writable {
		t.Error("the status does not say that writes are refused")
	}
	second, err := Open(t.Context(), Options{Endpoints: addresses(members), Prefix: prefix(t)})
	if err != nil {
		t.Fatalf("another node does not start: %v", err)
	}
	t.Cleanup(func() { second.Close() })
	for _, s := range []*Store{s, second} {
		if got := versions(t, s, w, "p"); len(got) != 0 {
			t.Errorf("got versions %q, want none", got)
		}
	}
	ctx := wait.Context(t)
	response, err := admin.Get(ctx, "filler")
	if err == nil {
		_, err = admin.Compact(ctx, response.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = admin.Defragment(ctx, members[0].address)
	}
	if err == nil {
		_, err = admin.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := add(t.Context(), s, w, "p", "again"); err != nil || !s.Status().Writable {
		t.Errorf("got error %v, writable %v, want that writes are taken again", err, s.Status().Writable)
	}
	if n := logged.FilterMessageSnippet("writes are").Len(); n != 2 {
		t.Errorf("got %d lines about writes, want 2", n)
	}
	t.Logf("RESULT quota: slowest refusal %v", slowest)
}

// TestClose closes a store during calls.
func TestClose(t *testing.T) {
	w := newID()
	before := runtime.NumGoroutine()
	s := open(t, Options{})
	put(t, s, w, "p")
	var all sync.WaitGroup
	acknowledged := make([]int, 16)
	for i := range acknowledged {
		all.Go(func() {
			for {
				_, err := add(t.Context(), s, w, "p", fmt.Sprint(i))
				if errors.Is(err, domain.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("got error %v, want none or ErrClosed", err)
					return
				}
				acknowledged[i]++
				if err := s.View(t.Context(), func(r domain.Reader) error { _, err := r.Preset(w, "p"); return err }); err != nil && !errors.Is(err, domain.ErrClosed) {
					t.Errorf("View: got error %v", err)
				}
			}
		})
	}
	first := s.Status().Commits
	wait.Until(t, "changes are made", func() bool { return s.Status().Commits >= first+50 })
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	took := time.Since(begun)
	all.Wait()
	if err := s.Sync(t.Context()); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("Sync: got error %v, want ErrClosed", err)
	}
	wait.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	sum := 0
	for _, n := range acknowledged {
		sum += n
	}
	if got := len(versions(t, open(t, Options{}), w, "p")); got != sum {
		t.Errorf("got %d versions, %d were acknowledged", got, sum)
	}
	t.Logf("RESULT close: took %v after %d changes", took, sum)
}
