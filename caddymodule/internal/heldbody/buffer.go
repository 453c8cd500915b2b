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

// bufferPools are for buffers of smallestBuffer, of twice that, and so on up to 1 MiB. Each
// has some room more, to see the end of a body.
var bufferPools [12]sync.Pool

// bufferSize returns the size of the buffer for size bytes.
func bufferSize(size int64) int64 {
	if class := bufferClass(size); class < len(bufferPools) {
		return smallestBuffer<<class + bytes.MinRead
	}
	return size
}

// bufferClass returns the index of the pool for size bytes, or a larger one.
func bufferClass(size int64) int {
	return bits.Len64(uint64(max(0, size-bytes.MinRead-1)) / smallestBuffer)
}

// newBuffer returns a buffer of a bufferSize. Its content is not defined.
func newBuffer(size int64) *buffer {
	class := bufferClass(size)
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
