package quota

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// storeInterval is how often sums are stored. A crash loses this much at most.
	storeInterval = 10 * time.Second
	// nearInterval is how often those are stored that are near a limit.
	nearInterval = 2 * time.Second
	// storeTimeout bounds the storing.
	storeTimeout = 5 * time.Second
	// idleTime is how long the sums of a subject stay in memory after its last request.
	idleTime = 10 * time.Minute
	// batchSize is how many rows are stored in one change.
	batchSize = 100
)

// Use is how one handler uses a Keeper.
type Use struct {
	Store  domain.Store
	Logger *zap.Logger
	// Reached is called when a window of a key is used up. once reports whether that was not told
	// before, by any node, and notes it. It is part of the change that tells it.
	Reached func(ctx context.Context, keyID string, once func(domain.Tx) (bool, error)) error
	release func() error
}

// keepers has the Keeper of each store by the store's name. A process has few stores.
var keepers sync.Map

// Of returns the Keeper of a store. A request that goes on after the last use keeps it for the next one.
func Of(store string) *Keeper {
	k, _ := keepers.LoadOrStore(store, new(Keeper))
	return k.(*Keeper)
}

// Start adds a use. The first one begins to store sums from time to time.
func (k *Keeper) Start(use *Use) {
	use.release = hold(use.Store)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended.Store(false)
	if k.uses = append(k.uses, use); len(k.uses) > 1 {
		return
	}
	// A backup may have replaced the store since the last use.
	k.subjects.Range(func(_, s any) bool { s.(*subject).isKept.Store(false); return true })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	k.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		k.run(ctx)
	}()
}

// End removes a use. The last one stores what is not stored yet.
func (k *Keeper) End(use *Use) error {
	k.mu.Lock()
	k.uses = slices.DeleteFunc(k.uses, func(other *Use) bool { return other == use })
	stop := k.stop
	isLast := len(k.uses) == 0
	if isLast {
		k.last = use
		k.ended.Store(true)
	}
	k.mu.Unlock()
	if isLast && stop != nil {
		stop()
		_ = k.store(context.Background(), use, time.Now(), true) // which logs
	}
	return use.release()
}

// storeLate stores what ended after the last use, as a stream does after a reload. Its client does not
// wait for that.
func (k *Keeper) storeLate() {
	k.mu.Lock()
	use := k.last
	isDone := len(k.uses) > 0 || use == nil || k.isLate
	k.isLate = !isDone
	k.mu.Unlock()
	if isDone {
		return
	}
	go func() {
		release := hold(use.Store)
		k.mu.Lock()
		k.isLate = false // what ends from now on may not be among what is stored
		k.mu.Unlock()
		_ = k.store(context.Background(), use, time.Now(), true) // which logs
		if err := release(); err != nil {
			use.Logger.Error("closing the store failed", zap.Error(err))
		}
	}()
}

// hold keeps a store open until release is called. Without it each change would open and close the store.
func hold(store domain.Store) (release func() error) {
	if h, ok := store.(engine.Holder); ok {
		if release, err := h.Hold(); err == nil {
			return release
		}
	}
	return func() error { return nil }
}

// newest returns the use that was added last, nil for none.
func (k *Keeper) newest() *Use {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.uses) == 0 {
		return nil
	}
	return k.uses[len(k.uses)-1]
}

// run stores sums until ctx ends.
func (k *Keeper) run(ctx context.Context) {
	ticker := time.NewTicker(nearInterval)
	defer ticker.Stop()
	const all, watch = int(storeInterval / nearInterval), int(watchInterval / nearInterval)
	if use := k.newest(); use != nil {
		k.watch(ctx, use, time.Now())
	}
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if use := k.newest(); use != nil {
				_ = k.store(ctx, use, time.Now(), n%all == 0) // which logs
				if n%watch == 0 {
					k.watch(ctx, use, time.Now())
				}
			}
		}
	}
}

// Store stores what is not stored yet, and reads what other nodes have stored.
func (k *Keeper) Store(ctx context.Context) error {
	use := k.newest()
	if use == nil {
		return nil
	}
	return k.store(ctx, use, time.Now(), true)
}

// store stores the sums of all subjects, or of those that are near a limit. It logs its error.
func (k *Keeper) store(ctx context.Context, use *Use, now time.Time, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	k.flushing.Lock()
	defer k.flushing.Unlock()
	m := momentOf(now)
	batches := k.unsure
	k.unsure = nil
	var changed, limited []*subject
	k.subjects.Range(func(id, value any) bool {
		s := value.(*subject)
		switch isIdle := now.Unix()-s.lastUse.Load() > int64(idleTime/time.Second); {
		case !all && !s.isNear(&m):
		case s.hasPending():
			changed = append(changed, s)
		case isIdle:
			if s.users.CompareAndSwap(0, forgotten) {
				k.subjects.Delete(id)
			}
		case s.bounds.Load() != nil:
			limited = append(limited, s)
		}
		return true
	})
	inDoubt := make(map[*subject]bool)
	for _, b := range batches {
		for _, d := range b.changes {
			inDoubt[d.subject] = true
		}
	}
	changed = slices.DeleteFunc(changed, func(s *subject) bool { return inDoubt[s] }) // the rest comes next time
	for some := range slices.Chunk(changed, batchSize) {
		batches = append(batches, newBatch(some))
	}
	var errs []error
	for _, b := range batches {
		err := use.Store.Update(ctx, b.write)
		if err != nil {
			k.unsure = append(k.unsure, b)
			errs = append(errs, err)
			continue
		}
		b.settle(&m)
	}
	errs = append(errs, readAgain(ctx, use.Store, limited, &m))
	err := errors.Join(errs...)
	if err != nil {
		use.Logger.Warn("storing what was spent failed; will try again", zap.Error(err), zap.Duration("after", nearInterval))
	}
	return err
}

