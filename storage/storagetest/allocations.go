package storagetest

import (
	"math"
	"testing"
	"time"
)

// CheckAllocations fails the test if measure returns more allocations than budget, as
// testing.AllocsPerRun counts them. That counts those of other goroutines, too, and after a
// garbage collection those that fill a pool. So it measures again, for at most half a minute.
func CheckAllocations(t *testing.T, budget float64, measure func() float64) {
	t.Helper()
	got := math.Inf(1)
	for end := time.Now().Add(30 * time.Second); got > budget && time.Now().Before(end); {
		got = min(got, measure())
	}
	t.Logf("%v allocations of %v", got, budget)
	if got > budget {
		t.Errorf("got %v allocations, want at most %v", got, budget)
	}
}
