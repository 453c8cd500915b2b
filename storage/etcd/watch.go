package etcd

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/internal/records"
)

// watcher keeps the model current with what other nodes commit, and the stamps.
type watcher struct {
	store        *Store
	maxStaleness time.Duration
	at           int64 // all changes until this revision are known; of the watching goroutine

	confirmed atomic.Int64 // when the model was known to be current last, Unix nanoseconds
	restarts  atomic.Int64
	resets    atomic.Int64
	events    atomic.Int64
	stale     atomic.Bool
	done      [2]chan struct{}
}

func newWatcher(s *Store, at int64, maxStaleness time.Duration) *watcher {
	w := &watcher{store: s, at: at, maxStaleness: maxStaleness}
	for i, run := range []func(){w.watch, w.ask} {
		done := make(chan struct{})
		w.done[i] = done
		go func() {
			defer close(done)
			run()
		}()
	}
	return w
}

func (w *watcher) wait() {
	for _, done := range w.done {
		<-done
	}
}

// confirm notes that the model was current at a moment.
func (w *watcher) confirm(at time.Time) {
	for {
		before := w.confirmed.Load()
		if before >= at.UnixNano() {
			return
		}
		if w.confirmed.CompareAndSwap(before, at.UnixNano()) {
			w.store.stamps.GoodUntil(at.Add(w.maxStaleness))
			return
		}
	}
}

// ask asks the cluster now and then whether the model is current. Not having heard of
// a change is no sign of that: a member that was cut off from the others has nothing
// to tell either.
func (w *watcher) ask() {
	interval := w.maxStaleness / 5
	for {
		ctx, cancel := context.WithTimeout(w.store.ctx, w.maxStaleness)
		_, _, err := w.store.sync(ctx)
		cancel()
		if w.store.ctx.Err() != nil {
			return
		}
		w.tell(err)
		select {
		case <-time.After(interval):
		case <-w.store.ctx.Done():
			return
		}
	}
}

// tell tells the operator when what is in memory gets too old, or is current again.
func (w *watcher) tell(err error) {
	staleness := w.staleness()
	switch stale := staleness > w.maxStaleness; {
	case stale == w.stale.Load():
		return
	case stale:
		w.store.logger.Error("etcd does not say what is current: presets and keys are refused until it does", zap.Duration("staleness", staleness), zap.Error(err))
	default:
		w.store.logger.Warn("etcd says again what is current")
	}
	w.stale.Store(!w.stale.Load())
}

// staleness is how long ago the model was known to be current.
func (w *watcher) staleness() time.Duration {
	return time.Since(time.Unix(0, w.confirmed.Load()))
}

// watch applies what is committed, for as long as the store is open.
func (w *watcher) watch() {
	for first := true; w.store.ctx.Err() == nil; first = false {
		if !first {
			w.restarts.Add(1)
			select {
			case <-time.After(retryPause):
			case <-w.store.ctx.Done():
				return
			}
		}
		w.follow()
	}
}

// follow applies what is committed until the watch breaks.
func (w *watcher) follow() {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(w.store.ctx))
	defer cancel()
	changes := w.store.client.Watch(ctx, w.store.prefix, clientv3.WithPrefix(), clientv3.WithRev(w.at+1))
	for response := range changes {
		if response.CompactRevision != 0 {
			w.reset()
			return
		}
		if err := response.Err(); err != nil {
			w.store.logger.Warn("the watch of what others commit was interrupted, and goes on from where it was", zap.Error(err))
			return
		}
		w.apply(response.Events)
		w.at = max(w.at, response.Header.Revision)
	}
}

// reset forgets all that is in memory: changes have been missed that etcd does not have
// any more.
func (w *watcher) reset() {
	last, at, err := w.store.lastCommit(w.store.ctx)
	if err != nil {
		return // tried again
	}
	w.resets.Add(1)
	w.store.logger.Warn("etcd has compacted what was committed meanwhile: all is read again")
	change := w.store.stamps.Change()
	change.All()
	change.Begin()
	w.store.model.reset(last)
	change.End()
	w.at = at
}

// apply applies changes, revision by revision.
func (w *watcher) apply(events []*clientv3.Event) {
	w.events.Add(int64(len(events)))
	for len(events) > 0 {
		revision := events[0].Kv.ModRevision
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == revision {
			n++
		}
		w.applyOne(events[:n], revision)
		events = events[n:]
	}
}

// applyOne applies the changes of a revision.
func (w *watcher) applyOne(events []*clientv3.Event, revision int64) {
	s := w.store
	stamps := s.stamps.Change()
	var changes []change
	var last *commit
	for _, e := range events {
		key := string(e.Kv.Key[len(s.prefix):])
		switch {
		case key == formatKey:
		case key == lastKey && e.Type == clientv3.EventTypePut:
			c, err := decodeCommit(e.Kv.Value, revision)
			if err != nil {
				s.logger.Error("a commit cannot be read", zap.Error(err))
				continue
			}
			last = &c
		case key == lastKey:
			s.logger.Error("the store's keys have been removed from etcd")
		default:
			records.Key(key).Changes(stamps)
			c := change{key: key}
			if e.Type == clientv3.EventTypePut {
				c.record = e.Kv.Value
			}
			changes = append(changes, c)
		}
	}
	if last != nil && last.number <= s.model.latest().number {
		return // this node's own
	}
	stamps.Begin()
	s.model.apply(changes, revision, false)
	if last != nil {
		s.model.know(*last)
	}
	stamps.End()
}
