package caddymodule

import (
	"fmt"
	"sync"
	"testing"
)

// TestEventsOfChangesAtTheSameTime checks that a webhook gets them in the order of the
// audit trail.
func TestEventsOfChangesAtTheSameTime(t *testing.T) {
	r := receives(t)
	s := start(t, standard+r.directive())
	s.preset("p", `{}`)
	const writers, each = 8, 15
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for weight := range each {
				body := fmt.Sprintf(`{"split":[{"version":1,"weight":%d}]}`, weight+1)
				s.manage("PUT", fmt.Sprintf("/v1/presets/p/labels/l%d", i), body).want(t, 200)
			}
		})
	}
	wait.Wait()
	last := 0.0
	for _, h := range r.await(1 + writers*each) {
		number := h.Data["audit_number"].(float64)
		if number <= last {
			t.Errorf("event %v came after %v", number, last)
		}
		last = number
	}
}
