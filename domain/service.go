// Package domain defines presets, workspaces and keys, and the rules that hold for them. It
// imports no package of HTTP, of Caddy or of a storage engine. Its errors name headers and
// parameters of the API. The Service applies the rules on top of a Store, which makes each
// change atomic. Package inference applies presets to requests.
package domain

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

// Service applies the rules of this package on top of a Store. It caches keys and
// answers, within a bound and while their stamps stay the same. It is safe for concurrent
// use.
type Service struct {
	// KeepVersions is how many of the newest versions of a preset ReleasePresetVersion keeps, 0
	// for all. Designated and labelled versions stay, too. It is set before the Service is
	// used.
	KeepVersions int
	// Changing, if it is set, is called before each change. The function that it returns is
	// called before the change is answered. It gets the audit records if the change is
	// durable. It gets none if the change failed or changed nothing. Both functions must
	// return without waiting, and be safe for concurrent use. Changing is set before the
	// Service is used.
	Changing func() (changed func([]AuditRecord))

	store   Store
	keys    *cache.Cache[KeyHash, Key]
	answers *cache.Cache[answerKey, Found]
	now     func() time.Time
	newID   func() string

	scans   limiter // of presets
	reports limiter // of usage
	lists   limiter // of keys

	latest    atomic.Int64 // what timestamp returned last, in milliseconds
	useWrites atomic.Int32 // uses of keys in flight to the store
}

// NewService returns a Service over store. It uses the system clock and random,
// time-ordered UUIDs (version 7).
func NewService(store Store) *Service {
	return NewServiceWith(store, time.Now, func() string { return uuid.Must(uuid.NewV7()).String() })
}

// NewServiceWith is NewService with another clock and another source of ids. Tests use it for
// answers that must be the same each time.
func NewServiceWith(store Store, now func() time.Time, newID func() string) *Service {
	s := &Service{
		store: store, now: now, newID: newID,
		scans:   limiter{make(chan struct{}, 2), 5 * time.Second, "The search took too long: ask without q and sort, or in a smaller workspace"},
		reports: limiter{make(chan struct{}, 2), 10 * time.Second, "The report took too long: ask for a shorter period or for step=day"},
		lists:   limiter{make(chan struct{}, 2), 5 * time.Second, "The list of keys took too long: ask again later"},
	}
	s.UseMemory(NewMemory(DefaultMemory))
	return s
}

// UseMemory makes the Service cache in a Memory that it shares with others. It is called before
// the Service is used.
func (s *Service) UseMemory(m *Memory) {
	s.keys = cache.New[KeyHash, Key](m)
	s.answers = cache.New[answerKey, Found](m)
}

// timestamp returns the time of a change: UTC, in whole milliseconds, which clients' date
// types can hold. It never goes back, even if the system's clock does.
func (s *Service) timestamp() time.Time {
	for now := s.now().UnixMilli(); ; {
		latest := s.latest.Load()
		if now <= latest {
			return time.UnixMilli(latest).UTC()
		}
		if s.latest.CompareAndSwap(latest, now) {
			return time.UnixMilli(now).UTC()
		}
	}
}

// update is Store.Update. It turns ErrConflict into a Conflict error.
func (s *Service) update(ctx context.Context, fn func(Tx) error) error {
	err := s.store.Update(ctx, fn)
	if errors.Is(err, ErrConflict) {
		return &Error{Kind: Conflict, Message: "Resource conflict. Please try again later.", Err: err}
	}
	return err
}

// limiter bounds how many calls run at a time, because each may take much memory, and how long
// each takes.
type limiter struct {
	running chan struct{}
	longest time.Duration // with the wait for its turn
	tooLong string        // the message of a call that took longer
}

// run runs fn, whose ctx has the deadline. It returns an Unavailable error after the deadline.
func (l limiter) run(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	limited, cancel := context.WithTimeout(ctx, l.longest)
	defer cancel()
	select {
	case l.running <- struct{}{}:
		defer func() { <-l.running }()
		err = fn(limited)
	case <-limited.Done():
		err = limited.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &Error{Kind: Unavailable, Message: l.tooLong}
	}
	return err
}

// until returns a list that ends with the error of ctx as soon as it ends.
func until[T any](ctx context.Context, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for element, err := range list {
			if err = cmp.Or(err, ctx.Err()); !yield(element, err) || err != nil {
				return
			}
		}
	}
}
