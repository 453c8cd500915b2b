// Package tier has the marks with which a test says when it runs. The variable PRESETS_TIER has the
// tier, and PRESETS_RACE how the race detector shares the work. A test without a mark is quick: it
// always runs, with the race detector and without.
package tier

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

var (
	// tier is 1 for go test ./..., 2 for .ci/run and 3 for .ci/run long.
	tier = choice("PRESETS_TIER", "1", "2", "3")
	// race is "apart" in a run beside which another one has the race detector, and "all" if the
	// detector is to see slow tests, too, as in .ci/run long.
	race = choice("PRESETS_RACE", "", "apart", "all")
)

// choice returns the value of a variable, or the first of its values if it is not set.
func choice(variable string, values ...string) string {
	value := os.Getenv(variable)
	switch {
	case value == "":
		return values[0]
	case !slices.Contains(values, value):
		panic(fmt.Sprintf("%s is %q, want one of %q", variable, value, values))
	}
	return value
}

// Slow marks a test of half a second or more, unless no quicker test covers its subject. It skips
// the test in the first tier. It also skips it under the race detector, which would make it several
// times slower.
func Slow(t testing.TB) {
	t.Helper()
	if tier == "1" {
		t.Skip("it is slow: set PRESETS_TIER=2")
	}
	if detects && race != "all" {
		t.Skip("it is slow: set PRESETS_RACE=all to run it with the race detector")
	}
}

// Race marks a slow test in which things happen at once. It skips the test in the first tier, and
// where another run has the race detector.
func Race(t testing.TB) {
	t.Helper()
	if tier == "1" {
		t.Skip("it is slow: set PRESETS_TIER=2")
	}
	if !detects && race == "apart" {
		t.Skip("PRESETS_RACE=apart: it runs with the race detector")
	}
}

// NoRace marks a test in which nothing of ours happens at once, or that measures memory. It skips the test
// under the race detector, which would take long and find nothing, or something of others.
func NoRace(t testing.TB) {
	t.Helper()
	if detects {
		t.Skip("nothing of ours in it happens at once")
	}
}

// Long marks a test that takes longer than .ci/run may. It skips the test outside the third tier.
func Long(t testing.TB) {
	t.Helper()
	if !EveryCase() {
		t.Skip("it takes long: set PRESETS_TIER=3")
	}
}

// EveryCase reports whether exhaustive tests try all of their cases, with stores on a real
// disk. They do so in the third tier. Otherwise they try a sample.
func EveryCase() bool { return tier == "3" }

// Sample returns 1 if tests try every case, and n if they try one of n.
func Sample(n int) int {
	if EveryCase() {
		return 1
	}
	return n
}
