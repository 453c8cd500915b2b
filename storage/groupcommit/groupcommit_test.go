package groupcommit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

var errDeliberate = errors.New("a deliberate failure")

// memory is an engine that keeps all in memory. Its states are numbers of commits.
type memory struct {
	mu      sync.Mutex
	states  []map[string][]byte // by number
	commits []int               // how many records each wrote
	cold    bool                // nothing is in memory until it was fetched
	fetched map[string]bool

	begin  func() error                                // before a group begins, nil for none
	commit func(g *groupcommit.Group[int]) (err error) // before a group is committed, nil for none
}

func newMemory() *memory {
	return &memory{states: []map[string][]byte{{}}, fetched: make(map[string]bool)}
}

func (m *memory) Begin() (int, error) {
	if m.begin != nil {
		if err := m.begin(); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.states) - 1, nil
}

func (m *memory) Commit(g *groupcommit.Group[int]) (int, error) {
	if m.commit != nil {
		if err := m.commit(g); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.states) - 1
	switch {
	case g.Base != last:
		return 0, groupcommit.ErrOvertaken
	case len(g.Writes) == 0:
		return last, nil
	}
	m.add(g.Writes)
	return last + 1, nil
}

// add makes the next state. m.mu is held.
func (m *memory) add(writes map[string]records.Write) {
	next := maps.Clone(m.states[len(m.states)-1])
	for k, w := range writes {
		if next[k] = w.Record; w.Record == nil {
			delete(next, k)
		}
	}
	m.states, m.commits = append(m.states, next), append(m.commits, len(writes))
}

func (m *memory) Snapshot(of int, r groupcommit.Run) records.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &state{memory: m, records: m.states[of], run: r}
}

type state struct {
	memory  *memory
	records map[string][]byte
	run     groupcommit.Run
	missed  string
}

func (s *state) Get(k records.Key) ([]byte, error) {
	s.memory.mu.Lock()
	miss := s.memory.cold && !s.run.Wait && !s.memory.fetched[string(k)]
	s.memory.mu.Unlock()
	if miss {
		s.missed = string(k)
		panic(records.ErrAbandoned)
	}
	if record := s.records[string(k)]; record != nil {
		return record, nil
	}
	return nil, domain.ErrNotFound
}

func (s *state) Fetch() error {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.fetched[s.missed] = true
	return nil
}

func (s *state) Iterate(prefix records.Key) records.Iterator {
	i := &iterator{records: s.records}
	for _, k := range slices.Sorted(maps.Keys(s.records)) {
		if strings.HasPrefix(k, string(prefix)) {
			i.keys = append(i.keys, k)
		}
	}
	return i
}

type iterator struct {
	records map[string][]byte
	keys    []string
	at      int
}

func (i *iterator) Seek(k records.Key)     { i.at, _ = slices.BinarySearch(i.keys, string(k)) }
func (i *iterator) Next()                  { i.at++ }
func (i *iterator) Valid() bool            { return i.at < len(i.keys) }
func (i *iterator) Key() records.Key       { return records.Key(i.keys[i.at]) }
func (i *iterator) Value() ([]byte, error) { return i.records[i.keys[i.at]], nil }
func (i *iterator) Err() error             { return nil }
func (i *iterator) Close()                 {}

var limits = groupcommit.Limits{Operations: 128, Writes: 1000, GroupSize: 1 << 20, OperationSize: 1 << 20}

func start(t *testing.T, m *memory, l groupcommit.Limits) *groupcommit.Committer[int] {
	t.Helper()
	c := groupcommit.New(m, l)
	t.Cleanup(func() {
		c.Close()
		c.Wait()
	})
	return c
}

func newWorkspace(slug string) domain.Workspace {
	return domain.Workspace{ID: uuid.NewString(), Slug: slug}
}

func put(w domain.Workspace) func(*records.Tx) error {
	return func(t *records.Tx) error { return t.PutWorkspace(w) }
}

// find looks a slug up in the last state.
func (m *memory) find(slug string) error {
	last, _ := m.Begin()
	_, err := records.NewReader(m.Snapshot(last, groupcommit.Run{Wait: true})).WorkspaceID(slug)
	return err
}

