// Package quota counts what inference requests of keys, workspaces and presets use, and decides whether
// their limits let a request through.
//
// Requests count in memory, without a lock that they all share. The sums of a window outlive the process,
// because a Keeper adds them to rows of the store from time to time. The rows of a store are the same for all its nodes,
// so each knows what the others have used, as of their last change. Rates and requests in flight are
// those of the process, but a rate also pays for what other nodes have told.
package quota

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Keeper keeps the sums of one store in one process, for all its handlers. It outlives reloads. Its zero
// value is ready. It is safe for concurrent use.
type Keeper struct {
	subjects sync.Map // *subject by id
	answers  answers

	mu     sync.Mutex
	uses   []*Use      // the newest last
	stop   func()      // ends the storing, nil without uses
	last   *Use        // the one that ended last
	isLate bool        // a change after it is about to begin
	ended  atomic.Bool // there is no use any more

	flushing sync.Mutex
	unsure   []*batch // changes that may have been made
	node     uint64   // of this process in rows, zero before its first change
	changes  int64    // the number of its latest one

	readAfter atomic.Int64 // when the store is read after a failure, in nanoseconds since 1970; zero without one

	seenCost atomic.Bool // the gateway told a cost

	workspaces sync.Map // *domain.WorkspaceLimits by id or slug, of those that have limits
}

// Caller is who sends a request.
type Caller struct {
	// KeyID is empty without a key.
	KeyID string
	// Key is nil for none. It must stay the same while the limits do.
	Key *domain.KeyLimits
	// Workspace is where the caller acts, nil if it is not known. It must stay the same while its limits do.
	Workspace *domain.WorkspaceLimits
}

// Remember returns the limits of a workspace, which is named by its id or slug. They are those given, or, while the store is
// away, those that were given last: a reload meanwhile drops no budget.
func (k *Keeper) Remember(name string, w *domain.WorkspaceLimits, isAway bool) *domain.WorkspaceLimits {
	last, _ := k.workspaces.Load(name)
	known, _ := last.(*domain.WorkspaceLimits)
	switch {
	case isAway:
		return known
	case w == known:
	case w == nil || w.Limits == nil && len(w.Budgets) == 0:
		if known != nil {
			k.workspaces.Delete(name)
		}
	default:
		k.workspaces.Store(name, w)
	}
	return w
}

// keySource is the source of the bounds of a key.
type keySource struct {
	key       *domain.KeyLimits
	workspace *domain.Limits
}

var unlimited = [intervals]float64{-1, -1, -1, -1}

// boundsOf returns the bounds of a key, and false if it has none.
func (c Caller) boundsOf(s *subject) *bounds {
	source := keySource{key: c.Key}
	if c.Workspace != nil {
		source.workspace = c.Workspace.Limits
	}
	return s.limits(source, func(earlier *bounds) *bounds {
		spending, limits := unlimited, source.workspace
		if key := c.Key; key != nil {
			limits = key.Limits.Or(limits)
			if key.Limit != nil {
				spending[placeOf(key.LimitReset)] = *key.Limit
			}
		}
		var l domain.Limits
		if limits != nil {
			l = *limits
		}
		return newBounds(source, earlier, l, spending)
	})
}

// placeOf returns the place of an interval, which is lifetime for an empty one.
func placeOf(interval domain.Interval) int {
	for i, of := range domain.Intervals {
		if of == interval {
			return i
		}
	}
	return lifetime
}

// isLimited reports whether a limit holds for the caller's key alone.
func (c Caller) isLimited() bool {
	return c.KeyID != "" && (c.Key != nil && (c.Key.Limit != nil || c.Key.Limits != nil) || c.Workspace != nil && c.Workspace.Limits != nil)
}

// workspaceBounds returns the bounds of a workspace.
func workspaceBounds(w *domain.WorkspaceLimits, s *subject) *bounds {
	return s.limits(w, func(earlier *bounds) *bounds { return newBounds(w, earlier, domain.Limits{}, spendingOf(w)) })
}

// spendingOf returns the budgets of a workspace as newBounds takes them.
func spendingOf(w *domain.WorkspaceLimits) [intervals]float64 {
	spending := unlimited
	for i, interval := range domain.Intervals {
		if budget, ok := w.Budgets[interval]; ok {
			spending[i] = budget.LimitUSD
		}
	}
	return spending
}

// Preset is what a request names. Its zero value is no preset.
type Preset struct {
	ID, WorkspaceID string
	Limits          *domain.PresetLimits
}

