package caddymodule

import (
	"time"

	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// requestIDHeader has the handle of a request with a preset, for feedback.
const requestIDHeader = "X-Preset-Request-Id"

// showHandle sets the header by which the request can get feedback. It is called before the
// answer's header is written. If the request names a preset, the gateway's header of this name
// does not pass.
func (c *inferenceCall) showHandle(status int, begun time.Time) {
	if c.named.id == "" {
		return
	}
	header := c.w.Header()
	handles := c.h.shared.usage.Handles.Load()
	if handles == nil {
		header.Del(requestIDHeader)
		return
	}
	c.requested = usage.NewRequestID()
	used := usage.Request{Status: status, Start: begun}
	c.attribute(&used) // the model that answers is not known yet
	header.Set(requestIDHeader, handles.New(usage.Answered{ID: c.requested, Key: used.Key(), Start: begun}))
}

// rememberSession remembers a request with a preset and a session, for feedback.
func (c *inferenceCall) rememberSession(used *usage.Request) {
	if c.named.id == "" || c.session == "" {
		return
	}
	if c.requested == (usage.RequestID{}) {
		c.requested = usage.NewRequestID()
	}
	c.h.shared.usage.Sessions.Add(c.session, usage.Answered{ID: c.requested, Key: used.Key(), Start: used.Start})
}
