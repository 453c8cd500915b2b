package caddymodule

import (
	"context"
	"fmt"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// eventOf names the event of each operation that has one, by its name in the
// audit trail.
var eventOf = map[string]string{
	"preset.create_version": "presets.version_created",
	"preset.designate":      "presets.designated",
	"preset.archive":        "presets.archived",
	"workspace.create":      "workspaces.created",
	"workspace.update":      "workspaces.updated",
	"workspace.delete":      "workspaces.deleted",
}

// maxWaitingEvents bounds the events that wait for subscribers. Each takes some 1 KB.
const maxWaitingEvents = 10_000

// announcer emits events one after another, on a goroutine of its own. So a slow
// subscriber does not delay the client that caused an event.
type announcer struct {
	wanted func(event string) bool // reports whether anybody subscribed
	emit   func(event string, data map[string]any)
	logger *zap.Logger

	mu      sync.Mutex
	waiting []*domain.AuditRecord // the first one is being emitted
}

func newAnnouncer(ctx caddy.Context) (*announcer, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	events := app.(*caddyevents.App)
	logger := ctx.Logger()
	// Requests outlive the configuration under which they came, and so do their events.
	ctx.Context = context.WithoutCancel(ctx.Context)
	emit := func(event string, data map[string]any) { events.Emit(ctx, event, data) }
	return &announcer{wanted: events.ShouldEmit, emit: emit, logger: logger}, nil
}

// announce queues the event of a change, if it has one and somebody subscribed. The
// change is durable.
func (a *announcer) announce(done *domain.AuditRecord) {
	if done == nil || eventOf[done.Operation] == "" || !a.wanted(eventOf[done.Operation]) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= maxWaitingEvents {
		a.logger.Error("event dropped: too many wait for their subscribers", zap.String("event", eventOf[done.Operation]), zap.Int("audit_number", done.Number))
		return
	}
	a.waiting = append(a.waiting, done)
	if len(a.waiting) == 1 {
		go a.emitAll()
	}
}

// emitAll emits the waiting events until there is none.
func (a *announcer) emitAll() {
	for {
		a.mu.Lock()
		next := a.waiting[0]
		a.mu.Unlock()
		a.emitOne(next)
		a.mu.Lock()
		a.waiting = a.waiting[1:]
		rest := len(a.waiting)
		a.mu.Unlock()
		if rest == 0 {
			return
		}
	}
}

// emitOne emits the event of a change. Its data is the audit record's, without any key,
// prompt or setting.
func (a *announcer) emitOne(done *domain.AuditRecord) {
	name := eventOf[done.Operation]
	defer func() {
		if problem := recover(); problem != nil { // a panic here would end the process
			a.logger.Error("event handler panicked", zap.String("event", name), zap.Any("panic", problem), zap.Stack("stack"))
		}
	}()
	version := done.After
	if done.Object.Draft != 0 {
		version = done.Object.Draft
	}
	a.emit(name, map[string]any{
		"id":             done.Object.ID,
		"slug":           done.Object.Slug,
		"workspace_id":   done.Object.WorkspaceID,
		"version":        version,
		"draft":          done.Object.Draft != 0,
		"version_before": done.Before,
		"key_id":         done.KeyID,
		"user_id":        done.UserID,
		"request_id":     done.RequestID,
		"audit_number":   done.Number,
		"time":           done.Time,
	})
}
