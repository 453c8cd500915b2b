// Package sharing keeps a store open for as long as a configuration uses it, once for
// all that do, so that a reload closes nothing that is still needed.
//
// Configurations hold leases, and leases with the same key share a handle. The first to
// acquire one opens it, the last to release it closes it; nobody else does either. Caddy
// provisions a configuration before it cleans up the one before it, and so on a reload
//
//   - with the same key, the new lease joins, and the handle stays open. What concerns
//     it as a whole goes by the settings of the lease that joined last: the logger of an
//     earlier one may lead nowhere any more. A request that comes late joins for as long
//     as it lasts, for a configuration that is gone;
//   - with another key, a handle of its own is opened, and the one before is closed
//     as soon as neither a configuration nor a request uses it;
//   - that fails, or whose settings do not fit what is open, all stays as it was.
//
// It is not a caddy.UsagePool because that knows how many share a value and not who, and
// does not tell what it has while a value is being opened.
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

// Pool has the handles that are in use, by their keys. Its fields are set before its
// first use, and it is not copied after that. Its methods and those of its leases are
// safe for concurrent use.
type Pool[C any, H Closer] struct {
	// Open opens a handle for the first to acquire it. At any time, also during Open and
	// Close, newest returns the settings of the lease that joined last. After Close it
	// returns nil.
	Open func(settings C, newest func() *C) (H, error)

	// Compatible returns an error if settings cannot share an open handle that has their
	// key. It is nil if equal keys are enough.
	Compatible func(h H, settings C) error

	// OnCloseError is called if closing a handle after its last call failed. It is not
	// nil.
	OnCloseError func(settings C, err error)

	// OpenCloseMu is held while a handle is opened or closed. So nobody joins a handle
	// that is being closed, and it can be opened again right after. Tests take it to wait.
	OpenCloseMu sync.Mutex

	mu    sync.Mutex              // of what is below, never held for long
	inUse map[string]*share[C, H] // changed with OpenCloseMu only
}

// share is a handle and who shares it.
type share[C any, H Closer] struct {
	handle H
	leases []*Lease[C, H] // the newest last
}

// InUse returns the handles that are open, and how many leases share each. It does not
// wait for one that is being opened or closed, which is none of them.
func (p *Pool[C, H]) InUse() map[H]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[H]int)
	for _, s := range p.inUse {
		all[s.handle] = len(s.leases)
	}
	return all
}

// Lease returns a lease that has no share yet.
func (p *Pool[C, H]) Lease(key string, settings C) *Lease[C, H] {
	return &Lease[C, H]{Settings: settings, pool: p, key: key}
}

func (p *Pool[C, H]) join(l *Lease[C, H]) (*share[C, H], error) {
	p.OpenCloseMu.Lock()
	defer p.OpenCloseMu.Unlock()
	if s := p.inUse[l.key]; s != nil {
		if p.Compatible != nil {
			if err := p.Compatible(s.handle, l.Settings); err != nil {
				return nil, err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		s.leases = append(s.leases, l)
		return s, nil
	}
	s := &share[C, H]{leases: []*Lease[C, H]{l}}
	h, err := p.Open(l.Settings, func() *C { return p.newest(s) })
	if err != nil {
		return nil, err
	}
	s.handle = h
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse == nil {
		p.inUse = make(map[string]*share[C, H])
	}
	p.inUse[l.key] = s
	return s, nil
}

func (p *Pool[C, H]) leave(l *Lease[C, H], s *share[C, H]) (err error) {
	p.OpenCloseMu.Lock()
	defer p.OpenCloseMu.Unlock()
	p.mu.Lock()
	last := len(s.leases) == 1
	if last {
		delete(p.inUse, l.key)
	}
	p.mu.Unlock()
	if last {
		err = s.handle.Close() // for which newest still has an answer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.leases = slices.DeleteFunc(s.leases, func(other *Lease[C, H]) bool { return other == l })
	return err
}

func (p *Pool[C, H]) newest(s *share[C, H]) *C {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.leases) == 0 {
		return nil
	}
	return &s.leases[len(s.leases)-1].Settings
}

// Lease is a configuration's share in a handle. Requests that were under way when the
// configuration was replaced still use it after its end, so it counts its users, the
// configuration being one of them: the share is given up when the last is done, and
// taken again should a request come even later.
type Lease[C any, H Closer] struct {
	// Settings are the configuration's, and do not change.
	Settings C

	pool *Pool[C, H]
	key  string

	mu    sync.Mutex // of changes to the fields below
	users int
	share atomic.Pointer[share[C, H]] // nil without users
}

// Acquire makes the caller a user of the handle, which stays open until it calls
// Release.
func (l *Lease[C, H]) Acquire() (h H, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		s, err := l.pool.join(l)
		if err != nil {
			return h, fmt.Errorf("opening the store: %w", err)
		}
		l.share.Store(s)
	}
	l.users++
	return l.share.Load().handle, nil
}

// Release ends what Acquire began, once for each time that it succeeded. It returns what
// went wrong where the handle had to be closed.
func (l *Lease[C, H]) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		panic("sharing: Release without Acquire")
	}
	l.users--
	if l.users > 0 {
		return nil
	}
	return l.pool.leave(l, l.share.Swap(nil))
}

// Enter is Acquire for a call. If ctx has ended nothing is opened.
func (l *Lease[C, H]) Enter(ctx context.Context) (h H, err error) {
	if err := ctx.Err(); err != nil {
		return h, err
	}
	return l.Acquire()
}

// Leave ends what Enter began. A failure to close the handle is not the call's: the
// pool's OnCloseError is told.
func (l *Lease[C, H]) Leave() {
	if err := l.Release(); err != nil {
		l.pool.OnCloseError(l.Settings, err)
	}
}

// Current returns the handle if the lease has users. It neither opens it nor keeps it
// open.
func (l *Lease[C, H]) Current() (h H, ok bool) {
	if s := l.share.Load(); s != nil {
		return s.handle, true
	}
	return h, false
}
