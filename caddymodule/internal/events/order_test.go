package events

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestChangeOrder runs random changes at the same time. Each commits at a random moment
// between its begin and its end, and may fail.
func TestChangeOrder(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var order Order
		var announced []int
		type running struct {
			end     func([]domain.AuditRecord, func(domain.AuditRecord))
			records []domain.AuditRecord
		}
		var all []*running
		committed, failed := 0, 0
		for begun := 0; begun < 100 || len(all) > 0; {
			switch pick := random.IntN(3); {
			case pick == 0 && begun < 100:
				begun++
				all = append(all, &running{end: order.Begin()})
			case pick == 1 && len(all) > 0:
				c := all[random.IntN(len(all))]
				for range random.IntN(3) {
					if c.records == nil || random.IntN(2) == 0 {
						committed++
						c.records = append(c.records, domain.AuditRecord{Number: committed})
					}
				}
			case pick == 2 && len(all) > 0:
				i := random.IntN(len(all))
				c := all[i]
				all = slices.Delete(all, i, i+1)
				if len(c.records) == 0 {
					failed++
				}
				c.end(c.records, func(r domain.AuditRecord) { announced = append(announced, r.Number) })
			}
		}
		if len(announced) != committed || !slices.IsSorted(announced) || len(order.ended)+len(order.running) > 0 || failed == 0 {
			t.Fatalf("seed %d: got %d of %d changes, in the order %v", seed, len(announced), committed, announced)
		}
	}
}
