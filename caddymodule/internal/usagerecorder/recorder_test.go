package usagerecorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// recordedStore is a real store, and a test may break its writes.
type recordedStore struct {
	domain.Store
	node     string
	updating func() // called before an Update, if it is not nil
	before   error  // of an Update that changes nothing
	after    error  // of an Update that made its change
}

func (s *recordedStore) Node() string { return s.node }

func (s *recordedStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	if s.updating != nil {
		s.updating()
	}
	if s.before != nil {
		return s.before
	}
	return errors.Join(s.Store.Update(ctx, fn), s.after)
}

// recorded is a store with one workspace, and what recorders do with it.
type recorded struct {
	t         *testing.T
	store     *recordedStore
	workspace domain.Workspace
	logs      *observer.ObservedLogs
	use       *Use
}

func newRecorded(t *testing.T) *recorded {
	t.Helper()
	store, err := badger.Open(filepath.Join(t.TempDir(), "store"), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	core, logs := observer.New(zap.DebugLevel)
	r := &recorded{t: t, store: &recordedStore{Store: store, node: store.Node()}, logs: logs}
	r.use = &Use{
		Store: r.store, KeepHours: 35 * 24 * time.Hour, KeepDays: 400 * 24 * time.Hour, Logger: zap.New(core),
	}
	r.workspace = domain.Workspace{ID: uuid.NewString(), Name: "first", Slug: "first", IOLoggingAPIKeyIDs: []byte("null")}
	if err := store.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(r.workspace) }); err != nil {
		t.Fatal(err)
	}
	return r
}

// recorder returns a recorder that stores nothing by itself.
func (r *recorded) recorder() *Recorder {
	return &Recorder{flushTimeout: flushTimeout, uses: []*Use{r.use}}
}

// request adds one request of a preset to a recorder.
func (r *recorded) request(rec *Recorder, preset string, start time.Time) {
	id := uuid.NewSHA1(uuid.Nil, []byte(preset)).String()
	rec.Add(r.use, &usage.Request{WorkspaceID: r.workspace.ID, PresetID: id, Preset: preset, Version: 1, Status: 200, Start: start, FirstContent: -1})
}

// Flush stores what a recorder has.
func (r *recorded) flush(rec *Recorder) {
	r.t.Helper()
	if err := rec.Flush(r.t.Context(), r.use); err != nil {
		r.t.Error(err)
	}
}

// has compares the sums of hours and of days with the number of requests.
func (r *recorded) has(want int) {
	r.t.Helper()
	for _, step := range []usage.Step{usage.Hour, usage.Day} {
		now := time.Now()
		q := usage.Query{From: now.AddDate(0, 0, -1).Truncate(24 * time.Hour), To: now.Add(time.Hour), Step: step, By: usage.ByModel, Scope: usage.OfWorkspace, Now: now}
		var sums struct {
			Data struct {
				Series []struct{ Total struct{ Requests int } }
			}
		}
		err := r.store.View(r.t.Context(), func(reader domain.Reader) error {
			of := domain.UsageRange{WorkspaceID: r.workspace.ID, Day: step == usage.Day, From: q.From, To: q.To}
			collected, err := q.Collect(reader.UsageRows(of))
			if err != nil {
				return err
			}
			return json.Unmarshal(collected.JSON(), &sums)
		})
		if err != nil {
			r.t.Fatal(err)
		}
		got := 0
		for _, s := range sums.Data.Series {
			got += s.Total.Requests
		}
		if got != want {
			r.t.Errorf("by %v: got %d requests, want %d", step, got, want)
		}
	}
}

// TestUsageIsCountedOnce breaks the storing of usage in several ways. Each request counts
// once, as soon as the store works again.
func TestUsageIsCountedOnce(t *testing.T) {
	r := newRecorded(t)
	rec := r.recorder()
	now := time.Now()
	flush := func() { _ = rec.Flush(t.Context(), r.use) }
	r.request(rec, "a", now)
	flush()
	r.has(1)

	r.store.before = domain.ErrUnavailable
	r.request(rec, "a", now)
	flush()
	r.request(rec, "a", now)
	r.request(rec, "b", now)
	flush()
	r.has(1)
	if got := r.logs.FilterMessageSnippet("storing usage failed").Len(); got != 2 {
		t.Errorf("got %d warnings, want one for each failure", got)
	}
	r.store.before = nil
	flush()
	r.has(4)

	r.store.after = domain.ErrUnknown // the change was made
	r.request(rec, "b", now)
	flush()
	r.has(5)
	r.request(rec, "b", now)
	flush()
	r.store.after = nil
	flush()
	r.has(6)
	r.store.before = domain.ErrUnavailable // nothing changed, so nothing is written
	flush()
	if got := r.logs.FilterMessageSnippet("storing usage failed").Len(); got != 4 {
		t.Errorf("got %d warnings, want none for a flush without changes", got-4)
	}
	r.store.before = nil

	// After a crash another process goes on with the rows.
	r.request(rec, "a", now)
	next := r.recorder()
	r.request(next, "a", now)
	r.flush(next)
	r.has(7)

	// A workspace that was deleted does not hinder the others.
	gone := *r
	gone.workspace.ID = uuid.NewString()
	gone.request(next, "a", now)
	r.request(next, "z", now)
	r.flush(next)
	r.has(8)
}

