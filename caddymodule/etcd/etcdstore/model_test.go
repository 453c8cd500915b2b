package etcdstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// made returns a commit that follows the one with the number before.
func made(number uint64, revision int64) *commit {
	id := func(number uint64) (id uuid.UUID) {
		binary.BigEndian.PutUint64(id[:], number)
		return id
	}
	return &commit{number: number, id: id(number), after: id(number - 1), revision: revision}
}

// at wants what a model knows of a key at a revision.
func at(t *testing.T, m *model, key string, revision int64, record string, known bool) {
	t.Helper()
	got, ok := m.get(key, min(revision, m.latest().revision), revision)
	if string(got) != record || ok != known {
		t.Errorf("%s at %d: got %q, %v, want %q, %v", key, revision, got, ok, record, known)
	}
}

func TestModelRevisions(t *testing.T) {
	m := newModel(1 << 20)
	m.reset(*made(7, 10), 12)
	at(t, m, "a", 12, "", false)
	m.end(m.begin("a"), found{record: []byte("1"), since: 9, at: 12, last: 10}, true)
	m.end(m.begin("b"), found{since: 10, at: 12, last: 10}, true) // there is none
	at(t, m, "a", 8, "", false)
	at(t, m, "a", 9, "1", true)
	at(t, m, "b", 9, "", false)
	at(t, m, "b", 10, "", true)
	m.apply([]change{{"a", []byte("2")}, {"b", []byte("3")}, {"c", []byte("4")}}, 13, made(8, 13), false)
	at(t, m, "a", 12, "", false)
	at(t, m, "a", 13, "2", true)
	at(t, m, "b", 13, "3", true)
	at(t, m, "c", 13, "", false) // which nobody has asked for
	m.apply([]change{{"a", nil}, {"c", []byte("5")}}, 14, made(9, 14), true)
	at(t, m, "a", 14, "", true)
	at(t, m, "c", 14, "5", true)
	if last := m.latest(); last.number != 9 || last.revision != 14 {
		t.Errorf("got last commit %v, want 9 at 14", last)
	}
	m.end(m.begin("a"), found{record: []byte("old"), since: 9, at: 14, last: 14}, true)
	at(t, m, "a", 14, "", true) // a later state is kept
}

// TestModelFetches is a read of etcd that a change overtakes, and one that is answered
// by a member that lags behind.
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
			m := newModel(1 << 20)
			m.reset(*made(1, 10), 10)
			change := func(revision int64) {
				if revision != 0 {
					m.apply([]change{{"a", []byte("new")}}, revision, made(m.latest().number+1, revision), false)
				}
			}
			change(test.before)
			f := m.begin("a")
			change(test.while)
			m.end(f, found{record: []byte("found"), since: 10, at: test.at, last: 10}, true)
			at(t, m, "a", 30, map[bool]string{true: "found"}[test.kept], test.kept)
			if len(m.fetching) > 0 {
				t.Errorf("reads are noted that have ended: %v", m.fetching)
			}
		})
	}
	m := newModel(1 << 20)
	m.reset(*made(1, 10), 10)
	f, failed := m.begin("a"), m.begin("b")
	m.reset(*made(2, 20), 20)
	m.end(f, found{record: []byte("old"), since: 5, at: 25, last: 20}, true)
	m.end(failed, found{}, false)
	at(t, m, "a", 25, "", false)
	at(t, m, "b", 25, "", false)
}

// TestModelOwnAfterOthers is a commit of this node's of which it learns after the watch
// has told of that and of a later one.
func TestModelOwnAfterOthers(t *testing.T) {
	m := newModel(1 << 20)
	m.reset(*made(1, 10), 10)
	own := made(2, 11)
	m.apply([]change{{"a", []byte("own")}}, 11, own, false)
	m.apply([]change{{"a", []byte("other")}}, 12, made(3, 12), false)
	m.apply([]change{{"a", []byte("own")}}, 11, own, true)
	at(t, m, "a", 12, "", false)
	if last := m.latest(); last.number != 3 {
		t.Errorf("got last commit %d, want 3", last.number)
	}
}

func TestModelBound(t *testing.T) {
	const limit = 64 << 10
	m := newModel(limit)
	m.reset(*made(1, 10), 10)
	put := func(key string, size int) {
		m.end(m.begin(key), found{record: make([]byte, size), since: 10, at: 10, last: 10}, true)
	}
	for i := range 1000 {
		put("first", 100) // is used, and stays
		if _, ok := m.get("first", 0, 10); !ok {
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
	m.apply([]change{{"first", make([]byte, 2*limit)}}, 11, made(2, 11), false) // a held one grows
	if m.size > limit {
		t.Errorf("got %d bytes, want %d at most", m.size, limit)
	}
	for i := range uint64(3 * recentCommits) {
		m.apply(nil, int64(i)+12, made(i+3, int64(i)+12), true)
	}
	if len(m.recent) > recentCommits {
		t.Errorf("got %d commits, want %d at most", len(m.recent), recentCommits)
	}
}

func TestModelWait(t *testing.T) {
	m := newModel(1 << 20)
	m.reset(*made(1, 10), 10)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.wait(ctx, 11); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want that the time is over", err)
	}
	done := make(chan error)
	go func() { done <- m.wait(t.Context(), 12) }()
	m.apply(nil, 11, made(2, 11), true)
	m.apply(nil, 12, made(3, 12), true)
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.reset(*made(1, 5), 6) // the cluster was restored
	if last := m.latest(); last.number != 1 || last.revision != 5 {
		t.Errorf("got last commit %v, want 1 at 5", last)
	}
}

// TestModelResetBehind resets a model to a commit before one of its own that has landed.
// It must not take that for the last: what came between is yet to be told.
func TestModelResetBehind(t *testing.T) {
	m := newModel(1 << 20)
	first := commit{number: 1, id: uuid.New(), revision: 11}
	second := commit{number: 2, id: uuid.New(), after: first.id, revision: 12}
	third := commit{number: 3, id: uuid.New(), after: second.id, revision: 13}
	m.reset(first, 11)
	f := m.begin("r")
	m.apply([]change{{key: "own", record: []byte("3")}}, 13, &third, true)
	m.end(f, found{record: []byte("old"), since: 5, at: 11, last: 11}, true)
	if got := m.latest(); got != first {
		t.Errorf("got %v as the last commit, want the one of the reset", got)
	}
	if record, known := m.get("r", 13, 13); known {
		t.Errorf("got record %q at a commit that is not known yet", record)
	}
	at(t, m, "r", 11, "old", true)
	for _, c := range []commit{second, third} {
		if known, next := m.place(c); known || !next {
			t.Fatalf("commit %d: got known %v and next %v, want it to be the next", c.number, known, next)
		}
		m.apply([]change{{key: "r", record: fmt.Append(nil, c.number)}}, c.revision, &c, false)
	}
	if got := m.latest(); got != third {
		t.Errorf("got %v as the last commit, want the third", got)
	}
	at(t, m, "r", 13, "3", true)
}
