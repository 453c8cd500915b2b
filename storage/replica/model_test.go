package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// made returns a commit that follows the one with the number before.
func made(number uint64, revision int64) *Commit {
	id := func(number uint64) (id uuid.UUID) {
		binary.BigEndian.PutUint64(id[:], number)
		return id
	}
	return &Commit{Number: number, ID: id(number), After: id(number - 1), Revision: revision}
}

// at checks what a model knows of a key at a revision.
func at(t *testing.T, m *Model, key string, revision int64, record string, known bool) {
	t.Helper()
	got, ok := m.Get(key, min(revision, m.Latest().Revision), revision)
	if string(got) != record || ok != known {
		t.Errorf("%s at %d: got %q, %v, want %q, %v", key, revision, got, ok, record, known)
	}
}

func TestModelRevisions(t *testing.T) {
	m := NewModel(1 << 20)
	m.Reset(*made(7, 10), 12)
	at(t, m, "a", 12, "", false)
	m.End(m.Begin("a"), Found{Record: []byte("1"), Since: 9, At: 12, Last: 10}, true)
	m.End(m.Begin("b"), Found{Since: 10, At: 12, Last: 10}, true) // there is none
	at(t, m, "a", 8, "", false)
	at(t, m, "a", 9, "1", true)
	at(t, m, "b", 9, "", false)
	at(t, m, "b", 10, "", true)
	m.Apply([]Change{{Key: "a", Record: []byte("2")}, {Key: "b", Record: []byte("3")}, {Key: "c", Record: []byte("4")}}, 13, made(8, 13), false)
	at(t, m, "a", 12, "", false)
	at(t, m, "a", 13, "2", true)
	at(t, m, "b", 13, "3", true)
	at(t, m, "c", 13, "", false) // nobody has asked for it
	m.Apply([]Change{{Key: "a", Record: nil}, {Key: "c", Record: []byte("5")}}, 14, made(9, 14), true)
	at(t, m, "a", 14, "", true)
	at(t, m, "c", 14, "5", true)
	m.Apply([]Change{{Key: "d", Record: []byte("6"), Unread: true}, {Key: "c", Record: []byte("7"), Unread: true}}, 15, made(10, 15), true)
	at(t, m, "d", 15, "", false)
	at(t, m, "c", 15, "", false) // it was held
	if last := m.Latest(); last.Number != 10 || last.Revision != 15 {
		t.Errorf("got last commit %v, want 10 at 15", last)
	}
	m.End(m.Begin("a"), Found{Record: []byte("old"), Since: 9, At: 14, Last: 14}, true)
	at(t, m, "a", 14, "", true) // a later state is kept
}

// TestModelFetches has a change overtake a read of etcd. It also has a member that lags
// behind answer a read.
func TestModelFetches(t *testing.T) {
	for name, test := range map[string]struct {
		before, while int64 // revisions of changes of the key, 0 for none
		at            int64 // at which it was read
		kept          bool
	}{
		"alone":                          {at: 10, kept: true},
		"a change meanwhile, seen":       {while: 20, at: 20, kept: true},
		"a change meanwhile, not seen":   {while: 20, at: 19},
		"a change before, seen":          {before: 20, at: 21, kept: true},
		"a change before, by one behind": {before: 20, at: 19},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewModel(1 << 20)
			m.Reset(*made(1, 10), 10)
			change := func(revision int64) {
				if revision != 0 {
					m.Apply([]Change{{Key: "a", Record: []byte("new")}}, revision, made(m.Latest().Number+1, revision), false)
				}
			}
			change(test.before)
			f := m.Begin("a")
			change(test.while)
			m.End(f, Found{Record: []byte("found"), Since: 10, At: test.at, Last: 10}, true)
			at(t, m, "a", 30, map[bool]string{true: "found"}[test.kept], test.kept)
			if len(m.fetching) > 0 {
				t.Errorf("reads that have ended are recorded: %v", m.fetching)
			}
		})
	}
	m := NewModel(1 << 20)
	m.Reset(*made(1, 10), 10)
	f, failed := m.Begin("a"), m.Begin("b")
	m.Reset(*made(2, 20), 20)
	m.End(f, Found{Record: []byte("old"), Since: 5, At: 25, Last: 20}, true)
	m.End(failed, Found{}, false)
	at(t, m, "a", 25, "", false)
	at(t, m, "b", 25, "", false)
}