// slowStore answers so many reads of rows. After them a read takes all the time that is left.
// Writes must have a later deadline, and then take as long as they need.
type slowStore struct {
	domain.Store
	fast            int
	reading, latest time.Time // deadlines: of the latest reads, and of all
}

func (s *slowStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	s.latest, _ = ctx.Deadline()
	if !s.latest.After(s.reading) {
		return context.DeadlineExceeded
	}
	return s.Store.Update(context.WithoutCancel(ctx), fn)
}

func (s *slowStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	s.reading, _ = ctx.Deadline()
	return s.Store.View(context.WithoutCancel(ctx), func(r domain.Reader) error { return fn(slowReader{r, ctx, s}) })
}

type slowReader struct {
	domain.Reader
	ctx   context.Context
	store *slowStore
}

func (r slowReader) Usage(id domain.UsageID, node string) ([]byte, error) {
	if r.store.fast--; r.store.fast < 0 {
		<-r.ctx.Done()
		return nil, r.ctx.Err()
	}
	return r.Reader.Usage(id, node)
}

// TestUsageOfSlowReads has too little time to read all rows. Those that were read are stored.
func TestUsageOfSlowReads(t *testing.T) {
	tier.Slow(t)
	r := newRecorded(t)
	store := &slowStore{Store: r.store, fast: 4} // the rows of an hour and a day, of two presets
	r.use.Store = store
	rec := r.recorder()
	rec.flushTimeout = time.Millisecond
	now := time.Now()
	for _, preset := range []string{"a", "b", "c"} {
		r.request(rec, preset, now)
	}
	if err := rec.Flush(t.Context(), r.use); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want that of a read", err)
	}
	r.has(2)
	store.fast = 2
	r.flush(rec)
	r.has(3)

	for _, preset := range []string{"d", "e", "f"} {
		r.request(rec, preset, now)
	}
	rec.flushTimeout = time.Second
	store.fast = 4
	if err := rec.flushLast(r.use); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the last flush: got error %v, want that of a read", err)
	}
	r.has(5)
	if more := store.latest.Sub(store.reading); more > rec.flushTimeout/2 {
		t.Errorf("the last flush goes on for %v after its reads, want half of its time at most", more)
	}
}

// heldStore counts those who hold it. Nobody else has it open.
type heldStore struct {
	domain.Store
	t    *testing.T
	held atomic.Int32
	all  atomic.Int32 // who held it ever
}

func (s *heldStore) Hold() (release func() error, err error) {
	s.held.Add(1)
	s.all.Add(1)
	return func() error {
		s.held.Add(-1)
		return errors.New("of closing")
	}, nil
}

func (s *heldStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	if s.held.Load() == 0 {
		s.t.Error("a view of a store that is closed")
	}
	return s.Store.View(ctx, fn)
}

func (s *heldStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	if s.held.Load() == 0 {
		s.t.Error("a change of a store that is closed")
	}
	return s.Store.Update(ctx, fn)
}

// TestUsageIsStoredAtTheEnd ends a use after the store's guest, which does not hold the store any
// more. A request that ends even later is stored, too. It adds to what others stored meanwhile.
func TestUsageIsStoredAtTheEnd(t *testing.T) {
	r := newRecorded(t)
	store := &heldStore{Store: r.store, t: t}
	r.use.Store = store
	now := time.Now()
	rec := Recorder{flushTimeout: flushTimeout}
	rec.Start(r.use)
	r.request(&rec, "a", now)
	if err := rec.End(r.use); err == nil || store.held.Load() != 0 {
		t.Errorf("got error %v and %d holders, want the error of closing the store", err, store.held.Load())
	}
	r.has(1)

	other := *r
	other.use = &Use{Store: r.store, Logger: zap.NewNop()}
	next := other.recorder()
	other.request(next, "a", now)
	other.flush(next)
	r.has(2)

	r.request(&rec, "a", now)
	closed := func() bool { return r.logs.FilterMessage("closing the store failed").Len() > 0 }
	if !wait.Eventually(closed) || store.held.Load() != 0 {
		t.Errorf("%d still hold the store", store.held.Load())
	}
	r.has(3)
}

