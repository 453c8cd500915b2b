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
)

const (
	// defaultMaxMemory is the smallest default of max_memory, in bytes.
	defaultMaxMemory = 128 << 20
	// defaultMaxBodies is how many of the largest bodies fit into max_memory by default.
	defaultMaxBodies = 4
	// mergeRoom is how many bytes a merge may add to a body. They are the preset's
	// settings, its prompt with escapes, and the workspace's defaults.
	mergeRoom = 2 << 20
)

// provisionMemory sets and checks max_memory. It must hold the largest body in two forms
// at once: packed and unpacked, or sent and merged.
func (i *Inference) provisionMemory() error {
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

// inferenceMemory is the memory for bodies of inference requests, in all handlers of this
// process. It outlives reloads, as requests do.
var inferenceMemory byteSemaphore

var errNoMemory = &statusError{http.StatusServiceUnavailable, "Too many inference requests are in flight: try again later"}

// reservation is the share of inferenceMemory that one request holds. A nil one is for
// bodies that are not counted. Its methods are for one goroutine, but release.
type reservation struct {
	limit int64 // max_memory
	held  atomic.Int64
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

// firstRead is how much of an announced body is reserved before any of it arrives, in bytes.
const firstRead = 64 << 10

// readAll reads r to its end. It reserves memory as bytes arrive. So a client that
// announces much and sends little does not keep others out. announced is the expected size
// in bytes, or -1.
func (m *reservation) readAll(r io.Reader, announced int64) ([]byte, error) {
	expected := announced + bytes.MinRead // with some room to see the end
	body, err := m.alloc(min(max(announced, 0), firstRead) + bytes.MinRead)
	for err == nil {
		if len(body) == cap(body) {
			size := 2 * int64(cap(body))
			if int64(cap(body)) < expected {
				size = min(size, expected)
			}
			var larger []byte
			if larger, err = m.alloc(size); err != nil {
				break
			}
			larger = append(larger, body...)
			m.sub(int64(cap(body)))
			body = larger
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
// memory back when it was read to the end or closed.
//
// It implements io.Reader and io.Closer alone, as the original body does. A transport
// frames a body by the interfaces that it has. Read, Close and drop are safe for concurrent
// use, as a transport may go on reading after the answer.
type heldBody struct {
	reservation
	sent     []byte // as it was sent, nil once something else goes upstream
	unpacked bool   // sent is gzip, and its text is memory of its own

	original io.Closer // the body that sent was read from

	mu   sync.Mutex
	text []byte // goes upstream and was not read yet
	cut  bool   // it was closed before it was read to the end
}

// Reserve reserves memory for a merged body of size bytes. It drops the packed form
// first, which does not go upstream then.
func (b *heldBody) Reserve(size int) error {
	if b.unpacked {
		b.dropSent()
	}
	return b.add(int64(size))
}

// dropSent drops the body as it was sent.
func (b *heldBody) dropSent() {
	b.sub(int64(cap(b.sent)))
	b.sent = nil
}

// replay makes b read text instead of original. The memory of text must be reserved.
func (b *heldBody) replay(text []byte, original io.Closer) {
	b.text, b.sent, b.original = text, nil, original
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.cut:
		return 0, http.ErrBodyReadAfterClose
	case len(b.text) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.text)
	if b.text = b.text[n:]; len(b.text) == 0 {
		b.text = nil
		b.release()
	}
	return n, nil
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
	b.cut, b.text = b.cut || len(b.text) > 0, nil
	b.release()
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
