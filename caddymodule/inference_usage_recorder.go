package caddymodule

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// flushInterval is how often usage is stored. A crash loses this much at most.
var flushInterval = 10 * time.Second // shorter in tests

const (
	// flushTimeout is the usual one of a usageRecorder.
	flushTimeout = 5 * time.Second
	// pruneInterval is how often old rows are removed.
	pruneInterval = time.Hour
	// pruneBatch is how many rows are removed in one change.
	pruneBatch = domain.MaxChangeRemoved / 4
)

// usageRecorder stores the usage of all handlers of one store. Its methods are safe for
// concurrent use. Set flushTimeout before its first use.
type usageRecorder struct {
	// flushTimeout bounds each step of storing usage: reading rows, storing them, and storing
	// served versions. A slow store then has at least some rows stored each time. It bounds the
	// whole of the last flush, so that a stop is not long.
	flushTimeout time.Duration

	ledger   usage.Ledger
	served   servedVersions
	sessions usage.Sessions
	handles  atomic.Pointer[usage.Handles] // nil until the store's secret is known

	mu   sync.Mutex
	uses []*usageRecording // the newest last
	stop func()            // ends run and waits for it, nil without uses
	late int               // the requests after the last use since flushLate began, 0 if it does not run

	flushing   sync.Mutex // held to use the fields below
	node       string     // under which rows are stored, empty until the first row
	overflowed int64      // of the ledger, as it was last logged
	lost       int64      // likewise
}

// recorders has the usageRecorder of each store by the store's name.
var recorders struct {
	sync.Mutex
	byStore map[string]weak.Pointer[usageRecorder]
}

// recorderOf returns the usageRecorder of a store. Two of one process would overwrite each other's
// rows. So a request that goes on after the last use keeps the recorder for the next use.
func recorderOf(store string) *usageRecorder {
	recorders.Lock()
	defer recorders.Unlock()
	if rec := recorders.byStore[store].Value(); rec != nil {
		return rec
	}
	maps.DeleteFunc(recorders.byStore, func(_ string, p weak.Pointer[usageRecorder]) bool { return p.Value() == nil })
	if recorders.byStore == nil {
		recorders.byStore = make(map[string]weak.Pointer[usageRecorder])
	}
	rec := &usageRecorder{flushTimeout: flushTimeout}
	recorders.byStore[store] = weak.Make(rec)
	return rec
}

// add sums a request of a use. It may end after the last use, as a stream does after a reload.
// Then it is stored at once, and its client does not wait for that. Many such requests are
// stored together.
func (rec *usageRecorder) add(use *usageRecording, used *usage.Request) {
	rec.ledger.Add(used)
	if used.Preset != "" {
		rec.served.add(used)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.uses) > 0 {
		return
	}
	if rec.late++; rec.late == 1 {
		go rec.flushLate(use)
	}
}

// flushLate stores requests after the last use, until there are no more. A failure ends it: what
// is left waits for the next such request, or for the next use.
func (rec *usageRecorder) flushLate(use *usageRecording) {
	release := hold(use.store)
	for late := 1; late > 0; {
		err := rec.flushLast(use)
		rec.mu.Lock()
		if err != nil || len(rec.uses) > 0 || rec.late == late {
			rec.late = 0
		}
		late = rec.late
		rec.mu.Unlock()
	}
	if err := release(); err != nil {
		use.logger.Error("closing the store failed", zap.Error(err))
	}
}

// usageRecording is how one handler uses a usageRecorder.
type usageRecording struct {
	store               domain.Store
	keepHours, keepDays time.Duration
	logger              *zap.Logger
	release             func() error // of the store, which is held from start to end
}

// hold keeps a store open until release is called. Requests hold a store themselves, so without
// a hold each change of a flush would open and close it.
func hold(store domain.Store) (release func() error) {
	if h, ok := store.(engine.Holder); ok {
		if release, err := h.Hold(); err == nil { // or a flush reports it
			return release
		}
	}
	return func() error { return nil }
}

// start adds a use. The first one begins to store usage from time to time. Since the use before it,
// a backup may have replaced the store.
func (rec *usageRecorder) start(use *usageRecording) {
	use.release = hold(use.store)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.uses = append(rec.uses, use); len(rec.uses) > 1 {
		return
	}
	rec.served.forget()
	rec.handles.Store(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	rec.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		rec.run(ctx)
	}()
}

// end removes a use. The last one stores what is not stored yet. The error is that of closing
// the store.
func (rec *usageRecorder) end(use *usageRecording) error {
	rec.mu.Lock()
	rec.uses = slices.DeleteFunc(rec.uses, func(other *usageRecording) bool { return other == use })
	var stop func()
	if len(rec.uses) == 0 {
		stop = rec.stop
	}
	rec.mu.Unlock()
	if stop != nil {
		stop()
		_ = rec.flushLast(use) // which logs
	}
	return use.release()
}

// flushLast stores what is not stored yet, after the last use has ended. A backup may replace the
// store before the next use, so the rows that are stored are forgotten. Each step has half of the time, so that slow reads leave
// some for writes. flushLast logs its error.
func (rec *usageRecorder) flushLast(use *usageRecording) error {
	ctx, cancel := context.WithTimeout(context.Background(), rec.flushTimeout)
	defer cancel()
	err := rec.flushSteps(ctx, use, rec.flushTimeout/2)
	if err != nil {
		use.logger.Warn("storing the last usage failed; it may be lost", zap.Error(err))
	}
	rec.ledger.Forget()
	return err
}

// newest returns the use that was added last, nil for none.
func (rec *usageRecorder) newest() *usageRecording {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.uses) == 0 {
		return nil
	}
	return rec.uses[len(rec.uses)-1]
}

