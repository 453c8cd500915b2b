package usage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// requestsOf returns the requests of a workspace's report by model, and how many of them
// are under other.
func requestsOf(t *testing.T, stored rows) (all, other int64) {
	t.Helper()
	for _, s := range list(t, ask(t, usage.OfWorkspace, "by=model&step=day", stored)) {
		all += s.Total.Requests
		if string(s.Key) == `{"other":true}` {
			other += s.Total.Requests
		}
	}
	return all, other
}

// TestTake loses nothing when the store fails, and when the process starts anew.
func TestTake(t *testing.T) {
	var l usage.Ledger
	stored := make(rows)
	one := usage.Request{WorkspaceID: "w", PresetID: "id", Preset: "p", Start: now, FirstContent: -1}
	failed := errors.New("no disk")

	l.Add(&one)
	taken, err := l.Take(func(domain.UsageID) ([]byte, error) { return nil, failed })
	if len(taken) > 0 || !errors.Is(err, failed) {
		t.Fatalf("got %d rows and %v from a store that cannot be read, want none and its error", len(taken), err)
	}
	onlyHour := func(id domain.UsageID) ([]byte, error) {
		if id.Day {
			return nil, failed
		}
		return nil, nil
	}
	if taken, err = l.Take(onlyHour); len(taken) > 0 || err == nil {
		t.Fatalf("got %d rows and %v without the day's row, want none and an error", len(taken), err)
	}
	taken, err = l.Take(stored.read)
	if len(taken) != 2 || err != nil {
		t.Fatalf("got %d rows and %v, want those of the hour and the day", len(taken), err)
	}
	if taken[0].Day || !taken[1].Day || !taken[0].Start.Equal(now.Truncate(time.Hour)) || taken[1].Start.Hour() != 0 {
		t.Errorf("got %v and %v, want the hour and the day of %v", taken[0].UsageID, taken[1].UsageID, now)
	}
	l.Add(&one) // while the store writes, which fails: Stored is not called
	if taken, _ = l.Take(stored.read); len(taken) != 2 {
		t.Fatalf("got %d rows that were not stored, want 2", len(taken))
	}
	before := slices.Clone(taken)
	l.Add(&one)
	if taken, _ = l.Take(stored.read); len(taken) != 2 {
		t.Fatalf("got %d rows, want 2", len(taken))
	}
	l.Stored(before) // of the older content: the newer is not stored
	if taken, _ = l.Take(stored.read); len(taken) != 2 {
		t.Fatalf("got %d rows after older ones were stored, want 2", len(taken))
	}
	for _, row := range taken {
		stored[row.UsageID] = row.Content
	}
	l.Stored(taken)
	if taken, _ = l.Take(stored.read); len(taken) != 0 {
		t.Errorf("got %d rows without changes, want none", len(taken))
	}
	l.Add(&one)
	if taken, err = l.Take(func(domain.UsageID) ([]byte, error) { return nil, failed }); len(taken) != 2 || err != nil {
		t.Errorf("got %d rows and %v, want those that were just stored, which need no read", len(taken), err)
	}
	if all, _ := requestsOf(t, stored); all != 3 {
		t.Errorf("got %d requests, want 3", all)
	}
	var next usage.Ledger
	next.Add(&one)
	stored.flush(t, &next)
	if all, _ := requestsOf(t, stored); all != 4 {
		t.Errorf("got %d requests after a start, want 4", all)
	}
	for id := range stored {
		stored[id] = []byte("\x01damage")
	}
	var last usage.Ledger
	last.Add(&one)
	if taken, err = last.Take(stored.read); len(taken) != 2 || err == nil {
		t.Errorf("got %d rows and %v of damaged rows, want new ones and an error", len(taken), err)
	}
}

// TestRowSize keeps a row's bound, whatever models clients name, and loses no request.
func TestRowSize(t *testing.T) {
	tier.NoRace(t)
	r := rand.New(rand.NewPCG(7, 8))
	var l usage.Ledger
	stored := make(rows)
	var want int64
	for range 5 {
		for range 3000 {
			l.Add(&usage.Request{
				WorkspaceID: "w", PresetID: "id", Preset: "p", Start: now, Asked: strings.Repeat("x", 200) + fmt.Sprint(r.Uint64()),
				Duration: time.Duration(r.Int64N(1e10)), FirstContent: time.Duration(r.Int64N(1e9)),
			})
			l.Add(&usage.Request{WorkspaceID: "w", PresetID: "id", Preset: "p", Start: now, Asked: "much used", FirstContent: -1})
			want += 2
		}
		stored.flush(t, &l)
		for id, content := range stored {
			if len(content) > domain.MaxUsageSize {
				t.Fatalf("got %d bytes in %v, want at most %d", len(content), id, domain.MaxUsageSize)
			}
		}
	}
	all, other := requestsOf(t, stored)
	if all != want || other == 0 {
		t.Errorf("got %d requests, %d of them under other; want %d and some", all, other, want)
	}
	if l.Overflowed() != other {
		t.Errorf("got %d overflowed, want %d as under other", l.Overflowed(), other)
	}
	for _, s := range list(t, ask(t, usage.OfWorkspace, "by=model&step=day", stored)) {
		if string(s.Key) == `{"model":"much used"}` && s.Total.Requests == want/2 {
			return
		}
	}
	t.Errorf("got no model with %d requests, want the one that is used most", want/2)
}

// TestLedgerSize bounds the memory of a full ledger whose series have a hundred requests
// each.
func TestLedgerSize(t *testing.T) {
	tier.NoRace(t)
	r := rand.New(rand.NewPCG(9, 10))
	before := heap()
	var l usage.Ledger
	for i := range 100 * usage.MaxSeries {
		l.Add(&usage.Request{
			WorkspaceID: "w", PresetID: "id", Preset: "p", Version: i % usage.MaxSeries, Start: now,
			Duration: time.Duration(r.ExpFloat64() * 3e9), FirstContent: time.Duration(r.ExpFloat64() * 3e8),
		})
	}
	size := heap() - before
	t.Logf("%d bytes a series", size/usage.MaxSeries)
	if size > 20<<20 {
		t.Errorf("got %d bytes, want at most 20 MiB", size)
	}
	if l.Overflowed() != 0 {
		t.Errorf("got %d overflowed, want a ledger that is just full", l.Overflowed())
	}
	runtime.KeepAlive(&l)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLedgerConcurrent adds while rows are taken. Each request counts once.
func TestLedgerConcurrent(t *testing.T) {
	var l usage.Ledger
	stored := make(rows)
	const writers, each = 4, 5000
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(11, uint64(writer)))
			for range each {
				one := sample(r)
				one.Start = now
				l.Add(&one)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		stored.flush(t, &l)
	}
	if all, _ := requestsOf(t, stored); all != writers*each {
		t.Errorf("got %d requests, want %d", all, writers*each)
	}
}
