package limiter

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// newTimed returns a limiter with a clock that the test sets.
func newTimed() (l *Limiter, clock *time.Duration) {
	l, clock = New(), new(time.Duration)
	*clock = time.Hour
	l.now = func() time.Duration { return *clock }
	return l, clock
}

// v4 returns an IPv4 address by its number.
func v4(n int) Origin {
	return Origin{10: 0xff, 0xff, byte(1 + n>>24), byte(n >> 16), byte(n >> 8), byte(n)}
}

func TestFailureBucket(t *testing.T) {
	l, clock := newTimed()
	by := Limit{3, 30 * time.Second} // one failure drains each 10 s
	wants := func(from Origin, want time.Duration) {
		t.Helper()
		if got := l.IsLimited(from, by); got != (want > 0) {
			t.Errorf("at %s: limited: %t, want %t", *clock, got, want > 0)
		}
		if got := l.Fail(from, by, zap.NewNop()); got != want {
			t.Errorf("at %s: got a wait of %s, want %s", *clock, got, want)
		}
	}
	a, b := v4(1), v4(2)
	for range 3 {
		wants(a, 0)
	}
	wants(a, 10*time.Second)
	wants(a, 10*time.Second) // which was not counted
	for range 3 {
		wants(b, 0) // another address
	}
	*clock += 4 * time.Second
	wants(a, 6*time.Second)
	*clock += 6 * time.Second
	wants(a, 0)
	wants(a, 10*time.Second)
	*clock += time.Hour // the saved allowance never exceeds the limit
	for range 3 {
		wants(a, 0)
	}
	wants(a, 10*time.Second)
	for _, by = range []Limit{{3000, time.Second}, {maxFailures, time.Second}, {maxFailures, maxWindow}} {
		l, clock := newTimed()
		for range by.Most {
			if l.Fail(a, by, zap.NewNop()) != 0 {
				t.Fatalf("%d in %s: limited too early", by.Most, by.Window)
			}
		}
		one := (by.Window / time.Duration(by.Most)).Round(time.Microsecond)
		if got := l.Fail(a, by, zap.NewNop()); got != one {
			t.Errorf("%d in %s: got a wait of %s, want %s", by.Most, by.Window, got, one)
		}
		if *clock += one + time.Microsecond; l.IsLimited(a, by) {
			t.Errorf("%d in %s: limited after the wait", by.Most, by.Window)
		}
	}
	for wait, want := range map[time.Duration]string{1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90"} {
		if got := Refusal(wait).Value; got != want {
			t.Errorf("%s: got Retry-After %s, want %s", wait, got, want)
		}
	}
}

// TestFailureBucketOfTwoLimits checks that handlers of one store share an address's count.
// Each handler applies its own limit.
func TestFailureBucketOfTwoLimits(t *testing.T) {
	l, clock := newTimed()
	strict, lax := Limit{2, time.Hour}, Limit{100, time.Minute}
	for range 3 {
		if wait := l.Fail(v4(1), lax, zap.NewNop()); wait != 0 {
			t.Errorf("got a wait of %s within the limit", wait)
		}
	}
	if wait := l.Fail(v4(1), strict, zap.NewNop()); wait != 30*time.Minute {
		t.Errorf("got a wait of %s, want 30m for one of two failures", wait)
	}
	if l.IsLimited(v4(1), lax) {
		t.Error("the address is limited by the limit of another handler")
	}
	*clock += time.Hour
	if wait := l.Fail(v4(1), strict, zap.NewNop()); wait != 0 {
		t.Errorf("got a wait of %s after its time", wait)
	}
}

// TestFailuresAtOnce checks that concurrent failures are counted like consecutive ones.
func TestFailuresAtOnce(t *testing.T) {
	l, _ := newTimed()
	var allowed atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if l.Fail(v4(1), Limit{100, time.Minute}, zap.NewNop()) == 0 {
				allowed.Add(1)
			}
		})
	}
	if wg.Wait(); allowed.Load() != 100 {
		t.Errorf("got %d failures within the limit, want 100", allowed.Load())
	}
}

// TestFailuresOfABotnet fails from a very large number of addresses. An address that fails
// repeatedly stays limited, and new addresses are not limited. The memory stays bounded.
func TestFailuresOfABotnet(t *testing.T) {
	l, _ := newTimed()
	if size := unsafe.Sizeof(*l); size > 770<<10 {
		t.Errorf("got %d bytes, want at most 770 KiB", size)
	}
	by, logger := Limit{100, time.Minute}, zap.NewNop()
	fail := func(from Origin) time.Duration { return l.Fail(from, by, logger) }
	attacker := v4(1)
	for range 100 {
		fail(attacker)
	}
	for n := range 500_000 { // thirty times the limiter's capacity, at once
		if fail(v4(1000+n)) > 0 {
			t.Fatalf("address %d is limited at its first failure", n)
		}
		if n%1000 == 0 && fail(attacker) == 0 {
			t.Fatalf("after %d addresses the attacker is not limited", n)
		}
	}
	storagetest.CheckAllocations(t, 0, func() float64 { return testing.AllocsPerRun(1000, func() { fail(v4(5)) }) })
}

// TestFailuresInTheLog checks that the log names a limited address once. During a flood it
// has at most one line per second.
func TestFailuresInTheLog(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	logger := zap.New(core)
	l, clock := newTimed()
	fail := func(from Origin) { l.Fail(from, Limit{2, 20 * time.Second}, logger) }
	for range 100 {
		fail(v4(7))
		*clock += 3 * time.Second // a failure drains now and then, and never all of them
	}
	entries := logs.TakeAll()
	if len(entries) != 1 || entries[0].ContextMap()["address"] != v4(7).String() {
		t.Errorf("got %v, want one line with the address", entries)
	}
	*clock += time.Minute // all of them
	for range 5 {
		fail(v4(7))
	}
	if n := len(logs.TakeAll()); n != 1 {
		t.Errorf("after a pause: got %d lines, want one", n)
	}
	*clock += time.Minute
	for n := range 1000 {
		for range 3 {
			fail(v4(n))
		}
	}
	*clock += time.Second
	for range 3 {
		fail(v4(5000))
	}
	entries = logs.TakeAll()
	if len(entries) != 2 {
		t.Errorf("a flood: got %v, want two lines", entries)
	}
}