// run stores usage and removes old rows until ctx ends.
func (rec *usageRecorder) run(ctx context.Context) {
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	if use := rec.newest(); use != nil {
		rec.openHandles(ctx, use)
	}
	var pruned time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			use := rec.newest()
			if use == nil {
				return
			}
			rec.openHandles(ctx, use)
			_ = rec.flush(ctx, use) // which logs
			if now.Sub(pruned) < pruneInterval {
				continue
			}
			pruned = now
			if err := rec.prune(ctx, use, now); err != nil && ctx.Err() == nil {
				use.logger.Warn("removing old usage failed; will try again", zap.Error(err), zap.Duration("after", pruneInterval))
			}
		}
	}
}

// flush stores the rows that changed, and when versions were served. Rows that cannot be
// stored wait for the next time. flush logs its error.
func (rec *usageRecorder) flush(ctx context.Context, use *usageRecording) error {
	err := rec.flushSteps(ctx, use, rec.flushTimeout)
	if err != nil {
		use.logger.Warn("storing usage failed; will try again", zap.Error(err), zap.Duration("after", flushInterval))
	}
	return err
}

// flushSteps is flush with a timeout for each step. It does not log its error.
func (rec *usageRecorder) flushSteps(ctx context.Context, use *usageRecording, timeout time.Duration) error {
	rec.flushing.Lock()
	defer rec.flushing.Unlock()
	step := func(do func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return do(limited)
	}
	var rows []domain.UsageRow
	err := errors.Join(
		step(func(ctx context.Context) (err error) {
			rows, err = rec.take(ctx, use)
			return err
		}),
		step(func(ctx context.Context) error { return rec.store(ctx, use, rows) }),
		step(func(ctx context.Context) error { return rec.served.flush(ctx, use.store) }),
	)
	if overflowed := rec.ledger.Overflowed(); overflowed > rec.overflowed {
		use.logger.Warn("there are more series of usage than are kept apart: the rest is summed as other", zap.Int64("requests", overflowed-rec.overflowed))
		rec.overflowed = overflowed
	}
	if lost := rec.ledger.Lost(); lost > rec.lost {
		use.logger.Warn("there is no room for more series of usage: requests are not counted", zap.Int64("requests", lost-rec.lost))
		rec.lost = lost
	}
	return err
}

// take returns the rows to store.
func (rec *usageRecorder) take(ctx context.Context, use *usageRecording) (rows []domain.UsageRow, err error) {
	if !rec.ledger.Pending() {
		return nil, nil
	}
	err = use.store.View(ctx, func(r domain.Reader) error {
		if rec.node == "" {
			rec.node = use.store.Node() // of the store that is open now
		}
		rows, err = rec.ledger.Take(func(id domain.UsageID) ([]byte, error) {
			content, err := r.Usage(id, rec.node)
			if errors.Is(err, domain.ErrNotFound) {
				return nil, nil
			}
			return content, err
		})
		return err
	})
	return rows, err
}

// store stores rows in batches, and tells the ledger.
func (rec *usageRecorder) store(ctx context.Context, use *usageRecording, rows []domain.UsageRow) error {
	for len(rows) > 0 {
		batch := firstBatch(rows)
		if err := rec.put(ctx, use, batch); err != nil {
			return err
		}
		rec.ledger.Stored(batch)
		rows = rows[len(batch):]
	}
	return nil
}

// put stores rows in one change. It leaves out those of workspaces that are deleted.
func (rec *usageRecorder) put(ctx context.Context, use *usageRecording, rows []domain.UsageRow) error {
	return use.store.Update(ctx, func(tx domain.Tx) error {
		for _, row := range rows {
			row.Node = rec.node
			if err := tx.PutUsage(row); err != nil && !errors.Is(err, domain.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// rowCost is how many bytes of domain.MaxChangeSize a row needs beside its content.
const rowCost = 1 << 10

// firstBatch returns as many rows as one change can have.
func firstBatch(rows []domain.UsageRow) []domain.UsageRow {
	size := 0
	for i, row := range rows {
		size += len(row.Content) + rowCost
		if i == domain.MaxChangeObjects || i > 0 && size > domain.MaxChangeSize {
			return rows[:i]
		}
	}
	return rows
}

// keep returns the longest time for which use or another use keeps rows of hours, and rows of days.
func (rec *usageRecorder) keep(use *usageRecording) (hours, days time.Duration) {
	hours, days = use.keepHours, use.keepDays
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, other := range rec.uses {
		hours, days = max(hours, other.keepHours), max(days, other.keepDays)
	}
	return hours, days
}

// prune removes the rows that are older than any use keeps them.
func (rec *usageRecorder) prune(ctx context.Context, use *usageRecording, now time.Time) error {
	keepHours, keepDays := rec.keep(use)
	for day, keep := range map[bool]time.Duration{false: keepHours, true: keepDays} {
		old := domain.UsageRange{Day: day, To: now.Add(-keep)}
		for more := true; more; {
			var rows []domain.UsageRow
			err := use.store.View(ctx, func(r domain.Reader) error {
				rows = rows[:0]
				for row, err := range r.UsageRows(old) {
					if err != nil {
						return err
					}
					row.Content = nil
					if rows = append(rows, row); len(rows) == pruneBatch {
						break
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if more = len(rows) == pruneBatch; len(rows) == 0 {
				continue
			}
			err = use.store.Update(ctx, func(tx domain.Tx) error {
				for _, row := range rows {
					if err := tx.RemoveUsage(row.UsageID, row.Node); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
