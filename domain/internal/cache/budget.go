package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Budget is a limit for the cost of the values of all its caches, in bytes. Each cache takes what
// the others leave. Room is made in the cache that has most. It is safe for concurrent use.
type Budget struct {
	limit int
	cost  atomic.Int64

	mu     sync.Mutex // held while room is made, and before a cache's own
	caches []member
}

// member is a Cache of any type.
type member interface {
	// size returns the cost of the values.
	size() int
	// evict removes values until they cost less by excess, or none is left.
	evict(excess int)
}

// NewBudget returns a Budget of a limit, in bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

func (b *Budget) join(m member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.caches = append(b.caches, m)
}

// excess returns by how much the values cost too much.
func (b *Budget) excess() int { return int(b.cost.Load()) - b.limit }

// makeRoom evicts values until they keep the limit.
func (b *Budget) makeRoom() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for excess := b.excess(); excess > 0; excess = b.excess() {
		slices.MaxFunc(b.caches, func(x, y member) int { return x.size() - y.size() }).evict(excess)
	}
}
