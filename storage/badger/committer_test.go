package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

var errDeliberate = errors.New("a deliberate failure")

// hold lets an update occupy the committer. The function it returns waits
// until n operations are queued behind it and lets them go as one group.
func hold(t *testing.T, s *Store) (release func(n int)) {
	t.Helper()
	running, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.Update(context.Background(), func(domain.Tx) error {
			close(running)
			<-gate
			return nil
		})
	}()
	<-running
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // so that the store can be closed after a failure
	return func(n int) {
		t.Helper()
		wait.Until(t, "all operations are queued", func() bool { return s.queued() >= n })
		open()
		if err := <-done; err != nil {
			t.Errorf("the holding update: %v", err)
		}
	}
}

func (s *Store) queued() int { return s.committer.groups.Queued() }

// enqueue starts updates one after another, in order, and returns a function
// that waits for all answers.
func enqueue(t *testing.T, s *Store, fns ...func(domain.Tx) error) (answers func() []error) {
	t.Helper()
	errs := make([]error, len(fns))
	var wg sync.WaitGroup
	before := s.queued()
	for i, fn := range fns {
		wg.Go(func() { errs[i] = s.Update(context.Background(), fn) })
		wait.Until(t, "the operation is queued", func() bool { return s.queued() > before+i })
	}
	return func() []error {
		wg.Wait()
		return errs
	}
}

// TestAbandonLate abandons a commit that has just ended. The disk has answered then.
func TestAbandonLate(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	c := s.committer
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Fatal(err)
	}
	if err := c.Abandon(nil); !errors.Is(err, domain.ErrUnknown) {
		t.Errorf("got error %v, want %v", err, domain.ErrUnknown)
	}
	if c.silent.Load() {
		t.Error("the disk does not answer")
	}
}

func put(w domain.Workspace) func(domain.Tx) error {
	return func(tx domain.Tx) error { return tx.PutWorkspace(w) }
}

func workspace(s *Store, slug string) (w domain.Workspace, err error) {
	err = s.View(context.Background(), func(r domain.Reader) error {
		w, err = workspaceBySlug(r, slug)
		return err
	})
	return w, err
}

