package caddymodule

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/dustin/go-humanize"

	"github.com/caddy-presets/caddy-presets/domain/inference"
)

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

// byteSemaphore is a weighted semaphore on which nobody waits. The caller gives the
// limit, since handlers may have different ones and a reload may change them. It is
// safe for concurrent use.
type byteSemaphore struct{ held atomic.Int64 }

// tryAcquire takes n bytes unless more than limit bytes would then be held.
func (s *byteSemaphore) tryAcquire(n, limit int64) bool {
	for {
		held := s.held.Load()
		if n > limit-held {
			return false
		}
		if s.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

func (s *byteSemaphore) release(n int64) { s.held.Add(-n) }

// inferenceMemory is the memory for bodies of inference requests and lists of models, in all handlers of this
// process. It outlives reloads, as requests do.
var inferenceMemory byteSemaphore

var errNoMemory = &statusError{http.StatusServiceUnavailable, "Too many inference requests are in flight: try again later"}

// reservation is the share of inferenceMemory that one request holds. A nil one is for
// bodies that are not counted. Its methods are for one goroutine, but release.
type reservation struct {
	limit  int64 // max_memory
	held   atomic.Int64
	buffer *buffer // of the body that was read, nil for none
}

// add reserves n more bytes or fails at once. The error is errNoMemory where a retry
// may succeed, and errTooLarge where the request alone exceeds the limit.
func (m *reservation) add(n int64) error {
	switch {
	case m == nil:
		return nil
	case m.held.Load()+n > m.limit:
		return errTooLarge
	case !inferenceMemory.tryAcquire(n, m.limit):
		return errNoMemory
	}
	m.held.Add(n)
	return nil
}

// sub gives n reserved bytes back.
func (m *reservation) sub(n int64) {
	if m != nil {
		m.held.Add(-n)
		inferenceMemory.release(n)
	}
}

// release gives back all that is reserved. Further calls do nothing.
func (m *reservation) release() { inferenceMemory.release(m.held.Swap(0)) }

// hasRoom reports whether n bytes could be reserved now. It reserves nothing.
func (m *reservation) hasRoom(n int64) bool {
	return m == nil || n <= m.limit-inferenceMemory.held.Load()
}

// alloc returns an empty slice for size bytes, which it reserves.
func (m *reservation) alloc(size int64) ([]byte, error) {
	if err := m.add(size); err != nil {
		return nil, err
	}
	return make([]byte, 0, size), nil
}

// grow returns a copy of body, which grow or nobody returned, with room for size bytes at
// least. It reserves the room, and gives that of body back.
func (m *reservation) grow(body []byte, size int64) ([]byte, error) {
	size = bufferSize(size)
	if m == nil {
		return append(make([]byte, 0, size), body...), nil
	}
	if err := m.add(size); err != nil {
		return nil, err
	}
	larger := newBuffer(size)
	text := append(larger.text[:0], body...)
	m.sub(int64(cap(body)))
	m.recycle()
	m.buffer = larger
	return text, nil
}

// recycle lets other requests use the buffer. Nothing may refer to it any more.
func (m *reservation) recycle() {
	if m.buffer != nil {
		m.buffer.recycle()
		m.buffer = nil
	}
}

// firstRead is how much of an announced body is reserved before any of it arrives, in bytes.
const firstRead = 64 << 10

// readAll reads r to its end. It reserves memory as bytes arrive. So a client that
// announces much and sends little does not keep others out. announced is the expected size
// in bytes, or -1. No more than most bytes are expected then.
func (m *reservation) readAll(r io.Reader, announced, most int64) ([]byte, error) {
	expected := announced
	if announced < 0 {
		expected = most
	}
	expected += bytes.MinRead // with some room to see the end
	body, err := m.grow(nil, min(max(announced, 0), firstRead)+bytes.MinRead)
	for err == nil {
		if len(body) == cap(body) {
			size := 2*int64(cap(body)) - bytes.MinRead // the next bufferSize
			if int64(cap(body)) < expected {
				size = min(size, expected)
			}
			if body, err = m.grow(body, size); err != nil {
				break
			}
		}
		var n int
		n, err = r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	if err != io.EOF { //nolint:errorlint // readers return it as it is
		return nil, err
	}
	return body, nil
}

// wholeBody stands for a body that was read whole and is held elsewhere.
var wholeBody = []byte{}

// heldBody is the body of an inference request: first as it was sent, then as it goes
// upstream. Nothing else refers to its bytes while the gateway answers. It gives its
// memory back when it was read to the end or closed. Other requests then use it, so Read
// copies.
//
// It implements io.Reader and io.Closer alone, as the original body does. A transport
// frames a body by the interfaces that it has. Read, Close and drop are safe for concurrent
// use, as a transport may go on reading after the answer.
type heldBody struct {
	reservation
	sent     []byte // as it was sent, nil once something else goes upstream
	unpacked bool   // sent is encoded, and its text is memory of its own

	original io.Closer // the body that sent was read from

	mu   sync.Mutex
	rest inference.Body // goes upstream and was not read yet
	cut  bool           // it was closed before it was read to the end
}

// Reserve reserves memory for a merged body of size bytes. It drops the packed form
// first, which does not go upstream then.
func (b *heldBody) Reserve(size int) error {
	if b.unpacked {
		b.dropSent()
	}
	return b.add(int64(size))
}

// Release gives back reserved memory of size bytes.
func (b *heldBody) Release(size int) { b.sub(int64(size)) }

// dropSent drops the body as it was sent.
func (b *heldBody) dropSent() {
	b.sub(int64(cap(b.sent)))
	b.sent = nil
	b.recycle()
}

// replay makes b read text instead of original. The memory of text must be reserved.
func (b *heldBody) replay(text inference.Body, original io.Closer) {
	b.rest, b.sent, b.original = text, nil, original
	b.skipRead()
}

// join returns the body in one piece, instead of a reader of it.
func (b *heldBody) join() ([]byte, error) {
	if len(b.rest) < 2 {
		return b.rest.Bytes(), nil
	}
	before := b.held.Load()
	if err := b.add(int64(b.rest.Len())); err != nil {
		return nil, err
	}
	whole := b.rest.Bytes()
	b.replay(inference.Body{whole}, b.original)
	b.recycle()
	b.sub(before)
	return whole, nil
}

func (b *heldBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.cut:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	for n < len(p) && len(b.rest) > 0 {
		copied := copy(p[n:], b.rest[0])
		n, b.rest[0] = n+copied, b.rest[0][copied:]
		b.skipRead()
	}
	if len(b.rest) == 0 {
		b.free()
	}
	return n, nil
}

// skipRead drops leading pieces that were read whole.
func (b *heldBody) skipRead() {
	for len(b.rest) > 0 && len(b.rest[0]) == 0 {
		b.rest = b.rest[1:]
	}
}

// free gives back all memory.
func (b *heldBody) free() {
	b.sent, b.rest = nil, nil
	b.release()
	b.recycle()
}

// Close drops the rest of the body. Further reads fail, if there was a rest.
func (b *heldBody) Close() error {
	b.drop()
	return b.original.Close()
}

// drop is Close without closing the original: the server does that when a request ends.
func (b *heldBody) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = b.cut || len(b.rest) > 0
	b.free()
}

// end drops the body of a request that was served. If serving failed with err, an error
// route may still read the body. It is then dropped when ctx, the request's, ends.
func (b *heldBody) end(ctx context.Context, err error) {
	if err != nil && ctx.Done() != nil {
		context.AfterFunc(ctx, b.drop)
		return
	}
	b.drop()
}
