// Package cache keeps in memory what was read from a store. Stamps tell whether it is current.
package cache

import (
	"sync"
	"sync/atomic"
)

// Cache keeps each value with the stamp of its object. A value is valid while the stamp
// stays the same. A value without a stamp, which is zero, is not kept.
//
// A Cache keeps within its Budget. It evicts by the second-chance (clock) algorithm, so values
// that were used recently stay. It is safe for concurrent use. It has no goroutine, so it needs
// no Close to be freed.
type Cache[K comparable, V any] struct {
	budget *Budget

	mu   sync.RWMutex
	kept map[K]*entry[V] // nil once it is closed
	cost int
}

type entry[V any] struct {
	value V
	stamp Stamp
	cost  int
	used  atomic.Bool // since room was last made
}

// New returns a Cache that shares a Budget with others.
func New[K comparable, V any](budget *Budget) *Cache[K, V] {
	c := &Cache[K, V]{budget: budget, kept: make(map[K]*entry[V])}
	budget.join(c)
	return c
}

// Close frees all values. Later values are not kept.
func (c *Cache[K, V]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(-c.cost)
	c.kept = nil
}

// CopyFrom keeps the values of another cache, too, with their stamps. The other one stays as
// it is.
func (c *Cache[K, V]) CopyFrom(other *Cache[K, V]) {
	type kept struct {
		key   K
		value V
		stamp Stamp
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
func (c *Cache[K, V]) Get(key K, stamp Stamp) (value V, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.kept[key]
	if e == nil || e.stamp != stamp || stamp == 0 {
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
func (c *Cache[K, V]) Put(key K, stamp Stamp, value V, cost int) {
	e := &entry[V]{value: value, stamp: stamp, cost: cost}
	e.used.Store(true)
	if c.put(key, e) && c.budget.excess() > 0 {
		c.budget.makeRoom()
	}
}

// put adds a value, and returns false if it is not kept.
func (c *Cache[K, V]) put(key K, e *entry[V]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.kept[key]
	if e.stamp == 0 || c.kept == nil || e.cost > c.budget.limit/4 || before != nil && before.stamp == e.stamp {
		return false
	}
	if before != nil {
		c.add(-before.cost)
	}
	c.kept[key] = e
	c.add(e.cost)
	return true
}

// add changes the cost of the values. The caller holds c.mu.
func (c *Cache[K, V]) add(cost int) {
	c.cost += cost
	c.budget.cost.Add(int64(cost))
}

func (c *Cache[K, V]) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cost
}

// evict removes values that were not used since the last call first, and then others. The
// order is that of Go's maps, which is random.
func (c *Cache[K, V]) evict(excess int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.cost - excess
	for range 2 { // at once, or else readers could use the values again, and again
		for key, e := range c.kept {
			switch {
			case c.cost <= end:
				return
			case e.used.Swap(false):
			default:
				delete(c.kept, key)
				c.add(-e.cost)
			}
		}
	}
}

// Change changes the value of key by fn. It returns false if there is no value, or if fn
// returns false. The value then stays as it is.
func (c *Cache[K, V]) Change(key K, fn func(*V) bool) bool {
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
