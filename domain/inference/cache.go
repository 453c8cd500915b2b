package inference

import (
	"sync"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/caddy-presets/caddy-presets/domain"
)

// minEntryCost is what a kept object costs besides its own bytes, about.
const minEntryCost = 1024

// cached is what a Resolver keeps in memory under one key, and the stamp that it
// was read under. One of the others is set.
type cached struct {
	stamp     domain.Stamp
	workspace *workspaceDefaults
	preset    *domain.Preset // an active one
	settings  *settings      // of one version for one dialect
}

// cache keeps objects within a bound of memory. What is kept may go at any time,
// and what is added may not be there yet, or ever.
type cache struct {
	mu   sync.RWMutex // held for reading during use: the library panics when closed meanwhile
	kept *ristretto.Cache[string, *cached]
}

func newCache(size int64) (*cache, error) {
	kept, err := ristretto.NewCache(&ristretto.Config[string, *cached]{
		MaxCost: size,
		// The library wants ten for each object that fits; presets take some
		// kilobytes.
		NumCounters: max(1000, 10*size/(4*minEntryCost)),
		BufferItems: 64,
	})
	return &cache{kept: kept}, err
}

// get returns what is kept under key if it was read under stamp, else nil.
func (c *cache) get(key string, stamp domain.Stamp) *cached {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.kept == nil {
		return nil
	}
	if value, ok := c.kept.Get(key); ok && value.stamp == stamp && stamp != 0 {
		return value
	}
	return nil
}

// set keeps value, which takes about cost bytes.
func (c *cache) set(key string, value *cached, cost int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.kept != nil && value.stamp != 0 {
		c.kept.Set(key, value, cost)
	}
}

// close frees the memory. Nothing is kept from here on.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil {
		c.kept.Close()
		c.kept = nil
	}
}
