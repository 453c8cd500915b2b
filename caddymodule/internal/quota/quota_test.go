package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	await "github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
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
	if k.Admit(f.t.Context(), &ticket, c, now) != nil || ticket.Reserve(f.t.Context(), Preset{}, Estimate{Tokens: 1}, now) != nil {
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
	spent(december, 4, 4)
	spent(noon, 8, 8)
	third := f.keeper()
	spend(third, 2, noon)
	if f.pass(third, c, 1, noon) {
		t.Error("the clock that was set back opens the limit again")
	}
	f.flush(third, december)
	spent(noon, 10, 10)
	spent(december, 4, 4)

	ahead := december.AddDate(1, 0, 0)
	spend(third, 6, ahead)
	f.flush(third, ahead)
	spend(third, 3, december)
	f.flush(third, december)
	spent(december, 7, 7)
	spent(ahead, 6, 6)
	if f.pass(third, c, 1, noon) || f.pass(f.keeper(), c, 1, noon) {
		t.Error("a clock that was ahead for some time opens the limit again")
	}
}

// TestSumsEnd has requests of a billion dollars each, whose sum is more than a number holds. It stays full, also in another
// process, and a row in which it became negative is read as full.
func TestSumsEnd(t *testing.T) {
	f := newFixture(t)
	k := f.keeper()
	limited := f.caller(domain.KeyLimits{Limit: new(float64(domain.MaxLimitUSD)), Limits: &domain.Limits{TokensPerDay: domain.MaxLimit}})
	check := func(k *Keeper) {
		t.Helper()
		spent := k.SpentBy(t.Context(), f.store, noon, f.key.ID, f.workspace.ID)
		for _, of := range spent {
			if of.Of(domain.Lifetime) < domain.MaxLimitUSD {
				t.Errorf("got %v, want more than every limit", of)
			}
		}
		if len(spent) != 2 || f.pass(k, limited, 0, noon) {
			t.Error("a request passes")
		}
	}
	for round := range 30 {
		if !f.pass(k, f.caller(domain.KeyLimits{}), domain.MaxLimitUSD, noon) {
			t.Fatal("a request without limits does not pass")
		}
		if round%5 == 4 {
			f.flush(k, noon)
			check(k)
			check(f.keeper())
		}
	}
	of := rowWindow{number: momentOf(noon).windows[daily], amount: amount{tokens: -5, nanos: -1}}
	got, err := decodeRow((&row{windows: [intervals][]rowWindow{{of}}}).encode())
	if want := (amount{tokens: full, nanos: full}); err != nil || got.windows[daily][0].amount != want {
		t.Errorf("a negative sum: got %v, %v, want %v", got.windows, err, want)
	}
}

// TestWrongClocks has nodes spend of one limit whose clocks are wrong. They leave the window of the others as it is, also for
// a node that begins.
func TestWrongClocks(t *testing.T) {
	f := newFixture(t)
	c := f.caller(domain.KeyLimits{Limit: new(10.0), LimitReset: domain.Daily})
	good := f.keeper()
	passed := 0
	for i := range 30 {
		at := noon.Add(time.Duration(i) * time.Minute)
		if f.pass(good, c, 1, at) {
			passed++
		}
		f.flush(good, at)
		for _, wrong := range []time.Time{at.AddDate(0, 0, 1), at.AddDate(0, 0, -2), at.AddDate(30, 0, 0)} {
			k := f.keeper()
			f.pass(k, c, 0.1, wrong)
			f.flush(k, wrong)
		}
		if i%5 == 4 {
			good = f.keeper()
		}
	}
	if passed != 10 {
		t.Errorf("%d requests for a dollar pass a daily limit of 10", passed)
	}
}

// TestFirstRequestsShareRates checks that requests that come at once to a new subject get the same buckets.
func TestFirstRequestsShareRates(t *testing.T) {
	s, source := new(subject), new(domain.Limits)
	limits := domain.Limits{RequestsPerMinute: 1}
	var other *bounds
	got := s.limits(source, func(earlier *bounds) *bounds {
		if other == nil {
			other = newBounds(source, earlier, limits, unlimited)
			s.bounds.Store(other) // of a request that came meanwhile
		}
		return newBounds(source, earlier, limits, unlimited)
	})
	if got != other {
		t.Error("a request has a bucket of its own")
	}
}

