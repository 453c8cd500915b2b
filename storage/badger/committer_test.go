package badger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

var errDeliberate = errors.New("a deliberate failure")

// TestAbandon abandons a commit before Badger has it, after that, and when it has just ended: then
// the disk has answered.
func TestAbandon(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	c := s.committer
	for phase, want := range map[int32]error{preparing: domain.ErrUnavailable, committing: domain.ErrUnknown, idle: domain.ErrUnknown} {
		c.phase.Store(phase)
		if err := c.Abandon(nil); !errors.Is(err, want) {
			t.Errorf("phase %d: got error %v, want %v", phase, err, want)
		}
		if isSilent := c.silent.Swap(false); isSilent == (phase == idle) {
			t.Errorf("phase %d: the disk does not answer: %t", phase, isSilent)
		}
		if _, err := c.Begin(); errors.Is(err, domain.ErrUnavailable) == (phase == idle) {
			t.Errorf("phase %d: the next one: got error %v", phase, err)
		}
	}
	c.phase.Store(idle)
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

// TestFailedCommit stops writing. The stamps advance, because the outcome is unknown.
func TestFailedCommit(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	w := newWorkspace("w")
	for _, fails := range []bool{false, true} {
		before := s.Stamps().Workspace(w.ID)
		if fails {
			failCommits(t, s)
		}
		err := s.Update(t.Context(), put(w))
		if errors.Is(err, ErrStopped) != fails || errors.Is(err, domain.ErrUnknown) != fails || s.Stamps().Workspace(w.ID) == before {
			t.Errorf("a commit that fails: %t: got error %v, and the stamp %d after %d", fails, err, s.Stamps().Workspace(w.ID), before)
		}
	}
	err := s.Update(t.Context(), func(domain.Tx) error {
		t.Error("a function ran after a failed commit")
		return nil
	})
	if !errors.Is(err, ErrStopped) || !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("after it: got error %v, want ErrStopped and that it is unavailable", err)
	}
	if _, err := workspace(s, "w"); err != nil {
		t.Errorf("a read after it: %v", err)
	}
}

// TestFailedSequence acknowledges the durable writes, and then refuses to use the disk.
func TestFailedSequence(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.committer.sequenceFile.failed = errDeliberate // a flush
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Errorf("a durable change: got error %v, want none", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("x"))); !errors.Is(err, ErrStopped) {
		t.Errorf("got error %v, want ErrStopped", err)
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
		w := newWorkspace("full")
		before := s.Stamps().Workspace(w.ID)
		if err := s.Update(t.Context(), put(w)); !errors.Is(err, ErrDiskFull) || s.Stamps().Workspace(w.ID) != before {
			t.Errorf("full: got error %v and the stamp %d after %d, want ErrDiskFull and the same", err, s.Stamps().Workspace(w.ID), before)
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

// TestCloseGivesUp closes a store while a view does not end.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenInMemory()
		if err != nil {
			t.Fatal(err)
		}
		leave, viewed := make(chan struct{}), make(chan error, 1)
		go func() { viewed <- s.View(t.Context(), func(domain.Reader) error { <-leave; return nil }) }()
		synctest.Wait()
		first := s.Close()
		if first == nil {
			t.Error("Close returned no error though a view was stuck")
		}
		if again := s.Close(); !errors.Is(again, first) {
			t.Errorf("Close once more: got %v, want %v", again, first)
		}
		if _, err := workspace(s, "w"); !errors.Is(err, domain.ErrClosed) {
			t.Errorf("View: got error %v, want ErrClosed", err)
		}
		close(leave) // the rest is done behind the scenes
		if err := <-viewed; err != nil {
			t.Errorf("the stuck view: %v", err)
		}
	})
}
