package caddymodule

import (
	"fmt"
	"runtime/debug"

	"github.com/caddy-presets/caddy-presets/domain"
)

// memoryFor returns the setting memory, or its default if it is 0.
func memoryFor(set int64) (int64, error) {
	if set == 0 {
		return min(domain.DefaultMemory, goMemoryLimit()/4), nil
	}
	if set < 0 || set > maxSize {
		return 0, fmt.Errorf("must be between 1 and %d bytes, got %d", int64(maxSize), set)
	}
	return set, nil
}

// goMemoryLimit returns Go's memory limit, in bytes. Caddy sets it to nine tenths of the
// container's memory, or of the machine's, unless GOMEMLIMIT is set.
func goMemoryLimit() int64 { return debug.SetMemoryLimit(-1) }
