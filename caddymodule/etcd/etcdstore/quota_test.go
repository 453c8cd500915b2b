package etcdstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestLimitOfThreeNodes has three nodes spend of one key's limit, each about ten dollars a second, until all refuse. What is spent
// beyond the limit is less than what the others spend in four seconds: each tells its sums every two seconds, and reads
// those of the others as often. docs/limits.md has the figure.
func TestLimitOfThreeNodes(t *testing.T) {
	tier.Slow(t)
	const (
		nodes, clients = 3, 10
		limit, cost    = 240.0, 0.1
		pause          = 100 * time.Millisecond
	)
	o := Options{Endpoints: []string{sharedAddress(t)}, Prefix: prefix(t)}
	w := newWorkspace("quota")
	key := domain.Key{ID: newID(), Kind: domain.InferenceKey, WorkspaceID: w.ID}
	first := open(t, o)
	if err := first.Update(t.Context(), func(tx domain.Tx) error { return errors.Join(tx.PutWorkspace(w), tx.PutKey(key)) }); err != nil {
		t.Fatal(err)
	}
	daily := limit
	caller := quota.Caller{KeyID: key.ID, Key: &domain.KeyLimits{Limit: &daily, LimitReset: domain.Daily}, Workspace: &domain.WorkspaceLimits{ID: w.ID}}
	var passed atomic.Int64
	var wait sync.WaitGroup
	begin := time.Now()
	for range nodes {
		store := open(t, o)
		k, use := new(quota.Keeper), &quota.Use{Store: store, Logger: zap.NewNop()}
		k.Start(use)
		t.Cleanup(func() { _ = k.End(use) })
		for range clients {
			wait.Go(func() {
				for time.Since(begin) < 30*time.Second {
					var ticket quota.Ticket
					if k.Admit(t.Context(), &ticket, caller, time.Now()) != nil || ticket.Reserve(t.Context(), quota.Preset{}, quota.Estimate{Tokens: 1, Nanos: cost * 1e9}, time.Now()) != nil {
						return
					}
					passed.Add(1)
					time.Sleep(pause)
					ticket.End(quota.Used{Tokens: 1, Nanos: cost * 1e9, WorkspaceID: w.ID}, time.Now())
				}
				t.Error("the limit is not reached in 30 seconds")
			})
		}
	}
	wait.Wait()
	spent, took := float64(passed.Load())*cost, time.Since(begin)
	second := float64(clients) * cost * float64(time.Second/pause) // of one node
	t.Logf("spent $%.1f of $%.0f in %v: $%.1f beyond it, where each node spends $%.0f a second", spent, limit, took.Round(100*time.Millisecond), spent-limit, second)
	if most := limit + (nodes-1)*4*second + nodes*clients*cost; spent > most || spent < limit-cost*nodes*clients {
		t.Errorf("got $%.1f spent of $%.0f, want at most $%.1f", spent, limit, most)
	}
}
