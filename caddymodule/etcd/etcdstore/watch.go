package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// watcher keeps the model and the stamps current with the commits of other nodes.
type watcher struct {
	*replica.Freshness
	store *Store

	at     atomic.Int64 // all changes until this revision are known to the watching goroutine
	logged time.Time    // when that goroutine last logged an interruption of the watch

	mu        sync.Mutex // for restart and lastEvent
	restart   context.CancelFunc
	lastEvent time.Time // when the watch began, or its last event came

	forgetting atomic.Pointer[string] // why copies in memory must be dropped, nil for no reason
	stale      atomic.Bool
	watching   atomic.Bool
	restarts   atomic.Int64
	resets     atomic.Int64
	events     atomic.Int64
}

// newWatcher returns the watcher, not started yet, of a store that was current at a
// revision and at a moment.
func newWatcher(s *Store, at int64, confirmed time.Time, maxStaleness time.Duration) *watcher {
	w := &watcher{Freshness: replica.NewFreshness(s.stamps, maxStaleness, confirmed), store: s, restart: func() {}}
	w.at.Store(at)
	return w
}

// isWatching reports whether this node learns of commits. The client resumes a watch at
// another member, and does not report that no member is left. So the cluster must have
// answered, too.
func (w *watcher) isWatching() bool {
	return w.watching.Load() && w.Staleness() <= w.Max()/2
}

// checkReachable returns an error when the model is stale and the cluster does not answer now.
// A change that was sent then would have an unknown outcome.
func (w *watcher) checkReachable() error {
	if !w.IsStale() {
		return nil
	}
	_, _, err := w.store.sync(w.store.ctx)
	return unavailable(err)
}

// unavailable returns an error with domain.ErrUnavailable in its chain, nil for nil.
func unavailable(err error) error {
	if err != nil && !errors.Is(err, domain.ErrUnavailable) {
		err = fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, err)
	}
	return err
}

// awayPause is the longest pause between two questions to a cluster that does not answer.
const awayPause = 4 * retryPause

// ask asks the cluster now and then whether the model is current. A silent watch does not
// say so: a member that was cut off from the others is silent, too.
func (w *watcher) ask() {
	for {
		pause := w.Max() / 5
		ctx, cancel := context.WithTimeout(w.store.ctx, w.Max())
		w.BeginQuestion()
		_, _, err := w.store.ask(ctx)
		w.EndQuestion(unavailable(err))
		cancel()
		if w.store.ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = min(pause, awayPause)
		}
		w.logStaleness(err)
		select {
		case <-time.After(pause):
		case <-w.store.ctx.Done():
			return
		}
	}
}

// logStaleness logs when the model gets too old, and when it is current again.
func (w *watcher) logStaleness(err error) {
	staleness := w.Staleness()
	switch stale := staleness > w.Max(); {
	case stale == w.stale.Load():
		return
	case stale:
		w.store.logger.Error("etcd has not answered for max_staleness: presets and keys are refused until it answers", zap.Duration("staleness", staleness), zap.Error(err))
	default:
		w.store.logger.Warn("etcd answers again: presets and keys are served")
	}
	w.stale.Store(!w.stale.Load())
}

// forget has the watching goroutine drop all copies in memory, and log why.
func (w *watcher) forget(why string) {
	w.forgetting.CompareAndSwap(nil, &why)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restart()
}

// restartIfSilent begins the watch again if no event has come for nextAttempt. Its caller
// misses a commit, so the watched member may be cut off. A watch that has not begun is left
// alone: answers may be slow, and begin asks other members meanwhile.
func (w *watcher) restartIfSilent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching.Load() && time.Since(w.lastEvent) > nextAttempt {
		w.lastEvent = time.Now()
		w.restart()
	}
}

// recordEvent records that the watch works, and how to begin it again if that is not nil.
func (w *watcher) recordEvent(restart context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastEvent = time.Now()
	if restart != nil {
		w.restart = restart
	}
}

// watch applies commits until the store is closed.
func (w *watcher) watch() {
	for pause := retryPause; w.store.ctx.Err() == nil; pause = min(2*pause, maxPause) {
		begun := time.Now()
		err := w.follow()
		if w.store.ctx.Err() != nil {
			return
		}
		if err != nil && time.Since(w.logged) > time.Minute {
			w.logged = time.Now()
			w.store.logger.Warn("the watch was interrupted, and continues where it was", zap.Error(err))
		}
		if time.Since(begun) > maxPause {
			pause = retryPause
		}
		w.restarts.Add(1)
		select {
		case <-time.After(pause):
		case <-w.store.ctx.Done():
		}
	}
}

// errMissed says that the watch left commits out, or does not continue the known ones.
var errMissed = errors.New("commits have been missed")

