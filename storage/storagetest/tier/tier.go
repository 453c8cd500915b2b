// Package tier tells tests which of them run, and how thoroughly.
package tier

import (
	"os"
	"testing"
)

// Tiers of tests, which PRESETS_TIER selects. go test ./... without it is the first.
const (
	secondTier = "2" // .ci/run also runs tests that take a second or more
	longTier   = "3" // .ci/run long also tries every case, and has its stores on a real disk
)

// Slow skips a test in the first tier, which has only a minute and a half.
func Slow(t *testing.T) {
	t.Helper()
	if tier := os.Getenv("PRESETS_TIER"); tier != secondTier && tier != longTier {
		t.Skip("it is slow: set PRESETS_TIER=2")
	}
}

// EveryCase reports whether exhaustive tests try all of their cases. Otherwise they try a
// sample.
func EveryCase() bool { return os.Getenv("PRESETS_TIER") == longTier }

// Sample returns 1 if tests try every case, and n if they try one of n.
func Sample(n int) int {
	if EveryCase() {
		return 1
	}
	return n
}
