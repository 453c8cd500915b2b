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

// watcher keeps the model current with what other nodes commit, and the stamps.
type watcher struct {
	*replica.Freshness
	store *Store
	done  [2]chan struct{}

	at     atomic.Int64 // all changes until this revision are known to the watching goroutine
	logged time.Time    // when that told last that the watch was interrupted

	mu      sync.Mutex // of what is below
	restart context.CancelFunc
	heard   time.Time // when the watch began, or something came

	forgetting atomic.Pointer[string] // why what is in memory is not to be used, nil if it is
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

// start begins to watch and to ask.
func (w *watcher) start() {
	for i, run := range []func(){w.watch, w.ask} {
		done := make(chan struct{})
		w.done[i] = done
		go func() {
			defer close(done)
			run()
		}()
	}
}

func (w *watcher) wait() {
	for _, done := range w.done {
		<-done
	}
}

// told reports whether a member tells what others commit. etcd's client goes on with a
// watch at another member and does not say that there is none left, so the cluster must
// have answered of late, too.
func (w *watcher) told() bool {
	return w.watching.Load() && w.Staleness() <= w.Max()/2
}

// reachable returns an error when the model is stale and the cluster does not answer now.
// A change that was sent then would have an unknown outcome.
func (w *watcher) reachable() error {
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

// awayPause is the pause at most after which a cluster that does not answer is asked again.
const awayPause = 4 * retryPause

// ask asks the cluster now and then whether the model is current. Not having heard of
// a change is no sign of that: a member that was cut off from the others has nothing
// to tell either.
func (w *watcher) ask() {
	for {
		pause := w.Max() / 5
		ctx, cancel := context.WithTimeout(w.store.ctx, w.Max())
		w.Begin()
		_, _, err := w.store.ask(ctx)
		w.End(unavailable(err))
		cancel()
		if w.store.ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = min(pause, awayPause)
		}
		w.tell(err)
		select {
		case <-time.After(pause):
		case <-w.store.ctx.Done():
			return
		}
	}
}

// tell tells the operator when what is in memory gets too old, or is current again.
func (w *watcher) tell(err error) {
	staleness := w.Staleness()
	switch stale := staleness > w.Max(); {
	case stale == w.stale.Load():
		return
	case stale:
		w.store.logger.Error("etcd does not say what is current: presets and keys are refused until it does", zap.Duration("staleness", staleness), zap.Error(err))
	default:
		w.store.logger.Warn("etcd says again what is current")
	}
	w.stale.Store(!w.stale.Load())
}

// forget makes the watching goroutine forget all that is in memory, and tell why.
func (w *watcher) forget(why string) {
	w.forgetting.CompareAndSwap(nil, &why)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restart()
}

// kick begins the watch again if nothing has come for a while, though there is something
// to come: the member that is watched may be cut off. It leaves a watch alone that has not
// begun: see follow.
func (w *watcher) kick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching.Load() && time.Since(w.heard) > nextAttempt {
		w.heard = time.Now()
		w.restart()
	}
}

// hear notes that the watch works, and how to begin it again if that is not nil.
func (w *watcher) hear(restart context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
	if restart != nil {
		w.restart = restart
	}
}

// watch applies what is committed, for as long as the store is open. A watch has nextAttempt
// to begin, and twice as long after each one that did not last.
func (w *watcher) watch() {
	for patience := nextAttempt; w.store.ctx.Err() == nil; {
		begun := time.Now()
		began, err := w.follow(patience)
		if w.store.ctx.Err() != nil {
			return
		}
		if err != nil && time.Since(w.logged) > time.Minute {
			w.logged = time.Now()
			w.store.logger.Warn("the watch of what others commit was interrupted, and goes on from where it was", zap.Error(err))
		}
		if began && time.Since(begun) > maxPause {
			patience = nextAttempt
		} else {
			patience = min(2*patience, w.store.timeout)
		}
		w.restarts.Add(1)
		select {
		case <-time.After(min(patience/10, maxPause)):
		case <-w.store.ctx.Done():
		}
	}
}

// errMissed is returned when commits were made that were not told, or others than those.
var errMissed = errors.New("commits have been missed")

// follow applies what is committed until the watch breaks. It gives up if no member says
// within its patience that the watch has begun, and reports whether one did.
func (w *watcher) follow(patience time.Duration) (began bool, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(w.store.ctx))
	defer cancel()
	w.hear(cancel)
	if why := w.forgetting.Load(); why != nil {
		return false, w.reset(*why)
	}
	// With the client's own watcher one that was given up would be gone on with on the
	// same stream, for as long as the member that hangs does not say that it is over.
	watcher := clientv3.NewWatcher(w.store.client)
	defer watcher.Close()
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	changes := watcher.Watch(ctx, w.store.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.at.Load()+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	defer w.watching.Store(false)
	for response := range changes {
		late.Stop()
		began = true
		w.watching.Store(true)
		w.hear(nil)
		switch err := response.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return began, w.reset("etcd has compacted what was committed meanwhile")
		case err != nil:
			return began, err
		case response.IsProgressNotify():
			w.reach(response.Header.Revision)
		default:
			if err := w.apply(response.Events); err != nil {
				return began, w.reset(err.Error())
			}
		}
	}
	return began, nil
}

// reset forgets all that is in memory: what was missed etcd does not have any more.
func (w *watcher) reset(why string) error {
	w.forgetting.Store(nil)
	last, at, err := w.store.lastCommit(w.store.ctx)
	if err != nil {
		w.forgetting.Store(&why)
		return err // tried again
	}
	w.store.logger.Warn("all is read again: " + why)
	change := w.store.stamps.Change()
	change.All()
	change.Begin()
	w.store.model.Reset(last, at)
	change.End()
	w.at.Store(at)
	w.resets.Add(1)
	return nil
}

// reach notes that all changes until a revision are known.
func (w *watcher) reach(revision int64) { w.at.Store(max(w.at.Load(), revision)) }

// apply applies changes, revision by revision. A response may have but the first of
// those until the revision of its header.
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
		w.reach(revision)
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
			s.committer.ask(e.Kv.Value)
		case !records.Key(key).Valid(): // the last commit, the marker, or someone else's
		default:
			records.Key(key).Changes(stamps)
			c := replica.Change{Key: key}
			if e.Type == clientv3.EventTypePut {
				c.Record = e.Kv.Value
			} else {
				removed++
			}
			changes = append(changes, c)
		}
	}
	if made != nil && removed < made.Removed {
		// After a compaction etcd 3.4 may tell what was written by the commit at which it
		// ended, and not what was removed.
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
			w.store.logger.Error("the store's keys have been removed from etcd")
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
