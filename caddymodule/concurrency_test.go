package caddymodule

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestManyClients lets many clients change one preset at once. Each reads it, and sends a change on
// the condition that it is unchanged, twice under one Idempotency-Key, without waiting. No change is
// made twice or lost, and no version number is given twice. The domain's TestConcurrentClients compares
// all changes with a model, and so does TestLinearizable of the faults with a server that is killed.
func TestManyClients(t *testing.T) {
	s := start(t, standard)
	const path, clients, rounds = "/v1/presets/hot", 32, 6
	s.manage("POST", path+"/responses", `{}`).want(t, 200)
	before := s.changesRecorded()
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		winners  = make(map[string]string) // by the tag that they saw
		versions = make(map[string]bool)
		statuses = make(map[int]int)
	)
	for client := range clients {
		wg.Go(func() {
			for round := range rounds {
				name := fmt.Sprintf("%d-%d", client, round)
				tag := s.manage("GET", path, "").header.Get("ETag")
				var twins [2]reply
				var both sync.WaitGroup
				for i := range twins {
					both.Go(func() { twins[i] = s.manage("PATCH", path, `{"name":"`+name+`"}`, once(name), "If-Match: "+tag) })
				}
				both.Wait()
				made := s.manage("POST", path+"/responses", `{"top_k":`+strconv.Itoa(client)+`}`)
				made.want(t, 200, fmt.Sprintf(`"config":{"top_k":%d}`, client))
				mu.Lock()
				_, number, _ := strings.Cut(made.body, `"version":`)
				number, _, _ = strings.Cut(number, ",")
				if versions[number] {
					t.Errorf("two clients got version %s", number)
				}
				versions[number] = true
				for i, r := range twins {
					if statuses[r.status]++; r.status != 200 {
						r.wantError(t, 412, "Precondition failed")
						continue
					}
					if other := winners[tag]; other != "" && other != name {
						t.Errorf("%s and %s both changed the state %s", name, other, tag)
					}
					winners[tag] = name
					if other := twins[1-i]; other.status == 200 {
						wantSame(t, name, r, other)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got, want := s.changesRecorded()-before, len(winners)+len(versions); got != want || len(versions) != clients*rounds {
		t.Errorf("%d changes are recorded, want %d, of %d names and %d versions", got, want, len(winners), len(versions))
	}
	if statuses[200] == 0 || statuses[412] == 0 {
		t.Errorf("got statuses %v: not the load that this test is for", statuses)
	}
	if got, want := s.metric("caddy_presets_versions_written_total"), strconv.Itoa(clients*rounds+1); got != want {
		t.Errorf("%s versions were counted, want %s", got, want)
	}
}