// follow applies commits until the watch breaks.
func (w *watcher) follow() error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(w.store.ctx))
	defer cancel()
	w.recordEvent(cancel)
	if why := w.forgetting.Load(); why != nil {
		return w.reset(*why)
	}
	changes, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.watching.Store(false)
	for response := range changes {
		w.watching.Store(true)
		w.recordEvent(nil)
		switch err := response.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return w.reset("etcd has compacted commits that this node has not read")
		case err != nil:
			return err
		case response.IsProgressNotify():
			w.advanceTo(response.Header.Revision)
		default:
			if err := w.apply(response.Events); err != nil {
				return w.reset(err.Error())
			}
		}
	}
	return nil
}

// begin begins a watch, which ends with ctx. It asks one member after another, as a request
// does, because a member that hangs does not answer. It returns the first watch that begins.
func (w *watcher) begin(ctx context.Context) (clientv3.WatchChan, error) {
	var begun atomic.Bool
	return request(ctx, w.store, func(attempt context.Context) (clientv3.WatchChan, error) {
		ctx, cancel := context.WithCancel(ctx)
		// The client's own watcher would keep attempts on one stream, to one member.
		watcher := clientv3.NewWatcher(w.store.client)
		end := func() {
			cancel()
			_ = watcher.Close()
		}
		stop := context.AfterFunc(attempt, cancel)
		changes := watcher.Watch(ctx, w.store.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.at.Load()+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
		if !stop() || !begun.CompareAndSwap(false, true) {
			end()
			return nil, context.Canceled
		}
		context.AfterFunc(ctx, end)
		return changes, nil
	})
}

// reset drops all copies in memory: etcd cannot say any more what changed meanwhile.
func (w *watcher) reset(why string) error {
	w.forgetting.Store(nil)
	last, at, err := w.store.lastCommit(w.store.ctx)
	if err != nil {
		w.forgetting.Store(&why)
		return err // tried again
	}
	w.store.logger.Warn("all is read again: " + why)
	w.resets.Add(1) // before anyone can read what follows from it
	change := w.store.stamps.Change()
	change.All()
	change.Begin()
	w.store.model.Reset(last, at)
	change.End()
	w.at.Store(at)
	return nil
}

// advanceTo records that all changes until a revision are known.
func (w *watcher) advanceTo(revision int64) { w.at.Store(max(w.at.Load(), revision)) }

// apply applies changes, revision by revision. A response need not have all changes until
// the revision of its header.
func (w *watcher) apply(events []*clientv3.Event) error {
	w.events.Add(int64(len(events)))
	for len(events) > 0 {
		revision := events[0].Kv.ModRevision
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == revision {
			n++
		}
		if err := w.applyOne(events[:n], revision); err != nil {
			return err
		}
		w.advanceTo(revision)
		events = events[n:]
	}
	return nil
}

// applyOne applies the changes of a revision.
func (w *watcher) applyOne(events []*clientv3.Event, revision int64) error {
	s := w.store
	made, err := w.commitOf(events, revision)
	if err != nil {
		return err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if made != nil {
		switch known, next := s.model.Place(*made); {
		case known:
			return nil // this node's own
		case !next:
			return errMissed
		}
	}
	stamps := s.stamps.Change()
	var changes []replica.Change
	var removed uint32
	for _, e := range events {
		key := string(e.Kv.Key[len(s.prefix):])
		switch {
		case key == waitingKey:
			s.committer.setBackoff(e.Kv.Value)
		case !records.Key(key).Valid(): // the last commit, the marker, or someone else's
		default:
			records.Key(key).Changes(stamps)
			record := e.Kv.Value
			if e.Type != clientv3.EventTypePut {
				record = nil
				removed++
			}
			changes = append(changes, newChange(records.Key(key), record))
		}
	}
	if made != nil && removed < made.Removed {
		// A compaction may end at this commit. etcd 3.4 then reports its writes, and may
		// leave out its removals.
		return errMissed
	}
	proposed := s.committer.proposed.Load()
	stamps.Begin()
	s.model.Apply(changes, revision, made, made != nil && proposed != nil && made.ID == *proposed)
	stamps.End()
	return nil
}

// commitOf returns the commit that was made at a revision, nil if none was.
func (w *watcher) commitOf(events []*clientv3.Event, revision int64) (*replica.Commit, error) {
	for _, e := range slices.Backward(events) { // it is written last
		switch {
		case string(e.Kv.Key[len(w.store.prefix):]) != lastKey:
		case e.Type == clientv3.EventTypeDelete:
			w.store.logger.Error("presets are unavailable", zap.Error(errGone))
		default:
			made, err := replica.DecodeCommit(e.Kv.Value, revision)
			if err != nil {
				w.store.logger.Error("a commit cannot be read", zap.Error(err))
			}
			return &made, err
		}
	}
	return nil, nil //nolint:nilnil // there need not be one
}
