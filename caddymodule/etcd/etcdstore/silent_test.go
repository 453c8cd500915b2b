package etcdstore

import (
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

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