// TestCountsInMemory checks that a key of the configuration, whose requests the store does not have, keeps its limit of a day
// until the day ends, and then is forgotten.
func TestCountsInMemory(t *testing.T) {
	f := newFixture(t)
	k := f.keeper()
	c := Caller{KeyID: "\x01\x02", Workspace: &domain.WorkspaceLimits{ID: f.workspace.ID, Limits: &domain.Limits{RequestsPerDay: 3}}}
	for i := range 24 {
		at := noon.Add(time.Duration(i) * time.Hour)
		f.flush(k, at)
		if got, want := f.pass(k, c, 0, at), i < 3 || i >= 12 && i < 15; got != want {
			t.Errorf("at %v: passed %v, want %v", at, got, want)
		}
		f.flush(k, at)
	}
	f.flush(k, noon.Add(37*time.Hour))
	if _, ok := k.subjects.Load(c.KeyID); ok {
		t.Error("the key is not forgotten")
	}
}

// TestDebtIsNotForgotten checks that a key that used the tokens of a quarter of an hour at once is not new after ten minutes.
func TestDebtIsNotForgotten(t *testing.T) {
	f := newFixture(t)
	k := f.keeper()
	c := f.caller(domain.KeyLimits{Limits: &domain.Limits{TokensPerMinute: 100}})
	use := func(at time.Time) bool {
		var ticket Ticket
		if k.Admit(t.Context(), &ticket, c, at) != nil || ticket.Reserve(t.Context(), Preset{}, Estimate{Tokens: 1}, at) != nil {
			return false
		}
		ticket.End(Used{Tokens: 1500, WorkspaceID: f.workspace.ID}, at)
		return true
	}
	use(noon)
	f.flush(k, noon)
	for minutes := range 16 {
		at := noon.Add(time.Duration(minutes+1) * time.Minute)
		f.flush(k, at)
		if got, want := use(at), minutes+1 == 15; got != want {
			t.Errorf("after %d minutes: passed %v, want %v", minutes+1, got, want)
		}
	}
}

// TestRatesDoNotGoBack lets no more through because requests that began earlier end now: those of a key whose body names no
// preset, and those of a preset whose bodies took long.
func TestRatesDoNotGoBack(t *testing.T) {
	f := newFixture(t)
	k := f.keeper()
	c := f.caller(domain.KeyLimits{Limits: &domain.Limits{RequestsPerMinute: 60}})
	passed := 0
	passAll := func(c Caller, p Preset, at time.Time) {
		for {
			var ticket Ticket
			if k.Admit(t.Context(), &ticket, c, at) != nil || ticket.Reserve(t.Context(), p, Estimate{}, at) != nil {
				return
			}
			ticket.End(Used{}, at)
			passed++
		}
	}
	slow := make([]Ticket, 10)
	begin := func(c Caller) {
		for i := range slow {
			slow[i] = Ticket{}
			if err := k.Admit(t.Context(), &slow[i], c, noon); err != nil {
				t.Fatal(err)
			}
		}
		passed = 0
	}
	later := noon.Add(30 * time.Second)
	begin(c)
	passAll(c, Preset{}, noon)
	for i := range slow {
		slow[i].Cancel()
		passAll(c, Preset{}, later)
	}
	if passed != 90 {
		t.Errorf("a key of 60 a minute: %d passed in 30 s, want 90", passed)
	}

	c, p := f.caller(domain.KeyLimits{Limits: &domain.Limits{Concurrent: 100}}), f.preset
	p.Limits = &domain.PresetLimits{RequestsPerMinute: 60}
	begin(c)
	passAll(c, p, noon)
	for i := range slow {
		passAll(c, p, later)
		if slow[i].Reserve(t.Context(), p, Estimate{}, later) == nil {
			passed++
			slow[i].End(Used{}, later)
		}
	}
	if passed != 90 {
		t.Errorf("a preset of 60 a minute: %d passed in 30 s, want 90", passed)
	}
}

