package etcdstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestQuotaReached writes until etcd's database reaches its quota. etcd may have stored a
// change that it refused for lack of space. A change reported as refused must not be
// stored.
func TestQuotaReached(t *testing.T) {
	refused, stored := 0, 0
	for round := range 5 {
		members := cluster(t, 1, "--quota-backend-bytes", fmt.Sprint(2<<20))
		s := open(t, Options{Endpoints: addresses(members)})
		w := newID()
		put(t, s, w, "p")
		admin := client(t, addresses(members)...)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				var err error
				for n := 0; n < 100 && err == nil; n++ {
					_, err = admin.Put(t.Context(), fmt.Sprint("filler", i, n), strings.Repeat("x", 20<<10))
				}
			})
		}
		var acknowledged, not []string
		for n := range 1000 {
			who := fmt.Sprintf("%d/%d", round, n)
			_, err := add(t.Context(), s, w, "p", who)
			if err == nil {
				acknowledged = append(acknowledged, who)
				continue
			}
			if !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("got error %v, want none or that it is unavailable", err)
			}
			not = append(not, who)
			if len(not) > 3 {
				break
			}
		}
		all.Wait()
		if len(not) == 0 {
			t.Fatal("the quota was not reached")
		}
		if got := versions(t, s, w, "p"); !slices.Equal(got, acknowledged) {
			t.Errorf("round %d: got %d versions, the last by %v; %d were acknowledged, and refused were %v", round, len(got), got[len(got)-1:], len(acknowledged), not)
		}
		refused, stored = refused+len(not), stored+len(acknowledged)
		members[0].kill()
	}
	t.Logf("RESULT quota reached: acknowledged=%d refused=%d", stored, refused)
}
