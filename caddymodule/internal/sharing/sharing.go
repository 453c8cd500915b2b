// Package sharing opens a store once for all configurations that use it, and keeps it open
// across reloads.
//
// Each configuration has a StoreRef. Refs with the same key share one handle: the first
// to acquire it opens it, and the last to release it closes it. Caddy provisions a new
// configuration before it cleans up the old one. So on a reload
//
//   - with the same key, the new ref joins and the handle stays open. The handle then uses
//     the settings of the newest ref, because the logger of an older one may be closed. A
//     late request of the old configuration joins for as long as it lasts;
//   - with another key, another handle is opened. The old one is closed once no
//     configuration and no request uses it;
//   - that fails, or whose settings are not Compatible, nothing changes.
//
// A caddy.UsagePool counts its users and does not know them, so it cannot tell the newest
// settings. It also blocks while a value is being opened.
package sharing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Closer is what configurations share.
type Closer interface {
	comparable
	Close() error
}

// Pool has the handles in use, by their keys. Set its fields before its first use, and do
// not copy it afterwards. Its methods and those of its refs are safe for concurrent use.
type Pool[C any, H Closer] struct {
	// Open opens a handle. newest returns the settings of the ref that joined last, also
	// during Open and Close, and nil after Close.
	Open func(settings C, newest func() *C) (H, error)

	// Compatible returns an error if settings cannot share the open handle of their key.
	// It is optional.
	Compatible func(h H, settings C) error

	// OnCloseError is called if a late request was the last user of a handle and closing
	// that failed. It is required.
	OnCloseError func(settings C, err error)

	// OpenCloseMu is held while a handle is opened or closed, so that nobody joins a handle
	// that is being closed. Tests lock it to delay that.
	OpenCloseMu sync.Mutex

	mu    sync.Mutex              // guards inUse and shares; it is never held for long
	inUse map[string]*share[C, H] // changes only while OpenCloseMu is held, too
}

// share is a handle and the refs that share it.
type share[C any, H Closer] struct {
	handle H
	refs   []*StoreRef[C, H] // the newest last
}

// InUse returns the open handles, with the number of refs that share each. It does not
// wait for handles that are being opened or closed, and leaves them out.
func (p *Pool[C, H]) InUse() map[H]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[H]int)
	for _, s := range p.inUse {
		all[s.handle] = len(s.refs)
	}
	return all
}

// Ref returns a ref that has not acquired its handle.
func (p *Pool[C, H]) Ref(key string, settings C) *StoreRef[C, H] {
	return &StoreRef[C, H]{Settings: settings, pool: p, key: key}
}

func (p *Pool[C, H]) join(r *StoreRef[C, H]) (*share[C, H], error) {
	p.OpenCloseMu.Lock()
	defer p.OpenCloseMu.Unlock()
	if s := p.inUse[r.key]; s != nil {
		if p.Compatible != nil {
			if err := p.Compatible(s.handle, r.Settings); err != nil {
				return nil, err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		s.refs = append(s.refs, r)
		return s, nil
	}
	s := &share[C, H]{refs: []*StoreRef[C, H]{r}}
	h, err := p.Open(r.Settings, func() *C { return p.newest(s) })
	if err != nil {
		return nil, err
	}
	s.handle = h
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse == nil {
		p.inUse = make(map[string]*share[C, H])
	}
	p.inUse[r.key] = s
	return s, nil
}

func (p *Pool[C, H]) leave(r *StoreRef[C, H], s *share[C, H]) (err error) {
	p.OpenCloseMu.Lock()
	defer p.OpenCloseMu.Unlock()
	p.mu.Lock()
	last := len(s.refs) == 1
	if last {
		delete(p.inUse, r.key)
	}
	p.mu.Unlock()
	if last {
		err = s.handle.Close() // for which newest still has an answer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.refs = slices.DeleteFunc(s.refs, func(other *StoreRef[C, H]) bool { return other == r })
	return err
}

func (p *Pool[C, H]) newest(s *share[C, H]) *C {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.refs) == 0 {
		return nil
	}
	return &s.refs[len(s.refs)-1].Settings
}

// StoreRef is a configuration's reference to a handle. It counts its users: the
// configuration and its requests, which may outlive the configuration. The last user
// releases the handle, and a later request acquires it again.
type StoreRef[C any, H Closer] struct {
	// Settings are those of the configuration. They do not change.
	Settings C

	pool *Pool[C, H]
	key  string

	mu    sync.Mutex // held to change the fields below
	users int
	share atomic.Pointer[share[C, H]] // nil without users
}

// Acquire adds a user of the handle, which stays open until Release.
func (r *StoreRef[C, H]) Acquire() (h H, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 {
		s, err := r.pool.join(r)
		if err != nil {
			return h, fmt.Errorf("opening the store: %w", err)
		}
		r.share.Store(s)
	}
	r.users++
	return r.share.Load().handle, nil
}

// Release removes a user that Acquire added. The error is that of closing the handle.
func (r *StoreRef[C, H]) Release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 {
		panic("sharing: Release without Acquire")
	}
	r.users--
	if r.users > 0 {
		return nil
	}
	return r.pool.leave(r, r.share.Swap(nil))
}

// Enter is Acquire for one call. It opens nothing if ctx has ended.
func (r *StoreRef[C, H]) Enter(ctx context.Context) (h H, err error) {
	if err := ctx.Err(); err != nil {
		return h, err
	}
	return r.Acquire()
}

// Leave is Release for one call. An error goes to OnCloseError, because it is not the
// call's.
func (r *StoreRef[C, H]) Leave() {
	if err := r.Release(); err != nil {
		r.pool.OnCloseError(r.Settings, err)
	}
}

// Current returns the handle if the ref has users. It does not keep the handle open.
func (r *StoreRef[C, H]) Current() (h H, ok bool) {
	if s := r.share.Load(); s != nil {
		return s.handle, true
	}
	return h, false
}
