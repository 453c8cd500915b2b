//go:build race

package tier

// detects reports whether the test runs with the race detector.
const detects = true
