package heldbody

import (
	"bytes"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// buffer is memory for a body. It is used again, also for other callers. So it is only
// recycled after its last reader, and readers see only what was written since.
type buffer struct {
	text []byte
	pool *sync.Pool // nil for a large one
}

// smallestBuffer is in bytes.
const smallestBuffer = 512

// bufferPools are for buffers of smallestBuffer, of twice that, and so on up to 64 KiB. Each
// has some room more, to see the end of a body.
var bufferPools [8]sync.Pool

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

// newBuffer returns a buffer of a bufferSize, or a large one of up to a quarter more. Its content is not defined.
func newBuffer(size int64) *buffer {
	class := bufferClass(size)
	if class >= len(bufferPools) {
		if used := idle.take(size); used != nil {
			return used
		}
		return &buffer{text: make([]byte, size)}
	}
	pool := &bufferPools[class]
	if used, ok := pool.Get().(*buffer); ok {
		return used
	}
	return &buffer{make([]byte, size), pool}
}

// recycle gives the buffer to others. Idle large ones take at most so many bytes then.
func (b *buffer) recycle(most int64) {
	if b.pool != nil {
		b.pool.Put(b)
	} else {
		idle.put(b, most)
	}
}

// collectAfter is how many bytes of large buffers may be dropped before they are collected.
const collectAfter = 32 << 20

// idleTime is how long large buffers are kept after the last one came back.
const idleTime = 30 * time.Second

// idle are the large buffers that nobody uses. They take at most as much as the bodies in use may. What is thrown
// away instead stays in memory until the collector runs by itself, which it does once there is as much of it as in use.
var idle idleBuffers

// Idle returns how many bytes of large buffers nobody uses. They are kept for half a minute, or a whole one.
func Idle() int64 { return idle.bytes.Load() }

type idleBuffers struct {
	bytes atomic.Int64

	mu         sync.Mutex
	buffers    []*buffer // the latest last
	puts       int       // how many came back so far
	dropped    int64     // bytes since the last collection
	collecting bool
}

// take returns a buffer of size bytes or up to a quarter more, the smallest one, or nil.
func (i *idleBuffers) take(size int64) *buffer {
	if i.bytes.Load() < size {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	best := -1
	for at, b := range i.buffers {
		if has := int64(len(b.text)); has >= size && has <= size+size/4 && (best < 0 || has < int64(len(i.buffers[best].text))) {
			best = at
		}
	}
	if best < 0 {
		return nil
	}
	found := i.buffers[best]
	i.buffers = slices.Delete(i.buffers, best, best+1)
	i.bytes.Add(-int64(len(found.text)))
	return found
}

// put keeps a buffer for others, and drops the oldest ones where all take more than most bytes.
func (i *idleBuffers) put(b *buffer, most int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.buffers = append(i.buffers, b)
	i.bytes.Add(int64(len(b.text)))
	if i.puts++; len(i.buffers) == 1 {
		time.AfterFunc(idleTime, i.dropUnlessUsed(i.puts))
	}
	i.trim(most)
}

// dropUnlessUsed returns a function that drops all, or that looks again later if some came back since puts.
func (i *idleBuffers) dropUnlessUsed(puts int) func() {
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.puts == puts {
			i.trim(0)
		} else if len(i.buffers) > 0 {
			time.AfterFunc(idleTime, i.dropUnlessUsed(i.puts))
		}
	}
}

// trim drops the oldest buffers until the rest take at most so many bytes. i must be locked.
func (i *idleBuffers) trim(most int64) {
	for len(i.buffers) > 0 && i.bytes.Load() > most {
		size := int64(len(i.buffers[0].text))
		i.bytes.Add(-size)
		i.dropped += size
		i.buffers = slices.Delete(i.buffers, 0, 1)
	}
	if i.dropped > collectAfter && !i.collecting {
		i.dropped, i.collecting = 0, true
		go i.collect()
	}
}

// collect collects what was dropped.
func (i *idleBuffers) collect() {
	runtime.GC()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.collecting = false
}
