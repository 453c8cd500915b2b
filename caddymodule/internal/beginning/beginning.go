// Package beginning tells whether a response has begun.
package beginning

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Writer passes a response on, and tells whether it began.
type Writer struct {
	caddyhttp.ResponseWriterWrapper
	// Begun says that the header was written.
	Begun bool
	// Opening is called before the header is written, unless it is nil.
	Opening func(http.Header)
}

// begin notes that the response begins.
func (b *Writer) begin() {
	if !b.Begun && b.Opening != nil {
		b.Opening(b.Header())
	}
	b.Begun = true
}

// WriteHeader passes a header on. Those of interim responses begin nothing.
func (b *Writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		b.begin()
	}
	b.ResponseWriterWrapper.WriteHeader(status)
}

// Write passes bytes of the body on.
func (b *Writer) Write(p []byte) (int, error) {
	b.begin()
	return b.ResponseWriterWrapper.Write(p)
}

// ReadFrom passes a body on.
func (b *Writer) ReadFrom(r io.Reader) (int64, error) {
	b.begin()
	return b.ResponseWriterWrapper.ReadFrom(r)
}