// readAgain reads what other nodes have added to the rows of subjects.
func readAgain(ctx context.Context, store domain.Store, subjects []*subject, m *moment) error {
	if len(subjects) == 0 {
		return nil
	}
	return store.View(ctx, func(r domain.Reader) error {
		for _, s := range subjects {
			if now, err := readRow(r, s.id); err == nil {
				s.follow(&now, amount{}, m)
			} else if !errors.Is(err, errRow) { // a damaged row begins anew with the next change
				return err
			}
		}
		return nil
	})
}

// follow is keep, and takes what others used of the day from the rates of a minute.
func (s *subject) follow(r *row, own amount, m *moment) {
	others := s.keep(r, own, m)
	if b := s.bounds.Load(); b != nil {
		if b.requestRate != nil {
			take(b.requestRate, m.at, min(max(others.requests, 0), mostDebt*b.requestsAMinute))
		}
		if b.tokenRate != nil {
			take(b.tokenRate, m.at, max(b.tokensOf(others), 0))
		}
	}
}

// batch is a change of some rows. Its mark tells whether it was made.
type batch struct {
	mark    uint64
	changes []*rowChange
}

// rowChange is what one row gets.
type rowChange struct {
	*subject
	windows [intervals]struct {
		*window
		number int64
		amount amount
	}
	row  row // as the change has left it
	gone bool
}

func newBatch(subjects []*subject) *batch {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	b := &batch{mark: binary.BigEndian.Uint64(random[:])}
	for _, s := range subjects {
		c := &rowChange{subject: s}
		for i := range c.windows {
			if w := s.windows[i].Load(); w != nil {
				of := &c.windows[i]
				of.window, of.number, of.amount = w, w.number.Load(), w.pending.load()
			}
		}
		b.changes = append(b.changes, c)
	}
	return b
}

// write makes the change, unless it was made. What is gone gets no row.
func (b *batch) write(tx domain.Tx) error {
	for _, c := range b.changes {
		err := c.exists(tx)
		if c.gone = errors.Is(err, domain.ErrNotFound) || domain.KindOf(err) == domain.NotFound; c.gone {
			continue
		}
		if err != nil {
			return err
		}
		r, err := readRow(tx, c.id)
		if err != nil && !errors.Is(err, errRow) {
			return err
		}
		if !r.has(b.mark) {
			for i, of := range c.windows {
				if of.window != nil {
					r.windows[i].add(of.number, of.amount)
				}
			}
			r.mark(b.mark)
			if err := tx.PutSpent(c.id, r.encode()); err != nil {
				return err
			}
		}
		c.row = r
	}
	return nil
}

// exists returns ErrNotFound for a subject that is gone, and for a key of the configuration, whose requests
// count in memory alone.
func (s *subject) exists(r domain.Reader) error {
	if s.scope == OfKey {
		_, err := r.Key(s.id)
		return err
	}
	return domain.CheckWorkspace(r, s.workspace)
}

// settle ends a change that was made.
func (b *batch) settle(m *moment) {
	for _, c := range b.changes {
		if !c.gone {
			c.follow(&c.row, c.windows[daily].amount, m)
		}
		for _, of := range c.windows {
			if of.window == nil {
				continue
			}
			if c.gone {
				of.stored.add(of.amount)
			}
			of.pending.add(amount{}.minus(of.amount))
		}
	}
}

// tell tells once that a window of a key is used up. It does not wait for that.
func (k *Keeper) tell(s *subject, r *Error) {
	use := k.newest()
	if use == nil || use.Reached == nil || s.scope != OfKey {
		return
	}
	place := placeOf(r.Interval)
	number := s.windows[place].Load().number.Load()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		err := use.Reached(ctx, s.id, func(tx domain.Tx) (bool, error) {
			stored, err := readRow(tx, s.id)
			if err != nil && !errors.Is(err, errRow) {
				return false, err
			}
			w := &stored.windows[place]
			if w.number == number && w.reached || w.number == number+1 {
				return false, nil
			}
			w.add(number, amount{})
			w.reached = true
			return true, tx.PutSpent(s.id, stored.encode())
		})
		if err != nil && domain.KindOf(err) != domain.NotFound {
			use.Logger.Warn("telling that a key has reached its limit failed", zap.String("key_id", s.id), zap.Error(err))
		}
	}()
}
