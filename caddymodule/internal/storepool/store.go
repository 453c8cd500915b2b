package storepool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// Store is a configuration's reference to a store, as a domain.Store. It counts its users:
// the configuration and its requests, which may outlive the configuration. The last user
// releases the handle, and a later request acquires it again.
type Store[C any, S Engine] struct {
	// Settings are those of the configuration. They do not change.
	Settings C

	pool *Pool[C, S]
	key  string

	mu    sync.Mutex // held to change the fields below
	users int
	share atomic.Pointer[share[C, S]] // nil without users
}

// Acquire adds a user of the handle, which stays open until Release.
func (s *Store[C, S]) Acquire() (*Handle[S], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		joined, err := s.pool.join(s)
		if err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
		s.share.Store(joined)
	}
	s.users++
	return s.share.Load().handle, nil
}

// Release removes a user that Acquire added. The error is that of closing the handle.
func (s *Store[C, S]) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		panic("storepool: Release without Acquire")
	}
	s.users--
	if s.users > 0 {
		return nil
	}
	return s.pool.leave(s, s.share.Swap(nil))
}

// Hold implements engine.Holder.
func (s *Store[C, S]) Hold() (release func() error, err error) {
	if _, err := s.Acquire(); err != nil {
		return nil, err
	}
	return s.Release, nil
}

// Use calls fn with the open store, which stays open until fn returns. It opens nothing if
// ctx has ended. An error of closing the store goes to OnCloseError, because the call did
// not cause it.
func (s *Store[C, S]) Use(ctx context.Context, fn func(S) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := s.Acquire()
	if err != nil {
		return err
	}
	defer func() {
		if err := s.Release(); err != nil {
			s.pool.OnCloseError(s.Settings, err)
		}
	}()
	store, err := h.Get()
	if err != nil {
		return err
	}
	return fn(store)
}

// View implements domain.Store.
func (s *Store[C, S]) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.Use(ctx, func(store S) error { return store.View(ctx, fn) })
}

// Update implements domain.Store.
func (s *Store[C, S]) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return s.Use(ctx, func(store S) error { return store.Update(ctx, fn) })
}

// Sync implements domain.Store.
func (s *Store[C, S]) Sync(ctx context.Context) error {
	return s.Use(ctx, func(store S) error { return store.Sync(ctx) })
}

// Check implements engine.Checker.
func (s *Store[C, S]) Check(ctx context.Context) (report storage.Report, err error) {
	err = s.Use(ctx, func(store S) error {
		report, err = store.Check(ctx)
		return err
	})
	return report, err
}

// Opened returns the open store, or the reason why there is none. It opens nothing. The
// store may be closed at any time, so only its state may be asked for.
func (s *Store[C, S]) Opened() (store S, err error) {
	joined := s.share.Load()
	if joined == nil {
		return store, domain.ErrClosed
	}
	return joined.handle.Get()
}

// Node implements domain.Store. Without an open store it is empty.
func (s *Store[C, S]) Node() string {
	if store, err := s.Opened(); err == nil {
		return store.Node()
	}
	return ""
}

// Stamps implements domain.Store. Without an open store no stamp is ever valid.
func (s *Store[C, S]) Stamps() *domain.Stamps {
	if store, err := s.Opened(); err == nil {
		return store.Stamps()
	}
	return never
}

// never are stamps that are never valid.
var never = func() *domain.Stamps {
	stamps := domain.NewStamps()
	stamps.GoodUntil(time.Unix(1, 0))
	return stamps
}()