func (p Preset) boundsOf(s *subject) *bounds {
	return s.limits(p.Limits, func(earlier *bounds) *bounds {
		spending := unlimited
		if p.Limits.CostPerDay > 0 {
			spending[daily] = p.Limits.CostPerDay
		}
		return newBounds(p.Limits, earlier, domain.Limits{RequestsPerMinute: p.Limits.RequestsPerMinute, TokensPerDay: p.Limits.TokensPerDay}, spending)
	})
}

// forgotten is the number of users of a subject that is forgotten.
const forgotten = math.MinInt64 / 2

// hold returns the subject of an id, which stays until release.
func (k *Keeper) hold(id string, scope Scope, workspace string, now time.Time) *subject {
	for {
		found, ok := k.subjects.Load(id)
		if !ok {
			found, _ = k.subjects.LoadOrStore(id, &subject{id: id, scope: scope, workspace: workspace})
		}
		s := found.(*subject)
		if s.users.Add(1) > 0 {
			if seconds := now.Unix(); s.lastUse.Load() != seconds {
				s.lastUse.Store(seconds)
			}
			return s
		}
		s.users.Add(-1)
		k.subjects.CompareAndDelete(id, found)
	}
}

func (s *subject) release() { s.users.Add(-1) }

const (
	// readTimeout bounds the reading of a row for a request.
	readTimeout = 500 * time.Millisecond
	// readPause is how long requests do not read a store that could not be read.
	readPause = 2 * time.Second
)

// read reads what the store has of a subject, once. If the store cannot be read, the windows begin
// with what this process counts, and the next change of the store adds the rest. Requests wait for one
// reading together, and once that has failed, only one of them tries again from time to time.
func (k *Keeper) read(ctx context.Context, s *subject, m *moment) {
	if s.isKept.Load() {
		return
	}
	if k.readAfter.Load() == 0 {
		s.reading.Lock()
	} else if !s.reading.TryLock() {
		return
	}
	defer s.reading.Unlock()
	use := k.newest()
	if use == nil || s.isKept.Load() || time.Now().UnixNano() < k.readAfter.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // a client that leaves is no failure
	defer cancel()
	var r row
	err := use.Store.View(ctx, func(reader domain.Reader) (err error) {
		r, err = readRow(reader, s.id)
		return err
	})
	k.readAfter.Store(0)
	if errors.Is(err, errRow) { // it begins anew with the next change
		s.isKept.Store(true)
		return
	}
	if err != nil {
		k.readAfter.Store(time.Now().Add(readPause).UnixNano())
		use.Logger.Warn("reading what was spent failed: limits begin without it until the store can be read", zap.String("of", string(s.scope)), zap.String("id", s.id), zap.Error(err))
		return
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if !s.isKept.Load() {
		s.keep(&r, m)
	}
}

// SeeCost tells that the gateway told a cost.
func (k *Keeper) SeeCost() {
	if !k.seenCost.Load() {
		k.seenCost.Store(true)
	}
}

// SeenCost reports whether the gateway has told a cost to this process.
func (k *Keeper) SeenCost() bool { return k.seenCost.Load() }

// Spent is what was spent in the current window of each of domain.Intervals, in US dollars.
type Spent [intervals]float64

// Of returns what was spent in an interval, empty for the one that never ends.
func (s Spent) Of(interval domain.Interval) float64 { return s[placeOf(interval)] }

// SpentBy returns what the requests of keys, workspaces and presets have spent, by their ids and without those in
// flight. It lacks those whose sums cannot be read.
func (k *Keeper) SpentBy(ctx context.Context, store domain.Store, now time.Time, ids ...string) map[string]Spent {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	spent := make(map[string]Spent, len(ids))
	_ = store.View(ctx, func(r domain.Reader) error { // the result tells
		for _, id := range ids {
			if of, err := k.Spent(r, id, now); err == nil {
				spent[id] = of
			}
		}
		return nil
	})
	return spent
}

// Spent returns what the requests of the key, workspace or preset of an id have spent, without those
// in flight.
func (k *Keeper) Spent(r domain.Reader, id string, now time.Time) (spent Spent, err error) {
	stored, err := readRow(r, id)
	if err != nil {
		return spent, err
	}
	m := momentOf(now)
	found, _ := k.subjects.Load(id)
	s, _ := found.(*subject)
	for i, windows := range stored.windows {
		var nanos int64
		for _, w := range windows {
			if w.number == m.windows[i] {
				nanos += w.nanos
			}
		}
		if s != nil {
			for _, w := range s.windowsOf(i) {
				if w.number == m.windows[i] {
					nanos += w.pending().nanos
				}
			}
		}
		spent[i] = usdOf(nanos)
	}
	return spent, nil
}
