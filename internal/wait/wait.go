// Package wait bounds the waiting of tests. A limit belongs to one wait of one test, and only ends
// what hangs: a slow machine makes a test longer, and does not fail it.
package wait

import (
	"context"
	"testing"
	"time"
)

// Limit is the longest that a test waits for one condition.
const Limit = 10 * time.Minute

// Context returns a context that ends with the test, or after Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit(t, Limit))
	t.Cleanup(cancel)
	return ctx
}

// Command returns the context of a command. It ends after a long time, since a build without a
// cache takes ten minutes beside other work, and before the deadline of the test binary, which
// would leave the command running. The test's end does not end it.
func Command(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit(t, 6*Limit))
	t.Cleanup(cancel)
	return ctx
}

// limit returns longest, or the time until shortly before the deadline of the test binary.
func limit(t testing.TB, longest time.Duration) time.Duration {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := t.Deadline(); ok {
			return min(longest, time.Until(deadline)-15*time.Second)
		}
	}
	return longest
}

// Eventually reports whether a condition becomes true within Limit. It asks every few milliseconds.
func Eventually(is func() bool) bool {
	for late := time.Now().Add(Limit); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// Until ends the test with a message if a condition does not become true within Limit.
func Until(t testing.TB, otherwise string, is func() bool) {
	t.Helper()
	if !Eventually(is) {
		t.Fatalf("after %v: %s", Limit, otherwise)
	}
}