// TestEventOncePerLimit tells the limits of a window once each, whatever their kinds, by two nodes, and again when a limit is
// raised.
func TestEventOncePerLimit(t *testing.T) {
	f := newFixture(t)
	var events atomic.Int64
	f.use.Reached = func(ctx context.Context, _ string, once func(domain.Tx) (bool, error)) error {
		var isFirst bool
		err := f.store.Update(ctx, func(tx domain.Tx) (err error) {
			isFirst, err = once(tx)
			return err
		})
		if isFirst {
			events.Add(1)
		}
		return err
	}
	nodes := []*Keeper{f.keeper(), f.keeper()}
	limits := domain.KeyLimits{Limit: new(0.5), LimitReset: domain.Daily}
	want := int64(0)
	reach := func(of domain.KeyLimits, more int64) {
		t.Helper()
		for _, k := range nodes {
			for f.pass(k, f.caller(of), 1, noon) {
			}
			f.pass(k, f.caller(of), 1, noon)
			f.flush(k, noon)
		}
		want += more
		if !await.Eventually(func() bool { return events.Load() == want }) {
			t.Errorf("got %d events, want %d", events.Load(), want)
		}
	}
	reach(limits, 1)
	reach(limits, 0)
	reach(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 1}}, 1)
	reach(domain.KeyLimits{Limit: new(1.5), LimitReset: domain.Daily}, 1)
	reach(limits, 0)
}

// TestUnsureForLong has another node change a row often before one learns whether its change was made.
func TestUnsureForLong(t *testing.T) {
	f := newFixture(t)
	k, other, c := f.keeper(), f.keeper(), f.caller(monthlyLimit(1000))
	f.pass(k, c, 5, noon)
	use := *f.use
	use.Store = &unsureStore{Store: f.store, unsure: true}
	_ = k.store(t.Context(), &use, noon, true)
	for range 40 {
		f.pass(other, c, 1, noon)
		f.flush(other, noon)
	}
	f.flush(k, noon)
	if got := f.keeper().SpentBy(t.Context(), f.store, noon, f.key.ID)[f.key.ID]; got.Of(domain.Monthly) != 45 {
		t.Errorf("got %v, want 45 of the month", got)
	}
}

// failingStore fails to be read once it is let.
type failingStore struct {
	domain.Store
	reads chan struct{}
	fail  chan struct{}
}

func (s *failingStore) View(context.Context, func(domain.Reader) error) error {
	s.reads <- struct{}{}
	<-s.fail
	return domain.ErrUnknown
}

// TestStoreIsUnavailable sends requests of one key while the store cannot be read. The first ones wait for one attempt,
// and later ones do not wait for another.
func TestStoreIsUnavailable(t *testing.T) {
	f := newFixture(t)
	store := &failingStore{f.store, make(chan struct{}, 100), make(chan struct{})}
	f.use.Store = store
	k, c := f.keeper(), f.caller(monthlyLimit(10))
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { f.pass(k, c, 0, noon) })
	}
	store.fail <- struct{}{}
	wait.Wait()
	f.pass(k, c, 0, noon)
	if len(store.reads) != 1 {
		t.Errorf("got %d reads of 21 requests, want 1", len(store.reads))
	}
	k.readAfter.Store(1) // the pause is over
	wait.Go(func() { f.pass(k, c, 0, noon) })
	<-store.reads
	<-store.reads
	if !f.pass(k, c, 0, noon) {
		t.Error("a request does not pass while another reads")
	}
	if got := k.SpentBy(t.Context(), f.store, noon, f.key.ID); len(got) != 1 {
		t.Errorf("got %v of another store", got)
	}
	close(store.fail)
	if got := k.SpentBy(t.Context(), store, noon, f.key.ID); len(got) != 0 {
		t.Errorf("got %v, want nothing of a store that fails", got)
	}
	wait.Wait()
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

