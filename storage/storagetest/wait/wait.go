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
	for late := time.Now().Add(Limit); time.Now().Before(late); time.Sleep(2 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// Until returns how long it took until a condition was true. It ends the test, with what it waited
// for, if that is longer than Limit.
func Until(t testing.TB, what string, is func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	if !Eventually(is) {
		t.Fatalf("gave up after %v: %s", Limit, what)
	}
	return time.Since(begun)
}
