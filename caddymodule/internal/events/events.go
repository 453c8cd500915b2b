// Package events announces durable changes, in the order of the audit trail.
package events

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Types has the event of each operation that has one, by its name in the audit trail.
// Webhooks have this type. Caddy's events have the name that Name makes of it.
var Types = map[string]string{
	"preset.create_version": "preset.version_created",
	"preset.designate":      "preset.designated",
	"preset.update":         "preset.updated",
	"preset.set_status":     "preset.status_changed",
	"preset.protect":        "preset.protection_changed",
	"preset.set_policy":     "preset.policy_changed",
	"preset.set_owner":      "preset.owner_changed",
	"preset.archive":        "preset.archived",
	"preset.restore":        "preset.restored",
	"preset.prune":          "preset.pruned",
	"preset.erase":          "preset.erased",
	"label.set":             "preset.label_set",
	"label.move":            "preset.label_moved",
	"label.split":           "preset.label_split",
	"label.protect":         "preset.label_protected",
	"label.delete":          "preset.label_removed",
	"key.limit_reached":     "key.limit_reached",
	"workspace.create":      "workspace.created",
	"workspace.update":      "workspace.updated",
	"workspace.delete":      "workspace.deleted",
	"key.create":            "key.create",
	"key.update":            "key.update",
	"key.rotate":            "key.rotate",
	"key.delete":            "key.delete",
}

// Name returns the name of a type in Caddy's events app, such as
// presets.version_created.
func Name(eventType string) string { return strings.Replace(eventType, ".", "s.", 1) }

// Data returns the data of a change's event. It is the audit record's, without any
// key, prompt or setting. All events have the same members.
func Data(done domain.AuditRecord) map[string]any {
	version := done.After
	if done.Object.Draft != 0 {
		version = done.Object.Draft
	}
	return map[string]any{
		"id":             done.Object.ID,
		"slug":           done.Object.Slug,
		"workspace_id":   done.Object.WorkspaceID,
		"version":        version,
		"draft":          done.Object.Draft != 0,
		"version_before": done.Before,
		"label":          done.Object.Label,
		"split":          done.Object.Split,
		"status":         string(done.Object.Status),
		"pruned":         done.Object.Pruned,
		"protection":     done.Object.Protection,
		"managed_by":     done.Object.ManagedBy,
		"override":       done.Override,
		"key_id":         done.KeyID,
		"user_id":        done.UserID,
		"request_id":     done.RequestID,
		"audit_number":   done.Number,
		"time":           done.Time,
	}
}

// JSON returns a change as webhooks post it. Each call gives the event another id.
func JSON(done domain.AuditRecord) []byte {
	body, _ := json.Marshal(struct { // never fails
		ID   string         `json:"id"`
		Type string         `json:"type"`
		Time time.Time      `json:"time"`
		Data map[string]any `json:"data"`
	}{uuid.NewString(), Of(done), done.Time, Data(done)})
	return body
}

// maxWaitingEvents bounds the events that wait for subscribers. Each takes some 1 KB.
const maxWaitingEvents = 10_000

// Announcer emits events one after another, on a goroutine of its own. So a slow
// subscriber does not delay the client that caused an event.
type Announcer struct {
	Wanted func(event string) bool // reports whether anybody subscribed
	// Emit emits an event. It may take long.
	Emit   func(event string, data map[string]any)
	Logger *zap.Logger

	mu       sync.Mutex
	waiting  []domain.AuditRecord
	emitting bool
}

// Of returns the type of the event of a change, empty if it has none.
func Of(done domain.AuditRecord) string { return Types[done.Operation] }

// Announce queues the event of a change, if somebody subscribed.
func (a *Announcer) Announce(done domain.AuditRecord) {
	name := Name(Types[done.Operation])
	if !a.Wanted(name) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= maxWaitingEvents {
		a.Logger.Error("event dropped: too many wait for their subscribers", zap.String("event", name), zap.Int("audit_number", done.Number))
		return
	}
	a.waiting = append(a.waiting, done)
	if !a.emitting {
		a.emitting = true
		go a.emitAll()
	}
}

func (a *Announcer) emitAll() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.emitting = false
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		a.emitOne(next)
	}
}

func (a *Announcer) emitOne(done domain.AuditRecord) {
	name := Name(Types[done.Operation])
	defer func() {
		if problem := recover(); problem != nil { // a panic here would end the process
			a.Logger.Error("event handler panicked", zap.String("event", name), zap.Any("panic", problem), zap.Stack("stack"))
		}
	}()
	a.Emit(name, Data(done))
}
