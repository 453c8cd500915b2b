package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// requestIDHeader has the handle of a request with a preset, for feedback.
const requestIDHeader = "X-Preset-Request-Id"

// openHandles makes the handles of the store's secret. Without them answers have no handle. The
// secret changes when the store is replaced, as by a backup.
func (rec *usageRecorder) openHandles(ctx context.Context, use *usageRecording) {
	limited, cancel := context.WithTimeout(ctx, rec.flushTimeout)
	defer cancel()
	secret, err := domain.EnsureFeedbackSecret(limited, use.store)
	switch {
	case err == nil:
		rec.handles.Store(usage.NewHandles(secret))
	case rec.handles.Load() == nil && ctx.Err() == nil:
		use.logger.Warn("preparing feedback failed; will try again", zap.Error(err), zap.Duration("after", flushInterval))
	}
}

// showHandle sets the header by which the request can get feedback. It is called before the
// answer's header is written. If the request names a preset, the gateway's header of this name
// does not pass.
func (c *inferenceCall) showHandle(status int, begun time.Time) {
	if c.named.id == "" {
		return
	}
	header := c.w.Header()
	handles := c.h.shared.usage.handles.Load()
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
	c.h.shared.usage.sessions.Add(c.session, usage.Answered{ID: c.requested, Key: used.Key(), Start: used.Start})
}