// TestSpendingIsBounded sends random requests at once, whose clock steps at random, and stores, crashes and goes on. Their
// estimates are too small or too large. Some never end with their usage known, fail, or do not go to the gateway.
// What was spent in a window is never more than its limit and what was in flight when it was reached. Where no estimate is
// too small, it is more by one request at most.
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
			inFlight, isSafe := 1+random.IntN(30), random.IntN(2) == 0
			now = now.Add(time.Duration(random.Int64N(int64(6*time.Hour))) - time.Hour)
			type request struct {
				cost, estimate float64
				ending         int
			}
			requests := make([]request, inFlight)
			for i := range requests {
				r := request{cost: random.Float64(), estimate: random.Float64(), ending: random.IntN(6)}
				if isSafe {
					r.estimate = max(r.estimate, r.cost)
				}
				requests[i] = r
			}
			var begun, done sync.WaitGroup
			begun.Add(inFlight)
			flying, estimated, largest := 0.0, 0.0, 0.0
			for _, r := range requests {
				done.Go(func() {
					var ticket Ticket
					ok := k.Admit(t.Context(), &ticket, c, now) == nil && ticket.Reserve(t.Context(), Preset{}, Estimate{Tokens: int64(100 * r.estimate), Nanos: nanosOf(r.estimate)}, now) == nil
					used := Used{Tokens: int64(100 * r.cost), Nanos: nanosOf(r.cost), WorkspaceID: f.workspace.ID}
					counts := r.cost
					switch r.ending {
					case 0: // aborted
						used.UnknownTokens, used.UnknownCost = true, true
						counts = max(r.cost, r.estimate)
					case 1: // failed
						used.Tokens, used.Nanos, counts = 0, 0, 0
					case 2: // cancelled
						counts = 0
					}
					if ok {
						mu.Lock()
						flying, estimated, largest = flying+counts, estimated+r.estimate, max(largest, r.estimate)
						mu.Unlock()
					}
					begun.Done()
					begun.Wait() // all are in flight at once
					switch {
					case ok && r.ending == 2:
						ticket.Cancel()
					case ok:
						ticket.End(used, now)
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
			number := s.windowOf(daily, &m).number
			if spent[number]+estimated-largest >= limit && estimated > 0 {
				t.Fatalf("seed %d: %v was spent of %v, and requests passed with estimates of %v", seed, spent[number], limit, estimated)
			}
			isBelow := spent[number] < limit
			spent[number] += flying
			most = max(most, flying)
			if flying > 0 && !isBelow || isSafe && isBelow && spent[number] > limit+1 {
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
					if ticket.IsLimited(of.preset) && ticket.Reserve(ctx, of.preset, Estimate{Tokens: 1000, Nanos: 1000, StatedTokens: 900, StatedNanos: 900}, now) != nil {
						b.Fatal("refused")
					}
					ticket.End(Used{Tokens: 900, Nanos: 900, PresetID: of.preset.ID, WorkspaceID: of.preset.WorkspaceID}, now)
				}
			})
		})
	}
}

// TestOfSeveralAtOnceOnePasses sends requests at once that do not fit together below any limit. One passes. The others get to know that
// they may try again, and the limits are not reached.
func TestOfSeveralAtOnceOnePasses(t *testing.T) {
	f := newFixture(t)
	workspace := *f.workspace
	workspace.Budgets = domain.Budgets{domain.Monthly: {LimitUSD: 1}}
	limits := domain.KeyLimits{Limit: new(1.0), LimitReset: domain.Daily, Limits: &domain.Limits{TokensPerDay: 100, TokensPerMinute: 1000}}
	f.use.Reached = func(context.Context, string, func(domain.Tx) (bool, error)) error {
		t.Error("a limit was told to be reached")
		return nil
	}
	for round := range 300 {
		k := f.keeper()
		c := Caller{KeyID: f.key.ID, Key: &limits, Workspace: &workspace}
		const most = 8
		var begun, done sync.WaitGroup
		begun.Add(most)
		tickets, errs := make([]Ticket, most), make([]error, most)
		for i := range most {
			done.Go(func() {
				errs[i] = k.Admit(t.Context(), &tickets[i], c, noon)
				begun.Done()
				begun.Wait()
				if errs[i] == nil {
					errs[i] = tickets[i].Reserve(t.Context(), Preset{}, Estimate{Tokens: 5000, Nanos: nanosOf(3)}, noon)
				}
			})
		}
		done.Wait()
		passed := 0
		for i, err := range errs {
			refused, isRefused := errors.AsType[*Error](err)
			switch {
			case err == nil:
				passed++
				tickets[i].End(Used{Tokens: 1, Nanos: 1, WorkspaceID: workspace.ID}, noon)
			case !isRefused || !refused.InFlight || refused.RetryAfter != time.Second || !strings.Contains(refused.Error(), "in flight"):
				t.Errorf("got %v, want a refusal for what is in flight", err)
			}
		}
		if passed != 1 {
			t.Fatalf("round %d: %d of %d passed, want one", round, passed, most)
		}
		if !f.pass(k, c, 0, noon) {
			t.Fatal("a request does not pass after the others")
		}
	}
}

