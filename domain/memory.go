package domain

import (
	"math"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

// DefaultMemory is the limit of the Memory of a new Service, in bytes.
const DefaultMemory = 48 << 20

// Memory bounds what several caches keep: those of Services, and of an inference.Resolver. Each
// takes what the others leave. A cached value costs at least its own size. It is safe for
// concurrent use.
type Memory = cache.Budget

// NewMemory returns a Memory of a limit, in bytes.
func NewMemory(limit int64) *Memory { return cache.NewBudget(int(min(limit, math.MaxInt))) }
