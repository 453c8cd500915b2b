// Package registry registers the stores that running configurations use. The admin endpoint
// finds them there, and handlers of the same store find each other.
package registry

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain"
)

// stores holds a *Store by the name of each store that a running configuration uses.
var stores = caddy.NewUsagePool()

// Store is a store that one or more handlers use. During a reload they belong to two
// configurations. Its methods are safe for concurrent use.
type Store struct {
	name string
	gone context.Context
	end  context.CancelFunc

	once   sync.Once
	shared any

	lastBackup, lastCopy atomic.Pointer[time.Time]

	retry sync.Once // RevokeKey

	mu   sync.Mutex
	uses []*Use // the newest last

	keys atomic.Pointer[map[domain.KeyHash]struct{}] // of all uses; readers take no lock
}

// Use is how one handler uses a store. It does not change after Add.
type Use struct {
	Store        domain.Store
	Service      *domain.Service
	Keys         []domain.Principal // from the configuration
	KeepVersions int                // 0 for all
	// Inference says that it serves inference requests.
	Inference bool
	// StoreUsage stores what inference requests have used until now. It is nil if the use
	// does not measure that.
	StoreUsage func(context.Context) error
}

// Add adds a use to the store of a name, until Remove.
func Add(name string, u *Use) *Store {
	value, _, _ := stores.LoadOrNew(name, func() (caddy.Destructor, error) { // never fails
		gone, end := context.WithCancel(context.Background())
		return &Store{name: name, gone: gone, end: end}, nil
	})
	s := value.(*Store)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setUses(append(s.uses, u))
	return s
}

// Remove removes a use that was added. The last one ends the context of Gone.
func (s *Store) Remove(u *Use) error {
	s.mu.Lock()
	s.setUses(slices.DeleteFunc(s.uses, func(other *Use) bool { return other == u }))
	s.mu.Unlock()
	_, err := stores.Delete(s.name)
	return err
}

// setUses replaces the uses and the snapshot of their keys.
func (s *Store) setUses(uses []*Use) {
	s.uses = uses
	hashes := make(map[domain.KeyHash]struct{})
	for _, u := range uses {
		for _, who := range u.Keys {
			hashes[who.Hash] = struct{}{}
		}
	}
	s.keys.Store(&hashes)
}

// Destruct implements caddy.Destructor.
func (s *Store) Destruct() error {
	s.end()
	return nil
}

// Name returns the name that the store was added with.
func (s *Store) Name() string { return s.name }

// Shared returns a value that all users of the store share. The first call makes it. It
// outlives reloads.
func (s *Store) Shared(create func() any) any {
	s.once.Do(func() { s.shared = create() })
	return s.shared
}

// RecordBackup records that a backup of the store was sent whole.
func (s *Store) RecordBackup(at time.Time) { s.lastBackup.Store(&at) }

// LastBackup returns when a backup was last sent whole. It is zero if none was since a
// configuration began to use the store. It outlives reloads.
func (s *Store) LastBackup() time.Time { return timeOf(&s.lastBackup) }

// RecordCopy records that a bucket has a copy of the store as it was at a time.
func (s *Store) RecordCopy(at time.Time) { s.lastCopy.Store(&at) }

// LastCopy returns the time of the last copy, as LastBackup does.
func (s *Store) LastCopy() time.Time { return timeOf(&s.lastCopy) }

func timeOf(of *atomic.Pointer[time.Time]) time.Time {
	if at := of.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Gone returns a context that ends when no configuration uses the store any more. Requests
// that keep the store open must end with it.
func (s *Store) Gone() context.Context { return s.gone }

// Uses returns all uses of the store, the newest last.
func (s *Store) Uses() []*Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.uses)
}

// Newest returns the use that was added last, or nil if all are removed. The admin endpoint
// uses this one, because older settings, such as a password, may no longer be valid.
func (s *Store) Newest() *Use {
	uses := s.Uses()
	if len(uses) == 0 {
		return nil
	}
	return uses[len(uses)-1]
}

// Keys returns the keys that the configuration of any site has for the store.
func (s *Store) Keys() (keys []domain.Principal) {
	for _, u := range s.Uses() {
		keys = append(keys, u.Keys...)
	}
	return keys
}

// HasKey reports whether the configuration of any site has a key.
func (s *Store) HasKey(key domain.KeyHash) bool {
	_, ok := (*s.keys.Load())[key]
	return ok
}

// HasKeys reports whether the configuration of any site has keys.
func (s *Store) HasKeys() bool { return len(*s.keys.Load()) > 0 }

// All returns the stores in use, by their names.
func All() map[string]*Store {
	all := make(map[string]*Store)
	stores.Range(func(name, store any) bool {
		if s := store.(*Store); s.Newest() != nil {
			all[name.(string)] = s
		}
		return true
	})
	return all
}

// Interface guard
var _ caddy.Destructor = (*Store)(nil)
