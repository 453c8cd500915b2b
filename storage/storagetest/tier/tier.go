// Package tier says which tests run, and whether they try all of their cases. The variable
// PRESETS_TIER has the tier.
package tier

import (
	"fmt"
	"os"
	"testing"
)

// tier is 1 for go test ./..., 2 for .ci/run and 3 for .ci/run long.
var tier = func() int {
	switch value := os.Getenv("PRESETS_TIER"); value {
	case "", "1":
		return 1
	case "2":
		return 2
	case "3":
		return 3
	default:
		panic(fmt.Sprintf("PRESETS_TIER is %q, want 1, 2 or 3", value))
	}
}()

// Slow skips a test in the first tier. A test of half a second or more is slow, unless no
// quicker test covers its subject.
func Slow(t *testing.T) {
	t.Helper()
	if tier < 2 {
		t.Skip("it is slow: set PRESETS_TIER=2")
	}
}

// EveryCase reports whether exhaustive tests try all of their cases, with stores on a real
// disk. They do so in the third tier. Otherwise they try a sample.
func EveryCase() bool { return tier == 3 }

// Sample returns 1 if tests try every case, and n if they try one of n.
func Sample(n int) int {
	if EveryCase() {
		return 1
	}
	return n
}
