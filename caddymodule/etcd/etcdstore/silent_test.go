package etcdstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestSilentMember uses a member that receives requests and answers nothing. Writes
// continue through the other members.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	proxies, through := proxied(t, members)
	s, other := open(t, Options{Endpoints: through, RequestTimeout: defaultTimeout, MaxStaleness: defaultMaxStaleness}), open(t, Options{Endpoints: addresses(members)})
	w := newID()
	put(t, s, w, "p")
	put(t, s, w, "q")
	ctx, cancel := context.WithCancel(t.Context())
	var here, there tally
	done := make(chan struct{}, 2)
	for _, each := range []struct {
		tally *tally
		store *Store
	}{{&here, s}, {&there, other}} {
		go func() {
			each.tally.write(ctx, []*Store{each.store}, w, 3, 1<<30)
			done <- struct{}{}
		}()
	}
	goOn := func(when string) {
		t.Helper()
		for _, l := range []*tally{&here, &there} {
			before := l.count()
			wait.Until(t, "writes go on "+when, func() bool { return l.count() >= before+50 })
		}
	}
	goOn("by three members")
	proxies[0].set(func() { proxies[0].paused = [2]bool{true, true} })
	goOn("without the silent one")
	proxies[0].set(func() { proxies[0].paused = [2]bool{} })
	goOn("by all again")
	cancel()
	<-done
	<-done
	for _, err := range append(here.others, there.others...) {
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Error(err)
		}
	}
	// The store closes its connections after keepAliveTime and keepAliveTimeout.
	if here.gap > 30*time.Second {
		t.Errorf("no write was acknowledged for %v", here.gap)
	}
	t.Logf("RESULT silent member: longest gap %v, the other's %v; unknown=%d unavailable=%d conflicts=%d", here.gap, there.gap, here.unknown, len(here.others), here.conflicts)
}

// TestSilentMemberIsAvoided makes one write after another, and a member answers nothing. A
// request without an answer stays in flight, so that later ones go to other members.
func TestSilentMemberIsAvoided(t *testing.T) {
	t.Parallel()
	var proxies []*retrier
	var through []string
	for _, m := range cluster(t, 3) {
		p := newRetrier(t, m.address)
		proxies, through = append(proxies, p), append(through, p.address)
	}
	s := open(t, Options{Endpoints: through})
	w := newID()
	put(t, s, w, "p")
	write := func() {
		t.Helper()
		if _, err := add(t.Context(), s, w, "p", "this"); err != nil {
			t.Fatal(err)
		}
	}
	// A watch keeps requests away from its member in any case. On a busy machine the store
	// begins a watch at each member, and keeps the first that works.
	hasOnlyRequests := func(p *retrier) bool { return p.requests.Load() > 0 && p.watches.Load() == 0 }
	var silent *retrier
	wait.Until(t, "a member gets requests and has no watch", func() bool {
		write()
		i := slices.IndexFunc(proxies, hasOnlyRequests)
		if i >= 0 {
			silent = proxies[i]
		}
		return i >= 0
	})
	silent.hangs.Store(true)
	before := silent.requests.Load()
	const writes = 40
	for range writes {
		write()
	}
	switch got := silent.requests.Load() - before; {
	case got == 0 && silent.watches.Load() > 0: // a watch came meanwhile, and kept requests away
	case got < 1 || got > writes/8:
		t.Errorf("the silent member got %d requests of %d writes, want 1 to %d", got, writes, writes/8)
	}
}
