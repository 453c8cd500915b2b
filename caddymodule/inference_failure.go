package caddymodule

import (
	"cmp"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/errorroutes"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
)

// gatewayError returns the error for a failure of the next handler, such as a gateway that cannot be
// reached. The client sees its status alone, because its text may name addresses within.
func gatewayError(code int) *status.Error {
	message := http.StatusText(code)
	switch code {
	case http.StatusBadGateway:
		message = "The gateway cannot be reached"
	case http.StatusServiceUnavailable:
		message = "The gateway is not available"
	case http.StatusGatewayTimeout:
		message = "The gateway did not answer in time"
	}
	return &status.Error{Status: code, Message: message}
}

// renderGatewayError answers a request for which next failed with err before it began an
// answer. Without this, Caddy answers with the status alone. The caller still returns err:
// Caddy then logs it, and writes no second answer.
//
// It leaves the request to the error routes of the site, if some match.
func (c *inferenceCall) renderGatewayError(err error) {
	code := cmp.Or(refusedStatus(err), http.StatusInternalServerError)
	if c.r.Context().Err() != nil || code < http.StatusBadRequest || errorroutes.Answers(c.r, err) {
		return
	}
	c.render(response{}, gatewayError(code))
}

// beginning passes an answer on, and tells whether it began.
type beginning struct {
	caddyhttp.ResponseWriterWrapper
	begun   bool
	opening func(http.Header) // is called before the header is written, unless it is nil
}

// begin notes that the answer begins.
func (b *beginning) begin() {
	if !b.begun && b.opening != nil {
		b.opening(b.Header())
	}
	b.begun = true
}

// WriteHeader passes a header on. Those of interim answers begin nothing.
func (b *beginning) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		b.begin()
	}
	b.ResponseWriterWrapper.WriteHeader(status)
}

// Write passes bytes of the body on.
func (b *beginning) Write(p []byte) (int, error) {
	b.begin()
	return b.ResponseWriterWrapper.Write(p)
}

// ReadFrom passes a body on.
func (b *beginning) ReadFrom(r io.Reader) (int64, error) {
	b.begin()
	return b.ResponseWriterWrapper.ReadFrom(r)
}
