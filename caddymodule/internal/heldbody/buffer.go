package heldbody

import (
	"bytes"
	"math/bits"
	"sync"
)

// buffer is memory for a body. It is used again, also for other callers. So it is only
// recycled after its last reader, and readers see only what was written since.
type buffer struct {
	text []byte
	pool *sync.Pool // nil for a size that is rare
}

// smallestBuffer is in bytes.
const smallestBuffer = 512

// bufferPools are for buffers of smallestBuffer, and of four sizes more for each time that it doubles, up to
// 64 MiB. Each has some room more, to see the end of a body. Large ones are in pools, too: what is thrown
// away stays in memory until the collector runs, which it does once there is as much of it as in use.
var bufferPools [1 + 4*17]sync.Pool

// bufferClass returns the index of the pool for size bytes, or a larger one, and the size of its buffers.
func bufferClass(size int64) (class int, rounded int64) {
	last := uint64(max(size-bytes.MinRead, smallestBuffer)) - 1
	doublings := bits.Len64(last / smallestBuffer)
	if doublings == 0 {
		return 0, smallestBuffer + bytes.MinRead
	}
	step := uint64(smallestBuffer/8) << doublings // a quarter of what is doubled
	steps := last/step + 1
	return 4*(doublings-1) + int(steps) - 4, int64(steps*step) + bytes.MinRead
}

// bufferSize returns the size of the buffer for size bytes.
func bufferSize(size int64) int64 {
	if class, rounded := bufferClass(size); class < len(bufferPools) {
		return rounded
	}
	return size
}

// newBuffer returns a buffer of a bufferSize. Its content is not defined.
func newBuffer(size int64) *buffer {
	class, _ := bufferClass(size)
	if class >= len(bufferPools) {
		return &buffer{text: make([]byte, size)}
	}
	pool := &bufferPools[class]
	if used, ok := pool.Get().(*buffer); ok {
		return used
	}
	return &buffer{make([]byte, size), pool}
}

// recycle gives the buffer to others.
func (b *buffer) recycle() {
	if b.pool != nil {
		b.pool.Put(b)
	}
}
