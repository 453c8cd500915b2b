package storepool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// Engine is the store of a storage engine.
type Engine interface {
	domain.Store
	Check(ctx context.Context) (storage.Report, error)
	Close() error
}

// Opener opens the store of a handle, and maintains it. Its methods are called one after
// another.
type Opener[S Engine] interface {
	// Open tries to open the store for the first time.
	Open(ctx context.Context) (S, error)
	// IsFatal reports whether an error of Open rejects the configuration. After all
	// other errors the store is unavailable until Retry opens it.
	IsFatal(err error) bool
	// Retry tries to open the store again, and logs what that changes. why is the error
	// of the last attempt. If it is too early for another it returns why.
	Retry(ctx context.Context, why error) (S, error)
	// Maintain does the regular work on the open store.
	Maintain(ctx context.Context, store S)
}

// Handle is a store that is open, or the reason why it is not. A store that cannot be
// opened must not keep the server from its other work. The methods are safe for
// concurrent use.
type Handle[S Engine] struct {
	// Opener is that of Open. It must not be changed.
	Opener Opener[S]
	state  atomic.Pointer[state[S]]
	cancel context.CancelFunc // ends the goroutine of run
	done   chan struct{}
}

// state is an open store, or the error of the last attempt to open it.
type state[S Engine] struct {
	store S
	why   error
}

// RetryInterval is the pause between two attempts to open a store, and between two calls
// of Maintain.
const RetryInterval = time.Second

// Open opens a store. If that fails, but not fatally, the handle calls Retry in intervals.
// While the store is open, it calls Maintain in intervals.
func Open[S Engine](opener Opener[S]) (*Handle[S], error) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Handle[S]{Opener: opener, cancel: cancel, done: make(chan struct{})}
	store, err := opener.Open(ctx)
	if err != nil && opener.IsFatal(err) {
		cancel()
		return nil, err
	}
	h.state.Store(&state[S]{store, err})
	go h.run(ctx)
	return h, nil
}

func (h *Handle[S]) run(ctx context.Context) {
	defer close(h.done)
	ticker := time.NewTicker(RetryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if ctx.Err() != nil { // a select with both ready picks either
			return
		}
		if s := h.state.Load(); s.why == nil {
			h.Opener.Maintain(ctx, s.store)
		} else {
			store, err := h.Opener.Retry(ctx, s.why)
			h.state.Store(&state[S]{store, err})
		}
	}
}

// Get returns the store. If it is not open the error has domain.ErrUnavailable in its
// chain.
func (h *Handle[S]) Get() (S, error) {
	s := h.state.Load()
	if s.why == nil || errors.Is(s.why, domain.ErrUnavailable) {
		return s.store, s.why
	}
	return s.store, fmt.Errorf("%w: %w", domain.ErrUnavailable, s.why)
}

// Close closes the store. It cancels an attempt to open it.
func (h *Handle[S]) Close() error {
	h.cancel()
	<-h.done
	if s := h.state.Load(); s.why == nil {
		return s.store.Close()
	}
	return nil
}
