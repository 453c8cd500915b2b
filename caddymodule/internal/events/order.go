package events

import (
	"cmp"
	"slices"
	"sync"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Order announces the changes of one store in the order of the audit trail. Changes
// that run at the same time end in any order. So a durable change waits until all changes
// that ran beside it have ended. Later ones have greater numbers. Its methods are safe for
// concurrent use.
type Order struct {
	mu      sync.Mutex
	begun   uint64   // changes
	running []uint64 // their numbers in begun, ascending
	ended   []endedChange
}

// endedChange is a durable change that is to be announced.
type endedChange struct {
	record   domain.AuditRecord
	announce func(domain.AuditRecord)
	begun    uint64 // how many changes had begun when it ended
}

// Begin records that a change begins. The change must call end once, with its records if it
// is durable. announce gets each record. It must not block or begin a change.
func (o *Order) Begin() (end func(records []domain.AuditRecord, announce func(domain.AuditRecord))) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun++
	number := o.begun
	o.running = append(o.running, number)
	return func(records []domain.AuditRecord, announce func(domain.AuditRecord)) {
		o.mu.Lock()
		defer o.mu.Unlock()
		at, _ := slices.BinarySearch(o.running, number)
		o.running = slices.Delete(o.running, at, at+1)
		for _, record := range records {
			at, _ := slices.BinarySearchFunc(o.ended, record.Number, func(e endedChange, n int) int { return cmp.Compare(e.record.Number, n) })
			o.ended = slices.Insert(o.ended, at, endedChange{record, announce, o.begun})
		}
		o.flush()
	}
}

// flush announces the changes beside which none runs any more.
func (o *Order) flush() {
	for len(o.ended) > 0 && (len(o.running) == 0 || o.running[0] > o.ended[0].begun) {
		next := o.ended[0]
		o.ended = slices.Delete(o.ended, 0, 1)
		next.announce(next.record)
	}
}
