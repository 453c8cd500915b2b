// Package cache keeps in memory what was read from a store.
package cache

import (
	"sync"
	"sync/atomic"
)

// Cache keeps each value with the stamp of its object. A value is valid while the stamp
// stays the same. A value without a stamp, which is zero, is not kept.
//
// A Cache has a limit for the cost of all values. It evicts by the second-chance (clock)
// algorithm, so values that were used recently stay. It is safe for concurrent use. It has
// no goroutine, so it needs no Close to be freed.
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

// Close frees all values. Later values are not kept.
func (c *Cache[K, S, V]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.cost, c.limit = nil, 0, -1
}

// CopyFrom keeps the values of another cache, too, with their stamps. The other one stays as
// it is.
func (c *Cache[K, S, V]) CopyFrom(other *Cache[K, S, V]) {
	type kept struct {
		key   K
		value V
		stamp S
		cost  int
	}
	var all []kept
	other.mu.RLock()
	for key, e := range other.kept {
		all = append(all, kept{key, e.value, e.stamp, e.cost})
	}
	other.mu.RUnlock()
	for _, k := range all {
		c.Put(k.key, k.stamp, k.value, k.cost)
	}
}

// Get returns the value of key if it has this stamp.
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

// Put keeps a value. cost is its size in bytes. A value that costs more than a quarter of
// the limit is not kept. A value with the same stamp stays, because Change may have
// changed it.
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

// evict removes values that were not used since the last call, until the others fit. The
// order is that of Go's maps, which is random. The value of spared stays.
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

// Change changes the value of key by fn. It returns false if there is no value, or if fn
// returns false. The value then stays as it is.
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