// hold lets the next commit wait, and returns what lets it go on.
func (m *memory) hold(then func(g *groupcommit.Group[int]) error) (release func()) {
	gate := make(chan struct{})
	m.commit = func(g *groupcommit.Group[int]) error {
		m.commit = nil
		<-gate
		if then != nil {
			return then(g)
		}
		return nil
	}
	return func() { close(gate) }
}

// TestGroups makes writers wait for a commit in flight. Their writes then go into one more
// commit.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := start(t, m, limits)
		release := m.hold(nil)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := c.Update(t.Context(), put(newWorkspace(fmt.Sprint("w", i)))); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release()
		all.Wait()
		if len(m.commits) != 2 {
			t.Errorf("got commits of %d records, want one alone and one of all others", m.commits)
		}
	})
}

// TestFromReserve refuses all groups that may not use the reserve. An operation that may use it is
// never in a group with others, whatever their order.
func TestFromReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := start(t, m, limits)
		refuse := func(g *groupcommit.Group[int]) error {
			if g.FromReserve {
				return nil
			}
			return domain.ErrUnavailable
		}
		release := m.hold(func(g *groupcommit.Group[int]) error {
			m.commit = refuse
			return nil
		})
		var all sync.WaitGroup
		for i := range 7 { // the first one is in flight while the others come
			all.Go(func() {
				ctx, want := t.Context(), error(domain.ErrUnavailable)
				if i == 0 || i == 1 || i == 4 {
					want = nil
				}
				if i == 1 || i == 4 {
					ctx = domain.FromReserve(ctx)
				}
				if err := c.Update(ctx, put(newWorkspace(fmt.Sprint("w", i)))); (err == nil) != (want == nil) || want != nil && !errors.Is(err, want) {
					t.Errorf("operation %d: got error %v, want %v", i, err, want)
				}
			})
			synctest.Wait()
		}
		release()
		all.Wait()
	})
}

// TestOvertaken has another node commit first, until it does not.
func TestOvertaken(t *testing.T) {
	for name, often := range map[string]int{"three times": 3, "always": 1 << 30} {
		m := newMemory()
		c := start(t, m, limits)
		others := 0
		m.commit = func(*groupcommit.Group[int]) error {
			if others++; others <= often {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.add(nil)
			}
			return nil
		}
		runs := 0
		err := c.Update(t.Context(), func(t *records.Tx) error {
			runs++
			return put(newWorkspace("w"))(t)
		})
		switch {
		case often == 3 && (err != nil || runs != 4):
			t.Errorf("%s: got error %v after %d runs, want none after 4", name, err, runs)
		case often > 3 && (!errors.Is(err, domain.ErrConflict) || runs != groupcommit.MaxTries):
			t.Errorf("%s: got error %v after %d runs, want a conflict after %d", name, err, runs, groupcommit.MaxTries)
		}
	}
}

// TestFailedGroup lets a group fail in flight while the next one is built on it.
func TestFailedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := start(t, m, limits)
		release := m.hold(func(*groupcommit.Group[int]) error { return errDeliberate })
		failed, behind := make(chan error, 1), make(chan error, 1)
		var saw []bool
		go func() { failed <- c.Update(t.Context(), put(newWorkspace("first"))) }()
		synctest.Wait()
		go func() {
			behind <- c.Update(t.Context(), func(t *records.Tx) error {
				_, err := t.WorkspaceID("first")
				saw = append(saw, err == nil)
				return put(newWorkspace("second"))(t)
			})
		}()
		synctest.Wait()
		release()
		if err := <-failed; !errors.Is(err, errDeliberate) {
			t.Errorf("got error %v, want the commit's", err)
		}
		if err := <-behind; err != nil {
			t.Errorf("the next one: got error %v, want none", err)
		}
		if !slices.Equal(saw, []bool{true, false}) {
			t.Errorf("the next one saw the first: %v, want it to run again without", saw)
		}
		if err := m.find("first"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the failed write: got error %v, want ErrNotFound", err)
		}
	})
}

// TestRefused is an engine that cannot begin: no function runs.
func TestRefused(t *testing.T) {
	m := newMemory()
	m.begin = func() error { return errDeliberate }
	c := start(t, m, limits)
	err := c.Update(t.Context(), func(*records.Tx) error {
		t.Error("a function ran")
		return nil
	})
	if !errors.Is(err, errDeliberate) {
		t.Errorf("got error %v, want the engine's", err)
	}
}

