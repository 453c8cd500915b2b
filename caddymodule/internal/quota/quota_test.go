package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// fixture is a real store with a workspace, a key and a preset.
type fixture struct {
	t         testing.TB
	store     domain.Store
	workspace *domain.WorkspaceLimits
	key       domain.Key
	preset    Preset
	use       *Use
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	store, err := badger.Open(filepath.Join(t.TempDir(), "store"), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := domain.Workspace{ID: uuid.NewString(), Name: "w", Slug: "w", IOLoggingAPIKeyIDs: []byte("null")}
	f := &fixture{
		t: t, store: store, workspace: &domain.WorkspaceLimits{ID: w.ID},
		key:    domain.Key{ID: uuid.NewString(), Kind: domain.InferenceKey, WorkspaceID: w.ID},
		preset: Preset{ID: uuid.NewString(), WorkspaceID: w.ID},
	}
	if err := store.Update(t.Context(), func(tx domain.Tx) error { return errors.Join(tx.PutWorkspace(w), tx.PutKey(f.key)) }); err != nil {
		t.Fatal(err)
	}
	f.use = &Use{Store: store, Logger: zap.NewNop()}
	return f
}

// keeper returns the keeper of another process, which stores nothing by itself.
func (f *fixture) keeper() *Keeper { return &Keeper{uses: []*Use{f.use}} }

func (f *fixture) flush(k *Keeper, now time.Time) {
	f.t.Helper()
	if err := k.store(f.t.Context(), f.use, now, true); err != nil {
		f.t.Error(err)
	}
}

func (f *fixture) caller(limits domain.KeyLimits) Caller {
	return Caller{KeyID: f.key.ID, Key: &limits, Workspace: f.workspace}
}

// pass sends a request that costs some dollars, and reports whether it passes.
func (f *fixture) pass(k *Keeper, c Caller, usd float64, now time.Time) bool {
	f.t.Helper()
	var ticket Ticket
	if k.Admit(f.t.Context(), &ticket, c, now) != nil || ticket.Reserve(f.t.Context(), Preset{}, 1, 0) != nil {
		return false
	}
	ticket.End(Used{Tokens: 1, Nanos: nanosOf(usd), WorkspaceID: f.workspace.ID}, now)
	return true
}

func monthlyLimit(usd float64) domain.KeyLimits {
	return domain.KeyLimits{Limit: &usd, LimitReset: domain.Monthly}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) // a Monday, and the last day of its month

// TestWindows spends up to limits of all intervals. Each opens again with its next window in UTC, and not before.
func TestWindows(t *testing.T) {
	f := newFixture(t)
	for _, of := range []struct {
		reset        domain.Interval
		still, again time.Time // zero for never
	}{
		{domain.Daily, time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC), time.Date(2026, 12, 1, 1, 0, 0, 0, time.FixedZone("", 3600))},
		{domain.Weekly, time.Date(2026, 12, 6, 23, 59, 59, 0, time.UTC), time.Date(2026, 12, 7, 0, 0, 0, 0, time.UTC)},
		{domain.Monthly, time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{"", time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
	} {
		k, c := f.keeper(), f.caller(domain.KeyLimits{Limit: new(1.0), LimitReset: of.reset})
		c.KeyID = string(of.reset) + "-" // in memory alone
		for i, at := range []time.Time{noon, noon, of.still, of.again} {
			if at.IsZero() {
				continue
			}
			if got, want := f.pass(k, c, 1, at), i == 0 || i == 3; got != want {
				t.Errorf("%s at %v: passed %v, want %v", of.reset, at, got, want)
			}
		}
	}
}

// TestSumsOutliveProcesses goes on in another process, after a flush and after a crash, with a clock that
// is set back over midnight, and with one that was a year ahead.
func TestSumsOutliveProcesses(t *testing.T) {
	f := newFixture(t)
	c := f.caller(monthlyLimit(10))
	spend := func(k *Keeper, usd float64, at time.Time) {
		t.Helper()
		if !f.pass(k, c, usd, at) {
			t.Fatalf("at %v a request does not pass", at)
		}
	}
	spent := func(at time.Time, daily, monthly float64) {
		t.Helper()
		for _, id := range []string{f.key.ID, f.workspace.ID} {
			err := f.store.View(t.Context(), func(r domain.Reader) error {
				got, err := f.keeper().Spent(r, id, at)
				if got.Of(domain.Daily) != daily || got.Of(domain.Monthly) != monthly {
					t.Errorf("at %v: got %v, want %v of the day and %v of the month", at, got, daily, monthly)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	first := f.keeper()
	spend(first, 2, noon)
	f.flush(first, noon)
	f.flush(first, noon)
	spent(noon, 2, 2)
	spend(first, 3, noon) // is lost with the process
	second := f.keeper()
	spend(second, 1, noon)
	spent(noon, 2, 2)
	f.flush(second, noon)
	spent(noon, 3, 3)

	december := noon.Add(12 * time.Hour)
	spend(second, 4, december)
	f.flush(second, december)
	spent(december, 4, 4)
	spend(second, 5, noon) // the clock is set back
	f.flush(second, noon)
	spent(december, 9, 9)
	third := f.keeper()
	spend(third, 1, noon)
	if f.pass(third, c, 1, noon) || f.pass(third, c, 1, december) {
		t.Error("the clock that was set back opens the limit again")
	}
	f.flush(third, december)
	spent(december, 10, 10)

	ahead := december.AddDate(1, 0, 0)
	spend(third, 6, ahead)
	f.flush(third, ahead)
	if !f.pass(third, c, 3, december) || f.pass(f.keeper(), f.caller(monthlyLimit(6)), 1, december) {
		t.Error("a clock that was ahead for some time closes the limit, or loses what was spent meanwhile")
	}
	f.flush(third, december)
	spent(december, 9, 9)
}

// unsureStore makes its changes, and then says that it does not know.
type unsureStore struct {
	domain.Store
	unsure bool
	before bool // it has not made the change
}

func (s *unsureStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	if s.before {
		return domain.ErrUnknown
	}
	return errors.Join(s.Store.Update(ctx, fn), map[bool]error{true: domain.ErrUnknown}[s.unsure])
}

// TestSumsCountOnce stores sums while the store does not tell whether it has made the change.
func TestSumsCountOnce(t *testing.T) {
	f := newFixture(t)
	store := &unsureStore{Store: f.store}
	f.use.Store = store
	k, other := f.keeper(), f.keeper()
	for round, how := range []unsureStore{{unsure: true}, {before: true}, {unsure: true}, {}} {
		store.unsure, store.before = how.unsure, how.before
		f.pass(k, f.caller(domain.KeyLimits{}), 1, noon)
		_ = k.store(t.Context(), f.use, noon, true)
		store.unsure, store.before = false, false
		f.pass(other, f.caller(domain.KeyLimits{}), 1, noon)
		f.flush(other, noon)
		if round == 1 {
			f.flush(k, noon)
		}
	}
	f.flush(k, noon)
	f.flush(k, noon)
	err := f.store.View(t.Context(), func(r domain.Reader) error {
		got, err := k.Spent(r, f.key.ID, noon)
		if got.Of(domain.Daily) != 8 {
			t.Errorf("got %v, want 8 of the day", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNodesKnowEachOther has three nodes spend of one limit. After each has told its sums, all know them.
func TestNodesKnowEachOther(t *testing.T) {
	f := newFixture(t)
	nodes := []*Keeper{f.keeper(), f.keeper(), f.keeper()}
	c := f.caller(domain.KeyLimits{Limit: new(9.0), LimitReset: domain.Daily, Limits: &domain.Limits{RequestsPerMinute: 60, RequestsPerDay: 100}})
	for range 3 {
		for _, k := range nodes {
			if !f.pass(k, c, 1, noon) {
				t.Error("a request below the limit does not pass")
			}
			f.flush(k, noon)
		}
	}
	for i, k := range nodes {
		f.flush(k, noon)
		if f.pass(k, c, 1, noon) {
			t.Error("a request beyond the limit passes")
		}
		found, _ := k.subjects.Load(f.key.ID)
		s := found.(*subject)
		if left := s.bounds.Load().requestRate.TokensAt(noon); left != 51+float64(i) { // a node knows what others used since it began to count
			t.Errorf("node %d: %v requests are left in the minute, want 51 of 60 after 9 of all nodes", i, left)
		}
	}
}

// TestSpendingIsBounded sends random requests at once, whose clock steps at random, and stores, crashes and goes on.
// What was spent in a window is never more than its limit and what was in flight when it was reached.
func TestSpendingIsBounded(t *testing.T) {
	for seed := range uint64(20) {
		f := newFixture(t)
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + 20*random.Float64()
		c := f.caller(domain.KeyLimits{Limit: &limit, LimitReset: domain.Daily, Limits: &domain.Limits{TokensPerDay: 1 + random.Int64N(1000)}})
		workspace := *f.workspace
		workspace.Budgets = domain.Budgets{domain.Monthly: {LimitUSD: limit * 3}}
		c.Workspace = &workspace
		k, now := f.keeper(), noon
		var mu sync.Mutex
		spent := make(map[int64]float64) // by day
		most := 0.0
		for range 40 {
			inFlight := 1 + random.IntN(30)
			now = now.Add(time.Duration(random.Int64N(int64(6*time.Hour))) - time.Hour)
			costs := make([]float64, inFlight)
			for i := range costs {
				costs[i] = random.Float64()
			}
			var begun, done sync.WaitGroup
			begun.Add(inFlight)
			flying := 0.0
			for _, cost := range costs {
				done.Go(func() {
					var ticket Ticket
					estimate := nanosOf(cost)
					ok := k.Admit(t.Context(), &ticket, c, now) == nil && ticket.Reserve(t.Context(), Preset{}, int64(100*cost), estimate) == nil
					if ok {
						mu.Lock()
						flying += cost
						mu.Unlock()
					}
					begun.Done()
					begun.Wait() // all are in flight at once
					if ok {
						ticket.End(Used{Tokens: int64(100 * cost), Nanos: nanosOf(cost), WorkspaceID: f.workspace.ID}, now)
					}
				})
			}
			done.Wait()
			found, ok := k.subjects.Load(f.key.ID)
			if !ok {
				continue // the workspace refused all
			}
			s := found.(*subject)
			m := momentOf(now)
			number := s.windowOf(daily, &m).number.Load()
			spent[number] += flying
			most = max(most, flying)
			// One request at most passes the limit, because those in flight count with their estimates.
			if spent[number] > limit+1 {
				t.Fatalf("seed %d: %v was spent of the limit %v", seed, spent[number], limit)
			}
			if s.flightNanos.Load() != 0 || s.flightTokens.Load() != 0 || s.inFlight.Load() != 0 {
				t.Fatalf("seed %d: something is in flight after the end", seed)
			}
			switch random.IntN(4) {
			case 0:
				f.flush(k, now)
			case 1:
				f.flush(k, now)
				k = f.keeper()
			}
		}
		if most == 0 {
			t.Errorf("seed %d: no request passed", seed)
		}
	}
}

// TestForgottenWhenIdle forgets what was not used for long, while requests hold it.
func TestForgottenWhenIdle(t *testing.T) {
	f := newFixture(t)
	k, c := f.keeper(), f.caller(monthlyLimit(3))
	var wait sync.WaitGroup
	passed := make(chan bool, 40)
	for range 20 {
		wait.Go(func() { passed <- f.pass(k, c, 0.1, noon) })
		wait.Go(func() {
			f.flush(k, noon)
			_ = k.store(t.Context(), f.use, noon.Add(time.Hour), true)
		})
	}
	wait.Wait()
	f.flush(k, noon)
	_ = k.store(t.Context(), f.use, noon.Add(time.Hour), true)
	if _, ok := k.subjects.Load(f.key.ID); ok {
		t.Error("an idle key is not forgotten")
	}
	if !f.pass(k, c, 0, noon) {
		t.Error("the sum is wrong: a request below the limit does not pass")
	}
	err := f.store.View(t.Context(), func(r domain.Reader) error {
		got, err := k.Spent(r, f.key.ID, noon)
		if spent := got.Of(domain.Monthly); spent < 1.99 || spent > 2.01 {
			t.Errorf("got %v, want 2 of the month", spent)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// BenchmarkLimits is a request with every limit of its key, workspace and preset, and one without limits.
func BenchmarkLimits(b *testing.B) {
	f := newFixture(b)
	all := f.caller(domain.KeyLimits{Limit: new(1e8), LimitReset: domain.Monthly, Limits: &domain.Limits{
		RequestsPerMinute: domain.MaxLimit, TokensPerMinute: domain.MaxLimit, RequestsPerDay: domain.MaxLimit, TokensPerDay: domain.MaxLimit, Concurrent: domain.MaxLimit,
	}})
	workspace := *f.workspace
	workspace.Budgets = domain.Budgets{}
	for i, interval := range domain.Intervals {
		workspace.Budgets[interval] = domain.Budget{LimitUSD: 1e7 * float64(i+1)}
	}
	all.Workspace = &workspace
	limited := f.preset
	limited.Limits = &domain.PresetLimits{RequestsPerMinute: domain.MaxLimit, TokensPerDay: domain.MaxLimit, CostPerDay: 1e8}
	for name, of := range map[string]struct {
		caller Caller
		preset Preset
	}{"all": {all, limited}, "none": {f.caller(domain.KeyLimits{}), f.preset}} {
		b.Run(name, func(b *testing.B) {
			k, ctx := f.keeper(), b.Context()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var ticket Ticket
					now := time.Now()
					if k.Admit(ctx, &ticket, of.caller, now) != nil {
						b.Fatal("refused")
					}
					if ticket.IsLimited(of.preset) && ticket.Reserve(ctx, of.preset, 1000, 1000) != nil {
						b.Fatal("refused")
					}
					ticket.End(Used{Tokens: 900, Nanos: 900, PresetID: of.preset.ID, WorkspaceID: of.preset.WorkspaceID}, now)
				}
			})
		})
	}
}
