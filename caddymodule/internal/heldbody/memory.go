package heldbody

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
)

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

// memory is the memory for bodies of inference requests and lists of models, in all handlers of this
// process. It outlives reloads, as requests do.
var memory byteSemaphore

// Errors of a request for memory. ErrNoMemory may pass with time, and ErrTooLarge does not.
var (
	ErrTooLarge = &status.Error{Status: http.StatusRequestEntityTooLarge, Message: "Request payload too large"}
	ErrNoMemory = &status.Error{
		Status: http.StatusServiceUnavailable, Message: "Too many inference requests are in flight: try again later",
		Header: "Retry-After", Value: status.RetryAfter,
	}
)

// Reservation is the share of that memory that one request holds. A nil one is for
// bodies that are not counted. Its methods are for one goroutine, but ReleaseAll.
type Reservation struct {
	Limit  int64 // of the whole process, in bytes
	held   atomic.Int64
	buffer *buffer // of the body that was read, nil for none
}

// Add reserves n more bytes or fails at once. The error is ErrNoMemory where a retry
// may succeed, and ErrTooLarge where the request alone exceeds the limit.
func (m *Reservation) Add(n int64) error {
	switch {
	case m == nil:
		return nil
	case m.held.Load()+n > m.Limit:
		return ErrTooLarge
	case !memory.tryAcquire(n, m.Limit):
		return ErrNoMemory
	}
	m.held.Add(n)
	idle.trim(m.Limit)
	return nil
}

// Sub gives n reserved bytes back.
func (m *Reservation) Sub(n int64) {
	if m != nil {
		m.held.Add(-n)
		memory.release(n)
	}
}

// ReleaseAll gives back all that is reserved. Further calls do nothing.
func (m *Reservation) ReleaseAll() { memory.release(m.held.Swap(0)) }

// HasRoom reports whether n bytes could be reserved now. It reserves nothing.
func (m *Reservation) HasRoom(n int64) bool {
	return m == nil || n <= m.Limit-memory.held.Load()
}

// Alloc returns an empty slice for size bytes, which it reserves.
func (m *Reservation) Alloc(size int64) ([]byte, error) {
	if err := m.Add(size); err != nil {
		return nil, err
	}
	return make([]byte, 0, size), nil
}

// Grow returns a copy of body, which Grow or nobody returned, with room for size bytes at
// least. It reserves the room, and gives that of body back.
func (m *Reservation) Grow(body []byte, size int64) ([]byte, error) {
	size = bufferSize(size)
	if m == nil {
		return append(make([]byte, 0, size), body...), nil
	}
	larger := usedBuffer(size) // before Add, which drops idle ones
	if err := m.Add(size); err != nil {
		if larger != nil {
			larger.recycle()
		}
		return nil, err
	}
	if larger == nil {
		larger = newBuffer(size)
	}
	text := append(larger.text[:0:size], body...)
	m.Sub(int64(cap(body)))
	m.Recycle()
	m.buffer = larger
	return text, nil
}

// Recycle lets other requests use the buffer. Nothing may refer to it any more.
func (m *Reservation) Recycle() {
	if m.buffer != nil {
		m.buffer.recycle()
		m.buffer = nil
	}
}

// FirstRead is how much of an announced body is reserved before any of it arrives, in bytes. growth is how
// many times what arrived is reserved next.
const (
	FirstRead = 64 << 10
	growth    = 16
)

// ReadAll reads r to its end. It reserves memory as bytes arrive. So a client that
// announces much and sends little does not keep others out. announced is the expected size
// in bytes, or -1. No more than most bytes are expected then.
func (m *Reservation) ReadAll(r io.Reader, announced, most int64) ([]byte, error) {
	expected := announced
	if announced < 0 {
		expected = most
	}
	expected += bytes.MinRead // with some room to see the end
	times := int64(2)
	if announced >= 0 { // most bodies are copied once at most
		times = growth
	}
	body, err := m.Grow(nil, min(max(announced, 0), FirstRead)+bytes.MinRead)
	for err == nil {
		if len(body) == cap(body) {
			size := 2*int64(cap(body)) - bytes.MinRead // the next bufferSize
			if int64(cap(body)) < expected {
				size = min(times*(int64(cap(body))-bytes.MinRead)+bytes.MinRead, expected)
			}
			if body, err = m.Grow(body, size); err != nil {
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

// InUse returns how many bytes are reserved now, in this process.
func InUse() int64 { return memory.held.Load() }

// Abandon is release for a body that others may still read, so that its buffer is not used again.
func (m *Reservation) Abandon() {
	m.buffer = nil
	m.ReleaseAll()
}