// TestErrors checks errors of single operations, in a group with operations that succeed.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := start(t, m, limits)
		release := m.hold(nil)
		large := newWorkspace("large")
		large.Name = strings.Repeat("x", 100<<10)
		var all sync.WaitGroup
		for _, op := range []struct {
			want string
			fn   func(*records.Tx) error
		}{
			{"", put(newWorkspace("alone"))},
			{"deliberate failure", func(tx *records.Tx) error { return errors.Join(put(newWorkspace("failed"))(tx), errDeliberate) }},
			{"panic: deliberate", func(*records.Tx) error { panic("deliberate") }},
			{"one transaction", func(tx *records.Tx) error {
				for range 16 {
					large.ID, large.Slug = uuid.NewString(), uuid.NewString()
					if err := tx.PutWorkspace(large); err != nil {
						return err
					}
				}
				return nil
			}},
			{"", put(newWorkspace("last"))},
		} {
			all.Go(func() {
				err := c.Update(t.Context(), op.fn)
				if (op.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), op.want) {
					t.Errorf("got error %v, want %q", err, op.want)
				}
			})
			synctest.Wait()
		}
		release()
		all.Wait()
		if err := errors.Join(m.find("alone"), m.find("last")); err != nil {
			t.Error(err)
		}
		if err := m.find("failed"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("got error %v, want ErrNotFound", err)
		}
	})
}

// TestGroupSize splits what waits into groups that are not too large. One operation may be larger.
func TestGroupSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := limits
		l.GroupSize = 250 << 10
		c := start(t, m, l)
		release := m.hold(nil)
		var all sync.WaitGroup
		for i, size := range []int{1, 100 << 10, 100 << 10, 100 << 10, 300 << 10, 1} {
			w := newWorkspace(fmt.Sprint("w", i))
			w.Name = strings.Repeat("x", size)
			all.Go(func() {
				if err := c.Update(t.Context(), put(w)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release()
		all.Wait()
		if got := len(m.commits); got != 5 {
			t.Errorf("got %d commits, want one of the first, of two, of one, of the large one and of the last", got)
		}
	})
}

// TestFetched runs an operation whose reads are not in memory. Others go first.
func TestFetched(t *testing.T) {
	m := newMemory()
	m.cold = true
	c := start(t, m, limits)
	if err := c.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Fatal(err)
	}
	if len(m.fetched) == 0 {
		t.Error("nothing was fetched")
	}
}

// TestContext ends before, while it waits, and while it runs.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		small := limits
		small.Operations = 1
		c := start(t, m, small)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		never := func(*records.Tx) error {
			t.Error("the function of a caller that gave up ran")
			return nil
		}
		if err := c.Update(ended, never); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want context.Canceled", err)
		}
		release := m.hold(nil)
		var all sync.WaitGroup
		for i := range 2 { // one in flight, and the next one full
			all.Go(func() {
				if err := c.Update(t.Context(), put(newWorkspace(fmt.Sprint("w", i)))); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		waiting, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			if err := c.Update(waiting, never); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		all.Wait()
		running, cancel := context.WithCancel(t.Context())
		err := c.Update(running, func(t *records.Tx) error {
			cancel()
			return put(newWorkspace("late"))(t)
		})
		if err := errors.Join(err, m.find("late")); err != nil {
			t.Errorf("cancelled while it ran: %v", err)
		}
	})
}

// TestClose finishes the queued operations and refuses later ones.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := groupcommit.New(m, limits)
		release := m.hold(nil)
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				if err := c.Update(t.Context(), put(newWorkspace(fmt.Sprint("w", i)))); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		c.Close()
		if err := c.Update(t.Context(), put(newWorkspace("x"))); !errors.Is(err, domain.ErrClosed) {
			t.Errorf("got error %v, want ErrClosed", err)
		}
		release()
		c.Wait()
		all.Wait()
	})
}

// exclusive is an engine that gives up a commit after a minute.
type exclusive struct {
	*memory
	running atomic.Int32 // commits
}

var errSilent = errors.New("no answer")

