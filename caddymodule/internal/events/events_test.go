package events

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestWaitingEventsAreBounded checks that the queue of a subscriber that hangs is bounded.
// The log counts the dropped events.
func TestWaitingEventsAreBounded(t *testing.T) {
	core, logged := observer.New(zap.ErrorLevel)
	a := &Announcer{
		Wanted: func(string) bool { return true }, Logger: zap.New(core),
		emitting: true, // to a subscriber that hangs
		waiting:  make([]domain.AuditRecord, maxWaitingEvents-1),
	}
	for n := range 3 {
		a.Announce(domain.AuditRecord{Number: n, Operation: "workspace.create"})
	}
	entries := logged.FilterMessageSnippet("event dropped").All()
	if len(a.waiting) != maxWaitingEvents || len(entries) != 2 || entries[0].ContextMap()["audit_number"] != int64(1) {
		t.Errorf("%d events wait and the log has %v, want %d and the two that were too much", len(a.waiting), entries, maxWaitingEvents)
	}
}
