// Package storepool opens a store once for all configurations that use it, and keeps it open
// across reloads.
//
// Each configuration has a Store. Stores with the same key share one handle. The first to
// acquire it opens it, and the last to release it closes it. Caddy provisions a new
// configuration before it cleans up the old one. On a reload there are three cases:
//
//   - The key is the same. The new Store joins, and the handle stays open. The handle then
//     uses the settings of the newest Store, because the logger of an older one may be
//     closed. A late request of the old configuration joins until it is answered.
//   - The key is another. Another handle is opened. The old one is closed once no
//     configuration and no request uses it.
//   - The reload fails, or its settings are not Compatible. Nothing changes.
//
// A caddy.UsagePool counts its users and does not know them, so it cannot tell the newest
// settings. It also blocks while a value is being opened.
package storepool

import (
	"slices"
	"sync"
)

// Pool has the handles in use, by their keys. Set its fields before its first use, and do
// not copy it afterwards. Its methods and those of its stores are safe for concurrent use.
type Pool[C any, S Engine] struct {
	// Opener returns the opener of a handle. newest returns the settings of the Store that
	// joined last. It may be called while the handle is opened or closed. Afterwards it
	// returns nil.
	Opener func(settings C, newest func() *C) Opener[S]

	// Compatible returns an error if settings cannot share the handle of their key. A Store
	// with the settings others uses that handle. It is optional.
	Compatible func(others, settings C) error

	// OnCloseError is called if a late request was the last user of a handle and closing
	// that failed. It is required.
	OnCloseError func(settings C, err error)

	// openCloseMu is held while a handle is opened or closed, so that nobody joins a handle
	// that is being closed.
	openCloseMu sync.Mutex

	mu    sync.Mutex              // guards inUse and shares; it is never held for long
	inUse map[string]*share[C, S] // changes only while openCloseMu is held, too
}

// share is a handle and the stores that share it.
type share[C any, S Engine] struct {
	handle *Handle[S]
	stores []*Store[C, S] // the newest last
}

// InUse returns the open handles, with the number of stores that share each. It does not
// wait for handles that are being opened or closed, and leaves them out.
func (p *Pool[C, S]) InUse() map[*Handle[S]]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[*Handle[S]]int)
	for _, s := range p.inUse {
		all[s.handle] = len(s.stores)
	}
	return all
}

// Store returns a Store that has not acquired its handle.
func (p *Pool[C, S]) Store(key string, settings C) *Store[C, S] {
	return &Store[C, S]{Settings: settings, pool: p, key: key}
}

func (p *Pool[C, S]) join(r *Store[C, S]) (*share[C, S], error) {
	p.openCloseMu.Lock()
	defer p.openCloseMu.Unlock()
	if s := p.inUse[r.key]; s != nil {
		if p.Compatible != nil {
			if err := p.Compatible(s.stores[0].Settings, r.Settings); err != nil {
				return nil, err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		s.stores = append(s.stores, r)
		return s, nil
	}
	s := &share[C, S]{stores: []*Store[C, S]{r}}
	h, err := Open(p.Opener(r.Settings, func() *C { return p.newest(s) }))
	if err != nil {
		return nil, err
	}
	s.handle = h
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse == nil {
		p.inUse = make(map[string]*share[C, S])
	}
	p.inUse[r.key] = s
	return s, nil
}

func (p *Pool[C, S]) leave(r *Store[C, S], s *share[C, S]) (err error) {
	p.openCloseMu.Lock()
	defer p.openCloseMu.Unlock()
	p.mu.Lock()
	last := len(s.stores) == 1
	if last {
		delete(p.inUse, r.key)
	}
	p.mu.Unlock()
	if last {
		err = s.handle.Close() // for which newest still has an answer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.stores = slices.DeleteFunc(s.stores, func(other *Store[C, S]) bool { return other == r })
	return err
}

func (p *Pool[C, S]) newest(s *share[C, S]) *C {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(s.stores) == 0 {
		return nil
	}
	return &s.stores[len(s.stores)-1].Settings
}
