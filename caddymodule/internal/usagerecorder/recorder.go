// Package usagerecorder stores what inference requests have used, from time to time, for all handlers
// of one store.
package usagerecorder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

const (
	// flushInterval is how often usage is stored. A crash loses this much at most.
	flushInterval = 10 * time.Second
	// flushTimeout is the usual one of a Recorder.
	flushTimeout = 5 * time.Second
	// pruneInterval is how often old rows are removed.
	pruneInterval = time.Hour
	// pruneBatch is how many rows are removed in one change.
	pruneBatch = domain.MaxChangeRemoved / 4
)

// Recorder stores the usage of all handlers of one store. Its methods are safe for
// concurrent use. Set flushTimeout before its first use.
type Recorder struct {
	// flushTimeout bounds each step of storing usage: reading rows, storing them, and storing
	// served versions. A slow store then has at least some rows stored each time. It bounds the
	// whole of the last flush, so that a stop is not long.
	flushTimeout time.Duration

	// Ledger has what is not stored yet. Requests are added with Add, and feedback to the ledger.
	Ledger usage.Ledger
	// Sessions has the last request of each session.
	Sessions usage.Sessions
	// Handles makes the handles of requests. It is nil until the store's secret is known.
	Handles atomic.Pointer[usage.Handles]
	served  servedVersions

	mu   sync.Mutex
	uses []*Use // the newest last
	stop func() // ends run and waits for it, nil without uses
	late int    // the requests after the last use since flushLate began, 0 if it does not run

	flushing   sync.Mutex // held to use the fields below
	node       string     // under which rows are stored, empty until the first row
	overflowed int64      // of the ledger, as it was last logged
	lost       int64      // likewise
}

// recorders has the Recorder of each store by the store's name. A process has few stores.
var recorders sync.Map

// Of returns the Recorder of a store. Two of one process would overwrite each other's
// rows. So a request that goes on after the last use keeps the recorder for the next use.
func Of(store string) *Recorder {
	rec, _ := recorders.LoadOrStore(store, &Recorder{flushTimeout: flushTimeout})
	return rec.(*Recorder)
}

// Add sums a request of a use. It may end after the last use, as a stream does after a reload.
// Then it is stored at once, and its client does not wait for that. Many such requests are
// stored together.
func (rec *Recorder) Add(use *Use, used *usage.Request) {
	rec.Ledger.Add(used)
	if used.Preset != "" && used.Version > 0 {
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
func (rec *Recorder) flushLate(use *Use) {
	release := hold(use.Store)
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
		use.Logger.Error("closing the store failed", zap.Error(err))
	}
}

// Use is how one handler uses a Recorder.
type Use struct {
	Store               domain.Store
	KeepHours, KeepDays time.Duration
	Logger              *zap.Logger
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

// Start adds a use. The first one begins to store usage from time to time. Since the use before it,
// a backup may have replaced the store.
func (rec *Recorder) Start(use *Use) {
	use.release = hold(use.Store)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.uses = append(rec.uses, use); len(rec.uses) > 1 {
		return
	}
	rec.served.forget()
	rec.Handles.Store(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	rec.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		rec.run(ctx)
	}()
}

// End removes a use. The last one stores what is not stored yet. The error is that of closing
// the store.
func (rec *Recorder) End(use *Use) error {
	rec.mu.Lock()
	rec.uses = slices.DeleteFunc(rec.uses, func(other *Use) bool { return other == use })
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

// flushLast stores what is not stored yet, after the last use has ended. It forgets the rows that are
// stored, because a backup may replace the Store before the next use. Each step has half of the time,
// so that slow reads leave some for writes. flushLast logs its error.
func (rec *Recorder) flushLast(use *Use) error {
	ctx, cancel := context.WithTimeout(context.Background(), rec.flushTimeout)
	defer cancel()
	err := rec.flushSteps(ctx, use, rec.flushTimeout/2)
	if err != nil {
		use.Logger.Warn("storing the last usage failed; it may be lost", zap.Error(err))
	}
	rec.Ledger.Forget()
	return err
}

// newest returns the use that was added last, nil for none.
func (rec *Recorder) newest() *Use {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.uses) == 0 {
		return nil
	}
	return rec.uses[len(rec.uses)-1]
}

// run stores usage and removes old rows until ctx ends.
func (rec *Recorder) run(ctx context.Context) {
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
			_ = rec.Flush(ctx, use) // which logs
			if now.Sub(pruned) < pruneInterval {
				continue
			}
			pruned = now
			if err := rec.prune(ctx, use, now); err != nil && ctx.Err() == nil {
				use.Logger.Warn("removing old usage failed; will try again", zap.Error(err), zap.Duration("after", pruneInterval))
			}
		}
	}
}

// Flush stores the rows that changed, and when versions were served. Rows that cannot be
// stored wait for the next time. Flush logs its error.
func (rec *Recorder) Flush(ctx context.Context, use *Use) error {
	err := rec.flushSteps(ctx, use, rec.flushTimeout)
	if err != nil {
		use.Logger.Warn("storing usage failed; will try again", zap.Error(err), zap.Duration("after", flushInterval))
	}
	return err
}

