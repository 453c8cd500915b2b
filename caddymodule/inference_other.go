package caddymodule

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
)

// refuseReference refuses a request to another route below the base path whose
// model names a preset: no gateway knows it. All else stays as it was sent.
func (c *inferenceCall) refuseReference() error {
	if c.r.Method != http.MethodPost || c.path == "" || c.r.ContentLength == 0 || !mediatype.MayBeJSON(c.r.Header) {
		return nil
	}
	limit := c.h.Inference.MaxBodySize
	if c.h.Inference.Keys == keysRequired && c.who.KeyID == "" { // a stranger
		limit = min(limit, peekSize)
		c.held.Limit /= 2 // callers with a key have the other half
	}
	sent, err := c.peek(limit)
	if err != nil {
		return err
	}
	text, err := c.held.Decode(c.r.Header, sent, limit)
	switch {
	case errors.Is(err, heldbody.ErrNoMemory):
		return err
	case err != nil:
		return nil //nolint:nilerror // a body that cannot be searched passes
	}
	defer c.held.DropText()
	if place := reference.FindReference(text); place != "" {
		return domain.InvalidAt(place, "must not refer to a preset: presets work in POST "+c.h.routesWithPresets())
	}
	return nil
}

// peekSize is how many bytes are read of a body that is not read whole. Such a body is
// larger than max_body_size, or its caller has no key and keys are required. A body of such a
// caller is not decoded to more.
const peekSize = 64 << 10

// peek reads the body, or its first bytes, and returns them. A larger body than window is
// not read whole. The request still goes upstream as it was sent.
func (c *inferenceCall) peek(window int64) ([]byte, error) {
	if c.r.ContentLength > window {
		window = min(window, peekSize)
	}
	body, beginning := c.r.Body, *c.r
	beginning.Body = readCloser{io.LimitReader(body, window), body}
	beginning.ContentLength = min(c.r.ContentLength, window)
	sent, err := c.h.deadlines.Read(c.w, &beginning, window, &c.held.Reservation)
	if err != nil {
		return nil, err
	}
	c.held.Replay(draft.Body{sent}, body)
	if int64(len(sent)) < window || c.r.ContentLength == window {
		c.isRead, c.r.Body = true, &c.held
		return sent, nil
	}
	if server, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout == 0 {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // which read set
	}
	c.r.Body = readCloser{io.MultiReader(&c.held, body), body}
	return sent, nil
}

// readCloser reads from one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