// awayStore counts the attempts to change it, which fail.
type awayStore struct {
	domain.Store
	updates atomic.Int32
}

func (*awayStore) View(context.Context, func(domain.Reader) error) error {
	return domain.ErrUnavailable
}

func (s *awayStore) Update(context.Context, func(domain.Tx) error) error {
	s.updates.Add(1)
	return domain.ErrUnavailable
}

// TestUsageIsStoredInIntervals has a store that is away, so each interval tries again.
func TestUsageIsStoredInIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(awayStore)
		use := &Use{Store: store, Logger: zap.NewNop()}
		rec := Recorder{flushTimeout: flushTimeout}
		rec.Start(use)
		rec.Add(use, &usage.Request{WorkspaceID: "w", Preset: "a", Version: 1, Start: time.Now()})
		for interval := range int32(3) {
			time.Sleep(flushInterval)
			synctest.Wait()
			if got := store.updates.Load(); got != interval+1 { // of the versions that were served
				t.Errorf("got %d changes after %d intervals", got, interval+1)
			}
		}
		_ = rec.End(use)
	})
}

// TestRecorderGoesOn has a recorder that a request still uses after the last use. The next use has
// the same recorder. A backup may have replaced the store in between.
func TestRecorderGoesOn(t *testing.T) {
	r := newRecorded(t)
	rec := Of(t.Name())
	rec.Start(r.use)
	now := time.Now()
	r.request(rec, "a", now)
	if err := rec.End(r.use); err != nil {
		t.Fatal(err)
	}
	r.has(1)
	runtime.GC()
	if Of(t.Name()) != rec || Of(t.Name()+"-other") == rec {
		t.Fatal("want the recorder that is in use, and another one for another store")
	}
	rec.Handles.Store(usage.NewHandles(domain.FeedbackSecret{1}))
	handles := rec.Handles.Load()

	other := newRecorded(t)
	rec.Start(other.use)
	if !wait.Eventually(func() bool { got := rec.Handles.Load(); return got != nil && got != handles }) {
		t.Error("the handles are still those of the first store")
	}
	r.request(rec, "a", now) // the same preset in the other store
	rec.served.mu.Lock()
	if len(rec.served.fresh) != 1 {
		t.Error("the version counts as served in the other store, too")
	}
	rec.served.mu.Unlock()
	other.request(rec, "a", now)
	if err := rec.End(other.use); err != nil {
		t.Error(err)
	}
	other.has(1)
}

// TestUsageOfLateRequests has requests after the last use while an earlier one is being stored.
// They are stored together. A failure is not repeated for each.
func TestUsageOfLateRequests(t *testing.T) {
	r := newRecorded(t)
	store := &heldStore{Store: r.store, t: t}
	r.use.Store = store
	rec := Recorder{flushTimeout: time.Minute}
	requests := func() {
		t.Helper()
		all, closed := store.all.Load(), r.logs.FilterMessage("closing the store failed").Len()
		storing, resume := make(chan struct{}), make(chan struct{})
		r.store.updating = sync.OnceFunc(func() { close(storing); <-resume })
		r.request(&rec, "a", time.Now())
		<-storing
		for range 3 {
			r.request(&rec, "a", time.Now())
		}
		close(resume)
		if !wait.Eventually(func() bool {
			return r.logs.FilterMessage("closing the store failed").Len() > closed && store.held.Load() == 0
		}) {
			t.Fatal("the store is still held")
		}
		if got := store.all.Load() - all; got != 1 {
			t.Errorf("%d flushes held the store, want one for all requests", got)
		}
	}
	requests()
	r.has(4)
	r.store.before = domain.ErrUnavailable
	requests()
	r.has(4)
	if got := r.logs.FilterMessage("storing the last usage failed; it may be lost").Len(); got != 1 {
		t.Errorf("got %d warnings, want one for all requests", got)
	}
	if got := r.logs.FilterMessageSnippet("will try again").Len(); got > 0 {
		t.Errorf("%d warnings promise another try", got)
	}
	r.store.before = nil
	requests()
	r.has(12)
}

