// Package cow has a map for few changes and many readers.
package cow

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Map is copied on each write, so that readers need no lock. The zero value is empty. It is safe for
// concurrent use.
type Map[K comparable, V any] struct {
	mu  sync.Mutex // held to replace the map
	all atomic.Pointer[map[K]V]
}

// All returns the whole map, which is not changed any more.
func (m *Map[K, V]) All() map[K]V {
	if all := m.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Add adds a value, unless the key has one. It returns the one that the key has then.
func (m *Map[K, V]) Add(key K, value V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if earlier, ok := m.All()[key]; ok {
		return earlier
	}
	all := map[K]V{key: value}
	maps.Copy(all, m.All())
	m.all.Store(&all)
	return value
}

// Remove removes the value of a key.
func (m *Map[K, V]) Remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.All())
	delete(all, key)
	m.all.Store(&all)
}
