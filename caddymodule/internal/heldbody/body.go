// Package heldbody holds the bodies of inference requests in memory, decodes them, and bounds what
// all of them take in this process.
package heldbody

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
)

// Body is the body of an inference request: first as it was sent, then as it goes
// upstream. Nothing else refers to its bytes while the gateway answers. It gives its
// memory back when it was read to the end or closed. Other requests then use it, so Read
// copies.
//
// It implements io.Reader and io.Closer alone, as the original body does. A transport
// frames a body by the interfaces that it has. Read, Close and Drop are safe for concurrent
// use, as a transport may go on reading after the answer.
type Body struct {
	Reservation
	Sent []byte // as it was sent, nil once something else goes upstream

	merged   *buffer   // of the merged body, nil for none
	text     []byte    // what was sent, decoded
	decoded  bool      // text has memory of its own, because what was sent is encoded
	original io.Closer // the body that was sent

	mu   sync.Mutex
	rest draft.Body // goes upstream and was not read yet
	one  [1][]byte  // the memory of rest where it is one part
	cut  bool       // it was closed before it was read to the end
}

// Reserve reserves memory for a merged body of size bytes. It drops the packed form
// first, which does not go upstream then.
func (b *Body) Reserve(size int) error {
	if b.decoded {
		b.dropSent()
	}
	return b.Add(int64(size))
}

// Release gives back reserved memory of size bytes.
func (b *Body) Release(size int) { b.Sub(int64(size)) }

// Buffer returns an empty slice for size bytes of a merged body, which are reserved.
func (b *Body) Buffer(size int) []byte {
	room := bufferSize(int64(size))
	if bufferClass(room) >= len(bufferPools) || b.Add(room-int64(size)) != nil {
		return make([]byte, 0, size)
	}
	b.merged = newBuffer(room)
	return b.merged.text[:0:size]
}

// recycleAll lets other requests use all buffers.
func (b *Body) recycleAll() {
	b.Recycle()
	if b.merged != nil {
		b.merged.recycle(b.Limit)
		b.merged = nil
	}
}

// dropSent drops the body as it was sent.
func (b *Body) dropSent() {
	b.Sub(int64(cap(b.Sent)))
	b.Sent = nil
	b.Recycle()
}

// IsEncoded reports whether Decode decoded what was sent.
func (b *Body) IsEncoded() bool { return b.decoded }

// DropText drops the text that Decode returned.
func (b *Body) DropText() {
	if b.decoded {
		b.Sub(int64(cap(b.text)))
	}
	b.text, b.decoded = nil, false
}

// ReplaySent makes b read what was sent, instead of original. It drops the text of Decode.
func (b *Body) ReplaySent(original io.Closer) {
	b.DropText()
	b.one[0] = b.Sent
	b.Replay(b.one[:], original)
}

// ReplayMerged makes b read a merged body, instead of original. The memory of what was merged must be
// reserved. It drops what was sent and the text of Decode, unless merged has parts of the text.
func (b *Body) ReplayMerged(merged draft.Body, original io.Closer) {
	if b.decoded {
		b.dropSent()
	}
	if len(merged) == 1 { // a copy
		b.Sub(int64(cap(b.text)))
		b.Recycle()
	}
	b.text, b.decoded = nil, false
	b.Replay(merged, original)
}

// Replay makes b read text instead of original. The memory of text must be reserved.
func (b *Body) Replay(text draft.Body, original io.Closer) {
	b.rest, b.Sent, b.original = text, nil, original
	b.skipRead()
}

// Join returns the body in one piece, instead of a reader of it.
func (b *Body) Join() ([]byte, error) {
	if len(b.rest) < 2 {
		return b.rest.Bytes(), nil
	}
	before := b.held.Load()
	if err := b.Add(int64(b.rest.Len())); err != nil {
		return nil, err
	}
	whole := b.rest.Bytes()
	b.Replay(draft.Body{whole}, b.original)
	b.recycleAll()
	b.Sub(before)
	return whole, nil
}

func (b *Body) Read(p []byte) (n int, err error) {
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
func (b *Body) skipRead() {
	for len(b.rest) > 0 && len(b.rest[0]) == 0 {
		b.rest = b.rest[1:]
	}
}

// free gives back all memory.
func (b *Body) free() {
	b.Sent, b.text, b.rest, b.one[0] = nil, nil, nil, nil
	b.ReleaseAll()
	b.recycleAll()
}

// Close drops the rest of the body. Further reads fail, if there was a rest.
func (b *Body) Close() error {
	b.Drop()
	return b.original.Close()
}

// Drop is Close without closing the original: the server does that when a request ends.
func (b *Body) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = b.cut || len(b.rest) > 0
	b.free()
}

// End drops the body of a request that was served. If serving failed with err, an error
// route may still read the body. It is then dropped when ctx, the request's, ends.
func (b *Body) End(ctx context.Context, err error) {
	if err != nil && ctx.Done() != nil {
		context.AfterFunc(ctx, b.Drop)
		return
	}
	b.Drop()
}
