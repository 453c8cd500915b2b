package sharing

import (
	"context"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Keeper keeps the handle of a store in a pool.
type Keeper[S Engine] interface {
	Closer
	Get() (S, error)
}

// Store is a configuration's reference to a store, as a domain.Store.
type Store[C any, S Engine, H Keeper[S]] struct {
	*StoreRef[C, H]
}

// Enter returns the open store, which stays open until Leave. Call Leave unless there is
// an error. Enter opens nothing if ctx has ended.
func (s *Store[C, S, H]) Enter(ctx context.Context) (store S, err error) {
	h, err := s.StoreRef.Enter(ctx)
	if err != nil {
		return store, err
	}
	if store, err = h.Get(); err != nil {
		s.Leave()
	}
	return store, err
}

// View implements domain.Store.
func (s *Store[C, S, H]) View(ctx context.Context, fn func(domain.Reader) error) error {
	store, err := s.Enter(ctx)
	if err != nil {
		return err
	}
	defer s.Leave()
	return store.View(ctx, fn)
}

// Update implements domain.Store.
func (s *Store[C, S, H]) Update(ctx context.Context, fn func(domain.Tx) error) error {
	store, err := s.Enter(ctx)
	if err != nil {
		return err
	}
	defer s.Leave()
	return store.Update(ctx, fn)
}

// Sync implements domain.Store.
func (s *Store[C, S, H]) Sync(ctx context.Context) error {
	store, err := s.Enter(ctx)
	if err != nil {
		return err
	}
	defer s.Leave()
	return store.Sync(ctx)
}

// Stamps implements domain.Store. Without an open store no stamp is ever valid.
func (s *Store[C, S, H]) Stamps() *domain.Stamps {
	if h, ok := s.Current(); ok {
		if store, err := h.Get(); err == nil {
			return store.Stamps()
		}
	}
	return never
}

// never are stamps that are never valid.
var never = func() *domain.Stamps {
	stamps := domain.NewStamps()
	stamps.GoodUntil(time.Unix(1, 0))
	return stamps
}()