// TestTransactionLimits fills a group to the byte and to the record. Badger
// must agree with our reckoning.
func TestTransactionLimits(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	limits := limitsOf(s.db)
	type writes map[string]records.Write
	put := func(to writes, k records.Key, record []byte) { to[string(k)] = records.Write{Key: k, Record: record} }
	for name, fill := range map[string]func(writes){
		"size": func(to writes) {
			for i, room := byte(0), limits.GroupSize; ; i++ {
				k := records.Key{1, 'x', i}
				room -= int64(len(k)) + limits.WriteCost
				put(to, k, make([]byte, min(room, records.MaxRecord)))
				if room <= records.MaxRecord {
					return
				}
				room -= records.MaxRecord
			}
		},
		"count": func(to writes) {
			for i := range limits.Writes {
				put(to, records.Key(fmt.Sprint("\x01x", i)), []byte{0})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := make(writes)
			fill(all)
			err := s.write(func(txn *badgerdb.Txn) error {
				number := records.CommitWrite(1)
				return errors.Join(writeTo(txn, all), txn.Set(number.Key, number.Record))
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFailedCommit answers all operations that depended on the group with the failure, and
// stops writing.
func TestFailedCommit(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is on fire")
	wait := func() func() []error {
		release := hold(t, s)
		s.committer.commit = func(func() error) error { return broken }
		wait := enqueue(
			t, s,
			func(domain.Tx) error { return errDeliberate }, // has seen no write
			put(newWorkspace("lost")),
			func(tx domain.Tx) error {
				if _, err := workspaceBySlug(tx, "lost"); err == nil {
					return errDeliberate // only because of its neighbour
				}
				return nil
			},
			func(domain.Tx) error { return nil },
		)
		release(4)
		return wait
	}()
	errs := wait()
	if !errors.Is(errs[0], errDeliberate) || errors.Is(errs[0], broken) {
		t.Errorf("before any write: got error %v, want its own", errs[0])
	}
	for i, err := range errs[1:] {
		if !errors.Is(err, broken) || !errors.Is(err, ErrStopped) {
			t.Errorf("operation %d: got error %v, want the commit's", i+1, err)
		}
	}
	err := s.Update(t.Context(), func(domain.Tx) error {
		t.Error("a function ran after a failed commit")
		return nil
	})
	if !errors.Is(err, broken) || !errors.Is(err, ErrStopped) {
		t.Errorf("after it: got error %v, want one that wraps the commit's", err)
	}
	if _, err := workspace(s, "before"); err != nil {
		t.Errorf("a read after it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, folder)
	if err := s.Update(t.Context(), put(newWorkspace("after"))); err != nil {
		t.Errorf("reopened: %v", err)
	}
}

func TestPanickingCommit(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.committer.commit = func(func() error) error { panic("deliberate") }
	if err := s.Update(t.Context(), put(newWorkspace("w"))); !errors.Is(err, ErrStopped) {
		t.Errorf("got error %v, want ErrStopped", err)
	}
}

// TestFailedSequence acknowledges the durable writes, and then refuses to use the disk.
func TestFailedSequence(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.committer.commit = func(commit func() error) error {
		return cmp.Or(commit(), s.committer.sequenceFile.file.Close())
	}
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Errorf("a durable change: got error %v, want none", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("x"))); !errors.Is(err, ErrStopped) {
		t.Errorf("got error %v, want ErrStopped", err)
	}
	if err := s.Close(); err == nil {
		t.Error("Close does not tell of the sequence file")
	}
}

// TestTooBigCommit is known to have changed nothing.
func TestTooBigCommit(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	works := s.committer.commit
	s.committer.commit = func(func() error) error {
		s.committer.commit = works
		return badgerdb.ErrTxnTooBig
	}
	if err := s.Update(t.Context(), put(newWorkspace("w"))); !errors.Is(err, domain.ErrTooLarge) {
		t.Errorf("got error %v, want ErrTooLarge", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	var free atomic.Uint64
	var fails atomic.Bool
	free.Store(minFree)
	s, err := openFolder(t.TempDir(), Options{}, func(string) (uint64, error) {
		if fails.Load() {
			return 0, errDeliberate
		}
		return free.Load(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		free.Store(minFree - 1)
		if err := s.Update(t.Context(), put(newWorkspace("full"))); !errors.Is(err, ErrDiskFull) {
			t.Errorf("full: got error %v, want ErrDiskFull", err)
		}
		if _, err := workspace(s, "full"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the refused change: got error %v, want ErrNotFound", err)
		}
		if _, err := workspace(s, "before"); err != nil {
			t.Errorf("a read: %v", err)
		}
		if err := s.Update(t.Context(), func(domain.Tx) error { return nil }); err != nil {
			t.Errorf("an update that writes nothing: %v", err)
		}
		fails.Store(true)
		if err := s.Update(t.Context(), put(newWorkspace("unknown"))); !errors.Is(err, errDeliberate) {
			t.Errorf("unknown: got error %v, want the cause", err)
		}
		fails.Store(false)
		free.Store(minFree)
		if err := s.Update(t.Context(), put(newWorkspace("after"))); err != nil {
			t.Errorf("with space again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// checkGoroutines waits until there are no more goroutines than before.
func checkGoroutines(t *testing.T, before int) {
	t.Helper()
	if !wait.Eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	}
}

// TestCloseUnderLoad loses no acknowledged write and leaves no goroutine.
func TestCloseUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	folder := t.TempDir()
	s, err := Open(folder, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	acknowledged := make([]int, 32)
	var written atomic.Int64
	for writer := range acknowledged {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := s.Update(context.Background(), put(newWorkspace(fmt.Sprint(writer, "-", i))))
				if errors.Is(err, domain.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("writer %d: %v", writer, err)
					return
				}
				acknowledged[writer] = i + 1
				written.Add(1)
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for {
				_, err := workspace(s, "0-0")
				if errors.Is(err, domain.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, domain.ErrNotFound) {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Until(t, "several groups are written", func() bool { return written.Load() > 10*int64(len(acknowledged)) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close once more: %v", err)
	}
	checkGoroutines(t, before)

	s = mustOpen(t, folder)
	for writer, n := range acknowledged {
		for i := range n {
			if _, err := workspace(s, fmt.Sprint(writer, "-", i)); err != nil {
				t.Errorf("acknowledged %d-%d: %v", writer, i, err)
			}
		}
	}
}

func TestCloseWaitsForView(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Fatal(err)
	}
	inside, leave, viewed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		viewed <- s.View(context.Background(), func(r domain.Reader) error {
			close(inside)
			<-leave
			_, err := workspaceBySlug(r, "w")
			return err
		})
	}()
	<-inside
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for { // latecomers are turned away, not kept waiting
		_, err := workspace(s, "w")
		if errors.Is(err, domain.ErrClosed) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned %v during a view", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if err := <-viewed; err != nil {
		t.Errorf("the view: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestCloseGivesUp leaves a disk that does not answer alone.
func TestCloseGivesUp(t *testing.T) {
	before := runtime.NumGoroutine()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.limit = 50 * time.Millisecond
	begun, stuck := make(chan struct{}), make(chan struct{})
	s.committer.commit = func(commit func() error) error {
		close(begun)
		<-stuck
		return commit()
	}
	answer := make(chan error, 1)
	go func() { answer <- s.Update(context.Background(), put(newWorkspace("w"))) }()
	<-begun
	first := s.Close()
	if first == nil {
		t.Error("Close returned no error though a commit was stuck")
	}
	if again := s.Close(); !errors.Is(again, first) {
		t.Errorf("Close once more: got %v, want %v", again, first)
	}
	if _, err := workspace(s, "w"); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("View: got error %v, want ErrClosed", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("x"))); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("Update: got error %v, want ErrClosed", err)
	}
	close(stuck) // the disk comes back: the rest is done behind the scenes
	if err := <-answer; err != nil {
		t.Errorf("the stuck update: %v", err)
	}
	checkGoroutines(t, before)
}

// TestStampsOfFailedCommits advances stamps unless nothing was written for
// certain.
func TestStampsOfFailedCommits(t *testing.T) {
	for name, test := range map[string]struct {
		commit  func(func() error) error
		free    uint64
		changes bool
	}{
		"written":      {func(commit func() error) error { return commit() }, minFree, true},
		"unknown":      {func(func() error) error { return errDeliberate }, minFree, true},
		"panicked":     {func(func() error) error { panic("deliberate") }, minFree, true},
		"too big":      {func(func() error) error { return badgerdb.ErrTxnTooBig }, minFree, true},
		"disk is full": {func(commit func() error) error { return commit() }, minFree - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{folder: t.TempDir()}
			d.free.Store(1 << 40)
			s, err := openFolder(d.folder, testOptions, d.freeOf)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.committer.commit = test.commit
			d.free.Store(test.free)
			w := newWorkspace("w")
			before := s.Stamps().Workspace(w.ID)
			err = s.Update(t.Context(), put(w))
			if changed := s.Stamps().Workspace(w.ID) != before; changed != test.changes {
				t.Errorf("after error %v: the stamp changed: %v, want %v", err, changed, test.changes)
			}
		})
	}
}