// TestModelOwnAfterOthers has a node learn of its own commit late. The watch has already
// reported that commit and a later one.
func TestModelOwnAfterOthers(t *testing.T) {
	m := NewModel(1 << 20)
	m.Reset(*made(1, 10), 10)
	own := made(2, 11)
	m.Apply([]Change{{Key: "a", Record: []byte("own")}}, 11, own, false)
	m.Apply([]Change{{Key: "a", Record: []byte("other")}}, 12, made(3, 12), false)
	m.Apply([]Change{{Key: "a", Record: []byte("own")}}, 11, own, true)
	at(t, m, "a", 12, "", false)
	if last := m.Latest(); last.Number != 3 {
		t.Errorf("got last commit %d, want 3", last.Number)
	}
}

func TestModelBound(t *testing.T) {
	const limit = 64 << 10
	m := NewModel(limit)
	m.Reset(*made(1, 10), 10)
	put := func(key string, size int) {
		m.End(m.Begin(key), Found{Record: make([]byte, size), Since: 10, At: 10, Last: 10}, true)
	}
	for i := range 1000 {
		put("first", 100) // is used, and stays
		if _, ok := m.Get("first", 0, 10); !ok {
			t.Fatalf("what is used went after %d others", i)
		}
		put(fmt.Sprint(i), 100)
		sum := 0
		for _, e := range m.held {
			sum += e.Value.(*held).cost()
		}
		if m.size != sum || sum > limit || len(m.held) != m.used.Len() {
			t.Fatalf("after %d: size %d, the sum is %d of %d records, %d in order", i, m.size, sum, len(m.held), m.used.Len())
		}
	}
	at(t, m, "0", 10, "", false)
	put("large", limit/8)
	at(t, m, "large", 10, "", false)
	if m.SetLimit(limit / 4); m.size > limit/4 || m.size == 0 {
		t.Errorf("got %d bytes, want %d at most, and some", m.size, limit/4)
	}
	m.SetLimit(limit)
	m.Apply([]Change{{Key: "first", Record: make([]byte, 2*limit)}}, 11, made(2, 11), false) // a held one grows
	if m.size > limit {
		t.Errorf("got %d bytes, want %d at most", m.size, limit)
	}
	for i := range uint64(3 * recentCommits) {
		m.Apply(nil, int64(i)+12, made(i+3, int64(i)+12), true)
	}
	if len(m.recent) > recentCommits {
		t.Errorf("got %d commits, want %d at most", len(m.recent), recentCommits)
	}
}

func TestModelWait(t *testing.T) { synctest.Test(t, testModelWait) }

func testModelWait(t *testing.T) {
	m := NewModel(1 << 20)
	m.Reset(*made(1, 10), 10)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := m.Wait(ctx, 11); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want that the time is over", err)
	}
	done := make(chan error)
	go func() { done <- m.Wait(t.Context(), 12) }()
	m.Apply(nil, 11, made(2, 11), true)
	m.Apply(nil, 12, made(3, 12), true)
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.Reset(*made(1, 5), 6) // the cluster was restored
	if last := m.Latest(); last.Number != 1 || last.Revision != 5 {
		t.Errorf("got last commit %v, want 1 at 5", last)
	}
}

// TestModelResetBehind resets a model to a commit before one of its own that has landed.
// It must not take that for the last: what came between is yet to be told.
func TestModelResetBehind(t *testing.T) {
	m := NewModel(1 << 20)
	first := Commit{Number: 1, ID: uuid.New(), Revision: 11}
	second := Commit{Number: 2, ID: uuid.New(), After: first.ID, Revision: 12}
	third := Commit{Number: 3, ID: uuid.New(), After: second.ID, Revision: 13}
	m.Reset(first, 11)
	f := m.Begin("r")
	m.Apply([]Change{{Key: "own", Record: []byte("3")}}, 13, &third, true)
	m.End(f, Found{Record: []byte("old"), Since: 5, At: 11, Last: 11}, true)
	if got := m.Latest(); got != first {
		t.Errorf("got %v as the last commit, want the one of the reset", got)
	}
	if record, known := m.Get("r", 13, 13); known {
		t.Errorf("got record %q at a commit that is not known yet", record)
	}
	at(t, m, "r", 11, "old", true)
	for _, c := range []Commit{second, third} {
		if known, next := m.Place(c); known || !next {
			t.Fatalf("commit %d: got known %v and next %v, want it to be the next", c.Number, known, next)
		}
		m.Apply([]Change{{Key: "r", Record: fmt.Append(nil, c.Number)}}, c.Revision, &c, false)
	}
	if got := m.Latest(); got != third {
		t.Errorf("got %v as the last commit, want the third", got)
	}
	at(t, m, "r", 13, "3", true)
}