func (e *exclusive) Begin() (int, error) {
	if e.running.Load() > 0 {
		return 0, errSilent
	}
	return e.memory.Begin()
}

func (e *exclusive) Commit(g *groupcommit.Group[int]) (int, error) {
	e.running.Add(1)
	defer e.running.Add(-1)
	return e.memory.Commit(g)
}

func (e *exclusive) Admit(*groupcommit.Group[int]) {}

func (e *exclusive) Patience() time.Duration { return time.Minute }

func (e *exclusive) Abandon(*groupcommit.Group[int]) error { return domain.ErrUnknown }

// TestAbandoned has a commit take too long, of one operation and of a group. It is answered,
// later ones are refused until it ends, and Wait waits for it.
func TestAbandoned(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "a group": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &exclusive{memory: newMemory()}
				c := groupcommit.New(m, limits)
				fast := m.hold(nil)
				slow := fast
				var all sync.WaitGroup
				update := func(slug string, want error) {
					all.Go(func() {
						if err := c.Update(context.Background(), put(newWorkspace(slug))); !errors.Is(err, want) {
							t.Errorf("%s: got error %v, want %v", slug, err, want)
						}
					})
					synctest.Wait()
				}
				if others > 0 { // they gather behind one
					update("first", nil)
					for i := range others {
						update(fmt.Sprint("other", i), domain.ErrUnknown)
					}
					slow = m.hold(nil)
					fast()
					synctest.Wait()
				} else {
					update("late", domain.ErrUnknown)
				}
				update("behind", errSilent)
				begun := time.Now()
				all.Wait()
				if took := time.Since(begun); took != time.Minute {
					t.Errorf("answered after %v, want a minute", took)
				}
				if err := c.Update(context.Background(), put(newWorkspace("refused"))); !errors.Is(err, errSilent) {
					t.Errorf("while it runs: got error %v, want the engine's", err)
				}
				slow()
				synctest.Wait()
				if err := c.Update(context.Background(), put(newWorkspace("after"))); err != nil {
					t.Errorf("when it has ended: %v", err)
				}
				// Close and Wait, while another commit takes too long.
				slow = m.hold(nil)
				update("last", domain.ErrUnknown)
				c.Close()
				waited := make(chan struct{})
				go func() {
					c.Wait()
					close(waited)
				}()
				all.Wait()
				synctest.Wait()
				select {
				case <-waited:
					t.Error("Wait has not waited for the commit that was abandoned")
				default:
				}
				slow()
				<-waited
			})
		})
	}
}

// TestExclusive fails a group: an operation that has seen none of its writes keeps its own
// result. A group without writes is not committed.
func TestExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &exclusive{memory: newMemory()}
		c := groupcommit.New(m, limits)
		defer c.Close()
		m.commit = func(*groupcommit.Group[int]) error {
			t.Error("a group without writes was committed")
			return nil
		}
		if err := c.Update(t.Context(), func(*records.Tx) error { return errDeliberate }); !errors.Is(err, errDeliberate) {
			t.Errorf("got error %v, want the function's", err)
		}
		release := m.hold(nil)
		var all sync.WaitGroup
		update := func(want error, fn func(*records.Tx) error) {
			all.Go(func() {
				if err := c.Update(t.Context(), fn); !errors.Is(err, want) {
					t.Errorf("got error %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		update(nil, put(newWorkspace("first")))
		update(errDeliberate, func(*records.Tx) error { return errDeliberate })
		update(domain.ErrUnknown, put(newWorkspace("second")))
		update(domain.ErrUnknown, func(*records.Tx) error { return errDeliberate })
		m.commit = func(*groupcommit.Group[int]) error { return domain.ErrUnknown }
		release()
		all.Wait()
	})
}

// TestGate closes a gate with a call inside.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g groupcommit.Gate
		if !g.Enter() {
			t.Error("a new gate is closed")
		}
		waited := false
		g.Close()
		go func() {
			g.Wait()
			waited = true
		}()
		synctest.Wait()
		if g.Enter() || waited {
			t.Error("a closed gate lets calls in, or does not wait for those inside")
		}
		g.Leave()
		synctest.Wait()
		if !waited {
			t.Error("all have left, and Wait waits")
		}
	})
}