// flushSteps is flush with a timeout for each step. It does not log its error.
func (rec *Recorder) flushSteps(ctx context.Context, use *Use, timeout time.Duration) error {
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
		step(func(ctx context.Context) error { return rec.served.flush(ctx, use.Store) }),
	)
	if overflowed := rec.Ledger.Overflowed(); overflowed > rec.overflowed {
		use.Logger.Warn("there are more series of usage than are kept apart: the rest is summed as other", zap.Int64("requests", overflowed-rec.overflowed))
		rec.overflowed = overflowed
	}
	if lost := rec.Ledger.Lost(); lost > rec.lost {
		use.Logger.Warn("there is no room for more series of usage: requests are not counted", zap.Int64("requests", lost-rec.lost))
		rec.lost = lost
	}
	return err
}

// take returns the rows to store.
func (rec *Recorder) take(ctx context.Context, use *Use) (rows []domain.UsageRow, err error) {
	if !rec.Ledger.Pending() {
		return nil, nil
	}
	err = use.Store.View(ctx, func(r domain.Reader) error {
		if rec.node == "" {
			rec.node = use.Store.Node() // of the store that is open now
		}
		rows, err = rec.Ledger.Take(func(id domain.UsageID) ([]byte, error) {
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
func (rec *Recorder) store(ctx context.Context, use *Use, rows []domain.UsageRow) error {
	for len(rows) > 0 {
		batch := firstBatch(rows)
		if err := rec.put(ctx, use, batch); err != nil {
			return err
		}
		rec.Ledger.Stored(batch)
		rows = rows[len(batch):]
	}
	return nil
}

// put stores rows in one change. It leaves out those of workspaces that are deleted.
func (rec *Recorder) put(ctx context.Context, use *Use, rows []domain.UsageRow) error {
	return use.Store.Update(ctx, func(tx domain.Tx) error {
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
func (rec *Recorder) keep(use *Use) (hours, days time.Duration) {
	hours, days = use.KeepHours, use.KeepDays
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, other := range rec.uses {
		hours, days = max(hours, other.KeepHours), max(days, other.KeepDays)
	}
	return hours, days
}

// prune removes the rows that are older than any use keeps them.
func (rec *Recorder) prune(ctx context.Context, use *Use, now time.Time) error {
	keepHours, keepDays := rec.keep(use)
	for day, keep := range map[bool]time.Duration{false: keepHours, true: keepDays} {
		old := domain.UsageRange{Day: day, To: now.Add(-keep)}
		for more := true; more; {
			var rows []domain.UsageRow
			err := use.Store.View(ctx, func(r domain.Reader) error {
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
			err = use.Store.Update(ctx, func(tx domain.Tx) error {
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

// openHandles makes the handles of the store's secret. Without them answers have no handle. The
// secret changes when the store is replaced, as by a backup.
func (rec *Recorder) openHandles(ctx context.Context, use *Use) {
	limited, cancel := context.WithTimeout(ctx, rec.flushTimeout)
	defer cancel()
	secret, err := usage.EnsureFeedbackSecret(limited, use.Store)
	switch {
	case err == nil:
		rec.Handles.Store(usage.NewHandles(secret))
	case rec.Handles.Load() == nil && ctx.Err() == nil:
		use.Logger.Warn("preparing feedback failed; will try again", zap.Error(err), zap.Duration("after", flushInterval))
	}
}

// Errors of feedback.
var (
	ErrNotMeasured    = &domain.Error{Kind: domain.Conflict, Message: "Feedback is not taken, because usage is not measured: the server's configuration has no usage block"}
	ErrRequestUnknown = &domain.Error{Kind: domain.NotFound, Message: "The request_id belongs to no request with this preset"}
	ErrRequestOld     = &domain.Error{Kind: domain.NotFound, Message: "The request_id belongs to a request of more than 24 hours ago"}
	ErrSessionUnknown = &domain.Error{Kind: domain.NotFound, Message: "This server has not answered the session with this preset in the last 24 hours, or has forgotten it"}
)

// Answered returns the request that feedback on a preset is for.
func (rec *Recorder) Answered(presetID, requestID, sessionID string, now time.Time) (usage.Answered, error) {
	if rec.newest() == nil {
		return usage.Answered{}, ErrNotMeasured
	}
	if sessionID != "" {
		of, ok := rec.Sessions.Latest(presetID, sessionID, now)
		if !ok {
			return of, ErrSessionUnknown
		}
		return of, nil
	}
	handles := rec.Handles.Load()
	if handles == nil {
		return usage.Answered{}, domain.ErrUnavailable // as the store is
	}
	of, err := handles.Read(requestID, now)
	switch {
	case errors.Is(err, usage.ErrHandleOld):
		return of, ErrRequestOld
	case err != nil || of.Key.PresetID != presetID:
		return of, ErrRequestUnknown
	}
	return of, nil
}
