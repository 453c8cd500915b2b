// Package cache keeps in memory what was read from a store.
package cache

import (
	"sync"
	"sync/atomic"
)

// Cache keeps values, each under the stamp that it was read under. It gives a value out
// for as long as the stamp stays the same. The zero stamp is none.
//
// All values together cost at most a limit. Room for a new one is made by a second
// chance (clock) algorithm: a value that was asked for lately stays. A Cache is safe for
// concurrent use and has no goroutine: one that nobody refers to is gone.
type Cache[K, S comparable, V any] struct {
	limit int

	mu   sync.RWMutex
	kept map[K]*entry[S, V]
	cost int
}

type entry[S comparable, V any] struct {
	value V
	stamp S
	cost  int
	used  atomic.Bool // since room was last made
}

// New returns a Cache of values that cost at most limit, in bytes.
func New[K, S comparable, V any](limit int) *Cache[K, S, V] {
	return &Cache[K, S, V]{limit: limit, kept: make(map[K]*entry[S, V])}
}

// Close frees all values. The cache keeps none from then on.
func (c *Cache[K, S, V]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.cost, c.limit = nil, 0, -1
}

// Get returns the value of key, if it was read under stamp.
func (c *Cache[K, S, V]) Get(key K, stamp S) (value V, ok bool) {
	var none S
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.kept[key]
	if e == nil || e.stamp != stamp || stamp == none {
		return value, false
	}
	if !e.used.Load() { // a write that is not needed would slow other processors down
		e.used.Store(true)
	}
	return e.value, true
}

// Put keeps a value that costs so many bytes. It does nothing for one that takes more
// than a quarter of the limit, and where there is a value of the same stamp: that one may
// have been changed since this one was read.
func (c *Cache[K, S, V]) Put(key K, stamp S, value V, cost int) {
	var none S
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.kept[key]
	if stamp == none || c.limit < 0 || cost > c.limit/4 || before != nil && before.stamp == stamp {
		return
	}
	if before != nil {
		c.cost -= before.cost
	}
	c.kept[key] = &entry[S, V]{value: value, stamp: stamp, cost: cost}
	c.cost += cost
	for c.cost > c.limit {
		c.evict(key)
	}
}

// evict removes values that were not used since it was last called, until all others fit.
// It goes through them in the random order of Go's maps, and spares the one of key.
func (c *Cache[K, S, V]) evict(spared K) {
	for key, e := range c.kept {
		switch {
		case c.cost <= c.limit:
			return
		case key == spared || e.used.Swap(false):
		default:
			delete(c.kept, key)
			c.cost -= e.cost
		}
	}
}

// Change lets fn change the value of key. It returns false where fn does, which leaves
// the value as it is, and where there is none.
func (c *Cache[K, S, V]) Change(key K, fn func(*V) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[key]
	if e == nil {
		return false
	}
	value := e.value
	if !fn(&value) {
		return false
	}
	e.value = value
	return true
}