// TestUsageOfNodes has two nodes write to one store.
func TestUsageOfNodes(t *testing.T) {
	r := newRecorded(t)
	now := time.Now()
	for i := range 2 {
		r.store.node = uuid.NewString()
		rec := r.recorder()
		for range i + 1 {
			r.request(rec, "a", now)
		}
		r.flush(rec)
	}
	r.has(3)
}

// TestUsageOfManyPresets stores more rows at once than one change can have.
func TestUsageOfManyPresets(t *testing.T) {
	r := newRecorded(t)
	rec := r.recorder()
	const presets = domain.MaxChangeObjects
	for i := range presets {
		r.request(rec, fmt.Sprint("p", i), time.Now())
	}
	r.flush(rec)
	r.has(presets)
}

// TestUsageOverflow has more series than a recorder keeps apart.
func TestUsageOverflow(t *testing.T) {
	r := newRecorded(t)
	rec := r.recorder()
	id := uuid.NewString()
	for i := range usage.MaxSeries + 10 {
		rec.Ledger.Add(&usage.Request{WorkspaceID: r.workspace.ID, PresetID: id, Preset: "a", Version: i, Start: time.Now(), FirstContent: -1})
	}
	for range 2 {
		r.flush(rec)
	}
	r.has(usage.MaxSeries + 10)
	if got := r.logs.FilterMessageSnippet("summed as other").Len(); got != 1 {
		t.Errorf("got %d warnings, want one", got)
	}
}

// TestUsageThatIsLost has requests to more presets than there is any room for.
func TestUsageThatIsLost(t *testing.T) {
	r := newRecorded(t)
	rec := r.recorder()
	for i := range usage.MaxSeries {
		rec.Ledger.Add(&usage.Request{WorkspaceID: r.workspace.ID, Version: i, Start: time.Now(), FirstContent: -1})
	}
	const more = usage.MaxSeries / 5
	for i := range more {
		r.request(rec, fmt.Sprint("p", i), time.Now())
	}
	for range 2 {
		rec.Flush(t.Context(), r.use)
	}
	entries := r.logs.FilterMessageSnippet("are not counted").All()
	if len(entries) != 1 {
		t.Fatalf("got %d warnings of lost requests, want one", len(entries))
	}
	lost, _ := entries[0].ContextMap()["requests"].(int64)
	r.has(usage.MaxSeries + more - int(lost))
	if lost == 0 {
		t.Error("the warning names no lost requests")
	}
}

// TestUsageIsPruned removes rows that are older than the recorder keeps them.
func TestUsageIsPruned(t *testing.T) {
	r := newRecorded(t)
	rec := r.recorder()
	now := time.Date(2026, 11, 23, 12, 30, 0, 0, time.UTC)
	for age := range 20 { // of days
		for preset := range 30 { // which makes several batches
			r.request(rec, fmt.Sprint("p", preset), now.AddDate(0, 0, -age))
		}
	}
	r.flush(rec)
	rec.uses = nil
	for _, keep := range [][2]time.Duration{{time.Hour, 24 * time.Hour}, {48 * time.Hour, 24 * time.Hour}, {time.Hour, 10 * 24 * time.Hour}} {
		use := *r.use
		use.KeepHours, use.KeepDays = keep[0], keep[1]
		rec.uses = append(rec.uses, &use) // of several sites: what one of them keeps is kept
	}
	for range 2 {
		if err := rec.prune(t.Context(), rec.newest(), now); err != nil {
			t.Fatal(err)
		}
	}
	oldest := map[bool]time.Time{}
	rows := map[bool]int{}
	err := r.store.View(t.Context(), func(reader domain.Reader) error {
		for _, day := range []bool{false, true} {
			oldest[day] = now
			for row, err := range reader.UsageRows(domain.UsageRange{Day: day, To: now}) {
				if err != nil {
					return err
				}
				rows[day]++
				if row.Start.Before(oldest[day]) {
					oldest[day] = row.Start
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range map[bool]time.Time{
		false: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), true: time.Date(2026, 11, 14, 0, 0, 0, 0, time.UTC),
	} {
		if !oldest[day].Equal(want) {
			t.Errorf("day=%v: the oldest row is from %v, want %v", day, oldest[day], want)
		}
	}
	if rows[false] != 2*30 || rows[true] != 10*30 {
		t.Errorf("got %d rows of hours and %d of days, want 60 and 300", rows[false], rows[true])
	}
}
