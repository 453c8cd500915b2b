package answer

import (
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Reader reads one answer. It is not safe for concurrent use.
type Reader struct {
}

// New returns a reader of an answer in dialect d. contentType and contentEncoding are the
// answer's headers. It reads identity, gzip, br, zstd and deflate. It never fails: an answer
// that it cannot read has unknown tokens. The caller must call Close.
func New(d domain.Dialect, contentType, contentEncoding string) *Reader {
	return &Reader{}
}

// Write reads the answer's next bytes, which passed at now. It never fails, never keeps p,
// and returns when it has read p. Call it after the bytes went to the client.
func (r *Reader) Write(p []byte, now time.Time) {}

// Close ends the answer and releases everything. complete tells whether the answer ended as
// it should. Usage that was read before a cut is known. Write does nothing after Close, and
// Close returns the same again.
func (r *Reader) Close(complete bool) Seen { return Seen{} }
