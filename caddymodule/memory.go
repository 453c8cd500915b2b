package caddymodule

import (
	"fmt"
	"runtime/debug"

	"github.com/dustin/go-humanize"

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

const (
	// defaultInferenceBodySize is the largest default of max_body_size, in bytes.
	defaultInferenceBodySize = 32 << 20
	// defaultMaxMemory is the smallest default of max_memory, in bytes.
	defaultMaxMemory = 128 << 20
	// defaultMaxBodies is how many of the largest bodies fit into max_memory by default.
	defaultMaxBodies = 4
	// mergeRoom is how many bytes a merge may add to a body. They are the preset's
	// settings, its prompt with escapes, and the workspace's defaults.
	mergeRoom = 2 << 20
)

// provisionMemory sets and checks max_body_size and max_memory. The memory must hold the largest
// body in two forms at once: packed and unpacked, or sent and merged.
func (i *Inference) provisionMemory() error {
	if i.MaxBodySize == 0 {
		const mib = 1 << 20
		i.MaxBodySize = min(defaultInferenceBodySize, max(mib, goMemoryLimit()/16/mib*mib))
	}
	if i.MaxBodySize < 0 {
		return fmt.Errorf("max_body_size: must be positive, got %d", i.MaxBodySize)
	}
	least := 2*i.MaxBodySize + mergeRoom
	if i.MaxMemory == 0 {
		i.MaxMemory = max(least, min(max(defaultMaxMemory, defaultMaxBodies*i.MaxBodySize), goMemoryLimit()/2))
	}
	if i.MaxMemory < least {
		return fmt.Errorf("max_memory: must be at least %d (%s), to hold one request of max_body_size (%d) in two forms at once, got %d",
			least, humanize.IBytes(uint64(least)), i.MaxBodySize, i.MaxMemory)
	}
	return nil
}
