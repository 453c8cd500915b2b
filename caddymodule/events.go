package caddymodule

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/domain"
)

// changing implements domain.Service.Changing.
func (h *Handler) changing() func([]domain.AuditRecord) {
	end := h.shared.changes.Begin()
	return func(records []domain.AuditRecord) { end(records, h.announce) }
}

// announce tells Caddy's events app and the webhooks of a durable change. It does not wait
// for them.
func (h *Handler) announce(done domain.AuditRecord) {
	if events.Of(done) != "" {
		if !h.shared.webhooks.IsEmpty() {
			h.shared.webhooks.Push(newWebhookEvent(done))
		}
		h.events.Announce(done)
	}
}

func newAnnouncer(ctx caddy.Context, stopping *stopClock) (*events.Announcer, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	caddyEvents := app.(*caddyevents.App)
	if err := caddyEvents.On("stopping", stopping); err != nil {
		return nil, fmt.Errorf("subscribing to Caddy's end: %w", err)
	}
	logger := ctx.Logger()
	// Requests may outlive their configuration, and so may their events.
	ctx.Context = context.WithoutCancel(ctx.Context)
	emit := func(event string, data map[string]any) { caddyEvents.Emit(ctx, event, data) }
	return &events.Announcer{Wanted: caddyEvents.ShouldEmit, Emit: emit, Logger: logger}, nil
}