// TestStatedMoreThanALimit refuses requests that state more than a whole limit of their key, workspace or preset. They use no limit, and
// one that states as much as the limit passes.
func TestStatedMoreThanALimit(t *testing.T) {
	f := newFixture(t)
	f.use.Reached = func(context.Context, string, func(domain.Tx) (bool, error)) error {
		t.Error("a limit was told to be reached")
		return nil
	}
	workspace := *f.workspace
	workspace.Budgets = domain.Budgets{domain.Monthly: {LimitUSD: 100}}
	free, limited := &domain.KeyLimits{}, &domain.KeyLimits{Limit: new(1.0), Limits: &domain.Limits{TokensPerDay: 1000, TokensPerMinute: 10}}
	for _, of := range []struct {
		scope         Scope
		key           *domain.KeyLimits
		preset        *domain.PresetLimits
		tokens, nanos int64
		message       string
	}{
		{OfKey, limited, nil, 1, 1e9, "Key limit exceeded (total limit): the output that this request allows"},
		{OfKey, limited, nil, 1000, 1, "Rate limit exceeded: 1000 tokens per day for this key: the output"},
		{OfWorkspace, free, nil, 1, 100e9, "Workspace monthly budget of $100 exceeded: the output"},
		{OfPreset, free, &domain.PresetLimits{TokensPerDay: 500}, 500, 1, "Rate limit exceeded: 500 tokens per day for this preset: the output"},
		{OfPreset, free, &domain.PresetLimits{CostPerDay: 5}, 1, 5e9, "Preset daily limit of $5 exceeded: the output"},
	} {
		k, p := f.keeper(), f.preset
		p.Limits = of.preset
		for _, more := range []int64{1, 0} {
			var ticket Ticket
			if err := k.Admit(t.Context(), &ticket, Caller{KeyID: f.key.ID, Key: of.key, Workspace: &workspace}, noon); err != nil {
				t.Fatal(err)
			}
			tokens, nanos := of.tokens, of.nanos
			if tokens > 1 {
				tokens += more
			} else {
				nanos += more
			}
			err := ticket.Reserve(t.Context(), p, Estimate{Tokens: tokens, Nanos: nanos, StatedTokens: tokens, StatedNanos: nanos}, noon)
			if refused, ok := errors.AsType[*Error](err); (more == 1) != ok || ok && (refused.Scope != of.scope || !strings.HasPrefix(refused.Error(), of.message)) {
				t.Errorf("%s, %d tokens and %d nanos: got %v, want %q", of.scope, tokens, nanos, err, of.message)
			}
			ticket.Cancel()
		}
	}
}

// TestReserveOverMidnight has bodies come before and after midnight. Each is checked against what its own day has left.
func TestReserveOverMidnight(t *testing.T) {
	f := newFixture(t)
	k := f.keeper()
	before := time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC)
	after := before.Add(50 * time.Second)
	c := f.caller(domain.KeyLimits{Limit: new(10.0), LimitReset: domain.Daily})
	tickets := make([]Ticket, 100)
	for i := range tickets {
		if err := k.Admit(t.Context(), &tickets[i], c, before); err != nil {
			t.Fatal(err)
		}
	}
	passed := 0
	for f.pass(k, c, 1, after) {
		passed++
	}
	for i := range tickets {
		if tickets[i].Reserve(t.Context(), Preset{}, Estimate{Tokens: 1, Nanos: 1e9}, after) == nil {
			passed++
			tickets[i].End(Used{Tokens: 1, Nanos: 1e9, WorkspaceID: f.workspace.ID}, after)
		}
	}
	if passed != 10 {
		t.Errorf("%d requests for a dollar pass a daily limit of 10", passed)
	}
}

// TestAnswersAreRemembered estimates an answer by the largest recent one.
func TestAnswersAreRemembered(t *testing.T) {
	k := new(Keeper)
	want := func(tokens int64, models []string, at time.Time) {
		t.Helper()
		if got := k.LargestAnswer("key", models, at); got != tokens {
			t.Errorf("at %v: got %d tokens, want %d", at, got, tokens)
		}
	}
	m := []string{"a", "b"}
	want(DefaultAnswer, m, noon)
	k.SeeAnswer("key", m, 100_000, noon)
	k.SeeAnswer("key", m, 3, noon.Add(time.Hour))
	want(100_000, m, noon.Add(23*time.Hour))
	want(DefaultAnswer, m, noon.Add(24*time.Hour))
	want(DefaultAnswer, m[:1], noon)
	want(DefaultAnswer, m, noon.Add(-time.Hour)) // the clock was wrong
	k.SeeAnswer("key", m, 3, noon.Add(24*time.Hour))
	want(minAnswer, m, noon.Add(24*time.Hour))
	for i := range 100_000 {
		k.SeeAnswer(strconv.Itoa(i), m, 1<<40, noon)
	}
	want(DefaultAnswer, m, noon) // its place was taken
}
